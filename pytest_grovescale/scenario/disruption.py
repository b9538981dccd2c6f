"""What scenarios do to pods, nodes and children, as the harness: delete, evict, fail, lose, overwrite.

Nothing here waits for the operator: milestones do.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from ..cluster import nodes
from ..kube.client import Client, in_parallel
from ..kube.errors import Conflict, NotFound, TooManyRequests
from ..kube.resources import Resource

T = TypeVar("T")
Object = Mapping[str, Any]

_PODS = Resource(group="", version="v1", plural="pods", kind="Pod", namespaced=True)

_EVICT_AGAIN_S = 0.5
"""Pause before an eviction that a PodDisruptionBudget refuses is asked for again, s; `kubectl drain` takes 5."""


def chosen(some: Sequence[T], number: int, seed: int) -> list[T]:
    """Return so many of them, by seed: the same ones for the same order."""
    return random.Random(seed).sample(list(some), number)


async def pods(client: Client, namespace: str) -> list[Object]:
    """Return the pods of a namespace by name: those of one owner are neighbours, whatever their random endings."""
    listing = await client.list(_PODS, namespace)
    return sorted(listing.items, key=name)


async def delete_pods(client: Client, some: Iterable[Object]) -> None:
    """Delete pods, as a user does."""
    await in_parallel(some, lambda pod: client.delete(_PODS, name(pod), _namespace(pod)))


async def fail_pods(client: Client, some: Iterable[Object]) -> None:
    """Let pods end with phase Failed, as a kubelet does that evicts them for a full disk: for good, whatever their
    restartPolicy.

    https://kubernetes.io/docs/concepts/scheduling-eviction/node-pressure-eviction/
    """
    await _patch_status(client, some, {"phase": "Failed", "reason": "Evicted", **_ready("False", "PodFailed")})


async def set_ready(client: Client, some: Iterable[Object], *, ready: bool) -> None:
    """Let running pods be Ready, or not, as their readiness probes do."""
    status = _ready("True", "") if ready else _ready("False", "ContainersNotReady")
    await _patch_status(client, some, status)


async def overwrite(client: Client, kind: str, namespace: str, body: Object) -> None:
    """Merge-patch all objects of a kind."""
    resource = await client.resource(kind)
    listing = await client.list(resource, namespace)

    async def patch(obj: Object) -> None:
        await client.patch(resource, name(obj), namespace, body=body)

    await in_parallel(sorted(listing.items, key=name), patch)


# ---- nodes


async def nodes_of(client: Client, some: Iterable[Object], cluster: str) -> list[Object]:
    """Return the simulated nodes of a cluster that pods run on, by name."""
    used = {pod["spec"].get("nodeName") for pod in some}
    listing = await client.list(nodes.NODES, label_selector=nodes.selector(cluster))
    return sorted((node for node in listing.items if name(node) in used), key=name)


async def cordon(client: Client, some: Iterable[Object], *, cordoned: bool) -> None:
    """Let no further pod be bound to nodes; or let them again."""

    async def patch(node: Object) -> None:
        await client.patch(nodes.NODES, name(node), body={"spec": {"unschedulable": cordoned or None}})

    await in_parallel(some, patch)


async def evict(client: Client, some: Iterable[Object], refused: dict[str, str]) -> None:
    """Evict pods by the eviction API, as `kubectl drain` does: what a PodDisruptionBudget refuses is asked for again.

    ``refused`` then holds pod → why, for as long as that is so.
    https://kubernetes.io/docs/concepts/scheduling-eviction/api-eviction/
    """

    async def one(pod: Object) -> None:
        metadata = {"name": name(pod), "namespace": _namespace(pod)}
        body = msgspec.json.encode({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata})
        path = _PODS.path(_namespace(pod), name(pod), "eviction")
        while True:
            try:
                await client.request("POST", path, body=body)
            except NotFound:
                pass
            except TooManyRequests as error:
                refused[name(pod)] = error.message
                await asyncio.sleep(_EVICT_AGAIN_S)
                continue
            refused.pop(name(pod), None)
            return

    # Each at once: one that is refused for long must keep no other waiting.
    await asyncio.gather(*(one(pod) for pod in some))


async def lose(client: Client, lost: Iterable[Object], on_them: Iterable[Object]) -> None:
    """Lose nodes with what runs on them, as when machines end: their kubelets are silent, for good.

    What the control plane does then in five minutes happens here at once: pods are not Ready (node lifecycle
    controller), and asked to go (taint eviction). No kubelet is left to confirm that, so they stay, terminating.
    https://kubernetes.io/docs/concepts/architecture/nodes/#node-controller
    """
    on_them = list(on_them)
    # First, so that no simulated kubelet plays them any more.
    await in_parallel(lost, lambda node: client.delete(nodes.NODES, name(node)))
    await _patch_status(client, on_them, _ready("False", "NodeLost"))
    await delete_pods(client, on_them)


async def bring_back(client: Client, lost: Iterable[Object], on_them: Iterable[Object]) -> None:
    """Create lost nodes again, and end what was on them, as a kubelet does that is back: what it ended is gone.

    Without it, the pod garbage collector would, a minute after their nodes went.
    """

    async def end(pod: Object) -> None:
        # Gone, or another pod of its name is there.
        with contextlib.suppress(NotFound, Conflict):
            await client.delete(_PODS, name(pod), _namespace(pod), grace_seconds=0, uid=pod["metadata"]["uid"])

    await in_parallel(on_them, end)
    await nodes.put(client, map(_as_new, lost))


def _as_new(node: Object) -> dict[str, Any]:
    """Return a listed node as it is created: its name, labels, taints and size."""
    metadata = {key: node["metadata"][key] for key in ("name", "labels", "annotations") if key in node["metadata"]}
    capacity = {key: node["status"][key] for key in ("capacity", "allocatable", "nodeInfo") if key in node["status"]}
    # Taints of a node that is not Ready go with its return; those of its pool stay.
    taints = [one for one in node["spec"].get("taints", ()) if not one["key"].startswith("node.kubernetes.io/")]
    spec = {"taints": taints} if taints else {}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec, "status": capacity}


def name(obj: Object) -> str:
    """Return the name of an object."""
    return str(obj["metadata"]["name"])


def _namespace(obj: Object) -> str:
    return str(obj["metadata"]["namespace"])


def _ready(status: str, reason: str) -> dict[str, Any]:
    one = {"status": status, "reason": reason or None}
    return {"conditions": [{"type": kind, **one} for kind in ("Ready", "ContainersReady")]}


async def _patch_status(client: Client, some: Iterable[Object], status: Object) -> None:
    async def patch(pod: Object) -> None:
        # Strategic: conditions are merged by their type.
        body = {"status": status}
        await client.patch(_PODS, name(pod), _namespace(pod), body=body, kind="strategic", subresource="status")

    await in_parallel(some, patch)
