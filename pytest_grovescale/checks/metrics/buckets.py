"""Buckets of histograms: how many observations fell into each, and whether the layout separates them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise

import msgspec

from ...analysis.profiles.functions import wilson
from ...errors import NotMeasuredError
from ...exposition.families import FRAMEWORKS, NativeHistogram, text
from ..check import Outcome, at_most, first, share
from ..run import Run
from .distributions import DURATION
from .families import Problem, Served, chosen, number
from .help_texts import COUNTS
from .target import TargetCheck
from .units import unit_in

SHARE_MAX = 0.95
"""A bucket with a larger share of all observations leaves nothing to compute a quantile from."""

ABOVE_MAX = 0.5
"""The same for what is above the largest bound: there even the median is unknown."""

_SOME = 10
"""Observations."""

_NOISE = 16
"""Characters of a bound from which on it is a sum of fractions, as 0.30000000000000004."""

_MANY = 64
"""Buckets that no histogram needs: each is a series of each label set."""

_DEFAULT_MS = (
    (5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1_000.0, 2_500.0, 5_000.0, 10_000.0, math.inf),
    # OpenTelemetry's.
    (
        0,
        5.0,
        10.0,
        25.0,
        50.0,
        75.0,
        100.0,
        250.0,
        500.0,
        750.0,
        1_000.0,
        2_500.0,
        5_000.0,
        7_500.0,
        10_000.0,
        math.inf,
    ),
)

_FRACTIONS = 3
"""Bounds between 0 and 1 that whole numbers have no use for."""

_SHORT = re.compile(r"(?<![^_])(?:latency|request|response|rpc|http|grpc|query|lock|call|reconcile)(?:_\w+)?_seconds$")
"""Names of what takes milliseconds to minutes."""
_LONGEST_S = 5_000.0

_NO_TIME_S = 1e8
_MAY_BE_YEARS = re.compile(r"(?:^|_)(?:age|life\w*|valid\w*|expir\w*|remaining|ttl|left)(?=_|$)")
"""Three years: a bound that no duration in seconds has, but those of what is kept for years."""

_COUNTS_DOWN = re.compile(r"(?:^|_)(?:expir\w*?|remaining|ttl|left)(?=_|$)")
"""Parts of the names of what is well while it is above all bounds: the buckets are for the time when it runs out."""

_COARSE = range(-4, 1)
"""Schemas of native histograms whose buckets grow by a factor of two or more:
https://prometheus.io/docs/specs/native_histograms/#schema."""

FIX_NATIVE = "let its buckets grow by a factor of 1.1 (in client_golang NativeHistogramBucketFactor)"

Z_95_ONE_SIDED = 1.6448536269514722
"""95 % quantile of the normal distribution."""


class HistogramBuckets(TargetCheck, tag="histogram_buckets", frozen=True, kw_only=True):
    """Whether the buckets of histograms tell observations apart: no bucket holds more than a share of them.

    Native histograms do not count, since their buckets lie where the observations are; nor do families that a library
    brought, unless ``family`` names one.
    """

    timed = True
    one_scrape = "alone"

    share_max: float = SHARE_MAX
    family: str = ""

    def validate(self) -> None:
        share(self, share_max=self.share_max)

    def judge_target(self, run: Run) -> Outcome:
        target = run.metrics().target(self.target)
        surface = target.whole()
        layouts = _layouts(chosen(surface, self.family), surface.samples, surface.native)
        observed = [layout for layout in layouts if layout.observations]
        faults = [fault for layout in layouts for fault in layout.faults]
        if not observed:
            raise NotMeasuredError(
                f"{target.target} serves no histogram {self.family or 'of its own'} with observations",
                next_step="; ".join(first(faults, 3)),
            )
        sure = [layout for layout in observed if layout.share_low > self.share_max and not layout.exact]
        worst = max(sure or observed, key=_crowded)
        outcome = at_most(
            "",
            f"share of observations in one bucket of {worst.family}",
            _crowded(worst),
            self.share_max,
            doubts=faults[:1],
            evidence=first([*(_line(layout, self.share_max) for layout in observed), *faults]),
        )
        if outcome.verdict == "fail" and not sure:
            raise NotMeasuredError(
                f"{outcome.text}; {worst.observations:,.0f} observations are too few to tell", next_step=in_words(worst)
            )
        return outcome


