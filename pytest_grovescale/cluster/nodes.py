"""Simulated nodes: Node objects without a machine, created concurrently, Ready once kwok has taken them on."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from contextlib import aclosing
from pathlib import Path
from typing import Any

import msgspec
import yaml

from ..errors import ClusterError
from ..kube.client import Client, in_parallel
from ..kube.errors import AlreadyExists, NotFound, ServerUnavailable
from ..kube.informer import Followed, follow
from ..kube.resources import Resource
from .definition import POOL_LABEL, ClusterDefinition, NodePool
from .ledger import CLUSTER_LABEL

NODES = Resource(group="", version="v1", plural="nodes", kind="Node", namespaced=False)
_PATH = NODES.path()
_NOT_READY = "node.kubernetes.io/not-ready"
_ATTEMPTS = 25


class _Condition(msgspec.Struct, frozen=True):
    type: str
    status: str


class _Status(msgspec.Struct, frozen=True):
    conditions: list[_Condition] = []


class _Taint(msgspec.Struct, frozen=True):
    key: str


class _Spec(msgspec.Struct, frozen=True):
    taints: list[_Taint] = []


class _Node(Followed, frozen=True):
    spec: _Spec = _Spec()
    status: _Status = _Status()


def labels(cluster: str) -> dict[str, str]:
    """Return the labels that all simulated nodes of a cluster have, and no other nodes."""
    return {CLUSTER_LABEL: cluster}


def selector(cluster: str) -> str:
    """Return the label selector of a cluster's simulated nodes."""
    return f"{CLUSTER_LABEL}={cluster}"


def prefixed(definition: ClusterDefinition, cluster: str) -> dict[str, str]:
    """Return pool prefix → prefix with the cluster's name in front, so that node names of clusters never collide."""
    return {pool.prefix: f"{cluster}-{pool.prefix}" for pool in definition.nodes}


def manifests(
    definition: ClusterDefinition, *, cluster: str, prefixes: Mapping[str, str] = {}
) -> Iterator[dict[str, Any]]:
    """Yield every node of a cluster, pool by pool. ``prefixes``: name prefixes that differ from the pool's."""
    for pool in definition.nodes:
        template = yaml.safe_load(Path(pool.template).read_text(encoding="utf-8"))
        for number in range(pool.count):
            yield node(template, pool, number, cluster=cluster, prefix=prefixes.get(pool.prefix, ""))


def node(template: dict[str, Any], pool: NodePool, number: int, *, cluster: str, prefix: str = "") -> dict[str, Any]:
    """Return one node: the template with the pool's labels, taints and capacity over it."""
    name = f"{prefix or pool.prefix}-{number}"
    metadata, spec, status = (dict(template.get(part) or {}) for part in ("metadata", "spec", "status"))
    own = {"kubernetes.io/hostname": name, POOL_LABEL: pool.prefix, **pool.labels, **labels(cluster)}
    metadata |= {"name": name, "labels": {**(metadata.get("labels") or {}), **own}}
    if pool.taints:
        spec["taints"] = [*(spec.get("taints") or []), *msgspec.to_builtins(pool.taints)]
    capacity = {key: str(value) for key, value in {**(status.get("capacity") or {}), **pool.capacity}.items()}
    status |= {"capacity": capacity, "allocatable": {**(status.get("allocatable") or {}), **capacity}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec, "status": status}


async def create(
    client: Client, definition: ClusterDefinition, *, cluster: str, prefixes: Mapping[str, str] = {}
) -> None:
    """Create all nodes; existing ones stay unchanged."""
    await put(client, manifests(definition, cluster=cluster, prefixes=prefixes))


async def put(client: Client, some: Iterable[Mapping[str, Any]]) -> None:
    """Create nodes from their manifests, as ``create`` does."""
    await in_parallel((msgspec.json.encode(one) for one in some), lambda body: _create(client, body))


async def remove(client: Client, selector: str) -> int:
    """Delete the nodes of a label selector, and return their number."""
    listing = await client.list(NODES, label_selector=selector)
    await in_parallel((str(item["metadata"]["name"]) for item in listing.items), lambda name: _delete(client, name))
    return len(listing.items)


async def _delete(client: Client, name: str) -> None:
    try:
        await client.request("DELETE", f"{_PATH}/{name}")
    except NotFound:
        return


async def _create(client: Client, body: bytes) -> None:
    """Create a node. A request without an answer may have created it, so an existing node is a success."""
    for attempt in range(_ATTEMPTS):
        try:
            await client.request("POST", _PATH, body=body)
        except AlreadyExists:
            return
        except ServerUnavailable:
            # The API server has only just begun to answer.
            if attempt == _ATTEMPTS - 1:
                raise
            await asyncio.sleep(0.2)
        else:
            return


async def wait_ready(client: Client, count: int, *, timeout_s: float, selector: str = "") -> None:
    """Return when ``count`` of the nodes of a label selector are Ready.

    Raises ClusterError after ``timeout_s`` seconds, with the names of the missing ones.
    """
    ready: set[str] = set()
    seen: set[str] = set()
    try:
        async with (
            asyncio.timeout(timeout_s),
            aclosing(follow(client, NODES, label_selector=selector, shape=_Node)) as changes,
        ):
            while len(ready) < count:
                change = await anext(changes)
                if isinstance(change.object, _Node):
                    name = change.object.metadata.name
                    seen.add(name)
                    (ready.add if change.kind == "present" and _is_ready(change.object) else ready.discard)(name)
    except TimeoutError:
        late = ", ".join(sorted(seen - ready)[:5])
        raise ClusterError(
            f"{len(ready)} of {count} nodes are Ready after {timeout_s:.0f} s"
            + (f"; not Ready: {late}" if late else ""),
            next_step="See kwok's log; a Stage that sets Ready must be among the definition's stages.",
        ) from None


def _is_ready(node: _Node) -> bool:
    # A node-lifecycle controller, if it runs, removes this taint a moment later; until then no pod is scheduled there.
    tainted = any(taint.key == _NOT_READY for taint in node.spec.taints)
    return not tainted and any(c.type == "Ready" and c.status == "True" for c in node.status.conditions)
