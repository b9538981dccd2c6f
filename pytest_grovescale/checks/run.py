"""What a check is judged by: the analysed test, the scrapes and profiles behind it, and baselines to compare with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from ..analysis import figures
from ..analysis.metrics.history import MetricsHistory
from ..analysis.phase_result import PhaseResult, ProfileResult
from ..analysis.profiles.stacks import Stacks
from ..analysis.result import TestResult
from ..analysis.run_metrics import WINDOW
from ..errors import NotMeasuredError, RecordingError, UsageError
from ..suggestions import did_you_mean

Metrics = Callable[[], MetricsHistory]
"""Reads a test's scrapes; called only for a check that needs them."""

Profiles = Callable[[ProfileResult], Stacks]
"""Reads the stacks of a profile from its file; RecordingError where it cannot be read."""


class Baselines(Protocol):
    """Where baselines are kept."""

    def __call__(self, name: str, /) -> Sequence[Mapping[str, float]]:
        """Return the metrics of a baseline's runs that are comparable here, newest first; empty without.

        Keys are as in ``run_metrics``.
        """


def no_baselines(name: str, /) -> tuple[Mapping[str, float], ...]:
    """Return no runs, where no baselines are kept."""
    return ()


def no_metrics() -> MetricsHistory:
    """Raise NotMeasuredError, for a result without its recording."""
    raise NotMeasuredError("its recording is not at hand", next_step="Give the run's folder, with its recordings.")


def no_profiles(profile: ProfileResult) -> Stacks:
    """Raise RecordingError, for a result without its profiles."""
    raise RecordingError(f"{profile.file}: not at hand", next_step="Give the run's folder, with its profiles.")


class Run(NamedTuple):
    """One test, with all that its checks are judged by."""

    test: TestResult
    baselines: Baselines = no_baselines
    metrics: Metrics = no_metrics
    profiles: Profiles = no_profiles

    def baseline_metric(self, name: str, key: str) -> list[float]:
        """Return one metric of a baseline's runs, the newest first.

        Raises NotMeasuredError where the newest lacks it or has 0, which cannot be a divisor.
        """
        runs = self.baselines(name)
        if not runs and name.partition(":")[0] == "history":
            raise NotMeasuredError(
                "the history has no run of this test on this machine, or no folder was named",
                next_step="Name it: pytest --grovescale --grovescale-history=DIR, which adds each run.",
            )
        if not runs:
            raise NotMeasuredError(
                f"there is no baseline {name!r} for this machine",
                next_step=f"Record one with the version to compare with: pytest --grovescale --grovescale-save={name}"
                " --grovescale-inconclusive=warn.",
            )
        if runs[0].get(key, 0.0) <= 0:
            raise NotMeasuredError(f"baseline {name!r} holds no {key}", next_step="Record it again with these tests.")
        return [run[key] for run in runs if run.get(key, 0.0) > 0]


def named_phase(test: TestResult, name: str) -> PhaseResult:
    """Return a phase by its name. Raises NotMeasuredError when the recording has none of that name."""
    for phase in test.phases:
        if phase.name == name:
            return phase
    raise NotMeasuredError(f"the recording has {unknown('phase', name, (phase.name for phase in test.phases))}")


def steady_phase(test: TestResult, name: str) -> PhaseResult:
    """Return the steady-state phase of this name; without a name, the only phase with triggers.

    Raises UsageError when several phases have triggers, NotMeasuredError when none has.
    """
    if name:
        return named_phase(test, name)
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
    """Return why a phase that did not pass leaves doubts: it used less than one that does all its work."""
    return [] if phase.outcome == "passed" else [f"the phase did not pass: {phase.outcome}"]


def steady_doubts(phase: PhaseResult, *, by_log: bool = False) -> list[str]:
    """Return why a steady-state phase cannot pass: what is doubtful about its triggers, and that it did not finish.

    ``by_log``: as for `figures.trigger_doubts`.
    """
    return [*figures.trigger_doubts(phase, by_log=by_log), *unfinished(phase)]


def unknown(what: str, name: str, known: Iterable[str]) -> str:
    """Return that a name is unknown, with similar names and all known ones, as one sentence."""
    names = list(known)
    near = did_you_mean(name, names)
    hint = f"{near[:1].lower()}{near[1:]} " if near else ""
    return f"no {what} {name!r}; {hint}there are: {', '.join(names) or 'none'}"
