"""The series of protobuf metrics by what they are made of: names and labels as they were sent, and bounds."""

from __future__ import annotations

from typing import NamedTuple

from ..wire import WireError, fields
from .limits import Limits
from .numbers import written
from .series import text

Labels = tuple[bytes, ...]
"""A metric's labels, each as its LabelPair message."""


class LabelSet(NamedTuple):
    """The keys of what one label set says."""

    series: list[str]
    whole: str
    """Its native histogram's and its time of creation's; empty where it has neither."""


class MetricSeries:
    """The series of one endpoint. One met before costs a dict look-up."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._known: dict[tuple[str, Labels, str, float], str] = {}
        self.bare: dict[tuple[str, bytes], LabelSet] = {}
        """Label sets of which the message is labels and a double, by the family's name and what comes before that."""

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
        """Let go of what is known when most of it is not among the ``met`` series of the last answer."""
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
