"""A collection of objects, followed by watch until the caller knows enough, as that all are gone. Never by polling.

A watch that ends is resumed at its last resourceVersion; if that is too old, a new list replaces the missed events. The
recorder has an informer of its own, which logs every watch disconnect; this one serves set-up and clean-up.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Collection
from contextlib import aclosing
from typing import Any, Literal

import msgspec

from .client import Client
from .errors import BadRequest, Gone, Invalid, NotFound, ServerUnavailable
from .resources import Resource
from .watch import bookmark, stream

_RETRY_S = 0.2


class ObjectMeta(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    labels: dict[str, str] = {}
    finalizers: list[str] = []
    deletion_timestamp: str = ""


class Followed(msgspec.Struct, frozen=True):
    """The fields of an object that a caller waits for."""

    metadata: ObjectMeta
    status: Any = None


class Change(msgspec.Struct, frozen=True):
    """One event. ``live`` comes once, when ``present`` contains all existing objects."""

    kind: Literal["live", "present", "gone"]
    object: Followed | None
    present: dict[str, Followed]
    """uid → object; the same dict each time, kept up to date. Complete from ``live`` on."""


async def follow(
    client: Client,
    resource: Resource,
    namespace: str | None = None,
    *,
    label_selector: str = "",
    field_selector: str = "",
    shape: type[Followed] = Followed,
) -> AsyncGenerator[Change, None]:
    """Yield each change of a collection, starting with the existing objects; never ends.

    ``shape``: the fields to read, if more than `Followed`. Wrap it in ``contextlib.aclosing`` and set a time limit
    (``asyncio.timeout``): it waits for an API server that does not answer. Raises ApiError for errors that do not pass
    (Forbidden, NotFound of the collection).
    """
    state = _State(client, resource, namespace, label_selector, field_selector, shape)
    live = False
    while True:
        try:
            async with aclosing(state.events()) as events:
                async for change in events:
                    if change.kind != "live":
                        yield change
                    elif not live:
                        live = True
                        yield change
        except Gone:
            state.resource_version = ""
        except ServerUnavailable:
            await asyncio.sleep(_RETRY_S)
        except (Invalid, BadRequest):
            if not state.initial_events or state.resource_version:
                raise
            state.initial_events = False


class _State:
    """The store, and the resourceVersion to resume from."""

    def __init__(
        self,
        client: Client,
        resource: Resource,
        namespace: str | None,
        label_selector: str,
        field_selector: str,
        shape: type[Followed],
    ) -> None:
        self.client, self.resource, self.namespace = client, resource, namespace
        self.label_selector, self.field_selector = label_selector, field_selector
        self.shape = shape
        self.decode = msgspec.json.Decoder(shape).decode
        self.present: dict[str, Followed] = {}
        self.resource_version = ""
        self.initial_events = True

    async def events(self) -> AsyncGenerator[Change, None]:
        """Yield the events of one watch, after a list if one is needed."""
        fresh = not self.resource_version
        streamed = fresh and self.initial_events
        seen: set[str] = set()
        if fresh and not streamed:
            async for change in self._listed():
                yield change
        watch = stream(
            self.client,
            self.resource.path(self.namespace),
            resource_version=self.resource_version,
            initial_events=streamed,
            label_selector=self.label_selector,
            field_selector=self.field_selector,
        )
        async with aclosing(watch) as batches:
            async for together in batches:
                for event in together:
                    if event.type != "BOOKMARK":
                        found = self.decode(event.object)
                        seen.add(found.metadata.uid)
                        # Initial events come in any order: only after them is a resourceVersion safe to resume from.
                        if not streamed:
                            self.resource_version = found.metadata.resource_version
                        yield self._applied(found, gone=event.type == "DELETED")
                        continue
                    mark = bookmark(event)
                    if streamed and mark.initial_events_end:
                        streamed = False
                        for change in self._missing(seen):
                            yield change
                        yield Change("live", None, self.present)
                    if not streamed:
                        self.resource_version = mark.resource_version

    async def _listed(self) -> AsyncGenerator[Change, None]:
        listing = await self.client.list(
            self.resource, self.namespace, label_selector=self.label_selector, field_selector=self.field_selector
        )
        found = [msgspec.convert(item, self.shape) for item in listing.items]
        for item in found:
            yield self._applied(item, gone=False)
        for change in self._missing({item.metadata.uid for item in found}):
            yield change
        self.resource_version = listing.resource_version
        yield Change("live", None, self.present)

    def _applied(self, found: Followed, *, gone: bool) -> Change:
        if gone:
            self.present.pop(found.metadata.uid, None)
            return Change("gone", found, self.present)
        self.present[found.metadata.uid] = found
        return Change("present", found, self.present)

    def _missing(self, seen: set[str]) -> list[Change]:
        """Return a ``gone`` for each known object that is missing in a new list."""
        vanished = [self.present.pop(uid) for uid in list(self.present) if uid not in seen]
        return [Change("gone", found, self.present) for found in vanished]


class StillThere(Exception):
    """Objects that were still there at the end of a wait, as far as the API server has shown any."""

    def __init__(self, objects: list[Followed]) -> None:
        super().__init__(", ".join(found.metadata.name for found in objects))
        self.objects = objects


async def wait_gone(
    client: Client,
    resource: Resource,
    namespace: str | None = None,
    *,
    timeout_s: float,
    names: Collection[str] = (),
    uid: str = "",
    label_selector: str = "",
) -> None:
    """Return when no object of a collection exists any more: of these names, or of a selector.

    ``uid``: of one object; another one of its name does not count. Raises StillThere after ``timeout_s`` seconds.
    """
    single = f"metadata.name={next(iter(names))}" if len(names) == 1 else ""
    changes = follow(client, resource, namespace, label_selector=label_selector, field_selector=single)
    left: dict[str, Followed] = {}
    live = False
    try:
        async with asyncio.timeout(timeout_s), aclosing(changes) as watched:
            async for change in watched:
                live = live or change.kind == "live"
                found = change.object
                if found is not None and (not names or found.metadata.name in names):
                    if change.kind == "gone":
                        left.pop(found.metadata.uid, None)
                    else:
                        left[found.metadata.uid] = found
                if live and not (uid in left if uid else left):
                    return
    except TimeoutError:
        raise StillThere(list(left.values())) from None
    except NotFound:
        # Its kind is not served any more: with a CustomResourceDefinition all its objects go.
        return


_SHOWN = 10


def described(kind: str, found: Followed) -> str:
    """Return one line about a remaining object: ``Pod demo/a: deletion asked for at …, finalizers: x``."""
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
