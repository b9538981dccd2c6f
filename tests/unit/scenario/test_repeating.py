"""Triggers repeated for a profile: until the operator has worked enough, or the time is over."""

from __future__ import annotations

import os
import time
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_grovescale.cluster.handle import ProcessInfo
from pytest_grovescale.errors import OperatorError
from pytest_grovescale.procfs import started_ticks
from pytest_grovescale.scenario import quiescence
from pytest_grovescale.scenario.quiescence import limit_s, repeat_triggers
from pytest_grovescale.scenario.running_phase import RunningPhase


class Operator:
    """This process: what a trigger costs it is really used."""

    running = True

    def info(self) -> ProcessInfo | None:
        if not self.running:
            return None
        pid = os.getpid()
        return ProcessInfo(name="operator", pid=pid, started_ticks=started_ticks(pid), log="", running=True)

    def served_cpu_s(self) -> float | None:
        return None

    def check(self) -> None:
        if not self.running:
            raise OperatorError("the operator has ended")


class Workload:
    """Costs so much CPU at each trigger."""

    def __init__(self, cpu_s: float) -> None:
        self.triggers = 0
        self._cpu_s = cpu_s

    def trigger_again(self) -> None:
        self.triggers += 1
        enough = time.thread_time() + self._cpu_s
        while time.thread_time() < enough:
            pass


class OpenPhase:
    """What a phase is to the repeating: its triggers, and time that passes."""

    name = "steady-state"

    def __init__(self, *triggered: Workload) -> None:
        self.triggered = list(triggered)

    def pass_time(self, seconds: float) -> None:
        time.sleep(seconds / 100)


class Said:
    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, text: str) -> None:
        self.lines.append(text)


def repeat(*triggered: Workload, limit: float, operator: Operator | None = None) -> tuple[int, list[str]]:
    said = Said()
    phase = cast(RunningPhase, OpenPhase(*triggered))
    rounds = repeat_triggers(phase, operator or Operator(), limit=limit, progress=cast(Any, said))
    return rounds, said.lines


def test_repeated_until_the_operator_has_worked_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quiescence, "ENOUGH_CPU_S", 0.2)
    workload = Workload(cpu_s=0.05)
    rounds, lines = repeat(workload, limit=60)
    assert 1 <= rounds <= 4
    assert workload.triggers == rounds
    assert any("0.2 s of CPU" in line for line in lines)


def test_a_workload_triggered_twice_is_triggered_once_a_round(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quiescence, "ENOUGH_CPU_S", 0.02)
    one, other = Workload(cpu_s=0.02), Workload(cpu_s=0.02)
    rounds, _ = repeat(one, other, one, limit=60)
    assert one.triggers == other.triggers == rounds


def test_the_time_ends_it_too() -> None:
    workload = Workload(cpu_s=0.01)
    rounds, _ = repeat(workload, limit=0.05)
    # None where the machine stands still for that long.
    assert rounds == workload.triggers < quiescence.ENOUGH_CPU_S / 0.01


@pytest.mark.parametrize(("triggered", "limit"), [((), 10.0), ((Workload(0),), 0.0)])
def test_nothing_to_repeat_is_not_mentioned(triggered: tuple[Workload, ...], limit: float) -> None:
    assert repeat(*triggered, limit=limit) == (0, [])


def test_an_operator_that_ends_is_reported() -> None:
    operator = Operator()
    operator.running = False
    with pytest.raises(OperatorError):
        repeat(Workload(cpu_s=0), limit=10, operator=operator)


@given(hold=st.floats(-10, 1e4), left=st.floats(-10, 1e4))
def test_never_longer_than_what_the_phase_has(hold: float, left: float) -> None:
    limit = limit_s(hold, left)
    assert 0 <= limit <= quiescence.LONGEST_S
    assert limit <= max(left, 0)
    assert limit <= max(quiescence.TIMES_HOLD * hold, 0)