class Layout(msgspec.Struct, frozen=True, kw_only=True):
    """A histogram's buckets, over all its label sets."""

    family: str
    bounds: tuple[float, ...]
    """Upper bounds, ascending, the last one ∞."""
    counts: tuple[float, ...]
    """Observations of each bucket alone, not of those below it too."""
    mean: float | None
    """Of all observations; None where the sums are not finite."""
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

        It is zero, which has a bucket of its own; or the bound, where it holds all observations and is their mean.
        """
        if self.fullest == 0 and self.bounds[0] == 0:
            return True
        return self.share == 1 and self.mean is not None and math.isclose(self.mean, self.bounds[self.fullest])

    @property
    def share_low(self) -> float:
        """What `share` is at least, with 95 % by Wilson's one-sided interval: a few observations prove little."""
        return wilson(self.counts[self.fullest], self.observations, Z_95_ONE_SIDED)[0]


def layout_of(family: Served, samples: Mapping[str, float]) -> Layout | None:
    """Return a histogram's buckets; None for what has no classic ones, as one with native buckets alone."""
    by_labels = _by_labels(family, samples)
    if not by_labels:
        return None
    bounds = sorted({bound for buckets in by_labels.values() for bound in buckets if not math.isnan(bound)})
    counts = dict.fromkeys(bounds, 0.0)
    faults = []
    for labels, buckets in by_labels.items():
        fault = _fault(buckets)
        if fault:
            faults.append(f"{text(family.name, dict(labels))}: {fault}")
            continue
        below = 0.0
        for bound in sorted(buckets):
            counts[bound] += buckets[bound] - below
            below = buckets[bound]
    return Layout(
        family=family.name,
        bounds=tuple(bounds),
        counts=tuple(counts.values()),
        mean=None if faults else _mean(family, samples, sum(counts.values())),
        label_sets=len(by_labels),
        faults=tuple(faults),
    )


def problems(families: Iterable[Served], samples: Mapping[str, float], native: Iterable[str] = ()) -> Iterator[Problem]:
    """Yield histograms whose buckets cannot be counted up, or of which one holds nearly all observations."""
    exponential = set(native)
    families = [family for family in families if not family.name.startswith(FRAMEWORKS)]
    texts = {family.name: family.family.help for family in families}
    for layout in _layouts(families, samples, ()):
        for fault in layout.faults:
            yield Problem(family=layout.family, rule="buckets", says=fault, fix="use a client library's histogram")
        if layout.family in exponential or not layout.observations or layout.exact:
            continue
        if layout.bounds == (math.inf,) and layout.observations >= _SOME:
            says = "its only bucket is +Inf, which separates nothing"
            yield Problem(family=layout.family, rule="buckets", says=says, fix="give it buckets, or make it a summary")
            continue
        if math.isinf(layout.bounds[layout.fullest]) and _COUNTS_DOWN.search(layout.family):
            continue
        if len(layout.bounds) > _MANY:
            says = f"its {len(layout.bounds)} buckets are {len(layout.bounds) + 2} series for each label set"
            yield Problem(family=layout.family, rule="buckets", says=says, fix="take fewer, or a native histogram")
        if (fractions := _fractions(layout)) and COUNTS.match(texts[layout.family]) and unit_in(layout.family) is None:
            says = f"it counts things, and {len(fractions)} of its bounds lie between 0 and 1, as {fractions[0]:g}"
            fix_ = "give it whole bounds, up to the largest number that there may be"
            yield Problem(family=layout.family, rule="buckets", says=says, fix=fix_)
        if layout.bounds in _DEFAULT_MS and unit_in(layout.family) == ("seconds", "seconds"):
            says = "its bounds are those that client libraries have for seconds, in milliseconds"
            yield Problem(family=layout.family, rule="buckets", says=says, fix="observe seconds, with such bounds")
        elif len(layout.bounds) > 2 and layout.bounds[-2] >= _LONGEST_S and _SHORT.search(layout.family):
            says = f"its bounds go up to {layout.bounds[-2] / 3600:.3g} hours: they are in milliseconds"
            yield Problem(
                family=layout.family, rule="buckets", says=says, fix="observe seconds, with bounds in seconds"
            )
        elif _are_too_long(layout):
            says = f"its bounds go up to {layout.bounds[-2] / 31_557_600:,.3g} years: they are in microseconds or less"
            yield Problem(family=layout.family, rule="buckets", says=says, fix="observe seconds, with such bounds")
        if (noisy := next((one for one in layout.bounds if len(repr(one)) > _NOISE), None)) is not None:
            says = f"its bound {noisy!r} is a number that was computed and not rounded: no query will name it"
            yield Problem(family=layout.family, rule="buckets", says=says, fix="round its bounds", hint=True)
        if layout.bounds[0] < 0 and not layout.counts[0] and DURATION.search(layout.family):
            says = f"its lowest bound is {layout.bounds[0]:g}, and nothing takes less than no time"
            yield Problem(family=layout.family, rule="buckets", says=says, fix="give it bounds above 0")
        if layout.share_low > (ABOVE_MAX if math.isinf(layout.bounds[layout.fullest]) else SHARE_MAX):
            yield Problem(family=layout.family, rule="buckets", says=in_words(layout), fix=fix(layout))


