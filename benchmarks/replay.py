"""The floor for an operator: replays its objects and writes, by clients that watch and compute nothing.

The writes come from a recording (the audit log: verb, resource, name, in order), their contents from the objects at the
time when all was ready. Status writes that later ones replaced are sent with smaller numbers, so that each of them
changes the object, as the operator's did.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from pytest_grovescale.kube.client import Client, Object
from pytest_grovescale.kube.errors import NotFound
from pytest_grovescale.recording.records import AnyRecord, PhaseEnded, PhaseStarted, Request

WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})
NOT_OBJECTS = frozenset({"leases", "events", "tokenreviews", "subjectaccessreviews"})
GATE = "grove.io/podgang-pending-creation"


class Write(msgspec.Struct, frozen=True, kw_only=True):
    """One write of the operator. ``nth`` of ``of``: its place among the writes to the same (sub)resource object."""

    verb: str
    resource: str
    subresource: str
    name: str
    nth: int = 1
    of: int = 1


class Captured(msgspec.Struct, kw_only=True):
    """The operator's objects in one namespace: resource (plural with group) → name → object."""

    namespace: str
    objects: dict[str, dict[str, Object]]


def writes_of(records: Iterable[AnyRecord], user: str, phase: str) -> list[Write]:
    """Return the successful object writes of a user in a phase, in the order in which the server received them."""
    requests: list[Request] = []
    inside = False
    for record in records:
        match record:
            case PhaseStarted(phase=name) if name == phase:
                inside = True
            case PhaseEnded(phase=name) if name == phase:
                break
            case Request() if inside and record.user == user and _is_write(record):
                requests.append(record)
    requests.sort(key=lambda request: request.received_wall)
    return _numbered(requests)


def _is_write(request: Request) -> bool:
    return (
        request.verb in WRITES
        and request.stage == "ResponseComplete"
        and 200 <= request.code < 300
        and not request.dry_run
        and request.resource not in NOT_OBJECTS
    )


def _numbered(requests: Sequence[Request]) -> list[Write]:
    totals: dict[tuple[str, ...], int] = defaultdict(int)
    for request in requests:
        totals[_key(request)] += 1
    seen: dict[tuple[str, ...], int] = defaultdict(int)
    writes = []
    for request in requests:
        key = _key(request)
        seen[key] += 1
        resource = f"{request.resource}.{request.group}" if request.group else request.resource
        writes.append(
            Write(
                verb=request.verb,
                resource=resource,
                subresource=request.subresource,
                name=request.name,
                nth=seen[key],
                of=totals[key],
            )
        )
    return writes


def _key(request: Request) -> tuple[str, ...]:
    return (request.verb, request.group, request.resource, request.subresource, request.name)


def named(writes: Sequence[Write], captured: Captured) -> list[Write]:
    """Give creates by generateName, which the audit log does not name, the captured names.

    The i-th such create gets the i-th name that a later write mentions (then the unmentioned ones): every object is
    created before it is mentioned, so that no client waits for a later create.
    """
    waiting: dict[str, deque[str]] = {}
    for resource, objects in captured.objects.items():
        created = {write.name for write in writes if write.verb == "create" and write.resource == resource}
        mentioned = dict.fromkeys(
            write.name
            for write in writes
            if write.resource == resource and write.name in objects and write.name not in created
        )
        rest = [name for name in objects if name not in mentioned and name not in created]
        waiting[resource] = deque([*mentioned, *rest])
    return [
        msgspec.structs.replace(write, name=waiting[write.resource].popleft())
        if write.verb == "create" and not write.name and waiting.get(write.resource)
        else write
        for write in writes
    ]


