"""Defects around the reconcile functions: each does something more, or something else, than the sound one.

A reconcile function is wrapped only where one of them is enabled.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections.abc import Awaitable, Callable

import msgspec

from . import defects as d
from . import naming
from .api_client import ApiClient, ApiError
from .caches import Caches
from .controller import DONE, Result
from .objects import PodClique
from .resources import EVENT, POD, PODCLIQUE
from .statuses import now

log = logging.getLogger(__name__)

Reconcile = Callable[[str], Awaitable[Result]]

_LEAKED_BYTES = 1024
_PANIC_EVERY = 20
_LATE_S = 2.0
_START_S = 3.0
_WATCHES = 20
"""Watches that are leaked: with more, the client has no connection left."""
_WAKE_AFTER_S = 0.2


class FlawedReconciles:
    """Wraps the reconcile functions of controllers; holds what the defects leak."""

    def __init__(
        self, api: ApiClient, caches: Caches, defects: d.Defects, wake_clique: Callable[[str, float], None]
    ) -> None:
        """``wake_clique`` has a PodClique reconciled after so many seconds."""
        self._api = api
        self._caches = caches
        self._defects = defects
        self._wake_clique = wake_clique
        self._leaked: list[bytearray] = []
        self._watches: dict[str, asyncio.Task[None]] = {}
        self._late: set[str] = set()
        self._started: set[str] = set()
        self._flapped: set[str] = set()
        self._done = 0
        self._seconds: dict[str, str] = {}

    def wrapped(self, controller: str, reconcile: Reconcile) -> Reconcile:
        """Return a controller's reconcile function with the enabled defects; itself where there are none."""
        if not self._defects.names & d.AROUND_RECONCILES:
            return reconcile

        async def flawed(key: str) -> Result:
            self._done += 1
            if d.RECOVERED_PANIC in self._defects and self._done % _PANIC_EVERY == 0:
                raise RuntimeError(f"{controller} {key}: invalid memory address")
            if d.SMALL_LEAK in self._defects:
                self._leaked.append(bytearray(_LEAKED_BYTES))
            if controller == "podclique":
                late = self._held_back(key)
                if late is not None:
                    return late
                if await self._restless(key):
                    return DONE
            result = await reconcile(key)
            with contextlib.suppress(ApiError):
                await (self._clique(key) if controller == "podclique" else self._set(controller, key))
            return result

        return flawed

    def _held_back(self, key: str) -> Result | None:
        clique = self._caches.cliques.store.get(key)
        if d.LATE_START in self._defects and clique is not None and clique.uid not in self._started:
            self._started.add(clique.uid)
            return Result(requeue_after=_START_S)
        if (
            d.LATE_FINALIZER not in self._defects
            or clique is None
            or not clique.terminating
            or clique.uid in self._late
        ):
            return None
        if self._caches.pods.owned_by(clique):
            return None
        self._late.add(clique.uid)
        return Result(requeue_after=_LATE_S)

    async def _restless(self, key: str) -> bool:
        """Defect restless: writes what differs each time, and waits for the event of that write."""
        clique = self._caches.cliques.store.get(key)
        if d.RESTLESS not in self._defects or clique is None or clique.terminating:
            return False
        with contextlib.suppress(ApiError):
            await self._claim(clique, secrets.token_hex(4))
        return True

    async def _set(self, controller: str, key: str) -> None:
        if controller != "podcliqueset":
            return
        if d.WIDE_LIST in self._defects:
            await self._api.get(POD.collection(""))
        if d.DISCOVERY in self._defects:
            for path in ("/api", "/apis", "/apis/grove.io/v1alpha1"):
                await self._api.get(path)
        if d.WAKE_CHILDREN in self._defects:
            for clique in self._caches.cliques.store.by("part_of", key):
                self._wake_clique(clique.key, _WAKE_AFTER_S)
        pcs = self._caches.sets.store.get(key)
        if d.RIVALS in self._defects and pcs is not None and not pcs.terminating:
            for clique in self._caches.cliques.owned_by(pcs):
                await self._claim(clique, "podcliqueset")

    async def _clique(self, key: str) -> None:
        clique = self._caches.cliques.store.get(key)
        if clique is None or clique.terminating:
            return
        if d.STAMPED_STATUS in self._defects:
            await self._stamp(clique)
        if d.RIVALS in self._defects:
            await self._claim(clique, "podclique")
        if d.HISTORY in self._defects:
            await self._record(clique)
        if d.FLAPPING in self._defects:
            await self._flap(clique)
        if d.EVENT_FLOOD in self._defects:
            await self._event(clique)
        if d.LOG_FLOOD in self._defects:
            log.info("reconciled %s: %s", key, msgspec.json.encode(clique).decode() * 3)
        if d.WATCH_LEAK in self._defects and key not in self._watches and len(self._watches) < _WATCHES:
            self._watches[key] = asyncio.create_task(self._watch(clique))

    async def _stamp(self, clique: PodClique) -> None:
        """Defect stamped-status: says when it looked last, at every look."""
        if not clique.status.conditions or self._seconds.get(clique.uid) == now():
            return
        self._seconds[clique.uid] = now()
        conditions = [
            {**msgspec.to_builtins(condition), "lastTransitionTime": now()} for condition in clique.status.conditions
        ]
        path = PODCLIQUE.path(clique.namespace, clique.name, "status")
        await self._api.patch(path, {"status": {"conditions": conditions}})

    async def _flap(self, clique: PodClique) -> None:
        """Defect flapping: says the opposite of its first condition for a moment."""
        if not clique.status.conditions or clique.uid in self._flapped:
            return
        self._flapped.add(clique.uid)
        path = PODCLIQUE.path(clique.namespace, clique.name, "status")
        said: list[dict[str, str]] = [msgspec.to_builtins(one) for one in clique.status.conditions]
        opposite = "False" if said[0]["status"] == "True" else "True"
        for first in (opposite, said[0]["status"]):
            conditions = [{**said[0], "status": first}, *said[1:]]
            await self._api.patch(path, {"status": {"conditions": conditions}})

    async def _record(self, clique: PodClique) -> None:
        """Defect history: a line for each reconcile, none of which is ever dropped."""
        history = clique.metadata.annotations.get(naming.HISTORY, "")
        body = {"metadata": {"annotations": {naming.HISTORY: f"{history}{now()} reconciled\n"}}}
        with contextlib.suppress(ApiError):
            await self._api.patch(PODCLIQUE.path(clique.namespace, clique.name), body)

    async def _claim(self, clique: PodClique, controller: str) -> None:
        """Defect rivals: two controllers, each of which wants its own name in one annotation."""
        if clique.metadata.annotations.get(naming.KEPT_BY) != controller:
            body = {"metadata": {"annotations": {naming.KEPT_BY: controller}}}
            self._caches.cliques.store.upsert(
                self._caches.cliques.decode(await self._api.patch(PODCLIQUE.path(clique.namespace, clique.name), body))
            )

    async def _event(self, clique: PodClique) -> None:
        """Defect event-flood: an Event for each reconcile, under a name of its own."""
        body = {
            "apiVersion": EVENT.api_version,
            "kind": EVENT.kind,
            "metadata": {"name": f"{clique.name}.{secrets.token_hex(8)}", "namespace": clique.namespace},
            "involvedObject": {
                "apiVersion": PODCLIQUE.api_version,
                "kind": PODCLIQUE.kind,
                "name": clique.name,
                "namespace": clique.namespace,
                "uid": clique.uid,
            },
            "reason": "Reconciled",
            "message": f"{clique.name} was reconciled",
            "type": "Normal",
        }
        await self._api.post(EVENT.collection(clique.namespace), body)

    async def _watch(self, clique: PodClique) -> None:
        """Defect watch-leak: a watch for each clique, which nothing ends."""
        selector = f"labelSelector={naming.PODCLIQUE}%3D{clique.name}"
        while True:
            with contextlib.suppress(ApiError):
                async for _ in self._api.watch(f"{POD.collection(clique.namespace)}?watch=true&{selector}"):
                    pass
            await asyncio.sleep(_LATE_S)
