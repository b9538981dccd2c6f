"""CPU time and memory of each measured process in a phase: differences of its exact CPU clock at the phase's edges.

For a process without a clock on this machine, its own metrics are used; see `scraped_cpu`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..recording.records import CpuRead
from .contents import Contents, PhaseSpan
from .result import CpuResult
from .scraped_cpu import scraped_cpu_of_phase

_S = 1e9


class _Use(NamedTuple):
    seconds: float
    lower_bound: bool
    window_s: float
    waiting_s: float | None


def cpu_of_phase(contents: Contents, phase: PhaseSpan) -> tuple[tuple[CpuResult, ...], dict[str, str]]:
    """Return a row per process that was read in the phase, by CPU, and why others have none (``cpu:<process>``)."""
    rows, missing = scraped_cpu_of_phase(contents, phase)
    for process, reads in contents.reads.items():
        window = _window(contents, phase, process, reads)
        if (row := _row(contents, phase, process, window)) is not None:
            rows.append(row)
        elif window or _began_before(reads, contents.end_of(phase)):
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
    low = start.at if start is not None else phase.start
    high = end.at if end is not None else contents.end_of(phase)
    return [read for read in reads if low <= read.at <= high and read.edge in ("", *_edges(phase))]


def _edges(phase: PhaseSpan) -> tuple[str, str]:
    return f"start:{phase.name}", f"end:{phase.name}"


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


def _began_before(reads: Sequence[CpuRead], at: int) -> bool:
    return bool(reads) and reads[0].at <= at


def _why(contents: Contents, phase: PhaseSpan, process: str) -> str:
    end = contents.end_of(phase)
    failed = [f for f in contents.failures if f.source == f"cpu:{process}" and f.at <= end]
    if failed:
        return failed[-1].message
    if any(gone.at <= end for gone in contents.gone.get(process, ())):
        return f"{process} had ended"
    return "its CPU clock was not read at both edges of the phase"
