"""The operator's CPU time: by its exact clock, or by its own word where nobody can read that."""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from typing import NamedTuple


class CpuMoment(NamedTuple):
    """What the operator had used of CPU at a moment."""

    at: int
    """Recorder's clock, ns."""
    cpu_s: float
    life: int = 0
    """Pid of the process; 0 where the operator tells itself."""


class CpuTimes:
    """Both sources, in order of time."""

    def __init__(self) -> None:
        self.clock: list[CpuMoment] = []
        """Reads of the process' CPU clock."""
        self.told: list[CpuMoment] = []
        """``process_cpu_seconds_total`` of its scrapes."""

    def known(self) -> bool:
        """Return whether anything tells the operator's CPU time."""
        return bool(self.clock or self.told)

    def cores(self, start: int, end: int) -> float | None:
        """Return how many cores the operator kept busy between two moments, ns; None where nothing tells.

        From the last read before the one to the last read before the other: all that is known when a scrape comes.
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
