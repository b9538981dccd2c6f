"""What metrics endpoints served over a run, rebuilt from the recorded changes."""

from __future__ import annotations

import bisect
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, TypeVar

from ...errors import NotMeasuredError
from ...exposition.families import Family, MetricType, NativeHistogram, parse
from ...recording import journal
from ...recording import records as rec
from ...recording.conditions import is_builtin
from ...recording.worker_history import WorkerHistory
from ..result import OPERATOR, TestResult
from .object_states import ObjectStates
from .snapshot import Surface
from .test_leakage import Tracking

_FEW_PARTS = 4
"""Objects of a kind of its own that an operator may make for each of a user's, as the shards of a database."""


class ObjectsSeen:
    """Objects of each watched resource, from the moment each was first seen; feed it every record, in order.

    One that is deleted still counts: a counter with its name in a label is served until the process ends.
    """

    def __init__(self) -> None:
        self._resources: dict[str, str] = {}
        self._times: dict[str, list[int]] = defaultdict(list)
        self._known: dict[str, set[tuple[str, str]]] = defaultdict(set)
        self._names: set[str] = set()
        self._owned: set[str] = set()
        self._without_owner: set[str] = set()
        self._parts: dict[str, set[str]] = defaultdict(set)
        self._roots: set[tuple[str, str]] = set()

    def feed(self, record: rec.AnyRecord) -> None:
        """Take in the next record."""
        match record:
            case rec.WatchOpened():
                self._resources[record.watch] = record.spec.resource
            case rec.ObjectSeen(watch=watch, name=name) if watch in self._resources:
                known, key = self._known[self._resources[watch]], (record.namespace, name)
                self._names.update(filter(None, (name, record.uid)))
                resource = self._resources[watch]
                if record.owner or resource == "pods":
                    owned = self._owned if is_builtin(resource) else self._parts[resource]
                    owned.update(filter(None, (name, record.uid)))
                elif record.owner == "":
                    self._without_owner.update(filter(None, (name, record.uid)))
                    if not is_builtin(resource):
                        self._roots.add(key)
                if key not in known:
                    known.add(key)
                    self._times[self._resources[watch]].append(record.at)

    def named(self, values: Iterable[str]) -> list[str]:
        """Return the values that are the name or UID of an object, with its namespace or without, or a prefix of names.

        A prefix is the name of an owner: a controller's pods have its name, a hyphen, and more.
        """
        names = sorted(self._names)

        def begins(value: str) -> bool:
            return len(names) > (at := bisect.bisect_left(names, f"{value}-")) and names[at].startswith(f"{value}-")

        def names_one(value: str) -> bool:
            name = value.rpartition("/")[2]
            return bool(name) and (name in self._names or begins(name))

        return [value for value in values if names_one(value)]

    def owned(self, values: Iterable[str]) -> list[str]:
        """Return the values that are the name or UID of a pod or of objects with an owner, and of no object without.

        The few objects of its own kinds that an operator makes for each of a user's are as good as the user's.
        """
        few = _FEW_PARTS * len(self._roots)
        parts = [(names, len(self._known[resource]) <= few) for resource, names in self._parts.items()]
        as_good = self._without_owner.union(*(names for names, are_few in parts if are_few))
        owned = self._owned.union(*(names for names, _ in parts)) - as_good
        return [value for value in values if value.rpartition("/")[2] in owned]

    def count(self, resource: str, at: int) -> int:
        """Return how many objects of a resource had been seen by a moment of the recorder's clock, ns."""
        return bisect.bisect_right(self._times.get(resource, []), at)

    def growing(self, since: int) -> str:
        """Return the resource of which most objects came after a moment; empty when there were none."""
        came = {resource: len(times) - self.count(resource, since) for resource, times in self._times.items()}
        most = max(came, key=lambda resource: came[resource], default="")
        return most if most and came[most] else ""


T = TypeVar("T")

_CYCLE = rec.cycle_edge(0)[:-1]


class Moment(NamedTuple):
    """One scrape of one target."""

    at: int
    """Recorder's clock, ns."""
    edge: str
    """``start:<phase>`` or ``end:<phase>``; empty between a phase's edges."""
    phase: str
    """The phase that it belongs to; empty between phases."""
    took_ns: int = 0
    """From the request to the answer read and parsed."""


class TypeChange(NamedTuple):
    """A family that was described with another type than before."""

    scrape: int
    """The first with the new type."""
    family: str
    before: MetricType
    after: MetricType


