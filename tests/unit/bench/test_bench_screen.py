"""What is shown while a comparison runs, with a terminal and without, and how long it is said to take."""

from __future__ import annotations

import io

from pytest_grovescale.bench.schedule import interleaved
from pytest_grovescale.bench.screen import Screen, time_left


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
    assert time_left(noop[2:] + deploy, seconds) == "2m00s left, then the deploy runs"
    assert time_left(noop[2:], seconds) == "2m00s left"
    assert time_left(deploy, {}) == "the deploy runs"
    assert time_left((), seconds) == "the last one"
