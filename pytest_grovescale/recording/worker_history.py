"""Activity of an operator's workers, from its own metrics and its CPU clock: at each scrape, and over several.

The metrics are those of controller-runtime (``controller_runtime_active_workers``, ``…_max_concurrent_reconciles``) and
of client-go's work queues (``workqueue_*``). An operator that serves only the queues' metrics is judged by these: keys
wait in a queue only while every worker is busy.

The recorder uses this during scrapes, the analysis afterwards; both give the same result.
"""

from __future__ import annotations

import bisect
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import msgspec

from ..exposition.families import parse
from .records import STACKS, AnyRecord, CpuRead, Lines, PhaseEnded, PhaseStarted, Scraped, SourceFailed

_FIELDS = {
    "controller_runtime_active_workers": "active",
    "controller_runtime_max_concurrent_reconciles": "workers",
    "workqueue_depth": "depth",
    "workqueue_unfinished_work_seconds": "unfinished_s",
    "workqueue_longest_running_processor_seconds": "longest_s",
    "workqueue_work_duration_seconds_sum": "worked_s",
    "workqueue_work_duration_seconds_count": "worked",
}
_NAMES = tuple(_FIELDS)
_ALWAYS = frozenset(("unfinished_s", "longest_s"))
"""What every work queue serves from the start; the others may be absent until there is something to count."""


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """The worker metrics of one controller at one scrape."""

    at: int
    """Recorder's clock, ns."""
    phase: str
    """The phase that the scrape belongs to, edges included; empty between phases."""
    active: float | None = None
    workers: float | None = None
    """Both are None where the operator serves only its queues' metrics."""
    unfinished_s: float
    """Total time spent so far on all work in progress."""
    longest_s: float
    """Time spent so far on the oldest work in progress."""
    depth: float = 0.0
    """Keys that wait for a worker, of all priorities."""
    worked_s: float = 0.0
    """Total time spent on all finished work."""
    worked: float = 0.0
    """Number of finished work items."""


def is_used(series: str) -> bool:
    """Return whether readings may use a series."""
    return series.startswith(_NAMES)


def readings_of(samples: Mapping[str, float], *, at: int, phase: str) -> dict[str, Reading]:
    """Return the reading of each controller, or of each work queue, by name, from the samples of one scrape."""
    found: dict[str, dict[str, float]] = defaultdict(dict)
    for text, value in samples.items():
        series = parse(text)
        field = _FIELDS.get(series.name)
        if field is not None:
            fields = found[series.labels.get("name") or series.labels.get("controller", "")]
            # A queue's depth has a series for each priority.
            fields[field] = fields.get(field, 0.0) + value
    return {name: Reading(at=at, phase=phase, **fields) for name, fields in found.items() if fields.keys() >= _ALWAYS}


ACTIVE_SHARE = 0.95
"""Share of busy workers from which all count as busy."""

CORES_PER_WORKER = 0.05
"""A worker that waits uses less than this share of a core; one that computes, much more."""

MIN_SCRAPES = 3
"""Minimum number of scrapes in a window: two do not show what happens between them."""


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """One controller over several scrapes. `analysis.controller_result.WorkerRow` defines the figures."""

    active_share: float | None
    unfinished_growth: float
    busy_workers: float
    finished_per_s: float
    cores_per_worker: float | None
    """None where the operator's CPU time is unknown, or no worker was busy."""
    depth_first: float
    depth_last: float
    depth_min: float
    longest_s: float
    """Value at the last scrape."""


class Spell(msgspec.Struct, frozen=True, kw_only=True):
    """A period in which a controller's workers were blocked."""

    start: int
    """Recorder's clock, ns."""
    end: int
    starved: bool
    """Whether no work was finished in the period."""


def blocked(window: Window, longest: float) -> bool:
    """Return whether the workers waited inside reconciles while keys waited for a worker.

    True when all workers are busy with reconciles of more than ``longest`` seconds; keys wait, and their number does
    not decrease, or only as fast as such reconciles allow (Little's law: a worker is held for busy /
    finished-per-second seconds on average); and no worker computes. CPU time is that of the whole operator: while
    another of its controllers computes, a wait cannot be distinguished from work.
    """
    if window.cores_per_worker is None or window.cores_per_worker >= CORES_PER_WORKER:
        return False
    if window.active_share is not None and window.active_share < ACTIVE_SHARE:
        return False
    falls = window.depth_last < window.depth_first
    held_long = window.busy_workers > longest * window.finished_per_s
    return window.depth_min > 0 and window.longest_s > longest and (held_long or not falls)


