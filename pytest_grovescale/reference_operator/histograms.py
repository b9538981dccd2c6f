"""A histogram with cheap observations; the cumulative form is computed at scrape time."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence


class Histogram:
    """Counts per bucket; ``bounds`` are upper bounds, inclusive, ascending, without +Inf."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(self.bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def cumulative(self) -> list[tuple[str, float]]:
        """Return (le, count) of each bucket, +Inf last."""
        rows: list[tuple[str, float]] = []
        running = 0
        for bound, count in zip((*(repr(b) for b in self.bounds), "+Inf"), self.counts, strict=True):
            running += count
            rows.append((bound, running))
        return rows
