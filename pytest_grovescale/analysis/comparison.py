"""Comparison of two variants of an operator by pairs of runs: its plan, its figures and its verdict.

The verdict of a gated metric, by a rule that is fixed before the first run: ``regression`` only where the lower bound
of B / A lies above 1.03, ``improvement`` only where the upper bound lies below 1 / 1.03, ``ok`` where the upper bound
lies below 1.10, else ``inconclusive``, with the number of pairs that would decide it. The bounds behind ``regression``
and ``improvement`` are Holm's over the gated metrics that vary, so that many metrics make no more false alarms than
one; ``ok`` needs no such correction, since the whole is ok only if every gated metric is, or a guard that does not look
worse. Counts that never vary are compared as facts. Functions of a profile are never gated on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec
import numpy as np

from ..recording.records import Machine
from .comparability import WorkAlone, changed_work, work_alone
from .comparison_plan import (
    FEWEST,
    ComparisonPlan,
    ComparisonVerdict,
    Discarded,
    Pair,
    VariantRun,
    check,
    is_silent,
    one_sided,
    overall,
)
from .contention import PairContention, is_contended, remarks
from .metric_comparison import (
    Bounds,
    MetricComparison,
    MetricLevels,
    MetricVerdict,
    describe_metric,
    is_fact,
    metric_evidence,
    not_measured,
)
from .run_metrics import COUNTS, floor_of, is_wall_time, phase_of, units_of
from .statistics.decision import OK_POWER, Decision, decide_with_facts, nominal_levels
from .statistics.paired import Evidence, Floats

__all__ = [
    "SCHEMA_VERSION",
    "Broken",
    "Comparison",
    "ComparisonPlan",
    "ComparisonVerdict",
    "Discarded",
    "MetricComparison",
    "MetricVerdict",
    "Pair",
    "VariantRun",
    "check",
    "compare",
    "is_silent",
    "overall",
]

SCHEMA_VERSION = 2

_RANK_TEST_AGREES = 0.05
_SAME_WORK = 0.02


class Broken(msgspec.Struct, frozen=True, kw_only=True):
    """A variant that failed its milestones."""

    variant: Literal["a", "b"]
    name: str
    runs: int
    """How many of its runs failed."""
    why: str
    """Of the first that failed."""


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """The answer: is B slower than A?"""

    schema_version: int = SCHEMA_VERSION
    plan: ComparisonPlan
    verdict: ComparisonVerdict
    metrics: tuple[MetricComparison, ...] = ()
    """Gated first, in the plan's order; then the others by key."""
    pairs: int = 0
    """Pairs recorded, with the warm-up."""
    look: int | None = None
    """Pairs, with the warm-up, at the interim analysis that the figures are from; None before the first one."""
    stopped: str = ""
    """Why it ended before its planned pairs, other than by its figures; empty where it did not."""
    broken: tuple[Broken, ...] = ()
    alone: tuple[WorkAlone, ...] = ()
    """Requests and reconciles in parallel and in the run of each variant that had the machine to itself; empty where
    the pairs had it to themselves too, or there is no such run."""
    contention: tuple[PairContention, ...] = ()
    """Share of the cores used by programs outside the comparison in each pair, discarded pairs included."""
    warnings: tuple[str, ...] = ()
    weaker: str = ""
    """Why this is weaker than a planned, interleaved comparison; empty for those."""
    machine: Machine | None = None
    """None when the runs come from different machines."""
    facts: dict[str, str] = {}
    """The environment in words: Kubernetes version, workload, nodes."""

    @property
    def decided(self) -> bool:
        """Whether the comparison may stop at this interim analysis."""
        return self.verdict != "inconclusive"


