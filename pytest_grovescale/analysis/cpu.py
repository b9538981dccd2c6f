"""CPU time and memory of each measured process in a phase: by its exact CPU clock, or by the metrics it serves.

For a process without a clock on this machine, its own metrics are used: an operator that runs as a pod on another
machine's node is one of them. Its counter is read a little before the phase and a little after it, in ticks; the result
contains its possible error. Between any two moments: by the reads of the clocks about a second apart.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import pairwise
from operator import attrgetter
from typing import NamedTuple

from ..recording.records import CpuRead
from .metrics.counters import PROCESS_START, Lifetime, growth_within, process_lifetimes, values_within
from .metrics.history import TargetHistory
from .phase_result import CpuResult
from .reconciles import why_not_scraped
from .recording_index import Contents, PhaseSpan
from .result import OPERATOR

API_SERVER = "kube-apiserver"
_GOMAXPROCS = "apiserver_gomaxprocs"


class Window(NamedTuple):
    """Two moments, ns of the recorder's clock."""

    low: int
    high: int

    @property
    def ns(self) -> int:
        return max(0, self.high - self.low)


class Demand(NamedTuple):
    """CPU demand of one process in a window, seconds of all its threads together."""

    used_s: float
    """On a core."""
    waiting_s: float | None
    """Runnable without a core; None where that was not measured."""

    def plus(self, other: Demand) -> Demand:
        """Return the demand of two processes together; a wait that was not measured counts as 0."""
        waited = [part for part in (self.waiting_s, other.waiting_s) if part is not None]
        return Demand(self.used_s + other.used_s, sum(waited) if waited else None)


def demands(reads: Sequence[CpuRead], windows: Sequence[Window]) -> list[Demand]:
    """Return the demand of a process in each window; between two reads of one pid it is interpolated evenly.

    ``windows`` follow each other without gaps.
    """
    used, waiting = [0.0] * len(windows), [0.0] * len(windows)
    known = [False] * len(windows)
    lows = [window.low for window in windows]
    # Of a test with many phases each looks at its own.
    first = bisect_left(reads, lows[0], key=attrgetter("at")) if lows else 0
    last = bisect_right(reads, windows[-1].high, key=attrgetter("at")) if lows else 0
    for before, after in pairwise(reads[max(0, first - 1) : last + 1]):
        if before.pid != after.pid or after.at <= before.at:
            continue
        for index in range(max(0, bisect_right(lows, before.at) - 1), bisect_left(lows, after.at)):
            window = windows[index]
            share = max(0, min(after.at, window.high) - max(before.at, window.low)) / (after.at - before.at)
            used[index] += (after.cpu_ns - before.cpu_ns) / 1e9 * share
            if share > 0 and before.waiting_ns is not None and after.waiting_ns is not None:
                waiting[index] += (after.waiting_ns - before.waiting_ns) / 1e9 * share
                known[index] = True
    return [
        Demand(on_core, waited if measured else None)
        for on_core, waited, measured in zip(used, waiting, known, strict=True)
    ]


def windows_of(contents: Contents, phase: PhaseSpan, process: str) -> list[Window]:
    """Return the phase split at the reads of a process's CPU clock; empty when they don't span it.

    The reads at its edges may lie a little outside: the first window begins, and the last ends, with the phase.
    """
    start, end = phase.start, contents.end_of(phase)
    first, last = phase.cpu_start.get(process), phase.cpu_end.get(process)
    if first is None or last is None or first.pid != last.pid or end <= start:
        return []
    inside = sorted({read.at for read in contents.reads[process] if start < read.at < end})
    return [Window(low, high) for low, high in pairwise([start, *inside, end])]


def api_server_seconds(contents: Contents, phase: PhaseSpan) -> float | None:
    """Return how long the API server was CPU-bound, as if it had used all CPU available to it or none at a time.

    Available is what the other measured processes left of the cores, or its GOMAXPROCS. None when its clock was not
    read.
    """
    windows = windows_of(contents, phase, API_SERVER)
    if not windows:
        return None
    cores = contents.opened.machine.cores
    threads = float(contents.opened.cluster.get(_GOMAXPROCS) or cores)
    used = {name: demands(reads, windows) for name, reads in contents.reads.items()}
    own = used.pop(API_SERVER)
    total = 0.0
    for index, window in enumerate(windows):
        seconds, mine = window.ns / 1e9, own[index].used_s
        possible = min(threads * seconds, cores * seconds - sum(others[index].used_s for others in used.values()))
        total += min(seconds, seconds * mine / possible if possible > mine else seconds)
    return total