def window(readings: Sequence[Reading], cpu: CpuTimes) -> Window | None:
    """Return the figures of a controller from the first of its readings to the last.

    None where no time lies between the two, or a counter was reset: the operator was restarted.
    """
    first, last = readings[0], readings[-1]
    seconds = (last.at - first.at) / 1e9
    if seconds <= 0 or _restarted(readings):
        return None
    growth = (last.unfinished_s - first.unfinished_s) / seconds
    busy = (last.worked_s - first.worked_s) / seconds + growth
    cores = cpu.cores(first.at, last.at)
    return Window(
        active_share=_active_share(readings),
        unfinished_growth=growth,
        busy_workers=busy,
        finished_per_s=(last.worked - first.worked) / seconds,
        cores_per_worker=cores / busy if cores is not None and busy > 0 else None,
        depth_first=first.depth,
        depth_last=last.depth,
        depth_min=min(reading.depth for reading in readings),
        longest_s=last.longest_s,
    )


def blocked_now(readings: Sequence[Reading], cpu: CpuTimes, longest: float) -> bool:
    """Return whether a controller's workers are blocked at the last of its readings."""
    start = _start(readings, len(readings) - 1, longest)
    return start is not None and _blocked(readings[start:], cpu, longest)


def spells(readings: Sequence[Reading], cpu: CpuTimes, longest: float) -> list[Spell]:
    """Return the periods in which a controller's workers were blocked, by its readings in one phase.

    Joins blocked windows with what lies between and before them where the whole is blocked, too: right after one wait
    ended and the next began, no reconcile has run for long, and the worker is as busy as before.
    """
    spans: list[tuple[int, int]] = []
    for end in range(len(readings)):
        start = _start(readings, end, longest)
        if start is None or not _blocked(readings[start : end + 1], cpu, longest):
            continue
        if spans and _blocked(readings[spans[-1][0] : end + 1], cpu, longest):
            spans[-1] = spans[-1][0], end
            continue
        earliest = spans[-1][1] if spans else 0
        while start > earliest and _blocked(readings[start - 1 : end + 1], cpu, longest):
            start -= 1
        spans.append((max(start, earliest), end))
    return [_spell(readings[start], readings[end]) for start, end in spans]


def _start(readings: Sequence[Reading], end: int, longest: float) -> int | None:
    """Return the start index of the window that ends at a reading: ``longest`` seconds earlier, with enough readings.

    None where there is no such window, or it would reach into another phase.
    """
    if end < MIN_SCRAPES - 1:
        return None
    start = bisect.bisect_right(readings, readings[end].at - longest * 1e9, key=lambda reading: reading.at) - 1
    start = min(start, end - MIN_SCRAPES + 1)
    return start if start >= 0 and readings[start].phase == readings[end].phase else None


def _blocked(readings: Sequence[Reading], cpu: CpuTimes, longest: float) -> bool:
    found = window(readings, cpu)
    return found is not None and blocked(found, longest)


def _spell(first: Reading, last: Reading) -> Spell:
    return Spell(start=first.at, end=last.at, starved=first.worked == last.worked)


def _active_share(readings: Sequence[Reading]) -> float | None:
    shares = [r.active / r.workers for r in readings if r.active is not None and r.workers]
    return sum(shares) / len(shares) if len(shares) == len(readings) >= MIN_SCRAPES else None


def _restarted(readings: Sequence[Reading]) -> bool:
    return any(after.worked < before.worked or after.worked_s < before.worked_s for before, after in pairwise(readings))


class CpuMoment(NamedTuple):
    """The operator's CPU time at a moment."""

    at: int
    """Recorder's clock, ns."""
    cpu_s: float
    life: int = 0
    """Pid of the process; 0 for the operator's own metric."""


