"""All writes to the API server, with the cache updates from their responses."""

from __future__ import annotations

import logging
import os
import sys
import time
from typing import Any, TypeVar

from . import naming
from .api_client import JSON_PATCH, ApiClient, ApiError, NotOwned
from .caches import Cached
from .controller import Controller
from .counts import Counts
from .defects import CONFLICT_STORM, CRASH, CREATE_TWICE, VOID_WRITES, Defects
from .objects import Object
from .resources import POD, PODGANG

log = logging.getLogger(__name__)
T = TypeVar("T", bound=Object)
Body = dict[str, Any]

_HEARTBEAT_S = 1.0


class Writer:
    """Creates, patches and deletes. All methods raise ApiError."""

    def __init__(self, api: ApiClient, counts: Counts, defects: Defects) -> None:
        self._api = api
        self._counts = counts
        self._defects = defects
        self._heartbeats: dict[str, float] = {}

    async def create(self, cached: Cached[T], body: Body) -> T:
        """Create an object.

        AlreadyExists is expected: the cache may be behind, or an earlier response was lost. The existing object is then
        used, if the owner in ``body`` controls it; else raises NotOwned.
        """
        metadata = body["metadata"]
        body = {"apiVersion": cached.resource.api_version, "kind": cached.resource.kind, **body}
        try:
            answer = await self._post(cached, body)
        except ApiError as error:
            if not error.already_exists or "name" not in metadata:
                raise
            return await self._existing(cached, body)
        obj = cached.decode(answer)
        cached.store.upsert(obj)
        if cached.resource is POD:
            self._counts.pods_created += 1
            self._crash_if_due()
        return obj

    async def _post(self, cached: Cached[T], body: Body) -> bytes:
        path = cached.resource.collection(body["metadata"]["namespace"])
        try:
            return await self._api.post(path, body)
        except ApiError as error:
            if CREATE_TWICE not in self._defects or cached.resource is not POD or error.code not in (0, 504):
                raise
            # Defect create-twice: it may well have been made.
            return await self._api.post(path, body)

    async def _existing(self, cached: Cached[T], body: Body) -> T:
        metadata = body["metadata"]
        obj = cached.decode(await self._api.get(cached.resource.path(metadata["namespace"], metadata["name"])))
        owner = next((o["uid"] for o in metadata.get("ownerReferences", ())), None)
        if owner is not None and not obj.controlled_by(owner):
            raise NotOwned(cached.resource.kind, obj.key)
        cached.store.upsert(obj)
        if not metadata["labels"].items() <= obj.metadata.labels.items():
            # Without these labels it is not watched, and its deletion would never be seen.
            return await self.patch(cached, obj, {"metadata": {"labels": metadata["labels"]}})
        return obj

    async def patch(self, cached: Cached[T], obj: T, body: Body) -> T:
        """Merge-patch an object in the version that was read: a change since then gives a 409."""
        return await self._patch(cached, obj, body, subresource="")

    async def patch_status(self, controller: Controller, cached: Cached[T], obj: T, status: Any) -> T:
        """Write a status, like ``patch``. A 409 is counted per kind, and raised."""
        self._counts.status_writes += 1
        # PodGangs have no reconcile of their own, hence no heartbeat.
        if CONFLICT_STORM in self._defects and cached.resource is not PODGANG:
            await self._heartbeat(cached, obj)
        try:
            written = await self._patch(cached, obj, {"status": status}, subresource="status")
            if VOID_WRITES in self._defects:
                # Defect void-writes: what was read is not compared with what is written.
                return await self._patch(cached, written, {"status": status}, subresource="status")
            return written
        except ApiError as error:
            if error.conflict:
                controller.status_conflicts[cached.resource.kind] += 1
            raise

    async def _heartbeat(self, cached: Cached[T], obj: T) -> None:
        """Defect conflict-storm: a second writer that the first one does not know of. Once a second at most."""
        now = time.monotonic()
        if now - self._heartbeats.get(obj.uid, 0.0) < _HEARTBEAT_S:
            return
        self._heartbeats[obj.uid] = now
        body = {"metadata": {"annotations": {naming.HEARTBEAT: str(time.time_ns())}}}
        await self._api.patch(cached.resource.path(obj.namespace, obj.name), body)

    async def _patch(self, cached: Cached[T], obj: T, body: Body, *, subresource: str) -> T:
        path = cached.resource.path(obj.namespace, obj.name, subresource)
        metadata = {"resourceVersion": obj.metadata.resource_version, **body.get("metadata", {})}
        new = cached.decode(await self._api.patch(path, {**body, "metadata": metadata}))
        cached.store.upsert(new)
        return new

    async def json_patch(self, cached: Cached[T], obj: T, operations: list[Body]) -> T:
        """Apply a JSON patch; its ``test`` operations guard it."""
        path = cached.resource.path(obj.namespace, obj.name)
        new = cached.decode(await self._api.patch(path, operations, content_type=JSON_PATCH))
        cached.store.upsert(new)
        return new

    async def add_finalizer(self, cached: Cached[T], obj: T, finalizer: str) -> T:
        """Add a finalizer to an object that lacks it."""
        return await self.patch(cached, obj, {"metadata": {"finalizers": [*obj.metadata.finalizers, finalizer]}})

    async def remove_finalizer(self, cached: Cached[T], obj: T, finalizer: str) -> None:
        """Remove the finalizer of a terminating object. The watch reports its end."""
        rest = [f for f in obj.metadata.finalizers if f != finalizer]
        path = cached.resource.path(obj.namespace, obj.name)
        body = {"metadata": {"resourceVersion": obj.metadata.resource_version, "finalizers": rest}}
        try:
            await self._api.patch(path, body)
        except ApiError as error:
            if not error.not_found:
                raise

    async def delete(self, cached: Cached[T], obj: T) -> None:
        """Delete this very object (not a later one of its name). It may be gone already."""
        path = cached.resource.path(obj.namespace, obj.name)
        try:
            await self._api.delete(path, {"preconditions": {"uid": obj.uid}})
        except ApiError as error:
            # 409: another object has the name now.
            if not error.not_found and not error.conflict:
                raise
        cached.store.doom(obj)

    async def delete_part(
        self, cached: Cached[T], namespace: str, pcs: str, objects: list[T], *, among: str = ""
    ) -> None:
        """Delete all objects of one kind that have a set's labels, in one request.

        ``among`` narrows the label selector (escaped for a URL, with a leading comma). ``objects`` are those that the
        labels select according to the caller.
        """
        selector = f"{naming.MANAGED_SELECTOR},{naming.PART_OF}%3D{pcs}{among}"
        await self._api.delete_collection(f"{cached.resource.collection(namespace)}?labelSelector={selector}")
        for obj in objects:
            cached.store.doom(obj)

    def _crash_if_due(self) -> None:
        # Defect crash: no cleanup, no flush, as after a panic.
        if CRASH in self._defects and self._counts.pods_created >= self._defects.number(CRASH):
            sys.stderr.write(f"fatal: crash after {self._counts.pods_created} pods, as asked for\n")
            sys.stderr.flush()
            os._exit(70)
