"""Parts of a comparison: the plan that is fixed before the first measured run, pairs of runs, the verdict of all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import msgspec

from ..errors import UsageError
from .contention import RunContention, worst_of
from .run_metrics import floor_of, units_of

if TYPE_CHECKING:
    from .comparison import Comparison
    from .metric_comparison import MetricComparison

PLAN_SCHEMA_VERSION = 1

FEWEST = 4
"""Pairs after the warm-up from which on a count that never varies within a variant is compared as a fact: two variants
with the same distribution differ so in at most one of 256 comparisons. It needs no test, and no share of alpha."""

ComparisonVerdict = Literal["regression", "improvement", "ok", "inconclusive", "broken"]
"""``broken``: a variant failed its milestones; its speed means nothing."""


class ComparisonPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Settings that are fixed before the first measured run."""

    schema_version: int = PLAN_SCHEMA_VERSION
    a: str
    """Name of the reference variant."""
    b: str
    differs: str = ""
    """How they differ: ``variant: baseline, optimized``; empty for an operator against itself."""
    gated: tuple[str, ...]
    """Keys of the metrics that the verdict is about; all others are reported only."""
    guards: tuple[str, ...] = ()
    """Those of `gated` that call a regression as the others do, and hold up the verdict only where B's figures are
    above the bound `ok` on average: what varies too much from run to run to be known to be ok."""
    regression: float = 1.03
    ok: float = 1.10
    alpha: float = 0.05
    """Intervals hold 1 - alpha; each direction has alpha / 2, shared among all gated metrics and interim analyses."""
    ok_alpha: float | None = None
    """Alpha of ``ok``, which needs no sharing: a comparison is ok only if every gated metric of every part is (an
    intersection-union test; Berger, Technometrics 24, 1982). None: `alpha` (older plans)."""
    pairs: int = 10
    """With the warm-up."""
    warmup: int = 1
    """Pairs at the start that are recorded and left out."""
    looks: tuple[int, ...] = (6, 10)
    """Numbers of pairs at which interim analyses may stop the comparison; the last is `pairs`."""
    parallel: bool = False
    """Whether a pair's runs are made in parallel, on clusters of their own, instead of sequentially."""
    max_contention: float | None = None
    """Share of the cores that programs outside the comparison, and steal, may take: above it a pair is contended, and
    repeated as long as there are `repeats`. None: no limit (older plans)."""
    repeats: int = 0
    """How often, in all, a contended pair is discarded and repeated; further ones are kept."""
    by_counts: bool = False
    """Whether the default gates are counts, which other programs do not change: a contended pair then keeps them, and
    loses its times."""


class VariantRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run of one variant, or one no-op window of it."""

    metrics: dict[str, float]
    """As `run_metrics.metrics_of`, or one of `run_metrics.windows_of`."""
    broken: str = ""
    """Why the run says nothing about speed: ``deploy: timeout, 963 of 1,000 pods-ready``; empty when it passed."""
    failure: str = ""
    """The test's failed assertion. Figures before it count; there are none after it."""
    saturated: tuple[str, ...] = ()
    """Phases in which the machine was saturated, as `run_metrics.saturated_phases`."""
    objects: int | None = None
    """The largest number of objects that one of its milestones counts; None where none counts any."""
    recording: str = ""
    """Path of its recording, relative to the comparison's folder."""
    contention: RunContention | None = None
    """Use of the cores by programs outside the comparison; None for older runs that did not record it."""


class Pair(msgspec.Struct, frozen=True, kw_only=True):
    """A run of A and a run of B: at the same time, or one right after the other."""

    a: VariantRun
    b: VariantRun
    first: Literal["a", "b"] = "a"
    """Which of them ran, or was started, first."""

    @property
    def contention(self) -> RunContention:
        """That of its more contended run."""
        return worst_of([self.a.contention, self.b.contention])


class Discarded(msgspec.Struct, frozen=True, kw_only=True):
    """A contended pair whose figures were left out and whose runs were repeated."""

    round: int
    """From 0, as of the pair that replaced it."""
    pair: Pair


def one_sided(plan: ComparisonPlan) -> tuple[float, float]:
    """Return a plan's one-sided alphas: of a regression or an improvement, shared among its metrics, and of ``ok``."""
    return plan.alpha / 2, (plan.alpha if plan.ok_alpha is None else plan.ok_alpha) / 2


def check(plan: ComparisonPlan) -> None:
    """Raise UsageError for an invalid plan."""
    rising = all(earlier < later for earlier, later in zip(plan.looks, plan.looks[1:], strict=False))
    wrong = {
        "no metric is gated": not plan.gated,
        "a guard is not gated": not set(plan.guards) <= set(plan.gated),
        "a metric is gated twice": len(set(plan.gated)) < len(plan.gated),
        f"the bounds {plan.regression} and {plan.ok} are not 1 < regression < ok": not 1 < plan.regression < plan.ok,
        f"alpha is {plan.alpha}, not between 0 and 1": not 0 < plan.alpha < 1,
        f"alpha of ok is {plan.ok_alpha}, not between 0 and 1": plan.ok_alpha is not None and not 0 < plan.ok_alpha < 1,
        f"the interim analyses {plan.looks} do not rise to the last of {plan.pairs} pairs": not plan.looks
        or not rising
        or plan.looks[-1] != plan.pairs,
        f"the limit of contention {plan.max_contention} is not a share of the cores": plan.max_contention is not None
        and not 0 < plan.max_contention <= 1,
        f"an interim analysis comes before the {plan.warmup} warm-up pairs and one more": plan.warmup < 0
        or not plan.looks
        or plan.looks[0] <= plan.warmup,
    }
    for key in plan.gated:
        try:
            units_of(key)
        except KeyError:
            wrong[f"{key!r} is not a metric"] = True
    for what, holds in wrong.items():
        if holds:
            raise UsageError(f"comparison of {plan.a} and {plan.b}: {what}", next_step="Change the plan.")


def is_silent(plan: ComparisonPlan, metric: MetricComparison) -> bool:
    """Return whether an undecided metric holds up no verdict: a guard that does not look worse than ok on average."""
    if metric.key not in plan.guards or metric.verdict != "inconclusive":
        return False
    if metric.ratio is not None:
        return metric.ratio < plan.ok
    if metric.a is None or metric.difference is None:
        return False
    least = floor_of(metric.key) if plan.by_counts else 0.0
    return metric.a + metric.difference < plan.ok * max(metric.a, least)


def overall(comparisons: Sequence[Comparison]) -> ComparisonVerdict:
    """Return the combined verdict of the parts of one comparison, at least one: the worst of theirs."""
    verdicts = {comparison.verdict for comparison in comparisons}
    order: tuple[ComparisonVerdict, ...] = ("broken", "regression", "inconclusive", "improvement", "ok")
    return next(verdict for verdict in order if verdict in verdicts)