def _are_too_long(layout: Layout) -> bool:
    """Return whether the bounds of a histogram in seconds go up to years, as those in smaller units do."""
    in_seconds = unit_in(layout.family) == ("seconds", "seconds") and not _MAY_BE_YEARS.search(layout.family)
    return in_seconds and len(layout.bounds) > 2 and layout.bounds[-2] >= _NO_TIME_S


def _fractions(layout: Layout) -> list[float]:
    """Return the bounds between 0 and 1 that separate nothing; none where they are few or an observation lies there."""
    fractions = [bound for bound in layout.bounds if 0 < bound < 1]
    inside = any(count for bound, count in zip(layout.bounds[1:], layout.counts[1:], strict=True) if 0 < bound < 1)
    return fractions if len(fractions) >= _FRACTIONS and not inside else []


def of_native(one: NativeHistogram) -> str | None:
    """Return that a native histogram's buckets are so wide that one holds nearly all observations; None if not.

    Where they grow by less than a factor of two, observations in one bucket are nearly one value. What is zero or below
    is not judged.
    """
    if one.schema not in _COARSE or not one.positive or one.negative:
        return None
    index, fullest = max(one.positive.items(), key=lambda bucket: bucket[1])
    if wilson(fullest, one.count, Z_95_ONE_SIDED)[0] <= SHARE_MAX:
        return None
    width = 2**-one.schema
    low, high = (2.0 ** (end * width) for end in (index - 1, index))
    return (
        f"{fullest / one.count * 100:.3g} % of {one.count:,.0f} observations lie in one of its native buckets, from"
        f" {low:g} to {high:g}: each is {2**width:,} times as high as the one below"
    )


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
    below = layout.bounds[layout.fullest - 1] if layout.fullest else -math.inf
    # That of all observations: a few large ones move it out of the bucket that holds nearly all.
    if layout.mean is not None and below < layout.mean <= bound:
        where = f"around {layout.mean:.2g}, their mean,"
    else:
        where = f"below {bound:g}" if math.isinf(below) else f"between {below:g} and {bound:g}"
    return f"put buckets {where} or use a native histogram"


def _layouts(families: Iterable[Served], samples: Mapping[str, float], native: Iterable[str]) -> list[Layout]:
    """Return the layouts of all histograms with classic buckets, without those in ``native``."""
    layouts = (
        layout_of(family, samples)
        for family in families
        if family.family.type == "histogram" and family.name not in native
    )
    return [layout for layout in layouts if layout is not None]


def _crowded(layout: Layout) -> float:
    """Return the share of observations in one bucket; 0 where they all have one value, which is exact."""
    return 0.0 if layout.exact else layout.share


def _line(layout: Layout, share_max: float) -> str:
    if layout.exact:
        return f"{layout.family}: {in_words(layout)}, and are one value alone"
    todo = f"; {fix(layout)}" if layout.share > share_max else ""
    return f"{layout.family}: {in_words(layout)}{todo}"


def _by_labels(family: Served, samples: Mapping[str, float]) -> dict[tuple[tuple[str, str], ...], dict[float, float]]:
    """Return label set → bound → count of all observations up to it."""
    by_labels: dict[tuple[tuple[str, str], ...], dict[float, float]] = {}
    for series in family.series:
        if series.name == f"{family.name}_bucket" and "le" in series.labels:
            labels = tuple(sorted((key, value) for key, value in series.labels.items() if key != "le"))
            buckets = by_labels.setdefault(labels, {})
            buckets[number(series.labels["le"])] = samples[text(series.name, series.labels)]
    return by_labels


def _mean(family: Served, samples: Mapping[str, float], observations: float) -> float | None:
    sums = [samples[text(one.name, one.labels)] for one in family.series if one.name == f"{family.name}_sum"]
    return sum(sums) / observations if sums and observations and math.isfinite(sum(sums)) else None


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
