"""From checks and a run to verdicts. The same recording gives the same verdicts, at any time.

A verdict cannot be trusted where something touched its figure: a disruption of the control plane, the recorder or a
source of the recording (a bound may have held only because nothing worked, or been exceeded only because work had to be
repeated), or contention on the machine, which inflates CPU, times and retries. Such a check is inconclusive.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import msgspec

from .. import errors
from ..analysis.contention import sentence
from ..analysis.disruptions import early_end
from ..analysis.metrics.history import MetricsHistory
from ..analysis.phase_result import Disruption, PhaseResult
from ..analysis.result import CheckResult, Result, TestResult, last, verdict_of, worst_of
from ..errors import GrovescaleError, NotMeasuredError, UsageError
from ..recording.records import CheckDeclared
from .budgets import with_defaults
from .check import Check, Outcome, decode, id_of, text_of
from .metrics.builtin_duplicates import with_verdicts
from .milestone import Milestone
from .run import Baselines, Profiles, Run
from .scaling import of_sweep


def judge(check: Check, run: Run, *, source: str = "", enforced: bool = True) -> CheckResult:
    """Return a check's verdict on a test; one that is not enforced passes or is ``not enforced``.

    What was not measured is inconclusive, and says what to do. Raises UsageError for a check that could mean several
    phases.
    """
    test = run.test
    try:
        if test.disturbed:
            raise NotMeasuredError(
                f"others may have used the cluster meanwhile: {test.disturbed}", next_step="Run the test again."
            )
        outcome = check.judge(run._replace(metrics=functools.cache(run.metrics)))
    except NotMeasuredError as error:
        early = early_end(test.closed, test.closed_message)
        if early and early not in error.message:
            error = NotMeasuredError(f"{early}; {error.message}", next_step=error.next_step)
        phase = getattr(check, "phase", "")
        judged = inconclusive(text_of(check), error, phase=phase, source=source, name=id_of(check, phase))
        if disruptions := [one.text for of in test.phases if of.name == phase for one in of.disruptions]:
            judged = msgspec.structs.replace(
                judged, text=f"{judged.text}; {disruptions[0]}", evidence=(*disruptions, *judged.evidence)
            )
    else:
        judged = result_of(check, _unless_contended(check, _unless_disrupted(check, outcome, test), test), source)
    return judged if enforced or judged.verdict == "pass" else msgspec.structs.replace(judged, verdict="not enforced")


def judge_all(run: Run) -> TestResult:
    """Return a test's result with the verdict of each declared check, in their order.

    Checks that a sweep judges are left out: one run cannot decide them.
    """
    test, run = run.test, run._replace(metrics=functools.cache(run.metrics))
    checks = tuple(_declared(plain, run) for plain in test.declared if not of_sweep(plain))
    with_checks = msgspec.structs.replace(test, checks=checks)
    return msgspec.structs.replace(with_checks, verdict=verdict_of(with_checks))


def judge_run(
    result: Result,
    baselines_of: Callable[[TestResult], Baselines],
    metrics_of: Callable[[TestResult], MetricsHistory],
    profiles: Profiles,
) -> Result:
    """Return a run's result with the verdicts of all its tests, and of the metric families of their operators.

    ``baselines_of`` gives a test's baselines; ``metrics_of`` its scrapes, from its recording.
    """
    tests = []
    for test in result.tests:
        metrics = functools.cache(functools.partial(metrics_of, test))
        run = Run(test, baselines_of(test), metrics, profiles)
        tests.append(with_verdicts(with_findings(judge_all(run), run), metrics))
    verdict = worst_of(test.verdict for test in last(tests))
    return msgspec.structs.replace(result, tests=tuple(tests), verdict=verdict)


def with_findings(judged: TestResult, run: Run) -> TestResult:
    """Return a judged test with the findings of the default checks, too."""
    return with_defaults(judged, lambda check: judge(check, run), lambda check: check.severity(run))


def without_findings(result: Result) -> Result:
    """Return a run's result without the findings of its tests."""
    return msgspec.structs.replace(
        result, tests=tuple(msgspec.structs.replace(test, findings=()) for test in result.tests)
    )


