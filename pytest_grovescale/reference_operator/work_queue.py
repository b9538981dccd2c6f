"""The work queue: each key at most once in the queue, never worked on twice at a time, with backoff and delays.

The semantics are those of client-go's: a key added while it is being worked on is queued again when that ends.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque

from .histograms import Histogram

_BACKOFF_FIRST_S, _BACKOFF_MAX_S = 0.005, 1000.0
# client-go's: powers of ten from 10 ns to 1000 s.
_BUCKETS = tuple(10.0**power for power in range(-8, 4))


class WorkQueue:
    """Keys that wait for a reconcile."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._queue: deque[str] = deque()
        self._dirty: dict[str, float] = {}
        self._processing: dict[str, float] = {}
        self._failures: dict[str, int] = {}
        self._later: dict[str, tuple[float, asyncio.TimerHandle]] = {}
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._closed = False
        self.adds = 0
        self.retries = 0
        """Number of adds with a delay, for any reason."""
        self.queue_duration = Histogram(_BUCKETS)
        self.work_duration = Histogram(_BUCKETS)

    def __len__(self) -> int:
        return len(self._queue)

    @property
    def in_hand(self) -> int:
        """Keys that wait, wait for a delay to end, or are worked on."""
        return len(self._dirty) + len(self._later) + len(self._processing)

    # ---- adding

    def add(self, key: str) -> None:
        """Queue a key now."""
        if self._closed or key in self._dirty:
            return
        self.adds += 1
        self._dirty[key] = time.perf_counter()
        if key not in self._processing:
            self._queue.append(key)
            self._wake()

    def add_after(self, key: str, delay: float) -> None:
        """Queue a key in ``delay`` seconds; of several delays the earliest applies."""
        if self._closed:
            return
        self.retries += 1
        if delay <= 0:
            self.add(key)
            return
        loop = asyncio.get_running_loop()
        due = loop.time() + delay
        if key in self._later:
            earlier, timer = self._later[key]
            if earlier <= due:
                return
            timer.cancel()
        self._later[key] = (due, loop.call_at(due, self._due, key))

    def add_rate_limited(self, key: str) -> float:
        """Queue a key after its backoff, which doubles with each failure until ``forget``; returns the delay."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        delay = min(_BACKOFF_FIRST_S * 2.0 ** min(failures, 30), _BACKOFF_MAX_S)
        self.add_after(key, delay)
        return delay

    def forget(self, key: str) -> None:
        """Reset the backoff of a key that succeeded."""
        self._failures.pop(key, None)

    def _due(self, key: str) -> None:
        del self._later[key]
        self.add(key)

    # ---- working

    async def get(self) -> str | None:
        """Return the next key, which then counts as worked on until ``done``; None when the queue is closed."""
        while not self._queue:
            if self._closed:
                return None
            waiter = asyncio.get_running_loop().create_future()
            self._waiting.append(waiter)
            try:
                await waiter
            except asyncio.CancelledError:
                if waiter.done() and not waiter.cancelled():
                    self._wake()
                raise
        key = self._queue.popleft()
        now = time.perf_counter()
        self.queue_duration.observe(now - self._dirty.pop(key))
        self._processing[key] = now
        return key

    def done(self, key: str) -> None:
        """End the work on a key; it is queued again if it was added meanwhile."""
        self.work_duration.observe(time.perf_counter() - self._processing.pop(key))
        if key in self._dirty and not self._closed:
            self._queue.append(key)
            self._wake()

    def close(self) -> None:
        """Reject further keys and drop waiting ones; work in progress continues."""
        self._closed = True
        self._queue.clear()
        self._dirty.clear()
        for _, timer in self._later.values():
            timer.cancel()
        self._later.clear()
        while self._waiting:
            self._wake()

    def unfinished(self) -> tuple[float, float]:
        """Return (sum, longest) of the seconds spent on work in progress."""
        now = time.perf_counter()
        ages = [now - start for start in self._processing.values()]
        return sum(ages), max(ages, default=0.0)

    def _wake(self) -> None:
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return
