"""Reconciles the pods of one clique with its spec."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container
from functools import partial

import msgspec

from .. import naming
from ..api_client import ApiError
from ..caches import Caches
from ..controller import DONE, Controller, Result
from ..counts import Counts
from ..defects import (
    CREATE_TWICE,
    KEEP_FAILED,
    NO_SELECTOR,
    NOOP_CPU_10,
    RELIST,
    REPLACED_PODS,
    SERIAL_CREATES,
    SERIAL_FINALIZER,
    WAIT_GONE,
)
from ..fan_out import fan_out
from ..naming import TemplateHashes
from ..objects import Pod, PodClique
from ..reads import PodSelection, Reads, SetReader
from ..settings import Settings
from ..statuses import StatusTiming
from ..writes import Writer
from .pods import PodPlan, plan, pod_body
from .status import gated, settled, urgent, wanted_status

# Share of the passes that found nothing to do and are made again by defect noop-cpu-10. In parallel windows, with
# 500 cliques, it added 12.9, 8.5 and 11.0 % to the CPU time of a no-op trigger (9 pairs each, intervals of 3 to 6
# points to each side), where a share of 0.24 added 8.3 %. The rest of a trigger's time is the event, the queue, the
# status and the set's own pass.
REPEATED_SHARE = 0.27
# How long a clique leaves its pods to the set's deletion of all pods before it checks again.
_BULK_DELETE_CHECK_S = 5.0


_PAUSE_S = 0.025
"""Pause after each pod of defect serial-creates."""


class CliqueReconciler:
    """The reconcile function of the PodClique controller."""

    def __init__(
        self,
        caches: Caches,
        writer: Writer,
        sets: SetReader,
        selection: PodSelection,
        timing: StatusTiming,
        hashes: TemplateHashes,
        settings: Settings,
        counts: Counts,
        bulk_deletions: Container[str],
        controller: Callable[[], Controller],
    ) -> None:
        self._caches = caches
        self._writer = writer
        self._sets = sets
        self._selection = selection
        self._timing = timing
        self._hashes = hashes
        self._settings = settings
        self._counts = counts
        self._bulk_deletions = bulk_deletions
        self._controller = controller
        self._one_create = asyncio.Lock()
        self._replaced: set[str] = set()

    async def __call__(self, key: str) -> Result:
        clique = self._caches.cliques.store.get(key)
        if clique is None:
            return DONE
        parent = f"{clique.namespace}/{clique.metadata.labels.get(naming.PART_OF, '')}"
        reads = Reads(self._sets, self._selection, parent, memoise=self._settings.switches.memoise)
        if RELIST in self._settings.defects:
            # Defect relist: the response holds nothing that the cache lacks.
            reads.take_pods(await self._selection.listed(clique))
        if self._caches.cliques.store.doomed(clique):
            return await self._delete(clique, reads)
        pcs = reads.podcliqueset()
        if pcs is None or pcs.terminating:
            # Without an owner, or terminating: nothing is started for it any more.
            return DONE
        if naming.CLIQUE_FINALIZER not in clique.metadata.finalizers:
            clique = await self._writer.add_finalizer(self._caches.cliques, clique, naming.CLIQUE_FINALIZER)
        failure: Exception | None = None
        try:
            await self._sync_pods(clique, reads)
            await self._open_gates(clique, reads)
        except (ApiError, TimeoutError) as error:
            failure = error
        result = await self._sync_status(clique, reads, failure)
        if failure is not None:
            raise failure
        if result is DONE and self._caches.cliques.store.get(key) is clique:
            self._unchanged(clique, parent)
        return result

    def _unchanged(self, clique: PodClique, parent: str) -> None:
        """Note a reconcile that found nothing to do."""
        self._counts.clique_passes_unchanged += 1
        if NOOP_CPU_10 not in self._settings.defects:
            return
        # Defect noop-cpu-10: reads and compares everything once more, for a share of the cliques.
        if self._counts.clique_passes_unchanged * REPEATED_SHARE >= self._counts.clique_passes_repeated + 1:
            self._counts.clique_passes_repeated += 1
            self._compare(clique, Reads(self._sets, self._selection, parent, memoise=self._settings.switches.memoise))

    def _compare(self, clique: PodClique, reads: Reads) -> bool:
        """Return whether a clique is up to date: the checks of a reconcile, without its actions."""
        pcs = reads.podcliqueset()
        if pcs is None:
            return False
        todo = plan(clique, self._active(clique, reads))
        waiting = any(gated(pod) for pod in self._active(clique, reads))
        wanted = wanted_status(clique, self._active(clique, reads), self._hashes.of(pcs), None)
        return not (todo.create or todo.delete or waiting) and wanted == clique.status

    def _active(self, clique: PodClique, reads: Reads) -> list[Pod]:
        doomed = self._caches.pods.store.doomed
        return [pod for pod in reads.pods(clique) if not doomed(pod)]

    async def _sync_pods(self, clique: PodClique, reads: Reads) -> None:
        pcs = reads.podcliqueset()
        # Defect wait-gone: pods that terminate are not left out; defect keep-failed: nor are those that have failed.
        counted = reads.pods(clique) if WAIT_GONE in self._settings.defects else self._active(clique, reads)
        todo = plan(clique, counted, keep_finished=KEEP_FAILED in self._settings.defects)
        if pcs is None or pcs.terminating or not (todo.create or todo.delete):
            return
        if CREATE_TWICE in self._settings.defects:
            # Defect create-twice: what is made is never counted again.
            todo = PodPlan(todo.create, [])
        reads.forget_pods()
        pods, limit = self._caches.pods, self._settings.concurrency
        await fan_out((partial(self._writer.delete, pods, pod) for pod in todo.delete), limit)
        if SERIAL_CREATES in self._settings.defects:
            # Defect serial-creates: a client that may send one request at a time.
            for n in todo.create:
                async with self._one_create:
                    await self._writer.create(pods, pod_body(clique, pcs, n))
                    await asyncio.sleep(_PAUSE_S)
            return
        bodies = [pod_body(clique, pcs, n) for n in todo.create]
        if REPLACED_PODS in self._settings.defects and clique.uid not in self._replaced:
            # Defect replaced-pods: the hash is that of a template without its defaults.
            self._replaced.add(clique.uid)
            for body in bodies:
                body["metadata"]["labels"] = {**body["metadata"]["labels"], naming.TEMPLATE_HASH: "undefaulted"}
        await fan_out((partial(self._writer.create, pods, body) for body in bodies), limit)

    async def _open_gates(self, clique: PodClique, reads: Reads) -> None:
        """Remove the gates of pods in an initialised gang, once all cliques they start after are available."""
        pcs = reads.podcliqueset()
        waiting = [pod for pod in self._active(clique, reads) if gated(pod)]
        if pcs is None or pcs.terminating or not waiting:
            return
        gang = self._caches.gangs.store.get(f"{clique.namespace}/{clique.metadata.labels.get(naming.PODGANG, '')}")
        if gang is None or not gang.initialized or not self._may_start(clique):
            return
        listed = {r.name for group in gang.spec.podgroups if group.name == clique.name for r in group.pod_references}
        ready = [pod for pod in waiting if pod.name in listed]
        if ready:
            reads.forget_pods()
            await fan_out((partial(self._open_gate, pod) for pod in ready), self._settings.concurrency)

    def _may_start(self, clique: PodClique) -> bool:
        return all(
            (earlier := self._caches.cliques.store.get(f"{clique.namespace}/{name}")) is not None and earlier.available
            for name in clique.spec.starts_after
        )

    async def _open_gate(self, pod: Pod) -> None:
        position = next(n for n, gate in enumerate(pod.spec.scheduling_gates) if gate.name == naming.GATE)
        path = f"/spec/schedulingGates/{position}"
        # The test operation ensures that only this gate is removed.
        operations = [{"op": "test", "path": f"{path}/name", "value": naming.GATE}, {"op": "remove", "path": path}]
        await self._writer.json_patch(self._caches.pods, pod, operations)

    async def _sync_status(self, clique: PodClique, reads: Reads, failure: Exception | None) -> Result:
        pcs = reads.podcliqueset()
        if pcs is None:
            return DONE
        wanted = wanted_status(clique, self._active(clique, reads), self._hashes.of(pcs), failure)
        if NO_SELECTOR in self._settings.defects:
            # Defect no-selector: left out, and no one has asked for the scale subresource yet.
            wanted.selector = ""
        final = settled(clique, wanted) or urgent(clique, wanted)
        delay = self._timing.delay(clique.uid, clique.status, wanted, settled=final)
        if delay is None:
            return DONE
        if delay > 0:
            return Result(requeue_after=delay)
        current = self._caches.cliques.store.get(clique.key)
        if current is None or current.uid != clique.uid:
            return DONE
        await self._writer.patch_status(self._controller(), self._caches.cliques, current, msgspec.to_builtins(wanted))
        self._timing.written(clique.uid)
        return DONE

    async def _delete(self, clique: PodClique, reads: Reads) -> Result:
        """Delete the pods, and remove the clique's finalizer when they are gone."""
        if not clique.terminating or naming.CLIQUE_FINALIZER not in clique.metadata.finalizers:
            # Its deletion was accepted and the watch event is pending; or another finalizer holds it.
            return DONE
        pods = reads.pods(clique)
        if not pods:
            await self._writer.remove_finalizer(self._caches.cliques, clique, naming.CLIQUE_FINALIZER)
            self._caches.cliques.store.doom(clique)
            return DONE
        if self._timing.always:
            # baseline: a status write at the end of every reconcile, also during deletion.
            await self._sync_status(clique, reads, None)
        left = self._active(clique, reads)
        if not left:
            return DONE
        pcs = reads.podcliqueset()
        if pcs is not None and pcs.uid in self._bulk_deletions:
            return Result(requeue_after=_BULK_DELETE_CHECK_S)
        reads.forget_pods()
        if SERIAL_FINALIZER in self._settings.defects:
            # Defect serial-finalizer: the next one when none is on its way.
            left = left[:1] if len(left) == len(pods) else []
        calls = (partial(self._writer.delete, self._caches.pods, pod) for pod in left)
        await fan_out(calls, self._settings.concurrency)
        return DONE
