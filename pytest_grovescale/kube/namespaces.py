"""Namespaces and their content: listed, deleted, freed of finalizers; and the end of a namespace, by watch.

A namespace of a scale test may contain 100,000 objects: hundreds of megabytes, for the API server to encode and for
this process to hold. So this module requests one page at a time, without spec and status.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import TypeVar

import msgspec

from ..errors import ClusterError
from .client import Client, Object, in_parallel
from .errors import Conflict, Forbidden, Gone, NotFound
from .informer import Followed, described, follow, shortened
from .resources import Resource

T = TypeVar("T")

PAGE = 500
"""Objects per request; same as in kubectl and client-go's pager."""

_NAMESPACES = Resource(group="", version="v1", plural="namespaces", kind="Namespace", namespaced=False)
_PATIENCE_S = 3.0
"""Time without a change before `remove_by_force` removes finalizers, s (pods wait for their simulated kubelet)."""

_NOT_OURS = (Forbidden, NotFound)
"""Errors for a kind that this identity may not change, which the namespace controller handles; or whose CRD is gone."""

# An aggregated API without support for partial metadata sends whole objects.
_METADATA_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"


class _ListMeta(msgspec.Struct):
    continue_: str = msgspec.field(name="continue", default="")


class _Page(msgspec.Struct):
    metadata: _ListMeta
    items: list[msgspec.Raw] | None = None


_decode = msgspec.json.Decoder(_Page).decode


async def kinds(client: Client, *, cluster_scoped: bool = False) -> list[Resource]:
    """Return every namespaced kind that can be listed and deleted; one version of each.

    ``cluster_scoped``: those of no namespace, too.
    """
    found: dict[str, Resource] = {}
    for resource in await client.resources(refresh=True):
        if (resource.namespaced or cluster_scoped) and {"list", "delete"} <= set(resource.verbs):
            found.setdefault(resource.qualified, resource)
    return list(found.values())


async def holds(client: Client, kind: Resource, namespace: str | None = None) -> bool:
    """Return whether an object of a kind exists in a namespace, or in any namespace."""
    body = await client.request("GET", kind.path(namespace), params={"limit": "1"}, accept=_METADATA_ONLY)
    return bool(_decode(body).items)


async def objects(client: Client, kind: Resource, namespace: str | None, shape: type[T]) -> AsyncIterator[list[T]]:
    """Yield the objects of a kind in a namespace, or in all (None), a page at a time.

    ``shape``: the fields to read of the metadata. All pages are of one resourceVersion, unless the caller takes more
    than five minutes for them: then that resourceVersion expires and the list starts again, so that an object may come
    twice.
    """
    decode = msgspec.json.Decoder(shape).decode
    async for page in _pages(client, "GET", kind, namespace):
        yield [decode(item) for item in page.items or []]


async def clear(client: Client, kind: Resource, namespace: str, *, grace_seconds: int | None = None) -> None:
    """Delete all objects of a kind in a namespace, a page at a time.

    Without a limit, one request would delete all objects one after another, and the API server would abort it after a
    minute (``--request-timeout``). ``grace_seconds``: 0 for pods whose kubelet is gone.
    """
    options: Object = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}
    if grace_seconds is not None:
        options["gracePeriodSeconds"] = grace_seconds
    async for _ in _pages(client, "DELETE", kind, namespace, body=msgspec.json.encode(options)):
        pass


async def _pages(
    client: Client, method: str, kind: Resource, namespace: str | None, *, body: bytes | None = None
) -> AsyncIterator[_Page]:
    """Yield a collection's pages, one request each; from the first again when the resourceVersion has expired."""
    params = {"limit": str(PAGE)}
    while True:
        try:
            answer = await client.request(method, kind.path(namespace), params=params, body=body, accept=_METADATA_ONLY)
        except Gone:
            if params.pop("continue", None) is None:
                raise
            continue
        page = _decode(answer)
        yield page
        if not page.metadata.continue_:
            return
        params["continue"] = page.metadata.continue_


async def clear_singly(client: Client, kind: Resource, namespace: str, *, grace_seconds: int | None = None) -> None:
    """As `clear`, one request per object: for identities with the verb ``delete``, but not ``deletecollection``."""

    async def delete(found: Followed) -> None:
        with contextlib.suppress(NotFound):
            await client.delete(kind, found.metadata.name, namespace, grace_seconds=grace_seconds)

    async for page in objects(client, kind, namespace, Followed):
        await in_parallel(page, delete)


