"""Orphaned objects on a shared cluster: left by a run whose machine and state folder are gone, found by label.

The ledger is lost, so every kind is listed by the label of the cluster's name. Kinds without list permission are
reported, since they may have more.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

import msgspec

from ...errors import ClusterError
from ...kube.client import Client, Object
from ...kube.errors import ApiError, Forbidden, NotFound
from ...kube.resources import Resource
from .. import nodes, ownership, rights, shared_turn
from ..ownership import Made, Owner
from ..turn_order import Claim, Observer
from . import kubelets, leavings
from .api_metrics import is_held
from .leavings import Removal

_AT_A_TIME = 16
_LOOK_S = 1.0
_NODE_LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"

_LATE = ("CustomResourceDefinition", "Namespace")
"""Kinds that are removed after all others, the first one last."""


class Left(msgspec.Struct, frozen=True, kw_only=True):
    """Objects of a lost cluster."""

    cluster: str
    nodes: list[str]
    namespaces: list[str]
    """Namespaces of its tests."""
    made: list[Made]
    """All other objects with its label, in an order in which they could have been created."""
    unseen: list[str]
    """Kinds that runs may create and that this identity cannot list."""

    @property
    def lines(self) -> list[str]:
        """Return one line of text for each object."""
        count = [f"{len(self.nodes)} nodes, as {self.nodes[0]}"] if self.nodes else []
        return [*count, *(f"Namespace {name}" for name in self.namespaces), *(made.title for made in self.made)]


async def names(client: Client) -> list[str]:
    """Return the names of all clusters with a node or test namespace, those in use included."""
    found = set()
    for kind in ("Node", "Namespace"):
        listing = await client.list(await client.resource(kind, "v1"), label_selector=ownership.CLUSTER_LABEL)
        found |= {str(item["metadata"]["labels"][ownership.CLUSTER_LABEL]) for item in listing.items}
    return sorted(found)


async def find(client: Client, cluster: str) -> Left:
    """Return all objects with the labels of a cluster's name."""
    owner = Owner(cluster=cluster, ledger="")
    kinds = {
        kind.qualified: kind
        for kind in reversed(await client.resources(refresh=True))
        if {"list", "delete"} <= set(kind.verbs)
    }
    gate = asyncio.Semaphore(_AT_A_TIME)
    answers = await asyncio.gather(*(_of_kind(client, kind, owner.label, gate) for kind in kinds.values()))
    asked = dict(zip(kinds, answers, strict=True))
    ours = {right.resource + (f".{right.group}" if right.group else "") for right in rights.rights() if _makes(right)}
    return Left(
        cluster=cluster,
        nodes=await _names(client, "Node", owner.selector),
        namespaces=await _names(client, "Namespace", owner.selector),
        made=sorted((made for answer in answers for made in answer or ()), key=_order),
        unseen=sorted(name for name, answer in asked.items() if answer is None and name in ours),
    )


async def in_use(client: Client, cluster: str) -> str:
    """Return who currently uses a cluster of that name, as text; empty: not in use.

    Evidence: renewed claims in the lock's Lease, and renewed leases of nodes that a kwok beside the tests simulates,
    since that kwok ends with the tests. If there is a claim, this takes as long as the claim is valid (30 s).
    """
    return await _claimed(client, cluster) or await _played(client, cluster)


async def remove(client: Client, left: Left) -> Removal:
    """Remove the objects; return which are gone, which are kept, and which could not be removed."""
    with tempfile.TemporaryDirectory() as folder:
        owner = Owner(cluster=left.cluster, ledger=str(Path(folder) / ownership.LEDGER))
        owner.note(_object(made) for made in left.made)
        return await leavings.remove(client, owner)


# ---- listing


async def _of_kind(client: Client, kind: Resource, label: str, gate: asyncio.Semaphore) -> list[Made] | None:
    """Return the objects of a kind that have a label; None without permission to list them."""
    async with gate:
        try:
            listing = await client.list(kind, label_selector=label)
        except ApiError:
            # Forbidden, or an aggregated API whose server is down.
            return None
    return [_made(kind, item) for item in listing.items]


def _made(kind: Resource, item: Object) -> Made:
    metadata = item["metadata"]
    return Made(
        api_version=kind.api_version, kind=kind.kind, name=metadata["name"], namespace=metadata.get("namespace") or ""
    )


def _object(made: Made) -> Object:
    metadata = {"name": made.name, "namespace": made.namespace}
    return {"apiVersion": made.api_version, "kind": made.kind, "metadata": metadata}


def _makes(right: rights.Right) -> bool:
    return right.verb == "create" and not right.subresource


def _order(made: Made) -> tuple[int, str]:
    return (_LATE.index(made.kind) if made.kind in _LATE else len(_LATE), made.title)


async def _names(client: Client, kind: str, selector: str) -> list[str]:
    listing = await client.list(await client.resource(kind, "v1"), label_selector=selector)
    return sorted(str(item["metadata"]["name"]) for item in listing.items)


# ---- use by others


async def _claimed(client: Client, cluster: str) -> str:
    observer = Observer()
    first: dict[str, str] = {}
    while True:
        order = await shared_turn.standing(client)
        claims = [claim for claim in order.claims if claim.cluster == cluster]
        given_up = observer.given_up(order, time.monotonic())
        if renewed := _renewed(claims, first):
            return f"{renewed.who} runs tests on it"
        if all(claim.id in given_up for claim in claims):
            return ""
        await asyncio.sleep(_LOOK_S)


def _renewed(claims: Iterable[Claim], first: dict[str, str]) -> Claim | None:
    """Return a claim that was renewed since it was first seen; ``first`` keeps the first values."""
    return next((claim for claim in claims if first.setdefault(claim.id, claim.renewed) != claim.renewed), None)


async def _played(client: Client, cluster: str) -> str:
    listing = await client.list(await client.resource("Node", "v1"), label_selector=nodes.selector(cluster))
    for item in listing.items:
        metadata = item["metadata"]
        if kubelets.ANNOTATION in (metadata.get("annotations") or {}):
            # A kwok in the cluster renews it, whether or not the tests still run.
            continue
        try:
            body = await client.request("GET", f"{_NODE_LEASES}/{metadata['name']}")
        except (NotFound, Forbidden):
            return ""
        return f"the kwok of its tests plays its node {metadata['name']}" if is_held(_spec(body)) else ""
    return ""


def _spec(body: bytes) -> Object:
    lease: Object = msgspec.json.decode(body, type=dict[str, object])
    spec: Object = lease["spec"]
    return spec


def refuse(cluster: str, who: str) -> ClusterError:
    """Return the error for a cluster that is in use."""
    return ClusterError(
        f"cluster {cluster} is in use: {who}; nothing was removed",
        next_step=f"Stop it where it runs: grovescale down {cluster}. If that machine has just gone, try again in two "
        "minutes: what it held has expired then.",
    )
