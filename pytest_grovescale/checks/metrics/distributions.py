"""Histograms and summaries that contradict themselves.

https://prometheus.io/docs/concepts/metric_types/ and the OpenMetrics specification: counts are whole numbers that only
grow, the +Inf bucket is the count, a sum lies between what the buckets allow, and quantiles rise.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import pairwise

from ...exposition.families import NativeHistogram, Series
from .families import Served, number, written
from .units import unit_in

LabelSet = tuple[tuple[str, str], ...]

_SLACK = 1e-6
"""Of a sum, relative: floating-point additions."""

_SURE = 100
"""Observations."""

_NEARLY_ALL = 0.99
_FAR_ABOVE = 1000.0
"""How many times the largest bound the mean of the observations above it may be."""

_OTHER_UNIT = 100.0
"""How many times the largest of nearly all the mean may be: the few largest may have been long ago."""

_EXPONENTIAL = range(-4, 9)
"""Schemas of native histograms whose buckets grow by a factor."""

_LARGEST_EXPONENT = 1024

_THIRTY_YEARS_S = 1e9

LONGEST_S = 3.2e7
"""A year: what takes longer is in milliseconds or less."""

DURATION = re.compile(
    r"(?:duration|latency|elapsed|delay|wait(?:ing)?|response|processing|request|reconcile)(?:_time)?_seconds$"
)
"""The end of the name of what something took."""


def _by_labels(family: Served, suffix: str, without: str = "") -> dict[LabelSet, list[Series]]:
    found: dict[LabelSet, list[Series]] = defaultdict(list)
    for one in family.series:
        if one.name == family.name + suffix and (not without or without in one.labels):
            found[others(one, without)].append(one)
    return found


def others(one: Series, label: str) -> LabelSet:
    """Return the labels of a series but for one."""
    return tuple(sorted((key, value) for key, value in one.labels.items() if key != label))


def _without(family: Served, suffix: str, label: str, fix: str) -> Iterator[tuple[str, str, str]]:
    """Yield a sample without the label by which its type has several samples."""
    for one in family.series:
        if one.name == family.name + suffix and label not in one.labels:
            yield f"a sample of a {family.family.type} has no {label}", written(one), fix


def _too_long(family: Served, mean: float) -> str:
    """Return that a mean in seconds cannot be one; empty where it can, as an age of some years."""
    if math.isfinite(mean) and DURATION.search(family.name) and mean > LONGEST_S:
        return f"its mean of {mean:.4g} s is longer than a year"
    if math.isfinite(mean) and family.name.endswith("_seconds") and mean > _THIRTY_YEARS_S:
        return f"its mean of {mean:.4g} s is longer than thirty years"
    return ""


def _single(series: list[Series] | None, samples: Mapping[str, float]) -> float | None:
    return samples.get(written(series[0])) if series else None


_CLIENT = "use a client library's histogram, and register each metric once"


def histogram(family: Served, samples: Mapping[str, float]) -> Iterator[tuple[str, str, str]]:
    """Yield what is wrong with a histogram of classic buckets: (what, an example, the fix)."""
    buckets = _by_labels(family, "_bucket", "le")
    sums, counts = _by_labels(family, "_sum"), _by_labels(family, "_count")
    layouts: dict[tuple[str, ...], Series] = {}
    yield from _without(family, "_bucket", "le", _CLIENT)
    for labels in {**buckets, **counts, **sums}:
        some = (buckets.get(labels) or counts.get(labels) or sums[labels])[0]
        example = written(some)
        own = buckets.get(labels, [])
        count, total = _single(counts.get(labels), samples), _single(sums.get(labels), samples)
        if not own:
            yield "a label set has a count or a sum and no buckets", example, _CLIENT
            continue
        layouts.setdefault(tuple(sorted(one.labels["le"] for one in own if "le" in one.labels)), some)
        missing = [part for part, value in (("_sum", total), ("_count", count)) if value is None]
        if missing:
            # With buckets below zero a sum could fall, and clients leave both out.
            if all(number(one.labels["le"]) >= 0 for one in own):
                yield f"a label set has no {' and no '.join(missing)}", example, _CLIENT
            continue
        assert count is not None  # not missing
        assert total is not None
        if count and (mean := _too_long(family, total / count)):
            yield mean, example, "observe seconds"
        yield from _of_label_set(own, count, total, samples)
    if len(layouts) > 1:
        yield (
            f"its label sets have {len(layouts)} different layouts of buckets, which no query can add up",
            written(list(layouts.values())[1]),
            "give all label sets the same buckets",
        )


def _of_label_set(
    own: list[Series], count: float, total: float, samples: Mapping[str, float]
) -> Iterator[tuple[str, str, str]]:
    example = written(own[0])
    by_bound: dict[float, float] = {}
    for one in own:
        bound = number(one.labels.get("le", ""))
        if math.isnan(bound):
            return  # `buckets` says so
        if math.isinf(bound) and one.labels["le"] != "+Inf":
            yield f"its last bucket is le={one.labels['le']!r}, and queries ask for +Inf", written(one), _CLIENT
        if bound in by_bound:
            yield f"the bucket of le {bound:g} is there twice, written differently", written(one), _CLIENT
            return
        by_bound[bound] = samples.get(written(one), math.nan)
    values = [*by_bound.values(), count]
    if any(not math.isfinite(value) or value < 0 or value != int(value) for value in values):
        yield "a count of observations is no whole number from 0 on", example, _CLIENT
        return
    top = by_bound.get(math.inf)
    if top is None or any(after < before for before, after in pairwise(by_bound[b] for b in sorted(by_bound))):
        return  # `buckets` says so
    if top != count:
        yield f"its count is {count:g}, and its +Inf bucket holds {top:g}", example, _CLIENT
    if math.isnan(total) or math.isinf(total):
        yield f"its sum is {total:g}", example, "observe finite values only"
    elif total < 0 and own and min(by_bound) >= 0 and unit_in(own[0].name) is not None:
        yield f"its sum is {total:g}, and no duration or size is below zero", example, _CLIENT
    elif count == 0 and total != 0:
        yield f"its sum is {total:g} without an observation", example, _CLIENT
    elif count:
        yield from _sum_fits(sorted(by_bound.items()), count, total, example)


def of_native(one: NativeHistogram) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with the sum of a native histogram, and how to mend it.

    Buckets as in https://prometheus.io/docs/specs/native_histograms/#bucket-boundaries-and-schemas. Of negative
    observations and of bounds of its own nothing is said.
    """
    total = float(one.sum)
    if one.negative or one.schema not in _EXPONENTIAL or not math.isfinite(total):
        return
    buckets = [(max(one.zero_threshold, math.ulp(0.0)), one.zero_count)]
    for index, count in sorted(one.positive.items()):
        below = buckets[-1][1]
        low, high = (_bound(step, one.schema) for step in (index - 1, index))
        buckets += [(low, below), (high, below + count)]
    yield from ((says, fix) for says, _, fix in _sum_fits(buckets, one.count, total, ""))


