"""A steady-state phase beside its idle twin: what its triggers cost over the idle baseline.

An idle process uses CPU too: leases, watches, metrics. The twin, as long and without a trigger, measures how much.
"""

from __future__ import annotations

from typing import NamedTuple

from ..errors import NotMeasuredError
from . import figures
from .phase_result import PhaseResult
from .reconcile_counters import RECONCILES, WORK_ITEMS
from .result import TestResult

SERVE_RECONCILES = (
    f"Name the operator's endpoint under `metrics` in its definition. It is counted by {RECONCILES}, {WORK_ITEMS} or"
    " the counters of the Java Operator SDK; name another one there: reconciles: {counter: …}."
)


class OverIdle(NamedTuple):
    """A process's CPU seconds in a phase, and in the same time of its idle twin."""

    phase: PhaseResult
    twin: PhaseResult
    busy_s: float
    idle_s: float
    busy_resolution_s: float = 0.0
    """How far `busy_s` may be off either way."""
    idle_resolution_s: float = 0.0

    @property
    def resolution_s(self) -> float:
        """How far their difference may be off either way, s."""
        return self.busy_resolution_s + self.idle_resolution_s

    @property
    def difference_s(self) -> float:
        """CPU cost of the triggers, s; below zero when that is less than the noise."""
        return self.busy_s - self.idle_s

    def per_reconcile_s(self, controller: str = "") -> float:
        """Return the difference for each reconcile that the triggers caused, of one controller or of all.

        Raises NotMeasuredError as `reconciles` does.
        """
        return self.difference_s / self.reconciles(controller)

    def reconciles(self, controller: str = "") -> int:
        """Return the reconciles that the triggers caused: all of the phase's less those of the idle twin.

        Raises NotMeasuredError when the triggers caused none.
        """
        made, anyway = (reconciles_of(phase, controller) for phase in (self.phase, self.twin))
        if made <= anyway:
            raise NotMeasuredError(
                f"{made:,} reconciles in {self.phase.name}, {anyway:,} in {self.twin.name}: the trigger caused none"
            )
        return made - anyway


def over_idle(test: TestResult, phase: PhaseResult, process: str = "operator") -> OverIdle:
    """Return a process's CPU time in a phase and in its idle twin.

    Raises NotMeasuredError without a completed twin, without a CPU clock, and for a run with profilers.
    """
    refuse_profiled(test)
    twin = idle_twin(test, phase)
    busy, idle = figures.cpu(phase, process), figures.cpu(twin, process)
    if idle.result.window_s <= 0:
        raise NotMeasuredError(f"phase {twin.name!r} has no length")
    scale = busy.result.window_s / idle.result.window_s
    return OverIdle(phase, twin, busy.seconds, idle.seconds * scale, busy.resolution, idle.resolution * scale)


def idle_twin(test: TestResult, phase: PhaseResult) -> PhaseResult:
    """Return a steady-state phase's idle twin. Raises NotMeasuredError when it has none, or an incomplete one."""
    twin = next((other for other in test.phases if phase.idle_twin and other.name == phase.idle_twin), None)
    if twin is None:
        raise NotMeasuredError(
            f"phase {phase.name!r} has no idle twin",
            next_step=f'Open it with scale.phase("{phase.name}", idle_twin=True).',
        )
    if twin.outcome != "passed":
        raise NotMeasuredError(f"the idle twin of phase {phase.name!r} was not completed: {twin.outcome}")
    return twin


def reconciles_of(phase: PhaseResult, controller: str = "") -> int:
    """Return a phase's reconciles, of one controller or of all. Raises NotMeasuredError."""
    if controller:
        return figures.reconciles(phase, controller)
    controllers = {row.controller for row in phase.reconciles}
    if not controllers:
        why = phase.missing.get("reconciles", "the operator counts none")
        raise NotMeasuredError(
            f"reconciles in phase {phase.name!r} were not measured: {why}", next_step=SERVE_RECONCILES
        )
    return sum(figures.reconciles(phase, each) for each in sorted(controllers))


def refuse_profiled(test: TestResult) -> None:
    """Raise NotMeasuredError for a recording with profilers attached: its CPU times include their cost."""
    if test.profiled:
        raise NotMeasuredError(
            "profilers were attached in this run: its CPU times include their cost",
            next_step="Judge the measuring pass, without profilers.",
        )
