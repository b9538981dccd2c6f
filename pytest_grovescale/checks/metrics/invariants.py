"""Equations between series, at rest and while work is under way.

While it is, each reconcile in hand may have been counted on one side and not yet on the other, so the sides of two
counts may be apart by as many as can run. A gauge may be set at any time: nobody knows by how much it is behind.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ...analysis.metrics.balances import Balance, Unknown, balances
from ...analysis.metrics.counters import counts
from ...analysis.metrics.equations import Equation, equation
from ...analysis.metrics.history import MetricsHistory, TargetHistory
from ...analysis.metrics.rest import rests, workers
from ...errors import NotMeasuredError
from ..finding import Finding, shown
from .shape import Invariant

_SHOWN = 5


class _Judged(NamedTuple):
    """Both sides of one group at one scrape, and how far they may be apart there."""

    found: Balance
    at_rest: bool
    allowed: float


def judge(check: Invariant, metrics: MetricsHistory) -> Finding:
    """Judge an equation at every scrape at rest, and at those between to within what ``running`` says.

    Raises NotMeasuredError when a metric of it was never served, or the target was never scraped at rest, unless
    ``running`` is a number.
    """
    target = metrics.target(check.target)
    stated = equation(check.expression)
    still = set(rests(target))
    running = _while_running(check, stated, target)
    told = [(found, check.tolerance if found.scrape in still else running(found)) for found in balances(stated, target)]
    unknown = [found for found, allowed in told if isinstance(found, Unknown) and allowed is not None]
    judged = [
        _Judged(found, found.scrape in still, allowed)
        for found, allowed in told
        if isinstance(found, Balance) and allowed is not None
    ]
    broken = [one for one in judged if one.found.apart > one.allowed]
    proven = broken or not isinstance(check.running, str) or any(one.at_rest for one in judged)
    if not judged or not proven:
        raise _never_judged(target, unknown, at_rest=bool(still))
    # A metric that is not served yet has not counted yet; one that is served no longer hides what it counted.
    lost = [found for found in unknown if found.scrape > judged[0].found.scrape]
    worst = max(broken or judged, key=lambda one: one.found.apart)
    return Finding(
        phase="",
        verdict="fail" if broken else "inconclusive" if lost else "pass",
        figure=worst.found.apart,
        bound=worst.allowed,
        unit="",
        text=_text(target, stated, judged, broken, worst)
        + (f"; {target.when(lost[0].scrape)} {lost[0].why}" if lost else ""),
        evidence=tuple(_line(target, stated, one) for one in _evidence(broken or judged)),
    )


def _while_running(
    check: Invariant, stated: Equation, target: TargetHistory
) -> Callable[[Balance | Unknown], float | None]:
    """Return what tells how far the sides may be apart while work is under way; None where that is not judged."""
    if not isinstance(check.running, str):
        wanted = check.running
        return lambda _: wanted
    if check.running == "off" or not all(_counts_events(one.selector.name, target) for one in stated.sums):
        return lambda _: None
    limits: dict[str, list[float]] = {}

    def in_hand(found: Balance | Unknown) -> float | None:
        group = dict(zip(stated.by, found.group, strict=True)) if isinstance(found, Balance) else {}
        controller = group.get("controller", "")
        if controller not in limits:
            limits[controller] = workers(target, controller)
        # Without a limit there is no telling; it adds to what is allowed at rest.
        limit = limits[controller][found.scrape]
        return check.tolerance + limit if limit else None

    return in_hand


def _counts_events(name: str, target: TargetHistory) -> bool:
    """Return whether one more is one event; a ``_sum`` grows by seconds, or whatever else is observed."""
    return counts(name, target.families) and not name.endswith("_sum")


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
    target: TargetHistory, stated: Equation, judged: Sequence[_Judged], broken: Sequence[_Judged], worst: _Judged
) -> str:
    scrapes = {one.found.scrape for one in judged}
    if broken:
        wrong = {one.found.scrape for one in broken}
        return f"does not hold at {len(wrong)} of {len(scrapes)} scrapes: {_line(target, stated, worst)}"
    quiet = len({one.found.scrape for one in judged if one.at_rest})
    text = f"holds at {quiet} scrapes at rest" + (
        f" and {len(scrapes) - quiet} at work" if quiet < len(scrapes) else ""
    )
    counted = any(one.found.left or one.found.right for one in judged)
    return text if counted else f"{text}; nothing was counted in this run: 0 on both sides"


def _evidence(told: Sequence[_Judged]) -> Sequence[_Judged]:
    """Return the first that are off; where none is, those of the last scrape."""
    off = [one for one in told if one.found.apart]
    return (off or [one for one in told if one.found.scrape == told[-1].found.scrape])[:_SHOWN]


def _line(target: TargetHistory, stated: Equation, one: _Judged) -> str:
    found = one.found
    group = ", ".join(f"{label}={value}" for label, value in zip(stated.by, found.group, strict=True))
    state = "at rest" if one.at_rest else "at work"
    return (
        f"{group + ': ' if group else ''}{shown(found.left, '', 6)} on the left, {shown(found.right, '', 6)} on the"
        f" right ({target.when(found.scrape)}, {state})"
    )
