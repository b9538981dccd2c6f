"""Runs coroutines from synchronous tests: one event loop on one background thread."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Self, TypeVar

from .access import Access
from .client import Client

T = TypeVar("T")


class Portal:
    """Runs coroutines for synchronous callers. A context manager; ``close`` is idempotent.

    It has a loop of its own, instead of ``asyncio.run`` in the caller's thread, so that a test which itself is a
    coroutine can use the same fixtures.
    """

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._clients: list[Client] = []
        self._thread = threading.Thread(target=self._loop.run_forever, name="grovescale-portal", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end and return its result.

        An exception in the waiting thread (Ctrl-C) cancels it and waits until it has cleaned up.
        """
        if self._loop.is_closed():
            coroutine.close()
            raise RuntimeError("the portal is closed")
        future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            raise
        except BaseException:
            if not future.done():
                future.cancel()
                concurrent.futures.wait([future], timeout=5)
            raise

    def submit(self, coroutine: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        """Start a coroutine and return its future, for a caller that does other work meanwhile."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def client(self, access: Access, *, user_agent: str = "grovescale", connections: int = 64) -> Client:
        """Return an open client that uses this portal's loop and is closed with it."""
        client = Client(access, user_agent=user_agent, connections=connections)
        self.run(client.open())
        self._clients.append(client)
        return client

    def close(self) -> None:
        """Close all clients, stop the loop and join the thread."""
        if self._loop.is_closed():
            return
        for client in self._clients:
            self.run(client.close())
        self.run(_cancel_others())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=5)
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()


async def _cancel_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
