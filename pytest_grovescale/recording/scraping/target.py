"""One scrape target: its schedule, its last scrape, what changed since, and whether it answers."""

from __future__ import annotations

import asyncio
import contextlib
import math
import re
import time
import zlib
from collections.abc import Sequence
from typing import NamedTuple, TypeVar

import aiohttp
import msgspec

from ... import durations, redaction
from ...errors import GrovescaleError
from ...exposition import refusals
from ...exposition.families import Exposition, Family
from ...exposition.reader import Reader
from ..record_writer import Ledger
from ..records import Scraped, TargetGone, TargetSeen
from .connections import Answer, Connections, Where
from .locators import Absent, Finder


def offset(name: str, interval: float) -> float:
    """Return the offset of a target's grid, s: the same for a name in each run, spread over the interval."""
    return zlib.crc32(name.encode()) / 2**32 * interval


def due(after: float, interval: float, shift: float) -> float:
    """Return the first grid time after a moment, s. Missed grid times are skipped."""
    return (math.floor((after - shift) / interval) + 1) * interval + shift


T = TypeVar("T")

NOTHING = Exposition(families={}, samples={})
"""The exposition of a target before its first scrape."""


def changes(last: Exposition, found: Exposition, *, target: str, at: int, edge: str = "", took_ns: int = 0) -> Scraped:
    """Return the difference from the last scrape.

    Compared as text, so that NaN equals itself and a value is new only when its text changed. A series is removed as a
    whole: when its value, its buckets or its creation time is gone, the parts that remain are recorded again.
    """
    gone = _gone(last, found)
    samples: dict[str, float] = {}
    special: dict[str, str] = {}
    for series, text in found.samples.items():
        if last.samples.get(series) == text and series not in gone:
            continue
        value = float(text)
        if math.isfinite(value):
            samples[series] = value
            continue
        special[series] = "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
        if series in last.samples:
            gone.add(series)
    return Scraped(
        at=at,
        target=target,
        edge=edge,
        took_ns=took_ns,
        samples=samples,
        special=special,
        gone=sorted(gone),
        families={
            name: _without_credentials(family)
            for name, family in found.families.items()
            if last.families.get(name) != family
        },
        families_gone=sorted(last.families.keys() - found.families.keys()),
        native={name: seen for name, seen in found.native.items() if name in gone or last.native.get(name) != seen},
        created={name: time for name, time in found.created.items() if name in gone or last.created.get(name) != time},
    )


def _gone(last: Exposition, found: Exposition) -> set[str]:
    """Return the series that have lost their value, buckets or creation time."""
    return (
        (last.samples.keys() - found.samples.keys())
        | (last.native.keys() - found.native.keys())
        | (last.created.keys() - found.created.keys())
    )


def _without_credentials(family: Family) -> Family:
    return msgspec.structs.replace(family, help=redaction.value(family.help))


_PART = re.compile(r'[^{",]+="(?:[^"\\]|\\.)*"|^[^{]+')
"""A label with its value, or the metric's name."""

_OF_A_SECRET = re.compile(r'(\w+_)?secret="(?:(?:[a-z]+|[0-9]+|[a-z0-9]{1,5})[-.])+(?:[a-z]+|[0-9]+|[a-z0-9]{1,6})"')
"""A label with the name of an object of kind Secret, as kube-state-metrics has it: words and short random parts."""

_SOME_VALUE = 'value="x7Qz9pLm"'
_MOST_PARTS = 100_000


class Redaction:
    """Redacts credentials in the series names of one target; each name is inspected once."""

    def __init__(self) -> None:
        self._known: set[str] = set()
        self._clean: set[str] = set()
        """Metric names and labels without a credential: a few hundred, which make up the names of all series."""
        self._blotted: dict[str, str] = {}

    def __call__(self, found: Exposition) -> Exposition:
        """Return the scrape as it may be recorded. Of series that then share a name, the last remains."""
        names = found.samples.keys() | found.native.keys() | found.created.keys()
        for name in names - self._known:
            if not self._is_clean(name) and (clean := redaction.value(name)) != name:
                others = _OF_A_SECRET.sub("", name)
                if redaction.value(others) != others:
                    self._blotted[name] = clean
        self._known = names
        if not self._blotted:
            return found
        self._blotted = {name: clean for name, clean in self._blotted.items() if name in names}
        return Exposition(
            families=found.families,
            samples=self._renamed(found.samples),
            native=self._renamed(found.native),
            created=self._renamed(found.created),
        )

    def _is_clean(self, name: str) -> bool:
        """Return whether no part of a series' name holds a credential; each part is inspected once."""
        if len(self._clean) > _MOST_PARTS:
            self._clean.clear()
        for part in _PART.findall(name):
            if part not in self._clean:
                # With a value after it: name="password" is no secret, but value="…" beside it is one.
                alone = f"{{{part},{_SOME_VALUE}}}"
                if redaction.value(alone) != alone:
                    return False
                self._clean.add(part)
        return True

    def _renamed(self, values: dict[str, T]) -> dict[str, T]:
        return {self._blotted.get(name, name): value for name, value in values.items()}


TIMEOUT_S = 5.0
"""Time limit for one response, s, at any location. Reading it is our own work and has no limit: a recorder without a
core must not report the target as down."""

