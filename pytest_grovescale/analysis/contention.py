"""Who had the cores in a phase (the run, other programs, the hypervisor, nothing), and whether CPU was saturated.

Contention inflates CPU and wall times and does not deflate them: a program that shares its cores waits for them, and
finds cold caches when it gets them back.
"""

from __future__ import annotations

import contextlib
from bisect import bisect_right
from collections.abc import Collection, Iterable, Sequence
from itertools import pairwise

import msgspec

from .. import durations
from ..errors import UsageError
from ..recording.records import CgroupCpu, Closed, CoreTimes, CpuRead, MachineRead, Opened, PhaseEnded, PhaseStarted
from .controller_result import Saturation
from .cpu import API_SERVER, Window, demands
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


_FEW = 3
"""Phases that are named one by one."""


def of_phases(phases: Sequence[PhaseResult], *, limit: float = OTHERS_LIMIT) -> str:
    """Return the warning of `sentence` for several phases, in one sentence; empty where none is inflated."""
    return _sentence([(phase.name, phase.contention) for phase in phases if phase.contention is not None], limit)


def _sentence(phases: Sequence[tuple[str, Contention]], limit: float) -> str:
    causes = []
    taken = [(phase, one) for phase, one in phases if (one.others_share or 0.0) > limit]
    if by_others := [each for each in taken if not _is_of_host(each[1])]:
        causes.append(f"other programs used {_of_worst(by_others)}")
    if by_host := [each for each in taken if _is_of_host(each[1])]:
        causes.append(f"the machine's host took {_of_worst(by_host)}")
    if throttled := [(phase, one) for phase, one in phases if (one.throttled_share or 0.0) > limit]:
        quota = min(one.quota_cores or 0.0 for _, one in throttled)
        stopped = ", ".join(f"{one.throttled_s or 0.0:.1f} s during {phase}" for phase, one in throttled)
        causes.append(f"the CPU quota of {quota:.1f} cores stopped the run for {stopped}")
    if not causes:
        return ""
    text = "; ".join(causes)
    waited = _after_waiting(*(one for _, one in phases if contended(one, limit=limit)))
    return f"{text[:1].upper()}{text[1:]}: CPU and wall times are inflated.{waited}"


def _is_of_host(contention: Contention) -> bool:
    """Return whether the hypervisor alone took cores from the run."""
    return (contention.others_cores or 0.0) < _SHOWN_CORES <= (contention.steal_cores or 0.0)


def _of_worst(phases: Sequence[tuple[str, Contention]]) -> str:
    """Return the cores that were taken in each of a few phases; of more in the worst, and how many others there are."""
    named = phases if len(phases) <= _FEW else [max(phases, key=lambda each: each[1].others_share or 0.0)]
    rest = len(phases) - len(named)
    more = f", and less during {rest} more phases" if rest else ""
    return ", ".join(_taken(one, phase) for phase, one in named) + more


def _taken(contention: Contention, phase: str) -> str:
    """Return the cores that others used in a phase: ``1.2 of 2 cores during deploy (steal 0.1)``."""
    steal = contention.steal_cores or 0.0
    if _is_of_host(contention):
        return f"{steal:.1f} of {contention.cores} cores during {phase} (steal)"
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


MAX_CONTENTION = 0.25
"""Share of the cores that programs outside a comparison, and steal, may take in a phase before its pair is discarded.
Higher than the limit for a single run (`contention.OTHERS_LIMIT`): the ratio of a pair cancels what inflates both of
its runs alike."""

OF_CONTENTION = (Opened, PhaseStarted, PhaseEnded, CpuRead, MachineRead, Closed)
"""The records that contention is measured by."""

_SHOWN_STEAL = 0.01


def limit_of(text: str) -> float:
    """Return the limit of contention that ``--max-contention`` gives, as ``25%``; the default where it is empty.

    Raises UsageError for an invalid share of the cores.
    """
    if not text:
        return MAX_CONTENTION
    with contextlib.suppress(ValueError):
        share = float(text.removesuffix("%")) / 100
        if text.endswith("%") and 0 < share <= 1:
            return share
    raise UsageError(
        f"--max-contention {text}: not a share of the cores in percent, more than 0 % and at most 100 %",
        next_step=f"Write it as --max-contention {100 * MAX_CONTENTION:.0f}%; with 100% no pair is discarded.",
    )


class RunContention(msgspec.Struct, frozen=True, kw_only=True):
    """Contention of one run of a pair: that of its most contended phase."""

    share: float | None
    """Share of the cores that programs outside both runs of the pair took, with steal. None: not measured."""
    steal_share: float = 0.0
    """The part of it that the hypervisor took."""
    phase: str = ""
    why_not: str = ""
    """Why it was not measured; empty where it was."""


class PairContention(msgspec.Struct, frozen=True, kw_only=True):
    """Contention of one pair of a comparison, that of its more contended run."""

    pair: int
    """From 1, the warm-up included. A repeated pair has one entry for each repeat."""
    contention: RunContention
    contended: bool
    """Whether the share is above the plan's limit."""
    discarded: bool = False
    """Whether its figures were left out and its runs repeated."""


def worst_of(runs: Iterable[RunContention | None]) -> RunContention:
    """Return the contention of a pair: that of its more contended run; not measured where that of either is not."""
    measured = [run or RunContention(share=None, why_not="recorded before contention was measured") for run in runs]
    return next((run for run in measured if run.share is None), None) or max(measured, key=lambda run: run.share or 0.0)


def is_contended(contention: RunContention, limit: float | None) -> bool:
    """Return whether a pair is above a limit; False where contention was not measured."""
    return limit is not None and contention.share is not None and contention.share > limit


