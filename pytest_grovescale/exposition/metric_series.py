"""The series of protobuf metrics, keyed by their parts: encoded names and labels, and bounds."""

from __future__ import annotations

from typing import NamedTuple

from ..protobuf_wire import WireError, fields
from .limits import Limits
from .numbers import written
from .series import text

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