@dataclass(eq=False)
class TargetHistory:
    """All scrapes of one target. A value is known at a scrape, and holds until the next."""

    target: str
    moments: list[Moment] = field(default_factory=list)
    families: dict[str, Family] = field(default_factory=dict)
    """By name, including families that are no longer served; as described last."""
    type_changes: list[TypeChange] = field(default_factory=list)
    """In order; a family keeps its type while it is not served."""
    created: dict[str, list[tuple[int, float]]] = field(default_factory=dict)
    """Series → (scrape, time of its creation, s since the epoch) at each change."""
    refused: list[str] = field(default_factory=list)
    """Why a Prometheus refuses its responses, or drops samples of them; each reason once."""
    failures: list[tuple[int, str]] = field(default_factory=list)
    """When a scrape failed (recorder's clock, ns), and why: those at edges, and others only when the reason is new."""
    native: set[str] = field(default_factory=set)
    """Families that had exponential buckets."""
    histograms: dict[str, list[tuple[int, NativeHistogram | None]]] = field(default_factory=dict)
    """Series → (scrape, its exponential buckets) at each change; None where they disappeared."""
    process_changes: list[int] = field(default_factory=list)
    """Scrapes that were the first after the end of the target's process, where that is measured."""
    _changes: dict[str, list[tuple[int, float | None]]] = field(default_factory=dict)
    _before: list[tuple[int, dict[str, Family]]] = field(default_factory=list)
    """Scrapes at which families changed their types, with all families as they were described until then."""
    _left: bool = False
    """Whether the target was dropped since the last scrape: the next one starts from nothing."""

    @property
    def series(self) -> Sequence[str]:
        """Return every series that was ever served."""
        return list(self._changes)

    def grown(self, series: str, first: int, last: int) -> float:
        """Return what a counter counted between two scrapes; one that was not served counts as zero.

        A fall is a new process, which counted from zero: what it shows is added.
        """
        changes = self._changes.get(series, [])
        position = bisect.bisect_right(changes, first, key=lambda change: change[0])
        before, total = (changes[position - 1][1] if position else None) or 0.0, 0.0
        for scrape, value in changes[position:]:
            if scrape > last:
                break
            now = value or 0.0
            total += now - before if now >= before else now
            before = now
        return total

    def families_at(self, scrape: int) -> Mapping[str, Family]:
        """Return the families by name, with their types at a scrape."""
        position = bisect.bisect_right(self._before, scrape, key=lambda before: before[0])
        return self._before[position][1] if position < len(self._before) else self.families

    def value(self, series: str, scrape: int) -> float | None:
        """Return a series' value at a scrape, by the scrape's index in `moments`; None where it was not served."""
        return _at(self._changes.get(series, []), scrape)

    def histogram(self, series: str, scrape: int) -> NativeHistogram | None:
        """Return a series' exponential buckets at a scrape, by its index in `moments`; None where it had none."""
        return _at(self.histograms.get(series, []), scrape)

    def values(self, series: str) -> Iterator[float | None]:
        """Yield a series' value at every scrape, in order; None where it was not served."""
        changes, position, value = self._changes.get(series, []), 0, None
        for scrape in range(len(self.moments)):
            if position < len(changes) and changes[position][0] == scrape:
                value = changes[position][1]
                position += 1
            yield value

    def comings(self, series: str) -> Iterator[tuple[int, int]]:
        """Yield (scrape, 1) for each scrape at which a series appeared, and (scrape, -1) where it disappeared."""
        there = False
        for scrape, value in self._changes.get(series, []):
            if there != (value is not None):
                there = not there
                yield scrape, 1 if there else -1

    def changes(self, series: str) -> int:
        """Return how often a series appeared, disappeared or changed its value."""
        return len(self._changes.get(series, []))

    def samples(self, scrape: int) -> dict[str, float]:
        """Return a whole scrape, rebuilt. Negative indices count from the last."""
        index = range(len(self.moments))[scrape]
        values = {series: self.value(series, index) for series in self._changes}
        return {series: value for series, value in values.items() if value is not None}

    def surface(self, scrape: int = -1) -> Surface:
        """Return the families and series served at one scrape. Raises NotMeasuredError when it was never scraped."""
        if not self.moments:
            raise NotMeasuredError(f"{self.target} was never scraped{self._last_failure()}")
        samples = self.samples(scrape)
        return Surface(target=self.target, families=dict(self.families), samples=samples, native=frozenset(self.native))

    def whole(self) -> Surface:
        """Return everything ever served in the run, each series with its last value. Raises NotMeasuredError."""
        if not self.moments:
            raise NotMeasuredError(f"{self.target} was never scraped{self._last_failure()}")
        last = {
            series: next(value for _, value in reversed(changes) if value is not None)
            for series, changes in self._changes.items()
        }
        return Surface(target=self.target, families=dict(self.families), samples=last, native=frozenset(self.native))

    def of_phase(self, phase: str) -> list[int]:
        """Return the scrapes of a phase, its edges included, by index."""
        return [index for index, moment in enumerate(self.moments) if moment.phase == phase]

    def when(self, scrape: int) -> str:
        """Return the time of a scrape in words: ``at the end of deploy``, ``4.2 s into deploy``."""
        moment = self.moments[scrape]
        if moment.edge == rec.SETTLED:
            return "after the workload was gone"
        if moment.edge.startswith(_CYCLE):
            return f"after {moment.edge}"
        which, _, phase = moment.edge.partition(":")
        if which in ("start", "end") and phase:
            return f"at the {which} of {phase}"
        began = self.moments[self.of_phase(moment.phase)[0] if moment.phase else 0].at
        place = f"into {moment.phase}" if moment.phase else "after the first scrape"
        return f"{(moment.at - began) / 1e9:.1f} s {place}"

    def _last_failure(self) -> str:
        return f": {self.failures[-1][1]}" if self.failures else ""

    def leave(self) -> None:
        """Record that the target was dropped: a later scrape of that name starts from nothing."""
        self._left = True

    def end_process(self) -> None:
        """Record that the target's process ended: the next scrape is another's."""
        if self.moments and len(self.moments) not in self.process_changes[-1:]:
            self.process_changes.append(len(self.moments))

    def feed(self, record: rec.Scraped, phase: str) -> None:
        """Take in the next scrape."""
        index = len(self.moments)
        self.moments.append(Moment(record.at, record.edge, phase, record.took_ns))
        for series in list(self._changes) if self._left else record.gone:
            changes = self._changes.get(series)
            # Names without a value of their own, as of native histograms, are no series here.
            if changes and changes[-1][1] is not None:
                changes.append((index, None))
        for series in list(self.histograms) if self._left else record.gone:
            if series in self.histograms and self.histograms[series][-1][1] is not None:
                self.histograms[series].append((index, None))
        self._left = False
        for series, value in [
            *record.samples.items(),
            *((series, float(text)) for series, text in record.special.items()),
        ]:
            changes = self._changes.setdefault(series, [])
            if changes and changes[-1][0] == index:
                changes.pop()
            changes.append((index, value))
        self._describe(index, record.families.values())
        self.refused += [why for why in record.refused if why not in self.refused]
        for series, histogram in record.native.items():
            self.native.add(parse(series).name)
            self.histograms.setdefault(series, []).append((index, histogram))
        for series, text in record.created.items():
            self.created.setdefault(series, []).append((index, float(text)))

    def _describe(self, scrape: int, described: Iterable[Family]) -> None:
        """Store a scrape's descriptions of families."""
        for family in described:
            known = self.families.get(family.name)
            if known is not None and known.type != family.type:
                if not self._before or self._before[-1][0] != scrape:
                    self._before.append((scrape, dict(self.families)))
                self.type_changes.append(TypeChange(scrape, family.name, known.type, family.type))
            self.families[family.name] = family


