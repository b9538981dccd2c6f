"""Figures of a run that later runs are compared with, and which of them are valid on another machine.

Seconds and bytes compare on the machine that they were measured on. Counts and ratios compare anywhere: the cost of a
trigger as a multiple of the idle baseline, a milestone as a multiple of its floor, the operator's share of all CPU.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import msgspec

from ..errors import NotMeasuredError
from ..recording.records import Machine
from . import figures
from .comparability import backend_of
from .phase_result import PhaseResult
from .result import OPERATOR, Result, TestResult, last
from .run_metrics import COUNTS, Unit, describe, metrics_of, units_of

SCHEMA_VERSION = 1

_RATIOS = {
    "cpu_share": "the operator's share of all CPU",
    "times_idle": "CPU as a multiple of idling",
    "times_floor": "as a multiple of its floor",
}


class BaselineTest(msgspec.Struct, frozen=True, kw_only=True):
    """One test's figures."""

    metrics: dict[str, float]
    """As `run_metrics.metrics_of`."""
    ratios: dict[str, float] = {}
    """As `ratios_of`: figures that compare on any machine."""
    parameters: dict[str, str | int | float | bool] = {}
    """Operator, its values and the test's parameters."""
    backend: str = ""
    """Of the cluster: seconds and bytes compare on the same backend only. Empty: unknown, assumed to be the same."""


class Baseline(msgspec.Struct, frozen=True, kw_only=True):
    """A file of baselines: all tests of one run."""

    schema_version: int = SCHEMA_VERSION
    name: str
    saved: str
    """ISO 8601, UTC."""
    run: str
    version: str
    """Of pytest-grovescale."""
    machine: Machine
    tests: dict[str, BaselineTest]


class BaselineRow(NamedTuple):
    """One figure, of the baseline and of this run."""

    key: str
    what: str
    """The figure in words."""
    unit: Unit | None
    """None for a ratio."""
    before: float
    now: float


def baseline_test(test: TestResult) -> BaselineTest:
    """Return the baseline of a test."""
    return BaselineTest(
        metrics=metrics_of(test),
        ratios=ratios_of(test),
        parameters=dict(test.parameters),
        backend=backend_of(test),
    )


def usable(result: Result) -> dict[str, TestResult]:
    """Return the tests that a baseline may hold.

    All phases passed, on a healthy cluster that the test had to itself, without a profiler.
    """
    tests = [test for test in last(result.tests) if test.scenario_outcome == "passed"]
    return {test.test: test for test in tests if not (test.profiled or test.disturbed or test.disrupted)}


def ratios_of(test: TestResult) -> dict[str, float]:
    """Return the ratios of a test: ``cpu_share:deploy``, ``times_idle:steady-state``, ``times_floor:pods-ready``."""
    phases = {phase.name: phase for phase in test.phases if phase.outcome == "passed"}
    ratios: dict[str, float] = {}
    for phase in phases.values():
        ratios |= _ratio(f"cpu_share:{phase.name}", partial(_share, phase))
        twin = phases.get(phase.idle_twin)
        if twin is not None:
            ratios |= _ratio(f"times_idle:{phase.name}", partial(_times_idle, phase, twin))
        for milestone in phase.milestones:
            where = f"{phase.name}/{milestone.name}"
            floor = test.floors.get(where, test.floors.get(milestone.name))
            if floor and milestone.seconds is not None:
                ratios[f"times_floor:{where}"] = milestone.seconds / floor
    return ratios


def same_backend(before: BaselineTest, backend: str) -> bool:
    """Return whether a baseline was measured on a cluster of that backend, as far as both are known."""
    return backend == before.backend or not (backend and before.backend)


def portable(test: BaselineTest) -> dict[str, float]:
    """Return the figures of a baseline that compare with a run on another machine or backend: its counts."""
    return {key: value for key, value in test.metrics.items() if units_of(key) in COUNTS}


def rows(before: BaselineTest, now: TestResult, *, same_machine: bool) -> list[BaselineRow]:
    """Return the figures that both have and that compare."""
    figures_now, ratios_now = metrics_of(now), ratios_of(now)
    kept = before.metrics if same_machine else portable(before)
    return [
        *(
            BaselineRow(key, describe(key), units_of(key), kept[key], figures_now[key])
            for key in kept
            if key in figures_now
        ),
        *(
            BaselineRow(key, _words(key), None, before.ratios[key], ratios_now[key])
            for key in before.ratios
            if key in ratios_now and not same_machine
        ),
    ]


def _words(key: str) -> str:
    kind, _, what = key.partition(":")
    return f"{_RATIOS[kind]}, {what.replace('/', ': ')}"


def _share(phase: PhaseResult) -> float:
    own = figures.cpu(phase, OPERATOR)
    if own.result.source != "clock":
        raise NotMeasuredError(f"{OPERATOR} may run on another machine than the processes whose clocks were read")
    return own.seconds / sum(row.seconds for row in phase.cpu if row.source == "clock")


def _times_idle(phase: PhaseResult, twin: PhaseResult) -> float:
    return figures.cpu(phase, OPERATOR).cores / figures.cpu(twin, OPERATOR).cores


def _ratio(key: str, source: Callable[[], float]) -> dict[str, float]:
    try:
        return {key: source()}
    except (NotMeasuredError, ZeroDivisionError):
        # An operator that was not measured, or used no CPU, gives no ratio.
        return {}
