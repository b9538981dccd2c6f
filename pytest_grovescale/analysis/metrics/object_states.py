"""How many objects of a kind there were at a moment, all or those in a state, as the recorded watches showed them."""

from __future__ import annotations

import bisect
import re
from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

from ...recording import records as rec

_CONDITION = re.compile(r"status\.conditions\[type=(.+)\]\.status")
_PHASE = "status.phase"
STILL_NS = 1_000_000_000
"""Time around a moment within which no object may change: the operator's cache and the recorder's watch are not at the
same event else, ns."""


class Wanted(NamedTuple):
    """Which objects are counted: those of a kind with all of these states, as ``condition Ready=True``."""

    kind: str
    """Plural, with its group or without: ``pods``, ``podcliques.grove.io``."""
    states: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    """States that they do not have."""


class _Seen(NamedTuple):
    at: int
    states: frozenset[str] | None
    """None: it is gone."""


class ObjectStates:
    """The states of all objects over time; feed it every record, in order.

    Events are read when they are first asked for: few runs have an equation with numbers of objects.
    """

    def __init__(self) -> None:
        self._unread: list[tuple[str, rec.ObjectSeen]] = []
        """Events by resource, not yet in `_objects`."""
        self._resources: dict[str, str] = {}
        """Watch → resource, of the first watch on each whole collection."""
        self._paths: set[str] = set()
        self._objects: dict[str, dict[tuple[str, str], list[_Seen]]] = defaultdict(lambda: defaultdict(list))
        self._known: dict[tuple[str, str, str], dict[str, str | int]] = {}
        self._changes: dict[str, list[int]] = defaultdict(list)

    def feed(self, record: rec.AnyRecord) -> None:
        """Take in the next record."""
        match record:
            case rec.WatchOpened(watch=watch, spec=spec):
                if spec.path not in self._paths and not spec.label_selector and not spec.field_selector:
                    self._paths.add(spec.path)
                    self._resources[watch] = spec.resource
                    self._objects[spec.resource]  # known, though there may be none
            case rec.ObjectSeen(watch=watch) if watch in self._resources:
                self._unread.append((self._resources[watch], record))

    def _read(self) -> None:
        for resource, event in self._unread:
            self._seen(resource, event)
        self._unread.clear()

    def _seen(self, resource: str, event: rec.ObjectSeen) -> None:
        key = (event.namespace, event.name)
        self._changes[resource].append(event.at)
        history = self._objects[resource][key]
        if event.change == "deleted":
            self._known.pop((resource, *key), None)
            history.append(_Seen(event.at, None))
            return
        fields = {path: value for path, value in event.fields.items() if isinstance(value, str)}
        known = self._known.setdefault((resource, *key), {})
        known |= {**event.numbers, **fields}
        history.append(_Seen(event.at, states_of(known)))

    def kinds(self) -> list[str]:
        """Return the resources of which all objects were watched."""
        return sorted(self._objects)

    def resource(self, kind: str) -> str:
        """Return the watched resource of a kind; empty where it was not watched."""
        fitting = [resource for resource in self._objects if kind in (resource, resource.partition(".")[0])]
        return min(fitting, key=len, default="")

    def count(self, wanted: Wanted, at: int) -> int:
        """Return how many objects there were at a moment of the recorder's clock, ns."""
        self._read()
        found = 0
        for history in self._objects.get(self.resource(wanted.kind), {}).values():
            before = bisect.bisect_right(history, at, key=lambda seen: seen.at)
            states = history[before - 1].states if before else None
            if states is not None:
                found += states.issuperset(wanted.states) and states.isdisjoint(wanted.absent)
        return found

    def still(self, kind: str, at: int) -> bool:
        """Return whether no object of a kind changed around a moment."""
        self._read()
        changes = self._changes.get(self.resource(kind), [])
        after = bisect.bisect_left(changes, at - STILL_NS)
        return after == len(changes) or changes[after] > at + STILL_NS


def states_of(known: Mapping[str, str | int]) -> frozenset[str]:
    """Return phase and conditions in words, of fields by path: ``phase Running``, ``condition Ready=True``."""
    found = {f"phase {known[_PHASE]}"} if _PHASE in known else set()
    for path, value in known.items():
        if (condition := _CONDITION.fullmatch(path)) is not None:
            found.add(f"condition {condition[1]}={value}")
    return frozenset(found)
