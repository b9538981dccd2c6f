"""All targets of a recording: added and removed, let run between the edges of phases, scraped at once at an edge."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from ...kube.client import Client
from ...operator.following import Followed
from ..ledger import Ledger
from ..processes import Identity
from .connections import Connections
from .objects import AtLeader, Pods, ServiceAddress, service_where
from .places import AtProcess, Finder, Fixed, url_where
from .target import Target
from .targets import AtUrl, OfFollowed, OfPods, OfProcess, OfService, ScrapeTarget


class Scrapers:
    """All targets. Each has a loop and a time limit of its own; one that hangs delays no other.

    ``interval``: s between two scrapes of a target that has none of its own; 0: at the edges of phases only.
    ``process`` tells which process has a name now, ``leader`` which of the followed pods leads a program.
    """

    def __init__(
        self,
        client: Client,
        ledger: Ledger,
        *,
        process: Callable[[str], Identity | None],
        leader: Callable[[str], Followed | None],
        interval: float,
    ) -> None:
        self._client = client
        self._ledger = ledger
        self._process = process
        self._leader = leader
        self._interval = interval
        self._server = client.access.server.rstrip("/")
        self._connections = Connections(client)
        self._targets: dict[str, Target] = {}
        self._pods: dict[str, Pods] = {}
        self._following: dict[str, asyncio.Task[None]] = {}
        self._leaving: set[asyncio.Task[None]] = set()
        self._running = False

    def add(self, wanted: ScrapeTarget) -> None:
        """Scrape a target from here on; one of a known name goes on with its history at its new place."""
        self._stop_following(wanted.name)
        interval = self._interval if wanted.interval_s is None else wanted.interval_s
        match wanted.place:
            case OfPods() as place:
                self._take_out(wanted.name)
                self._follow_pods(wanted.name, place, interval)
            case OfService(via="ip") as place:
                address = ServiceAddress(place)
                self._put(wanted.name, address, interval)
                self._follow(wanted.name, address.follow(self._client, self._ledger, wanted.name))
            case OfService() as place:
                self._put(wanted.name, Fixed(service_where(place, self._server)), interval)
            case OfFollowed() as place:
                self._put(wanted.name, AtLeader(place, self._leader, self._server), interval)
            case OfProcess() as place:
                self._put(wanted.name, AtProcess(place, self._process), interval)
            case AtUrl() as place:
                self._put(wanted.name, Fixed(url_where(place, self._server)), interval)

    def remove(self, name: str) -> None:
        """Scrape it no longer, nor any of its pods."""
        self._stop_following(name)
        self._take_out(name)

    def run(self, *, rest: bool = False) -> None:
        """Let all loops run; ``rest``: not before half of their interval has gone by, since they were just scraped."""
        self._running = True
        for target in self._targets.values():
            target.start(rest=rest)

    async def halt(self) -> None:
        """Break off all loops, and whatever they are scraping."""
        self._running = False
        await self._settle(target.cancel() for target in self._targets.values())

    async def edge(self, edge: str) -> None:
        """Scrape all targets at once, in place of what their loops are doing; they run again after `run`."""
        await self.halt()
        async with asyncio.TaskGroup() as scrapes:
            for target in list(self._targets.values()):
                scrapes.create_task(target.scrape(edge))
                # Answers that are here are read before more is asked for: nobody's time limit may run out on us.
                await asyncio.sleep(0)

    async def once(self, name: str) -> None:
        """Scrape one target now, outside of any rhythm: for one that has none."""
        if name in self._targets:
            await self._targets[name].scrape()

    async def close(self) -> None:
        """End all loops and close all connections."""
        self._running = False
        for task in self._following.values():
            task.cancel()
        await self._settle([*self._following.values(), *(target.cancel() for target in self._targets.values())])
        await self._connections.close()

    # ---- targets

    def _put(self, name: str, finder: Finder, interval: float) -> None:
        if name in self._targets:
            self._targets[name].move(finder, interval=interval)
            return
        target = Target(name, finder, self._connections, self._ledger, interval=interval)
        self._targets[name] = target
        if self._running:
            target.start()

    def _take_out(self, name: str) -> None:
        target = self._targets.pop(name, None)
        if target is not None:
            self._let_go(target.remove())

    def _follow_pods(self, name: str, place: OfPods, interval: float) -> None:
        pods = Pods(
            name,
            place,
            client=self._client,
            server=self._server,
            ledger=self._ledger,
            found=lambda target, finder: self._put(target, finder, interval),
            lost=self._take_out,
        )
        self._pods[name] = pods
        self._follow(name, pods.run())

    # ---- tasks

    def _follow(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work, name=f"targets of {name}")
        task.add_done_callback(lambda done: self._broke(name, done))
        self._following[name] = task

    def _stop_following(self, name: str) -> None:
        task = self._following.pop(name, None)
        if task is not None:
            task.cancel()
            self._let_go(task)
        pods = self._pods.pop(name, None)
        if pods is not None:
            pods.all_lost()

    def _let_go(self, task: asyncio.Task[None] | None) -> None:
        if task is not None:
            self._leaving.add(task)
            task.add_done_callback(self._leaving.discard)

    async def _settle(self, tasks: Iterable[asyncio.Task[None] | None]) -> None:
        await asyncio.gather(*filter(None, [*tasks, *self._leaving]), return_exceptions=True)

    def _broke(self, name: str, task: asyncio.Task[None]) -> None:
        # A defect of ours must not look like a target without pods.
        if not task.cancelled() and (error := task.exception()) is not None:
            self._ledger.failed(f"scrape:{name}", f"{type(error).__name__}: {error}")