def result_of(check: Check, outcome: Outcome, source: str) -> CheckResult:
    """Return a check's outcome as a result holds it."""
    return CheckResult(
        check=text_of(check), id=id_of(check, outcome.phase), source=source, **msgspec.structs.asdict(outcome)
    )


def inconclusive(check: str, error: GrovescaleError, *, phase: str, source: str, name: str = "") -> CheckResult:
    """Return that a check could not be decided, and why, as a result holds it."""
    return CheckResult(
        check=check,
        id=name or check,
        phase=phase,
        verdict="inconclusive",
        text=error.message,
        evidence=(error.next_step,) if error.next_step else (),
        source=source,
    )


def _declared(plain: CheckDeclared, run: Run) -> CheckResult:
    try:
        return judge(decode(plain.check), run, source=plain.source, enforced=plain.enforced)
    except UsageError as error:
        # The test is over, so that the message can only stand in the report.
        return inconclusive(str(plain.check.get("check", "")), error, phase="", source=plain.source)
    except errors.ISOLATED as error:
        next_step = "It is a defect of pytest-grovescale: report it, with the recording."
        why = NotMeasuredError(errors.own_defect(error), next_step=next_step)
        return inconclusive(str(plain.check.get("check", "")), why, phase="", source=plain.source)


def _unless_contended(check: Check, outcome: Outcome, test: TestResult) -> Outcome:
    """Return an outcome that is inconclusive where contention may be why the bound was exceeded.

    Contention deflates nothing, so a bound that held has held.
    """
    if outcome.verdict != "fail" or not check.depends_on_timing():
        return outcome
    reasons = (sentence(p.contention, p.name, limit=test.contention_limit) for p in _judged_phases(outcome, test))
    reason = next(filter(None, reasons), "")
    if not reason:
        return outcome
    return msgspec.structs.replace(outcome, verdict="inconclusive", text=f"{outcome.text}; {reason.rstrip('.')}")


def _unless_disrupted(check: Check, outcome: Outcome, test: TestResult) -> Outcome:
    """Return an outcome that is inconclusive, with the reason, where a disruption may have changed its figure."""
    texts = tuple(
        disruption.text
        for phase in _judged_phases(outcome, test)
        for disruption in phase.disruptions
        if _may_touch(check, outcome, disruption, test)
    )
    if not texts:
        return outcome
    already = outcome.verdict == "inconclusive"
    return msgspec.structs.replace(
        outcome,
        verdict="inconclusive",
        text=f"{outcome.text}{'; ' if already else ', but '}{texts[0]}",
        evidence=(*texts, *outcome.evidence),
    )


def _judged_phases(outcome: Outcome, test: TestResult) -> list[PhaseResult]:
    """Return the phases that an outcome is of: its own with its idle twin; all, where it names none."""
    names = {outcome.phase} | {phase.idle_twin for phase in test.phases if phase.name == outcome.phase}
    return [phase for phase in test.phases if not outcome.phase or phase.name in names]


def _may_touch(check: Check, outcome: Outcome, disruption: Disruption, test: TestResult) -> bool:
    """Return whether a disruption may have changed what a check was judged by."""
    if check.failure_stands and outcome.verdict == "fail":
        return False
    match disruption.kind:
        case "audit-gap":
            # What reads the log answers only where all of it was read, or says that it did not.
            return False
        case "busy-recorder":
            return _by_recorders_clock(check, outcome, test) or (
                outcome.verdict == "fail" and check.depends_on_timing() and _at_an_edge(disruption)
            )
        case _:
            return True


def _by_recorders_clock(check: Check, outcome: Outcome, test: TestResult) -> bool:
    """Return whether a check was judged by when the recorder saw something."""
    if not isinstance(check, Milestone):
        return False
    return any(
        milestone.name == check.name and milestone.clock != "server"
        for phase in test.phases
        if not outcome.phase or phase.name == outcome.phase
        for milestone in phase.milestones
    )


def _at_an_edge(disruption: Disruption) -> bool:
    return any(figure == "duration" or figure.startswith("CPU at ") for figure in disruption.uncertain)
