"""The client-side limit on requests: a token bucket, as client-go's ``--kube-api-qps`` and ``--kube-api-burst``."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable


class RateLimiter:
    """Passes ``burst`` requests at once, and then ``qps`` per second, in order of arrival."""

    def __init__(self, qps: float, burst: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._qps = qps
        self._burst = burst
        self._clock = clock
        self._tokens = float(burst)
        self._at = clock()

    def reserve(self) -> float:
        """Reserve a token, possibly a future one; return the seconds until it is available."""
        now = self._clock()
        self._tokens = min(float(self._burst), self._tokens + (now - self._at) * self._qps) - 1.0
        self._at = now
        return max(0.0, -self._tokens / self._qps)

    async def wait(self) -> None:
        """Return when the next request may be sent."""
        delay = self.reserve()
        if delay > 0:
            await asyncio.sleep(delay)


def rate_limiter(qps: float, burst: int) -> RateLimiter | None:
    """Return the configured limiter; None for ``qps`` 0. ``burst`` 0 stands for one second's requests."""
    if qps <= 0:
        return None
    return RateLimiter(qps, burst or max(1, int(qps)))
