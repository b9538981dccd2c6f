"""CPU time and memory of processes whose clock cannot be read: from their own metrics, at a phase's edges.

An operator that runs as a pod on another machine's node is one of them. Its counter is read a little before the phase
and a little after it, in ticks; the result contains its possible error.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from .contents import Contents, PhaseSpan
from .lives import Life, grown, lives, values
from .metrics.counters import PROCESS_START
from .metrics.history import TargetHistory
from .reconciles import OPERATOR, why_not_scraped
from .result import CpuResult

CPU = "process_cpu_seconds_total"
RSS = "process_resident_memory_bytes"

REPLICAS = "replica/"
"""Prefix of the targets of an operator's single pods, where it has several."""

COUNTER_S = 0.02
"""Error of a difference of two values of the counter: user and system time, each in whole ticks of 10 ms, as in
/proc/PID/stat (proc(5); the client libraries of Go and Python read them there)."""


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
        elif (row := _row(contents, phase, target)) is not None:
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


def _row(contents: Contents, phase: PhaseSpan, target: TargetHistory) -> CpuResult | None:
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
    found = lives(target, inside, CPU)
    first, last = target.moments[inside[0]], target.moments[inside[-1]]
    seconds, window_s = grown(target, CPU, found), (last.at - first.at) / 1e9
    cores = seconds / window_s if window_s > 0 else 0.0
    beyond_s = max(0.0, window_s + first.took_ns / 1e9 - (contents.end_of(phase) - phase.start) / 1e9)
    memory = [value for life in found for value in values(target, RSS, life)]
    return CpuResult(
        process=target.target,
        source="scrape",
        seconds=seconds,
        # Upper bound for most programs: as busy as in the phase, and one core at least.
        resolution_s=COUNTER_S + beyond_s * max(1.0, cores),
        lower_bound=len(found) > 1 or start is None or end is None,
        window_s=window_s,
        cores=cores,
        rss_bytes=round(memory[-1]),
        peak_rss_bytes=round(max(memory)),
        rss_resolution_bytes=_largest_step(target, found),
        restarts=len(found) - 1,
    )


def _largest_step(target: TargetHistory, found: Sequence[Life]) -> int:
    """Return the largest change of memory from one scrape of a process to its next, bytes."""
    steps = (abs(after - before) for life in found for before, after in pairwise(values(target, RSS, life)))
    return round(max(steps, default=0.0))
