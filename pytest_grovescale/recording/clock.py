"""The recorder's clock: the wall clock at its start plus monotonic time since, so that it never steps."""

from __future__ import annotations

import time
from collections.abc import Callable

STEP_NS = 1_000_000
"""A wall clock that moved less than this against the recorder's clock is not journaled."""

_BRACKET_NS = 200_000
"""Two reads further apart than this say nothing about a step: the process was off the CPU between them."""


class RecorderClock:
    """Nanoseconds since the epoch, monotonic. The two sources can be given, so that tests can set the wall clock."""

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

        None means no step, or that this process was interrupted between its two reads and cannot tell; the next
        call will.
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
