"""What is put on a kind cluster: kwok as a pod, simulated nodes, and what keeps those apart from the real ones."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from ...errors import ClusterError
from ...kube.access import Access, to_kubeconfig
from ...kube.client import Client
from ...kube.errors import ApiError, Conflict
from .. import kwok, nodes, state, versions
from ..binaries import Binary
from ..definition import POOL_LABEL, ClusterDefinition, Kind
from . import container_engine, images
from .container_engine import Engine
from .provision import Ground

Progress = Callable[[str], None]

_START_S = 180.0
_LOAD_S = 120.0
_VERSION = re.compile(r"v?(\d+\.\d+\.\d+)")

NAME = "kwok"

OWN = f"grovescale-kwok:{versions.KWOK}"
"""Name of an image that was built on this machine."""

PUBLISHED = f"registry.k8s.io/kwok/kwok:v{versions.KWOK}"

_FOLDER = "/etc/kwok"
_API_IN_NODE = "https://127.0.0.1:6443"
_METRICS_PORT = 10247
_UNPRIVILEGED = 65534
_READY_S = 180.0
_NAMESPACE_CHARS = 63

TAINT = {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}
"""kubeadm's own, which kind takes off: the add-ons of a cluster tolerate it, and workloads do not."""

REAL = f"!{POOL_LABEL}"
"""Label selector of real nodes."""

_EVERY_S = 0.2
_ATTEMPTS = 10


class Bootstrapped(msgspec.Struct, frozen=True, kw_only=True):
    """Result of the bootstrap. Seconds count from the start of the cluster."""

    kubernetes: str
    """Version that the API server reports."""
    api_server_ready_s: float
    nodes_ready_s: float


class Bootstrap(msgspec.Struct, frozen=True, kw_only=True):
    """Input of the bootstrap."""

    name: str
    folder: Path
    definition: ClusterDefinition
    ground: Ground
    engine: Engine
    kwok: Binary | None
    """The host's binary; None: kwok runs as a pod."""
    kwok_access: Access
    kwok_port: int
    began: float
    """``time.monotonic`` at the start."""


async def populate(client: Client, setup: Bootstrap, progress: Progress) -> Bootstrapped:
    """Return once all simulated nodes are Ready. Raises ClusterError, PortTaken."""
    definition = setup.definition
    await until_usable(client, timeout_s=_START_S)
    kubernetes = await _version(client)
    ready_s = time.monotonic() - setup.began
    if setup.ground.made:
        await keep_daemons_on(client)
        await keep_workloads_off(client)
    await _start_kwok(client, setup, progress)
    await nodes.put(client, manifests(setup))
    progress(f"cluster {setup.name}: {definition.node_count} nodes created, waiting until they are Ready")
    if setup.kwok is not None:
        await kwok.wait_ready(client, setup.folder, definition.node_count, "host")
    else:
        await wait_ready(client, definition.node_count, cluster=setup.name)
    return Bootstrapped(kubernetes=kubernetes, api_server_ready_s=ready_s, nodes_ready_s=time.monotonic() - setup.began)


def prefixes(definition: ClusterDefinition, cluster: str, *, made: bool) -> dict[str, str]:
    """Return the name prefix of each pool's nodes: it contains the cluster's name if others use the cluster."""
    return {pool.prefix: pool.prefix for pool in definition.nodes} if made else nodes.prefixed(definition, cluster)


def manifests(setup: Bootstrap) -> list[dict[str, Any]]:
    """Return the simulated nodes, without the annotation by which another kwok in the cluster would take them on."""
    begin = prefixes(setup.definition, setup.name, made=setup.ground.made)
    simulated = nodes.manifests(setup.definition, cluster=setup.name, prefixes=begin)
    return [kwok.annotated(manifest, "host") for manifest in simulated]


async def _version(client: Client) -> str:
    version = msgspec.json.decode(await client.request("GET", "/version"), type=dict[str, Any])
    match = _VERSION.match(str(version.get("gitVersion", "")))
    if match is None:
        raise ClusterError(f"the API server reports no version: {version}", next_step="Check the node image.")
    return match[1]


async def _start_kwok(client: Client, setup: Bootstrap, progress: Progress) -> None:
    if setup.kwok is not None:
        kwok.start(setup.folder, setup.definition, setup.kwok, port=setup.kwok_port, whole_environment=False)
        return
    image = kwok_image(setup.definition.kind or Kind(), setup.engine)
    if container_engine.has_image(setup.engine, image):
        progress(f"cluster {setup.name}: loading {image} into the node")
        load(setup, image, progress)
    access = setup.kwok_access
    for manifest in kwok_manifests(setup.definition, cluster=setup.name, image=image, access=access):
        await client.apply(manifest)


def load(setup: Bootstrap, image: str, progress: Progress) -> None:
    """Load an image of the engine into the node."""
    archive = setup.folder / "image.tar"
    try:
        container_engine.call(setup.engine, "save", "--output", str(archive), image, timeout_s=_LOAD_S)
        images.load(
            archive,
            state.Container(engine=setup.engine.executable, name=setup.ground.container),
            kubernetes=setup.definition.kubernetes,
            given=setup.definition.binaries,
            progress=progress,
        )
    finally:
        archive.unlink(missing_ok=True)