def _bound(index: int, schema: int) -> float:
    """Return the upper bound of an exponential bucket; ∞ where it is larger than a number can be."""
    exponent = index * 2.0**-schema
    return 2.0**exponent if exponent < _LARGEST_EXPONENT else math.inf


def _sum_fits(
    buckets: list[tuple[float, float]], count: float, total: float, example: str
) -> Iterator[tuple[str, str, str]]:
    """Yield that a sum is not one that observations in these buckets can have: mostly it is in another unit."""
    least = most = 0.0
    below, floor = 0.0, 0.0 if buckets[0][0] > 0 else -math.inf
    for bound, up_to in buckets:
        inside = up_to - below
        if inside:
            least += inside * floor
            most += inside * bound
        below, floor = up_to, bound
    slack = _SLACK * max(1.0, abs(total))
    if total < least - slack or total > most + slack:
        allowed = f"from {least:.3g}" + (f" to {most:.3g}" if math.isfinite(most) else " on")
        yield (
            f"its sum is {total:.6g}, and {count:,.0f} observations in these buckets add up to something {allowed}",
            example,
            "observe in the unit of the buckets",
        )
        return
    (*_, (last, up_to_last), (end, _)) = [(0.0, 0.0), *buckets]
    above = count - up_to_last
    if math.isinf(end) and last > 0 and above and total - last * up_to_last > _FAR_ABOVE * last * above:
        yield (
            f"its sum is {total:.6g}: the {above:,.0f} observations above {last:g}, its largest bound, are"
            f" {(total - last * up_to_last) / above:.3g} each or more",
            example,
            "observe in the unit of the buckets",
        )


