"""Buckets of histograms: how many observations fell into each, and whether the layout tells them apart."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise

import msgspec

from ...analysis.profiles.wilson import wilson
from ...exposition.series import Series, text
from .problem import Problem
from .served import Served, without

SHARE_MAX = 0.95
"""Of all observations; a bucket that holds more leaves nothing to compute a quantile from."""


Z_95_ONE_SIDED = 1.6448536269514722
"""95 % quantile of the normal distribution."""


class Layout(msgspec.Struct, frozen=True, kw_only=True):
    """A histogram's buckets, over all its label sets."""

    family: str
    bounds: tuple[float, ...]
    """Upper bounds, ascending, the last one ∞."""
    counts: tuple[float, ...]
    """Observations of each bucket alone, not of those below it too."""
    mean: float | None
    """Of all observations; None where the sums do not tell."""
    label_sets: int
    faults: tuple[str, ...] = ()
    """Label sets that are not in `counts`, and why: ``{controller="a"}: no +Inf bucket``."""

    @property
    def observations(self) -> float:
        return sum(self.counts)

    @property
    def series(self) -> int:
        """Series that Prometheus stores: each bucket, the sum and the count, for each label set."""
        return self.label_sets * (len(self.bounds) + 2)

    @property
    def fullest(self) -> int:
        """Index of the bucket that holds most."""
        return max(range(len(self.counts)), key=lambda index: self.counts[index])

    @property
    def share(self) -> float:
        """Share of the observations that the fullest bucket holds. Only where there are observations."""
        return self.counts[self.fullest] / self.observations

    @property
    def exact(self) -> bool:
        """Whether the fullest bucket holds one value alone, so that nothing in it is left to tell apart.

        Zero, which its author gave a bucket; or its bound, where all observations are no more and on average as much.
        """
        if self.fullest == 0 and self.bounds[0] == 0:
            return True
        return self.share == 1 and self.mean is not None and math.isclose(self.mean, self.bounds[self.fullest])

    @property
    def share_low(self) -> float:
        """What `share` is at least, with 95 % by Wilson's one-sided interval: a few observations prove little."""
        return wilson(self.counts[self.fullest], self.observations, Z_95_ONE_SIDED)[0]


def layout_of(served: Served, samples: Mapping[str, float]) -> Layout | None:
    """Return a histogram's buckets; None for what has no classic ones, as one with native buckets alone."""
    by_labels = _by_labels(served, samples)
    if not by_labels:
        return None
    bounds = sorted({bound for buckets in by_labels.values() for bound in buckets if not math.isnan(bound)})
    counts = dict.fromkeys(bounds, 0.0)
    faults = []
    for labels, buckets in by_labels.items():
        fault = _fault(buckets)
        if fault:
            faults.append(f"{text(served.name, dict(labels))}: {fault}")
            continue
        below = 0.0
        for bound in sorted(buckets):
            counts[bound] += buckets[bound] - below
            below = buckets[bound]
    return Layout(
        family=served.name,
        bounds=tuple(bounds),
        counts=tuple(counts.values()),
        mean=None if faults else _mean(served, samples, sum(counts.values())),
        label_sets=len(by_labels),
        faults=tuple(faults),
    )


def problems(families: Iterable[Served], samples: Mapping[str, float], native: Iterable[str] = ()) -> Iterator[Problem]:
    """Yield histograms whose buckets cannot be counted up, or of which one holds nearly all observations."""
    exponential = set(native)
    for served in families:
        if served.family.type != "histogram":
            continue
        layout = layout_of(served, samples)
        if layout is None:
            continue
        for fault in layout.faults:
            yield Problem(family=served.name, rule="buckets", says=fault, fix="use a client library's histogram")
        if served.name in exponential or not layout.observations or layout.exact:
            continue
        if layout.share_low > SHARE_MAX:
            yield Problem(family=served.name, rule="buckets", says=in_words(layout), fix=fix(layout))


def in_words(layout: Layout) -> str:
    """Return where the observations are: ``99 % of 1,200 observations lie in one of 12 buckets, up to 0.005``."""
    bound = layout.bounds[layout.fullest]
    below = layout.bounds[layout.fullest - 1] if layout.fullest else None
    where = f"above {below:g}" if math.isinf(bound) and below is not None else f"up to {bound:g}"
    return (
        f"{layout.share * 100:.3g} % of {layout.observations:,.0f} observations lie in one of its"
        f" {len(layout.bounds)} buckets, {where}; they cost {layout.series:,} series"
    )


def fix(layout: Layout) -> str:
    """Return what to do with the buckets."""
    bound = layout.bounds[layout.fullest]
    if math.isinf(bound):
        return "add buckets above the largest, or use a native histogram"
    where = f"around {layout.mean:.2g}, their mean," if layout.mean is not None else f"below {bound:g}"
    return f"put buckets {where} or use a native histogram"


def _by_labels(served: Served, samples: Mapping[str, float]) -> dict[tuple[tuple[str, str], ...], dict[float, float]]:
    """Return label set → bound → count of all observations up to it."""
    found: dict[tuple[tuple[str, str], ...], dict[float, float]] = {}
    for series in served.series:
        if series.name == f"{served.name}_bucket" and "le" in series.labels:
            buckets = found.setdefault(without(series.labels, "le"), {})
            buckets[_bound(series)] = samples[text(series.name, series.labels)]
    return found


def _mean(served: Served, samples: Mapping[str, float], observations: float) -> float | None:
    sums = [samples[text(one.name, one.labels)] for one in served.series if one.name == f"{served.name}_sum"]
    return sum(sums) / observations if sums and observations and math.isfinite(sum(sums)) else None


def _bound(series: Series) -> float:
    try:
        return float(series.labels["le"])
    except ValueError:
        return math.nan


def _fault(buckets: Mapping[float, float]) -> str:
    """Return why a label set's buckets cannot be taken apart; empty when they can."""
    if any(math.isnan(bound) for bound in buckets):
        return "an le that is no number"
    if math.inf not in buckets:
        return "no +Inf bucket"
    counts = [buckets[bound] for bound in sorted(buckets)]
    if not all(math.isfinite(count) and count >= 0 for count in counts):
        return "a bucket's count is no number from 0 on"
    if any(after < before for before, after in pairwise(counts)):
        return "a bucket holds less than the one below it, and each should hold both"
    return ""