def kwok_image(settings: Kind, engine: Engine) -> str:
    """Return kwok's image: the definition's, else one built on this machine, else the published one."""
    built = OWN if container_engine.has_image(engine, OWN) else PUBLISHED
    return settings.kwok_image or built


def kwok_namespace(cluster: str) -> str:
    """Return the namespace of a cluster's kwok: one per cluster, as several may share one kind cluster."""
    return re.sub(r"[^a-z0-9-]", "-", f"grovescale-kwok-{cluster}")[:_NAMESPACE_CHARS].rstrip("-")


def kwok_manifests(
    definition: ClusterDefinition, *, cluster: str, image: str, access: Access
) -> Iterator[dict[str, Any]]:
    """Yield the objects to apply. ``access``: kwok's own, from outside the node.

    The pod uses the host network of the control plane's node: it needs neither CNI, nor Services, nor DNS.
    """
    place = kwok_namespace(cluster)
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
        "stringData": {
            "kubeconfig": to_kubeconfig(inside, name=cluster),
            kwok.CONFIGURATION: kwok.configuration(definition),
        },
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
        "securityContext": {"runAsUser": _UNPRIVILEGED, "runAsNonRoot": True, "allowPrivilegeEscalation": False},
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
            f"{error.message}; kwok's pod: {await _pod_trouble(client, kwok_namespace(cluster))}",
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
    reasons = [f"{state.get('reason', '')} {state.get('message', '')}".strip() for state in waiting]
    return "; ".join(reasons) or f"is {status.get('phase', 'unknown')}"


class _Condition(msgspec.Struct, frozen=True):
    type: str
    status: str


class _Status(msgspec.Struct, frozen=True):
    conditions: list[_Condition] = []


class _Metadata(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    resource_version: str = ""


class _Spec(msgspec.Struct, frozen=True):
    taints: list[dict[str, Any]] = []


class _Node(msgspec.Struct, frozen=True):
    metadata: _Metadata
    spec: _Spec = _Spec()
    status: _Status = _Status()

    @property
    def ready(self) -> bool:
        return any(c.type == "Ready" and c.status == "True" for c in self.status.conditions)


class _Nodes(msgspec.Struct, frozen=True):
    items: list[_Node]


async def until_usable(client: Client, *, timeout_s: float) -> None:
    """Return when the API answers, a namespace has its ServiceAccount, and all real nodes are Ready.

    kind returns before that: the controllers may need a moment longer. Raises ClusterError with what is missing.
    """
    missing = "an answer of the API server"
    try:
        async with asyncio.timeout(timeout_s):
            while missing:
                await asyncio.sleep(_EVERY_S)
                missing = await _missing(client)
    except TimeoutError:
        raise ClusterError(
            f"the control plane is not ready after {timeout_s:.0f} s: {missing} is missing",
            next_step="A machine that is very busy may need a second try.",
        ) from None


async def _missing(client: Client) -> str:
    try:
        await client.request("GET", "/api/v1/namespaces/default/serviceaccounts/default", timeout=5.0)
        late = [node.metadata.name for node in await _real(client) if not node.ready]
    except ApiError as error:
        return f"ServiceAccount default ({error.message})"
    return f"node {', '.join(late)}" if late else ""


async def keep_workloads_off(client: Client) -> list[str]:
    """Taint all real nodes without a taint; return their names."""
    nodes = await _real(client)
    for node in nodes:
        await _taint(client, node)
    return [node.metadata.name for node in nodes]


async def _taint(client: Client, node: _Node) -> None:
    path = f"/api/v1/nodes/{node.metadata.name}"
    for attempt in range(_ATTEMPTS):
        if any(taint.get("key") == TAINT["key"] for taint in node.spec.taints):
            return
        # The patch replaces the whole list of taints: it requires the list to be unchanged since it was read.
        body = {
            "metadata": {"resourceVersion": node.metadata.resource_version},
            "spec": {"taints": [*node.spec.taints, TAINT]},
        }
        try:
            await client.request(
                "PATCH", path, body=msgspec.json.encode(body), content_type="application/merge-patch+json"
            )
        except Conflict:
            if attempt == _ATTEMPTS - 1:
                raise
            node = msgspec.json.decode(await client.request("GET", path), type=_Node)
        else:
            return


async def keep_daemons_on(client: Client) -> list[str]:
    """Restrict the DaemonSets of kube-system (kube-proxy, CNI) to real nodes; return their names.

    They tolerate every taint, and would put two pods on each simulated node.
    """
    resource = await client.resource("DaemonSet", "apps/v1")
    names = [str(item["metadata"]["name"]) for item in (await client.list(resource, "kube-system")).items]
    terms = [{"matchExpressions": [{"key": POOL_LABEL, "operator": "DoesNotExist"}]}]
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    for name in names:
        await client.patch(resource, name, "kube-system", body={"spec": {"template": {"spec": {"affinity": affinity}}}})
    return names


async def _real(client: Client) -> list[_Node]:
    answer = await client.request("GET", "/api/v1/nodes", params={"labelSelector": REAL, "limit": "500"})
    return msgspec.json.decode(answer, type=_Nodes).items
