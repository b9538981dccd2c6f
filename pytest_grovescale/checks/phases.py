"""Which phase of a test a check means, and what speaks against passing by it."""

from __future__ import annotations

from ..analysis.result import PhaseResult, TestResult
from ..analysis.run_metrics import WINDOW
from ..errors import NotMeasuredError, UsageError
from .arguments import unknown


def named(test: TestResult, name: str) -> PhaseResult:
    """Return a phase by its name. Raises NotMeasuredError when the recording has none of that name."""
    for phase in test.phases:
        if phase.name == name:
            return phase
    raise NotMeasuredError(f"the recording has {unknown('phase', name, (phase.name for phase in test.phases))}")


def steady(test: TestResult, name: str) -> PhaseResult:
    """Return the steady-state phase that is named, or the one phase with triggers where none is.

    Raises UsageError when there are several to choose from, NotMeasuredError when there is none.
    """
    if name:
        return named(test, name)
    # The windows of a comparison are not the test's own.
    triggered = [phase for phase in test.phases if phase.triggers and not WINDOW.fullmatch(phase.name)]
    if not triggered:
        raise NotMeasuredError(
            "no trigger was made in any phase", next_step="Trigger a reconcile in one: workload.trigger_reconcile()."
        )
    if len(triggered) > 1:
        raise UsageError(
            f"several phases have triggers: {', '.join(phase.name for phase in triggered)}",
            next_step="Say which one is meant: phase=….",
        )
    return triggered[0]


def unfinished(phase: PhaseResult) -> list[str]:
    """Return why less than the whole phase was measured; empty for one that passed.

    A phase that failed used less of everything than one that does all its work.
    """
    return [] if phase.outcome == "passed" else [f"the phase did not pass: {phase.outcome}"]
