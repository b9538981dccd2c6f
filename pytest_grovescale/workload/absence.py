"""Waits by watch until objects are gone, and reports what blocks those that stay."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import aclosing

import msgspec

from ..errors import WorkloadError
from ..kube.client import Client
from ..kube.informer import Followed, follow
from ..kube.resources import Resource
from ..operator.manifests import Object
from .actions import Pace, in_parallel, resources_of

_SHOWN = 10
_WATCHES = 20
"""Maximum number of open watches, each with a connection. The others wait without loss: all objects must be gone."""


class Collection(msgspec.Struct, frozen=True, kw_only=True):
    """Objects of one kind in one namespace, and the names of those whose absence is awaited."""

    resource: Resource
    namespace: str
    """Empty for a cluster-scoped kind."""
    names: frozenset[str]

    @property
    def field_selector(self) -> str:
        """Selects the one awaited object; empty for several."""
        return f"metadata.name={next(iter(self.names))}" if len(self.names) == 1 else ""


async def wait_gone(client: Client, objects: Sequence[Object], *, timeout: float) -> None:
    """Return when none of the objects exists any more. ``timeout`` in seconds, for all of them together.

    One watch for each kind and namespace; for a single object, and for each cluster-scoped one, a watch of only that
    object: the number of other objects of its kind is unknown. Raises WorkloadError with the remaining objects, their
    finalizers and whether their deletion was requested.
    """
    resources = await resources_of(client, objects)
    left: list[tuple[str, dict[str, Followed]]] = []

    async def wait(collection: Collection) -> None:
        found: dict[str, Followed] = {}
        left.append((collection.resource.kind, found))
        await _until_gone(client, collection, found)

    collections = watched(objects, resources)
    try:
        async with asyncio.timeout(timeout):
            await in_parallel(collections, wait, concurrency=_WATCHES, pace=Pace(None))
    except TimeoutError:
        lines = [account(kind, one) for kind, found in left for one in found.values()]
        raise WorkloadError(
            f"after {timeout:g} s there are still:\n" + shortened(lines),
            next_step="A finalizer is taken off by the controller that set it: is the operator running?",
        ) from None


def watched(objects: Sequence[Object], resources: Mapping[tuple[str, str], Resource]) -> list[Collection]:
    """Return the watches to open for objects; ``resources`` as of ``actions.resources_of``."""
    names: dict[tuple[Resource, str, str], set[str]] = {}
    for obj in objects:
        resource, metadata = resources[obj["apiVersion"], obj["kind"]], obj["metadata"]
        # Cluster-scoped objects have a watch each, by name.
        place = (metadata.get("namespace", ""), "") if resource.namespaced else ("", metadata["name"])
        names.setdefault((resource, *place), set()).add(metadata["name"])
    return [
        Collection(resource=resource, namespace=namespace, names=frozenset(those))
        for (resource, namespace, _), those in names.items()
    ]


async def _until_gone(client: Client, collection: Collection, left: dict[str, Followed]) -> None:
    """Return when no object of these names is in a collection; keeps remaining ones in ``left``, by uid."""
    follows = follow(
        client, collection.resource, collection.namespace or None, field_selector=collection.field_selector
    )
    live = False
    async with aclosing(follows) as changes:
        async for change in changes:
            if change.kind == "live":
                live = True
            elif change.object is not None and change.object.metadata.name in collection.names:
                uid = change.object.metadata.uid
                if change.kind == "gone":
                    left.pop(uid, None)
                else:
                    left[uid] = change.object
            if live and not left:
                return


def account(kind: str, found: Followed) -> str:
    """Return one line about a remaining object: ``Pod demo/a: being deleted, finalizers: x``."""
    metadata = found.metadata
    name = f"{metadata.namespace}/{metadata.name}" if metadata.namespace else metadata.name
    asked = metadata.deletion_timestamp
    state = f"deletion asked for at {asked}" if asked else "not being deleted"
    finalizers = f", finalizers: {', '.join(metadata.finalizers)}" if metadata.finalizers else ""
    return f"{kind} {name}: {state}{finalizers}"


def shortened(lines: list[str]) -> str:
    """Return the first lines, indented, and the number of further ones."""
    shown = [f"  {line}" for line in lines[:_SHOWN]]
    return "\n".join(shown + ([f"  and {len(lines) - _SHOWN} more"] if len(lines) > _SHOWN else []))
