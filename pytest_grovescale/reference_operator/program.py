"""The running operator: its components, started and stopped in order."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from . import credentials, event_mapping, flawed_metrics, http_servers, metrics, side_work
from .api_client import METADATA_ONLY, ApiClient, rate_limiter
from .caches import Cached, Caches
from .controller import Controller, Result
from .counts import Counts
from .defects import COUNT_HASH, EARLY_RETRY, EVENT_DROP, LEAK, METRICS_STALL, OTHER_HASH, PORT_MOVE
from .flawed_reconciles import FlawedReconciles
from .informer import WATCH_LASTS_S, Informer
from .leader_election import Leadership
from .leaked import Leaked
from .naming import TemplateHashes
from .objects import Object
from .podclique.reconciler import CliqueReconciler
from .podcliqueset.component import Workshop
from .podcliqueset.reconciler import SetReconciler
from .reads import PodSelection, SetReader
from .scalinggroup.reconciler import ScalingGroupReconciler
from .settings import Settings
from .statuses import StatusTiming
from .work_queue import WorkQueue
from .writes import Writer

log = logging.getLogger(__name__)


class Operator:
    """Three controllers over one set of caches."""

    def __init__(self, api: ApiClient, settings: Settings) -> None:
        self._api = api
        self._settings = settings
        self.standing_by = False
        """Whether another replica is the leader, and this one waits to take over."""
        self.counts = Counts()
        self.caches = Caches()
        self._leaked = Leaked(self.counts)
        self._build_controllers()
        self.informers = [self._informer(cached) for cached in self.caches]
        self.registry = metrics.registry(self.controllers, api, settings.defects)
        sources = flawed_metrics.Sources(self.controllers, self.caches, self.counts, self._steps, self._leaked)
        flawed_metrics.register(self.registry, sources, settings.defects)

    def _build_controllers(self) -> None:
        settings, caches, counts = self._settings, self.caches, self.counts
        writer = Writer(self._api, counts, settings.defects)
        selection = PodSelection(caches, counts, settings.switches, settings.defects, self._api)
        timing = StatusTiming(settings.status_interval, counts, skip_noop=settings.switches.skip_noop_status)
        # Defect other-hash: another version of the operator, which hashes templates in another way; defect count-hash.
        salt = "x" if OTHER_HASH in settings.defects else ""
        hashes = TemplateHashes(salt, with_replicas=COUNT_HASH in settings.defects)
        sets = SetReader(caches, counts)
        workshop = Workshop(caches, writer, counts, hashes, settings, lambda: self._set_controller)
        self._steps = workshop.steps
        parts = (caches, writer, sets, selection, timing, hashes, settings)
        self._flawed = FlawedReconciles(
            self._api, caches, settings.defects, lambda key, delay: self._clique_controller.queue.add_after(key, delay)
        )
        self._set_controller = self._controller("podcliqueset", SetReconciler(workshop, selection, timing))
        self._clique_controller = self._controller(
            "podclique", CliqueReconciler(*parts, counts, workshop.bulk_deletions, lambda: self._clique_controller)
        )
        self._group_controller = self._controller(
            "podcliquescalinggroup", ScalingGroupReconciler(*parts, lambda: self._group_controller)
        )
        self.controllers = [self._set_controller, self._clique_controller, self._group_controller]
        event_mapping.connect(
            caches,
            self._set_controller.queue,
            self._clique_controller.queue,
            self._group_controller.queue,
            settings.defects,
        )
        for store in (caches.cliques.store, caches.groups.store):
            store.on_change(lambda old, new: timing.forget(old.uid) if old is not None and new is None else None)

    def _controller(self, name: str, reconcile: Callable[[str], Awaitable[Result]]) -> Controller:
        settings = self._settings
        reconcile = self._flawed.wrapped(name, reconcile)
        return Controller(name, reconcile, concurrency=settings.concurrency, defects=settings.defects)

    @property
    def sets(self) -> WorkQueue:
        """The queue of PodCliqueSets."""
        return self._set_controller.queue

    def _informer(self, cached: Cached[Object]) -> Informer[Object]:
        defects = self._settings.defects
        return Informer(
            self._api,
            cached.resource,
            cached.kind,
            cached.store,
            self.counts,
            selector=cached.selector,
            # Request only metadata where only metadata is kept: tokens of Secrets are never received.
            accept=METADATA_ONLY if cached.kind is Object else "application/json",
            lasts=(defects.number(EVENT_DROP),) * 2 if EVENT_DROP in defects else WATCH_LASTS_S,
            resumes=EVENT_DROP not in defects,
            leaked=self._leaked if LEAK in defects else None,
        )

    def ready(self) -> bool:
        """Whether all caches have completed their first list; a standby replica is always ready."""
        return self.standing_by or all(informer.synced.is_set() for informer in self.informers)

    def current_counts(self) -> Counts:
        self.counts.keys_in_hand = sum(controller.queue.in_hand for controller in self.controllers)
        return self.counts

    async def run(self) -> None:
        """Run until cancelled; then let running reconciles finish."""
        watches = [asyncio.create_task(informer.run()) for informer in self.informers]
        synced = asyncio.create_task(self._work_when_synced())
        try:
            # None of these ends by itself: if one does, its error is the operator's.
            done, _ = await asyncio.wait([*watches, synced], return_when=asyncio.FIRST_COMPLETED)
            while done == {synced} and synced.exception() is None:
                done, _ = await asyncio.wait(watches, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            results = await asyncio.gather(*(c.stop(self._settings.shutdown_grace) for c in self.controllers))
            if not all(results):
                log.warning("some reconciles did not end in time and were cancelled")
            for task in [*watches, synced]:
                task.cancel()
            await asyncio.gather(*watches, synced, return_exceptions=True)

    async def _work_when_synced(self) -> None:
        # No reconcile before the caches are complete: it would create existing objects.
        await asyncio.gather(*(informer.synced.wait() for informer in self.informers))
        log.info("caches synced; %d PodCliqueSets, %d pods", len(self.caches.sets.store), len(self.caches.pods.store))
        for controller in self.controllers:
            controller.start()


async def run(settings: Settings) -> None:
    """Run until SIGTERM or SIGINT. Raises CredentialsError, OSError (a port is in use), LeadershipLost."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    servers = http_servers.HttpServers(settings.bind_address)
    limiter = rate_limiter(settings.kube_api_qps, settings.kube_api_burst)
    given = settings.kubeconfig
    own = credentials.in_cluster() if given is None else credentials.load(given, settings.context)
    async with ApiClient(own, limiter=limiter, waits_when_asked=EARLY_RETRY not in settings.defects) as api:
        operator = Operator(api, settings)
        moving = asyncio.create_task(_move_metrics(operator, servers, settings))
        try:
            routes = http_servers.metrics_routes(operator.registry, stalls=METRICS_STALL in settings.defects)
            await servers.serve(settings.metrics_port, routes)
            await servers.serve(
                settings.health_port, http_servers.health_routes(operator.ready, operator.current_counts)
            )
            log.info("started: switches %s, defects %s", settings.switches, sorted(settings.defects.names))
            beside = side_work.running(
                api, operator.caches, operator.sets, settings.leader_election_namespace, settings.defects
            )
            async with beside:
                await _until(stop, _lead(api, operator, settings) if settings.leader_election else operator.run())
        finally:
            moving.cancel()
            await servers.close()
    log.info("stopped")


