"""Deletes a replica of the set that has had too few ready pods for too long, so that it is recreated as a whole."""

from __future__ import annotations

from .. import naming, statuses
from ..objects import PodClique, PodCliqueSet
from ..podclique.status import BREACHED
from .component import Workshop, replica_of


class GangTermination:
    """Uses the cliques' condition MinAvailableBreached and the set's terminationDelay."""

    name = "podcliqueset-replica"

    def __init__(self, workshop: Workshop) -> None:
        self._workshop = workshop

    async def sync(self, pcs: PodCliqueSet) -> float | None:
        caches = self._workshop.caches
        delay = statuses.duration(pcs.spec.template.termination_delay)
        soonest: float | None = None
        due: set[int] = set()
        cliques = caches.cliques.store.by("part_of", pcs.key)
        for clique in cliques:
            since = self._breached_since(clique)
            if since is None:
                continue
            left = delay - statuses.age(since)
            if left <= 0:
                due.add(replica_of(clique))
            elif soonest is None or left < soonest:
                soonest = left
        if due:
            doomed = [clique for clique in cliques if replica_of(clique) in due]
            await self._workshop.delete_surplus(caches.cliques, doomed)
        return soonest

    def _breached_since(self, clique: PodClique) -> str | None:
        found = statuses.find(clique.status.conditions, BREACHED)
        if found is None or found.status != "True" or clique.terminating:
            return None
        group = clique.metadata.labels.get(naming.SCALING_GROUP)
        if group is not None:
            # A scaling group may lose replicas, as long as enough are left.
            owner = self._workshop.caches.groups.store.get(f"{clique.namespace}/{group}")
            if owner is not None and owner.available:
                return None
        return found.last_transition_time

    async def delete(self, pcs: PodCliqueSet) -> None:
        """Nothing to delete: the cliques belong to another component."""

    def left(self, pcs: PodCliqueSet) -> int:
        return 0