_ELSEWHERE_S = 1.0
_MOST_REFUSALS = 3
_LARGE = 256 << 10
"""Body size from which reading may delay other targets, bytes: it then runs in a thread."""

_FAULTS = (GrovescaleError, aiohttp.ClientError, OSError, ValueError)


class Status(NamedTuple):
    """The current state of a target. Replaced as a whole."""

    url: str = ""
    """Where it last answered; empty: never."""
    at: int = 0
    """When it last answered, recorder's clock, ns; its figures are of this time."""
    error: str = ""
    """Why it has not answered since; empty: it is up, or was never scraped."""


class Target:
    """Scraped on a schedule by `run`, and on demand by `scrape`. Neither raises for an endpoint's failure."""

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
        self._reported = ""
        """The error journaled since it last answered."""
        self._removed = False
        self._soon = asyncio.Event()
        self._alone = asyncio.Lock()
        """Of two answers that overlap, the one that is read last may be the older one: counters would seem to fall."""

    def move(self, finder: Finder, *, interval: float) -> None:
        """Scrape it at another location from the next time on; its history continues."""
        self._finder, self._interval = finder, interval

    # ---- its schedule

    @property
    def scheduled(self) -> bool:
        """Whether it is scraped between the edges of phases, too."""
        return self._interval > 0

    def start(self, *, rest: bool = False) -> None:
        """Start the schedule; ``rest``: not before half an interval has passed."""
        if not self.scheduled or self._task is not None or self._removed:
            return
        self._task = asyncio.create_task(self._run(rest), name=f"scrape {self.name}")
        self._task.add_done_callback(self._ended)

    def cancel(self) -> asyncio.Task[None] | None:
        """Cancel the schedule, with its running scrape; return what to await."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
        return task

    def remove(self) -> asyncio.Task[None] | None:
        """Stop scraping: from here on it journals nothing. Return what to await."""
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
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(moment):
                    await self._soon.wait()
            early = self._soon.is_set()
            self._soon.clear()
            await self.scrape()
            # Missed times are skipped: a slow target is scraped less often, not ever later. A timer may fire a little
            # early: half an interval later, the next time is surely another one.
            after = max(loop.time(), 0.0 if early else moment + self._interval / 2)

    def soon(self) -> None:
        """Scrape it now, where it has a schedule, and then at its next time."""
        self._soon.set()

    def _ended(self, task: asyncio.Task[None]) -> None:
        # A bug here must not look like a target without changes.
        if not task.cancelled() and (error := task.exception()) is not None:
            self._ledger.failed(f"scrape:{self.name}", f"{type(error).__name__}: {error}")

    # ---- one scrape

    async def scrape(self, edge: str = "") -> None:
        """Scrape it and journal what changed, or that it failed: at an edge always, else when that is new.

        One at a time: another waits for the end of the one that runs.
        """
        async with self._alone:
            await self._scrape(edge)

    async def _scrape(self, edge: str) -> None:
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
            self._up(where, answer, found, began, edge)

    async def _answer(self) -> tuple[Where, Answer]:
        """Return the response and its location."""
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
            # The thread keeps reading, with the old settings.
            self._reader, self._redacted = Reader(), Redaction()
            raise

    async def _first_of(self, places: Sequence[Where]) -> tuple[Where, Answer] | None:
        """Return the first response of several locations, queried at once, since some may never answer."""
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

    def _refused(self, answer: Answer, found: Exposition) -> list[str]:
        """Return why a Prometheus refuses a response; looked for where its families differ from the last one's."""
        if len(answer.body) > _LARGE or found.families.keys() == self._last.families.keys():
            return []
        of_native = (refusal for _, refusal in refusals.of_native(found.native))
        refused = [*refusals.of_response(*answer, time.time()), *of_native]
        return [redaction.text(one.says) for one in refused][:_MOST_REFUSALS]

    def _up(self, where: Where, answer: Answer, found: Exposition, began: int, edge: str) -> None:
        if self._removed:
            return
        self._finder.answered(where)
        at = self._ledger.now()
        if where.url != self.status.url or self.status.error:
            self._ledger.add(TargetSeen(at=at, target=self.name, url=redaction.url(where.url)))
        self.status, self._reported = Status(where.url, at), ""
        change = changes(self._last, found, target=self.name, at=at, edge=edge, took_ns=at - began)
        if refused := self._refused(answer, found):
            change = msgspec.structs.replace(change, refused=refused)
        self._ledger.add(change)
        self._last = found

    def _down(self, error: str, edge: str, *, expected: bool) -> None:
        """Journal that it is down. ``expected``: not between edges, since another record explains it, now or soon."""
        if self._removed:
            return
        error = f"{self._tried}: {error}" if self._tried else error
        self.status = self.status._replace(error=error)
        if edge or (error != self._reported and not expected):
            self._reported = error
            self._ledger.failed(f"scrape:{self.name}", f"{error}{self._age()}")

    def _age(self) -> str:
        if not self.status.at:
            return "; it has never answered"
        return f"; what is known of it is {durations.text((self._ledger.now() - self.status.at) / 1e9)} old"


def _text(error: Exception) -> str:
    """Return an error's message without its remedy, which does not belong in the journal."""
    return (error.message if isinstance(error, GrovescaleError) else str(error)) or type(error).__name__
