"""One controller: workers that take keys from its queue and reconcile them."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable

import msgspec

from .api_client import ERROR_TYPES, ApiError, TerminalError, error_type
from .defects import ERROR_MISCOUNT, GIVE_UP, LONE_WORKER, NO_BACKOFF, NO_DEFECTS, PANIC, Defects
from .histograms import Histogram
from .work_queue import WorkQueue

log = logging.getLogger(__name__)

RESULTS = ("success", "error", "requeue", "requeue_after")
# controller-runtime's buckets for the reconcile time, in seconds.
_TIME_BUCKETS = (
    *(0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9),
    *(1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0),
    *(25.0, 30.0, 40.0, 50.0, 60.0),
)


class Result(msgspec.Struct, frozen=True):
    """The outcome of a reconcile."""

    requeue_after: float | None = None
    """Seconds until the next reconcile; None: not before an event."""


DONE = Result()


def _one_at_a_time(reconcile: Callable[[str], Awaitable[Result]]) -> Callable[[str], Awaitable[Result]]:
    lock = asyncio.Lock()

    async def locked(key: str) -> Result:
        async with lock:
            return await reconcile(key)

    return locked


class Controller:
    """Reconciles keys, ``concurrency`` at a time."""

    def __init__(
        self,
        name: str,
        reconcile: Callable[[str], Awaitable[Result]],
        *,
        concurrency: int,
        defects: Defects = NO_DEFECTS,
    ) -> None:
        self.name = name
        self.queue = WorkQueue(name)
        self.concurrency = concurrency
        self.active = 0
        self.results: Counter[str] = Counter(dict.fromkeys(RESULTS, 0))
        self.error_types: Counter[str] = Counter(dict.fromkeys(ERROR_TYPES, 0))
        self.errors = 0
        self.terminal_errors = 0
        self.status_conflicts: Counter[str] = Counter()
        """409 responses to status writes, by the kind written."""
        self.times = Histogram(_TIME_BUCKETS)
        # Defect lone-worker: one cache behind one lock, held during requests.
        self._reconcile = _one_at_a_time(reconcile) if LONE_WORKER in defects else reconcile
        self._miscounts = ERROR_MISCOUNT in defects
        self._defects = defects
        self._workers: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Start the workers."""
        self._workers = [asyncio.create_task(self._work(), name=f"{self.name}-{n}") for n in range(self.concurrency)]

    async def stop(self, grace: float) -> bool:
        """Stop taking keys, let running reconciles finish for ``grace`` seconds; return whether they did."""
        self.queue.close()
        if not self._workers:
            return True
        _, late = await asyncio.wait(self._workers, timeout=grace)
        for task in late:
            task.cancel()
        await asyncio.gather(*self._workers, return_exceptions=True)
        return not late

    async def _work(self) -> None:
        while (key := await self.queue.get()) is not None:
            self.active += 1
            start = time.perf_counter()
            try:
                result = await self._reconcile(key)
            except Exception as error:  # noqa: BLE001 - whatever it is, the worker goes on and the key is retried
                self._failed(key, error)
            else:
                self._succeeded(key, result)
            finally:
                self.times.observe(time.perf_counter() - start)
                self.active -= 1
                self.queue.done(key)

    def _succeeded(self, key: str, result: Result) -> None:
        self.queue.forget(key)
        if result.requeue_after is None:
            self.results["success"] += 1
        else:
            self.results["requeue_after"] += 1
            if self._miscounts:
                # Defect error-miscount: counts "come back later" as a failure.
                self.error_types["internal"] += 1
            self.queue.add_after(key, result.requeue_after)

    def _failed(self, key: str, error: Exception) -> None:
        # Both counters change only here, so their sums agree.
        self.results["error"] += 1
        self.errors += 1
        self.error_types[error_type(error)] += 1
        self._panic_if_due(error)
        if isinstance(error, TerminalError) or (GIVE_UP in self._defects and _of_server(error)):
            # Defect give-up: an API server in trouble is taken for a wrong request.
            self.terminal_errors += 1
            self.queue.forget(key)
            log.error("%s %s: %s", self.name, key, error)
            return
        delay = self._again(key)
        if isinstance(error, ApiError | TimeoutError):
            log.warning("%s %s: %s (again in %.3f s)", self.name, key, error, delay)
        else:
            log.error("%s %s: unexpected error", self.name, key, exc_info=error)

    def _again(self, key: str) -> float:
        """Queue a failed key again; return its delay."""
        if NO_BACKOFF in self._defects:
            # Defect no-backoff: the queue's own backoff is not used.
            self.queue.add(key)
            return 0.0
        return self.queue.add_rate_limited(key)

    def _panic_if_due(self, error: Exception) -> None:
        # Defect panic: an error that is not expected ends the process.
        if PANIC in self._defects and _of_server(error):
            sys.stderr.write(f"panic: {error}\n")
            sys.stderr.flush()
            os._exit(70)


def _of_server(error: Exception) -> bool:
    return isinstance(error, ApiError) and error.code >= 500
