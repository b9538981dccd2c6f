"""What is shown while a comparison runs, with a terminal and without, and how long it is said to take."""

from __future__ import annotations

import io

import msgspec
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.bench.screen import Screen, time_left
from pytest_grovescale.bench.store import Slot, interleaved


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_without_a_terminal_only_lines_that_stay_are_written() -> None:
    stream = io.StringIO()
    screen = Screen(stream)
    screen.now("deploy-00-a: pods-ready 3 of 4")
    screen.say("one done")
    screen.close()
    assert stream.getvalue() == "one done\n"


def test_in_a_terminal_one_line_changes_in_place() -> None:
    stream = Terminal()
    screen = Screen(stream)
    screen.now("first \x1b[31m" + "x" * 500)
    screen.now("second")
    screen.say("done")
    screen.close()
    first, second, done = stream.getvalue().split("\r\x1b[K")
    assert "\x1b" not in first
    assert len(first) < 500
    assert (second, done) == ("second", "done\n")


def test_a_stream_that_is_closed_ends_nothing() -> None:
    stream = io.StringIO()
    screen = Screen(stream)
    stream.close()
    screen.say("nobody hears this")
    screen.close()


def test_the_time_left_is_that_of_the_runs_made_so_far() -> None:
    noop, deploy = interleaved("noop", 3), interleaved("deploy", 3)
    seconds = dict.fromkeys(noop[:2], 30.0)
    assert time_left(noop[2:] + deploy, seconds) == "about 2m00s left, then 6 deploy runs"
    assert time_left(noop[2:], seconds) == "about 2m00s left"
    assert time_left(deploy, {}) == "6 deploy runs"
    assert time_left((), seconds) == "the last one"


def test_the_time_left_is_not_that_of_the_first_round_once_there_is_another() -> None:
    slots = interleaved("noop", 4)
    assert time_left(slots[2:], dict.fromkeys(slots[:2], 90.0)) == "about 9m00s left"
    later = dict.fromkeys(slots[:2], 90.0) | dict.fromkeys(slots[2:4], 30.0)
    assert time_left(slots[4:], later) == "about 2m00s left"


def test_an_interim_analysis_that_may_end_it_is_part_of_the_time_left(snapshot: SnapshotAssertion) -> None:
    slots = interleaved("noop", 10)
    seconds = dict.fromkeys(slots[:4], 30.0)
    left = time_left(slots[4:], seconds, slots[4:12])
    assert left.startswith("about 8m00s left, 4m00s ")
    assert left == snapshot
    assert time_left(slots[12:], seconds, slots[12:]) == "about 4m00s left"


def test_sizes_of_a_sweep_have_times_of_their_own() -> None:
    small, large = (Slot(part="sweep", round=0, arm=arm) for arm in ("62", "1000"))
    again = [msgspec.structs.replace(slot, round=1) for slot in (small, large)]
    assert time_left([large, *again], {small: 10.0}) == "about 30 s left", "what is known"
    assert time_left(again, {small: 10.0, large: 80.0}) == "about 90 s left"
