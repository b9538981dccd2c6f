"""Concurrent requests of one reconcile, with an early stop on failure."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable

Call = Callable[[], Awaitable[object]]


async def fan_out(calls: Iterable[Call], limit: int) -> None:
    """Make the calls, ``limit`` at a time.

    The first is made alone: where all would fail (quota, admission, a terminating namespace), one failure is enough.
    After a failure no further call starts; those in flight finish, then the first failure is raised.
    """
    pending = iter(calls)
    first = next(pending, None)
    if first is None:
        return
    await first()
    failures: list[Exception] = []

    async def worker() -> None:
        for call in pending:
            try:
                await call()
            except Exception as error:  # noqa: BLE001 - raised below, when the calls in flight have ended
                failures.append(error)
            if failures:
                return

    await asyncio.gather(*(worker() for _ in range(limit)))
    if failures:
        raise failures[0]