CPU = "process_cpu_seconds_total"

RSS = "process_resident_memory_bytes"

REPLICAS = "replica/"
"""Prefix of the targets of an operator's single pods, where it has several."""

COUNTER_S = 0.02
"""Error of a difference of two values of the counter: user and system time, each in whole ticks of 10 ms, as in
/proc/PID/stat (proc(5); the client libraries of Go and Python read them there)."""

_S = 1e9


def cpu_of_phase(contents: Contents, phase: PhaseSpan) -> tuple[tuple[CpuResult, ...], dict[str, str]]:
    """Return a row per process that was read in the phase, by CPU, and why others have none (``cpu:<process>``)."""
    rows, missing = scraped_cpu_of_phase(contents, phase)
    for process, reads in contents.reads.items():
        window = _window(contents, phase, process, reads)
        if (row := _row(contents, phase, process, window)) is not None:
            rows.append(row)
        elif window or (reads and reads[0].at <= contents.end_of(phase)):
            missing[f"cpu:{process}"] = _why(contents, phase, process)
    for failure in contents.failures:
        kind, _, process = failure.source.partition(":")
        if kind == "cpu" and process not in contents.reads and failure.at <= contents.end_of(phase):
            missing[failure.source] = failure.message
    rows.sort(key=lambda row: (-row.seconds, row.process))
    return tuple(rows), missing


def _window(contents: Contents, phase: PhaseSpan, process: str, reads: Sequence[CpuRead]) -> list[CpuRead]:
    """Return a process's reads from its read at the phase's start to the one at its end, both included."""
    start, end = phase.cpu_start.get(process), phase.cpu_end.get(process)
    edges = ("", f"start:{phase.name}", f"end:{phase.name}")
    low = start.at if start is not None else phase.start
    high = end.at if end is not None else contents.end_of(phase)
    return [read for read in reads if low <= read.at <= high and read.edge in edges]


def _row(contents: Contents, phase: PhaseSpan, process: str, window: Sequence[CpuRead]) -> CpuResult | None:
    use = _use(contents, phase, process, window)
    if use is None:
        return None
    pids = list(dict.fromkeys(read.pid for read in window))
    peaks = [max(read.peak_rss_bytes, read.rss_bytes) for read in window]
    return CpuResult(
        process=process,
        seconds=use.seconds,
        lower_bound=use.lower_bound or _ended_in(contents, phase, process),
        window_s=use.window_s,
        cores=use.seconds / use.window_s if use.window_s > 0 else 0.0,
        rss_bytes=window[-1].rss_bytes,
        peak_rss_bytes=max(peaks),
        restarts=len(pids) - 1,
        waiting_s=use.waiting_s,
    )


def _use(contents: Contents, phase: PhaseSpan, process: str, window: Sequence[CpuRead]) -> _Use | None:
    """Sum the segments of each pid; None when the reads say nothing about the phase.

    A pid that follows another one in the phase was started in it, and its clock counts in full; but for a replica that
    takes over and has run before: that counts from its first read on.
    """
    if not window:
        return None
    start, end = phase.cpu_start.get(process), phase.cpu_end.get(process)
    whole = start is not None and end is not None and start.pid == end.pid
    total_ns, followed = 0, start is not None
    waiting: list[int | None] = []
    for index, pid in enumerate(dict.fromkeys(read.pid for read in window)):
        mine = [read for read in window if read.pid == pid]
        began_here = index > 0 and followed and _started_in(contents, phase, process, pid)
        total_ns += mine[-1].cpu_ns - (0 if began_here else mine[0].cpu_ns)
        waiting.append(_waited(mine))
    if len(window) < 2:
        return None
    known = [ns for ns in waiting if ns is not None]
    return _Use(
        total_ns / _S,
        not whole,
        (window[-1].at - window[0].at) / _S,
        sum(known) / _S if len(known) == len(waiting) else None,
    )


def _waited(reads: Sequence[CpuRead]) -> int | None:
    """Return how long one pid was runnable without a core from its first read to its last, ns."""
    first, last = reads[0].waiting_ns, reads[-1].waiting_ns
    return None if first is None or last is None else last - first


