"""A recording indexed by subject in one pass, so that each figure finds its records at once; and the wall
clock against the recorder's.

*Clocks.* The audit log is written by the API server, which reads the wall clock; the recording's own times come from a
clock that never steps. ``ClockStep`` records hold the difference between the two from some moment on.

`Contents` is fed record by record and can be read at any moment, so a truncated recording needs no special case.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

from msgspec.structs import force_setattr

from ..errors import GrovescaleError, RecordingError
from ..recording import records as rec
from ..recording.evaluation import Engine
from ..recording.records import ClockStep
from . import reconcile_counters
from .metrics.history import MetricsHistory

STEP_DOUBT_NS = 2_000_000_000
"""Uncertainty around a clock step, ns: the recorder checks once a second, and a request that was received before the
step may be completed and journaled after it."""


class WallClock:
    """Offsets of the wall clock, in the order in which the recorder noticed them."""

    def __init__(self) -> None:
        self.steps: list[ClockStep] = []

    def add(self, step: ClockStep) -> None:
        self.steps.append(step)

    def offset(self, at: int) -> int:
        """Return wall clock - recorder's clock, ns, as known at a moment of the recorder's clock."""
        if not self.steps:
            return 0
        index = bisect_right(self.steps, at, key=lambda step: step.at)
        return self.steps[index - 1].offset_ns if index else 0

    def doubt(self, at: int) -> int:
        """Return the uncertainty of a wall time journaled at ``at``, ns: 0 unless the clock was set close by."""
        doubt, before = 0, 0
        for step in self.steps:
            if abs(step.at - at) <= STEP_DOUBT_NS:
                doubt += abs(step.offset_ns - before)
            before = step.offset_ns
        return doubt


KEPT_SERIES = (
    "controller_runtime_max_concurrent_reconciles{",
    "rest_client_rate_limiter_duration_seconds_sum{",
    "rest_client_request_duration_seconds_sum{",
    "rest_client_request_duration_seconds_count{",
    "workqueue_queue_duration_seconds_sum{",
    "workqueue_work_duration_seconds_sum{",
    "apiserver_terminated_watchers_total{",
    "process_start_time_seconds",
    "container_cpu_cfs_throttled_seconds_total{",
)
"""Prefixes of the series that figures are derived from, beside counters of reconciles; others are not kept."""


@dataclass(frozen=True)
class Snapshot:
    """The kept series of one target at one moment."""

    at: int
    samples: dict[str, float]
    served: int = 0
    """Series of the whole scrape, kept or not."""


@dataclass(eq=False)
class PhaseSpan:
    """One phase and the records that name it. Its edges may be read just before it starts."""

    name: str
    started: rec.PhaseStarted | None = None
    ended: rec.PhaseEnded | None = None
    declared: dict[str, rec.MilestoneDeclared] = field(default_factory=dict)
    met: dict[str, rec.MilestoneMet] = field(default_factory=dict)
    cpu_start: dict[str, rec.CpuRead] = field(default_factory=dict)
    cpu_end: dict[str, rec.CpuRead] = field(default_factory=dict)
    machine_start: rec.MachineRead | None = None
    machine_end: rec.MachineRead | None = None
    scrape_start: dict[str, Snapshot] = field(default_factory=dict)
    scrape_end: dict[str, Snapshot] = field(default_factory=dict)
    late: list[rec.LateObject] = field(default_factory=list)
    held: dict[str, bool | None] = field(default_factory=dict)
    """Milestone → whether its condition held when the phase ended; None where the recorder could not evaluate it."""
    reached: dict[str, int] = field(default_factory=dict)
    """Milestone → its count when the phase ended."""

    @property
    def start(self) -> int:
        """Its first moment, ns. Only for a phase that has started, as all in `Contents.phases` have."""
        return self.started.at if self.started is not None else 0


@dataclass(eq=False)
class WatchStory:
    """One watch from its opening on."""

    opened: rec.WatchOpened
    live: rec.WatchLive | None = None
    cuts: list[rec.WatchCut] = field(default_factory=list)
    gaps: list[rec.WatchGap] = field(default_factory=list)
    events: int = 0
    deletions: list[int] = field(default_factory=list)
    """When objects were seen to be gone."""
    objects: dict[tuple[str, str], list[rec.ObjectSeen]] = field(default_factory=lambda: defaultdict(list))
    """(namespace, name) → its events in order."""

    def complete_since(self, at: int) -> bool:
        """Return whether it shows all objects from a moment on, and has no gap."""
        return self.live is not None and self.live.at <= at and not self.gaps


class Owned(NamedTuple):
    """One object and its owner, as a watch showed them last."""

    resource: str
    namespace: str
    name: str
    owner: str
    """UID; empty without an owner."""
    marked: int = 0
    """When it was first seen to be marked for deletion, recorder's clock, ns; 0: never, or it went at once."""
    gone: int = 0
    """When it was seen to be gone; 0: never."""


