"""The wall clock against the recorder's clock: converts times of the audit log to those of the recording.

The audit log is written by the API server, which reads the wall clock; the recording's own times come from a clock that
never steps. ``ClockStep`` records hold the difference between the two from some moment on.
"""

from __future__ import annotations

from bisect import bisect_right

from ..recording.records import ClockStep

STEP_DOUBT_NS = 2_000_000_000
"""Uncertainty around a clock step, ns: the recorder checks once a second, and a request that was received before the
step may be completed and journaled after it."""


class WallClock:
    """Offsets of the wall clock, in the order in which the recorder noticed them."""

    def __init__(self) -> None:
        self.steps: list[ClockStep] = []

    def add(self, step: ClockStep) -> None:
        self.steps.append(step)

    def offset(self, at: int) -> int:
        """Return wall clock - recorder's clock, ns, as known at a moment of the recorder's clock."""
        index = bisect_right(self.steps, at, key=lambda step: step.at)
        return self.steps[index - 1].offset_ns if index else 0

    def doubt(self, at: int) -> int:
        """Return the uncertainty of a wall time journaled at ``at``, ns: 0 unless the clock was set close by."""
        doubt, before = 0, 0
        for step in self.steps:
            if abs(step.at - at) <= STEP_DOUBT_NS:
                doubt += abs(step.offset_ns - before)
            before = step.offset_ns
        return doubt
