"""CPU saturation of the machine in a phase: if saturated, wall times reflect the machine, not the operator."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from ..recording.records import CpuRead
from .contents import Contents, PhaseSpan
from .reconciles import counter_of_phase
from .result import CpuResult, Saturation

SATURATED = 0.95
_STEP_NS = 1_000_000_000


def saturation_of_phase(
    contents: Contents, phase: PhaseSpan, cpu: Sequence[CpuResult]
) -> tuple[Saturation | None, str]:
    """Return the machine's CPU use by the measured processes, or None and why that is unknown."""
    cores = contents.opened.machine.cores
    seconds = (contents.end_of(phase) - phase.start) / 1e9
    if not cpu or cores <= 0 or seconds <= 0:
        return None, "no process's CPU clock was read at the phase's edges"
    # A process known from its metrics only may run on another machine.
    here = [row for row in cpu if row.source == "clock"]
    share = sum(row.seconds / row.window_s if row.window_s > 0 else 0.0 for row in here) / cores
    terminated = counter_of_phase(phase, "apiserver_terminated_watchers_total")
    return (
        Saturation(
            busy_share=share,
            saturated=share >= SATURATED,
            saturated_s=_saturated_seconds(contents, phase, cores),
            busiest=tuple(row.process for row in here[:3]),
            terminated_watchers=terminated,
        ),
        "",
    )


def _saturated_seconds(contents: Contents, phase: PhaseSpan, cores: int) -> float | None:
    """Return the number of whole seconds of the phase in which all processes together used 95 % of the cores.

    Reads of a process are about 1 s apart; its use is interpolated evenly between two.
    """
    start, end = phase.start, contents.end_of(phase)
    steps = max(0, end - start) // _STEP_NS
    used = [0.0] * steps
    known = False
    for reads in contents.reads.values():
        for before, after in pairwise(reads):
            if after.at <= start or before.at >= end or before.pid != after.pid or after.at <= before.at:
                continue
            known = known or not (before.edge and after.edge)
            _spread(used, before, after, start)
    if not known or not steps:
        return None
    return float(sum(use >= SATURATED * cores * _STEP_NS for use in used))


def _spread(used: list[float], before: CpuRead, after: CpuRead, start: int) -> None:
    """Add the CPU time between two reads to the seconds that they span."""
    rate = (after.cpu_ns - before.cpu_ns) / (after.at - before.at)
    first = max(0, (before.at - start) // _STEP_NS)
    last = min(len(used) - 1, (after.at - start) // _STEP_NS)
    for step in range(first, last + 1):
        low, high = start + step * _STEP_NS, start + (step + 1) * _STEP_NS
        used[step] += rate * max(0, min(high, after.at) - max(low, before.at))
