"""Progress: plain lines at a slow pace, a live block in a terminal, nothing when quiet; the clock is the test's."""

from __future__ import annotations

import io
import itertools
from collections.abc import Callable

import pytest
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.report.progress import Progress, Rate


class Time:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def drive(progress: Progress, time: Time, *, seconds: int = 20) -> None:
    """One phase with a count that rises and one that falls, an update twice a second."""
    progress.say("starting the cluster")
    progress.phase("deploy", 180)
    for step in range(seconds * 2):
        time.now += 0.5
        counts = {"pods-created": (min(1000, step * 60), 1000), "pods-gone": (1000 - step * 10, 0)}
        progress.update(counts, elapsed=time.now, left=180 - time.now, rate=321.0)
        if step == 17:
            progress.milestone("pods-created", time.now)
    progress.done("passed")


def test_plain_lines_come_at_most_every_five_seconds_but_for_milestones(snapshot: SnapshotAssertion) -> None:
    time, stream = Time(), io.StringIO()
    drive(Progress(stream, clock=time), time)
    lines = stream.getvalue().splitlines()
    assert "\n".join(lines) == snapshot
    assert [line.partition(":")[0] for line in lines] == [
        "starting the cluster", "deploy", "deploy, 5.00 s", "deploy", "deploy, 10.0 s", "deploy, 15.0 s",
        "deploy, 20.0 s", "deploy",
    ]  # fmt: skip
    assert lines[3] == "deploy: pods-created after 9.00 s"
    assert "pods-created 540 of 1,000 (120/s)" in lines[2]
    assert "pods-gone 810 left (20.0/s" in lines[4]


def test_counts_that_do_not_move_are_repeated_every_half_minute_as_a_stall() -> None:
    time, stream = Time(), io.StringIO()
    progress = Progress(stream, clock=time)
    progress.phase("hold", 60)
    for _ in range(50):
        time.now += 1
        progress.update({"m": (3, 5)}, elapsed=time.now, left=60 - time.now)
    assert stream.getvalue().count("3 of 5") == 2
    assert stream.getvalue().splitlines()[-1].startswith("hold, 35.0 s: no change for 35 s, m 3 of 5")


def test_a_count_that_moves_away_from_its_goal_has_a_direction_and_no_time_left() -> None:
    time, stream = Time(), io.StringIO()
    progress = Progress(stream, clock=time)
    progress.phase("deploy", 60)
    for step in range(21):
        time.now += 1
        progress.update({"ready": (100 - step, 200), "gone": (step, 0)}, elapsed=time.now, left=60 - time.now)
    last = stream.getvalue().splitlines()[-1]
    assert "ready 81 of 200 (falling, 1.00/s)" in last
    assert "gone 19 left (rising, 1.00/s)" in last


def test_quiet_is_silent() -> None:
    time, stream = Time(), io.StringIO()
    for live in (False, True):
        drive(Progress(stream, quiet=True, live=live, clock=time), time)
    assert stream.getvalue() == ""


def test_a_terminal_is_redrawn_in_place_and_left_clean() -> None:
    time, stream = Time(), io.StringIO()
    drive(Progress(stream, live=True, clock=time), time)
    text = stream.getvalue()
    assert "pods-created" in text
    assert "after 9.00 s" in text
    assert text.count("\x1b[?25l") == text.count("\x1b[?25h") == 1
    assert text.endswith("deploy: passed after 20.0 s\n")


def test_a_stream_without_a_terminal_gets_plain_lines() -> None:
    time, stream = Time(), io.StringIO()
    drive(Progress(stream, clock=time), time)
    assert "\x1b" not in stream.getvalue()


@pytest.mark.parametrize("live", [False, True])
def test_a_stream_that_breaks_does_not_fail_the_run(live: bool) -> None:
    class Broken(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError(32, "Broken pipe")

    time = Time()
    drive(Progress(Broken(), live=live, clock=time), time)
    stream = io.StringIO()
    progress = Progress(stream, live=live, clock=time)
    progress.phase("deploy", 60)
    stream.close()
    progress.update({"m": (1, 2)}, elapsed=1, left=59)
    progress.done("failed")
    progress.close()


def test_calls_out_of_turn_do_nothing() -> None:
    stream = io.StringIO()
    progress = Progress(stream)
    calls: list[Callable[[], None]] = [
        lambda: progress.update({"m": (1, 2)}, elapsed=1, left=1),
        lambda: progress.milestone("m", 1.0),
        lambda: progress.done("passed"),
        progress.close,
    ]
    for call in calls:
        call()
    assert stream.getvalue() == ""


def test_an_interrupted_phase_leaves_the_terminal_as_it_was() -> None:
    time, stream = Time(), io.StringIO()
    progress = Progress(stream, live=True, clock=time)
    progress.phase("deploy", 60)
    progress.close()
    progress.close()
    assert stream.getvalue().endswith("\x1b[?25h") or "\x1b[?25h" in stream.getvalue()


def test_rates_are_of_the_last_seconds() -> None:
    rate = Rate()
    assert rate.per_second() is None
    for second in range(20):
        rate.add(second, 0 if second < 10 else (second - 10) * 7)
    assert rate.per_second() == 7


def test_the_time_left_follows_no_pause_or_spurt() -> None:
    """Pods that became ready on a machine with 20 busy programs on 2 cores, as one run reported them."""
    seen = {82.5: 11, 87.5: 21, 93: 41, 98.5: 70, 104: 86, 109: 100, 114: 124, 119: 140, 125: 164, 130: 183, 135: 200}
    seen |= {141: 228, 146: 235, 152: 267, 157: 319, 162: 328, 167: 338, 172: 353, 178: 431, 183: 456, 188: 516}
    seen |= {193: 574, 198: 613, 204: 689, 209: 767, 214: 884}
    rate, said, by_rate = Rate(), [], []
    rate.add(77, 6)
    for second, pods in seen.items():
        rate.add(second, pods)
        by_rate.append((1000 - pods) / (rate.per_second() or 1))
        if (left := rate.time_left(1000)) is not None:
            said.append(left)
    assert len(said) == len(seen) - 3, "not by the first 5 %"
    jumps = [after / before for before, after in itertools.pairwise(said)]
    assert max(jumps) < 1.1, "it never grows much"
    assert min(jumps[:-5]) > 0.75, "nor does it fall at once, but when little is left"
    assert max(after / before for before, after in itertools.pairwise(by_rate)) > 4, "as that by the last seconds does"


def test_a_stall_lengthens_the_time_left_until_there_is_none() -> None:
    rate = Rate()
    for second in range(60):
        rate.add(second, min(second, 20) * 10)
        if second == 20:
            assert rate.time_left(400) == pytest.approx(20)
        if second == 40:
            assert rate.time_left(400) == pytest.approx(60)
    assert rate.time_left(400) is None
    assert Rate().time_left(5) is None
