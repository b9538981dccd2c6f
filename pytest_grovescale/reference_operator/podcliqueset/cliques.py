"""The third group: the PodCliques outside of scaling groups, and their rolling update."""

from __future__ import annotations

import asyncio
from functools import partial

import msgspec

from .. import naming
from ..defects import NO_DRIFT, NOOP_WRITES, SERIAL_FINALIZER, SLOW_DELETE
from ..objects import CliqueTemplate, PodClique, PodCliqueSet
from ..owned import Body, clique_body, clique_labels, clique_patch, pods_differ, starts_after
from .component import Workshop, replica_of

# The API server deletes a collection's objects one after another; this many at a time use its cores.
_POD_REQUESTS = 4


class _Found(msgspec.Struct):
    """An existing clique, compared with its desired state."""

    clique: PodClique
    wanted: Body
    template: CliqueTemplate
    outdated: bool
    """Whether an update would replace its pods."""
    patch: Body | None
    """The patch that updates it, pods included; None if it is up to date."""


class Cliques:
    """One PodClique per template and replica of the set."""

    name = "pcs-podclique"

    def __init__(self, workshop: Workshop) -> None:
        self._workshop = workshop
        self._cliques = workshop.caches.cliques
        self._bodies: dict[str, tuple[int, dict[tuple[int, str], Body]]] = {}
        self._compared: dict[str, dict[str, _Found]] = {}
        """By uid of the set and name of the clique: the last comparison, valid until either changes."""
        self._no_drift = NO_DRIFT in workshop.settings.defects
        self._noop_writes = NOOP_WRITES in workshop.settings.defects

    async def sync(self, pcs: PodCliqueSet) -> float | None:
        shop = self._workshop
        found: dict[int, list[_Found]] = {}
        missing: list[Body] = []
        templates = pcs.spec.template.standalone
        for replica in range(pcs.spec.replicas):
            for template in templates:
                wanted = self._wanted(pcs, template, replica)
                clique = shop.child(self._cliques, pcs, wanted["metadata"]["name"])
                if clique is None:
                    missing.append(wanted)
                elif not self._cliques.store.doomed(clique):
                    found.setdefault(replica, []).append(self._compare(pcs, clique, wanted, template))
        await shop.run(partial(shop.writer.create, self._cliques, body) for body in missing)
        await self._update(found)
        owned = self._cliques.owned_by(pcs)
        if len(owned) > pcs.spec.replicas * len(templates):
            await shop.delete_surplus(self._cliques, [c for c in owned if self._surplus(pcs, c)])
        return None

    def _wanted(self, pcs: PodCliqueSet, template: CliqueTemplate, replica: int) -> Body:
        """Return the desired clique; built once per generation of the set, since most reconciles only compare."""
        generation, bodies = self._bodies.get(pcs.uid, (-1, {}))
        if generation != pcs.metadata.generation:
            bodies = {}
            self._bodies[pcs.uid] = (pcs.metadata.generation, bodies)
        body = bodies.get((replica, template.name))
        if body is None:
            body = bodies[replica, template.name] = self._make(pcs, template, replica)
        return body

    def _compare(self, pcs: PodCliqueSet, clique: PodClique, wanted: Body, template: CliqueTemplate) -> _Found:
        """Compare a clique with its desired state, once per version of both: pod specs are long."""
        compared = self._compared.setdefault(pcs.uid, {})
        known = compared.get(clique.name)
        # Defect no-drift: what was as wanted once is taken to be so.
        changed = known is None or (known.clique is not clique and not (self._no_drift and known.patch is None))
        if known is None or changed or known.wanted is not wanted:
            outdated = pods_differ(clique, template, wanted["metadata"]["labels"])
            patch = clique_patch(clique, wanted, template, with_pods=True)
            known = compared[clique.name] = _Found(clique, wanted, template, outdated, patch)
        return known

    def _make(self, pcs: PodCliqueSet, template: CliqueTemplate, replica: int) -> Body:
        digest = self._workshop.hashes.of(pcs).cliques[template.name]
        return clique_body(
            naming.clique(pcs.name, replica, template.name),
            pcs.namespace,
            template,
            labels=clique_labels(pcs, template, replica, digest),
            after=[naming.clique(pcs.name, replica, name) for name in starts_after(pcs.spec.template, template)],
            owner=self._workshop.reference(pcs),
        )

    def _surplus(self, pcs: PodCliqueSet, clique: PodClique) -> bool:
        template = clique.metadata.labels.get(naming.TEMPLATE, "")
        return replica_of(clique) >= pcs.spec.replicas or template not in {t.name for t in pcs.spec.template.standalone}

    async def _update(self, found: dict[int, list[_Found]]) -> None:
        turn = _whose_turn(found)
        patches: list[tuple[PodClique, Body]] = []
        for replica, cliques in found.items():
            for item in cliques:
                with_pods = item.outdated and replica in turn
                body = item.patch
                if item.outdated and not with_pods:
                    body = clique_patch(item.clique, item.wanted, item.template, with_pods=False)
                if body is None and self._noop_writes:
                    # Defect noop-writes: writes what the clique already holds.
                    body = {"spec": {"roleName": item.clique.spec.role_name}}
                if body is not None:
                    patches.append((item.clique, body))
        shop = self._workshop
        await shop.run(partial(shop.writer.patch, self._cliques, clique, body) for clique, body in patches)

    async def delete(self, pcs: PodCliqueSet) -> None:
        """Delete the set's cliques and, at once instead of clique by clique, all of their pods.

        Both at the same time: deleted pods are not replaced, since the cliques of a set that is being deleted create
        none. Meanwhile the cliques leave their pods to this deletion.
        """
        self._bodies.pop(pcs.uid, None)
        self._compared.pop(pcs.uid, None)
        shop, caches = self._workshop, self._workshop.caches
        if SLOW_DELETE in shop.settings.defects:
            # Defect slow-delete: one clique after another, and repeats requests for accepted deletions.
            for clique in self._cliques.owned_by(pcs)[:1]:
                await shop.writer.delete(self._cliques, clique)
            return
        if SERIAL_FINALIZER in shop.settings.defects:
            # Defect serial-finalizer: the pods are left to their cliques.
            await shop.delete_all(self._cliques, pcs, owners={pcs.uid})
            return
        owners = {pcs.uid} | {group.uid for group in caches.groups.owned_by(pcs)}
        cliques = {c.uid for c in self._cliques.store.by("part_of", pcs.key) if (o := c.controller) and o.uid in owners}
        with shop.bulk_deletions.of(pcs.uid):
            await asyncio.gather(
                shop.delete_all(self._cliques, pcs, owners=owners),
                shop.delete_all(caches.pods, pcs, owners=cliques, requests=_POD_REQUESTS),
            )

    def left(self, pcs: PodCliqueSet) -> int:
        return len(self._cliques.owned_by(pcs))


def _whose_turn(found: dict[int, list[_Found]]) -> set[int]:
    """Return the replicas whose pods may be replaced now.

    Unavailable replicas all at once; of the others one at a time, the lowest first, and only while no other replica is
    being updated.
    """
    waiting = [r for r, cliques in found.items() if any(item.outdated for item in cliques)]
    if not waiting:
        return set()
    broken = {r for r in waiting if not all(item.clique.available for item in found[r])}
    moving = any(not _settled(item.clique) for r, cliques in found.items() if r not in waiting for item in cliques)
    whole = [r for r in waiting if r not in broken]
    return broken if moving or broken or not whole else {min(whole)}


def _settled(clique: PodClique) -> bool:
    status = clique.status
    return (
        clique.available
        and status.observed_generation == clique.metadata.generation
        and status.updated_replicas >= clique.spec.replicas
        and status.current_pod_template_hash == clique.metadata.labels.get(naming.TEMPLATE_HASH)
    )
