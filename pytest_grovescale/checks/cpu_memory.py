"""CPU time and memory of a process in a phase.

CPU times of a run with profilers include the profilers and are never judged. Where no clock of the process could be
read, its metrics have its CPU time with a resolution; a bound within it is not decided.
"""

from __future__ import annotations

from .. import durations
from ..analysis import figures
from ..analysis.idle_baseline import refuse_profiled
from ..analysis.phase_result import CpuResult, PhaseResult
from ..analysis.result import TestResult
from ..errors import NotMeasuredError
from ..quantity import memory_bytes
from .api_requests import for_each, objects_of
from .check import Check, Duration, Outcome, Size, at_most, duration, not_negative, shown, size
from .run import Run, named_phase, unfinished


class _Positional(Check, frozen=True):
    positional = ("phase",)

    phase: str


class Cpu(_Positional, tag="cpu", frozen=True, kw_only=True):
    """CPU time of a process in a phase."""

    timed = True

    max: Duration
    process: str = "operator"
    per_object: bool | int = False
    """As for `ApiRequests`."""

    def validate(self) -> None:
        duration(self, max=self.max)
        not_negative(self, per_object=self.per_object)

    def judge(self, run: Run) -> Outcome:
        test, phase = run.test, named_phase(run.test, self.phase)
        refuse_profiled(test)
        used = figures.cpu(phase, self.process)
        objects = objects_of(test, self.per_object)
        doubts = unfinished(phase)
        if used.result.lower_bound:
            doubts.append("it ended or was restarted in the phase, or an edge was not read: it used at least that")
        low, high = max(0.0, used.at_least - used.resolution), used.at_least + used.resolution
        return at_most(
            phase.name,
            f"{self.process} CPU{for_each(test, self.per_object)}",
            used.at_least / objects,
            durations.seconds(self.max),
            "s",
            between=(low / objects, high / objects),
            doubts=doubts,
            evidence=(
                f"{shown(used.at_least, 's')} in {shown(used.result.window_s, 's')} of {phase.name}",
                *_resolution(used.result),
            ),
        )


class Rss(Check, tag="rss", frozen=True, kw_only=True):
    """Peak resident memory of a process up to the end of a phase; without ``phase``, of the last one it was read in."""

    max: Size
    process: str = "operator"
    phase: str = ""

    def validate(self) -> None:
        size(self, max=self.max)

    def judge(self, run: Run) -> Outcome:
        test = run.test
        phase = named_phase(test, self.phase) if self.phase else _last_with(test, self.process)
        earlier = [one for one in test.phases[: test.phases.index(phase)] if _has(one, self.process)]
        # The kernel keeps the peak of a process's whole life; one that was restarted took its own with it.
        used = {one.name: figures.cpu(one, self.process) for one in (*earlier, phase)}
        doubts = unfinished(phase)
        if any(figure.result.lower_bound for figure in used.values()):
            doubts.append("it ended or was restarted: its peak may have been higher")
        peak = max(figure.peak_rss_bytes for figure in used.values())
        high = max(figure.peak_rss_bytes + figure.result.rss_resolution_bytes for figure in used.values())
        return at_most(
            phase.name,
            f"{self.process} peak memory",
            peak,
            memory_bytes(self.max),
            "B",
            between=(peak, high),
            doubts=doubts,
            evidence=(
                *(f"up to the end of {name}: {shown(figure.peak_rss_bytes, 'B')}" for name, figure in used.items()),
                *_resolution(used[phase.name].result),
            ),
        )


def _resolution(row: CpuResult) -> tuple[str, ...]:
    """Return how exact a figure from scrapes is; nothing for one from the process's clock."""
    if row.source == "clock":
        return ()
    steps = f"memory changed by up to {shown(row.rss_resolution_bytes, 'B')} between two of them"
    return (f"by scrapes of its metrics: CPU ± {shown(row.resolution_s, 's')}, {steps}",)


def _last_with(test: TestResult, process: str) -> PhaseResult:
    phases = [phase for phase in test.phases if _has(phase, process)]
    if not phases:
        raise NotMeasuredError(f"memory of {process!r} was not measured in any phase")
    return phases[-1]


def _has(phase: PhaseResult, process: str) -> bool:
    return any(row.process == process for row in phase.cpu)
