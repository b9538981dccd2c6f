"""All targets of a recording: added and removed, run between the edges of phases, scraped at once at an edge."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from ...kube.client import Client
from ...kube.informer import Followed
from ...procfs import Identity
from ..record_writer import Ledger
from ..scrape_targets import AtUrl, OfFollowed, OfPods, OfProcess, OfService, ScrapeTarget
from .connections import Connections
from .locators import AtLeader, AtProcess, Finder, Fixed, Pods, ServiceAddress, service_where, url_where
from .target import Target


class Scrapers:
    """All targets. Each has its own loop and time limit; one that hangs delays no other.

    ``interval``: s between two scrapes of a target without its own interval; 0: only at the edges of phases.
    ``process`` returns the current process of a name, ``leader`` the current leader among the followed pods of a
    program.
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
        self._beside: set[asyncio.Task[None]] = set()
        """Scrapes beside the schedules that are not waited for."""

    def add(self, wanted: ScrapeTarget) -> None:
        """Scrape a target from here on; a target with a known name continues its history at the new location."""
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
        """Stop scraping a target and all of its pods."""
        self._stop_following(name)
        self._take_out(name)

    def run(self, *, rest: bool = False) -> None:
        """Run all loops; ``rest``: not before half of their interval has passed, since they were just scraped."""
        self._running = True
        for target in self._targets.values():
            target.start(rest=rest)

    async def halt(self) -> None:
        """Cancel all loops, with their running scrapes."""
        self._running = False
        await self._settle(self._cancelled())

    async def edge(self, edge: str) -> None:
        """Scrape all targets at once, instead of their loops, which run again after `run`."""
        await self.halt()
        async with asyncio.TaskGroup() as scrapes:
            for target in list(self._targets.values()):
                scrapes.create_task(target.scrape(edge))
                # Read the responses at hand before sending more requests, so that no time limit expires meanwhile.
                await asyncio.sleep(0)

    async def once(self, name: str) -> None:
        """Scrape one target now, outside of any schedule: for a target without one."""
        if name in self._targets:
            await self._targets[name].scrape()

    def beside(self, name: str) -> None:
        """Begin to scrape one target, whether its schedule runs or not: a phase's edge before its answer ends that.

        Not one without a schedule, which is to be scraped at the edges of phases only.
        """
        if name in self._targets and self._targets[name].scheduled:
            scrape = asyncio.create_task(self._targets[name].scrape(), name=f"scrape {name}")
            scrape.add_done_callback(lambda done: self._broke(name, done))
            scrape.add_done_callback(self._beside.discard)
            self._beside.add(scrape)

    def soon(self, name: str) -> None:
        """Scrape a target now, where it has a schedule that runs."""
        if self._running and name in self._targets:
            self._targets[name].soon()

    async def close(self) -> None:
        """End all loops and close all connections."""
        self._running = False
        for task in self._following.values():
            task.cancel()
        await self._settle([*self._following.values(), *self._cancelled()])
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

    def _cancelled(self) -> list[asyncio.Task[None] | None]:
        """Cancel all schedules and scrapes; return what to await."""
        for task in self._beside:
            task.cancel()
        return [*self._beside, *(target.cancel() for target in self._targets.values())]

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
        # A bug here must not look like a target without pods.
        if not task.cancelled() and (error := task.exception()) is not None:
            self._ledger.failed(f"scrape:{name}", f"{type(error).__name__}: {error}")
