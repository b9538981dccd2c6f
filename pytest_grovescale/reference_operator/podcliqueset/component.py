"""The interface of the components of a PodCliqueSet, and their shared functions."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Protocol, TypeVar

from .. import naming
from ..api_client import NotOwned
from ..caches import Cached, Caches
from ..controller import Controller
from ..counts import Counts
from ..fan_out import Call, fan_out
from ..naming import TemplateHashes
from ..objects import Object, PodCliqueSet
from ..owned import Body, owner_reference
from ..resources import PODCLIQUESET
from ..settings import Settings
from ..step_times import StepTimes
from ..writes import Writer

T = TypeVar("T", bound=Object)

# From this number of objects on, one request for all is cheaper than one for each.
_COLLECTION_FROM = 4
_SPLIT_FROM = 100
_REPLICAS_PER_REQUEST = 50


class BulkDeletions:
    """The sets (by uid) whose pods are currently being deleted in bulk."""

    def __init__(self) -> None:
        self._active: set[str] = set()

    def __contains__(self, uid: object) -> bool:
        return uid in self._active

    @contextlib.contextmanager
    def of(self, uid: str) -> Iterator[None]:
        self._active.add(uid)
        try:
            yield
        finally:
            self._active.discard(uid)


class Component(Protocol):
    """One kind of child, or one concern, of a PodCliqueSet."""

    name: str

    async def sync(self, pcs: PodCliqueSet) -> float | None:
        """Reconcile the children with the set; returns seconds until the next check, or None."""

    async def delete(self, pcs: PodCliqueSet) -> None:
        """Delete the children of a set that is being deleted. Called again until none is left."""

    def left(self, pcs: PodCliqueSet) -> int:
        """Return how many children still exist."""


class Workshop:
    """Tools of the components: creation and deletion of children."""

    def __init__(
        self,
        caches: Caches,
        writer: Writer,
        counts: Counts,
        hashes: TemplateHashes,
        settings: Settings,
        controller: Callable[[], Controller],
    ) -> None:
        self.caches = caches
        self.writer = writer
        self.counts = counts
        self.hashes = hashes
        self.settings = settings
        self.bulk_deletions = BulkDeletions()
        self.steps: StepTimes = {}
        """Filled by defect function-name-label."""
        self._controller = controller

    async def patch_status(self, cached: Cached[T], obj: T, status: object) -> T:
        """Write the status of the set or of a child of it."""
        return await self.writer.patch_status(self._controller(), cached, obj, status)

    async def run(self, calls: Iterable[Call]) -> None:
        """Make requests, with the concurrency of the reconciles."""
        await fan_out(calls, self.settings.concurrency)

    async def ensure(self, cached: Cached[T], pcs: PodCliqueSet, wanted: dict[str, Callable[[], Body]]) -> None:
        """Create the missing children (by name). Raises NotOwned for a name that another owner uses."""
        missing = [make for name, make in wanted.items() if self.child(cached, pcs, name) is None]
        await self.run(partial(self.create, cached, make) for make in missing)

    async def create(self, cached: Cached[T], make: Callable[[], Body]) -> None:
        await self.writer.create(cached, make())

    def child(self, cached: Cached[T], pcs: PodCliqueSet, name: str) -> T | None:
        """Return a child of the set from the cache."""
        obj = cached.store.get(f"{pcs.namespace}/{name}")
        if obj is not None and not obj.controlled_by(pcs.uid):
            raise NotOwned(cached.resource.kind, obj.key)
        return obj

    async def delete_surplus(self, cached: Cached[T], objects: Iterable[T]) -> None:
        """Delete some of the children, one request each."""
        doomed = cached.store.doomed
        await self.run(partial(self.writer.delete, cached, obj) for obj in objects if not doomed(obj))

    async def delete_all(self, cached: Cached[T], pcs: PodCliqueSet, *, owners: set[str], requests: int = 1) -> None:
        """Delete all objects that have the set's labels and are controlled by one of ``owners`` (uids).

        Where the labels select exactly these, that takes at most ``requests`` requests, and less time in the API server
        than one each. Where other objects have the labels too, each child is deleted by itself.
        """
        doomed = cached.store.doomed
        labelled = cached.store.by("part_of", pcs.key)
        ours = [obj for obj in labelled if (owner := obj.controller) is not None and owner.uid in owners]
        left = [obj for obj in ours if not doomed(obj)]
        if len(left) < _COLLECTION_FROM or len(ours) < len(labelled):
            await self.delete_surplus(cached, left)
        elif requests == 1 or len(left) < _SPLIT_FROM:
            await self.writer.delete_part(cached, pcs.namespace, pcs.name, left)
        else:
            await fan_out(self._split(cached, pcs, left), requests)

    def _split(self, cached: Cached[T], pcs: PodCliqueSet, objects: list[T]) -> Iterator[Call]:
        """Return the deletion of some objects as several, each for some of the set's replicas."""
        by_replica: dict[int, list[T]] = {}
        for obj in objects:
            by_replica.setdefault(replica_of(obj), []).append(obj)
        replicas = sorted(by_replica)
        for start in range(0, len(replicas), _REPLICAS_PER_REQUEST):
            some = replicas[start : start + _REPLICAS_PER_REQUEST]
            among = f",{naming.REPLICA_INDEX}+in+%28{','.join(map(str, some))}%29" if some != [-1] else ""
            part = [obj for replica in some for obj in by_replica[replica]]
            yield partial(self.writer.delete_part, cached, pcs.namespace, pcs.name, part, among=among)

    def reference(self, pcs: PodCliqueSet) -> Body:
        return owner_reference(PODCLIQUESET, pcs)

    def metadata(self, pcs: PodCliqueSet, name: str, component: str, replica: int | None = None) -> Body:
        labels = naming.labels(pcs.name, component)
        if replica is not None:
            labels[naming.REPLICA_INDEX] = str(replica)
        return {
            "name": name,
            "namespace": pcs.namespace,
            "labels": labels,
            "ownerReferences": [self.reference(pcs)],
        }


def replica_of(obj: Object) -> int:
    """Return the index of the set replica that a child belongs to; -1 if its label was tampered with."""
    label = obj.metadata.labels.get(naming.REPLICA_INDEX, "")
    return int(label) if label.isdecimal() else -1
