"""One metric of two variants: its figures, its interval, and its verdict at one interim analysis."""

from __future__ import annotations

import math
from typing import Literal

import msgspec
import numpy as np

from .run_metrics import COUNTS, Unit, units_of
from .statistics.paired import (
    Floats,
    Moments,
    bound,
    difference,
    evidence,
    log_difference,
    log_ratio,
    moments,
    never_varies,
    p_above,
    p_below,
    pairs_needed,
    signed_rank_p,
)

MetricVerdict = Literal["regression", "improvement", "ok", "inconclusive", "not-measured"]

Method = Literal["ratio", "difference", "unpaired", "exact"]
"""``ratio``: paired t of the logarithm of B / A; ``difference``: paired t of B - bound × A, where zeros leave no ratio;
``unpaired``: t of two samples of logarithms, of counts in a comparison by counts; ``exact``: a count that is the same
in all runs of A and in all runs of B, which needs no test."""


class MetricComparison(msgspec.Struct, frozen=True, kw_only=True):
    """One metric of A and B. Ratios are B / A; None where they are not defined or were not measured."""

    key: str
    unit: Unit
    a: float | None = None
    """Median of A's runs."""
    b: float | None = None
    ratio: float | None = None
    """Geometric mean of the pairs' ratios."""
    low: float | None = None
    """Interval of the ratio that the verdict is made from, at this interim analysis. The ends of a gated metric have
    the levels that Holm's procedure gives it among the gated, except for an upper end that decides about ``ok``, which
    is not adjusted."""
    high: float | None = None
    difference: float | None = None
    """Mean of B - A."""
    difference_low: float | None = None
    """Its interval, at the levels of `low` and `high`."""
    difference_high: float | None = None
    p: float | None = None
    """Two-sided, of the paired t test that nothing differs; None where no test is needed or possible."""
    wilcoxon_p: float | None = None
    """Two-sided, of the exact signed-rank test of the same: a check that no outlier made the result."""
    method: Method = "ratio"
    verdict: MetricVerdict
    """Of a metric that is not gated: by its own interval, without effect on the comparison's verdict."""
    more_pairs: int | None = None
    """How many more pairs would decide an inconclusive one in four of five comparisons, by the noise so far."""
    pairs: int = 0
    """Pairs that the figures come from, without the warm-up."""
    gated: bool = False
    note: str = ""
    """Caveats: the machine was saturated, or why it was not measured."""

    @property
    def exact(self) -> bool:
        """Whether it is a count that never varied within a variant."""
        return self.method == "exact"


class Bounds(msgspec.Struct, frozen=True):
    """The two bounds of a plan."""

    regression: float
    ok: float


class MetricLevels(msgspec.Struct, frozen=True):
    """One-sided levels that a metric's bounds are taken at."""

    ok: float
    low: float
    """Of the lower bound, which a regression is decided by: Holm's among the metrics that are decided together."""
    high: float
    """Of the upper bound that an improvement is decided by."""
    gated: bool


def method_of(key: str, a: Floats, b: Floats, *, unpaired: bool = False) -> Method:
    """Return the method that compares a metric, chosen by its figures as `statistics.paired.evidence` chooses.

    ``unpaired``: of a count that is above zero.
    """
    if units_of(key) in COUNTS and bool(never_varies(a, b)):
        return "exact"
    if unpaired:
        return "unpaired"
    return "ratio" if bool(np.isfinite(log_ratio(a, b)).all()) else "difference"


def is_fact(key: str, a: Floats, b: Floats, *, floor: float | None) -> bool:
    """Return whether a metric needs no test; ``floor``: as of `describe_metric`."""
    if floor is not None:
        a, b = np.maximum(a, floor), np.maximum(b, floor)
    return method_of(key, a, b) == "exact"


def describe_metric(
    key: str,
    a: Floats,
    b: Floats,
    *,
    verdict: MetricVerdict,
    levels: MetricLevels,
    bounds: Bounds,
    next_look: int = 1,
    floor: float | None = None,
    note: str = "",
) -> MetricComparison:
    """Return a metric with all its figures; ``a`` and ``b`` are of the same pairs, at least one.

    ``next_look`` is how many more pairs the next interim analysis takes: fewer cannot decide anything. ``floor``: of a
    count in a comparison by counts; smaller ones are compared as this much.
    """
    if floor is not None:
        return _unpaired(
            key, a, b, floor, verdict=verdict, levels=levels, bounds=bounds, next_look=next_look, note=note
        )
    method = method_of(key, a, b)
    shared = MetricComparison(
        key=key,
        unit=units_of(key),
        a=float(np.median(a)),
        b=float(np.median(b)),
        difference=float(np.mean(b - a)),
        method=method,
        verdict=verdict,
        more_pairs=_more_pairs(a, b, method, levels, bounds, next_look) if verdict == "inconclusive" else None,
        pairs=a.size,
        gated=levels.gated,
        note=note,
    )
    if method == "exact":
        return _as_fact(shared)
    return _with_intervals(shared, a, b, levels, bounds)


