"""The status of a set, from its cliques and scaling groups."""

from __future__ import annotations

from .. import naming
from ..caches import Caches
from ..naming import SetHashes
from ..objects import PodClique, PodCliqueSet, ScalingGroup, SetStatus
from ..statuses import condition, last_errors
from .component import replica_of

AVAILABLE = "Available"


def wanted_status(
    pcs: PodCliqueSet, caches: Caches, hashes: SetHashes, generation: int, error: Exception | None
) -> SetStatus:
    """Return the status that follows from the children; ``generation`` is the one that has been processed."""
    cliques: dict[int, list[PodClique]] = {}
    for clique in caches.cliques.owned_by(pcs):
        cliques.setdefault(replica_of(clique), []).append(clique)
    groups: dict[int, list[ScalingGroup]] = {}
    for group in caches.groups.owned_by(pcs):
        groups.setdefault(replica_of(group), []).append(group)
    template = pcs.spec.template
    standalone, scaled = len(template.standalone), len(template.pod_clique_scaling_groups)
    present = available = updated = 0
    for replica in range(pcs.spec.replicas):
        of_cliques, of_groups = cliques.get(replica, []), groups.get(replica, [])
        if len(of_cliques) < standalone or len(of_groups) < scaled:
            continue
        present += 1
        available += all(c.available for c in of_cliques) and all(g.available for g in of_groups)
        updated += all(_clique_updated(c, hashes) for c in of_cliques) and all(map(_group_updated, of_groups))
    whole = available == pcs.spec.replicas
    reason = "AllReplicasAvailable" if whole else "ReplicasMissing"
    before = pcs.status
    return SetStatus(
        replicas=present,
        available_replicas=available,
        updated_replicas=updated,
        observed_generation=before.observed_generation if error else generation,
        current_generation_hash=hashes.generation,
        conditions=[condition(before.conditions, AVAILABLE, "True" if whole else "False", reason)],
        last_errors=last_errors(before.last_errors, error),
    )


def settled(pcs: PodCliqueSet, status: SetStatus) -> bool:
    """Return whether a status has reached the spec, so that no further change is expected."""
    return status.available_replicas == status.updated_replicas == status.replicas == pcs.spec.replicas


def urgent(pcs: PodCliqueSet, status: SetStatus) -> bool:
    """Return whether clients may wait for this change: a new generation, an error that appeared or disappeared."""
    before = pcs.status
    return before.observed_generation != status.observed_generation or before.last_errors != status.last_errors


def _clique_updated(clique: PodClique, hashes: SetHashes) -> bool:
    wanted = hashes.cliques.get(clique.metadata.labels.get(naming.TEMPLATE, ""))
    status = clique.status
    return status.current_pod_template_hash == wanted and status.updated_replicas >= clique.spec.replicas


def _group_updated(group: ScalingGroup) -> bool:
    return group.status.updated_replicas >= group.spec.replicas
