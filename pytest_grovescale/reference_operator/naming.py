"""Names, labels and hashes of the objects, as in the public API; a set's template is hashed once per generation."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from .objects import CliqueTemplate, PodCliqueSet

MANAGED_BY = "app.kubernetes.io/managed-by"
PART_OF = "app.kubernetes.io/part-of"
COMPONENT = "app.kubernetes.io/component"
PODCLIQUE = "grove.io/podclique"
PODGANG = "grove.io/podgang"
SCALING_GROUP = "grove.io/podcliquescalinggroup"
SCALING_GROUP_REPLICA = "grove.io/podcliquescalinggroup-replica-index"
REPLICA_INDEX = "grove.io/podcliqueset-replica-index"
POD_INDEX = "grove.io/podclique-pod-index"
TEMPLATE = "grove.io/podclique-template"
"""Name of the clique's template within its set."""
TEMPLATE_HASH = "grove.io/pod-template-hash"

MANAGER = "grove-operator"
MANAGED_SELECTOR = f"{MANAGED_BY}%3D{MANAGER}"
"""Label selector, escaped for a URL: all objects created by this operator."""

TRIGGER = "grove.io/reconcile-trigger"
"""Annotation of a PodCliqueSet: any new value reconciles it and its children once, whatever its value."""
KEPT_BY = "grove.io/kept-by"
HISTORY = "grove.io/history"
HEARTBEAT = "grove.io/heartbeat"
"""Annotation: when the operator last processed an object. Written by defect conflict-storm only."""
TEMPLATE_REPLICAS = "grove.io/template-replicas"
"""Annotation of a child that others can scale: the template's replicas when they were last applied. Only a template
that changed since overrides the replicas set by a user or an autoscaler."""

SET_FINALIZER = "grove.io/podcliqueset.grove.io"
CLIQUE_FINALIZER = "grove.io/podclique.grove.io"
SCALING_GROUP_FINALIZER = "grove.io/podcliquescalinggroup.grove.io"
GATE = "grove.io/podgang-pending-creation"


def set_replica(pcs: str, replica: int) -> str:
    """Return the name of a set replica's headless Service and of its PodGang."""
    return f"{pcs}-{replica}"


def clique(owner: str, replica: int, template: str) -> str:
    """Return the name of a PodClique; ``owner`` is a set or a scaling group."""
    return f"{owner}-{replica}-{template}"


def scaling_group(pcs: str, replica: int, template: str) -> str:
    return f"{pcs}-{replica}-{template}"


def token_secret(pcs: str) -> str:
    return f"{pcs}-token"


def labels(part_of: str, component: str) -> dict[str, str]:
    """Return the labels that every object of a set carries."""
    return {MANAGED_BY: MANAGER, PART_OF: part_of, COMPONENT: component}


def digest(value: Any) -> str:
    """Return a short hash of a JSON-like value, independent of key order."""
    return hashlib.sha256(msgspec.json.encode(value, order="deterministic")).hexdigest()[:12]


def pod_template_hash(template: CliqueTemplate, priority_class: str) -> str:
    """Return the hash of those parts of a clique's template that go into its pods."""
    return digest([template.labels, template.annotations, template.spec.pod_spec, priority_class])


class SetHashes(msgspec.Struct, frozen=True):
    """Hashes that distinguish the versions of a set's pods."""

    generation: str
    """Over all cliques."""
    cliques: dict[str, str]
    """Pod template hash by the name of the clique's template."""


class TemplateHashes:
    """Hashes by uid and generation of the set."""

    def __init__(self, salt: str = "", *, with_replicas: bool = False) -> None:
        """``salt``, ``with_replicas``: text, and number, that make the hashes others."""
        self._salt = salt
        self._with_replicas = with_replicas
        self._known: dict[str, tuple[int, SetHashes]] = {}

    def of(self, pcs: PodCliqueSet) -> SetHashes:
        known = self._known.get(pcs.uid)
        if known is None or known[0] != pcs.metadata.generation:
            salt = f"{self._salt}{pcs.spec.replicas}" if self._with_replicas else self._salt
            known = pcs.metadata.generation, compute(pcs, salt)
            self._known[pcs.uid] = known
        return known[1]

    def forget(self, uid: str) -> None:
        """Drop a deleted set."""
        self._known.pop(uid, None)


def compute(pcs: PodCliqueSet, salt: str = "") -> SetHashes:
    """Return the hashes of a set's template. They exclude replica counts: scaling is no update.

    ``salt``: text that makes them others.
    """
    template = pcs.spec.template
    cliques = {c.name: pod_template_hash(c, template.priority_class_name) + salt for c in template.cliques}
    return SetHashes(generation=digest(cliques), cliques=cliques)