class Replay:
    """Sends the writes of one phase into another namespace, ``clients`` at a time, in the recorded order."""

    def __init__(self, client: Client, captured: Captured, namespace: str, *, clients: int = 20) -> None:
        self._client = client
        self._namespace = namespace
        self._clients = clients
        text = msgspec.json.encode(captured.objects).replace(captured.namespace.encode(), namespace.encode())
        self._objects = msgspec.json.decode(text, type=dict[str, dict[str, Object]])
        self._uids: dict[str, str] = {}
        self._created: dict[tuple[str, str], asyncio.Event] = defaultdict(asyncio.Event)
        self._planned: set[tuple[str, str]] = set()
        self.sent = 0

    def knows(self, old_uid: str, new: Mapping[str, Any]) -> None:
        """Register the new uid of a recorded object: for owners that the replay does not create."""
        self._uids[old_uid] = new["metadata"]["uid"]

    async def run(self, writes: Sequence[Write]) -> None:
        """Send all writes. Raises ApiError at the first that fails."""
        queue = iter(writes)
        self._planned = {(write.resource, write.name) for write in writes if write.verb == "create"}

        async def client() -> None:
            for write in queue:
                await self._send(write)
                self.sent += 1

        async with asyncio.TaskGroup() as group:
            for _ in range(self._clients):
                group.create_task(client())

    async def _send(self, write: Write) -> None:
        resource = await self._client.resource(write.resource)
        namespace = self._namespace if resource.namespaced else None
        match write.verb:
            case "create":
                await self._create(write)
            case "patch" | "update":
                await self._after_create(write)
                await self._client.patch(
                    resource, write.name, namespace, body=self._body(write), subresource=write.subresource
                )
            case "delete":
                # The garbage collector deletes as well; the later of the two finds nothing, as with the operator.
                with contextlib.suppress(NotFound):
                    await self._client.delete(resource, write.name, namespace)
            case _:
                await self._client.request("DELETE", resource.path(namespace))

    async def _create(self, write: Write) -> None:
        wanted = self._objects[write.resource][write.name]
        obj = _as_new(wanted)
        for owner in obj["metadata"].get("ownerReferences", ()):
            await self._owner(owner)
        new = await self._client.create(obj)
        self._uids[wanted["metadata"]["uid"]] = new["metadata"]["uid"]
        self._created[write.resource, write.name].set()

    async def _owner(self, reference: dict[str, Any]) -> None:
        resource = await self._client.resource(reference["kind"], reference["apiVersion"])
        if reference["uid"] not in self._uids:
            await self._created[resource.qualified, reference["name"]].wait()
        reference["uid"] = self._uids[reference["uid"]]

    async def _after_create(self, write: Write) -> None:
        if (write.resource, write.name) in self._planned:
            await self._created[write.resource, write.name].wait()

    def _body(self, write: Write) -> dict[str, Any]:
        wanted = self._objects.get(write.resource, {}).get(write.name)
        if wanted is None:
            # Missing when the objects were captured: deleted since, so this removes its finalizer.
            return {"metadata": {"finalizers": None}}
        if write.subresource == "status":
            return {"status": _earlier(wanted["status"], write.nth, write.of)}
        if write.resource == "pods":
            return {"spec": {"schedulingGates": None}}
        if wanted["metadata"].get("deletionTimestamp"):
            return {"metadata": {"finalizers": None}}
        metadata = {"finalizers": wanted["metadata"].get("finalizers"), "annotations": {"replay": str(write.nth)}}
        return {"metadata": metadata, "spec": wanted.get("spec")}


def deleting(captured: Captured) -> Captured:
    """Return the objects during deletion: patches then remove their finalizers."""
    objects = copy.deepcopy(captured.objects)
    for kind in objects.values():
        for obj in kind.values():
            obj["metadata"]["deletionTimestamp"] = "now"
    return Captured(namespace=captured.namespace, objects=objects)


def _as_new(obj: Object) -> Object:
    """Return an object as created: without fields that the server or other controllers set."""
    new = copy.deepcopy(obj)
    new.pop("status", None)
    metadata = new["metadata"]
    for key in ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "generateName"):
        metadata.pop(key, None)
    if new["kind"] == "Pod":
        new["spec"].pop("nodeName", None)
        new["spec"]["schedulingGates"] = [{"name": GATE}]
    return new


def _earlier(status: Any, nth: int, of: int) -> Any:
    """Return an earlier status, at the ``nth`` of ``of`` writes: its numbers scaled down."""
    if nth == of:
        return status
    if isinstance(status, dict):
        return {key: _earlier(value, nth, of) for key, value in status.items()}
    if isinstance(status, int) and not isinstance(status, bool):
        return status * nth // of
    return status
