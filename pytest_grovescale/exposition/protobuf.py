"""Delimited ``io.prometheus.client.MetricFamily`` messages: the one format that has native histograms.

Format: https://github.com/prometheus/client_model/blob/master/io/prometheus/client/metrics.proto. Fields are given by
their keys, which encode field number and wire type: ``number << 3 | type``.

Format: https://prometheus.io/docs/instrumenting/exposition_formats/, each message after its length as a varint.
Classic buckets become the series of the text format, with numbers and bounds as Go writes them there; so an endpoint
has the same series in every format. Exemplars and timestamps of samples are not read.
Native histograms are spans of exponential buckets with counts, absolute or as deltas:
https://prometheus.io/docs/specs/native_histograms/.

Parsed without a protobuf library: most messages of a scrape, of families and of label sets, are byte for byte those of
the scrape before, and their results are cached.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from ..errors import ExpositionError
from ..protobuf_wire import WireError, double, doubles, fields, grouped, last, signed, varint, varints, zigzag
from .body import Limits
from .families import Exposition, Family, MetricType, NativeHistogram, text
from .text import written

Labels = tuple[bytes, ...]
"""A metric's labels, each as its LabelPair message."""


class LabelSet(NamedTuple):
    """The series keys of one label set."""

    series: list[str]
    whole: str
    """Key of its native histogram and creation time; empty where it has neither."""


