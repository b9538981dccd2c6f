"""Equations between series, at rest and while work is under way.

While it is, each reconcile in progress may have been counted on one side and not yet on the other, so the sides of two
counts may be apart by as many as can run. A gauge may be set at any time: by how much it is behind is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from ...analysis.metrics.counters import counts
from ...analysis.metrics.equations import Balance, Equation, Unknown, balances, equation
from ...analysis.metrics.history import TargetHistory
from ...analysis.metrics.idleness import rests, workers
from ...analysis.metrics.selectors import ExpressionError
from ...errors import NotMeasuredError
from ..check import CheckArgumentError, Outcome, not_negative, shown
from ..run import Run
from .target import TargetCheck

_SHOWN = 5


class _Positional(TargetCheck, frozen=True):
    positional = ("expression",)

    expression: str


class Invariant(_Positional, tag="invariant", frozen=True, kw_only=True):
    """An equation or inequality between sums of series: ``sum(a) == sum(b)``, ``sum(a) <= sum(b{code="409"})``.

    Or numbers of objects: ``sum(op_pods{phase="ready"}) == objects("pods", ready=True)``.

    `analysis.metrics.equations` describes its language. At rest is a scrape at which no worker works and no key waits,
    by the endpoint's own gauges; where it serves none, a scrape at a phase's edge. Where a metric was never served, or
    the target never scraped at rest (unless ``running`` is a number), it is inconclusive.
    """

    one_scrape = "since_start"

    tolerance: float = 0.0
    """How far the two sides may be apart at rest."""
    running: float | Literal["workers", "off"] = "workers"
    """How far while work is under way. ``workers``: by as many as reconciles can run at once, each of which may have
    been counted on one side only; where a gauge is compared, or the endpoint does not say how many can run, only
    scrapes at rest are judged, as with ``off``."""

    def validate(self) -> None:
        not_negative(self, tolerance=self.tolerance)
        if not isinstance(self.running, str):
            not_negative(self, running=self.running)
        try:
            equation(self.expression)
        except ExpressionError as error:
            raise CheckArgumentError(f"invariant: {error.message}", next_step=error.next_step) from None

    def judge_target(self, run: Run) -> Outcome:
        target = run.metrics().target(self.target)
        stated = equation(self.expression)
        at_rest = set(rests(target))
        running = _while_running(self, stated, target)
        judged: list[_Judged] = []
        unknown: list[Unknown] = []
        for state in balances(stated, target, run.metrics().states):
            allowed = self.tolerance if state.scrape in at_rest else running(state)
            if allowed is None:
                continue
            if isinstance(state, Unknown):
                unknown.append(state)
            else:
                judged.append(_Judged(state, state.scrape in at_rest, allowed))
        broken = [one for one in judged if one.balance.apart > one.allowed]
        proven = broken or not isinstance(self.running, str) or any(one.at_rest for one in judged)
        if not judged or not proven:
            raise _never_judged(target, unknown, at_rest=bool(at_rest))
        # A metric that is not served yet has not counted yet; one that is served no longer hides what it counted.
        lost = [state for state in unknown if state.scrape > judged[0].balance.scrape]
        worst = max(broken or judged, key=lambda one: one.balance.apart)
        return Outcome(
            verdict="fail" if broken else "inconclusive" if lost else "pass",
            figure=worst.balance.apart,
            bound=worst.allowed,
            text=_text(target, stated, judged, broken, worst)
            + (f"; {target.when(lost[0].scrape)} {lost[0].why}" if lost else ""),
            evidence=tuple(_line(target, stated, one) for one in _evidence(broken or judged)),
        )


class _Judged(NamedTuple):
    """Both sides of one group at one scrape, and how far they may be apart there."""

    balance: Balance
    at_rest: bool
    allowed: float


def _while_running(
    check: Invariant, stated: Equation, target: TargetHistory
) -> Callable[[Balance | Unknown], float | None]:
    """Return a function for how far the sides may be apart while work is under way; None where that is not judged."""
    if not isinstance(check.running, str):
        fixed = check.running
        return lambda _: fixed
    # Objects change while work is under way, and the operator learns of it a while later.
    if (
        check.running == "off"
        or stated.objects
        or not all(_counts_events(one.selector.name, target) for one in stated.sums)
    ):
        return lambda _: None
    limits: dict[str, list[float]] = {}

    def in_progress(state: Balance | Unknown) -> float | None:
        group = dict(zip(stated.by, state.group, strict=True)) if isinstance(state, Balance) else {}
        controller = group.get("controller", "")
        if controller not in limits:
            limits[controller] = workers(target, controller)
        # Without a limit it is not judged; with one, it adds to what is allowed at rest.
        limit = limits[controller][state.scrape]
        return check.tolerance + limit if limit else None

    return in_progress


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
    scrapes = {one.balance.scrape for one in judged}
    if broken:
        wrong = {one.balance.scrape for one in broken}
        return f"does not hold at {len(wrong)} of {len(scrapes)} scrapes: {_line(target, stated, worst)}"
    quiet = len({one.balance.scrape for one in judged if one.at_rest})
    text = f"holds at {quiet} scrapes at rest" + (
        f" and {len(scrapes) - quiet} at work" if quiet < len(scrapes) else ""
    )
    counted = any(one.balance.left or one.balance.right for one in judged)
    return text if counted else f"{text}; nothing was counted in this run: 0 on both sides"


def _evidence(judged: Sequence[_Judged]) -> Sequence[_Judged]:
    """Return the first that are off; where none is, those of the last scrape."""
    off = [one for one in judged if one.balance.apart]
    return (off or [one for one in judged if one.balance.scrape == judged[-1].balance.scrape])[:_SHOWN]


def _line(target: TargetHistory, stated: Equation, one: _Judged) -> str:
    balance = one.balance
    group = ", ".join(f"{label}={value}" for label, value in zip(stated.by, balance.group, strict=True))
    state = "at rest" if one.at_rest else "at work"
    return (
        f"{group + ': ' if group else ''}{shown(balance.left, '', 6)} on the left, {shown(balance.right, '', 6)} on the"
        f" right ({target.when(balance.scrape)}, {state})"
    )