def _started_in(contents: Contents, phase: PhaseSpan, process: str, pid: int) -> bool:
    seen = contents.seen.get((process, pid))
    return seen is None or seen.at - seen.ran_ns >= phase.start


def _ended_in(contents: Contents, phase: PhaseSpan, process: str) -> bool:
    return any(phase.start <= gone.at <= contents.end_of(phase) for gone in contents.gone.get(process, ()))


def _why(contents: Contents, phase: PhaseSpan, process: str) -> str:
    end = contents.end_of(phase)
    failed = [f for f in contents.failures if f.source == f"cpu:{process}" and f.at <= end]
    if failed:
        return failed[-1].message
    if any(gone.at <= end for gone in contents.gone.get(process, ())):
        return f"{process} had ended"
    return "its CPU clock was not read at both edges of the phase"


def scraped_cpu_of_phase(contents: Contents, phase: PhaseSpan) -> tuple[list[CpuResult], dict[str, str]]:
    """Return a row for each target that serves its CPU time and memory and has no clock, and why others have none."""
    rows: list[CpuResult] = []
    missing: dict[str, str] = {}
    for name, target in contents.metrics.targets.items():
        if contents.reads.get(name) or not target.moments or target.moments[0].at > contents.end_of(phase):
            continue
        if lacking := [family for family in (CPU, RSS) if family not in target.series]:
            missing[f"cpu:{name}"] = f"its clock cannot be read, and its metrics have no {' and no '.join(lacking)}"
        elif _leads(contents, target):
            continue
        elif (row := _scraped_row(contents, phase, target)) is not None:
            rows.append(row)
        else:
            start, end = phase.scrape_start.get(name), phase.scrape_end.get(name)
            missing[f"cpu:{name}"] = why_not_scraped(contents, phase, name, start, end)
    return rows, missing


def _leads(contents: Contents, target: TargetHistory) -> bool:
    """Return whether a replica's target is the operator's own, too: it leads, and has a row as the operator."""
    operator = contents.metrics.targets.get(OPERATOR)
    if operator is None or not operator.moments or not target.target.startswith(REPLICAS):
        return False
    born = [of.value(PROCESS_START, len(of.moments) - 1) for of in (operator, target)]
    return None not in born and born[0] == born[1]


def _scraped_row(contents: Contents, phase: PhaseSpan, target: TargetHistory) -> CpuResult | None:
    start, end = phase.scrape_start.get(target.target), phase.scrape_end.get(target.target)
    low = start.at if start is not None else phase.start
    high = end.at if end is not None else contents.end_of(phase)
    inside = [
        scrape
        for scrape, moment in enumerate(target.moments)
        if low <= moment.at <= high and None not in (target.value(CPU, scrape), target.value(RSS, scrape))
    ]
    if len(inside) < 2:
        return None
    lifetimes = process_lifetimes(target, inside, CPU)
    first, last = target.moments[inside[0]], target.moments[inside[-1]]
    seconds, window_s = growth_within(target, CPU, lifetimes), (last.at - first.at) / 1e9
    cores = seconds / window_s if window_s > 0 else 0.0
    beyond_s = max(0.0, window_s + first.took_ns / 1e9 - (contents.end_of(phase) - phase.start) / 1e9)
    memory = [value for life in lifetimes for value in values_within(target, RSS, life)]
    return CpuResult(
        process=target.target,
        source="scrape",
        seconds=seconds,
        # Upper bound for most programs: as busy as in the phase, and one core at least.
        resolution_s=COUNTER_S + beyond_s * max(1.0, cores),
        lower_bound=len(lifetimes) > 1 or start is None or end is None,
        window_s=window_s,
        cores=cores,
        rss_bytes=round(memory[-1]),
        peak_rss_bytes=round(max(memory)),
        rss_resolution_bytes=_largest_step(target, lifetimes),
        restarts=len(lifetimes) - 1,
    )


def _largest_step(target: TargetHistory, lifetimes: Sequence[Lifetime]) -> int:
    """Return the largest change of memory from one scrape of a process to its next, bytes."""
    steps = (abs(after - before) for life in lifetimes for before, after in pairwise(values_within(target, RSS, life)))
    return round(max(steps, default=0.0))


class _Use(NamedTuple):
    seconds: float
    lower_bound: bool
    window_s: float
    waiting_s: float | None