class MetricSeries:
    """The series of one endpoint. A known series costs one dict look-up."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._known: dict[tuple[str, Labels, str, float], str] = {}
        self.bare: dict[tuple[str, bytes], LabelSet] = {}
        """Label sets whose message is labels and a double, by family name and the bytes before the double."""

    def text(self, name: str, labels: Labels, bound: str = "", at: float = 0.0) -> str:
        """Return a series; ``bound``: the label ``le`` or ``quantile``, and its value. Raises WireError."""
        key = (name, labels, bound, at)
        series = self._known.get(key)
        if series is None:
            pairs = self._pairs(labels)
            if bound in pairs:
                raise WireError(f"the label {bound!r} is there twice")
            series = self._known[key] = text(name, {**pairs, bound: written(at)} if bound else pairs)
        return series

    def forget(self, met: int) -> None:
        """Drop the caches when most of their entries are not among the ``met`` series of the last response."""
        if len(self._known) > 2 * met + 1000:
            self._known.clear()
        if len(self.bare) > 2 * met + 1000:
            self.bare.clear()

    def _pairs(self, labels: Labels) -> dict[str, str]:
        pairs: dict[str, str] = {}
        for label in labels:
            parts = dict(fields(label))
            name, value = parts.get(0x0A, b"").decode(), parts.get(0x12, b"").decode()
            if name in pairs or name in ("", "__name__"):
                raise WireError(f"the label {name[:80]!r} is empty, reserved, or there twice")
            if max(len(name), len(value)) > self.limits.max_value_length:
                raise WireError(f"a label is longer than {self.limits.max_value_length:,} characters")
            pairs[name] = value
        if len(pairs) > self.limits.max_labels_per_series:
            raise WireError(f"a series has more than {self.limits.max_labels_per_series} labels")
        return pairs


_METRIC = 0x22
_LABEL = 0x0A
_NUMBER_SIZE = 11
"""Size of a value message that holds one double, with its key and length: 2 + 9 bytes."""
_TYPES: dict[int, MetricType] = {
    0: "counter",
    1: "gauge",
    2: "summary",
    3: "unknown",
    4: "histogram",
    5: "gaugehistogram",
}
_VALUES: dict[MetricType, int] = {
    "gauge": 0x12,
    "counter": 0x1A,
    "summary": 0x22,
    "unknown": 0x2A,
    "histogram": 0x3A,
    "gaugehistogram": 0x3A,
}
"""Type → key, in a Metric, of the message that holds its value."""
_BARE: dict[MetricType, bytes] = {
    kind: bytes((_VALUES[kind], _NUMBER_SIZE - 2, 0x09)) for kind in ("gauge", "counter", "unknown")
}
"""Type → first bytes of a value that is a single double: keys and length."""


class Part(NamedTuple):
    """The contents of one message."""

    family: Family
    samples: dict[str, str]
    native: dict[str, NativeHistogram]
    created: dict[str, str]
    metrics: dict[bytes, LabelSet]
    """Message of each label set → its own part of the above."""


def read_family(message: bytes, known: MetricSeries, families: Mapping[str, Part]) -> Part:
    """Return the contents of a message; reuses label sets that the last response's ``families``, by name, had too.

    Raises WireError, or UnicodeDecodeError for invalid text.
    """
    head: dict[int, Any] = {}
    metrics: list[bytes] = []
    for key, value in fields(message):
        if key != _METRIC:
            head[key] = value
        elif len(metrics) < known.limits.max_series:
            metrics.append(value)
        else:
            raise too_many(known.limits)
    family = _described(head, known.limits)
    before = families.get(family.name)
    if before is not None and before.family.type == family.type:
        with contextlib.suppress(ValueError):
            return _changed(before, family, metrics, known)
    # Errors are reported as if nothing had been cached.
    part = Part(family, {}, {}, {}, {})
    try:
        for metric in metrics:
            part.metrics[metric] = _metric(metric, part, known)
    except ValueError as error:
        of_family = "" if family.name in str(error) else f", in the family {family.name!r}"
        raise WireError(f"{error}{of_family}") from None
    return part


def _changed(before: Part, family: Family, metrics: list[bytes], known: MetricSeries) -> Part:
    """Return a part that is mostly unchanged. Raises ValueError for any error."""
    part = Part(family, before.samples.copy(), before.native.copy(), before.created.copy(), {})
    for gone in before.metrics.keys() - set(metrics):
        label_set = before.metrics[gone]
        for series in label_set.series:
            del part.samples[series]
        part.native.pop(label_set.whole, None)
        part.created.pop(label_set.whole, None)
    for metric in metrics:
        part.metrics[metric] = before.metrics.get(metric) or _metric(metric, part, known)
    if len(part.metrics) != len(metrics):
        raise WireError("a label set occurs twice")
    return part


def _described(head: dict[int, Any], limits: Limits) -> Family:
    name, help_text, unit = (head.get(key, b"").decode() for key in (0x0A, 0x12, 0x2A))
    kind = head.get(0x18, 0)
    if not name or kind not in _TYPES:
        raise WireError(f"a family {name[:80]!r} of type {kind}; it needs a name, and a type from 0 to {max(_TYPES)}")
    if max(len(name), len(help_text), len(unit)) > limits.max_value_length:
        raise WireError(f"a name or a help text is longer than {limits.max_value_length:,} characters")
    return Family(name=name, type=_TYPES[kind], help=help_text, unit=unit)


class _Metric(NamedTuple):
    """One label set of a family, and the destination of its series."""

    part: Part
    labels: Labels
    known: MetricSeries
    series: list[str]
    """The added series."""

    def put(self, value: float, suffix: str = "", *, bound: str = "", at: float = 0.0) -> None:
        """Add a series. Raises WireError for a duplicate."""
        series = self.known.text(self.part.family.name + suffix, self.labels, bound, at)
        _put(self.part, series, value, self.known.limits)
        self.series.append(series)

    @property
    def whole(self) -> str:
        """Return the series that its parts have in common."""
        return self.known.text(self.part.family.name, self.labels)


def _put(part: Part, series: str, value: float, limits: Limits) -> None:
    """Add a series. Raises WireError for a duplicate."""
    if series in part.samples:
        raise WireError(f"the series {series[:80]} occurs twice")
    if len(part.samples) >= limits.max_series:
        raise too_many(limits)
    part.samples[series] = written(value)


def _metric(message: bytes, part: Part, known: MetricSeries) -> LabelSet:
    wanted = _VALUES[part.family.type]
    value_begins = len(message) - _NUMBER_SIZE
    # Most are labels and one double: after known labels only the double can follow.
    bare = value_begins >= 0 and message[value_begins : value_begins + 3] == _BARE.get(part.family.type)
    place = (part.family.name, message[:value_begins]) if bare else ("", b"")
    if bare and (label_set := known.bare.get(place)) is not None:
        _put(part, label_set.series[0], double(message[-8:]), known.limits)
        return label_set
    labels, value, keys = [], None, []
    for key, content in fields(message):
        keys.append(key)
        if key == _LABEL:
            labels.append(content)
        elif key == wanted:
            value = content
    if value is None:
        raise WireError(f"a metric of {part.family.name!r} has no value of its type, {part.family.type}")
    metric = _Metric(part, tuple(labels), known, [])
    extras = len(part.native) + len(part.created)
    _READERS[part.family.type](metric, value)
    label_set = LabelSet(metric.series, metric.whole if len(part.native) + len(part.created) > extras else "")
    if bare and keys == [_LABEL] * len(labels) + [wanted] and len(value) == _NUMBER_SIZE - 2:
        known.bare[place] = label_set
    return label_set


def _number(metric: _Metric, message: bytes) -> None:
    """Gauge and Untyped."""
    metric.put(double(dict(fields(message)).get(0x09)))


def _counter(metric: _Metric, message: bytes) -> None:
    found = dict(fields(message))
    metric.put(double(found.get(0x09)))
    _created(metric, found.get(0x1A))


def _summary(metric: _Metric, message: bytes) -> None:
    found = grouped(message)
    for quantile in found[0x1A]:
        parts = dict(fields(quantile))
        metric.put(double(parts.get(0x11)), bound="quantile", at=double(parts.get(0x09)))
    metric.put(double(last(found, 0x11)), "_sum")
    metric.put(count_of(last(found, 0x08), None), "_count")
    _created(metric, last(found, 0x22))


def _histogram(metric: _Metric, message: bytes) -> None:
    found = grouped(message)
    count = count_of(last(found, 0x08), last(found, 0x21))
    bound = 0.0
    for bucket in found[0x1A]:
        bound, so_far = _bucket(bucket)
        metric.put(so_far, "_bucket", bound="le", at=bound)
    if bound != math.inf:
        metric.put(count, "_bucket", bound="le", at=math.inf)
    gauge = "g" if metric.part.family.type == "gaugehistogram" else ""
    metric.put(double(last(found, 0x11)), f"_{gauge}sum")
    metric.put(count, f"_{gauge}count")
    _created(metric, last(found, 0x7A))
    native = native_histogram(found, count)
    if native is not None:
        metric.part.native[metric.whole] = native


@functools.lru_cache(maxsize=50_000)
def _bucket(message: bytes) -> tuple[float, float]:
    """Return a classic bucket's bound and count. In a changed histogram, most buckets are unchanged."""
    parts = dict(fields(message))
    return double(parts.get(0x11)), count_of(parts.get(0x08), parts.get(0x21))