def compare(
    plan: ComparisonPlan,
    pairs: Sequence[Pair],
    *,
    discarded: Sequence[Discarded] = (),
    alone: Mapping[str, VariantRun] | None = None,
    machine: Machine | None = None,
    facts: Mapping[str, str] | None = None,
    weaker: str = "",
    stopped: str = "",
) -> Comparison:
    """Return the comparison of the pairs. ``pairs`` are in the order of their runs, the warm-up included.

    The figures are those of the last planned interim analysis that has all its pairs; before the first one, of all
    pairs so far, and nothing is decided. ``discarded``: pairs that were repeated. ``alone``: for each variant (``a``,
    ``b``) a run that had the machine to itself. ``stopped``: why no further pairs are made, for a reason that has
    nothing to do with their figures; these then are the last analysis. Raises UsageError for an invalid plan.
    """
    check(plan)
    looks = _looks(plan, len(pairs), stopped=bool(stopped))
    reached = [look for look in looks if look <= len(pairs)]
    look = reached[-1] if reached else None
    used = [pair for pair in pairs[plan.warmup : look] if not (pair.a.broken or pair.b.broken)]
    broken = _broken(plan, pairs)
    metrics = _metrics(plan, used, look, looks)
    contention = _contention(plan, pairs, discarded)
    work = work_alone(used, alone or {}) if plan.parallel else ()
    return Comparison(
        plan=plan,
        verdict=_verdict(plan, metrics, broken),
        metrics=metrics,
        pairs=len(pairs),
        look=look,
        stopped=stopped,
        broken=broken,
        alone=work,
        contention=contention,
        warnings=(
            *_warnings(plan, pairs, metrics, look),
            *remarks(
                contention,
                limit=plan.max_contention,
                repeats=plan.repeats,
                warmup=plan.warmup,
                by_counts=plan.by_counts,
            ),
            *changed_work(plan, work),
        ),
        weaker=weaker,
        machine=machine,
        facts=dict(facts or {}),
    )


def _looks(plan: ComparisonPlan, made: int, *, stopped: bool) -> tuple[int, ...]:
    """Return the planned analyses; of a comparison that was stopped, those before its last pair, and one after it.

    With fewer than four pairs after the warm-up nothing is decided: equal figures would still be chance.
    """
    if not stopped or made >= plan.pairs or made < facts_from(plan):
        return plan.looks
    return (*(look for look in plan.looks if look < made), made)


def _contention(
    plan: ComparisonPlan, pairs: Sequence[Pair], discarded: Sequence[Discarded]
) -> tuple[PairContention, ...]:
    """Return the contention of each pair, after that of the pairs which it replaced."""
    made = [(one.round, one.pair, True) for one in discarded]
    made += [(number, pair, False) for number, pair in enumerate(pairs)]
    return tuple(
        PairContention(
            pair=number + 1,
            contention=pair.contention,
            contended=is_contended(pair.contention, plan.max_contention),
            discarded=again,
        )
        # Sorting is stable: of one number, discarded pairs come first, in the order of the folder.
        for number, pair, again in sorted(made, key=lambda one: one[0])
    )


def _broken(plan: ComparisonPlan, pairs: Sequence[Pair]) -> tuple[Broken, ...]:
    sides: tuple[Literal["a", "b"], ...] = ("a", "b")
    return tuple(
        Broken(variant=side, name=name, runs=len(why), why=why[0])
        for side, (name, runs) in zip(sides, _runs(plan, pairs), strict=True)
        if (why := [run.broken for run in runs if run.broken])
    )


def _runs(plan: ComparisonPlan, pairs: Sequence[Pair]) -> tuple[tuple[str, list[VariantRun]], ...]:
    """Return both variants' names and runs."""
    return (plan.a, [pair.a for pair in pairs]), (plan.b, [pair.b for pair in pairs])


def _failures(name: str, runs: Sequence[VariantRun]) -> list[str]:
    failures = [run.failure for run in runs if run.failure]
    if not failures:
        return []
    return [
        f"{name}: the test failed in {len(failures)} of {len(runs)} runs, which count as far as they got: {failures[0]}"
    ]


