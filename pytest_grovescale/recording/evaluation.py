"""Condition evaluation over records, in O(1) per record; no clock, no I/O.

The recorder feeds each record as it is written; the analysis feeds the same records from the file. Both get the same
milestones at the same times, since only records count. A condition is three-valued: unknown while a watch that it
reads is incomplete or an object cannot be judged (a user's expression raised). A milestone is met when its condition
is true; unknown is not met.
"""

from __future__ import annotations

import heapq
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from ..errors import RecordingError
from . import records
from .conditions import AllOf, AnyOf, Condition, Count, Timer, WatchSpec
from .object_cache import Counter, ObjectKey, Store, Truth


class Failure(msgspec.Struct, frozen=True):
    """A predicate that raised on an object; its result for that object is unknown."""

    phase: str
    milestone: str
    object: records.ObjectRef
    message: str


class Shortfall(msgspec.Struct, frozen=True):
    """Why a milestone is not met yet: a count that is off, and the objects responsible."""

    milestone: str
    count: Count
    have: int
    surplus: bool
    """True: too many objects satisfy the predicate (these do). False: too few (these do not)."""
    objects: list[records.ObjectRef]


class _Milestone:
    """A declared milestone: its condition and the counters that it reads."""

    def __init__(self, phase: str, name: str, condition: Condition) -> None:
        self.phase = phase
        self.name = name
        self.condition = condition
        self.sources: dict[int, tuple[Store, Counter]] = {}
        """Keyed by the identity of the ``Count`` inside ``condition``."""
        self.started: int | None = None
        self.met = False

    def holds(self, at: int, condition: Condition | None = None) -> Truth:
        match self.condition if condition is None else condition:
            case Count() as count:
                store, counter = self.sources[id(count)]
                return counter.holds(count) if store.live else None
            case Timer(seconds=seconds):
                return self.started is not None and at >= self.started + _ns(seconds)
            case AllOf(of=parts):
                return _all(self.holds(at, part) for part in parts)
            case AnyOf(of=parts):
                return _not(_all(_not(self.holds(at, part)) for part in parts))

    def figures(self, at: int) -> tuple[float, float]:
        """Return the progress: objects and goal, seconds and goal, or parts that hold and parts required.

        Objects of several kinds that are all to be there, or all to be gone, are added up.
        """
        match self.condition:
            case Count() as count:
                return self._matched(count), count.n
            case AllOf(of=parts) if counts := _alike(parts):
                goal = sum(count.n for count in counts)
                return sum(min(self._matched(count), count.n or sys.maxsize) for count in counts), goal
            case Timer(seconds=seconds):
                return (0.0 if self.started is None else min((at - self.started) / 1e9, seconds)), seconds
            case AllOf(of=parts):
                return sum(self.holds(at, part) is True for part in parts), len(parts)
            case AnyOf(of=parts):
                return sum(self.holds(at, part) is True for part in parts), 1

    def _matched(self, count: Count) -> int:
        return len(self.sources[id(count)][1].matched)


def _alike(parts: Sequence[Condition]) -> list[Count]:
    """Return the parts where all are counts that grow to their goals, or all fall to zero; else nothing."""
    counts = [part for part in parts if isinstance(part, Count) and (part.op != "<=" or part.n == 0)]
    return counts if len(counts) == len(parts) and len({count.n > 0 for count in counts}) == 1 else []


def _ns(seconds: float) -> int:
    return round(seconds * 1e9)


def _not(truth: Truth) -> Truth:
    return None if truth is None else not truth


def _all(truths: Iterable[Truth]) -> Truth:
    seen = set(truths)
    return False if False in seen else None if None in seen else True


def _leaves(condition: Condition) -> Iterator[Count | Timer]:
    match condition:
        case AllOf(of=parts) | AnyOf(of=parts):
            for part in parts:
                yield from _leaves(part)
        case Count() | Timer():
            yield condition


def count_leaves(condition: Condition) -> list[Count]:
    """Return every count in a condition, in order."""
    return [leaf for leaf in _leaves(condition) if isinstance(leaf, Count)]


