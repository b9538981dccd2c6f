"""The summary lines of a page: outcome, exceeded bounds, contention, time attribution."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

import msgspec

from ...analysis.result import PhaseResult, TestResult
from ...checks.outcome import headline
from ..checks_table import by_verdict, left_to_sweep, sums
from ..sources import incident, reservation
from ..standing import standing
from ..summary import disruptions, inflation, uncertain
from ..terminal import how_far
from ..wording import seconds

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
"""Outcome or verdict → its style, beside its word."""


class Line(NamedTuple):
    tone: Tone
    text: str
    source: str = ""
    """Source of the check's declaration."""


def answer(test: TestResult) -> tuple[Line, ...]:
    """Return the summary of a test, the first lines of its page."""
    broke = (Line("warn", text) for text in disruptions(test))
    measured = (*broke, *_outcome(test), *_not_passed(test), *_doubts(test))
    inflated = (Line("warn", text) for text in inflation(test))
    return (*measured, *inflated, *_bottlenecks(test), *_passed(test), *_reservations(test))


def _doubts(test: TestResult) -> Iterator[Line]:
    """Yield reasons why the figures may not count. A failure that only repeats a check's line is left to that check."""
    repeated = test.failure and any(headline(check) in test.failure for check in test.checks)
    for text in standing(msgspec.structs.replace(test, failure="") if repeated else test):
        yield Line("bad" if test.error and test.error in text else "warn", text)


def _outcome(test: TestResult) -> Iterator[Line]:
    if test.scenario_outcome == "passed" and test.verdict == "passed":
        number = len(test.phases)
        phases = "1 phase" if number == 1 else f"{number} phases"
        yield Line("good", f"{phases} passed in {seconds(test.seconds)}{_sums(test)}.")
    elif test.scenario_outcome == "unfinished":
        yield Line(
            "warn", f"The recording ends after {seconds(test.seconds)}, before the run did: all up to there is here."
        )
    elif test.scenario_outcome == "passed" and test.verdict == "interrupted":
        yield Line("warn", f"The test did not end: its recording breaks off after {seconds(test.seconds)}.")
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


def _bottlenecks(test: TestResult) -> Iterator[Line]:
    for phase in test.phases:
        if phase.bottleneck:
            yield Line("plain", f"Where the time of {phase.name} went: {phase.bottleneck}")


def _not_passed(test: TestResult) -> Iterator[Line]:
    """Yield the checks that did not pass, failed ones first: figure, bound, and where the bound is declared."""
    for check in by_verdict(test.checks):
        if check.verdict != "pass":
            word = "" if check.verdict == "fail" else f"{check.verdict}: "
            yield Line(TONES[check.verdict], f"{word}{headline(check)}", check.source)


def _sums(test: TestResult) -> str:
    return f", with {sums(test.checks).replace(' passed', ' checks passed')}" if test.checks else ""


def _passed(test: TestResult) -> Iterator[Line]:
    if test.checks and test.verdict != "passed":
        yield Line("plain", f"Checks: {sums(test.checks)}.")
    for text in left_to_sweep(test):
        yield Line("plain", text)


def _reservations(test: TestResult) -> Iterator[Line]:
    if text := reservation(test):
        yield Line("warn", text)
    for phase in test.phases:
        for found in phase.incidents:
            yield Line("warn", f"{phase.name}, {incident(found)}.")
        for text in uncertain(phase):
            yield Line("warn", f"{text}.")
    if test.profiled:
        yield Line(
            "plain", "Profilers were attached: CPU times hold what they cost, and no CPU budget is judged by them."
        )
