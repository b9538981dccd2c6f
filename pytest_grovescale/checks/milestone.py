"""How long a milestone took, in seconds or as a multiple of what it takes where the operator costs nothing."""

from __future__ import annotations

from typing import NamedTuple

from .. import durations
from ..analysis.phase_result import MilestoneResult, PhaseResult
from ..analysis.result import TestResult
from ..errors import NotMeasuredError, UsageError
from .check import Check, CheckArgumentError, Duration, Outcome, Unit, at_most, duration, not_negative, one_of, shown
from .run import Run, named_phase, unknown


class _Interval(NamedTuple):
    """The true time lies between ``low`` and ``high``, s; ``figure`` is the best estimate."""

    low: float
    figure: float
    high: float

    def divided(self, by: _Interval) -> _Interval:
        return _Interval(self.low / by.high, self.figure / by.figure, self.high / by.low)


class _Positional(Check, frozen=True):
    positional = ("name",)

    name: str


class Milestone(_Positional, tag="milestone", frozen=True, kw_only=True):
    """How long a milestone took: at most ``max``, or at most ``times_floor`` times its floor.

    The floor is what the same takes where the operator costs nothing. ``floor`` says where it is from: a time
    (``3.2s``), ``phase/milestone`` of the same test, or ``baseline:NAME`` for this milestone's time in that baseline.
    Without it, it is what the test gave to ``scale.floor``.
    """

    timed = True

    max: Duration | None = None
    times_floor: float | None = None
    floor: Duration = ""
    phase: str = ""

    @property
    def baseline(self) -> str:
        """Name of the baseline in ``floor``; empty without."""
        kind, _, name = str(self.floor).partition(":")
        return name if kind == "baseline" else ""

    def validate(self) -> None:
        one_of(self, max=self.max, times_floor=self.times_floor)
        duration(self, max=self.max)
        not_negative(self, times_floor=self.times_floor)
        if self.floor != "" and self.times_floor is None:
            raise CheckArgumentError("milestone(floor=…) needs times_floor=…")
        if not (isinstance(self.floor, str) and (not self.floor or "/" in self.floor or self.baseline)):
            duration(self, floor=self.floor)

    def judge(self, run: Run) -> Outcome:
        """Judge when it was met. A time within watch gaps or clock steps of its bound does not pass."""
        phase, result = _find(run.test, self.name, self.phase)
        unit: Unit = "s" if self.max is not None else "×"
        bound = durations.seconds(self.max) if self.max is not None else self.times_floor or 0.0
        floor = self._floor(run, phase) if self.max is None else None
        if not result.met:
            return _not_met(phase, result, bound, unit, floor)
        taken = _interval(result)
        evidence = [f"{result.name} after {shown(taken.figure, 's')} by the {result.clock}'s clock"]
        if floor is not None:
            evidence.append(f"floor: {shown(floor.figure, 's')}")
            taken = taken.divided(floor)
        if phase.saturation is not None and phase.saturation.saturated:
            evidence.append(f"the machine was saturated in {phase.name}: this measures the machine")
        subject = f"{result.name} / its floor" if floor is not None else result.name
        between = (taken.low, taken.high)
        return at_most(phase.name, subject, taken.figure, bound, unit, between=between, evidence=evidence)

    def _floor(self, run: Run, phase: PhaseResult) -> _Interval:
        """Return what the milestone takes without the operator's own time. Raises NotMeasuredError."""
        where, floors = str(self.floor), run.test.floors
        if self.baseline:
            floor = _exact(run.baseline_metric(self.baseline, f"milestone:{phase.name}/{self.name}")[0])
        elif "/" in where:
            floor_phase, _, name = where.partition("/")
            floor = _interval(_find(run.test, name, floor_phase)[1])
        elif where:
            floor = _exact(durations.seconds(self.floor))
        elif (given := floors.get(f"{phase.name}/{self.name}", floors.get(self.name))) is not None:
            floor = _exact(given)
        else:
            raise NotMeasuredError(
                f"no floor of milestone {self.name!r} was measured",
                next_step=f'Give it with scale.floor("{self.name}", seconds), or name one: floor="phase/milestone".',
            )
        if floor.low <= 0:
            raise NotMeasuredError(
                f"the floor of milestone {self.name!r} is {shown(floor.figure, 's')}: there is no multiple"
            )
        return floor


def _find(test: TestResult, name: str, phase: str) -> tuple[PhaseResult, MilestoneResult]:
    phases = [named_phase(test, phase)] if phase else list(test.phases)
    matches = [(p, milestone) for p in phases for milestone in p.milestones if milestone.name == name]
    if not matches:
        known = dict.fromkeys(milestone.name for p in phases for milestone in p.milestones)
        raise NotMeasuredError(
            f"{f'phase {phase!r}' if phase else 'the recording'} has {unknown('milestone', name, known)}"
        )
    if len(matches) > 1:
        raise UsageError(
            f"several phases have a milestone {name!r}: {', '.join(p.name for p, _ in matches)}",
            next_step="Say which one is meant: phase=….",
        )
    return matches[0]


def _not_met(phase: PhaseResult, result: MilestoneResult, bound: float, unit: Unit, floor: _Interval | None) -> Outcome:
    """Return the outcome of a milestone that was not met: it took longer than its phase, which may exceed the bound."""
    at_least = phase.seconds if floor is None else phase.seconds / floor.high
    return Outcome(
        phase=phase.name,
        verdict="fail" if at_least > bound else "inconclusive",
        subject=result.name,
        figure=None,
        bound=bound,
        unit=unit,
        text=f"{result.name} not met after {shown(phase.seconds, 's')} ({phase.outcome}); its bound is"
        f" {shown(bound, unit)}",
    )


def _interval(result: MilestoneResult) -> _Interval:
    if result.seconds is None:
        raise NotMeasuredError(f"when milestone {result.name!r} was met is not known")
    low = result.server_s[0] if result.server_s is not None else result.seconds
    return _Interval(low - result.uncertainty_s, result.seconds, result.seconds + result.uncertainty_s)


def _exact(seconds: float) -> _Interval:
    return _Interval(seconds, seconds, seconds)
