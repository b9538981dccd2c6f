"""The pods of a clique: their contents, and which to create and delete."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from .. import naming, owned
from ..objects import Pod, PodClique, PodCliqueSet
from ..resources import PODCLIQUE


class PodPlan(msgspec.Struct, frozen=True):
    """The pods of a clique to create and to delete now."""

    create: list[int]
    """Index of each pod to create."""
    delete: list[Pod]


def plan(clique: PodClique, pods: Sequence[Pod], *, keep_finished: bool = False) -> PodPlan:
    """Return what brings the pods to the clique's replicas and template. ``pods`` holds no terminating ones.

    Finished pods are replaced. Pods of an older template are replaced one at a time, and only while all others are
    ready; those that are not ready are replaced at once, since they serve no traffic.
    ``keep_finished``: finished pods count as others do.
    """
    replicas = clique.spec.replicas
    finished = [p for p in pods if p.finished and not keep_finished]
    alive = [p for p in pods if p not in finished]
    outdated = [p for p in alive if is_outdated(clique, p)]
    delete = [p for p in outdated if not p.ready]
    if len(alive) > replicas:
        surplus = sorted(alive, key=lambda p: _worth(clique, p))[: len(alive) - replicas]
        delete = surplus + [p for p in delete if p not in surplus]
    elif outdated and not delete and len(alive) == replicas and all(p.ready for p in alive):
        delete = [min(outdated, key=pod_index)]
    kept = [p for p in alive if p not in delete]
    free = _free_indexes({pod_index(p) for p in kept}, replicas - len(kept))
    return PodPlan(create=free, delete=finished + delete)


def is_outdated(clique: PodClique, pod: Pod) -> bool:
    """Return whether a pod was created from an older template."""
    return pod.metadata.labels.get(naming.TEMPLATE_HASH) != clique.metadata.labels.get(naming.TEMPLATE_HASH)


def pod_index(pod: Pod) -> int:
    """Return the pod's index in its clique; -1 if its label was tampered with."""
    label = pod.metadata.labels.get(naming.POD_INDEX, "")
    return int(label) if label.isdecimal() else -1


def _worth(clique: PodClique, pod: Pod) -> tuple[bool, bool, bool, int]:
    """Return a sort key for pods: the least useful come first."""
    return (not is_outdated(clique, pod), pod.ready, pod.scheduled, -pod_index(pod))


def _free_indexes(used: set[int], count: int) -> list[int]:
    free: list[int] = []
    index = 0
    while len(free) < count:
        if index not in used:
            free.append(index)
        index += 1
    return free


def pod_body(clique: PodClique, pcs: PodCliqueSet, index: int) -> dict[str, Any]:
    """Return the pod of an index. It has the scheduling gate that holds it until its gang is complete."""
    spec = clique.spec.pod_spec
    additions: dict[str, Any] = {
        "schedulingGates": [{"name": naming.GATE}, *spec.get("schedulingGates", ())],
        "hostname": f"{clique.name}-{index}",
        "subdomain": clique.metadata.labels.get(naming.PODGANG, ""),
    }
    if "serviceAccountName" not in spec:
        additions["serviceAccountName"] = pcs.name
    if pcs.spec.template.priority_class_name and "priorityClassName" not in spec:
        additions["priorityClassName"] = pcs.spec.template.priority_class_name
    labels = {**clique.metadata.labels, naming.PODCLIQUE: clique.name, naming.POD_INDEX: str(index)}
    return {
        "metadata": {
            "generateName": f"{clique.name}-",
            "namespace": clique.namespace,
            "labels": labels,
            "annotations": {k: v for k, v in clique.metadata.annotations.items() if k != naming.TEMPLATE_REPLICAS},
            "ownerReferences": [owned.owner_reference(PODCLIQUE, clique)],
        },
        "spec": {**spec, **additions},
    }
