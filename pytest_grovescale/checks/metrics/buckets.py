"""Buckets of histograms."""

from __future__ import annotations

from ...analysis.metrics.history import MetricsHistory
from ...analysis.metrics.surface import Surface
from ...errors import NotMeasuredError
from ..finding import Finding, at_most
from ..lint.buckets import Layout, fix, in_words, layout_of
from ..lint.served import served
from .evidence import first
from .shape import HistogramBuckets


def judge(check: HistogramBuckets, metrics: MetricsHistory) -> Finding:
    """Judge the histogram whose fullest bucket holds the largest share of its observations.

    Families that a library brought are let off, except where ``family`` names one. So are native histograms: their
    buckets lie where the observations are.
    """
    target = metrics.target(check.target)
    layouts = _layouts(check, target.whole())
    observed = [layout for layout in layouts if layout.observations]
    faults = [fault for layout in layouts for fault in layout.faults]
    if not observed:
        raise NotMeasuredError(
            f"{target.target} serves no histogram {check.family or 'of its own'} with observations",
            next_step="; ".join(first(faults, 3)),
        )
    sure = [layout for layout in observed if layout.share_low > check.share_max and not layout.exact]
    worst = max(sure or observed, key=_crowded)
    finding = at_most(
        "",
        f"share of observations in one bucket of {worst.family}",
        _crowded(worst),
        check.share_max,
        doubts=faults[:1],
        evidence=first([*(_line(layout, check.share_max) for layout in observed), *faults]),
    )
    if finding.verdict == "fail" and not sure:
        raise NotMeasuredError(
            f"{finding.text}; {worst.observations:,.0f} observations are too few to tell", next_step=in_words(worst)
        )
    return finding


def _layouts(check: HistogramBuckets, surface: Surface) -> list[Layout]:
    judged = [
        found
        for found in served(surface, pattern=check.family)
        if found.family.type == "histogram" and found.name not in surface.native
        if check.family or not found.of_library
    ]
    layouts = (layout_of(found, surface.samples) for found in judged)
    return [layout for layout in layouts if layout is not None]


def _crowded(layout: Layout) -> float:
    """Return the share of observations in one bucket; none of those that are all one value, which it tells exactly."""
    return 0.0 if layout.exact else layout.share


def _line(layout: Layout, share_max: float) -> str:
    if layout.exact:
        return f"{layout.family}: {in_words(layout)}, and are one value alone"
    todo = f"; {fix(layout)}" if layout.share > share_max else ""
    return f"{layout.family}: {in_words(layout)}{todo}"