def _verdict(plan: ComparisonPlan, metrics: Sequence[MetricComparison], broken: Sequence[Broken]) -> ComparisonVerdict:
    verdicts = {metric.verdict for metric in metrics if metric.gated and not is_silent(plan, metric)}
    if broken:
        return "broken"
    if "regression" in verdicts:
        return "regression"
    if verdicts & {"inconclusive", "not-measured"}:
        return "inconclusive"
    return "improvement" if "improvement" in verdicts else "ok"


def facts_from(plan: ComparisonPlan) -> int:
    """Return the number of pairs from which on facts decide, before the first analysis too."""
    return plan.warmup + FEWEST


def _metrics(
    plan: ComparisonPlan, pairs: Sequence[Pair], look: int | None, looks: tuple[int, ...]
) -> tuple[MetricComparison, ...]:
    others = sorted({key for pair in pairs for run in (pair.a, pair.b) for key in run.metrics} - {*plan.gated})
    if plan.by_counts:
        # Where all pairs are contended, a remark says that they have no times.
        others = [key for key in others if _figures(plan, pairs, key)[0].size]
    gated = _judged(plan, plan.gated, pairs, look, looks, gated=True)
    # Each of these by itself: they decide nothing.
    return (*gated, *(metric for key in others for metric in _judged(plan, (key,), pairs, look, looks, gated=False)))


def _judged(
    plan: ComparisonPlan,
    keys: Sequence[str],
    pairs: Sequence[Pair],
    look: int | None,
    looks: tuple[int, ...],
    *,
    gated: bool,
) -> list[MetricComparison]:
    """Return metrics that are decided together."""
    bounds = Bounds(plan.regression, plan.ok)
    figures = [_figures(plan, pairs, key) for key in keys]
    floors = [_floor(plan, key) for key in keys]
    measured = list(zip(keys, figures, floors, strict=True))
    p = [
        metric_evidence(key, a, b, bounds, floor=floor) if a.size else (np.nan, np.nan, np.nan)
        for key, (a, b), floor in measured
    ]
    facts = np.array([a.size > 0 and is_fact(key, a, b, floor=floor) for key, (a, b), floor in measured])
    fractions = tuple((at - plan.warmup) / (plan.pairs - plan.warmup) for at in looks)
    index = looks.index(look) if look is not None else 0
    alpha, ok_alpha = one_sided(plan)
    decision = decide_with_facts(
        Evidence(*np.array(p).T), facts, alpha=alpha, ok_alpha=ok_alpha, fractions=fractions, look=index
    )
    alone = nominal_levels(ok_alpha, fractions, power=OK_POWER)[index]
    early = look is None and len(pairs) >= FEWEST
    judged = []
    for at, (key, (a, b)) in enumerate(zip(keys, figures, strict=True)):
        note = _note(key, pairs, a.size)
        if a.size:
            decided = look is not None or (early and facts[at] and decision.regression[at])
            verdict = _metric_verdict(decision, at) if decided else "inconclusive"
            own = MetricLevels(alone, *_adjusted(decision, at, alone), gated=gated)
            judged.append(
                describe_metric(
                    key,
                    a,
                    b,
                    verdict=verdict,
                    levels=own,
                    bounds=bounds,
                    next_look=_next_look(plan, pairs, look),
                    floor=floors[at],
                    note=note,
                )
            )
        else:
            judged.append(not_measured(key, gated=gated, note=note))
    return judged


def _next_look(plan: ComparisonPlan, pairs: Sequence[Pair], look: int | None) -> int:
    """Return how many more pairs the next interim analysis takes; one where all are over."""
    have = look if look is not None else plan.warmup + len(pairs)
    return next((later - have for later in plan.looks if later > have), 1)


def _adjusted(decision: Decision, at: int, alone: float) -> tuple[float, float]:
    """Return the levels of a metric's bounds, below and above; those of a fact bound nothing."""
    return float(decision.low_level[at]) or alone, float(decision.high_level[at]) or alone


