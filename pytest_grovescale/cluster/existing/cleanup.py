"""Removes what a run put on a foreign cluster: ``python -m pytest_grovescale.cluster.existing.cleanup DIRECTORY``.

Runs at the end of a cluster and, after a kill, from the next start or ``grovescale down``. Exit code 0: all removed.

No search: labels identify namespaces and nodes, the ledger (``ledger.py``) lists all other objects. An object that is
not gone within a limit is reported with the reason and does not block the others. Another call removes the rest.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import sys
import time
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import msgspec

from ...errors import ClusterError, GrovescaleError
from ...kube import namespaces
from ...kube.client import Client, Object
from ...kube.errors import ApiError, Conflict, Forbidden, NotFound, ServerUnavailable
from ...kube.resources import Resource, UnknownResource
from .. import ledger, nodes, state
from ..ledger import Made, Owner

_NAMESPACE_S = 60.0
_NAMESPACE_AGAIN_S = 3.0
"""Minimum time for a namespace whose deletion began more than `_NAMESPACE_S` ago, s."""
_GONE_S = 30.0
_EVERY_S = 0.3
_TRIES = 5

_MANAGED = "grovescale.io/managed"
_CRD = "CustomResourceDefinition"

TIMEOUT_S = 600.0
"""Limit for the whole removal, s; steps that can hang have limits of their own."""

_ANSWER_S = 30.0
_ANSWER_AGAIN_S = 2.0
"""Time to wait for the API server if an earlier call got no answer, s; otherwise `_ANSWER_S`."""

_SILENT = "removal.silent"
"""Marker file in the cluster's folder: the API server did not answer the last time."""


class Removal(msgspec.Struct, kw_only=True):
    """Outcome of a removal, as text."""

    removed: list[str] = []
    kept: list[str] = []
    """Objects that others still use."""
    stuck: list[str] = []


async def remove_objects(client: Client, owner: Owner) -> Removal:
    """Remove namespaces, then noted objects in reverse order, then nodes; return what was removed and what was not."""
    removal = Removal()
    await _namespaces(client, owner, removal)
    for made in ledger.noted(owner):
        await _collect_errors(_noted(client, made, owner, removal), made.title, removal)
    await _collect_errors(_nodes(client, owner, removal), "nodes", removal)
    return removal


async def _collect_errors(work: Awaitable[None], what: str, removal: Removal) -> None:
    """Run one part of the removal; record its error instead of raising it, so that the others run too."""
    try:
        await work
    except ServerUnavailable:
        raise
    except GrovescaleError as error:
        removal.stuck.append(f"{what}: {error}")


# ---- namespaces


async def _namespaces(client: Client, owner: Owner, removal: Removal) -> None:
    listing = await client.list(await client.resource("Namespace", "v1"), label_selector=owner.selector)
    await asyncio.gather(
        *(
            _collect_errors(_namespace(client, item, removal), f"Namespace {item['metadata']['name']}", removal)
            for item in listing.items
        )
    )


async def _namespace(client: Client, item: Object, removal: Removal) -> None:
    metadata = item["metadata"]
    name = str(metadata["name"])
    await namespaces.delete(client, name, uid=metadata["uid"])
    await _kill_pods(client, name)
    await namespaces.remove_by_force(client, name, timeout_s=_patience(metadata))
    removal.removed.append(f"Namespace {name}")


def _patience(metadata: Object) -> float:
    since = metadata.get("deletionTimestamp")
    if not since:
        return _NAMESPACE_S
    age = (datetime.datetime.now(datetime.UTC) - datetime.datetime.fromisoformat(since)).total_seconds()
    return max(_NAMESPACE_AGAIN_S, _NAMESPACE_S - age)


async def _kill_pods(client: Client, namespace: str) -> None:
    """Delete the pods of a namespace without grace period: their kubelet is gone."""
    pods = await client.resource("Pod", "v1")
    try:
        await namespaces.clear(client, pods, namespace, grace_seconds=0)
    except Forbidden:
        # No preflight asks for deletecollection, since single deletions do as well. An identity without that permission
        # has no kwok of its own: another kwok ends these pods.
        with contextlib.suppress(Forbidden):
            await namespaces.clear_singly(client, pods, namespace, grace_seconds=0)


# ---- noted objects


async def _noted(client: Client, made: Made, owner: Owner, removal: Removal) -> None:
    """Remove one object if this cluster still owns it; if others own it too, remove only this cluster's label."""
    try:
        resource = await client.resource(made.kind, made.api_version)
    except UnknownResource:
        # Its CRD was removed, and the object with it.
        return
    namespace = made.namespace or None
    for _ in range(_TRIES):
        try:
            metadata = (await client.get(resource, made.name, namespace))["metadata"]
            labels = metadata.get("labels") or {}
            if owner.label not in labels:
                return
            if users := await _users(client, made, owner, labels, removal):
                await client.patch(resource, made.name, namespace, body=_disowned(metadata, owner))
                removal.kept.append(f"{made.title}: {users}")
                return
            await _delete(client, resource, made, metadata)
        except NotFound:
            return
        except Conflict:
            # Changed since it was read: by now, another cluster may use it too.
            continue
        removal.removed.append(made.title)
        return
    raise ClusterError(
        "changes all the time, so that it is never the one that we have looked at",
        next_step=f"See who writes it (kubectl get {made.kind} {made.name} -o yaml --show-managed-fields), then: "
        "grovescale down --all",
    )