def _at(changes: Sequence[tuple[int, T | None]], scrape: int) -> T | None:
    """Return the state at a scrape: of several changes in one, the last."""
    position = bisect.bisect_right(changes, scrape, key=lambda change: change[0])
    return changes[position - 1][1] if position else None


class MetricsHistory:
    """All targets of a recording; feed it every record, in order."""

    def __init__(self) -> None:
        self.targets: dict[str, TargetHistory] = {}
        self.workers = WorkerHistory()
        self.objects = ObjectsSeen()
        self.states = ObjectStates()
        self.tracking = Tracking()
        self._phase = ""

    def feed(self, record: rec.AnyRecord) -> None:
        """Take in the next record."""
        self.workers.feed(record)
        self.objects.feed(record)
        self.states.feed(record)
        self.tracking.feed(record)
        match record:
            case rec.PhaseStarted():
                self._phase = record.phase
            case rec.PhaseEnded():
                self._phase = ""
            case rec.Scraped():
                _, _, of_edge = record.edge.partition(":")
                self._of(record.target).feed(record, of_edge or self._phase)
            case rec.TargetGone():
                self._of(record.target).leave()
            case rec.ProcessGone() if record.process in self.targets:
                self.targets[record.process].end_process()
            case rec.SourceFailed(source=source) if source.startswith("scrape:"):
                self._of(source.removeprefix("scrape:")).failures.append((record.at, record.message))

    def target(self, name: str = OPERATOR) -> TargetHistory:
        """Return one target's scrapes. Raises NotMeasuredError for an unknown target."""
        if name not in self.targets:
            known = f"scraped were: {', '.join(sorted(self.targets))}" if self.targets else "nothing was scraped"
            raise NotMeasuredError(
                f"there is no metrics target {name!r}; {known}",
                next_step="Name the operator's endpoint under `metrics:` in its definition.",
            )
        return self.targets[name]

    def _of(self, name: str) -> TargetHistory:
        return self.targets.setdefault(name, TargetHistory(name))


def history_of(records: Iterable[rec.AnyRecord]) -> MetricsHistory:
    """Return the metrics of a recording."""
    history = MetricsHistory()
    for record in records:
        history.feed(record)
    return history


def histories_in(folder: Path) -> Callable[[TestResult], MetricsHistory]:
    """Return a function that reads a test's scrapes from its recording in a run's folder."""
    return lambda test: history_of(journal.read(folder / test.recording))
