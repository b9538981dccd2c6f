"""The recorder's clock: the wall clock at its start plus monotonic time since, so that it never steps."""

from __future__ import annotations

import time
from collections.abc import Callable

STEP_NS = 1_000_000
"""Minimum difference between the wall clock and the recorder's clock that is journaled as a step, ns."""

_BRACKET_NS = 200_000
"""Maximum time between the two reads, ns; beyond it the process was off the CPU and no step is derived."""


class RecorderClock:
    """Nanoseconds since the epoch, monotonic. Tests can pass both clock functions."""

    def __init__(
        self, wall: Callable[[], int] = time.time_ns, monotonic: Callable[[], int] = time.monotonic_ns
    ) -> None:
        self._wall = wall
        self._monotonic = monotonic
        self._base = wall() - monotonic()
        self._offset = 0

    def now(self) -> int:
        """Return the recorder's time, ns."""
        return self._base + self._monotonic()

    def step(self) -> int | None:
        """Return the new offset (wall clock - recorder's clock, ns) when the wall clock was set since the last call.

        None: no step, or this process was interrupted between its two reads; the next call then detects the step.
        """
        before = self._monotonic()
        wall = self._wall()
        after = self._monotonic()
        if after - before > _BRACKET_NS:
            return None
        offset = wall - self._base - (before + after) // 2
        if abs(offset - self._offset) < STEP_NS:
            return None
        self._offset = offset
        return offset
