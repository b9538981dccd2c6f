"""The current location of a target, resolved at each of its scrapes."""

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
"""How long after it was first seen a process without any response counts as starting, s."""

_END_SEEN_S = 0.05
_MOST_PORTS = 16


class Absent(Exception):
    """There is nothing to scrape now, and another record explains why."""


class Finder(Protocol):
    """Resolves the location of one target."""

    async def now(self) -> Where:
        """Return the expected location. Raises Absent when there is none."""

    async def elsewhere(self) -> Sequence[Where]:
        """Return alternative locations, when nothing listens at the expected one."""

    def answered(self, where: Where) -> None:
        """Note a response from a location."""

    async def failed(self) -> bool:
        """Note a failure; return whether it is expected: the process has just started, or has ended."""


class InOnePlace(Finder):
    """A target with a single location, whose failures are always reported."""

    async def elsewhere(self) -> Sequence[Where]:
        return ()

    def answered(self, where: Where) -> None:
        pass

    async def failed(self) -> bool:
        return False


class Fixed(InOnePlace):
    """A target at a fixed location."""

    def __init__(self, where: Where) -> None:
        self._where = where

    async def now(self) -> Where:
        return self._where


class AtProcess:
    """A target served by a process: at the port in its definition, or at another port that this process listens on."""

    def __init__(self, place: OfProcess, process: Callable[[str], Identity | None]) -> None:
        self._place = place
        self._process = process
        self._first = Where(place.address.url, place.address)
        self._where = self._first
        self._life: Identity | None = None
        self._seen_at = 0.0
        self._sure = False
        """Whether this process has answered and not failed since: no other process can have taken its port."""
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
        # Its connections break shortly before its exit is seen.
        await asyncio.sleep(_END_SEEN_S)
        return starting or self._process(self._place.process) != self._life

    async def _ports(self) -> set[int]:
        assert self._life is not None  # callers look
        return await asyncio.to_thread(_ports_of, self._life.pid)


def url_where(place: AtUrl, server: str) -> Where:
    """Return where a URL is read; one of the API server's own with the recorder's access, unless it has credentials."""
    address = place.address
    own_way = address.token_file or address.cert_file or not address.url.startswith(f"{server}/")
    return Where(address.url, address if own_way else None)


def _ports_of(pid: int) -> set[int]:
    return ports_of([pid, *descendants(pid)])
