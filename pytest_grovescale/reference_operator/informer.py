"""Keeps a store up to date: one streaming list and watch, resumed after disconnects.

The API server closes watches in normal operation (slow readers, time limits, bursts); the stream is resumed at the last
resourceVersion seen. 410 Gone means that this version is no longer kept: after a new full list, the difference to the
store becomes ordinary events. Servers without ``sendInitialEvents`` are read by LIST, then WATCH.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from typing import Generic, TypeVar

import msgspec

from .api_client import ApiClient, ApiError, Status
from .counts import Counts
from .leaked import Leaked
from .objects import Object
from .resources import Resource
from .store import Store, version

log = logging.getLogger(__name__)
T = TypeVar("T", bound=Object)

_ERROR = b'{"type":"ERROR"'
_INITIAL_EVENTS_END = "k8s.io/initial-events-end"
_BACKOFF_FIRST_S, _BACKOFF_MAX_S = 0.05, 10.0
_PAGE = 500
WATCH_LASTS_S = (300, 600)
"""Range of the requested watch duration, s, as in client-go."""


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(name="continue", default="")


class _Event(msgspec.Struct, Generic[T]):
    type: str
    object: T


class _Page(msgspec.Struct, Generic[T]):
    metadata: _ListMeta
    items: list[T] | None = None


class _ErrorEvent(msgspec.Struct):
    object: Status


class Informer(Generic[T]):
    """One kind, all namespaces, optionally only objects that match a label selector (escaped for a URL)."""

    def __init__(
        self,
        api: ApiClient,
        resource: Resource,
        kind: type[T],
        store: Store[T],
        counts: Counts,
        *,
        selector: str = "",
        accept: str = "application/json",
        resumes: bool = True,
        lasts: tuple[int, int] = WATCH_LASTS_S,
        leaked: Leaked | None = None,
    ) -> None:
        """``lasts``: range of seconds after which the API server is asked to end each watch."""
        self._api = api
        self._resource = resource
        self._store = store
        self._counts = counts
        self._accept = accept
        self._resumes = resumes
        self._lasts = lasts
        self._leaked = leaked
        self._query = f"&labelSelector={selector}" if selector else ""
        self._decode_event: Callable[[bytes], _Event[T]] = msgspec.json.Decoder(_Event[kind]).decode  # type: ignore[valid-type]
        self._decode_page: Callable[[bytes], _Page[T]] = msgspec.json.Decoder(_Page[kind]).decode  # type: ignore[valid-type]
        self._version = ""
        self._streaming_lists = True
        self.synced = asyncio.Event()
        """Set once all objects that were there at the start are in the store."""

    async def run(self) -> None:
        """Watch until cancelled."""
        backoff = _BACKOFF_FIRST_S
        while True:
            try:
                if not self._version and not self._streaming_lists:
                    await self._list()
                await self._watch()
                backoff = _BACKOFF_FIRST_S
            except ApiError as error:
                if error.gone:
                    # Expired: the following list shows the missed changes.
                    self._version = ""
                elif error.code in (400, 422) and not self._version and self._streaming_lists:
                    self._streaming_lists = False
                    continue
                else:
                    log.warning("%s: watch failed: %s", self._resource.plural, error)
                await asyncio.sleep(backoff * random.uniform(0.5, 1.5))
                backoff = min(backoff * 2, _BACKOFF_MAX_S)
            self._counts.watch_cuts += 1
            if not self._resumes and self.synced.is_set():
                # Defect event-drop: all later events are lost.
                await asyncio.Event().wait()
            if self._version:
                self._counts.watch_resumes += 1

    async def _list(self) -> None:
        self._counts.lists += 1
        keys: set[str] = set()
        token = ""
        while True:
            more = f"&continue={token}" if token else ""
            path = f"{self._resource.collection()}?limit={_PAGE}{more}{self._query}"
            page = self._decode_page(await self._api.get(path, accept=_list_accept(self._accept)))
            for obj in page.items or []:
                keys.add(obj.key)
                self._store.upsert(obj)
            token = page.metadata.continue_
            if not token:
                break
        self._version = page.metadata.resource_version
        self._store.retain(keys, int(self._version))
        self.synced.set()

    async def _watch(self) -> None:
        self._counts.watch_starts += 1
        query = f"watch=true&allowWatchBookmarks=true&timeoutSeconds={random.randint(*self._lasts)}{self._query}"
        listing: set[str] | None = None
        if self._version:
            query += f"&resourceVersion={self._version}"
        else:
            query += "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion="
            listing = set()
            self._counts.lists += 1
        async for line in self._api.watch(f"{self._resource.collection()}?{query}", accept=self._accept):
            if line.startswith(_ERROR):
                # Recognised before it is decoded: an ERROR event holds a Status, not an object of the kind.
                status = msgspec.json.decode(line, type=_ErrorEvent).object
                raise ApiError(status.code, status.reason, status.message)
            event = self._decode_event(line)
            self._counts.watch_events += 1
            obj = event.object
            if self._leaked is not None and event.type != "BOOKMARK":
                # Defect leak: never removed.
                self._leaked.keep(self._resource.kind, obj.name, line)
            if event.type == "BOOKMARK":
                if listing is not None and _INITIAL_EVENTS_END in obj.metadata.annotations:
                    self._store.retain(listing, version(obj))
                    listing = None
                    self.synced.set()
            elif event.type == "DELETED":
                self._store.remove(obj)
            else:
                if listing is not None:
                    listing.add(obj.key)
                self._store.upsert(obj)
            if listing is None:
                # During initial events versions are unordered, and unsuitable for resuming.
                self._version = obj.metadata.resource_version


def _list_accept(accept: str) -> str:
    return accept.replace("as=PartialObjectMetadata;", "as=PartialObjectMetadataList;")
