"""CPU time and memory of a process in a phase. CPU times of a run with profilers hold what these cost: never judged.

Where no clock of the process could be read, its metrics tell them with a resolution: a bound within it is not decided.
"""

from __future__ import annotations

from .. import durations
from ..analysis import figures
from ..analysis.idle import refuse_profiled
from ..analysis.result import CpuResult, PhaseResult, TestResult
from ..errors import NotMeasuredError
from ..sizes import memory_bytes
from .finding import Finding, at_most, shown
from .phases import named, unfinished
from .shape import Cpu, Rss


def cpu(check: Cpu, test: TestResult) -> Finding:
    """Judge a process's CPU seconds in a phase. Raises NotMeasuredError."""
    phase = named(test, check.phase)
    refuse_profiled(test)
    found = figures.cpu(phase, check.process)
    objects = objects_of(test, check.per_object)
    doubts = unfinished(phase)
    if found.result.lower_bound:
        doubts.append("it ended or was restarted in the phase, or an edge was not read: it used at least that")
    low, high = max(0.0, found.at_least - found.resolution), found.at_least + found.resolution
    return at_most(
        phase.name,
        f"{check.process} CPU{each(test, check.per_object)}",
        found.at_least / objects,
        durations.seconds(check.max),
        "s",
        between=(low / objects, high / objects),
        doubts=doubts,
        evidence=(
            f"{shown(found.at_least, 's')} in {shown(found.result.window_s, 's')} of {phase.name}",
            *_source(found.result),
        ),
    )


def rss(check: Rss, test: TestResult) -> Finding:
    """Judge a process's peak memory up to the end of a phase. Raises NotMeasuredError."""
    phase = named(test, check.phase) if check.phase else _last_with(test, check.process)
    upto = [earlier for earlier in test.phases[: test.phases.index(phase)] if _has(earlier, check.process)]
    # The kernel keeps the peak of a process's whole life; one that was restarted took its own with it.
    found = {of.name: figures.cpu(of, check.process) for of in (*upto, phase)}
    doubts = unfinished(phase)
    if any(figure.result.lower_bound for figure in found.values()):
        doubts.append("it ended or was restarted: its peak may have been higher")
    peak = max(figure.peak_rss_bytes for figure in found.values())
    return at_most(
        phase.name,
        f"{check.process} peak memory",
        peak,
        memory_bytes(check.max),
        "B",
        between=(peak, max(figure.peak_rss_bytes + figure.result.rss_resolution_bytes for figure in found.values())),
        doubts=doubts,
        evidence=(
            *(f"up to the end of {name}: {shown(figure.peak_rss_bytes, 'B')}" for name, figure in found.items()),
            *_source(found[phase.name].result),
        ),
    )


def objects_of(test: TestResult, per_object: bool | int) -> int:
    """Return the number that a figure is divided by: 1 where it is not. Raises NotMeasuredError."""
    if per_object is not True:
        return int(per_object) or 1
    if not test.objects:
        raise NotMeasuredError(
            "no milestone of the test counts objects", next_step="Say how many there are: per_object=1000."
        )
    return test.objects


def each(test: TestResult, per_object: bool | int) -> str:
    """Return in words what a figure is divided by."""
    if per_object is True:
        return f" for each of {test.objects:,} {test.objects_resource}"
    return f" for each of {per_object:,} objects" if per_object else ""


def _source(found: CpuResult) -> tuple[str, ...]:
    """Return how exact a figure is, where that is not a matter of course."""
    if found.source == "clock":
        return ()
    steps = f"memory changed by up to {shown(found.rss_resolution_bytes, 'B')} between two of them"
    return (f"by scrapes of its metrics: CPU ± {shown(found.resolution_s, 's')}, {steps}",)


def _last_with(test: TestResult, process: str) -> PhaseResult:
    found = [phase for phase in test.phases if _has(phase, process)]
    if not found:
        raise NotMeasuredError(f"memory of {process!r} was not measured in any phase")
    return found[-1]


def _has(phase: PhaseResult, process: str) -> bool:
    return any(row.process == process for row in phase.cpu)
