"""The objects that the watches have shown, with counters over them that cost O(1) per event."""

from __future__ import annotations

from typing import Any

import msgspec

from .conditions import Count, Judge, WatchSpec, compile_predicate

BACKLOG_NS = 100_000_000
"""Minimum time after a disconnect in which events count as delayed by it, ns."""

_FOREVER = 1 << 63

Truth = bool | None
"""None: unknown."""

ObjectKey = tuple[str, str]
"""Namespace (empty for cluster-scoped objects) and name."""


class Counter:
    """The objects of one watch that satisfy one predicate; shared by all conditions with that predicate."""

    def __init__(self, judge: Judge, names: frozenset[str]) -> None:
        self.judge = judge
        self.names = names
        """The only names that are judged; empty: all."""
        self.matched: set[ObjectKey] = set()
        self.unknown: dict[ObjectKey, str] = {}
        """Objects whose judge function raised → what it raised."""

    def update(self, key: ObjectKey, fields: dict[str, Any] | None) -> bool:
        """Judge an object again (None: it is gone); return whether either set changed."""
        if self.names and key[1] not in self.names:
            return False
        was = key in self.matched, key in self.unknown
        answer, problem = False, ""
        if fields is not None:
            try:
                answer = self.judge(fields)
            except Exception as error:  # noqa: BLE001 - a user's code; reported, see Engine.failures
                problem = f"{type(error).__name__}: {error}"
        (self.matched.add if answer else self.matched.discard)(key)
        if problem:
            self.unknown[key] = problem
        else:
            self.unknown.pop(key, None)
        return was != (answer, bool(problem))

    def holds(self, count: Count) -> Truth:
        """Compare with the goal; unknown when the objects that could not be judged would decide it."""
        least, most = len(self.matched), len(self.matched) + len(self.unknown)
        match count.op:
            case ">=":
                return True if least >= count.n else False if most < count.n else None
            case "<=":
                return True if most <= count.n else False if least > count.n else None
            case "==":
                return True if least == most == count.n else False if not least <= count.n <= most else None


class Store:
    """The objects of one watch, and the counters over them."""

    def __init__(self, watch: str, spec: WatchSpec) -> None:
        self.watch = watch
        self.spec = spec
        self.live = False
        self.objects: dict[ObjectKey, dict[str, Any]] = {}
        self.counters: dict[bytes, Counter] = {}
        self._silent_from = 0
        self._backlog_until = 0

    def counter(self, count: Count) -> Counter:
        """Return the counter for a condition, created and filled if missing.

        Raises UsageError for a predicate that cannot be used.
        """
        # Keyed by JSON: 1 and true are equal in Python, and must not share a counter.
        key = msgspec.json.encode((count.name, count.where, count.watch.fields))
        counter = self.counters.get(key)
        if counter is None:
            judge = compile_predicate(count.where, count.watch)
            counter = self.counters[key] = Counter(judge, frozenset(count.names))
            for seen, fields in self.objects.items():
                counter.update(seen, fields)
        return counter

    def put(self, key: ObjectKey, fields: dict[str, Any] | None) -> None:
        """Store an object's newest state; None: it is gone."""
        if fields is None:
            self.objects.pop(key, None)
        else:
            self.objects[key] = fields

    def cut(self, at: int, length: int) -> None:
        """Note that the stream is open again after a disconnect: delayed events follow."""
        self._silent_from = at - length
        self._backlog_until = at + max(length, BACKLOG_NS)

    def gap(self, at: int, length: int) -> None:
        """Note a gap: everything is unknown until the new list is complete."""
        self.live = False
        self._silent_from = at - length
        self._backlog_until = _FOREVER

    def complete(self, at: int) -> None:
        """Note that the list is complete: from here on events come as they happen."""
        if self._backlog_until == _FOREVER:
            self._backlog_until = at + BACKLOG_NS

    def uncertainty(self, at: int) -> int:
        """Return how much earlier than ``at`` the event that arrived then may have happened, ns."""
        return at - self._silent_from if at <= self._backlog_until else 0
