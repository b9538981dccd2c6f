"""Timeline of a recording: a few short series, small enough to plot whatever the size of the run.

Phases, milestones and marks at their times; objects of each watch over time; CPU and memory of each process and API
requests of each identity in equal bins. Times are seconds from the start of the recording.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby, pairwise

import msgspec

from ..recording.conditions import AVAILABLE_PATH, READY_PATH
from ..recording.records import CpuRead, IncidentKind, ObjectSeen
from .api_requests import counted, identity_of, roles
from .disruptions import incidents_of
from .metrics.summary import Curves, curves_of
from .phase_result import Clock, MarkResult, Outcome, PhaseResult
from .recording_index import Contents, PhaseSpan, WatchStory
from .result import TestResult

MAX_POINTS = 500
"""Of one count over time."""

MAX_BINS = 600
"""Bins are 1 s wide, as the reads are, and wider in recordings that are longer than this many seconds."""

_WIDTHS_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600)

STATES: dict[str, tuple[str, object]] = {
    "scheduled": ("spec.nodeName", None),
    "running": ("status.phase", "Running"),
    "succeeded": ("status.phase", "Succeeded"),
    "failed": ("status.phase", "Failed"),
    "ready": (READY_PATH, "True"),
    "available": (AVAILABLE_PATH, "True"),
    "deleting": ("metadata.deletionTimestamp", None),
}
"""State → (field, the value that it has in this state; None: any value), in the order of an object's life."""


