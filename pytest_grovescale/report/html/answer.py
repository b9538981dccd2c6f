"""The first lines of a page: how it ended, what held it up, which bounds it broke."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

from ...analysis import contention
from ...analysis.result import PhaseResult, TestResult
from ..checks_table import left_to_sweep
from ..sources import incident, reservation
from ..standing import standing
from ..terminal import how_far
from ..wording import count, percent, seconds

Tone = Literal["good", "bad", "warn", "plain"]

TONES: dict[str, Tone] = {
    "passed": "good",
    "pass": "good",
    "ok": "good",
    "improvement": "good",
    "failed": "bad",
    "timeout": "bad",
    "fail": "bad",
    "regression": "bad",
    "broken": "bad",
    "error": "bad",
    "not enforced": "plain",
    "interrupted": "warn",
    "unfinished": "warn",
    "inconclusive": "warn",
    "not-measured": "warn",
}
"""Outcome or verdict → how it is shown, beside its word."""


class Line(NamedTuple):
    tone: Tone
    text: str


def answer(test: TestResult) -> tuple[Line, ...]:
    """Return what a reader must know of a test before anything else."""
    doubts = [Line("warn", text) for text in standing(test)]
    measured = (*_outcome(test), *_saturation(test), *_bottlenecks(test))
    return (*doubts, *measured, *_checks(test), *_reservations(test))


def _outcome(test: TestResult) -> Iterator[Line]:
    number = len(test.phases)
    phases = "1 phase" if number == 1 else f"{number} phases"
    if test.scenario_outcome == "passed":
        yield Line("good", f"{phases} passed in {seconds(test.seconds)}.")
    elif test.scenario_outcome == "unfinished":
        yield Line(
            "warn", f"The recording ends after {seconds(test.seconds)}, before the run did: all up to there is here."
        )
    for phase in test.phases:
        if phase.outcome not in ("passed", "unfinished"):
            yield Line(TONES[phase.outcome], _failure(phase))
    if test.scenario_outcome == "interrupted" and all(phase.outcome == "passed" for phase in test.phases):
        yield Line("warn", f"Interrupted after {seconds(test.seconds)}.")
    if test.scenario_outcome == "failed" and all(phase.outcome == "passed" for phase in test.phases):
        yield Line("bad", f"The recording failed after {seconds(test.seconds)}: {test.closed_message or test.closed}")


def _failure(phase: PhaseResult) -> str:
    missed = [f"{milestone.name}: {how_far(milestone)}" for milestone in phase.milestones if not milestone.met]
    message = (
        phase.message.strip().partition("\n")[0] or f"{phase.name}: {phase.outcome} after {seconds(phase.seconds)}"
    )
    return message + (f" ({'; '.join(missed)})" if missed else "")


def _saturation(test: TestResult) -> Iterator[Line]:
    for phase in test.phases:
        if inflated := contention.sentence(phase.contention, phase.name):
            yield Line("warn", inflated)
        if phase.saturation is not None and phase.saturation.saturated:
            yield Line(
                "warn",
                f"Machine saturated in {phase.name}: {percent(phase.saturation.busy_share)} of {test.machine.cores}"
                f" cores busy ({', '.join(phase.saturation.busiest)}). Wall times of this phase measure the machine.",
            )


def _bottlenecks(test: TestResult) -> Iterator[Line]:
    for phase in test.phases:
        if phase.bottleneck:
            yield Line("plain", phase.bottleneck)


def _checks(test: TestResult) -> Iterator[Line]:
    for check in test.checks:
        if check.verdict != "pass":
            where = f" in {check.phase}" if check.phase else ""
            yield Line(TONES[check.verdict], f"{check.check}{where}: {check.verdict}. {check.text}")
    passed = sum(check.verdict == "pass" for check in test.checks)
    if passed:
        yield Line("good", f"{count(passed)} of {count(len(test.checks))} checks passed.")
    for text in left_to_sweep(test):
        yield Line("plain", text)


def _reservations(test: TestResult) -> Iterator[Line]:
    if told := reservation(test):
        yield Line("warn", told)
    for phase in test.phases:
        for found in phase.incidents:
            yield Line("warn", f"{phase.name}, {incident(found)}.")
    if test.profiled:
        yield Line(
            "plain", "Profilers were attached: CPU times hold what they cost, and no CPU budget is judged by them."
        )