async def held_kinds(client: Client, namespace: str) -> list[Resource]:
    """Return every kind with objects in a namespace, as far as permissions allow."""
    held: list[Resource] = []

    async def look(kind: Resource) -> None:
        with contextlib.suppress(*_NOT_OURS):
            if await holds(client, kind, namespace):
                held.append(kind)

    await in_parallel(await kinds(client), look)
    return held


async def empty(client: Client, namespace: str) -> list[Resource]:
    """Request the deletion of all objects in a namespace, and return their kinds.

    Faster than the namespace controller, which waits 5 s before it begins.
    """
    held = await held_kinds(client, namespace)
    for kind in held:
        if "deletecollection" in kind.verbs:
            with contextlib.suppress(*_NOT_OURS):
                await clear(client, kind, namespace)
    return held


async def delete(client: Client, namespace: str, *, uid: str = "") -> None:
    """Request the deletion of a namespace, which may be gone, or being deleted already."""
    with contextlib.suppress(NotFound, Conflict):
        await client.delete(_NAMESPACES, namespace, uid=uid)


async def finalize(client: Client, namespace: str) -> None:
    """Do the namespace controller's work in a namespace that is being deleted, if nothing in it has to be waited for.

    For clusters with one API server: with several, another one may not know yet that the namespace accepts no new
    objects.
    """
    for kind in await empty(client, namespace):
        if await holds(client, kind, namespace):
            # It has finalizers, or a grace period.
            return
    # Errors: the namespace controller was faster, or only it has the permission.
    with contextlib.suppress(NotFound, Conflict, Forbidden):
        found = await client.get(_NAMESPACES, namespace)
        found["spec"] = {"finalizers": []}
        path = _NAMESPACES.path(name=namespace, subresource="finalize")
        await client.request("PUT", path, body=msgspec.json.encode(found))


async def is_gone(client: Client, namespace: str, *, patience_s: float) -> bool:
    """Return True when a namespace is gone; False after ``patience_s`` seconds without a change of it.

    Its status contains the number of remaining objects: a large namespace may take as long as that decreases.
    """
    changes = follow(client, _NAMESPACES, field_selector=f"metadata.name={namespace}")
    live = False
    async with aclosing(changes) as watched:
        while True:
            try:
                change = await asyncio.wait_for(anext(watched), patience_s)
            except TimeoutError:
                return False
            live = live or change.kind == "live"
            if live and not change.present:
                return True


async def free(client: Client, namespace: str) -> list[str]:
    """Remove the finalizers of all objects in a namespace; return a line for each object that had some."""
    freed: list[str] = []
    for kind in await held_kinds(client, namespace):

        async def free_one(found: Followed, kind: Resource = kind) -> None:
            freed.append(described(kind.kind, found))
            with contextlib.suppress(NotFound):
                await client.patch(kind, found.metadata.name, namespace, body={"metadata": {"finalizers": None}})

        with contextlib.suppress(*_NOT_OURS):
            async for page in objects(client, kind, namespace, Followed):
                await in_parallel((found for found in page if found.metadata.finalizers), free_one)
    return freed


async def holders(client: Client, namespace: str) -> list[str]:
    """Return what blocks a namespace's deletion, from its conditions and content; empty if it is gone."""
    try:
        found = await client.get(_NAMESPACES, namespace)
    except NotFound:
        return []
    conditions = found.get("status", {}).get("conditions", [])
    lines = [f"{c['type']}: {c.get('message', '')}" for c in conditions if c.get("status") == "True"]
    for kind in await held_kinds(client, namespace):
        async for page in objects(client, kind, namespace, Followed):
            lines += [described(kind.kind, item) for item in page]
    return lines or ["nothing is left in it: does the namespace controller (kube-controller-manager) run?"]


async def remove_by_force(client: Client, namespace: str, *, timeout_s: float) -> None:
    """Delete the content of a namespace that is being deleted, and return when it is gone.

    Removes the finalizers of what remains: the operator that would have done so is gone. Raises ClusterError, with the
    reason, if it still exists ``timeout_s`` seconds after the deletion of its content was requested: the time before
    that depends on the number of objects.
    """
    await empty(client, namespace)
    try:
        async with asyncio.timeout(timeout_s):
            while not await is_gone(client, namespace, patience_s=_PATIENCE_S):
                await free(client, namespace)
    except TimeoutError:
        raise ClusterError(
            f"namespace {namespace} does not go:\n{shortened(await holders(client, namespace))}",
            next_step=f"See: kubectl get namespace {namespace} -o yaml",
        ) from None
