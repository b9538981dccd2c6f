"""Delimited ``io.prometheus.client.MetricFamily`` messages: the one format that has native histograms.

Format: https://prometheus.io/docs/instrumenting/exposition_formats/, each message after its length as a varint.
Classic buckets become the series of the text format, with numbers and bounds as Go writes them there; so an endpoint
has the same series in every format. Exemplars and timestamps of samples are not read.

Parsed without a protobuf library: most messages of a scrape, of families and of label sets, are byte for byte those of
the scrape before, and their results are cached.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ..errors import ExpositionError
from ..protobuf_wire import WireError, varint
from .families import Exposition
from .limits import Limits
from .metric_family import Part, read_family, too_many
from .metric_series import MetricSeries


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
