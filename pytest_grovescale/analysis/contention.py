"""Who had the cores in a phase (the run, other programs, the hypervisor, nothing), and whether CPU was saturated.

Contention inflates CPU and wall times and does not deflate them: a program that shares its cores waits for them, and
finds cold caches when it gets them back.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from .. import durations
from ..recording.records import CgroupCpu, CpuRead, MachineRead
from .bottlenecks.cpu_clocks import API_SERVER
from .controller_result import Saturation
from .phase_result import Contention, CpuResult, PhaseResult
from .reconciles import counter_of_phase
from .recording_index import Contents, PhaseSpan

SATURATED = 0.95

_STEP_NS = 1_000_000_000

OTHERS_LIMIT = 0.10
"""Share of the machine's cores that other programs and the hypervisor may take before figures count as inflated."""

WAIT_QUIET = "wait-quiet"
"""Label of the mark that the harness sets in a phase before which it waited for a quiet machine: its count is the wait
in ms, its detail the result."""

THROTTLED = "container_cpu_cfs_throttled_seconds_total"
"""cAdvisor's counter of each container (kubelet's ``/metrics/cadvisor``)."""

_SHOWN_CORES = 0.05
"""Less steal than this would show as 0.0 in the sentence, and is left out of it."""


def contention_of_phase(
    contents: Contents, phase: PhaseSpan, cpu: Sequence[CpuResult]
) -> tuple[Contention | None, str]:
    """Return the contention of a phase, or None and why that was not measured. ``cpu``: the phase's rows."""
    throttled = _throttled_containers(phase)
    reads = _reads(contents, phase)
    waited = _waited(contents, phase)
    why = _why_not_this_machine(reads, cpu)
    if not why:
        return _of_machine(reads[0], reads[-1], cpu, waited), ""
    return (Contention(throttled_s=throttled, waited_s=waited), "") if throttled is not None else (None, why)


def _reads(contents: Contents, phase: PhaseSpan) -> list[MachineRead]:
    """Return the machine's counters from the phase's start to its end, both edges included."""
    start, end = phase.machine_start, phase.machine_end
    low = start.at if start is not None else phase.start
    high = end.at if end is not None else contents.end_of(phase)
    return [read for read in contents.machine_reads if low <= read.at <= high]


def _why_not_this_machine(reads: Sequence[MachineRead], cpu: Sequence[CpuResult]) -> str:
    if len(reads) < 2 or reads[-1].at <= reads[0].at:
        return "the recording has no two readings of the machine's counters in the phase"
    if reads[0].times is None or reads[-1].times is None:
        return "/proc/stat cannot be read where the recorder runs"
    if not any(row.process == API_SERVER and row.source == "clock" for row in cpu):
        return (
            "the API server's CPU clock was not read: it runs on another machine, or its load cannot be separated from "
            "that of other programs"
        )
    return ""


def _waited(contents: Contents, phase: PhaseSpan) -> float | None:
    """Return how long the run waited for a quiet machine before a phase, s; None where it did not."""
    end = contents.end_of(phase)
    marks = (mark for mark in contents.marks if mark.label == WAIT_QUIET and phase.start <= mark.at <= end)
    return next((mark.count / 1000 for mark in marks if mark.count), None)


def _of_machine(
    first: MachineRead, last: MachineRead, cpu: Sequence[CpuResult], waited_s: float | None
) -> Contention | None:
    before, after, seconds = first.times, last.times, (last.at - first.at) / 1e9
    if before is None or after is None:
        return None
    steal = _cores(before.steal_ns, after.steal_ns, seconds)
    run = sum(row.seconds for row in cpu if row.source == "clock") / seconds
    # The kernel counts busy time in ticks, the processes' clocks are exact: on a machine that only the run uses, the
    # difference may be a little below zero.
    others = max(0.0, _cores(before.busy_ns, after.busy_ns, seconds) - run)
    throttled_s, quota = _throttled(first.cgroup, last.cgroup)
    return Contention(
        cores=after.cores,
        run_cores=run,
        others_cores=others,
        steal_cores=steal,
        iowait_cores=_cores(before.iowait_ns, after.iowait_ns, seconds),
        idle_cores=_cores(before.idle_ns, after.idle_ns, seconds),
        others_share=min(1.0, (others + steal) / after.cores) if after.cores else None,
        pressure_share=_pressure(first, last, seconds),
        quota_cores=quota,
        throttled_s=throttled_s,
        throttled_share=(
            min(1.0, throttled_s / seconds / after.cores) if throttled_s is not None and after.cores else None
        ),
        waited_s=waited_s,
    )


