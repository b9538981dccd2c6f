"""CPU time between any two moments, from reads about a second apart; and who used the CPU in a phase."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from ...recording.records import CpuRead
from ..recording_index import Contents, PhaseSpan

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
    for before, after in pairwise(reads):
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