class PhaseTime(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    outcome: Outcome
    start_s: float
    end_s: float


class MilestoneTime(msgspec.Struct, frozen=True, kw_only=True):
    """A milestone that was met."""

    phase: str
    name: str
    at_s: float
    """By the better of the available clocks."""
    clock: Clock


class MarkTime(msgspec.Struct, frozen=True, kw_only=True):
    """An action of the harness."""

    phase: str
    label: str
    start_s: float
    end_s: float | None = None
    """None for a moment, and for an action that had not ended when the recording did."""
    detail: str = ""


class IncidentTime(msgspec.Struct, frozen=True, kw_only=True):
    """An incident of the measured system."""

    at_s: float
    phase: str
    """The phase that was running; empty between phases."""
    kind: IncidentKind
    subject: str
    detail: str = ""


class Points(msgspec.Struct, frozen=True, kw_only=True):
    """A count over time, constant until the next point."""

    name: str
    at_s: tuple[float, ...]
    values: tuple[int, ...]


class ObjectCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Objects of one watch over time: how many exist, in which states, and how many were deleted."""

    watch: str
    """The resource, with the watch's selector where it has one."""
    series: tuple[Points, ...]


class Bins(msgspec.Struct, frozen=True, kw_only=True):
    """One value for each bin; None where nothing was measured."""

    name: str
    values: tuple[float | None, ...]


class RequestBins(msgspec.Struct, frozen=True, kw_only=True):
    """Requests per second that were answered in each bin."""

    identity: str
    verb: str
    values: tuple[float, ...]


class Timeline(msgspec.Struct, frozen=True, kw_only=True):
    """One recording over time."""

    seconds: float
    bin_s: float
    """Width of the bins; the n-th is from n × `bin_s` on."""
    phases: tuple[PhaseTime, ...] = ()
    milestones: tuple[MilestoneTime, ...] = ()
    marks: tuple[MarkTime, ...] = ()
    incidents: tuple[IncidentTime, ...] = ()
    objects: tuple[ObjectCounts, ...] = ()
    cores: tuple[Bins, ...] = ()
    """Of each process: CPU seconds per second."""
    rss_bytes: tuple[Bins, ...] = ()
    """Of each process: the peak in the bin; between two reads, the value of the first."""
    requests: tuple[RequestBins, ...] = ()
    """Empty where the audit log was not read."""
    metrics: tuple[Curves, ...] = ()


def timeline_of(contents: Contents, result: TestResult) -> Timeline:
    """Return a recording's timeline. ``result`` is of the same contents; its times are reused."""
    start = contents.opened.at
    seconds = (contents.last_at - start) / 1e9
    grid = _Grid(start, seconds)
    phases = list(zip(contents.phases, result.phases, strict=True))
    cores, rss = _processes(contents.reads, grid)
    return Timeline(
        seconds=round(seconds, 3),
        bin_s=grid.width_ns / 1e9,
        phases=tuple(_phase(span, phase, start) for span, phase in phases),
        milestones=tuple(_milestones(phases, start)),
        marks=tuple(_marks(phases, start)),
        incidents=tuple(
            IncidentTime(
                at_s=round((one.at - start) / 1e9, 3),
                phase=contents.phase_at(one.at),
                kind=one.kind,
                subject=one.subject,
                detail=one.detail,
            )
            for one in incidents_of(contents)
        ),
        objects=tuple(counts for story in contents.watches.values() if (counts := _objects(story, start)) is not None),
        cores=cores,
        rss_bytes=rss,
        requests=tuple(_requests(contents, grid)),
        metrics=curves_of(contents.metrics, start),
    )


class _Grid:
    """Equal bins from a recording's start to its end."""

    def __init__(self, start: int, seconds: float) -> None:
        width_s = next((width for width in _WIDTHS_S if seconds <= width * MAX_BINS), _WIDTHS_S[-1])
        self.start = start
        self.width_ns = width_s * 1_000_000_000
        self.bins = int(seconds // width_s) + 1

    def bin_of(self, at: int) -> int | None:
        """Return the bin that a moment lies in; None outside of the recording."""
        index = (at - self.start) // self.width_ns
        return index if 0 <= index < self.bins else None

    def spread(self, low: int, high: int) -> Iterator[tuple[int, float]]:
        """Yield (bin, share of the interval that lies in it); the interval lies within the recording."""
        for index in range((low - self.start) // self.width_ns, (high - 1 - self.start) // self.width_ns + 1):
            begin = self.start + index * self.width_ns
            inside = min(high, begin + self.width_ns) - max(low, begin)
            if 0 <= index < self.bins:
                yield index, inside / (high - low)


def _phase(span: PhaseSpan, phase: PhaseResult, start: int) -> PhaseTime:
    began = (span.start - start) / 1e9
    return PhaseTime(
        name=phase.name, outcome=phase.outcome, start_s=round(began, 3), end_s=round(began + phase.seconds, 3)
    )


def _milestones(phases: Iterable[tuple[PhaseSpan, PhaseResult]], start: int) -> Iterator[MilestoneTime]:
    for span, phase in phases:
        for milestone in phase.milestones:
            if milestone.met and (after := milestone.seconds) is not None:
                at = (span.start - start) / 1e9 + after
                yield MilestoneTime(phase=phase.name, name=milestone.name, at_s=round(at, 3), clock=milestone.clock)


def _marks(phases: Iterable[tuple[PhaseSpan, PhaseResult]], start: int) -> Iterator[MarkTime]:
    for span, phase in phases:
        for mark in phase.marks:
            yield _mark(mark, phase.name, (span.start - start) / 1e9)


def _mark(mark: MarkResult, phase: str, began: float) -> MarkTime:
    return MarkTime(
        phase=phase,
        label=mark.label,
        start_s=round(began + mark.started_s, 3),
        end_s=None if mark.ended_s is None else round(began + mark.ended_s, 3),
        detail=mark.detail,
    )


# ---- objects


def _objects(story: WatchStory, start: int) -> ObjectCounts | None:
    """Return the counts of one watch; None for one that never saw an object."""
    changes: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for events in story.objects.values():
        for name, at, change in _changes(events, story.opened.spec.fields):
            changes[name].append((at, change))
    if not changes:
        return None
    spec = story.opened.spec
    chosen = ", ".join(part for part in (spec.label_selector, spec.field_selector) if part)
    order = ["existing", *STATES, "gone"]
    return ObjectCounts(
        watch=f"{spec.resource} ({chosen})" if chosen else spec.resource,
        series=tuple(_counted(name, changes[name], story.opened.at, start) for name in order if name in changes),
    )


def _changes(events: Sequence[ObjectSeen], fields: Sequence[str]) -> Iterator[tuple[str, int, int]]:
    """Yield (state, when, +1 or -1) for one object's events."""
    before: set[str] = set()
    for event in events:
        now = states_of(event, fields)
        for name in now - before:
            yield name, event.at, 1
        for name in before - now:
            yield name, event.at, -1
        if event.change == "deleted":
            yield "gone", event.at, 1
        before = now


def states_of(event: ObjectSeen, fields: Sequence[str]) -> set[str]:
    """Return the states that an object is in after an event; ``fields``: those that its watch keeps."""
    if event.change == "deleted":
        return set()
    states = {"existing"}
    for name, (path, expected) in STATES.items():
        value = event.fields.get(path) if path in fields else None
        if value is not None and value != "" and (expected is None or value == expected):
            states.add(name)
    return states


def _counted(name: str, changes: list[tuple[int, int]], opened: int, start: int) -> Points:
    """Return a count from the moment its watch was opened, thinned."""
    points = [(round((opened - start) / 1e9, 3), 0)]
    changes.sort()
    for at, group in groupby(changes, key=lambda change: round((change[0] - start) / 1e9, 3)):
        points.append((at, points[-1][1] + sum(change for _, change in group)))
    kept = thinned(points)
    return Points(name=name, at_s=tuple(at for at, _ in kept), values=tuple(value for _, value in kept))


def thinned(points: Sequence[tuple[float, int]], limit: int = MAX_POINTS) -> list[tuple[float, int]]:
    """Return at most ``limit`` (≥ 4) of the points, sorted by time: with the first, last, lowest and highest.

    The time is cut into equal columns; of each its first, last, lowest and highest point stay, so that a chart that is
    no wider than that shows the same line (M4: Jugel et al., "M4: A Visualization-Oriented Time Series Data
    Aggregation", VLDB 2014).
    """
    if len(points) <= limit:
        return list(points)
    columns = limit // 4
    low, high = points[0][0], points[-1][0]
    scale = columns / (high - low) if high > low else 0.0
    kept: list[tuple[float, int]] = []
    for _, group in groupby(points, key=lambda point: min(columns - 1, int((point[0] - low) * scale))):
        kept += _corners(list(group))
    return kept


def _corners(column: Sequence[tuple[float, int]]) -> list[tuple[float, int]]:
    by_value = range(len(column))
    lowest = min(by_value, key=lambda index: column[index][1])
    highest = max(by_value, key=lambda index: column[index][1])
    return [column[index] for index in sorted({0, lowest, highest, len(column) - 1})]


# ---- processes and requests


def _processes(reads: Mapping[str, Sequence[CpuRead]], grid: _Grid) -> tuple[tuple[Bins, ...], tuple[Bins, ...]]:
    """Return cores and memory of each process, by CPU, highest first."""
    cores = {process: _cores(of_process, grid) for process, of_process in reads.items()}
    order = sorted(cores, key=lambda process: (-sum(value or 0.0 for value in cores[process]), process))
    return (
        tuple(Bins(name=process, values=tuple(cores[process])) for process in order),
        tuple(Bins(name=process, values=tuple(_rss(reads[process], grid))) for process in order),
    )


def _cores(reads: Sequence[CpuRead], grid: _Grid) -> list[float | None]:
    """Return CPU seconds per second in each bin, interpolated evenly between two reads."""
    used_ns = [0.0] * grid.bins
    covered = [0.0] * grid.bins
    for before, after in pairwise(reads):
        if before.pid != after.pid or after.at <= before.at:
            continue
        for index, share in grid.spread(before.at, after.at):
            used_ns[index] += share * (after.cpu_ns - before.cpu_ns)
            covered[index] += share * (after.at - before.at)
    return [round(used / time, 4) if time else None for used, time in zip(used_ns, covered, strict=True)]


def _rss(reads: Sequence[CpuRead], grid: _Grid) -> list[float | None]:
    """Return the peak memory in each bin; between two reads of one process, the value of the first."""
    peaks: list[float | None] = [None] * grid.bins
    for before, after in pairwise([*reads, reads[-1]]):
        last = grid.bin_of(after.at) if before.pid == after.pid else grid.bin_of(before.at)
        first = grid.bin_of(before.at)
        if first is not None and last is not None:
            for index in range(first, last + 1):
                peaks[index] = max(peaks[index] or 0.0, float(before.rss_bytes))
    return peaks


def _requests(contents: Contents, grid: _Grid) -> Iterator[RequestBins]:
    """Yield requests per second by identity and verb, most requests first."""
    names = roles(contents.opened.identities)
    bins: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0] * grid.bins)
    for request in contents.requests:
        answered = request.completed_wall - contents.clock.offset(request.at)
        if counted(request) and (index := grid.bin_of(answered)) is not None:
            bins[identity_of(request.user, names), request.verb][index] += 1
    for (identity, verb), values in sorted(bins.items(), key=lambda item: (-sum(item[1]), item[0])):
        per_second = tuple(round(value * 1e9 / grid.width_ns, 3) for value in values)
        yield RequestBins(identity=identity, verb=verb, values=per_second)
