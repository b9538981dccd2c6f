"""Contention of a pair of runs: the machine's cores used by programs outside the comparison.

Runs in parallel share a machine, so each recording counts the processes of the other run among "other programs". Their
CPU time in the same wall time, by their own recording, is subtracted here.
"""

from __future__ import annotations

import contextlib
from bisect import bisect_right
from collections.abc import Collection, Iterable, Sequence

import msgspec

from ..errors import UsageError
from ..recording.records import Closed, CoreTimes, CpuRead, MachineRead, Opened, PhaseEnded, PhaseStarted
from .bottlenecks.cpu_clocks import API_SERVER, Window, demands
from .phase_result import PhaseResult
from .recording_index import Contents, PhaseSpan

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


def remarks(pairs: Sequence[PairContention], *, limit: float | None, repeats: int, warmup: int) -> list[str]:
    """Return remarks: pairs that were discarded, pairs kept although contended, and pairs not measured.

    ``limit``, ``repeats`` and ``warmup`` are the plan's.
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
        why = "all repeats are used up" if repeats else "finished runs are not repeated"
        texts.append(
            f"{_count(stay)} contended, of {len(kept)}: {above}, and {why}. CPU and wall times are inflated in"
            f" {_listed(stay)}"
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
