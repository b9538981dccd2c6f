"""The contents that an owner writes into its children."""

from __future__ import annotations

from typing import Any

from . import naming
from .objects import (
    CliqueTemplate,
    Object,
    PodClique,
    PodCliqueSet,
    SetTemplate,
)
from .resources import Resource

Body = dict[str, Any]


def owner_reference(resource: Resource, owner: Object) -> Body:
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": owner.name,
        "uid": owner.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def metadata(name: str, namespace: str, labels: dict[str, str], owner: Body) -> Body:
    return {"name": name, "namespace": namespace, "labels": labels, "ownerReferences": [owner]}


def clique_labels(pcs: PodCliqueSet, template: CliqueTemplate, replica: int, template_hash: str) -> dict[str, str]:
    """Return the labels of a PodClique; its pods carry them too."""
    return {
        **template.labels,
        **naming.labels(pcs.name, "pcs-podclique"),
        naming.REPLICA_INDEX: str(replica),
        naming.PODGANG: naming.set_replica(pcs.name, replica),
        naming.TEMPLATE: template.name,
        naming.TEMPLATE_HASH: template_hash,
    }


def starts_after(template: SetTemplate, clique: CliqueTemplate) -> list[str]:
    """Return the names of the template's cliques that must be available before this one's pods may run."""
    if template.clique_startup_type == "CliqueStartupTypeExplicit":
        return clique.spec.starts_after
    if template.clique_startup_type == "CliqueStartupTypeInOrder":
        position = template.cliques.index(clique)
        return [template.cliques[position - 1].name] if position else []
    return []


def clique_body(
    name: str, namespace: str, template: CliqueTemplate, *, labels: dict[str, str], after: list[str], owner: Body
) -> Body:
    """Return a PodClique to create. It includes the finalizer, which saves a request."""
    spec = template.spec
    return {
        "metadata": {
            **metadata(name, namespace, labels, owner),
            "annotations": {**template.annotations, naming.TEMPLATE_REPLICAS: str(spec.replicas)},
            "finalizers": [naming.CLIQUE_FINALIZER],
        },
        "spec": {
            "roleName": spec.role_name,
            "replicas": spec.replicas,
            "minAvailable": spec.needed,
            "podSpec": spec.pod_spec,
            "startsAfter": after,
        },
    }


def pods_differ(clique: PodClique, template: CliqueTemplate, labels: dict[str, str]) -> bool:
    """Return whether updating a clique would replace its pods."""
    return (
        clique.metadata.labels.get(naming.TEMPLATE_HASH) != labels[naming.TEMPLATE_HASH]
        or clique.spec.pod_spec != template.spec.pod_spec
    )


def clique_patch(clique: PodClique, wanted: Body, template: CliqueTemplate, *, with_pods: bool) -> Body | None:
    """Return the merge patch that updates a clique; None if it is up to date.

    Replicas follow the template only when the template's have changed: in between, users and autoscalers may scale the
    clique. ``with_pods`` False leaves out changes that would replace its pods.
    """
    patch_metadata: Body = {}
    spec: Body = {}
    keep = () if with_pods else (naming.TEMPLATE_HASH,)
    labels = {k: v for k, v in wanted["metadata"]["labels"].items() if k not in keep}
    if not labels.items() <= clique.metadata.labels.items():
        patch_metadata["labels"] = labels
    annotations = wanted["metadata"]["annotations"]
    if not annotations.items() <= clique.metadata.annotations.items():
        patch_metadata["annotations"] = annotations
    replicas = clique.spec.replicas
    if clique.metadata.annotations.get(naming.TEMPLATE_REPLICAS) != str(template.spec.replicas):
        replicas = template.spec.replicas
    minimum = min(template.spec.needed, replicas) if template.spec.min_available is None else template.spec.needed
    if clique.spec.replicas != replicas:
        spec["replicas"] = replicas
    if clique.spec.min_available != minimum:
        spec["minAvailable"] = minimum
    if clique.spec.starts_after != wanted["spec"]["startsAfter"]:
        spec["startsAfter"] = wanted["spec"]["startsAfter"]
    if with_pods and clique.spec.pod_spec != template.spec.pod_spec:
        # A merge patch would keep keys that the template no longer has.
        spec["podSpec"] = {**dict.fromkeys(clique.spec.pod_spec), **_replaced(clique.spec.pod_spec, template)}
    if not patch_metadata and not spec:
        return None
    return {"metadata": patch_metadata, "spec": spec} if spec else {"metadata": patch_metadata}


def _replaced(old: Any, template: CliqueTemplate) -> Body:
    return {key: _without(old.get(key), value) for key, value in template.spec.pod_spec.items()}


def _without(old: Any, new: Any) -> Any:
    """Return ``new`` with a null for each key of ``old`` that it lacks, as a merge patch requires."""
    if not isinstance(old, dict) or not isinstance(new, dict):
        return new
    return {**dict.fromkeys(old), **{key: _without(old.get(key), value) for key, value in new.items()}}
