"""Equations between series, at rest and while work is under way."""

from __future__ import annotations

from collections.abc import Sequence

from ...analysis.metrics.balances import Balance, Unknown, balances
from ...analysis.metrics.equations import Equation, equation
from ...analysis.metrics.history import MetricsHistory, TargetHistory
from ...analysis.metrics.rest import rests
from ...errors import NotMeasuredError
from ..finding import Finding, shown
from .shape import Invariant

_SHOWN = 5


def judge(check: Invariant, metrics: MetricsHistory) -> Finding:
    """Judge an equation at every scrape at rest, and between those where ``running`` says how far it may be off.

    Raises NotMeasuredError when a metric of it was never served, or the target was never scraped at rest.
    """
    target = metrics.target(check.target)
    stated = equation(check.expression)
    still = set(rests(target))
    told = [found for found in balances(stated, target) if found.scrape in still or check.running is not None]
    judged = [found for found in told if isinstance(found, Balance)]
    unknown = [found for found in told if isinstance(found, Unknown)]
    if not judged:
        raise _never_judged(target, unknown, at_rest=bool(still))
    broken = [found for found in judged if found.apart > _tolerance(check, found, still)]
    # A metric that is not served yet has not counted yet; one that is served no longer hides what it counted.
    lost = [found for found in unknown if found.scrape > judged[0].scrape]
    worst = max(broken or judged, key=lambda found: found.apart)
    return Finding(
        phase="",
        verdict="fail" if broken else "inconclusive" if lost else "pass",
        figure=worst.apart,
        bound=_tolerance(check, worst, still),
        unit="",
        text=_text(target, stated, judged, broken, worst, still)
        + (f"; {target.when(lost[0].scrape)} {lost[0].why}" if lost else ""),
        evidence=tuple(_line(target, stated, found, still) for found in _evidence(broken or judged)),
    )


def _tolerance(check: Invariant, found: Balance, still: set[int]) -> float:
    return check.tolerance if found.scrape in still else check.running or 0.0


def _never_judged(target: TargetHistory, unknown: Sequence[Unknown], *, at_rest: bool) -> NotMeasuredError:
    if unknown:
        return NotMeasuredError(unknown[0].why, next_step="Name metrics that the endpoint serves, from its start on.")
    if not target.moments:
        return NotMeasuredError(f"{target.target} was never scraped")
    if at_rest:
        return NotMeasuredError("no series were there to compare")
    return NotMeasuredError(
        f"at none of {len(target.moments)} scrapes was {target.target} at rest",
        next_step="Let a phase end when the work is done, or say how far it may be off meanwhile: running=….",
    )


def _text(
    target: TargetHistory,
    stated: Equation,
    judged: Sequence[Balance],
    broken: Sequence[Balance],
    worst: Balance,
    still: set[int],
) -> str:
    scrapes = {found.scrape for found in judged}
    if broken:
        wrong = {found.scrape for found in broken}
        return f"does not hold at {len(wrong)} of {len(scrapes)} scrapes: {_line(target, stated, worst, still)}"
    quiet = len(scrapes & still)
    text = f"holds at {quiet} scrapes at rest" + (f" and {len(scrapes) - quiet} at work" if scrapes - still else "")
    counted = any(found.left or found.right for found in judged)
    return text if counted else f"{text}; nothing was counted in this run: 0 on both sides"


def _evidence(found: Sequence[Balance]) -> Sequence[Balance]:
    """Return the first that are off; where none is, those of the last scrape."""
    off = [one for one in found if one.apart]
    return (off or [one for one in found if one.scrape == found[-1].scrape])[:_SHOWN]


def _line(target: TargetHistory, stated: Equation, found: Balance, still: set[int]) -> str:
    group = ", ".join(f"{label}={value}" for label, value in zip(stated.by, found.group, strict=True))
    state = "at rest" if found.scrape in still else "at work"
    return (
        f"{group + ': ' if group else ''}{shown(found.left, '', 6)} on the left, {shown(found.right, '', 6)} on the"
        f" right ({target.when(found.scrape)}, {state})"
    )