class Repeated:
    """The parts of records that are alike, each kept once.

    A thousand pods are twelve thousand events and ten thousand requests, whose names, UIDs, users and differences
    repeat: without this they take twice the memory.
    """

    _EMPTY: ClassVar[dict[str, Any]] = {}
    _NONE: ClassVar[list[str]] = []

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._differences: dict[tuple[object, ...], rec.Difference] = {}
        self._lists: dict[tuple[str, ...], list[str]] = {}
        self._paths: dict[tuple[str, ...], tuple[str, ...]] = {}
        self._values: dict[tuple[object, ...], dict[str, Any]] = {}

    def share(self, record: rec.ObjectSeen | rec.Request) -> None:
        """Let a record have its parts from those before where they are equal: it stays equal to what it was."""
        texts = self._texts
        for name in _TEXTS_OF_EVENTS if isinstance(record, rec.ObjectSeen) else _TEXTS_OF_REQUESTS:
            text = getattr(record, name)
            if text and (known := texts.setdefault(text, text)) is not text:
                force_setattr(record, name, known)
        if isinstance(record, rec.Request):
            return
        if (one := record.difference) is not None:
            key = (one.kind, one.grown, *one.paths, None, *one.back)
            force_setattr(record, "difference", self._differences.setdefault(key, one))
        for name in _VALUES_OF_EVENTS:
            values = getattr(record, name)
            force_setattr(record, name, self._known(values) if values else self._EMPTY)
        for name in _LISTS_OF_EVENTS:
            if (listed := getattr(record, name)) is not None:
                shared = self._lists.setdefault(tuple(listed), listed) if listed else self._NONE
                force_setattr(record, name, shared)

    def _known(self, values: dict[str, Any]) -> dict[str, Any]:
        paths = tuple(values)
        # 1 and True are equal, and are not the same value.
        key = (self._paths.get(paths, paths), *values.values(), *map(type, values.values()))
        try:
            if (known := self._values.get(key)) is not None:
                return known
        except TypeError:  # a field that a condition asks for may be a list
            return values
        if paths not in self._paths:
            self._paths[paths] = tuple(self._texts.setdefault(path, path) for path in paths)
        kept = {
            path: self._texts.setdefault(value, value) if isinstance(value, str) else value
            for path, value in zip(self._paths[paths], values.values(), strict=True)
        }
        self._values[self._paths[paths], *kept.values(), *map(type, kept.values())] = kept
        return kept


_TEXTS_OF_EVENTS = ("watch", "namespace", "name", "uid", "owner", "owner_kind", "owner_version")
_VALUES_OF_EVENTS = ("fields", "numbers", "coarse", "selector", "labels")
_LISTS_OF_EVENTS = ("written", "needs", "dropped", "exposed", "finalizers")
_TEXTS_OF_REQUESTS = ("user", "verb", "group", "resource", "subresource", "namespace", "name")


