"""One target: its loop, its last scrape, and whether it answers."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import NamedTuple

import aiohttp

from ... import durations, redaction
from ...errors import GrovescaleError
from ...exposition.families import Exposition
from ...exposition.reader import Reader
from ..ledger import Ledger
from ..records import TargetGone, TargetSeen
from .cadence import due, offset
from .changes import NOTHING, Redaction, changes
from .connections import Answer, Connections, Where
from .places import Absent, Finder

TIMEOUT_S = 5.0
"""For one answer to arrive, wherever it is asked for. Reading it is our own work and has no limit: a recorder that got
no core must not say that a target did not answer."""

_ELSEWHERE_S = 1.0
_LARGE = 256 << 10
"""A body that takes longer to read than others may wait, bytes: it is read beside the loop."""

_FAULTS = (GrovescaleError, aiohttp.ClientError, OSError, ValueError)


class Status(NamedTuple):
    """What is known of a target at a moment. Replaced as a whole."""

    url: str = ""
    """Where it answered last; empty: never."""
    at: int = 0
    """When it answered last, recorder's clock, ns; what is known of it is as old as that."""
    error: str = ""
    """Why it did not answer since; empty: it is up, or was never asked."""


class Target:
    """Scraped in a steady rhythm by `run`, and when `scrape` says so. Neither raises for what an endpoint does."""

    def __init__(self, name: str, finder: Finder, connections: Connections, ledger: Ledger, *, interval: float) -> None:
        self.name = name
        self.status = Status()
        self._finder = finder
        self._connections = connections
        self._ledger = ledger
        self._interval = interval
        self._reader = Reader()
        self._redacted = Redaction()
        self._last = NOTHING
        self._task: asyncio.Task[None] | None = None
        self._tried = ""
        self._told = ""
        """The error that was journaled since it answered last."""
        self._removed = False

    def move(self, finder: Finder, *, interval: float) -> None:
        """Scrape it somewhere else from the next time on; its history goes on."""
        self._finder, self._interval = finder, interval

    # ---- its rhythm

    def start(self, *, rest: bool = False) -> None:
        """Begin to scrape in its rhythm; ``rest``: not before half an interval has gone by."""
        if self._interval <= 0 or self._task is not None or self._removed:
            return
        self._task = asyncio.create_task(self._run(rest), name=f"scrape {self.name}")
        self._task.add_done_callback(self._ended)

    def cancel(self) -> asyncio.Task[None] | None:
        """Break off the rhythm, and a scrape in it; return what is to be awaited."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
        return task

    def remove(self) -> asyncio.Task[None] | None:
        """Scrape it no longer: from here on it says nothing more. Return what is to be awaited."""
        self._removed = True
        if self.status.url:
            self._ledger.add(TargetGone(at=self._ledger.now(), target=self.name))
        return self.cancel()

    async def _run(self, rest: bool) -> None:
        loop = asyncio.get_running_loop()
        shift = offset(self.name, self._interval)
        after = loop.time() + (self._interval / 2 if rest else 0.0)
        while True:
            moment = due(after, self._interval, shift)
            await asyncio.sleep(moment - loop.time())
            await self.scrape()
            # Moments that went by meanwhile are left out: a slow target is asked less often, not late ever after.
            # A timer may fire a little early: half an interval on, the next moment is surely another one.
            after = max(loop.time(), moment + self._interval / 2)

    def _ended(self, task: asyncio.Task[None]) -> None:
        # A defect of ours must not look like a target that has nothing new to say.
        if not task.cancelled() and (error := task.exception()) is not None:
            self._ledger.failed(f"scrape:{self.name}", f"{type(error).__name__}: {error}")

    # ---- one scrape

    async def scrape(self, edge: str = "") -> None:
        """Scrape it and journal what changed, or that it failed: at an edge always, else when that is new."""
        began = self._ledger.now()
        try:
            async with asyncio.timeout(TIMEOUT_S):
                where, answer = await self._answer()
            found = await self._read(answer)
        except Absent as absent:
            self._down(str(absent), edge, expected=True)
        except TimeoutError:
            self._down(f"no answer within {TIMEOUT_S:g} s", edge, expected=await self._finder.failed())
        except _FAULTS as error:
            self._down(_text(error), edge, expected=await self._finder.failed())
        else:
            self._up(where, found, began, edge)

    async def _answer(self) -> tuple[Where, Answer]:
        """Return what it says, and where."""
        try:
            where = await self._finder.now()
            self._tried = redaction.url(where.url)
            return where, await self._connections.get(where)
        except (aiohttp.ClientConnectorError, ConnectionRefusedError):
            found = await self._first_of(await self._finder.elsewhere())
            if found is None:
                raise
            return found

    async def _read(self, answer: Answer) -> Exposition:
        reader, redacted = self._reader, self._redacted

        def read() -> Exposition:
            return redacted(reader.read(*answer))

        if len(answer.body) <= _LARGE:
            return read()
        try:
            return await asyncio.to_thread(read)
        except asyncio.CancelledError:
            # The thread reads on, with the old ones.
            self._reader, self._redacted = Reader(), Redaction()
            raise

    async def _first_of(self, places: Sequence[Where]) -> tuple[Where, Answer] | None:
        """Return what is said at the first place that says anything; asked all at once, since some may never answer."""
        tries = [asyncio.create_task(self._try(where)) for where in places]
        try:
            for answer in asyncio.as_completed(tries):
                if (found := await answer) is not None:
                    return found
            return None
        finally:
            for one in tries:
                one.cancel()
            await asyncio.gather(*tries, return_exceptions=True)

    async def _try(self, where: Where) -> tuple[Where, Answer] | None:
        with contextlib.suppress(*_FAULTS):
            async with asyncio.timeout(_ELSEWHERE_S):
                answer = await self._connections.get(where)
            found = await asyncio.to_thread(Reader().read, *answer)
            # Anything may be served at another port; a page without a sample is not its metrics.
            if found.samples or found.native:
                return where, answer
        return None

    def _up(self, where: Where, found: Exposition, began: int, edge: str) -> None:
        if self._removed:
            return
        self._finder.answered(where)
        at = self._ledger.now()
        if where.url != self.status.url or self.status.error:
            self._ledger.add(TargetSeen(at=at, target=self.name, url=redaction.url(where.url)))
        self.status, self._told = Status(where.url, at), ""
        self._ledger.add(changes(self._last, found, target=self.name, at=at, edge=edge, took_ns=at - began))
        self._last = found

    def _down(self, error: str, edge: str, *, expected: bool) -> None:
        """``expected``: between edges this is no news, since something else tells it, or soon will."""
        if self._removed:
            return
        error = f"{self._tried}: {error}" if self._tried else error
        self.status = self.status._replace(error=error)
        if edge or (error != self._told and not expected):
            self._told = error
            self._ledger.failed(f"scrape:{self.name}", f"{error}{self._age()}")

    def _age(self) -> str:
        if not self.status.at:
            return "; it has never answered"
        return f"; what is known of it is {durations.text((self._ledger.now() - self.status.at) / 1e9)} old"


def _text(error: Exception) -> str:
    """Return an error's own words; what to do next has no place in a line of the journal."""
    return (error.message if isinstance(error, GrovescaleError) else str(error)) or type(error).__name__