class Engine:
    """Evaluates milestones: takes records in journal order, returns the milestones that each record meets.

    Milestones are judged from the start to the end of their phase; the ``PhaseEnded`` record drops the phase, so call
    `holds` before feeding it. Records of other kinds only advance the time.
    """

    def __init__(self) -> None:
        self.failures: list[Failure] = []
        """Predicates that raised, in order; the caller that reports them may clear the list."""
        self.updates = 0
        """How often an object has changed a count."""
        self._stores: dict[str, Store] = {}
        self._phases: dict[str, list[_Milestone]] = {}
        self._readers: dict[int, list[_Milestone]] = {}
        """Identity of a counter → milestones that read it."""
        self._due: list[tuple[int, int, _Milestone]] = []
        self._pushed = 0

    # ---- feeding

    def feed(self, record: records.AnyRecord) -> list[records.MilestoneMet]:
        """Take one record; return the milestones met up to and by it, in order.

        Raises UsageError for a declared predicate that cannot be used (a function that this process cannot import),
        RecordingError for records in an order that no recorder writes.
        """
        met = self.advance(record.at)
        match record:
            case records.ObjectSeen():
                met += self._object(record)
            case records.WatchOpened():
                self._stores[record.watch] = Store(record.watch, record.spec)
            case records.WatchLive():
                met += self._live(record)
            case records.WatchCut():
                self._store(record.watch).cut(record.at, record.length_ns)
            case records.WatchGap():
                self._store(record.watch).gap(record.at, record.length_ns)
            case records.MilestoneDeclared():
                self._declare(record.phase, record.name, record.condition)
            case records.PhaseStarted():
                met += self._start(record)
            case records.PhaseEnded():
                self._end(record.phase)
            case _:
                pass
        return met

    def advance(self, at: int) -> list[records.MilestoneMet]:
        """Advance to ``at`` (recorder's clock, ns); return the milestones met by timers, each at its due time."""
        met: list[records.MilestoneMet] = []
        while self._due and self._due[0][0] <= at:
            due, _, milestone = heapq.heappop(self._due)
            met += self._judge(milestone, due)
        return met

    # ---- queries

    def serving(self, spec: WatchSpec) -> str | None:
        """Return the first open watch that covers ``spec``; None when there is none."""
        return next((store.watch for store in self._stores.values() if store.spec.covers(spec)), None)

    def holds(self, phase: str, name: str, at: int) -> Truth:
        """Return whether a milestone's condition holds at ``at`` (not before the last record); None: unknown.

        Raises KeyError for a milestone that is not declared or whose phase has ended.
        """
        for milestone in self._phases.get(phase, []):
            if milestone.name == name:
                return milestone.holds(at)
        raise KeyError((phase, name))

    def open_milestones(self, phase: str) -> list[str]:
        """Return the names of the phase's milestones that are not met yet."""
        return [m.name for m in self._phases.get(phase, []) if not m.met]

    def figures(self, phase: str, at: int) -> dict[str, tuple[float, float]]:
        """Return milestone → (have, want) at ``at``: objects, seconds for a timer, parts for all and any."""
        return {m.name: m.figures(at) for m in self._phases.get(phase, [])}

    def next_due(self) -> int | None:
        """Return when the next timer runs out, recorder's clock."""
        return self._due[0][0] if self._due else None

    def objects(self, watch: str) -> dict[ObjectKey, dict[str, Any]]:
        """Return (namespace, name) → fields of the objects in a watch that are not deleted."""
        return self._store(watch).objects

    def shortfalls(self, phase: str, at: int, limit: int) -> list[Shortfall]:
        """Return what each open milestone lacks, with up to ``limit`` objects for each count."""
        return [
            _shortfall(milestone, leaf, limit)
            for milestone in self._phases.get(phase, [])
            if not milestone.met
            for leaf in count_leaves(milestone.condition)
            if milestone.holds(at, leaf) is not True
        ]

    # ---- one handler per record type

    def _object(self, record: records.ObjectSeen) -> list[records.MilestoneMet]:
        store = self._store(record.watch)
        key = (record.namespace, record.name)
        fields = None if record.change == "deleted" else record.fields
        store.put(key, fields)
        touched: list[_Milestone] = []
        for counter in store.counters.values():
            if counter.update(key, fields):
                self.updates += 1
                readers = self._readers[id(counter)]
                touched += readers
                if key in counter.unknown:
                    for milestone in readers:
                        self._report(milestone, store, {key: counter.unknown[key]})
        if not touched or not store.live:
            return []
        ref = records.ObjectRef(resource=store.spec.resource, namespace=record.namespace, name=record.name)
        met: list[records.MilestoneMet] = []
        for milestone in dict.fromkeys(touched):
            met += self._judge(milestone, record.at, store, ref, record.resource_version)
        return met

    def _live(self, record: records.WatchLive) -> list[records.MilestoneMet]:
        store = self._store(record.watch)
        store.live = True
        met: list[records.MilestoneMet] = []
        for milestone in dict.fromkeys(m for c in store.counters.values() for m in self._readers[id(c)]):
            met += self._judge(milestone, record.at, store, None, record.resource_version)
        store.complete(record.at)
        return met

    def _declare(self, phase: str, name: str, condition: Condition) -> None:
        milestone = _Milestone(phase, name, condition)
        for leaf in count_leaves(condition):
            watch = self.serving(leaf.watch)
            if watch is None:
                raise RecordingError(
                    f"milestone {name!r}: no watch on {leaf.watch.path} was opened before it",
                    next_step="The recording's order is damaged: use the file as the recorder wrote it.",
                )
            store = self._stores[watch]
            counter = store.counter(leaf)
            milestone.sources[id(leaf)] = store, counter
            readers = self._readers.setdefault(id(counter), [])
            if milestone not in readers:
                readers.append(milestone)
                self._report(milestone, store, counter.unknown)
        self._phases.setdefault(phase, []).append(milestone)

    def _start(self, record: records.PhaseStarted) -> list[records.MilestoneMet]:
        met: list[records.MilestoneMet] = []
        for milestone in self._phases.get(record.phase, []):
            milestone.started = record.at
            met += self._judge(milestone, record.at)
            for leaf in _leaves(milestone.condition):
                if isinstance(leaf, Timer) and not milestone.met:
                    self._pushed += 1
                    heapq.heappush(self._due, (record.at + _ns(leaf.seconds), self._pushed, milestone))
        return met

    def _end(self, phase: str) -> None:
        """Drop a phase and its counters, which then cost nothing per event."""
        ended = self._phases.pop(phase, [])
        self._due = [entry for entry in self._due if entry[2] not in ended]
        heapq.heapify(self._due)
        for store in self._stores.values():
            for key, counter in list(store.counters.items()):
                readers = [m for m in self._readers[id(counter)] if m not in ended]
                self._readers[id(counter)] = readers
                if not readers:
                    del store.counters[key], self._readers[id(counter)]

    def _judge(
        self,
        milestone: _Milestone,
        at: int,
        store: Store | None = None,
        ref: records.ObjectRef | None = None,
        resource_version: str = "",
    ) -> list[records.MilestoneMet]:
        if milestone.met or milestone.started is None or milestone.holds(at) is not True:
            return []
        milestone.met = True
        return [
            records.MilestoneMet(
                at=at,
                phase=milestone.phase,
                name=milestone.name,
                watch=store.watch if store else "",
                object=ref,
                resource_version=resource_version,
                uncertainty_ns=store.uncertainty(at) if store else 0,
            )
        ]

    def _report(self, milestone: _Milestone, store: Store, problems: dict[ObjectKey, str]) -> None:
        for (namespace, name), message in problems.items():
            ref = records.ObjectRef(resource=store.spec.resource, namespace=namespace, name=name)
            self.failures.append(Failure(milestone.phase, milestone.name, ref, message))

    def _store(self, watch: str) -> Store:
        try:
            return self._stores[watch]
        except KeyError:
            raise RecordingError(
                f"a record names the watch {watch!r}, which was never opened",
                next_step="The recording's order is damaged: use the file as the recorder wrote it.",
            ) from None


def _shortfall(milestone: _Milestone, count: Count, limit: int) -> Shortfall:
    store, counter = milestone.sources[id(count)]
    have = len(counter.matched)
    surplus = count.op == "<=" or (count.op == "==" and have > count.n)
    keys = [
        key
        for key in store.objects
        if (key in counter.matched) is surplus and (not counter.names or key[1] in counter.names)
    ]
    refs = [records.ObjectRef(resource=store.spec.resource, namespace=ns, name=name) for ns, name in keys[:limit]]
    return Shortfall(milestone.name, count, have, surplus, refs)
