"""The verdict of a test: pytest's outcome, its checks and its recording in one word; of reruns, the last one counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from ..recording.records import TestEnded, TestOutcome
from .phase_result import Outcome
from .result import TestResult, TestVerdict

_OUTCOMES: tuple[TestOutcome, ...] = ("error", "failed", "inconclusive", "passed")
"""Worst first."""

_WORST: tuple[TestVerdict, ...] = ("failed", "error", "interrupted", "inconclusive", "passed")
"""Worst first, over several tests: failures of the operator before failures of a test's environment."""

_BROKEN = ("failed", "journal-full")
"""Reasons for which a recorder stops involuntarily."""

_OF_PHASES: dict[Outcome, TestVerdict] = {"passed": "passed", "interrupted": "interrupted", "unfinished": "interrupted"}
"""Verdict by the phases' outcome where pytest's outcome is missing; all others are ``failed``."""


def verdict_of(test: TestResult) -> TestVerdict:
    """Return a test's verdict, with the checks that have been judged so far."""
    if test.closed in _BROKEN:
        return "error"
    match test.ended:
        case None:
            # An orderly stop without pytest's outcome means that the recording is not of a pytest test.
            stopped = test.closed == "stopped"
            judged: TestVerdict = "interrupted" if not stopped else _OF_PHASES.get(test.scenario_outcome, "failed")
        case outcome:
            judged = outcome
    if judged in ("error", "interrupted"):
        return judged
    verdicts = {check.verdict for check in test.checks}
    if judged == "failed" or "fail" in verdicts:
        return "failed"
    return "inconclusive" if judged == "inconclusive" or "inconclusive" in verdicts else "passed"


def worst_of(verdicts: Iterable[TestVerdict]) -> TestVerdict:
    """Return the combined verdict of several tests."""
    present = set(verdicts)
    return next((verdict for verdict in _WORST if verdict in present), "passed")


def ended_as(ends: Sequence[TestEnded]) -> tuple[TestOutcome | None, str]:
    """Return the worst outcome that pytest gave a test in its set-up, function and teardown, and its message."""
    for outcome in _OUTCOMES:
        for end in ends:
            if end.outcome == outcome:
                return outcome, end.message
    return None, ""


def numbered(tests: Sequence[TestResult]) -> list[TestResult]:
    """Return the tests in the order of their starts, each with its run number and the number of its runs.

    A test's profiling pass is counted separately from the pass that measures.
    """
    ordered = sorted(tests, key=lambda test: (test.started, test.test))
    of_each = Counter((test.test, test.profiled) for test in ordered)
    so_far: Counter[tuple[str, bool]] = Counter()
    runs = []
    for test in ordered:
        key = test.test, test.profiled
        so_far[key] += 1
        runs.append(msgspec.structs.replace(test, attempt=so_far[key], attempts=of_each[key]))
    return runs


def last(tests: Sequence[TestResult]) -> list[TestResult]:
    """Return the runs that count."""
    return [test for test in tests if not test.superseded]