def described(contention: RunContention) -> str:
    """Return a contention in words: ``43 % in deploy, steal 12 %``."""
    if contention.share is None:
        return "not measured"
    steal = f", steal {_percent(contention.steal_share)}" if contention.steal_share >= _SHOWN_STEAL else ""
    return f"{_percent(contention.share)} in {contention.phase}{steal}"


def remarks(
    pairs: Sequence[PairContention], *, limit: float | None, repeats: int, warmup: int, by_counts: bool = False
) -> list[str]:
    """Return remarks: pairs that were discarded, pairs kept although contended, and pairs not measured.

    ``limit``, ``repeats``, ``warmup`` and ``by_counts`` are the plan's.
    """
    if limit is None:
        return []
    above = f"programs outside the comparison and steal took more than {_percent(limit)} of the cores"
    kept = [one for one in pairs if not one.discarded]
    texts = []
    if again := [one for one in pairs if one.discarded]:
        used = f"{len(again)} of at most {repeats} repeats"
        texts.append(f"{_count(again)} discarded and repeated, since {above} ({used}): {_listed(again)}")
    if stay := [one for one in kept if one.contended and one.pair > warmup]:
        start = f"{_count(stay)} contended, of {len(kept)}: {above}"
        why = "all repeats are used up" if repeats else "finished runs are not repeated"
        texts.append(
            f"{start}. Their counts are used, their CPU and wall times are left out: {_listed(stay)}"
            if by_counts
            else f"{start}, and {why}. CPU and wall times are inflated in {_listed(stay)}"
        )
    if missing := [one for one in kept if one.contention.share is None]:
        why = missing[0].contention.why_not
        texts.append(f"contention was not measured in {len(missing)} of {len(kept)} pairs: {why}")
    return texts


def _count(pairs: Sequence[PairContention]) -> str:
    return "1 pair is" if len(pairs) == 1 else f"{len(pairs)} pairs are"


def _listed(pairs: Sequence[PairContention]) -> str:
    return ", ".join(f"pair {one.pair} ({described(one.contention)})" for one in pairs)


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def contention_of_run(contents: Contents, phases: Collection[str], partners: Sequence[Contents] = ()) -> RunContention:
    """Return the contention of a run in those of its phases that count.

    ``partners``: the recordings of runs made at the same time on this machine.
    """
    of_phases = [_of_phase(contents, phase, partners) for phase in contents.phases if phase.name in phases]
    if not of_phases:
        return RunContention(share=None, why_not="the recording has none of the phases that count")
    return worst_of(of_phases)


def contention_of_phases(phases: Sequence[PhaseResult]) -> RunContention:
    """Return the contention of a finished run that is compared by itself: all other programs are outside it."""
    of_phases = [
        RunContention(share=None, why_not=phase.missing.get("contention", "recorded before contention was measured"))
        if phase.contention is None or phase.contention.others_share is None
        else RunContention(
            share=phase.contention.others_share,
            steal_share=(phase.contention.steal_cores or 0.0) / (phase.contention.cores or 1),
            phase=phase.name,
        )
        for phase in phases
    ]
    return worst_of(of_phases) if of_phases else RunContention(share=None, why_not="no phase was recorded")


def _of_phase(contents: Contents, phase: PhaseSpan, partners: Sequence[Contents]) -> RunContention:
    if not contents.reads.get(API_SERVER):
        return RunContention(share=None, why_not="the API server's CPU clock was not read: it runs on another machine")
    reads = [read for read in contents.machine_reads if read.times is not None]
    window = _window(contents, phase, partners, reads)
    if window.ns == 0:
        return RunContention(share=None, why_not=f"/proc/stat was not read at both ends of phase {phase.name}")
    (cores, busy, steal), (_, busy_before, steal_before) = _counters(reads, window.high), _counters(reads, window.low)
    outside = max(0.0, busy - busy_before - _used_ns([contents, *partners], window))
    stolen = max(0.0, steal - steal_before)
    return RunContention(
        share=min(1.0, (outside + stolen) / (cores * window.ns)),
        steal_share=min(1.0, stolen / (cores * window.ns)),
        phase=phase.name,
    )


def _window(contents: Contents, phase: PhaseSpan, partners: Sequence[Contents], reads: Sequence[MachineRead]) -> Window:
    """Return the part of a phase in which the machine's counters were read, and the partners' CPU clocks, too.

    A run that finishes sooner closes its recording; what its harness does then would count as another program's.
    """
    if not reads:
        return Window(0, 0)
    start, end = max(phase.start, reads[0].at), min(contents.end_of(phase), reads[-1].at)
    lasts = [clock[-1].at for partner in partners if (clock := partner.reads.get(API_SERVER))]
    return Window(start, min([end, *(last for last in lasts if last > start)]))


def _used_ns(recordings: Sequence[Contents], window: Window) -> float:
    """Return the CPU time of the processes of all recordings in a window; a process in several of them counts once."""
    used = {
        reads[-1].pid: demands(reads, [window])[0].used_s * 1e9
        for contents in recordings
        for reads in contents.reads.values()
    }
    return sum(used.values())


def _counters(reads: Sequence[MachineRead], at: int) -> tuple[int, float, float]:
    """Return (cores, busy ns, steal ns) at a moment from the first read to the last, interpolated between two."""
    index = min(max(1, bisect_right(reads, at, key=lambda read: read.at)), len(reads) - 1)
    before, after = reads[index - 1], reads[index]
    low, high = _times(before), _times(after)
    share = (at - before.at) / (after.at - before.at) if after.at > before.at else 0.0
    return (
        high.cores,
        low.busy_ns + (high.busy_ns - low.busy_ns) * share,
        low.steal_ns + (high.steal_ns - low.steal_ns) * share,
    )


def _times(read: MachineRead) -> CoreTimes:
    assert read.times is not None
    return read.times
