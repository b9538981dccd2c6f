"""The operator's Deployment: chosen from its manifests, and changed for this run."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from ...cluster.definition import POOL_LABEL
from ...errors import DefinitionError
from ..manifest_sources import Source
from ..manifests import Manifest, Object
from ..schema import Pod

API_VERSION = "apps/v1"


class Chosen(msgspec.Struct, frozen=True, kw_only=True):
    """The operator's Deployment, and its frequently used fields."""

    manifest: Manifest
    namespace: str
    name: str
    container: str
    service_account: str
    selector: str
    """Label selector of its pods, in the API's syntax."""
    replicas: int
    """Number of pods, by its manifest or its definition."""

    @property
    def title(self) -> str:
        return f"Deployment {self.namespace}/{self.name}"


class Changes(msgspec.Struct, frozen=True, kw_only=True):
    """Changes that a start makes to the operator's container and pods."""

    image: str = ""
    loaded: bool = False
    """Whether grovescale loaded the image into the cluster, so that no pull is needed."""
    arguments: Sequence[str] = ()
    env: Mapping[str, str] = {}
    replicas: int | None = None
    tolerations: Sequence[Object] = ()


def choose(found: Sequence[Manifest], pod: Pod, namespace: str, fail: Callable[[str, str], DefinitionError]) -> Chosen:
    """Return the Deployment that a definition selects. ``namespace``: of objects without one.

    Raises ``fail(field, problem)`` for an error in a field of ``pod:``.
    """
    deployments = [
        manifest
        for manifest in found
        if manifest.object["kind"] == "Deployment" and manifest.object["apiVersion"] == API_VERSION
    ]
    wanted_namespace, _, wanted = pod.deployment.rpartition("/")
    matching = [
        manifest
        for manifest in deployments
        if wanted in ("", manifest.object["metadata"].get("name"))
        and wanted_namespace in ("", _namespace(manifest.object, namespace))
    ]
    if len(matching) != 1:
        names = ", ".join(_title(manifest.object, namespace) for manifest in deployments) or "none"
        problem = "there is no such Deployment" if not matching else "more than one Deployment may be meant"
        raise fail("deployment", f"{problem}; in its manifests: {names}")
    return _chosen(matching[0], pod, namespace, fail)


def accounts_of_deployments(sources: Iterable[Source]) -> set[str]:
    """Return the names of the ServiceAccounts that Deployments run as."""
    templates = [
        ((one.object.get("spec") or {}).get("template") or {}).get("spec") or {}
        for source in sources
        for one in source.objects
        if one.object["kind"] == "Deployment"
    ]
    return {str(template["serviceAccountName"]) for template in templates if template.get("serviceAccountName")}


def _chosen(manifest: Manifest, pod: Pod, namespace: str, fail: Callable[[str, str], DefinitionError]) -> Chosen:
    obj = manifest.object
    try:
        spec = obj["spec"]
        template = spec["template"]["spec"]
        containers = [str(container["name"]) for container in template["containers"]]
        labels = {str(key): str(value) for key, value in spec["selector"]["matchLabels"].items()}
    except (KeyError, TypeError, AttributeError) as error:
        raise DefinitionError(f"{manifest.source}: this Deployment lacks what one needs: {error}") from None
    if spec["selector"].get("matchExpressions"):
        raise DefinitionError(
            f"{manifest.source}: spec.selector.matchExpressions: pods are found by matchLabels alone here",
            next_step="Write the selector with matchLabels.",
        )
    if pod.container and pod.container not in containers:
        raise fail("container", f"the Deployment has no container {pod.container!r}; it has: {', '.join(containers)}")
    if not pod.container and len(containers) > 1:
        raise fail("container", f"missing; the Deployment has several: {', '.join(containers)}")
    return Chosen(
        manifest=manifest,
        namespace=_namespace(obj, namespace),
        name=str(obj["metadata"]["name"]),
        container=pod.container or containers[0],
        service_account=str(template.get("serviceAccountName") or "default"),
        selector=",".join(f"{key}={value}" for key, value in sorted(labels.items())),
        replicas=int(spec.get("replicas", 1)),
    )


def port(chosen: Chosen, wanted: int | str) -> int | None:
    """Return the number of a port of the operator's container; None for an unknown name."""
    if isinstance(wanted, int):
        return wanted
    template = chosen.manifest.object["spec"]["template"]["spec"]
    for container in template["containers"]:
        for found in container.get("ports") or []:
            if container["name"] == chosen.container and found.get("name") == wanted:
                return int(found["containerPort"])
    return None


def changed(chosen: Chosen, changes: Changes) -> Object:
    """Return the Deployment to apply: in its namespace, and with an affinity that excludes simulated nodes."""
    obj = copy.deepcopy(chosen.manifest.object)
    obj["metadata"]["namespace"] = chosen.namespace
    if changes.replicas is not None:
        obj["spec"]["replicas"] = changes.replicas
    template = obj["spec"]["template"]["spec"]
    (container,) = [found for found in template["containers"] if found["name"] == chosen.container]
    if changes.image:
        container["image"] = changes.image
    if changes.loaded:
        # "Always" would contact a registry for an image that is already loaded.
        container["imagePullPolicy"] = "IfNotPresent"
    if changes.arguments:
        container["args"] = [*(container.get("args") or []), *changes.arguments]
    kept = [entry for entry in container.get("env") or [] if entry.get("name") not in changes.env]
    if changes.env:
        container["env"] = [*kept, *({"name": name, "value": value} for name, value in changes.env.items())]
    if changes.tolerations:
        template["tolerations"] = [*(template.get("tolerations") or []), *changes.tolerations]
    _keep_off_simulated_nodes(template)
    return obj


def _keep_off_simulated_nodes(template: Object) -> None:
    """Extend each term of the pod's required node affinity, since the terms are or-ed."""
    rule = {"key": POOL_LABEL, "operator": "DoesNotExist"}
    affinity = template.setdefault("affinity", {}).setdefault("nodeAffinity", {})
    required = affinity.setdefault("requiredDuringSchedulingIgnoredDuringExecution", {})
    terms = required.get("nodeSelectorTerms") or [{}]
    required["nodeSelectorTerms"] = [
        {**term, "matchExpressions": [*(term.get("matchExpressions") or []), rule]} for term in terms
    ]


def _namespace(obj: Mapping[str, Any], default: str) -> str:
    return str(obj["metadata"].get("namespace") or default)


def _title(obj: Mapping[str, Any], default: str) -> str:
    return f"{_namespace(obj, default)}/{obj['metadata'].get('name')}"