async def _users(client: Client, made: Made, owner: Owner, labels: Object, removal: Removal) -> str:
    """Return the other users of an object, as text; empty: none."""
    if others := ledger.others(labels, owner):
        return f"cluster {', '.join(others)} uses it too"
    if made.kind != _CRD or not (held := await _custom_object(client, made)):
        return ""
    if removal.stuck:
        # The object may be our own: the next call decides.
        raise ClusterError(
            f"waits for what does not go; objects of it are left, as {held}",
            next_step="Once the rest is gone: grovescale down --all",
        )
    return f"there are objects of it that no test has made, as {held}"


async def _custom_object(client: Client, made: Made) -> str:
    """Return the name of one object of a CRD's kind, in any namespace; empty: none."""
    crd = (await client.get(await client.resource(made.kind, made.api_version), made.name))["spec"]
    version = next((version["name"] for version in crd["versions"] if version["served"]), "")
    path = f"/apis/{crd['group']}/{version}/{crd['names']['plural']}"
    try:
        answer = msgspec.json.decode(await client.request("GET", path, params={"limit": "1"}), type=dict[str, Any])
    except NotFound:
        return ""
    except Forbidden:
        # Deleting a CRD deletes all its objects: keep it if some may belong to others.
        return "may be, where we may not look"
    for item in answer.get("items") or []:
        metadata = item["metadata"]
        return "/".join(filter(None, (metadata.get("namespace"), metadata["name"])))
    return ""


def _disowned(metadata: Object, owner: Owner) -> Object:
    """Return the patch that removes this cluster's label from an object, with its last owner also ``_MANAGED``."""
    labels: dict[str, str | None] = {owner.label: None}
    if not ledger.others(metadata.get("labels") or {}, owner):
        labels[_MANAGED] = None
    return {"metadata": {"resourceVersion": metadata["resourceVersion"], "labels": labels}}


async def _delete(client: Client, resource: Resource, made: Made, metadata: Object) -> None:
    namespace = made.namespace or None
    if "deletionTimestamp" not in metadata:
        await client.delete(
            resource, made.name, namespace, uid=metadata["uid"], resource_version=metadata["resourceVersion"]
        )
    if made.kind == "Namespace":
        await _kill_pods(client, made.name)
        await namespaces.remove_by_force(client, made.name, timeout_s=_patience(metadata))
        return
    # By request, not by watch: the rights of a run do not include the watch of all kinds that it may create.
    deadline = time.monotonic() + _GONE_S
    while await client.exists(resource, made.name, namespace):
        if time.monotonic() > deadline:
            held = ", ".join(metadata.get("finalizers") or []) or "none"
            raise ClusterError(
                f"is still there {_GONE_S:g} s after its deletion (finalizers: {held})",
                next_step="Once their controller has removed these: grovescale down --all",
            )
        await asyncio.sleep(_EVERY_S)


# ---- nodes


async def _nodes(client: Client, owner: Owner, removal: Removal) -> None:
    count = await nodes.remove(client, owner.selector)
    if count:
        removal.removed.append(f"{count} nodes")


async def main(folder: Path) -> int:
    """Remove all objects that the cluster of a folder created; return 0 when none is left."""
    owner = ledger.of(folder)
    silent = folder / _SILENT
    async with Client(state.access(folder, "harness"), user_agent="grovescale-cluster") as client:
        deadline = time.monotonic() + (_ANSWER_AGAIN_S if silent.exists() else _ANSWER_S)
        while True:
            try:
                removal = await remove_objects(client, owner)
            except ServerUnavailable as error:
                # The API server may be restarting.
                if time.monotonic() > deadline:
                    silent.touch()
                    _print(f"the API server does not answer: {error.message}")
                    _print(f"should that cluster be no more, forget what was made there: rm -r {str(folder)!r}")
                    return 1
                await asyncio.sleep(1)
            except ApiError as error:
                _print(error.message)
                return 1
            else:
                return _report(removal)


def _report(removal: Removal) -> int:
    _print(f"removed: {', '.join(removal.removed) or 'nothing was left'}")
    for line in removal.kept:
        _print(f"stays: {line}")
    for line in removal.stuck:
        _print(f"does not go: {line}")
    return 1 if removal.stuck else 0


def _print(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(asyncio.run(main(Path(sys.argv[1]))))