def _created(metric: _Metric, message: bytes | None) -> None:
    """Store a ``google.protobuf.Timestamp``, s since the epoch, with full precision."""
    if message is None:
        return
    found = dict(fields(message))
    seconds, nanos = signed(found.get(0x08, 0)), signed(found.get(0x10, 0))
    if seconds < 0 or not 0 <= nanos < 10**9:
        raise WireError(f"{seconds} s and {nanos} ns is no time after 1970")
    metric.part.created[metric.whole] = f"{seconds}.{nanos:09}".rstrip("0").rstrip(".")


def too_many(limits: Limits) -> WireError:
    """Return the error for too many series."""
    return WireError(f"more than {limits.max_series:,} series; at most so many are read")


_READERS: dict[MetricType, Callable[[_Metric, bytes], None]] = {
    "gauge": _number,
    "unknown": _number,
    "counter": _counter,
    "summary": _summary,
    "histogram": _histogram,
    "gaugehistogram": _histogram,
}


class ProtobufReader:
    """Reads one endpoint's responses; caches make repeated ones fast."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._series = MetricSeries(limits)
        self._last: dict[bytes, Part] = {}
        self._met = 0

    def read(self, body: bytes) -> Exposition:
        """Return the contents of a response. Raises ExpositionError with the offset of the malformed message."""
        self._series.forget(self._met)
        parts: dict[bytes, Part] = {}
        families = {part.family.name: part for part in self._last.values()}
        found = Exposition(families={}, samples={}, native={}, created={})
        for at, message in _messages(body):
            part = parts[message] = self._last.get(message) or self._part(message, at, families)
            self._take(part, found, at)
        self._last, self._met = parts, len(found.samples)
        return found

    def _part(self, message: bytes, at: int, families: Mapping[str, Part]) -> Part:
        try:
            return read_family(message, self._series, families)
        except ValueError as error:  # a WireError, or bytes that are not UTF-8
            raise ExpositionError(f"byte {at}: {error}") from None

    def _take(self, part: Part, found: Exposition, at: int) -> None:
        before = len(found.samples)
        found.families[part.family.name] = part.family
        found.samples.update(part.samples)
        found.native.update(part.native)
        found.created.update(part.created)
        if len(found.samples) != before + len(part.samples):
            raise ExpositionError(f"byte {at}: a series of {part.family.name!r} occurs twice in the answer")
        if max(len(found.samples), len(found.families)) > self._limits.max_series:
            raise ExpositionError(f"byte {at}: {too_many(self._limits)}")


def _messages(body: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at < len(body):
        try:
            size, begin = varint(body, at)
        except WireError as error:
            raise ExpositionError(f"byte {at}: {error}; the answer was cut off, or is in another format") from None
        if begin + size > len(body):
            raise ExpositionError(
                f"byte {at}: a message of {size:,} bytes begins, and the answer has {len(body) - begin:,} more;"
                " it was cut off, or is in another format"
            )
        yield at, body[begin : begin + size]
        at = begin + size


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
