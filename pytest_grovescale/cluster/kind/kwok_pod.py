"""kwok as a pod of the cluster, with the same certificate and configuration as the process."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from ...errors import ClusterError
from ...kube.access import Access, to_kubeconfig
from ...kube.client import Client
from .. import kwok, nodes, versions
from ..definition import ClusterDefinition, Kind
from . import engine as engines
from .engine import Engine
from .real_nodes import TAINT

NAME = "kwok"

OWN = f"grovescale-kwok:{versions.KWOK}"
"""Name of an image that was built on this machine."""

PUBLISHED = f"registry.k8s.io/kwok/kwok:v{versions.KWOK}"

_FOLDER = "/etc/kwok"
_API_IN_NODE = "https://127.0.0.1:6443"
_METRICS_PORT = 10247
_NOBODY = 65534
_READY_S = 180.0
_NAMESPACE_CHARS = 63


def image(settings: Kind, engine: Engine) -> str:
    """Return kwok's image: the definition's, else one built on this machine, else the published one."""
    built = OWN if engines.has_image(engine, OWN) else PUBLISHED
    return settings.kwok_image or built


def namespace(cluster: str) -> str:
    """Return the namespace of a cluster's kwok: one per cluster, as several may share one kind cluster."""
    return re.sub(r"[^a-z0-9-]", "-", f"grovescale-kwok-{cluster}")[:_NAMESPACE_CHARS].rstrip("-")


def manifests(definition: ClusterDefinition, *, cluster: str, image: str, access: Access) -> Iterator[dict[str, Any]]:
    """Yield the objects to apply. ``access``: kwok's own, from outside the node.

    The pod uses the host network of the control plane's node: it needs neither CNI, nor Services, nor DNS.
    """
    place = namespace(cluster)
    metadata = {"name": NAME, "namespace": place, "labels": {"app": NAME}}
    inside = Access(
        server=_API_IN_NODE,
        ca_pem=access.ca_pem,
        client_cert_pem=access.client_cert_pem,
        client_key_pem=access.client_key_pem,
    )
    # The removal at the end finds it by this label, if the cluster stays.
    yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": place, "labels": nodes.labels(cluster)}}
    yield {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata,
        "stringData": {"kubeconfig": to_kubeconfig(inside, name=cluster), kwok.CONFIG: kwok.configuration(definition)},
    }
    yield {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata,
        "spec": _deployment(definition, cluster, image),
    }


def _deployment(definition: ClusterDefinition, cluster: str, image: str) -> dict[str, Any]:
    arguments = kwok.arguments(
        definition.kwok,
        kubeconfig=f"{_FOLDER}/kubeconfig",
        port=_METRICS_PORT,
        nodes=kwok.nodes_labelled(nodes.selector(cluster)),
    )
    container = {
        "name": NAME,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "args": arguments,
        # Its configuration is a relative path.
        "workingDir": _FOLDER,
        "volumeMounts": [{"name": "files", "mountPath": _FOLDER, "readOnly": True}],
        "securityContext": {"runAsUser": _NOBODY, "runAsNonRoot": True, "allowPrivilegeEscalation": False},
        "readinessProbe": {"httpGet": {"path": "/healthz", "port": _METRICS_PORT, "host": "127.0.0.1"}},
    }
    labels = {"app": NAME}
    pod = {
        "hostNetwork": True,
        "automountServiceAccountToken": False,
        "nodeSelector": {TAINT["key"]: ""},
        "tolerations": [{"operator": "Exists", **TAINT}],
        "containers": [container],
        "volumes": [{"name": "files", "secret": {"secretName": NAME}}],
    }
    return {
        "replicas": 1,
        "strategy": {"type": "Recreate"},
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": pod},
    }


async def wait_ready(client: Client, count: int, *, cluster: str) -> None:
    """Return when all nodes are Ready. Raises ClusterError with the reason why the pod is not running."""
    try:
        await nodes.wait_ready(client, count, timeout_s=_READY_S, selector=nodes.selector(cluster))
    except ClusterError as error:
        raise ClusterError(
            f"{error.message}; kwok's pod: {await _pod_trouble(client, namespace(cluster))}",
            next_step="Load its image into the engine, or name one that can be pulled: kind: {kwok_image: NAME}; or "
            "let kwok run on this machine: kind: {kwok: host}.",
        ) from error


async def _pod_trouble(client: Client, place: str) -> str:
    """Return the reason why kwok's pod is not running, as text."""
    pods = (await client.list(await client.resource("Pod", "v1"), place)).items
    if not pods:
        return "is not there"
    status = pods[0].get("status") or {}
    waiting = [
        container["state"]["waiting"]
        for container in status.get("containerStatuses") or []
        if "waiting" in (container.get("state") or {})
    ]
    told = [f"{state.get('reason', '')} {state.get('message', '')}".strip() for state in waiting]
    return "; ".join(told) or f"is {status.get('phase', 'unknown')}"
