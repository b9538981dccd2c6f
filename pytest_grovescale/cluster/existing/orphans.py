"""Objects on a foreign cluster of a run whose machine is gone, and ``grovescale down NAME --context CONTEXT``.

The ledger is lost, so every kind is listed by the label of the cluster's name. Kinds without list permission are
reported, since they may have more.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import msgspec

from ...errors import ClusterError, UsageError
from ...kube.access import Access
from ...kube.client import Client, Object
from ...kube.errors import ApiError, Forbidden, NotFound
from ...kube.portal import Portal
from ...kube.resources import Resource
from .. import kwok, lease_lock, ledger, nodes, rbac, state
from ..definition import Existing
from ..lease_lock import Claim, Observer
from ..ledger import Made, Owner
from . import cleanup, context_policy
from .cleanup import Removal
from .discovery import is_held

_AT_A_TIME = 16
_LOOK_S = 1.0
_NODE_LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"

_LATE = ("CustomResourceDefinition", "Namespace")
"""Kinds that are removed after all others, the first one last."""

Say = Callable[[str], None]


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
    clusters = set()
    for kind in ("Node", "Namespace"):
        listing = await client.list(await client.resource(kind, "v1"), label_selector=ledger.CLUSTER_LABEL)
        clusters |= {str(item["metadata"]["labels"][ledger.CLUSTER_LABEL]) for item in listing.items}
    return sorted(clusters)


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
    ours = {right.resource + (f".{right.group}" if right.group else "") for right in rbac.rights() if _makes(right)}
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
        owner = Owner(cluster=left.cluster, ledger=str(Path(folder) / ledger.LEDGER))
        owner.note(_object(made) for made in left.made)
        return await cleanup.remove_objects(client, owner)


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


def _makes(right: rbac.Right) -> bool:
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
        order = await lease_lock.standing(client)
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
        if kwok.ANNOTATION in (metadata.get("annotations") or {}):
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


def clear(name: str, *, context: str, dry_run: bool, allowed_contexts: Sequence[str], say: Say, write: Say) -> int:
    """Write the list of objects labeled with cluster ``name`` at a context, and remove them; return 0.

    Raises UsageError for a context that is not allowed, a missing name, or the name of a cluster of this machine;
    ClusterError if the cluster is in use, permissions are missing, or an object cannot be removed.
    """
    access = context_policy.access(Existing(context=context), allowed=allowed_contexts)
    _check_not_here(name, access)
    with Portal() as portal:
        client = portal.client(access, user_agent="grovescale-cluster")
        left = portal.run(_look(client, name, context))
        for line in left.lines:
            write(line)
        for kind in left.unseen:
            say(f"not looked for, as we may not list them: {kind}")
        if not left.lines:
            say(f"nothing is left of a cluster {name} at context {context}")
        if dry_run or not left.lines:
            return 0
        return _report(portal.run(remove(client, left)), say)


async def _look(client: Client, name: str, context: str) -> Left:
    rbac.demand(await rbac.ask(client, rbac.rights()), identity=await rbac.identity(client))
    if not name:
        clusters = ", ".join(await names(client))
        raise UsageError(
            f"which one at context {context}? "
            + (f"There is something of: {clusters}" if clusters else "There is none"),
            next_step="Give its NAME, if it is no longer in use.",
        )
    left = await find(client, name)
    if left.lines and (who := await in_use(client, name)):
        raise refuse(name, who)
    return left


def _check_not_here(name: str, access: Access) -> None:
    """Raise UsageError for a cluster of this machine: its folder has more information than labels."""
    if not name:
        return
    facts = state.facts(state.directory(name))
    if facts is not None and facts.server == access.server:
        raise UsageError(f"cluster {name} is one of this machine", next_step=f"Use: grovescale down {name}")


def _report(removal: Removal, say: Say) -> int:
    say(f"removed: {', '.join(removal.removed) or 'nothing'}")
    for line in removal.kept:
        say(f"stays: {line}")
    if removal.stuck:
        raise ClusterError(
            "\n".join(["not everything goes:", *(f"  {line}" for line in removal.stuck)]),
            next_step="See what holds it, then the same command again.",
        )
    return 0
