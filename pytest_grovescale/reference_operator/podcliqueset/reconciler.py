"""Reconciles all children of one PodCliqueSet with its spec."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

import msgspec

from .. import naming
from ..api_client import ApiError
from ..controller import DONE, Result
from ..defects import (
    BLOCKING_CALL,
    BLOCKING_WAIT,
    FUNCTION_NAME_LABEL,
    HOT_LOOP,
    MISSING_RIGHT,
    STALE_STATUS,
    STEP_PAUSES,
)
from ..objects import PodCliqueSet
from ..reads import PodSelection
from ..statuses import StatusTiming
from ..step_times import timed
from .cliques import Cliques
from .component import Component, Workshop
from .disruption_budgets import DisruptionBudgets
from .gang_termination import GangTermination
from .gangs import Gangs
from .infrastructure import Autoscalers, HeadlessServices, Rights, ServiceAccounts, TokenSecrets
from .scaling_groups import ScalingGroups
from .status import settled, urgent, wanted_status
from .waiting import until_available

# Accepted deletions are reported by events; this delay covers cases without an event.
_DELETE_CHECK_S = 2.0

_STEP_S = 0.2
"""Pause before each step of defect step-pauses."""

_CALL_S = 0.25
"""Time that the other side of defect blocking-call takes to answer."""


class SetReconciler:
    """The reconcile function of the PodCliqueSet controller.

    Finalizer, components in dependency order, then the status with observedGeneration.
    """

    def __init__(self, workshop: Workshop, selection: PodSelection, timing: StatusTiming) -> None:
        self._workshop = workshop
        self._timing = timing
        caches = workshop.caches
        # The controller manager deletes a Secret with a token whose ServiceAccount it does not find.
        accounts: list[Component] = [ServiceAccounts(workshop, caches.accounts)]
        infrastructure: list[Component] = [
            Rights(workshop),
            TokenSecrets(workshop, caches.secrets),
            HeadlessServices(workshop),
            Autoscalers(workshop),
            GangTermination(workshop),
        ]
        self._groups: Sequence[Sequence[Component]] = (
            accounts,
            infrastructure,
            [Cliques(workshop)],
            [ScalingGroups(workshop), Gangs(workshop, selection)],
        )
        if MISSING_RIGHT in workshop.settings.defects:
            # Defect missing-right: last, so that only its own request fails.
            self._groups = (*self._groups, [DisruptionBudgets(workshop)])
        self._components = [component for group in self._groups for component in group]
        self._at_once = 0

    async def __call__(self, key: str) -> Result:
        cached = self._workshop.caches.sets
        pcs = cached.store.get(key)
        if pcs is None:
            return DONE
        if pcs.terminating:
            return await self._delete(pcs)
        if naming.SET_FINALIZER not in pcs.metadata.finalizers:
            if BLOCKING_CALL in self._workshop.settings.defects:
                _look_up()
            pcs = await self._workshop.writer.add_finalizer(cached, pcs, naming.SET_FINALIZER)
        failure: Exception | None = None
        again: float | None = None
        try:
            again = await self._sync(pcs)
            if BLOCKING_WAIT in self._workshop.settings.defects:
                # Defect blocking-wait: waits for the status that the next event would report.
                await until_available(pcs, self._workshop, self._sync)
        except (ApiError, TimeoutError) as error:
            failure = error
        delay = await self._sync_status(pcs, failure)
        if failure is not None:
            raise failure
        waits = [seconds for seconds in (again, delay) if seconds is not None]
        return Result(requeue_after=min(waits)) if waits else DONE

    # ---- components

    async def _sync(self, pcs: PodCliqueSet) -> float | None:
        waits: list[float] = []
        paused = STEP_PAUSES in self._workshop.settings.defects and not self._workshop.caches.cliques.owned_by(pcs)
        for group in [[one] for one in self._components] if paused else self._in_order():
            if paused:
                # Defect step-pauses: gives the step before time to show.
                await asyncio.sleep(_STEP_S)
            results = await asyncio.gather(*(self._one(c, pcs) for c in group), return_exceptions=True)
            for result in results:
                if isinstance(result, BaseException):
                    # Later groups depend on this one.
                    raise result
                if result is not None:
                    waits.append(result)
        return min(waits, default=None)

    def _in_order(self) -> Sequence[Sequence[Component]]:
        if self._workshop.settings.switches.parallel_groups:
            return self._groups
        return [[component] for component in self._components]

    async def _one(self, component: Component, pcs: PodCliqueSet) -> float | None:
        with _Concurrent(self):
            if FUNCTION_NAME_LABEL not in self._workshop.settings.defects:
                return await component.sync(pcs)
            # Defect function-name-label: renaming a function renames a series.
            with timed(self._workshop.steps, component.sync):
                return await component.sync(pcs)

    async def _delete_one(self, component: Component, pcs: PodCliqueSet) -> None:
        with _Concurrent(self):
            await component.delete(pcs)

    # ---- status

    async def _sync_status(self, pcs: PodCliqueSet, failure: Exception | None) -> float | None:
        """Write the status if it is due; returns the seconds until it is, or None."""
        shop = self._workshop
        current = shop.caches.sets.store.get(pcs.key)
        if current is None or current.uid != pcs.uid:
            return None
        wanted = wanted_status(current, shop.caches, shop.hashes.of(pcs), pcs.metadata.generation, failure)
        if HOT_LOOP in shop.settings.defects:
            # Defect hot-loop: a status with its write time, which changes with each write.
            for condition in wanted.conditions:
                condition.message = f"observed at {time.time_ns()}"
            current = msgspec.structs.replace(current, status=type(wanted)())
        if STALE_STATUS in shop.settings.defects:
            # Defect stale-status: written when the status is made, and never again.
            wanted.observed_generation = current.status.observed_generation or wanted.observed_generation
        final = settled(current, wanted) or urgent(current, wanted)
        delay = self._timing.delay(pcs.uid, current.status, wanted, settled=final)
        if delay == 0:
            await shop.patch_status(shop.caches.sets, current, msgspec.to_builtins(wanted))
            self._timing.written(pcs.uid)
            return None
        return delay

    # ---- deletion

    async def _delete(self, pcs: PodCliqueSet) -> Result:
        if naming.SET_FINALIZER not in pcs.metadata.finalizers or "orphan" in pcs.metadata.finalizers:
            # Not ours to process, or the garbage collector is about to remove the owner from the children.
            return DONE
        if self._workshop.settings.switches.parallel_groups:
            results = await asyncio.gather(
                *(self._delete_one(component, pcs) for component in self._components), return_exceptions=True
            )
            for result in results:
                if isinstance(result, BaseException):
                    raise result
        else:
            for component in self._components:
                await self._delete_one(component, pcs)
        if any(component.left(pcs) for component in self._components):
            return Result(requeue_after=_DELETE_CHECK_S)
        await self._workshop.writer.remove_finalizer(self._workshop.caches.sets, pcs, naming.SET_FINALIZER)
        self._workshop.hashes.forget(pcs.uid)
        self._timing.forget(pcs.uid)
        return DONE


class _Concurrent:
    """Counts components in progress, for the peak that proves the switch parallel-groups."""

    def __init__(self, reconciler: SetReconciler) -> None:
        self._reconciler = reconciler

    def __enter__(self) -> None:
        self._reconciler._at_once += 1
        counts = self._reconciler._workshop.counts
        counts.components_at_once_max = max(counts.components_at_once_max, self._reconciler._at_once)

    def __exit__(self, *_: object) -> None:
        self._reconciler._at_once -= 1


def _look_up() -> None:
    """Defect blocking-call: waits as a client does that knows nothing of event loops."""
    time.sleep(_CALL_S)
