"""A cache of one kind's objects, with indexes, fed by a watch and by the responses to the operator's own writes.

Own writes are stored at once ("read your writes"), so the next reconcile never works on a state older than its own
writes, and creates no duplicates; the watch's event with the same resourceVersion is then dropped. That requires
resourceVersions of one resource to be ordered numbers, which holds for all storage of the API server and is promised
since KEP-5504. A write's response must not restore an object whose deletion the watch has already reported: deletions
are remembered for that, as long as a request can take.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Generic, TypeVar

from .objects import Object

T = TypeVar("T", bound=Object)
Indexer = Callable[[T], Iterable[str]]
Handler = Callable[[T | None, T | None], None]
"""Called with (old, new): (None, new) added, (old, new) changed, (old, None) deleted."""

DELETED_S = 120.0
"""How long a deletion is remembered: a response that is older is none, since a request takes 70 s at the most."""


def version(obj: Object) -> int:
    """Return an object's resourceVersion as the number that orders it."""
    return int(obj.metadata.resource_version or 0)


class Store(Generic[T]):
    """Objects by ``namespace/name``. Single-threaded: all calls come from the event loop, handlers run inside."""

    def __init__(self, **indexers: Indexer[T]) -> None:
        self._objects: dict[str, T] = {}
        self._indexers = indexers
        self._indexes: dict[str, dict[str, dict[str, T]]] = {name: {} for name in indexers}
        self._deleted: dict[str, tuple[int, float]] = {}
        """Key → resourceVersion of the deletion, and when it was seen, the oldest first."""
        self._doomed: set[str] = set()
        self._handlers: list[Handler[T]] = []

    def on_change(self, handler: Handler[T]) -> None:
        self._handlers.append(handler)

    # ---- reading

    def __len__(self) -> int:
        return len(self._objects)

    def __iter__(self) -> Iterator[T]:
        return iter(list(self._objects.values()))

    def get(self, key: str) -> T | None:
        return self._objects.get(key)

    def by(self, index: str, value: str) -> list[T]:
        """Return the objects that an indexer stored under a value."""
        bucket = self._indexes[index].get(value)
        return list(bucket.values()) if bucket else []

    def doomed(self, obj: Object) -> bool:
        """Whether an object is being deleted: terminating, or its deletion was accepted and not yet seen."""
        return obj.metadata.deletion_timestamp is not None or obj.metadata.uid in self._doomed

    # ---- writing

    def upsert(self, obj: T) -> bool:
        """Store an object, unless the known version is as new or newer; returns whether it was stored."""
        key = obj.key
        old = self._objects.get(key)
        new_version = version(obj)
        if old is not None:
            if version(old) >= new_version:
                return False
        elif key in self._deleted and self._deleted[key][0] >= new_version:
            return False
        if old is not None and old.metadata.uid != obj.metadata.uid:
            self._drop(key, old)
            self._notify(old, None)
            old = None
        self._put(key, obj, old)
        self._notify(old, obj)
        return True

    def remove(self, obj: Object) -> None:
        """Remove an object that the watch reported as deleted. ``obj`` has the deletion's resourceVersion."""
        key = obj.key
        now = time.monotonic()
        known_version, _ = self._deleted.pop(key, (0, 0.0))
        self._deleted[key] = max(version(obj), known_version), now
        while (oldest := next(iter(self._deleted))) and self._deleted[oldest][1] < now - DELETED_S:
            del self._deleted[oldest]
        known = self._objects.get(key)
        if known is None or version(known) > version(obj):
            return
        self._drop(key, known)
        self._notify(known, None)

    def doom(self, obj: Object) -> None:
        """Note that the API server has accepted the deletion of an object."""
        known = self._objects.get(obj.key)
        if known is not None and known.metadata.uid == obj.metadata.uid:
            self._doomed.add(obj.metadata.uid)

    def retain(self, keys: set[str], upto: int) -> None:
        """After a full list: drop the objects that it lacks, unless newer than the list (resourceVersion)."""
        for key, obj in list(self._objects.items()):
            if key not in keys and version(obj) <= upto:
                self._drop(key, obj)
                self._notify(obj, None)

    def _put(self, key: str, obj: T, old: T | None) -> None:
        self._objects[key] = obj
        for name, indexer in self._indexers.items():
            index = self._indexes[name]
            values = list(indexer(obj))
            if old is not None:
                for value in indexer(old):
                    if value not in values:
                        self._unindex(index, value, key)
            for value in values:
                index.setdefault(value, {})[key] = obj

    def _drop(self, key: str, obj: T) -> None:
        del self._objects[key]
        self._doomed.discard(obj.metadata.uid)
        for name, indexer in self._indexers.items():
            for value in indexer(obj):
                self._unindex(self._indexes[name], value, key)

    @staticmethod
    def _unindex(index: dict[str, dict[str, T]], value: str, key: str) -> None:
        bucket = index.get(value)
        if bucket is not None:
            bucket.pop(key, None)
            if not bucket:
                del index[value]

    def _notify(self, old: T | None, new: T | None) -> None:
        for handler in self._handlers:
            handler(old, new)
