"""Rate of a series of requests, and limit of concurrent ones."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from ..errors import UsageError

T = TypeVar("T")


class Pace:
    """Schedule in which the k-th start is due k/rate seconds after the first, however long requests take: no drift.

    ``clock`` returns seconds, ``sleep`` waits; tests replace both.
    """

    def __init__(
        self,
        rate: float | None,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        if rate is not None and not rate > 0:
            raise UsageError(f"a rate of {rate} objects a second", next_step="Give a rate above 0, or None.")
        self._rate = rate
        self._clock = clock
        self._sleep = sleep
        self._first: float | None = None
        self._started = 0

    async def turn(self) -> None:
        """Return when the next start is due."""
        if self._rate is None:
            return
        now = self._clock()
        if self._first is None:
            self._first = now
        due = self._first + self._started / self._rate
        self._started += 1
        if due > now:
            await self._sleep(due - now)


async def in_parallel(
    items: Iterable[T], action: Callable[[T], Awaitable[None]], *, concurrency: int, pace: Pace
) -> None:
    """Run ``action`` for each item, started in order, at most ``concurrency`` at a time.

    The first exception is raised after all running actions have ended; no others start.
    """
    if concurrency < 1:
        raise UsageError(f"a concurrency of {concurrency}", next_step="Give 1 or more.")
    waiting = iter(items)
    turn = asyncio.Lock()
    failed: list[Exception] = []

    async def worker() -> None:
        while not failed:
            async with turn:
                item = next(waiting, _END)
                if item is _END:
                    return
                await pace.turn()
            try:
                await action(item)  # type: ignore[arg-type]
            except Exception as error:  # noqa: BLE001 raised again below, once the others have ended
                failed.append(error)

    async with asyncio.TaskGroup() as group:
        for _ in range(concurrency):
            group.create_task(worker())
    if failed:
        raise failed[0]


_END = object()
