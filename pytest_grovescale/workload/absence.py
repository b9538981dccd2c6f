"""Waiting until objects are gone: by watch, and with an account of what holds those that stay."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing

from ..errors import WorkloadError
from ..kube.client import Client
from ..kube.resources import Resource
from ..operator.following import Followed, follow
from ..operator.manifests import Object
from .actions import resources_of

_SHOWN = 10


async def wait_gone(client: Client, objects: Sequence[Object], *, timeout: float) -> None:
    """Return when none of the objects exists any more. ``timeout`` in seconds, for all of them together.

    One watch for each kind and namespace; of one object alone, a watch of just that one. Raises WorkloadError with
    the objects that are left, their finalizers and whether their deletion was asked for.
    """
    resources = await resources_of(client, objects)
    collections: dict[tuple[str, str, str], set[str]] = {}
    for obj in objects:
        metadata = obj["metadata"]
        key = (obj["apiVersion"], obj["kind"], metadata.get("namespace", ""))
        collections.setdefault(key, set()).add(metadata["name"])
    left: list[tuple[str, dict[str, Followed]]] = []
    try:
        async with asyncio.timeout(timeout), asyncio.TaskGroup() as group:
            for (api_version, kind, namespace), names in collections.items():
                found: dict[str, Followed] = {}
                left.append((kind, found))
                group.create_task(_until_gone(client, resources[api_version, kind], namespace, names, found))
    except TimeoutError:
        lines = [account(kind, one) for kind, found in left for one in found.values()]
        raise WorkloadError(
            f"after {timeout:g} s there are still:\n" + shortened(lines),
            next_step="A finalizer is taken off by the controller that set it: is the operator running?",
        ) from None


async def _until_gone(
    client: Client,
    resource: Resource,
    namespace: str,
    names: set[str],
    left: dict[str, Followed],
) -> None:
    """Return when no object of these names is in a collection; keeps those that are in ``left``, by uid."""
    selector = f"metadata.name={next(iter(names))}" if len(names) == 1 else ""
    live = False
    async with aclosing(follow(client, resource, namespace or None, field_selector=selector)) as changes:
        async for change in changes:
            if change.kind == "live":
                live = True
            elif change.object is not None and change.object.metadata.name in names:
                uid = change.object.metadata.uid
                if change.kind == "gone":
                    left.pop(uid, None)
                else:
                    left[uid] = change.object
            if live and not left:
                return


def account(kind: str, found: Followed) -> str:
    """Return one line on an object that is still there: ``Pod demo/a: being deleted, finalizers: x``."""
    metadata = found.metadata
    name = f"{metadata.namespace}/{metadata.name}" if metadata.namespace else metadata.name
    asked = metadata.deletion_timestamp
    state = f"deletion asked for at {asked}" if asked else "not being deleted"
    finalizers = f", finalizers: {', '.join(metadata.finalizers)}" if metadata.finalizers else ""
    return f"{kind} {name}: {state}{finalizers}"


def shortened(lines: list[str]) -> str:
    """Return the first lines, indented, and how many more there are."""
    shown = [f"  {line}" for line in lines[:_SHOWN]]
    return "\n".join(shown + ([f"  and {len(lines) - _SHOWN} more"] if len(lines) > _SHOWN else []))
