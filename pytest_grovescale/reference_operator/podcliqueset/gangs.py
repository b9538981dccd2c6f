"""The last group: PodGangs. Each lists the pods of one set replica; a scheduling gate holds them until then."""

from __future__ import annotations

from functools import partial

import msgspec

from .. import naming
from ..objects import PodClique, PodCliqueSet, PodGang, PodGangStatus, PodGroup, PodReference, ScalingGroup
from ..owned import Body
from ..reads import PodSelection
from ..statuses import condition
from .component import Workshop, replica_of

INITIALIZED = "Initialized"


class Gangs:
    """One PodGang per replica of the set."""

    name = "podgang"

    def __init__(self, workshop: Workshop, selection: PodSelection) -> None:
        self._workshop = workshop
        self._gangs = workshop.caches.gangs
        self._selection = selection

    async def sync(self, pcs: PodCliqueSet) -> float | None:
        shop = self._workshop
        create: list[tuple[int, list[PodGroup]]] = []
        update: list[tuple[PodGang, list[PodGroup]]] = []
        uninitialized: list[PodGang] = []
        scaled: dict[int, list[ScalingGroup]] = {}
        for group in shop.caches.groups.owned_by(pcs):
            scaled.setdefault(replica_of(group), []).append(group)
        template = pcs.spec.template
        standalone, scaling_groups = len(template.standalone), len(template.pod_clique_scaling_groups)
        for replica in range(pcs.spec.replicas):
            name = naming.set_replica(pcs.name, replica)
            of_groups = scaled.get(replica, [])
            expected = standalone + sum(g.spec.replicas * len(g.spec.clique_names) for g in of_groups)
            whole = len(of_groups) == scaling_groups
            groups = self._pod_groups(f"{pcs.namespace}/{name}", expected) if whole else None
            gang = shop.child(self._gangs, pcs, name)
            if gang is not None and not gang.initialized:
                uninitialized.append(gang)
            if groups is None:
                continue
            if gang is None:
                create.append((replica, groups))
            elif gang.spec.podgroups != groups:
                update.append((gang, groups))
        await shop.run(partial(self._create, pcs, replica, groups) for replica, groups in create)
        await shop.run(partial(self._update, gang, groups) for gang, groups in update)
        await shop.run(partial(self._initialize, gang) for gang in uninitialized)
        owned = self._gangs.owned_by(pcs)
        if len(owned) > pcs.spec.replicas:
            await shop.delete_surplus(self._gangs, [g for g in owned if replica_of(g) >= pcs.spec.replicas])
        return None

    def _pod_groups(self, gang: str, expected: int) -> list[PodGroup] | None:
        """Return the pods of a gang (``namespace/name``), by clique; None unless so many cliques and all pods exist."""
        store = self._workshop.caches.cliques.store
        cliques = [c for c in store.by("gang", gang) if not store.doomed(c)]
        if len(cliques) != expected:
            return None
        found: list[PodGroup] = []
        for clique in sorted(cliques, key=_name):
            group = self._pod_group(clique)
            if group is None:
                return None
            found.append(group)
        return found

    def _pod_group(self, clique: PodClique) -> PodGroup | None:
        doomed = self._workshop.caches.pods.store.doomed
        names = [pod.name for pod in self._selection.indexed(clique) if not doomed(pod)]
        if len(names) != clique.spec.replicas:
            return None
        references = [PodReference(name=name, namespace=clique.namespace) for name in sorted(names)]
        return PodGroup(name=clique.name, min_replicas=clique.spec.needed, pod_references=references)

    async def _create(self, pcs: PodCliqueSet, replica: int, groups: list[PodGroup]) -> None:
        spec: Body = {"podgroups": msgspec.to_builtins(groups)}
        if pcs.spec.template.priority_class_name:
            spec["priorityClassName"] = pcs.spec.template.priority_class_name
        metadata = self._workshop.metadata(pcs, naming.set_replica(pcs.name, replica), self.name, replica)
        gang = await self._workshop.writer.create(self._gangs, {"metadata": metadata, "spec": spec})
        await self._initialize(gang)

    async def _update(self, gang: PodGang, groups: list[PodGroup]) -> None:
        await self._workshop.writer.patch(self._gangs, gang, {"spec": {"podgroups": msgspec.to_builtins(groups)}})

    async def _initialize(self, gang: PodGang) -> None:
        """Report that the gang's pods all exist. Later phases are reported by a gang scheduler."""
        if gang.initialized:
            return
        wanted = PodGangStatus(
            phase=gang.status.phase or "Pending",
            conditions=[condition(gang.status.conditions, INITIALIZED, "True", "AllPodsCreated")],
        )
        current = self._gangs.store.get(gang.key)
        if current is not None and not current.initialized:
            await self._workshop.patch_status(self._gangs, current, msgspec.to_builtins(wanted))

    async def delete(self, pcs: PodCliqueSet) -> None:
        await self._workshop.delete_all(self._gangs, pcs, owners={pcs.uid})

    def left(self, pcs: PodCliqueSet) -> int:
        return len(self._gangs.owned_by(pcs))


def _name(clique: PodClique) -> str:
    return clique.name
