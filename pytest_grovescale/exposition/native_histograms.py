"""Native histograms in protobuf: spans of exponential buckets with counts, absolute or as deltas.

Source: https://prometheus.io/docs/specs/native_histograms/. Fields are given by their keys, as in metric_family.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from ..protobuf_wire import WireError, double, doubles, fields, last, varints, zigzag
from .families import NativeHistogram
from .sample_lines import written

MAX_BUCKETS = 10_000
"""Of one histogram and sign. Programs limit it themselves, mostly to 100 (``NativeHistogramMaxBucketNumber``)."""


class Span(NamedTuple):
    """Consecutive buckets."""

    offset: int
    """Number of buckets skipped since the last span; for the first span its start index."""
    length: int


def native_histogram(found: Mapping[int, list[Any]], count: float) -> NativeHistogram | None:
    """Return the exponential buckets of a Histogram message, by its grouped fields; None where there are none.

    An empty span announces later buckets. Raises WireError or ValueError.
    """
    zeros = count_of(last(found, 0x38), last(found, 0x41))
    threshold = double(last(found, 0x31))
    if not (found[0x62] or found[0x4A] or zeros or threshold):
        return None
    if not all(map(math.isfinite, (count, zeros, threshold))):
        raise WireError("a native histogram has a count that is no number")
    return NativeHistogram(
        schema=_sint32(last(found, 0x28) or 0),
        count=count,
        sum=written(double(last(found, 0x11))),
        zero_threshold=threshold,
        zero_count=zeros,
        positive=_buckets(found[0x62], [*found[0x68], *found[0x6A]], [*found[0x71], *found[0x72]]),
        negative=_buckets(found[0x4A], [*found[0x50], *found[0x52]], [*found[0x59], *found[0x5A]]),
    )


def _buckets(spans: list[bytes], deltas: list[int | bytes], counts: list[bytes]) -> dict[int, float]:
    """Return bucket → count; ``deltas`` and ``counts``, of which one is empty, may be packed."""
    # Checked before unpacking: a varint has up to ten bytes.
    sizes = (
        len(spans),
        sum(map(len, counts)) // 8,
        sum(len(step) / 10 if isinstance(step, bytes) else 1 for step in deltas),
    )
    if max(sizes) > MAX_BUCKETS:
        raise WireError(f"a native histogram has more than {MAX_BUCKETS:,} buckets")
    absolutes = [count for packed in counts for count in doubles(packed)]
    steps = [zigzag(step) for packed in deltas for step in varints(packed)]
    return by_index([_span(span) for span in spans], absolutes or absolute(steps))


def _span(message: bytes) -> Span:
    found = dict(fields(message))
    return Span(_sint32(found.get(0x08, 0)), found.get(0x10, 0))


def _sint32(number: int) -> int:
    found = zigzag(number)
    if not -(1 << 31) <= found < 1 << 31:
        raise WireError(f"{found} is no number of 32 bits")
    return found


def count_of(whole: int | None, fraction: bytes | None) -> float:
    """Return a count; a fractional count above zero overrides the integer one."""
    found = double(fraction)
    return found if found > 0 else float(whole or 0)


def by_index(spans: Sequence[Span], counts: Sequence[float]) -> dict[int, float]:
    """Return bucket index → count, without empty buckets. Raises ValueError for inconsistent spans and counts."""
    if sum(span.length for span in spans) != len(counts):
        raise ValueError(f"{sum(span.length for span in spans):,} native buckets in spans have {len(counts):,} counts")
    if any(count < 0 or not math.isfinite(count) for count in counts):
        raise ValueError("a native bucket has a count below zero, or none at all")
    found: dict[int, float] = {}
    index, of_bucket = 0, iter(counts)
    for offset, length in spans:
        index += offset
        found |= {bucket: count for bucket in range(index, index + length) if (count := next(of_bucket))}
        index += length
    return found


def absolute(deltas: Iterable[int]) -> list[float]:
    """Return absolute counts from deltas between buckets."""
    return [float(count) for count in accumulate(deltas)]
