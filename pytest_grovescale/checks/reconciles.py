"""Reconciles per no-op trigger, and those that cause themselves.

Counts come from the operator's own metrics, scraped at the phase's edges. A trigger that nothing followed is a dead
one: it proves neither too many nor too few.
"""

from __future__ import annotations

from collections import Counter

from ..analysis import figures
from ..analysis.idle import idle_twin, reconciles_of
from ..analysis.result import PhaseResult, TestResult
from ..errors import NotMeasuredError
from .finding import Finding, at_most, shown
from .phases import steady, unfinished
from .shape import HotLoop, NoopReconciles


def per_trigger(check: NoopReconciles, test: TestResult) -> Finding:
    """Judge reconciles per trigger: as many as asked for, or no more than that."""
    phase = steady(test, check.phase)
    doubts = _doubts(phase)
    if "reconciles" in phase.missing or not phase.triggers:
        raise NotMeasuredError("; ".join(doubts))
    failed = at_most(
        phase.name,
        "reconciles that ended in an error",
        sum(row.count for row in phase.reconciles if row.result == "error"),
        check.errors,
        evidence=by_controller(phase),
    )
    if failed.verdict == "fail":
        return failed
    if check.max is not None:
        return _no_more(check, check.max, phase, doubts)
    findings = [_exactly(phase, controller, wanted, doubts) for controller, wanted in check.wanted.items()]
    worst = [finding for verdict in ("fail", "inconclusive") for finding in findings if finding.verdict == verdict]
    return next(iter(worst), findings[0])


def hot_loop(check: HotLoop, test: TestResult) -> Finding:
    """Judge whether reconciles cause reconciles: in the idle twin, or per trigger in the steady-state phase."""
    phase = steady(test, check.phase)
    doubts = _doubts(phase)
    twin = idle_twin(test, phase)
    idle = at_most(
        phase.name,
        "reconciles with nothing triggered",
        reconciles_of(twin) / _length(twin),
        check.idle_per_second,
        "1/s",
        doubts=doubts,
        evidence=by_controller(twin),
    )
    if idle.verdict == "fail":
        return idle
    if not test.objects:
        raise NotMeasuredError(
            f"{idle.text}, but no milestone of the test counts objects, so that reconciles per object are not known",
            next_step='Give a phase a milestone like count("pods", 1000).',
        )
    if not phase.triggers:
        raise NotMeasuredError("; ".join(doubts))
    looks = at_most(
        phase.name,
        f"reconciles per trigger for each of {test.objects:,} {test.objects_resource}",
        reconciles_of(phase) / phase.triggers / test.objects,
        check.passes,
        doubts=doubts,
        evidence=by_controller(phase),
    )
    return looks if looks.verdict != "pass" else idle


def _doubts(phase: PhaseResult) -> list[str]:
    return [*figures.trigger_doubts(phase), *unfinished(phase)]


def _exactly(phase: PhaseResult, controller: str, wanted: int, doubts: list[str]) -> Finding:
    made = figures.reconciles(phase, controller)
    figure = made / phase.triggers
    what = f"reconciles of {controller} per trigger"
    if made > wanted * phase.triggers or doubts:
        return at_most(phase.name, what, figure, wanted, doubts=doubts, evidence=by_controller(phase))
    short = made < wanted * phase.triggers
    text = f"{what} {shown(figure, '')} {'<' if short else '='} {wanted:,}"
    if short:
        text += ": triggers were dropped, or several led to one reconcile"
    return Finding(
        phase=phase.name,
        verdict="fail" if short else "pass",
        subject=what,
        figure=figure,
        bound=wanted,
        unit="",
        text=text,
        evidence=by_controller(phase),
    )


def _no_more(check: NoopReconciles, bound: float, phase: PhaseResult, doubts: list[str]) -> Finding:
    made = reconciles_of(phase, check.controller)
    what = f"reconciles of {check.controller} per trigger" if check.controller else "reconciles per trigger"
    return at_most(phase.name, what, made / phase.triggers, bound, doubts=doubts, evidence=by_controller(phase))


def _length(phase: PhaseResult) -> float:
    if phase.seconds <= 0:
        raise NotMeasuredError(f"phase {phase.name!r} has no length")
    return phase.seconds


def by_controller(phase: PhaseResult) -> tuple[str, ...]:
    """Return the phase's reconciles by controller and result, as evidence."""
    made: Counter[str] = Counter()
    for row in phase.reconciles:
        # Work queues do not tell how a reconcile ended.
        made[", ".join(filter(None, (row.controller, row.result)))] += row.count
    return tuple(f"{phase.name}: {n:,} reconciles of {what}" for what, n in sorted(made.items()) if n)
