"""Content of a namespace: objects of all kinds, page by page, metadata only.

A namespace of a scale test may contain 100,000 objects: hundreds of megabytes, for the API server to encode and for
this process to hold. So this module requests one page at a time, without spec and status.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from typing import TypeVar

import msgspec

from .client import Client, Object
from .errors import Gone, NotFound
from .resources import Resource

T = TypeVar("T")

PAGE = 500
"""Objects per request; same as in kubectl and client-go's pager."""

_AT_A_TIME = 16

# An aggregated API without support for partial metadata sends whole objects.
_METADATA_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"


class _ListMeta(msgspec.Struct):
    continue_: str = msgspec.field(name="continue", default="")


class _Page(msgspec.Struct):
    metadata: _ListMeta
    items: list[msgspec.Raw] | None = None


_decode = msgspec.json.Decoder(_Page).decode


async def kinds(client: Client) -> list[Resource]:
    """Return every namespaced kind that can be listed and deleted; one version of each."""
    found: dict[str, Resource] = {}
    for resource in await client.resources(refresh=True):
        if resource.namespaced and {"list", "delete"} <= set(resource.verbs):
            found.setdefault(resource.qualified, resource)
    return list(found.values())


async def holds(client: Client, kind: Resource, namespace: str | None = None) -> bool:
    """Return whether an object of a kind exists in a namespace, or in any namespace."""
    body = await client.request("GET", kind.path(namespace), params={"limit": "1"}, accept=_METADATA_ONLY)
    return bool(_decode(body).items)


async def objects(client: Client, kind: Resource, namespace: str, shape: type[T]) -> AsyncIterator[list[T]]:
    """Yield the objects of a kind in a namespace, a page at a time; ``shape``: the fields to read of the metadata.

    All pages are of one resourceVersion, unless the caller takes more than five minutes for them: then that
    resourceVersion expires and the list starts again, so that an object may come twice.
    """
    decode = msgspec.json.Decoder(shape).decode
    params = {"limit": str(PAGE)}
    while True:
        try:
            page = _decode(await client.request("GET", kind.path(namespace), params=params, accept=_METADATA_ONLY))
        except Gone:
            if params.pop("continue", None) is None:
                raise
            continue
        yield [decode(item) for item in page.items or []]
        if not page.metadata.continue_:
            return
        params["continue"] = page.metadata.continue_


async def clear(client: Client, kind: Resource, namespace: str, *, grace_seconds: int | None = None) -> None:
    """Delete all objects of a kind in a namespace, a page at a time.

    Without a limit, one request would delete all objects one after another, and the API server would abort it after a
    minute (``--request-timeout``). ``grace_seconds``: 0 for pods whose kubelet is gone.
    """
    options: Object = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}
    if grace_seconds is not None:
        options["gracePeriodSeconds"] = grace_seconds
    body = msgspec.json.encode(options)
    params = {"limit": str(PAGE)}
    while True:
        try:
            answer = await client.request(
                "DELETE", kind.path(namespace), params=params, body=body, accept=_METADATA_ONLY
            )
        except Gone:
            if params.pop("continue", None) is None:
                raise
            continue
        page = _decode(answer)
        if not page.metadata.continue_:
            return
        params["continue"] = page.metadata.continue_


class _Named(msgspec.Struct, frozen=True):
    name: str


class _Found(msgspec.Struct, frozen=True):
    metadata: _Named


async def clear_singly(client: Client, kind: Resource, namespace: str, *, grace_seconds: int | None = None) -> None:
    """As `clear`, one request per object: for identities with the verb ``delete``, but not ``deletecollection``."""

    async def delete(names: Iterator[str]) -> None:
        for name in names:
            with contextlib.suppress(NotFound):
                await client.delete(kind, name, namespace, grace_seconds=grace_seconds)

    async for page in objects(client, kind, namespace, _Found):
        names = iter([found.metadata.name for found in page])
        await asyncio.gather(*(delete(names) for _ in range(_AT_A_TIME)))
