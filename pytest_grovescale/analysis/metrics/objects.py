"""Number of objects over time, for checks of series that should not grow with it."""

from __future__ import annotations

import bisect
from collections import defaultdict
from collections.abc import Iterable

from ...recording import records as rec


class ObjectsSeen:
    """Objects of each watched resource, from the moment each was first seen; feed it every record, in order.

    One that is deleted still counts: a counter with its name in a label is served until the process ends.
    """

    def __init__(self) -> None:
        self._resources: dict[str, str] = {}
        self._times: dict[str, list[int]] = defaultdict(list)
        self._known: dict[str, set[tuple[str, str]]] = defaultdict(set)
        self._names: set[str] = set()

    def feed(self, record: rec.AnyRecord) -> None:
        """Take in the next record."""
        match record:
            case rec.WatchOpened():
                self._resources[record.watch] = record.spec.resource
            case rec.ObjectSeen(watch=watch, name=name) if watch in self._resources:
                known, key = self._known[self._resources[watch]], (record.namespace, name)
                self._names.update(part for part in (name, record.uid) if part)
                if key not in known:
                    known.add(key)
                    self._times[self._resources[watch]].append(record.at)

    def named(self, values: Iterable[str]) -> list[str]:
        """Return the values that are the name or UID of an object, or a prefix of object names.

        A prefix is the name of an owner: a controller's pods have its name, a hyphen, and more.
        """
        names = sorted(self._names)

        def begins(value: str) -> bool:
            return len(names) > (at := bisect.bisect_left(names, f"{value}-")) and names[at].startswith(f"{value}-")

        return [value for value in values if value and (value in self._names or begins(value))]

    def count(self, resource: str, at: int) -> int:
        """Return how many objects of a resource had been seen by a moment of the recorder's clock, ns."""
        return bisect.bisect_right(self._times.get(resource, []), at)

    def growing(self, since: int) -> str:
        """Return the resource of which most objects came after a moment; empty when there were none."""
        came = {resource: len(times) - self.count(resource, since) for resource, times in self._times.items()}
        most = max(came, key=lambda resource: came[resource], default="")
        return most if most and came[most] else ""
