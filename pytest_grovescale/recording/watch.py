"""One watch of a recording: resumed after each disconnect, relisted on 410 Gone."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import aclosing
from typing import Any, Literal

import msgspec

from .. import redaction
from ..kube import errors
from ..kube.client import Client, selectors
from ..kube.watch import WatchEvent, bookmark, stream
from .conditions import WatchSpec, is_builtin
from .declared_fields import declared
from .object_cache import ObjectKey
from .object_changes import NO_FACTS, Comparer, Facts
from .object_versions import Fields, Version, decode, kind_of
from .record_writer import Ledger
from .records import OBJECTS, Declared, ObjectSeen, WatchCut, WatchGap, WatchLive, WatchOpened

_OUTAGE_NS = 1_000_000_000
"""Disconnects longer than this are journaled as a failure of the source while they last, ns."""

_GONE_NS = 60_000_000_000
"""Time for which an object that went is remembered, ns: the garbage collector takes seconds to delete what it owned,
and a recording of hours would remember millions."""

_PAGE = 500
_BACKOFF_S = (0.0, 0.05, 0.1, 0.2, 0.5, 1.0)
_REFUSED_BACKOFF_S = 5.0
_QUIET_S = 1.0

_CHANGES: dict[str, Literal["added", "modified", "deleted"]] = {
    "ADDED": "added",
    "MODIFIED": "modified",
    "DELETED": "deleted",
}


class _Seen(msgspec.Struct, frozen=True, gc=False):
    """The kept fields of one object."""

    name: str
    namespace: str
    uid: str
    resource_version: str
    fields: dict[str, Any]
    owner: str
    owner_kind: str
    owner_version: str
    controlled: bool
    finalizers: list[str]
    facts: Facts | None


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(name="continue", default="")


class _Page(msgspec.Struct):
    metadata: _ListMeta
    items: list[msgspec.Raw] | None = None


_decode_page = msgspec.json.Decoder(_Page).decode


class Watch:
    """One watch from its opening to the recorder's end; `run` is its task.

    ``live`` is set when the initial events are complete. ``refused`` holds the API's answer when the watch cannot be
    opened at all; then `run` has ended.
    """

    def __init__(self, watch: str, spec: WatchSpec, client: Client, ledger: Ledger) -> None:
        self.watch = watch
        self.spec = spec
        self.live = asyncio.Event()
        self.refused: errors.ApiError | None = None
        self.trouble: errors.ApiError | None = None
        """Why the latest attempt to open the stream failed; None while it is open."""
        self._client = client
        self._ledger = ledger
        self._fields = Fields(spec.fields)
        self._comparer: Comparer | None = None
        self._declared: Declared | None = None
        self._mode: Literal["stream", "list"] = "stream"
        self._opened = False
        self._version = ""
        self._known: dict[ObjectKey, _Seen] = {}
        self.gone: dict[str, int] = {}
        """UID → when it was seen to go, of the objects that went in the last `_GONE_NS`."""
        self._listing: dict[ObjectKey, _Seen] | None = {}
        """Objects of a list in progress; None when the list is complete."""
        self._direct = True
        """Whether that list is the first, so that its objects are journaled as they arrive."""
        self._gap: tuple[str, int] | None = None
        """Reason and last activity of a gap, until the list that closes it is complete; ``_cut`` likewise."""
        self._cut: tuple[str, int] | None = None
        self.changed_at = 0
        """When an object was last seen to change, recorder's clock."""
        self._sign = 0
        """When the stream was last active, recorder's clock."""
        self._tries = 0
        self._outage = False

    def compare(self) -> None:
        """Keep from here on how its objects change."""
        if self._comparer is None:
            self._comparer = Comparer(self.spec.resource)

    def holds(self, keys: Iterable[ObjectKey], *, unowned: bool = False) -> bool:
        """Return whether one of these objects exists; ``unowned``: without an owner with which it would go."""
        found = (self._known[key] for key in keys if key in self._known)
        return any(not (unowned and seen.owner) for seen in found)

    def owners(self, keys: Iterable[ObjectKey]) -> set[str]:
        """Return the UIDs of the owners of those of these objects that exist."""
        return {self._known[key].owner for key in keys if key in self._known}

    async def run(self) -> None:
        """Keep the watch open until cancelled, or refused before it was ever live."""
        while True:
            reason = "ended by the server"
            try:
                await self._once()
            except errors.Gone as error:
                self._lost(error.message)
                reason = error.message
            except (errors.Invalid, errors.BadRequest) as error:
                if self._listing is None or self._mode == "list":
                    if self._refuse(error):
                        return
                else:
                    # Before 1.32, or with its feature gate off, the server supports no initial events.
                    self._mode = "list"
                    continue
            except (errors.NotFound, errors.Forbidden, errors.Unauthorized) as error:
                if self._refuse(error):
                    return
                reason = error.message
            except (errors.ServerUnavailable, errors.TooManyRequests) as error:
                self.trouble = error
                reason = error.message
            except errors.ApiError as error:
                if self._refuse(error):
                    return
                reason = error.message
            self._ended(reason)
            await asyncio.sleep(self._backoff())

    # ---- one stream

    async def _once(self) -> None:
        """List if necessary, then follow one stream to its end."""
        if self._comparer is not None and not self._opened and not is_builtin(self.spec.resource):
            self._declared = await declared(self._client, self.spec.resource, self.spec.path)
            self._comparer.look_for(self._declared.status if self._declared is not None else ())
        if self._listing is not None:
            self._listing = {}
            self._direct = not self._known
            if self._mode == "list":
                await self._list()
        initial = self._listing is not None
        events = stream(
            self._client,
            self.spec.path,
            resource_version="" if initial else self._version,
            label_selector=self.spec.label_selector,
            field_selector=self.spec.field_selector,
            initial_events=initial,
        )
        async with aclosing(events):
            await self._follow(events)

    async def _follow(self, batches: AsyncIterator[list[WatchEvent]]) -> None:
        first = asyncio.ensure_future(_next(batches))
        try:
            await asyncio.wait({first}, timeout=_QUIET_S)
            if not first.done():
                # Silent for so long: the stream is open, or it would have failed by now.
                self._is_open()
            events = await first
        finally:
            first.cancel()
            # The generator cannot be closed while it runs.
            await asyncio.wait({first})
        if events is None:
            return
        self._is_open()
        for event in events:
            self._take(event)
        async for events in batches:
            for event in events:
                self._take(event)

    def _is_open(self) -> None:
        """Note that the stream answers, and how long it did not."""
        self.trouble = None
        self._outage = False
        if not self._opened:
            self._opened = True
            self._ledger.add(
                WatchOpened(
                    at=self._ledger.now(), watch=self.watch, spec=self.spec, mode=self._mode, declared=self._declared
                )
            )
        if self._cut is not None and self._listing is None:
            reason, since = self._cut
            at = self._ledger.now()
            version = self._version
            self._ledger.add(
                WatchCut(at=at, watch=self.watch, reason=reason, resource_version=version, length_ns=at - since)
            )
            self._cut = None

    def _take(self, event: WatchEvent) -> None:
        self._tries = 0
        if event.type == "BOOKMARK":
            said = bookmark(event)
            self._version = said.resource_version
            self._sign = self._ledger.now()
            if said.initial_events_end and self._listing is not None:
                self._list_complete()
            return
        seen = self._seen(event.object, gone=event.type == "DELETED")
        self._version = seen.resource_version
        if self._listing is None:
            self._emit(_CHANGES[event.type], seen)
        elif event.type == "DELETED":
            self._listing.pop((seen.namespace, seen.name), None)
            if self._comparer is not None:
                self._comparer.forget((seen.namespace, seen.name))
        else:
            self._listed(seen)

    def _seen(self, data: msgspec.Raw, *, gone: bool = False) -> _Seen:
        version = decode(data)
        metadata, parts = version.metadata, version.parts()
        known = self._comparer.known((metadata.namespace, metadata.name), metadata.uid) if self._comparer else None
        before, kept = (known.parts, known.fields) if known is not None else ({}, {})
        fields = self._fields.read(version, data, parts, before, kept)
        owner = version.owner()
        return _Seen(
            name=metadata.name,
            namespace=metadata.namespace,
            uid=metadata.uid,
            resource_version=metadata.resource_version,
            fields=fields,
            owner=owner.uid if owner is not None else "",
            owner_kind=kind_of(owner.kind, owner.api_version) if owner is not None else "",
            owner_version=owner.api_version.rpartition("/")[2] if owner is not None else "",
            controlled=any(one.controller for one in metadata.owner_references or ()),
            finalizers=metadata.finalizers or [],
            facts=None if gone else self._facts(version, data, parts, fields),
        )

    def _facts(
        self, version: Version, data: msgspec.Raw, parts: dict[str, bytes], fields: dict[str, Any]
    ) -> Facts | None:
        if self._comparer is None:
            return None
        was_full = self._comparer.full
        facts = self._comparer.facts(version, data, parts=parts, fields=fields, wall_s=time.time())
        if self._comparer.full and not was_full:
            message = f"there are too many {self.spec.resource}: how those change that came last, findings do not see"
            self._ledger.failed(OBJECTS, message)
        return facts

    # ---- lists

    async def _list(self) -> None:
        """LIST, for servers without initial events; paginated, so that no response is large."""
        params = {"limit": str(_PAGE)} | selectors(self.spec.label_selector, self.spec.field_selector)
        while True:
            page = _decode_page(await self._client.request("GET", self.spec.path, params=params))
            self._is_open()
            for item in page.items or []:
                self._listed(self._seen(item))
            if not page.metadata.continue_:
                break
            params["continue"] = page.metadata.continue_
        self._version = page.metadata.resource_version
        self._list_complete()

    def _listed(self, seen: _Seen) -> None:
        assert self._listing is not None  # callers look
        key = (seen.namespace, seen.name)
        self._listing[key] = seen
        if self._direct:
            self._emit("added", seen, initial=True)

    def _list_complete(self) -> None:
        """Process a complete list: journal the difference to the known objects as events."""
        assert self._listing is not None  # callers look
        listing, self._listing = self._listing, None
        if self._gap is not None:
            reason, since = self._gap
            at = self._ledger.now()
            self._ledger.add(WatchGap(at=at, watch=self.watch, reason=reason, length_ns=at - since))
            self._gap = self._cut = None
        for key, known in list(self._known.items()):
            # Another object of the same name: the first was deleted in between.
            if key not in listing or listing[key].uid != known.uid:
                self._emit("deleted", known, initial=True)
        for key, seen in listing.items():
            if key not in self._known:
                self._emit("added", seen, initial=True)
            elif self._known[key].resource_version != seen.resource_version:
                self._emit("modified", seen, initial=True)
        self._sign = self._ledger.now()
        self._ledger.add(
            WatchLive(at=self._sign, watch=self.watch, objects=len(self._known), resource_version=self._version)
        )
        self.live.set()

    def _emit(self, change: Literal["added", "modified", "deleted"], seen: _Seen, *, initial: bool = False) -> None:
        self._sign = self.changed_at = self._ledger.now()
        key = (seen.namespace, seen.name)
        before = self._known.pop(key, None)
        if before is not None and before.uid != seen.uid:
            before = None
        same_owner = before is not None and before.owner == seen.owner
        facts = seen.facts or NO_FACTS
        if change != "deleted":
            self._known[key] = seen
        else:
            self.gone[seen.uid] = self._sign
            while self._sign - self.gone[first := next(iter(self.gone))] > _GONE_NS:
                del self.gone[first]
            if self._comparer is not None:
                self._comparer.forget(key)
                facts = NO_FACTS
        self._ledger.add(
            ObjectSeen(
                at=self._sign,
                watch=self.watch,
                change=change,
                name=seen.name,
                namespace=seen.namespace,
                uid=seen.uid,
                resource_version=seen.resource_version,
                initial=initial,
                fields=seen.fields,
                # They hardly ever change: repeated, they would be a fifth of the journal.
                owner=None if same_owner else seen.owner,
                owner_kind="" if same_owner else seen.owner_kind,
                owner_version="" if same_owner else seen.owner_version,
                finalizers=None if before is not None and before.finalizers == seen.finalizers else seen.finalizers,
                controlled=None if before is not None and before.controlled == seen.controlled else seen.controlled,
                difference=facts.difference,
                numbers=facts.numbers,
                written=facts.written,
                coarse=facts.coarse,
                needs=facts.needs,
                dropped=facts.dropped,
                selects=facts.selects,
                selector=facts.selector,
                labels=facts.labels,
                exposed=facts.exposed,
            )
        )

    # ---- endings

    def _lost(self, reason: str) -> None:
        """Relist: the resourceVersion is gone."""
        self._listing = {}
        if self.live.is_set():
            since = self._cut[1] if self._cut else self._sign
            self._gap = self._gap or (redaction.text(reason), since)

    def _ended(self, reason: str) -> None:
        if not self.live.is_set():
            return
        self._cut = self._cut or (redaction.text(reason), self._sign)
        lasts = self._ledger.now() - self._cut[1]
        if self._tries and lasts > _OUTAGE_NS and not self._outage:
            self._outage = True
            self._ledger.failed(f"watch:{self.watch}", f"{self.spec.path}: {reason}; trying on")

    def _refuse(self, error: errors.ApiError) -> bool:
        """Return whether to give up: yes before the watch was ever live, no afterwards (a CRD may come back)."""
        self.trouble = error
        if not self.live.is_set():
            self.refused = error
            return True
        return False

    def _backoff(self) -> float:
        refused = self.trouble is not None and not isinstance(
            self.trouble, errors.ServerUnavailable | errors.TooManyRequests
        )
        delay = _REFUSED_BACKOFF_S if refused else _BACKOFF_S[min(self._tries, len(_BACKOFF_S) - 1)]
        self._tries += 1
        return delay


async def _next(batches: AsyncIterator[list[WatchEvent]]) -> list[WatchEvent] | None:
    return await anext(batches, None)
