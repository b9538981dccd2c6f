"""How long a milestone took, in seconds or as a multiple of what it takes where the operator costs nothing."""

from __future__ import annotations

from typing import NamedTuple

from .. import durations
from ..analysis.result import MilestoneResult, PhaseResult, TestResult, Verdict
from ..errors import NotMeasuredError, UsageError
from .arguments import unknown
from .baseline import Baselines, metric_of
from .finding import Finding, Unit, against, shown
from .phases import named
from .shape import Milestone


class _Interval(NamedTuple):
    """The true time lies between these, s; ``figure`` is the best guess."""

    low: float
    figure: float
    high: float

    def divided(self, by: _Interval) -> _Interval:
        return _Interval(self.low / by.high, self.figure / by.figure, self.high / by.low)


def judge(check: Milestone, test: TestResult, baselines: Baselines) -> Finding:
    """Judge when a milestone was met. One in doubt, by cuts of the watch or steps of the clock, does not pass."""
    phase, found = _find(test, check.name, check.phase)
    unit: Unit = "s" if check.max is not None else "×"
    bound = durations.seconds(check.max) if check.max is not None else check.times_floor or 0.0
    floor = _floor(check, test, phase, baselines) if check.max is None else None
    if not found.met:
        return _not_met(phase, found, bound, unit, floor)
    taken = _interval(found)
    evidence = [f"{found.name} after {shown(taken.figure, 's')} by the {found.clock}'s clock"]
    if floor is not None:
        evidence.append(f"floor: {shown(floor.figure, 's')}")
        taken = taken.divided(floor)
    if phase.saturation is not None and phase.saturation.saturated:
        evidence.append(f"the machine was saturated in {phase.name}: this measures the machine")
    verdict: Verdict = "pass" if taken.high <= bound else "fail" if taken.low > bound else "inconclusive"
    subject = f"{found.name} / its floor" if floor is not None else found.name
    text = f"{subject} {against(taken.figure, bound, unit)}"
    if verdict == "inconclusive":
        text += f"; it lies between {shown(taken.low, unit)} and {shown(taken.high, unit)}"
    return Finding(
        phase=phase.name,
        verdict=verdict,
        subject=subject,
        figure=taken.figure,
        bound=bound,
        unit=unit,
        text=text,
        evidence=tuple(evidence),
    )


def _find(test: TestResult, name: str, phase: str) -> tuple[PhaseResult, MilestoneResult]:
    phases = [named(test, phase)] if phase else list(test.phases)
    found = [(p, milestone) for p in phases for milestone in p.milestones if milestone.name == name]
    if not found:
        known = dict.fromkeys(milestone.name for p in phases for milestone in p.milestones)
        raise NotMeasuredError(
            f"{f'phase {phase!r}' if phase else 'the recording'} has {unknown('milestone', name, known)}"
        )
    if len(found) > 1:
        raise UsageError(
            f"several phases have a milestone {name!r}: {', '.join(p.name for p, _ in found)}",
            next_step="Say which one is meant: phase=….",
        )
    return found[0]


def _not_met(phase: PhaseResult, found: MilestoneResult, bound: float, unit: Unit, floor: _Interval | None) -> Finding:
    """Return what a milestone that was not met comes to: it took longer than its phase, which may be enough to know."""
    at_least = phase.seconds if floor is None else phase.seconds / floor.high
    return Finding(
        phase=phase.name,
        verdict="fail" if at_least > bound else "inconclusive",
        subject=found.name,
        figure=None,
        bound=bound,
        unit=unit,
        text=f"{found.name} not met after {shown(phase.seconds, 's')} ({phase.outcome}); its bound is"
        f" {shown(bound, unit)}",
    )


def _interval(found: MilestoneResult) -> _Interval:
    if found.seconds is None:
        raise NotMeasuredError(f"when milestone {found.name!r} was met is not known")
    low = found.server_s[0] if found.server_s is not None else found.seconds
    return _Interval(low - found.uncertainty_s, found.seconds, found.seconds + found.uncertainty_s)


def _floor(check: Milestone, test: TestResult, phase: PhaseResult, baselines: Baselines) -> _Interval:
    """Return what the milestone takes without the operator's own time. Raises NotMeasuredError when nobody knows."""
    where = str(check.floor)
    if check.baseline:
        found = _exact(metric_of(baselines, check.baseline, f"milestone:{phase.name}/{check.name}"))
    elif "/" in where:
        floor_phase, _, name = where.partition("/")
        found = _interval(_find(test, name, floor_phase)[1])
    elif where:
        found = _exact(durations.seconds(check.floor))
    elif (given := test.floors.get(f"{phase.name}/{check.name}", test.floors.get(check.name))) is not None:
        found = _exact(given)
    else:
        raise NotMeasuredError(
            f"no floor of milestone {check.name!r} was measured",
            next_step=f'Give it with scale.floor("{check.name}", seconds), or name one: floor="phase/milestone".',
        )
    if found.low <= 0:
        raise NotMeasuredError(
            f"the floor of milestone {check.name!r} is {shown(found.figure, 's')}: there is no multiple"
        )
    return found


def _exact(seconds: float) -> _Interval:
    return _Interval(seconds, seconds, seconds)