class CpuTimes:
    """Both sources, ordered by time."""

    def __init__(self) -> None:
        self.clock: list[CpuMoment] = []
        """Reads of the process' CPU clock."""
        self.scraped: list[CpuMoment] = []
        """``process_cpu_seconds_total`` of its scrapes."""

    def known(self) -> bool:
        """Return whether the operator's CPU time is known."""
        return bool(self.clock or self.scraped)

    def cores(self, start: int, end: int) -> float | None:
        """Return how many cores the operator kept busy between two moments, ns; None where its CPU time is unknown.

        Uses the last read before each moment: all that is known when a scrape arrives.
        """
        for moments in (self.clock, self.scraped):
            first, last = _by(moments, start), _by(moments, end)
            if first is None or last is None or first.life != last.life or last.at <= first.at:
                continue
            if last.cpu_s >= first.cpu_s:
                return (last.cpu_s - first.cpu_s) / ((last.at - first.at) / 1e9)
        return None


def _by(moments: Sequence[CpuMoment], at: int) -> CpuMoment | None:
    position = bisect.bisect_right(moments, at, key=lambda moment: moment.at)
    return moments[position - 1] if position else None


OPERATOR = "operator"
"""Name of the scraped target, and of the process whose CPU clock and stacks are used."""

_PROCESS_CPU = "process_cpu_seconds_total"


class Dump(msgspec.Struct, frozen=True):
    """The operator's stacks at a moment."""

    at: int
    """Recorder's clock, ns."""
    phase: str
    lines: list[str]
    """Stacks as printed; empty where they are not available."""
    failure: str = ""


class WorkerHistory:
    """Readings, CPU times and stack dumps; feed it every record, in order."""

    def __init__(self) -> None:
        self.readings: dict[str, list[Reading]] = defaultdict(list)
        """By controller, or by work queue, which has its name."""
        self.cpu = CpuTimes()
        self.scrapes: list[tuple[int, str]] = []
        """Time and phase of each scrape, including those without worker metrics."""
        self.dumps: list[Dump] = []
        self.started: dict[str, int] = {}
        """When each phase began, ns."""
        self._phase = ""
        self._samples: dict[str, float] = {}

    def feed(self, record: AnyRecord) -> None:
        """Process the next record."""
        match record:
            case Scraped(target=target) if target == OPERATOR:
                self._scraped(record)
            case CpuRead(process=process) if process == OPERATOR:
                self.cpu.clock.append(CpuMoment(record.at, record.cpu_ns / 1e9, record.pid))
            case Lines(source=source) if source == STACKS + OPERATOR:
                self.dumps.append(Dump(record.at, self._phase, record.lines))
            case SourceFailed(source=source) if source == STACKS + OPERATOR:
                self.dumps.append(Dump(record.at, self._phase, [], record.message))
            case PhaseStarted():
                self._phase = record.phase
                self.started[record.phase] = record.at
            case PhaseEnded():
                self._phase = ""

    def forget(self, longest: float) -> None:
        """Drop what `blocked_now` no longer needs to find waits of up to ``longest`` seconds."""
        earliest: list[int] = []
        for readings in filter(None, self.readings.values()):
            begin = bisect.bisect_right(readings, readings[-1].at - longest * 1e9, key=lambda reading: reading.at) - 1
            del readings[: max(0, min(begin, len(readings) - MIN_SCRAPES))]
            earliest.append(readings[0].at)
        for moments in filter(None, (self.cpu.clock, self.cpu.scraped)):
            # A window's CPU time begins with the last read before it.
            before = min(earliest, default=moments[-1].at)
            del moments[: max(0, bisect.bisect_right(moments, before, key=lambda moment: moment.at) - 1)]
        self.scrapes.clear()
        self.started.clear()

    def of_phase(self, controller: str, phase: str) -> list[Reading]:
        """Return a controller's readings in a phase, its edges included."""
        return [reading for reading in self.readings.get(controller, ()) if reading.phase == phase]

    def _scraped(self, record: Scraped) -> None:
        for series in record.gone:
            self._samples.pop(series, None)
        for series, value in record.samples.items():
            if is_used(series) or series == _PROCESS_CPU:
                self._samples[series] = value
        _, _, of_edge = record.edge.partition(":")
        phase = of_edge or self._phase
        self.scrapes.append((record.at, phase))
        if _PROCESS_CPU in self._samples:
            self.cpu.scraped.append(CpuMoment(record.at, self._samples[_PROCESS_CPU]))
        for controller, reading in readings_of(self._samples, at=record.at, phase=phase).items():
            self.readings[controller].append(reading)
