"""The outcome of a test after its run, by its checks and budgets; and its figures as pytest properties."""

from __future__ import annotations

from typing import Literal

import pytest

from ..checks import NoTestLeakage, SimulatedNodesOnly
from ..checks.budgets import TEST, Declared
from ..checks.check import failure, line, verdict_lines
from ..checks.judge import judge_all, with_findings
from ..cluster.handle import Cluster
from ..errors import (
    CheckFailed,
    CheckInconclusive,
    GrovescaleError,
    InconclusiveWarning,
    NotMeasuredError,
    OperatorError,
    PhaseError,
)
from ..recording.conditions import WatchSpec
from ..recording.recorder import Recorder
from ..recording.records import TestOutcome
from ..report import result_file
from ..report.findings_table import failed, in_words
from ..scenario.running_test import RunningTest
from .error_translation import is_infrastructure, translated_errors
from .session_summary import UNJUDGED, UNPROFILED

_DID_NOT_HOLD = (AssertionError, NotMeasuredError, pytest.fail.Exception)
"""Exceptions of a failed expectation; any other exception that ends a test is an error."""

_UNDECIDED = (CheckInconclusive, NotMeasuredError)
"""Exceptions of a figure that could not be decided."""

_OF_PHASE = (PhaseError, OperatorError)
"""Exceptions that end a phase because the operator under test did not do its work."""

_FIGURES = pytest.StashKey[list[tuple[str, str]]]()
"""Properties of a test's last run."""


def hold_to_budget(item: pytest.Item, test: RunningTest) -> None:
    """Fail a test that exceeds its marker's checks or ``budgets.yaml``; warn where they are undecided."""
    if not test.budget.declared or not test.budget.enforced:
        return
    with translated_errors():
        if any(isinstance(check, NoTestLeakage) for check, _ in test.budget.declared):
            test.run_without_tracking()
        found = [check for check in test.judged().checks if check.source != TEST]
    item.add_report_section("call", "grovescale checks", verdict_lines(found))
    if failed := [check for check in found if test.budget.fails(check)]:
        raise failure(failed)
    for check in found:
        if check.verdict == "inconclusive":
            item.warn(InconclusiveWarning(line(check)))


def hold_to_findings(test: RunningTest) -> None:
    """Fail a test whose recording shows a defect or waste (``--grovescale-findings=fail``)."""
    with translated_errors():
        run = test.recorded(findings=True)
        judged = with_findings(judge_all(run), run)
    severe = [in_words(one) for one in judged.findings if one.severity != "note"]
    if severe:
        raise CheckFailed(
            "\n".join(severe),
            next_step="Mend the operator; or say in its definition why a rule does not apply: findings: {RULE: why}.",
        )
    if unknown := list(failed(judged)):
        raise CheckInconclusive(
            "\n".join(unknown), next_step="grovescale findings RUN shows what the other rules found."
        )


def disturbed(item: pytest.Item, lost: str, *, inconclusive: Literal["fail", "warn"]) -> None:
    """Fail a test that lost exclusive use of its cluster while it measured, or warn of it."""
    text = f"others may have used the cluster while this was measured: {lost}"
    if inconclusive == "fail":
        raise CheckInconclusive(text, next_step="Run the test again.")
    item.warn(InconclusiveWarning(text))


def outcome_of(report: pytest.TestReport, error: BaseException | None, *, failed_phase: str) -> tuple[TestOutcome, str]:
    """Return pytest's outcome of a test's set-up, function or teardown, and the reason, in one line.

    ``failed_phase``: the phase that did not pass; empty when all have: then the function was ended between two.
    """
    if report.skipped and not hasattr(report, "wasxfail"):
        return "inconclusive", f"skipped: {_first_line(error) if error is not None else ''}"
    if not report.failed or error is None:
        # A strict xfail that passes has no exception.
        return ("failed", str(report.longrepr)) if report.failed else ("passed", "")
    if report.when == "call" and not is_infrastructure(error):
        if isinstance(error, _UNDECIDED):
            return "inconclusive", _first_line(error)
        if isinstance(error, _DID_NOT_HOLD) or (failed_phase and isinstance(error, _OF_PHASE)):
            return "failed", _first_line(error)
    # The name of one of our classes adds nothing for a user; another error's name often is the cause: KeyError: 'x'.
    name = "" if isinstance(error, GrovescaleError) else f"{type(error).__name__}: "
    return "error", f"{name}{_first_line(error)}"


def leaves_unjudged(item: pytest.Item, test: RunningTest, error: BaseException) -> bool:
    """Return whether a profiling pass passes despite a failed expectation in its test: its phases passed.

    Noted on the item, for the end of the run, whichever worker it ran on. A check that fails here is one that this pass
    is judged by.
    """
    if not test.profiled or test.current is not None or not isinstance(error, _DID_NOT_HOLD):
        return False
    if isinstance(error, CheckFailed):
        return False
    outcomes = [phase.outcome for phase in test.result().phases]
    if not outcomes or set(outcomes) != {"passed"}:
        return False
    item.user_properties.append((UNJUDGED, _first_line(error)))
    return True


def note_unprofiled(item: pytest.Item, test: RunningTest) -> None:
    """Note on a test the profilers that its phases request but that were not run, for the end of the run."""
    if test.unprofiled:
        phases = ", ".join(f"{phase} by {profiler}" for phase, profiler in test.unprofiled.items())
        item.user_properties.append((UNPROFILED, phases))


def give_figures(item: pytest.Item, test: RunningTest) -> None:
    """Add a test's figures as properties, replacing those of an earlier run if this is its rerun."""
    figures = result_file.properties(test.judged())
    before = item.stash.get(_FIGURES, [])
    item.user_properties[:] = [*(one for one in item.user_properties if one not in before), *figures]
    item.stash[_FIGURES] = figures


def _first_line(error: BaseException) -> str:
    text = error.message if isinstance(error, GrovescaleError) else str(error)
    return next(iter(text.strip().splitlines()), type(error).__name__)


SOURCE = "cluster"
"""Source of the check, as reports name it."""


def held_to_simulated_nodes(cluster: Cluster, recorder: Recorder, namespace: str) -> tuple[Declared, ...]:
    """Record the placement of a namespace's pods, and return the check that judges it.

    Empty where all nodes are simulated.
    """
    if not cluster.pools:
        return ()
    path = f"/api/v1/namespaces/{namespace}/pods"
    recorder.also_watch([WatchSpec(resource="pods", path=path, fields=("spec.nodeName",))])
    return (Declared(SimulatedNodesOnly(), SOURCE),)
