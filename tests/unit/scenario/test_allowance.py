"""The time a phase has: a debugger's time is not counted."""

from __future__ import annotations

from pytest_grovescale.scenario.running_phase import Allowance


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_it_runs_out() -> None:
    clock = Clock()
    allowance = Allowance(10, clock)
    clock.now = 4
    assert allowance.left() == 6
    clock.now = 11
    assert allowance.left() == -1


def test_time_in_the_debugger_does_not_count() -> None:
    clock = Clock()
    allowance = Allowance(10, clock)
    clock.now = 4
    allowance.pause()
    clock.now = 1000
    assert allowance.left() == 6
    allowance.pause()
    allowance.resume()
    clock.now = 1001
    assert allowance.left() == 5
    allowance.resume()
    assert allowance.left() == 5