class Contents:
    """Records sorted by subject. Feed it every record, in order; it keeps them, and what is equal in them once."""

    def __init__(self) -> None:
        self._opened: rec.Opened | None = None
        self.closed: rec.Closed | None = None
        self.last_at = 0
        self.phases: list[PhaseSpan] = []
        self.marks: list[rec.Mark] = []
        self.watches: dict[str, WatchStory] = {}
        self.owned: dict[str, Owned] = {}
        """UID → object, of those whose owner the recording knows, or that have none."""
        self.requests: list[rec.Request] = []
        self.faults: list[rec.FaultInjected] = []
        self.failures: list[rec.SourceFailed] = []
        self.reads: dict[str, list[rec.CpuRead]] = defaultdict(list)
        self.machine_reads: list[rec.MachineRead] = []
        self.seen: dict[tuple[str, int], rec.ProcessSeen] = {}
        """(process, pid) → when it was first measured under that name, and how old it was."""
        self.gone: dict[str, list[rec.ProcessGone]] = defaultdict(list)
        self.lines: list[rec.Lines] = []
        self.incidents: list[rec.Incident] = []
        self.stalls: dict[tuple[str, str, int], rec.Stalled] = {}
        """(process, kind, begin) → the stall with its last known length."""
        self.profiles: list[rec.ProfileTaken] = []
        self.checks: list[rec.CheckDeclared] = []
        self.ended: list[rec.TestEnded] = []
        self.metrics = MetricsHistory()
        self.clock = WallClock()
        self.doubts: list[str] = []
        """Problems of the replay, in words."""
        self._repeated = Repeated()
        self._engine = Engine()
        self._series: dict[str, dict[str, float]] = defaultdict(dict)
        self._served: dict[str, set[str]] = defaultdict(set)
        self._drafts: dict[str, PhaseSpan] = {}

    @property
    def opened(self) -> rec.Opened:
        """The header. Raises RecordingError when there is none."""
        if self._opened is None:
            raise RecordingError(
                "the recording holds no records",
                next_step="Its recorder ended before it wrote anything; see the run's log for why.",
            )
        return self._opened

    def feed(self, record: rec.AnyRecord) -> None:
        """Take in the next record."""
        if self.closed is None:
            # pytest's outcome of the teardown may follow the recording's end; it does not lengthen the recording.
            self.last_at = max(self.last_at, record.at)
        if isinstance(record, rec.ObjectSeen | rec.Request):
            self._repeated.share(record)
        self._replay(record)
        self.metrics.feed(record)
        match record:
            case rec.ObjectSeen():
                self._object(record)
            case rec.Request():
                self.requests.append(record)
            case rec.FaultInjected():
                self.faults.append(record)
            case rec.CpuRead():
                self._cpu(record)
            case rec.MachineRead():
                self._machine(record)
            case rec.Scraped():
                self._scraped(record)
            case rec.Opened():
                self._opened = record
            case (
                rec.PhaseStarted() | rec.PhaseEnded() | rec.MilestoneDeclared() | rec.MilestoneMet() | rec.LateObject()
            ):
                self._of_phase(record)
            case rec.WatchOpened():
                self.watches[record.watch] = WatchStory(record)
            case rec.WatchLive() | rec.WatchCut() | rec.WatchGap():
                self._of_watch(record)
            case rec.Mark():
                self.marks.append(record)
            case rec.SourceFailed():
                self.failures.append(record)
            case rec.ProcessSeen():
                self.seen[record.process, record.pid] = record
            case rec.ProcessGone():
                self.gone[record.process].append(record)
            case rec.Lines():
                self.lines.append(record)
            case rec.Incident():
                self.incidents.append(record)
            case rec.Stalled():
                self.stalls[record.process, record.kind, record.began] = record
            case rec.ProfileTaken():
                self.profiles.append(record)
            case rec.CheckDeclared():
                self.checks.append(record)
            case rec.TestEnded():
                self.ended.append(record)
            case rec.ClockStep():
                self.clock.add(record)
            case rec.Closed():
                self.closed = record
            case rec.TargetGone():
                self._series.pop(record.target, None)
                self._served.pop(record.target, None)
            case rec.TargetSeen():
                pass  # its scrapes carry the target

    def end_of(self, phase: PhaseSpan) -> int:
        """Return when a phase ended: at its first read of a CPU clock; at the recording's end if it did not end.

        The recorder's work after that read (scrapes, reading the audit log to its end) is not part of the phase.
        """
        if phase.ended is None:
            return max(self.last_at, phase.start)
        edges = [read.at for read in phase.cpu_end.values()]
        return max(phase.start, min(edges, default=phase.ended.at))

    def phase_at(self, at: int) -> str:
        """Return the name of the phase that was running at a moment; empty between phases."""
        last = self._begun_by(at)
        ended = last is not None and last.ended is not None and last.ended.at < at
        return last.name if last is not None and not ended else ""

    def phase_before(self, at: int) -> str:
        """Return the name of the last phase that had begun at a moment; empty before the first."""
        last = self._begun_by(at)
        return last.name if last is not None else ""

    def _begun_by(self, at: int) -> PhaseSpan | None:
        return next((phase for phase in reversed(self.phases) if phase.start <= at), None)

    def _open_or_next(self, name: str) -> PhaseSpan:
        """Return the phase of that name that is open, or the one that will start next."""
        if self.phases and self.phases[-1].name == name and self.phases[-1].ended is None:
            return self.phases[-1]
        return self._drafts.setdefault(name, PhaseSpan(name))

    def _last(self, name: str) -> PhaseSpan | None:
        return next((phase for phase in reversed(self.phases) if phase.name == name), None)

    def _of_phase(
        self, record: rec.PhaseStarted | rec.PhaseEnded | rec.MilestoneDeclared | rec.MilestoneMet | rec.LateObject
    ) -> None:
        phase = self._last(record.phase)
        match record:
            case rec.PhaseStarted():
                phase = self._drafts.pop(record.phase, PhaseSpan(record.phase))
                phase.started = record
                self.phases.append(phase)
            case rec.MilestoneDeclared():
                self._open_or_next(record.phase).declared[record.name] = record
            case _ if phase is None:
                return  # damaged: its begin is unknown
            case rec.PhaseEnded():
                phase.ended = phase.ended or record
            case rec.MilestoneMet():
                phase.met.setdefault(record.name, record)
            case rec.LateObject():
                phase.late.append(record)

    def _cpu(self, record: rec.CpuRead) -> None:
        self.reads[record.process].append(record)
        edge, _, name = record.edge.partition(":")
        if edge == "start":
            self._open_or_next(name).cpu_start[record.process] = record
        elif edge == "end" and (phase := self._last(name)) is not None:
            phase.cpu_end.setdefault(record.process, record)

    def _machine(self, record: rec.MachineRead) -> None:
        self.machine_reads.append(record)
        edge, _, name = record.edge.partition(":")
        if edge == "start":
            self._open_or_next(name).machine_start = record
        elif edge == "end" and (phase := self._last(name)) is not None:
            phase.machine_end = phase.machine_end or record

    def _scraped(self, record: rec.Scraped) -> None:
        series = self._series[record.target]
        for name in record.gone:
            series.pop(name, None)
        series.update((name, value) for name, value in record.samples.items() if self._keeps(name))
        served = self._served[record.target]
        served.difference_update(record.gone)
        served.update(record.samples, record.special)
        edge, _, name = record.edge.partition(":")
        if edge == "start":
            self._open_or_next(name).scrape_start[record.target] = Snapshot(record.at, dict(series), len(served))
        elif edge == "end" and (phase := self._last(name)) is not None:
            phase.scrape_end.setdefault(record.target, Snapshot(record.at, dict(series), len(served)))

    def _keeps(self, series: str) -> bool:
        declared = self._opened.reconciles if self._opened is not None else None
        return series.startswith(KEPT_SERIES) or reconcile_counters.is_kept(series.partition("{")[0], declared)

    def counts(self, phase: PhaseSpan) -> dict[str, int]:
        """Return milestone → count at the phase's end, or by now while it is open."""
        if phase.ended is not None:
            return phase.reached
        return {name: round(have) for name, (have, _) in self._engine.figures(phase.name, self.last_at).items()}

    def _replay(self, record: rec.AnyRecord) -> None:
        """Evaluate the conditions again: the recorder journals when one was met, not whether it held until the end."""
        if isinstance(record, rec.PhaseEnded) and (phase := self._last(record.phase)) is not None:
            self._engine.advance(record.at)
            for name, (have, _) in self._engine.figures(phase.name, record.at).items():
                phase.reached[name] = round(have)
                phase.held[name] = self._engine.holds(phase.name, name, record.at)
            for name in set(phase.reached) - set(self._engine.open_milestones(phase.name)) ^ set(phase.met):
                if name in phase.reached:
                    self.doubts.append(f"{phase.name}: the recorder and a replay of its events disagree about {name}")
        try:
            self._engine.feed(record)
        except GrovescaleError as error:
            self.doubts.append(error.message)

    def _of_watch(self, record: rec.WatchLive | rec.WatchCut | rec.WatchGap) -> None:
        story = self.watches.get(record.watch)
        match record:
            case _ if story is None:
                return
            case rec.WatchLive():
                story.live = story.live or record
            case rec.WatchCut():
                story.cuts.append(record)
            case rec.WatchGap():
                story.gaps.append(record)

    def _object(self, record: rec.ObjectSeen) -> None:
        story = self.watches.get(record.watch)
        if story is None:
            return
        story.objects[record.namespace, record.name].append(record)
        if record.owner is not None:
            resource = story.opened.spec.resource
            before = self.owned.get(record.uid)
            marked = before.marked if before is not None else 0
            self.owned[record.uid] = Owned(resource, record.namespace, record.name, record.owner, marked)
        if (one := self.owned.get(record.uid)) is not None:
            if record.change == "deleted":
                self.owned[record.uid] = one._replace(gone=record.at)
            elif not one.marked and record.fields.get("metadata.deletionTimestamp"):
                self.owned[record.uid] = one._replace(marked=record.at)
        if not record.initial:
            story.events += 1
        if record.change == "deleted":
            story.deletions.append(record.at)