def _throttled(first: CgroupCpu | None, last: CgroupCpu | None) -> tuple[float | None, float | None]:
    """Return the seconds that the cgroup was throttled between two reads, and its quota, cores."""
    if first is None or last is None:
        return None, None
    return max(0, last.throttled_ns - first.throttled_ns) / 1e9, last.quota_cores


def _cores(before_ns: int, after_ns: int, seconds: float) -> float:
    # Some of the kernel's counters may decrease (iowait, proc_stat(5)).
    return max(0, after_ns - before_ns) / 1e9 / seconds


def _pressure(first: MachineRead, last: MachineRead, seconds: float) -> float | None:
    if first.pressure_ns is None or last.pressure_ns is None:
        return None
    return min(1.0, max(0, last.pressure_ns - first.pressure_ns) / 1e9 / seconds)


def _throttled_containers(phase: PhaseSpan) -> float | None:
    """Return the seconds that CPU limits throttled the scraped containers; None where that was not scraped."""
    grown = [
        max(0.0, value - start.samples.get(series, 0.0))
        for target, end in phase.scrape_end.items()
        if (start := phase.scrape_start.get(target)) is not None
        for series, value in end.samples.items()
        # The series of a pod's cgroup, without a container, repeats the sum of its containers.
        if series.startswith(THROTTLED + "{") and 'container=""' not in series and 'container="' in series
    ]
    return sum(grown) if grown else None


def contended(contention: Contention | None, *, limit: float = OTHERS_LIMIT) -> bool:
    """Return whether CPU and wall times of a phase are inflated.

    They are where others and steal, or the run's own CPU quota, kept more than ``limit``, a share of the cores, from
    it. Where contention was not measured, the result is False.
    """
    if contention is None:
        return False
    return max(contention.others_share or 0.0, contention.throttled_share or 0.0) > limit


def sentence(contention: Contention | None, phase: str, *, limit: float = OTHERS_LIMIT) -> str:
    """Return a warning about a phase whose figures are inflated; empty where they are not.

    ``Other programs used 1.2 of 2 cores during deploy (steal 0.1): CPU and wall times are inflated.``
    """
    return _sentence([] if contention is None else [(phase, contention)], limit)


def of_phases(phases: Sequence[PhaseResult], *, limit: float = OTHERS_LIMIT) -> str:
    """Return the warning of `sentence` for several phases, in one sentence; empty where none is inflated."""
    return _sentence([(phase.name, phase.contention) for phase in phases if phase.contention is not None], limit)


def _sentence(phases: Sequence[tuple[str, Contention]], limit: float) -> str:
    causes = []
    if by_others := [_taken(one, phase) for phase, one in phases if (one.others_share or 0.0) > limit]:
        causes.append(f"other programs used {', '.join(by_others)}")
    if throttled := [(phase, one) for phase, one in phases if (one.throttled_share or 0.0) > limit]:
        quota = min(one.quota_cores or 0.0 for _, one in throttled)
        stopped = ", ".join(f"{one.throttled_s or 0.0:.1f} s during {phase}" for phase, one in throttled)
        causes.append(f"the CPU quota of {quota:.1f} cores stopped the run for {stopped}")
    if not causes:
        return ""
    text = "; ".join(causes)
    waited = _after_waiting(*(one for _, one in phases if contended(one, limit=limit)))
    return f"{text[:1].upper()}{text[1:]}: CPU and wall times are inflated.{waited}"


def _taken(contention: Contention, phase: str) -> str:
    """Return the cores that other programs used in a phase: ``1.2 of 2 cores during deploy (steal 0.1)``."""
    steal = contention.steal_cores or 0.0
    stolen = f" (steal {steal:.1f})" if steal >= _SHOWN_CORES else ""
    return f"{contention.others_cores or 0.0:.1f} of {contention.cores} cores during {phase}{stolen}"


def _after_waiting(*measured: Contention | None) -> str:
    """Return in words that the run waited for a quiet machine, and the longest wait; empty where it did not wait."""
    waited = max((one.waited_s for one in measured if one is not None and one.waited_s is not None), default=None)
    return "" if waited is None else f" The run waited {durations.text(waited)} for a quiet machine before."


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
