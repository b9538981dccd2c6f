"""Writes ``io.prometheus.client`` messages, field by field, so that any answer can be made."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping

from tests.wire_messages import message, number, varint


def zigzag(field: int, value: int) -> bytes:
    return number(field, value << 1 if value >= 0 else (-value << 1) - 1)


def double(field: int, value: float) -> bytes:
    return varint(field << 3 | 1) + struct.pack("<d", value)


def labels(pairs: Mapping[str, str]) -> bytes:
    return b"".join(message(1, message(1, name.encode()), message(2, value.encode())) for name, value in pairs.items())


def family(name: str, kind: int, metrics: Iterable[bytes], help_text: str = "", unit: str = "") -> bytes:
    """Return a family with its length before it; ``metrics``: the content of each Metric."""
    content = message(1, name.encode()) + (message(2, help_text.encode()) if help_text else b"")
    content += number(3, kind) + b"".join(message(4, metric) for metric in metrics)
    content += message(5, unit.encode()) if unit else b""
    return varint(len(content)) + content


def gauge(value: float, pairs: Mapping[str, str] | None = None) -> bytes:
    return labels(pairs or {}) + message(2, double(1, value))


def counter(value: float, pairs: Mapping[str, str] | None = None, created: bytes = b"") -> bytes:
    return labels(pairs or {}) + message(3, double(1, value), message(3, created) if created else b"")


def histogram(*content: bytes, pairs: Mapping[str, str] | None = None) -> bytes:
    return labels(pairs or {}) + message(7, *content)


def bucket(bound: float, count: int) -> bytes:
    return message(3, number(1, count), double(2, bound))


def span(field: int, offset: int, length: int) -> bytes:
    return message(field, zigzag(1, offset), number(2, length))


def time(seconds: int, nanos: int) -> bytes:
    return number(1, seconds) + number(2, nanos)


COUNTER, GAUGE, SUMMARY, UNTYPED, HISTOGRAM, GAUGE_HISTOGRAM = range(6)