def summary(family: Served, samples: Mapping[str, float]) -> Iterator[tuple[str, str, str]]:
    """Yield what is wrong with a summary: (what, an example, the fix)."""
    quantiles = _by_labels(family, "", "quantile")
    counts, sums = _by_labels(family, "_count"), _by_labels(family, "_sum")
    fix = "use a client library's summary, or a histogram"
    yield from _without(family, "", "quantile", fix)
    layouts: dict[tuple[str, ...], str] = {}
    for labels in {**quantiles, **counts, **sums}:
        example = written((quantiles.get(labels) or counts.get(labels) or sums[labels])[0])
        for part, there in (("_sum", sums), ("_count", counts)):
            if labels not in there:
                yield f"a label set has no {part}", example, fix
        count = _single(counts.get(labels), samples)
        if count is not None and (not math.isfinite(count) or count < 0 or count != int(count)):
            yield "its count is no whole number from 0 on", example, fix
        total = _single(sums.get(labels), samples)
        if count == 0 and total:
            yield f"its sum is {total:g} without an observation", example, fix
        if total is not None and math.isinf(total):
            yield f"its sum is {total:g}", example, "observe finite values only"
        if total is not None and math.isfinite(total) and total < 0 and unit_in(family.name) is not None:
            yield f"its sum is {total:g}, and no duration or size is below zero", example, fix
        if count and total is not None and (mean := _too_long(family, total / count)):
            yield mean, example, "observe seconds"
        layouts.setdefault(tuple(sorted(one.labels.get("quantile", "") for one in quantiles.get(labels, []))), example)
        points: list[tuple[float, float]] = []
        for one in quantiles.get(labels, []):
            quantile = number(one.labels.get("quantile", ""))
            if not 0 <= quantile <= 1:
                yield f"the quantile {one.labels.get('quantile', '')!r} is no number from 0 to 1", written(one), fix
                continue
            points.append((quantile, samples.get(written(one), math.nan)))
        if points and min(points, key=lambda point: point[1])[1] < 0 and unit_in(family.name) is not None:
            yield "a quantile is below zero, and no duration or size is", example, fix
        known = [(quantile, value) for quantile, value in sorted(points) if not math.isnan(value)]
        for (low, below), (high, above) in pairwise(known):
            if above < below:
                yield f"its quantile {high:g} is {above:g}, below {below:g} of quantile {low:g}", example, fix
                break
        if known and count and total is not None and count >= _SURE and known[-1][0] >= _NEARLY_ALL:
            average, nearly = total / count, known[-1][1]
            if 0 < nearly < math.inf and average > _OTHER_UNIT * nearly:
                says = f"its mean is {average:.4g}, and its quantile {known[-1][0]:g} {nearly:g}"
                yield says, example, "observe in one unit"
        if known and total is not None and unit_in(family.name) is not None and known[-1][1] > total * (1 + _SLACK):
            yield (
                f"its quantile is {known[-1][1]:g}, more than {total:g}, the sum of all",
                example,
                "observe in one unit",
            )
    if len(layouts) > 1:
        says = f"its label sets have {len(layouts)} different lists of quantiles"
        yield says, list(layouts.values())[1], "give all label sets the same quantiles"
