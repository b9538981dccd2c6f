"""The operator's CPU time: by its exact clock, or by its own metric where the clock cannot be read."""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from typing import NamedTuple


class CpuMoment(NamedTuple):
    """The operator's CPU time at a moment."""

    at: int
    """Recorder's clock, ns."""
    cpu_s: float
    life: int = 0
    """Pid of the process; 0 for the operator's own metric."""


class CpuTimes:
    """Both sources, ordered by time."""

    def __init__(self) -> None:
        self.clock: list[CpuMoment] = []
        """Reads of the process' CPU clock."""
        self.told: list[CpuMoment] = []
        """``process_cpu_seconds_total`` of its scrapes."""

    def known(self) -> bool:
        """Return whether the operator's CPU time is known."""
        return bool(self.clock or self.told)

    def cores(self, start: int, end: int) -> float | None:
        """Return how many cores the operator kept busy between two moments, ns; None where its CPU time is unknown.

        Uses the last read before each moment: all that is known when a scrape arrives.
        """
        for moments in (self.clock, self.told):
            first, last = _by(moments, start), _by(moments, end)
            if first is None or last is None or first.life != last.life or last.at <= first.at:
                continue
            if last.cpu_s >= first.cpu_s:
                return (last.cpu_s - first.cpu_s) / ((last.at - first.at) / 1e9)
        return None


def _by(moments: Sequence[CpuMoment], at: int) -> CpuMoment | None:
    position = bisect.bisect_right(moments, at, key=lambda moment: moment.at)
    return moments[position - 1] if position else None
