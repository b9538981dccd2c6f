"""The status of a clique, from its pods."""

from __future__ import annotations

from collections.abc import Sequence

from .. import naming
from ..naming import SetHashes
from ..objects import CliqueStatus, Condition, Pod, PodClique
from ..statuses import condition, find, last_errors
from .pods import is_outdated

BREACHED = "MinAvailableBreached"
SCHEDULED = "PodCliqueScheduled"


def urgent(clique: PodClique, status: CliqueStatus) -> bool:
    """Return whether others depend on this change: of availability, or an error that appeared or disappeared."""
    before, needed = clique.status, clique.spec.needed
    flipped = (before.ready_replicas >= needed) != (status.ready_replicas >= needed)
    return flipped or before.last_errors != status.last_errors


def gated(pod: Pod) -> bool:
    """Return whether the operator's own gate still holds a pod."""
    return any(gate.name == naming.GATE for gate in pod.spec.scheduling_gates)


def wanted_status(clique: PodClique, pods: Sequence[Pod], hashes: SetHashes, error: Exception | None) -> CliqueStatus:
    """Return the status that follows from the pods (without terminating ones)."""
    before = clique.status
    ready = sum(p.ready for p in pods)
    scheduled = sum(p.scheduled for p in pods)
    updated = sum(not is_outdated(clique, p) for p in pods)
    current = _follows(clique, hashes) and updated == len(pods) == clique.spec.replicas
    return CliqueStatus(
        replicas=len(pods),
        ready_replicas=ready,
        scheduled_replicas=scheduled,
        schedule_gated_replicas=sum(map(gated, pods)),
        updated_replicas=updated,
        observed_generation=clique.metadata.generation,
        selector=f"{naming.PODCLIQUE}={clique.name}",
        current_pod_template_hash=clique.metadata.labels.get(naming.TEMPLATE_HASH, ""),
        current_pod_clique_set_generation_hash=(
            hashes.generation if current else before.current_pod_clique_set_generation_hash
        ),
        conditions=[
            _breached(clique, ready, updating=updated < len(pods)),
            _scheduled(before.conditions, scheduled, clique.spec.needed),
        ],
        last_errors=last_errors(before.last_errors, error),
    )


def settled(clique: PodClique, status: CliqueStatus) -> bool:
    """Return whether a status has reached the spec, so that no further change is expected."""
    return status.ready_replicas == status.updated_replicas == status.replicas == clique.spec.replicas


def _follows(clique: PodClique, hashes: SetHashes) -> bool:
    """Return whether the clique already has the pod template that its set now wants."""
    labels = clique.metadata.labels
    return labels.get(naming.TEMPLATE_HASH) == hashes.cliques.get(labels.get(naming.TEMPLATE, ""))


def _breached(clique: PodClique, ready: int, *, updating: bool) -> Condition:
    before, kind = clique.status.conditions, BREACHED
    if ready >= clique.spec.needed:
        return condition(before, kind, "False", "SufficientReadyPods")
    if updating:
        return condition(before, kind, "Unknown", "UpdateInProgress")
    old = find(before, kind)
    if old is None or old.status == "Unknown":
        # Too few pods is a breach only for a clique that once had enough.
        return condition(before, kind, "Unknown", "NotYetAvailable")
    return condition(before, kind, "True", "InsufficientReadyPods")


def _scheduled(before: Sequence[Condition], scheduled: int, needed: int) -> Condition:
    if scheduled >= needed:
        return condition(before, SCHEDULED, "True", "SufficientScheduledPods")
    return condition(before, SCHEDULED, "False", "InsufficientScheduledPods")
