"""Stack dumps of blocked workers, taken while they wait."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from .records import AnyRecord, CpuRead, PhaseEnded, PhaseStarted, Scraped
from .workers.history import OPERATOR, WorkerHistory
from .workers.windows import blocked_now

DUMPED_AFTER_S = (2.0, 10.0, 60.0)
"""Ages of a wait at which stacks are dumped, s; each at most once a phase. A short wait may be over before the next
dump; in a long one the first dump may show workers before they reach the place where they wait."""


class BlockedWorkers:
    """Checks at each scrape of the operator whether its workers are blocked, and then dumps its stacks.

    ``dump`` journals the stacks of a process and never raises. It stops the operator for some ms, while it is idle.
    """

    def __init__(self, dump: Callable[[str], Coroutine[Any, Any, None]]) -> None:
        self._dump = dump
        self._workers = WorkerHistory()
        self._due = set[float]()
        self._dumping: asyncio.Task[None] | None = None

    def feed(self, record: AnyRecord) -> None:
        """Process the next record of the journal."""
        match record:
            case PhaseStarted():
                self._due = set(DUMPED_AFTER_S)
                self._workers.feed(record)
            case PhaseEnded():
                self._due = set()
                self._workers.feed(record)
            case Scraped(target=target) if target == OPERATOR:
                self._workers.feed(record)
                # CPU clocks are read at a phase's edges: nothing may stop the operator there.
                if not record.edge:
                    self._look()
            case CpuRead():
                self._workers.feed(record)

    async def close(self) -> None:
        """Cancel the running dump, if any."""
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