async def _move_metrics(operator: Operator, servers: http_servers.HttpServers, settings: Settings) -> None:
    if PORT_MOVE not in settings.defects:
        return
    # Defect port-move: as after a reload of its configuration; only the log shows the new port.
    seen = asyncio.Event()
    operator.caches.sets.store.on_change(lambda old, new: seen.set())
    await seen.wait()
    try:
        log.info("metrics are at port %d now", await servers.move(settings.metrics_port))
    except OSError:
        # Its metrics disappear now; the log entry explains why.
        log.exception("metrics could not be moved")


async def _lead(api: ApiClient, operator: Operator, settings: Settings) -> None:
    leadership = Leadership(api, settings.leader_election_namespace)
    operator.standing_by = True
    await leadership.acquire()
    operator.standing_by = False
    work = asyncio.create_task(operator.run())
    keep = asyncio.create_task(leadership.keep())
    try:
        done, _ = await asyncio.wait([work, keep], return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in (work, keep):
            task.cancel()
        await asyncio.gather(work, keep, return_exceptions=True)
        await leadership.release()


async def _until(stop: asyncio.Event, work: Coroutine[Any, Any, None]) -> None:
    """Run ``work`` until ``stop`` is set; raises its error."""
    task, stopped = asyncio.create_task(work), asyncio.create_task(stop.wait())
    await asyncio.wait([task, stopped], return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    if task.done():
        task.result()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
