"""CPU time between any two moments, from reads about a second apart; and who had the CPU in a phase."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from ...recording.records import CpuRead
from ..contents import Contents, PhaseSpan

API_SERVER = "kube-apiserver"
_GOMAXPROCS = "apiserver_gomaxprocs"


class Window(NamedTuple):
    """Two moments, ns of the recorder's clock."""

    low: int
    high: int

    @property
    def ns(self) -> int:
        return max(0, self.high - self.low)


def used_ns(reads: Sequence[CpuRead], window: Window) -> float:
    """Return the CPU time of a process in a window; between two reads of one pid its use is taken as even."""
    return sum(
        (after.cpu_ns - before.cpu_ns) * share
        for before, after in pairwise(reads)
        if (share := _share(before, after, window)) > 0
    )


def waiting_ns(reads: Sequence[CpuRead], window: Window) -> float | None:
    """Return how long a process's threads were runnable without a core in a window, all together.

    None where that was not measured.
    """
    found = [
        (after.waiting_ns - before.waiting_ns) * share
        for before, after in pairwise(reads)
        if (share := _share(before, after, window)) > 0
        and before.waiting_ns is not None
        and after.waiting_ns is not None
    ]
    return sum(found) if found else None


def _share(before: CpuRead, after: CpuRead, window: Window) -> float:
    """Return how much of the time between two reads of one pid lies in a window."""
    if before.pid != after.pid or after.at <= before.at:
        return 0.0
    return max(0, min(after.at, window.high) - max(before.at, window.low)) / (after.at - before.at)


def windows_of(contents: Contents, phase: PhaseSpan, process: str) -> list[Window]:
    """Return the phase cut at the reads of a process's CPU clock; empty when they don't span it.

    The reads at its edges may lie a little outside: the first window begins, and the last ends, with the phase.
    """
    start, end = phase.start, contents.end_of(phase)
    first, last = phase.cpu_start.get(process), phase.cpu_end.get(process)
    if first is None or last is None or first.pid != last.pid or end <= start:
        return []
    inside = sorted({read.at for read in contents.reads[process] if start < read.at < end})
    return [Window(low, high) for low, high in pairwise([start, *inside, end])]


def api_server_seconds(contents: Contents, phase: PhaseSpan) -> float | None:
    """Return for how long the API server was bound by CPU, as if it had used all it could get or none at a time.

    What it could get is what the other measured processes left of the cores, or its GOMAXPROCS. None when its clock
    was not read.
    """
    windows = windows_of(contents, phase, API_SERVER)
    if not windows:
        return None
    cores = contents.opened.machine.cores
    threads = contents.opened.cluster.get(_GOMAXPROCS) or cores
    total = 0.0
    for window in windows:
        own = used_ns(contents.reads[API_SERVER], window)
        others = sum(used_ns(reads, window) for name, reads in contents.reads.items() if name != API_SERVER)
        possible = min(float(threads) * window.ns, cores * window.ns - others)
        total += min(window.ns, window.ns * own / possible if possible > own else window.ns)
    return total / 1e9
