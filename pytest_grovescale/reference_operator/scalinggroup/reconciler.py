"""Reconciles the cliques of one scaling group with its spec."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import msgspec

from .. import naming
from ..caches import Caches
from ..controller import DONE, Controller, Result
from ..fan_out import fan_out
from ..naming import TemplateHashes
from ..objects import CliqueTemplate, PodClique, PodCliqueSet, ScalingGroup, ScalingGroupStatus
from ..owned import Body, clique_body, clique_labels, clique_patch, owner_reference, pods_differ, starts_after
from ..reads import PodSelection, Reads, SetReader
from ..resources import SCALING_GROUP
from ..settings import Settings
from ..statuses import StatusTiming, condition
from ..writes import Writer

BREACHED = "MinAvailableBreached"


class ScalingGroupReconciler:
    """The reconcile function of the PodCliqueScalingGroup controller."""

    def __init__(
        self,
        caches: Caches,
        writer: Writer,
        sets: SetReader,
        selection: PodSelection,
        timing: StatusTiming,
        hashes: TemplateHashes,
        settings: Settings,
        controller: Callable[[], Controller],
    ) -> None:
        self._caches = caches
        self._writer = writer
        self._sets = sets
        self._selection = selection
        self._timing = timing
        self._hashes = hashes
        self._settings = settings
        self._controller = controller

    async def __call__(self, key: str) -> Result:
        cached = self._caches.groups
        group = cached.store.get(key)
        if group is None:
            return DONE
        if cached.store.doomed(group):
            return await self._delete(group)
        parent = f"{group.namespace}/{group.metadata.labels.get(naming.PART_OF, '')}"
        reads = Reads(self._sets, self._selection, parent, memoise=self._settings.switches.memoise)
        pcs = reads.podcliqueset()
        if pcs is None or pcs.terminating:
            return DONE
        if naming.SCALING_GROUP_FINALIZER not in group.metadata.finalizers:
            group = await self._writer.add_finalizer(cached, group, naming.SCALING_GROUP_FINALIZER)
        await self._sync_cliques(group, reads)
        return await self._sync_status(group, reads)

    # ---- cliques

    async def _sync_cliques(self, group: ScalingGroup, reads: Reads) -> None:
        pcs = reads.podcliqueset()
        if pcs is None:
            return
        cached = self._caches.cliques
        owned = {c.name: c for c in cached.owned_by(group)}
        missing: list[Body] = []
        patches: list[tuple[PodClique, Body]] = []
        wanted_names: set[str] = set()
        turn = self._whose_turn(group, pcs, owned)
        for replica in range(group.spec.replicas):
            for name in group.spec.clique_names:
                template = pcs.spec.template.clique(name)
                if template is None:
                    continue
                body = self._body(group, pcs, template, replica)
                full_name = body["metadata"]["name"]
                wanted_names.add(full_name)
                clique = owned.get(full_name)
                if clique is None:
                    missing.append(body)
                elif not cached.store.doomed(clique):
                    outdated = pods_differ(clique, template, body["metadata"]["labels"])
                    patch = clique_patch(clique, body, template, with_pods=not outdated or replica == turn)
                    if patch is not None:
                        patches.append((clique, patch))
        surplus = [c for name, c in owned.items() if name not in wanted_names and not cached.store.doomed(c)]
        limit = self._settings.concurrency
        await fan_out((partial(self._writer.create, cached, body) for body in missing), limit)
        await fan_out((partial(self._writer.patch, cached, clique, body) for clique, body in patches), limit)
        await fan_out((partial(self._writer.delete, cached, clique) for clique in surplus), limit)

    def _whose_turn(self, group: ScalingGroup, pcs: PodCliqueSet, owned: dict[str, PodClique]) -> int | None:
        """Return the one replica of the group whose pods may be replaced now: the first that is outdated."""
        hashes = self._hashes.of(pcs).cliques
        for replica in range(group.spec.replicas):
            for name in group.spec.clique_names:
                clique = owned.get(naming.clique(group.name, replica, name))
                if clique is not None and not _updated(clique, hashes.get(name, "")):
                    return replica
        return None

    def _body(self, group: ScalingGroup, pcs: PodCliqueSet, template: CliqueTemplate, replica: int) -> Body:
        set_replica = int(group.metadata.labels.get(naming.REPLICA_INDEX, "0"))
        digest = self._hashes.of(pcs).cliques[template.name]
        labels = {
            **clique_labels(pcs, template, set_replica, digest),
            naming.COMPONENT: "pcsg-podclique",
            naming.SCALING_GROUP: group.name,
            naming.SCALING_GROUP_REPLICA: str(replica),
        }
        return clique_body(
            naming.clique(group.name, replica, template.name),
            group.namespace,
            template,
            labels=labels,
            after=[
                # Within the group: the same replica of it; outside: the set replica's clique.
                naming.clique(group.name, replica, name)
                if name in group.spec.clique_names
                else naming.clique(pcs.name, set_replica, name)
                for name in starts_after(pcs.spec.template, template)
            ],
            owner=owner_reference(SCALING_GROUP, group),
        )

    # ---- status

    async def _sync_status(self, group: ScalingGroup, reads: Reads) -> Result:
        pcs = reads.podcliqueset()
        current = self._caches.groups.store.get(group.key)
        if pcs is None or current is None or current.uid != group.uid:
            return DONE
        wanted = self._wanted_status(current, pcs)
        final = wanted.available_replicas == wanted.updated_replicas == wanted.replicas == current.spec.replicas
        delay = self._timing.delay(current.uid, current.status, wanted, settled=final)
        if delay is None:
            return DONE
        if delay > 0:
            return Result(requeue_after=delay)
        await self._writer.patch_status(self._controller(), self._caches.groups, current, msgspec.to_builtins(wanted))
        self._timing.written(current.uid)
        return DONE

    def _wanted_status(self, group: ScalingGroup, pcs: PodCliqueSet) -> ScalingGroupStatus:
        hashes = self._hashes.of(pcs).cliques
        owned = {c.name: c for c in self._caches.cliques.owned_by(group)}
        present = available = scheduled = updated = 0
        for replica in range(group.spec.replicas):
            names = {name: naming.clique(group.name, replica, name) for name in group.spec.clique_names}
            cliques = {name: owned[full] for name, full in names.items() if full in owned}
            if len(cliques) < len(names):
                continue
            present += 1
            available += all(c.available for c in cliques.values())
            scheduled += all(c.status.scheduled_replicas >= c.spec.needed for c in cliques.values())
            updated += all(_updated(c, hashes.get(name, "")) for name, c in cliques.items())
        enough = available >= group.spec.min_available
        reason = "SufficientAvailableReplicas" if enough else "InsufficientAvailableReplicas"
        return ScalingGroupStatus(
            replicas=present,
            available_replicas=available,
            scheduled_replicas=scheduled,
            updated_replicas=updated,
            selector=f"{naming.SCALING_GROUP}={group.name}",
            observed_generation=group.metadata.generation,
            conditions=[condition(group.status.conditions, BREACHED, "False" if enough else "True", reason)],
        )

    # ---- deletion

    async def _delete(self, group: ScalingGroup) -> Result:
        if not group.terminating or naming.SCALING_GROUP_FINALIZER not in group.metadata.finalizers:
            return DONE
        cached = self._caches.cliques
        owned = cached.owned_by(group)
        if owned:
            left = [clique for clique in owned if not cached.store.doomed(clique)]
            await fan_out((partial(self._writer.delete, cached, c) for c in left), self._settings.concurrency)
            return DONE
        await self._writer.remove_finalizer(self._caches.groups, group, naming.SCALING_GROUP_FINALIZER)
        self._caches.groups.store.doom(group)
        return DONE


def _updated(clique: PodClique, template_hash: str) -> bool:
    status = clique.status
    return (
        status.current_pod_template_hash == template_hash
        and status.updated_replicas >= clique.spec.replicas
        and clique.available
    )
