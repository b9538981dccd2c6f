"""Where a target is at this moment, looked up anew for each of its scrapes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from ...cluster.processes import descendants
from ...endpoints import port_of, with_port
from ...operator.listeners import ports_of
from ..processes import Identity
from .connections import Where
from .targets import AtUrl, OfProcess

STARTING_S = 60.0
"""A process that has not answered yet is taken to be starting for so long after it was first seen."""

_END_SEEN_S = 0.05
_MOST_PORTS = 16


class Absent(Exception):
    """There is nothing to scrape now, and something else tells why."""


class Finder(Protocol):
    """Where one target is."""

    async def now(self) -> Where:
        """Return where it should answer. Raises Absent when it is nowhere."""

    async def elsewhere(self) -> Sequence[Where]:
        """Return where else it may be, when nothing listens where it should."""

    def answered(self, where: Where) -> None:
        """Take note that it has answered there."""

    async def failed(self) -> bool:
        """Take note that it has not answered; return whether that is no news: it has just started, or has ended."""


class InOnePlace(Finder):
    """One that is to be found in one place at any time, and whose silence is always news."""

    async def elsewhere(self) -> Sequence[Where]:
        return ()

    def answered(self, where: Where) -> None:
        pass

    async def failed(self) -> bool:
        return False


class Fixed(InOnePlace):
    """One that never moves."""

    def __init__(self, where: Where) -> None:
        self._where = where

    async def now(self) -> Where:
        return self._where


class AtProcess:
    """One that a process serves: where its definition says, or at another port that this very process listens on."""

    def __init__(self, place: OfProcess, process: Callable[[str], Identity | None]) -> None:
        self._place = place
        self._process = process
        self._first = Where(place.address.url, place.address)
        self._where = self._first
        self._life: Identity | None = None
        self._seen_at = 0.0
        self._sure = False
        """Whether it has answered in this life and not failed since: then nobody else can have taken its port."""
        self._has_answered = False

    async def now(self) -> Where:
        life = self._process(self._place.process)
        if life is None and self._life is not None:
            raise Absent("its process does not run")
        if life != self._life:
            self._life, self._seen_at, self._where = life, time.monotonic(), self._first
            self._sure = self._has_answered = False
        if life is not None and not self._sure:
            ports = await self._ports()
            if ports and port_of(self._where.url) not in ports:
                raise ConnectionRefusedError(
                    f"{self._place.process} does not listen on port {port_of(self._where.url)}"
                )
        return self._where

    async def elsewhere(self) -> Sequence[Where]:
        ports = await self._ports() if self._life is not None else set()
        found = [self._first.url, *(with_port(self._first.url, port) for port in sorted(ports)[:_MOST_PORTS])]
        return [Where(url, self._place.address) for url in dict.fromkeys(found) if url != self._where.url]

    def answered(self, where: Where) -> None:
        self._where = where
        self._sure = self._has_answered = True

    async def failed(self) -> bool:
        self._sure = False
        if self._life is None:
            return False
        starting = not self._has_answered and time.monotonic() - self._seen_at < STARTING_S
        # Its connections break a little before its end is seen.
        await asyncio.sleep(_END_SEEN_S)
        return starting or self._process(self._place.process) != self._life

    async def _ports(self) -> set[int]:
        assert self._life is not None  # callers look
        return await asyncio.to_thread(_ports_of, self._life.pid)


def url_where(place: AtUrl, server: str) -> Where:
    """Return where a URL is read; one of the API server's own with the recorder's access, unless it names another."""
    address = place.address
    own_way = address.token_file or address.cert_file or not address.url.startswith(f"{server}/")
    return Where(address.url, address if own_way else None)


def _ports_of(pid: int) -> set[int]:
    return ports_of([pid, *descendants(pid)])