def _unpaired(
    key: str,
    a: Floats,
    b: Floats,
    floor: float,
    *,
    verdict: MetricVerdict,
    levels: MetricLevels,
    bounds: Bounds,
    next_look: int,
    note: str,
) -> MetricComparison:
    """Return a count of a comparison by counts.

    It has neither ratio nor interval where a median is below the floor: those would be of the floor.
    """
    raised_a, raised_b = np.maximum(a, floor), np.maximum(b, floor)
    method = method_of(key, raised_a, raised_b, unpaired=True)
    metric = MetricComparison(
        key=key,
        unit=units_of(key),
        a=float(np.median(a)),
        b=float(np.median(b)),
        difference=float(np.mean(b) - np.mean(a)),
        method=method,
        verdict=verdict,
        more_pairs=_more_pairs(raised_a, raised_b, method, levels, bounds, next_look)
        if verdict == "inconclusive"
        else None,
        pairs=a.size,
        gated=levels.gated,
        note=note,
    )
    if bool(never_varies(a, b)):
        return _as_fact(msgspec.structs.replace(metric, method="exact"))
    if method == "exact" or min(float(np.median(a)), float(np.median(b))) < floor:
        fewer = f"less than {floor:g} counts as {floor:g}"
        return msgspec.structs.replace(metric, method="unpaired", note="; ".join(filter(None, (note, fewer))))
    tested = log_difference(raised_a, raised_b)
    high_level = _level_above(metric, tested, levels, bounds)
    plain = difference(a, b)
    return msgspec.structs.replace(
        metric,
        difference_low=_finite(bound(plain, levels.low)[0]),
        difference_high=_finite(bound(plain, high_level)[1]),
        p=min(1.0, 2 * float(min(p_above(tested), p_below(tested)))) if tested.freedom else None,
        ratio=math.exp(float(tested.mean)),
        low=_exp(_finite(bound(tested, levels.low)[0])),
        high=_exp(_finite(bound(tested, high_level)[1])),
    )


def _as_fact(metric: MetricComparison) -> MetricComparison:
    """Give a count that never varies its ratio, which is its own interval; none where A's count is 0."""
    a, b = metric.a or 0.0, metric.b or 0.0
    ratio = 1.0 if a == b else b / a if a else None
    return msgspec.structs.replace(
        metric,
        ratio=ratio,
        low=ratio,
        high=ratio,
        difference_low=metric.difference,
        difference_high=metric.difference,
    )


def _with_intervals(
    metric: MetricComparison, a: Floats, b: Floats, levels: MetricLevels, bounds: Bounds
) -> MetricComparison:
    differences = b - a
    tested = log_ratio(a, b) if metric.method == "ratio" else differences
    high_level = _high_level(metric, tested, levels, bounds)
    comparison = msgspec.structs.replace(
        metric,
        difference_low=_bound(differences, levels.low, 0),
        difference_high=_bound(differences, high_level, 1),
        p=_two_sided(tested),
        wilcoxon_p=signed_rank_p(tested) if tested.size > 1 else None,
    )
    if metric.method != "ratio":
        return comparison
    return msgspec.structs.replace(
        comparison,
        ratio=math.exp(float(tested.mean())),
        low=_exp(_bound(tested, levels.low, 0)),
        high=_exp(_bound(tested, high_level, 1)),
    )


def _high_level(metric: MetricComparison, tested: Floats, levels: MetricLevels, bounds: Bounds) -> float:
    return _level_above(metric, moments(tested), levels, bounds)


def _level_above(metric: MetricComparison, tested: Moments, levels: MetricLevels, bounds: Bounds) -> float:
    """Return the level of the upper end that the verdict is made from.

    ``ok`` is decided without an adjustment. Where Holm's bound is further out, and lies below the bound of ``ok`` too,
    it also shows why the metric is ``ok`` but no ``improvement``.
    """
    if metric.verdict in ("regression", "improvement"):
        return levels.high
    if levels.high > levels.ok:
        return levels.ok
    adjusted = _finite(bound(tested, levels.high)[1])
    holds = metric.method in ("ratio", "unpaired") and adjusted is not None and adjusted < math.log(bounds.ok)
    return levels.high if holds else levels.ok


def _bound(values: Floats, level: float, side: int) -> float | None:
    return _finite(bound(moments(values), level)[side])


def _finite(end: Floats) -> float | None:
    return float(end) if np.isfinite(end) else None


def _exp(end: float | None) -> float | None:
    return None if end is None else math.exp(end)


def _two_sided(values: Floats) -> float | None:
    if values.size < 2:
        return None
    of = moments(values)
    return min(1.0, 2 * float(min(p_above(of), p_below(of))))


def _more_pairs(
    a: Floats, b: Floats, method: Method, levels: MetricLevels, bounds: Bounds, next_look: int
) -> int | None:
    """Return how many more pairs would clear the nearer of the two bounds; None where the noise is unknown."""
    if a.size < 2 or method == "exact":
        return None
    if method in ("ratio", "unpaired"):
        log_ratios = log_ratio(a, b)
        above, below = log_ratios - math.log(bounds.regression), math.log(bounds.ok) - log_ratios
    else:
        above, below = b - bounds.regression * a, bounds.ok * a - b
    needed = [
        pairs_needed(float(margin.mean()), float(margin.std(ddof=1)), level=level)
        for margin, level in ((above, levels.low), (below, levels.ok))
    ]
    enough = [n for n in needed if n is not None]
    return max(next_look, min(enough) - a.size) if enough else None


def not_measured(key: str, *, gated: bool, note: str) -> MetricComparison:
    """Return a metric that was not measured in one of the variants."""
    return MetricComparison(key=key, unit=units_of(key), verdict="not-measured", gated=gated, note=note)


def metric_evidence(
    key: str, a: Floats, b: Floats, bounds: Bounds, *, floor: float | None = None
) -> tuple[float, float, float]:
    """Return one-sided p-values of regression, improvement and ok for one metric of at least one pair.

    ``floor``: as of `describe_metric`.
    """
    if floor is not None:
        a, b = np.maximum(a, floor), np.maximum(b, floor)
    p = evidence(
        a,
        b,
        counts=units_of(key) in COUNTS,
        regression=bounds.regression,
        ok=bounds.ok,
        unpaired=floor is not None,
    )
    return float(p.regression), float(p.improvement), float(p.ok)
