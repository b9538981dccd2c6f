"""One exposition, in any format: families, and series with their values.

A family has its name in the text format 0.0.4: a counter's ends in ``_total`` where its samples do. So
``go_memstats_alloc_bytes``, a gauge, and ``go_memstats_alloc_bytes_total``, a counter, stay two families, which
OpenMetrics writes under one name.
"""

from __future__ import annotations

from typing import Literal

import msgspec

MetricType = Literal["counter", "gauge", "histogram", "gaugehistogram", "summary", "info", "stateset", "unknown"]
"""``unknown``: ``untyped`` in the text format, and any family without a TYPE line."""


class Family(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Metadata of a metric family."""

    name: str
    type: MetricType = "unknown"
    help: str = ""
    unit: str = ""
    """Only in OpenMetrics and protobuf."""


class NativeHistogram(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A histogram with exponential buckets; counts are absolute, by bucket index (not deltas between neighbours)."""

    schema: int
    count: float
    sum: str
    """As text, since it may be NaN."""
    zero_threshold: float = 0.0
    zero_count: float = 0.0
    positive: dict[int, float] = {}
    negative: dict[int, float] = {}


class Exposition(msgspec.Struct, frozen=True, kw_only=True):
    """One response of an endpoint. Its dicts are shared with other responses: do not modify them.

    Exemplars and timestamps of samples are dropped.
    """

    families: dict[str, Family]
    """By name; also those without a sample."""
    samples: dict[str, str]
    """Series, in the format of `series.text` → value as exposed: as text, NaN equals itself."""
    native: dict[str, NativeHistogram] = {}
    """Series with exponential buckets → these buckets."""
    created: dict[str, str] = {}
    """Series (for a histogram or summary, without suffix) → its creation time, s since the epoch."""
    retyped: dict[str, tuple[MetricType, ...]] = {}
    """Families with several TYPE lines → the types, in order; the last one applies."""
