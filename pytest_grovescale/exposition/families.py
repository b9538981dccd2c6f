"""One exposition, whatever format it came in: families, and series with their values.

A family goes by the name that the text format 0.0.4 gives it: a counter's ends in ``_total`` where its samples do. So
``go_memstats_alloc_bytes``, a gauge, and ``go_memstats_alloc_bytes_total``, a counter, stay two families, which
OpenMetrics writes under one name.
"""

from __future__ import annotations

from typing import Literal

import msgspec

MetricType = Literal["counter", "gauge", "histogram", "gaugehistogram", "summary", "info", "stateset", "unknown"]
"""``unknown``: ``untyped`` in the text format, and whatever has no TYPE line."""


class Family(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an endpoint says of a metric, beside its samples."""

    name: str
    type: MetricType = "unknown"
    help: str = ""
    unit: str = ""
    """Only OpenMetrics and protobuf tell."""


class NativeHistogram(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A histogram with exponential buckets; counts are absolute, by bucket index, not differences to the neighbour."""

    schema: int
    count: float
    sum: str
    """As text, since it may be NaN."""
    zero_threshold: float = 0.0
    zero_count: float = 0.0
    positive: dict[int, float] = {}
    negative: dict[int, float] = {}


class Exposition(msgspec.Struct, frozen=True, kw_only=True):
    """One answer of an endpoint. Its dicts are shared with other answers of the same: not to be changed.

    Exemplars and the timestamps of samples are in none of them.
    """

    families: dict[str, Family]
    """By name; also those without a sample."""
    samples: dict[str, str]
    """Series, as `series.text` writes it, → value as it was exposed: NaN equals itself as text."""
    native: dict[str, NativeHistogram] = {}
    """The series that have exponential buckets → these."""
    created: dict[str, str] = {}
    """Series (or, of a histogram or summary, the series without suffix) → when it was created, s since the epoch."""
    retyped: dict[str, tuple[MetricType, ...]] = {}
    """Families with more than one TYPE line → what these say, in their order; the last one holds."""
