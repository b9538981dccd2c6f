"""One controller over several scrapes, and the rule that decides whether its workers are blocked."""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from itertools import pairwise

import msgspec

from .cpu_times import CpuTimes
from .readings import Reading

ACTIVE_SHARE = 0.95
"""Share of busy workers from which all count as busy."""

CORES_PER_WORKER = 0.05
"""A worker that waits uses less than this share of a core; one that computes, much more."""

MIN_SCRAPES = 3
"""Minimum number of scrapes in a window: two do not show what happens between them."""


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """One controller over several scrapes. `analysis.result.WorkerRow` defines the figures."""

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
