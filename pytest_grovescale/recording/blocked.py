"""The stacks of workers that wait, dumped while they do: afterwards nobody could say where they waited."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from .records import AnyRecord, CpuRead, PhaseEnded, PhaseStarted, Scraped
from .workers.history import OPERATOR, WorkerHistory
from .workers.windows import blocked_now

DUMPED_AFTER_S = (2.0, 10.0, 60.0)
"""A dump for each, once a phase: when workers have waited so long, s. A short wait may be over before the next one's
turn comes, and in a long one the first may have caught them on their way to where they wait."""


class BlockedWorkers:
    """Looks at each scrape of the operator whether its workers are blocked, and then has its stacks dumped.

    ``dump`` journals the stacks of a process; it never raises. It stops the operator for some ms, at a time when that
    one does nothing.
    """

    def __init__(self, dump: Callable[[str], Coroutine[Any, Any, None]]) -> None:
        self._dump = dump
        self._workers = WorkerHistory()
        self._due = set[float]()
        self._dumping: asyncio.Task[None] | None = None

    def feed(self, record: AnyRecord) -> None:
        """Take in the next record of the journal."""
        match record:
            case PhaseStarted():
                self._due = set(DUMPED_AFTER_S)
                self._workers.feed(record)
            case PhaseEnded():
                self._due = set()
                self._workers.feed(record)
            case Scraped(target=target) if target == OPERATOR:
                self._workers.feed(record)
                # At a phase's edges clocks are read: nothing may stop the operator there.
                if not record.edge:
                    self._look()
            case CpuRead():
                self._workers.feed(record)

    async def close(self) -> None:
        """End the dump that is under way, if there is one."""
        if self._dumping is not None:
            self._dumping.cancel()
            await asyncio.wait({self._dumping})

    def _look(self) -> None:
        long_enough = {seconds for seconds in self._due if self._blocked(seconds)}
        if long_enough and (self._dumping is None or self._dumping.done()):
            self._due -= long_enough
            self._dumping = asyncio.create_task(self._dump(OPERATOR))

    def _blocked(self, seconds: float) -> bool:
        cpu = self._workers.cpu
        return any(blocked_now(readings, cpu, seconds) for readings in self._workers.readings.values())