def _floor(plan: ComparisonPlan, key: str) -> float | None:
    return floor_of(key) if plan.by_counts and units_of(key) in COUNTS else None


def _figures(plan: ComparisonPlan, pairs: Sequence[Pair], key: str) -> tuple[Floats, Floats]:
    """Return A's and B's figures of the pairs in which both were measured; times of contended ones are none."""
    timed = plan.by_counts and units_of(key) == "s"
    both = [
        pair
        for pair in pairs
        if key in pair.a.metrics
        and key in pair.b.metrics
        and not (timed and is_contended(pair.contention, plan.max_contention))
    ]
    return np.array([pair.a.metrics[key] for pair in both]), np.array([pair.b.metrics[key] for pair in both])


def _metric_verdict(decision: Decision, at: int) -> MetricVerdict:
    if decision.regression[at]:
        return "regression"
    if decision.improvement[at]:
        return "improvement"
    return "ok" if decision.ok[at] else "inconclusive"


def _note(key: str, pairs: Sequence[Pair], measured: int) -> str:
    if not measured:
        return "not measured in any pair" if pairs else "no pair after the warm-up"
    notes = []
    if measured < len(pairs):
        notes.append(f"measured in {measured} of {len(pairs)} pairs")
    runs = [run for pair in pairs for run in (pair.a, pair.b)]
    saturated = sum(phase_of(key) in run.saturated for run in runs)
    if saturated and is_wall_time(key):
        notes.append(f"machine saturated in {saturated} of {len(runs)} runs: this measures the machine")
    return "; ".join(notes)


def _warnings(
    plan: ComparisonPlan, pairs: Sequence[Pair], metrics: Sequence[MetricComparison], look: int | None
) -> list[str]:
    texts = []
    if look is None:
        facts = [metric.key for metric in metrics if metric.gated and metric.verdict == "regression"]
        texts.append(
            f"{len(pairs)} of the {plan.looks[0]} pairs of the first analysis: "
            + (f"decided by counts that never vary: {', '.join(facts)}" if facts else "nothing is decided yet")
        )
    elif look < len(pairs):
        texts.append(f"{len(pairs)} pairs recorded; the figures are of the planned look at {look}")
    a_first = sum(pair.first == "a" for pair in pairs)
    if len(pairs) > 2 and abs(2 * a_first - len(pairs)) > 1:
        texts.append(f"{plan.a} ran first in {a_first} of {len(pairs)} pairs: a drift of the machine is not evened out")
    texts += [text for name, runs in _runs(plan, pairs) for text in _failures(name, runs)]
    texts += _unlike_work(plan, metrics)
    if plan.parallel and any(is_wall_time(metric.key) for metric in metrics):
        texts.append(
            "wall times are those of both variants running at the same time: where they lack cores, a difference shows"
            " as about half of what it is; one after the other: --sequential"
        )
    for metric in metrics:
        disagrees = metric.wilcoxon_p is not None and metric.wilcoxon_p > _RANK_TEST_AGREES
        possible = 2 / 2**metric.pairs <= _RANK_TEST_AGREES
        if metric.gated and metric.verdict in ("regression", "improvement") and disagrees and possible:
            texts.append(
                f"{metric.key}: the signed-rank test does not agree (p = {metric.wilcoxon_p:.2g}): look for an outlier"
            )
    return texts


def _unlike_work(plan: ComparisonPlan, metrics: Sequence[MetricComparison]) -> list[str]:
    """Return warnings where a trigger was not the same work for both: a figure per trigger then means little.

    Triggers that arrive faster than an operator processes them are coalesced, the more so the slower it is.
    """
    made = next((metric for metric in metrics if metric.key == "noop_reconciles"), None)
    if made is None or made.ratio is None or abs(made.ratio - 1) <= _SAME_WORK:
        return []
    return [
        f"a no-op trigger made {made.a:.4g} reconciles of {plan.a} and {made.b:.4g} of {plan.b}: where triggers fall"
        " together, compare the CPU per reconcile"
    ]
