"""What the scrapers' tests share: an endpoint that says anything whatsoever, scrapers beside it, and what they left."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from pytest_grovescale.endpoints import Address
from pytest_grovescale.kube.access import Access
from pytest_grovescale.kube.client import Client
from pytest_grovescale.procfs import Identity
from pytest_grovescale.recording import journal
from pytest_grovescale.recording.machine import machine
from pytest_grovescale.recording.record_writer import Ledger, RecorderClock
from pytest_grovescale.recording.records import SCHEMA_VERSION, AnyRecord, Closed, Opened, Scraped
from pytest_grovescale.recording.scrape_targets import AtUrl, ScrapeTarget
from pytest_grovescale.recording.scraping.scrapers import Scrapers

T = TypeVar("T")
Reply = Callable[[asyncio.StreamWriter], Awaitable[None]]

_SERVED: set[int] = set()
"""Ports of all endpoints: who is connected to one of them is a scraper."""

TEXT = "text/plain; version=0.0.4; charset=utf-8"


def reply(
    body: str | bytes, *, status: str = "200 OK", type: str = TEXT, length: int | None = None, **headers: str
) -> Reply:
    """Return what answers with this; ``length``: what it claims, where that is not the truth."""
    data = body.encode() if isinstance(body, str) else body
    named = {"Content-Type": type, "Content-Length": str(len(data) if length is None else length), **headers}
    head = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in named.items())

    async def write(writer: asyncio.StreamWriter) -> None:
        writer.write(f"HTTP/1.1 {status}\r\n{head}\r\n".encode() + data)
        await writer.drain()
        if length is not None:
            writer.close()

    return write


@dataclass(eq=False)
class Endpoint:
    """A server on loopback; what it replies may be changed at any moment."""

    port: int = 0
    replies: dict[str, Reply] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    """Paths, in the order of requests."""
    heads: list[str] = field(default_factory=list)
    """The same requests, whole."""
    open: set[asyncio.StreamWriter] = field(default_factory=set)

    def url(self, path: str = "/metrics") -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def target(self, name: str, reply: Reply | None = None, *, interval_s: float | None = None) -> ScrapeTarget:
        """Return a target of its own path, and let that reply so."""
        if reply is not None:
            self.replies[f"/{name}"] = reply
        return ScrapeTarget(name=name, place=AtUrl(address=Address(url=self.url(f"/{name}"))), interval_s=interval_s)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open.add(writer)
        try:
            while not writer.is_closing():
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                path = head.split(" ", 2)[1].partition("?")[0]
                self.asked.append(path)
                self.heads.append(head)
                await self.replies[path](writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # they may leave whenever they like
        finally:
            self.open.discard(writer)
            writer.close()

    async def until_asked(self, path: str, times: int = 1) -> None:
        """Return when a path was asked for so often."""
        await until(lambda: self.asked.count(path) >= times)


@asynccontextmanager
async def serving(port: int = 0, **options: Any) -> AsyncIterator[Endpoint]:
    """An endpoint; when it ends nothing of it is left."""
    endpoint = Endpoint()
    tasks: set[asyncio.Task[None]] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        # The streams module reports a cancelled handler as if it were a fault.
        with contextlib.suppress(asyncio.CancelledError):
            await endpoint.serve(reader, writer)

    server = await asyncio.start_server(connected, "127.0.0.1", port, **options)
    endpoint.port = server.sockets[0].getsockname()[1]
    _SERVED.add(endpoint.port)
    try:
        yield endpoint
    finally:
        server.close()
        for writer in list(endpoint.open):
            writer.transport.abort()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server.wait_closed()


@dataclass(eq=False)
class Harness:
    """Scrapers and the journal that they write."""

    scrapers: Scrapers
    path: Path
    ledger: Ledger

    def all(self) -> list[AnyRecord]:
        """Return what is in the journal so far."""
        self.ledger.flush()
        return list(journal.read(self.path))

    def records(self, kind: type[T]) -> list[T]:
        return [record for record in self.all() if isinstance(record, kind)]

    def scrapes(self, target: str) -> list[Scraped]:
        return [scrape for scrape in self.records(Scraped) if scrape.target == target]


@asynccontextmanager
async def scraping(
    folder: Path,
    *targets: ScrapeTarget,
    interval: float = 0.0,
    process: Callable[[str], Identity | None] = lambda name: None,
    access: Access | None = None,
    clock: RecorderClock | None = None,
) -> AsyncIterator[Harness]:
    """Scrapers of these targets. When they are closed, neither a task nor a socket of theirs is left."""
    tasks, ports = asyncio.all_tasks(), peers()
    path = folder / "recording.jsonl"
    ledger = Ledger(journal.Writer(path), clock or RecorderClock(), lambda update: None)
    ledger.add(Opened(at=0, schema_version=SCHEMA_VERSION, run="r", test="t", version="0", machine=machine()))
    async with Client(access or Access(server="https://127.0.0.1:1")) as client:
        scrapers = Scrapers(client, ledger, process=process, leader=lambda name: None, interval=interval)
        harness = Harness(scrapers, path, ledger)
        for target in targets:
            harness.scrapers.add(target)
        try:
            yield harness
        finally:
            await harness.scrapers.close()
            harness.ledger.close(Closed(at=ledger.now(), reason="stopped"))
    left = {task for task in asyncio.all_tasks() - tasks if "serving" not in str(task.get_coro())}
    assert not left
    assert peers() <= ports


def peers() -> Counter[int]:
    """Return the ports that this process has connections to, and how many."""
    found: Counter[int] = Counter()
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            if os.readlink(f"/proc/self/fd/{name}").startswith("socket:"):
                with socket.socket(fileno=os.dup(int(name))) as one:
                    address = one.getpeername()
                    found[address[1] if isinstance(address, tuple) else 0] += 1
    return Counter({port: number for port, number in found.items() if port in _SERVED})


async def until(holds: Callable[[], object], seconds: float = 20) -> None:
    """Return when ``holds`` does."""
    async with asyncio.timeout(seconds):
        while not holds():  # noqa: ASYNC110 - nothing announces it
            await asyncio.sleep(0.002)
