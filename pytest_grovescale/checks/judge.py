"""From checks and a result to verdicts. The same recording gives the same verdicts, at any time."""

from __future__ import annotations

import functools
from collections.abc import Callable

import msgspec

from ..analysis.attempts import last
from ..analysis.contention import sentence
from ..analysis.gaps import early_end
from ..analysis.metrics.history import MetricsHistory
from ..analysis.result import CheckResult, PhaseResult, Result, TestResult
from ..analysis.verdict import verdict_of, worst_of
from ..errors import GrovescaleError, NotMeasuredError, UsageError
from ..recording.records import CheckDeclared
from . import milestones, noop, noop_cpu, reconciles, resources, scaling, simulated_nodes, traffic
from .baseline import Baselines, no_baselines
from .check import id_of, text_of
from .disrupted import unless_disrupted, with_disruptions
from .finding import Finding
from .metrics import judge as of_metrics
from .metrics.duplicates import with_verdicts
from .metrics.functions import Profiles, no_profiles
from .shape import (
    AnyCheck,
    ApiRequests,
    Cpu,
    HotLoop,
    Milestone,
    NoopCpu,
    NoopReads,
    NoopReconciles,
    NoopWrites,
    Rss,
    Scales,
    SimulatedNodesOnly,
    decode,
)

Metrics = Callable[[], MetricsHistory]
"""A test's scrapes; read when a check asks for them, which most tests' checks never do."""


def no_metrics() -> MetricsHistory:
    """Stand for scrapes that are not at hand: a result without its recording."""
    raise NotMeasuredError("its recording is not at hand", next_step="Give the run's folder, with its recordings.")


def judge(
    check: AnyCheck,
    test: TestResult,
    *,
    baselines: Baselines = no_baselines,
    metrics: Metrics = no_metrics,
    profiles: Profiles = no_profiles,
    source: str = "",
    enforced: bool = True,
) -> CheckResult:
    """Return what one check says of a test; one that is not enforced passes or is ``not enforced``.

    What was not measured is inconclusive, and says what to do. Raises UsageError for a check that could mean several
    phases.
    """
    try:
        if test.disturbed:
            raise NotMeasuredError(
                f"others may have used the cluster meanwhile: {test.disturbed}", next_step="Run the test again."
            )
        found = _finding(check, test, baselines, metrics, profiles)
    except NotMeasuredError as error:
        early = early_end(test.closed, test.closed_message)
        if early and early not in error.message:
            error = NotMeasuredError(f"{early}; {error.message}", next_step=error.next_step)
        phase = getattr(check, "phase", "")
        judged = inconclusive(text_of(check), error, phase=phase, source=source, name=id_of(check, phase))
        judged = with_disruptions(judged, test)
    else:
        looked_at = _looked_at(found, test)
        found = unless_disrupted(check, found, looked_at, test)
        judged = result_of(check, unless_contended(check, found, test), source)
    return judged if enforced or judged.verdict == "pass" else msgspec.structs.replace(judged, verdict="not enforced")


def unless_contended(check: AnyCheck, found: Finding, test: TestResult) -> Finding:
    """Return a finding that is inconclusive where contention on the machine may be why the bound was exceeded.

    Contention inflates CPU, times and retries, and deflates nothing: a bound that held has held. A metric's check that
    names no phase is of the whole run.
    """
    if found.verdict != "fail" or not check.depends_on_timing():
        return found
    reasons = (sentence(p.contention, p.name, limit=test.contention_limit) for p in _looked_at(found, test))
    reason = next(filter(None, reasons), "")
    if not reason:
        return found
    return msgspec.structs.replace(found, verdict="inconclusive", text=f"{found.text}; {reason.rstrip('.')}")


def _looked_at(found: Finding, test: TestResult) -> list[PhaseResult]:
    """Return the phases that a finding is of: its own with its idle twin; all, where it names none."""
    names = {found.phase} | {phase.idle_twin for phase in test.phases if phase.name == found.phase}
    return [phase for phase in test.phases if not found.phase or phase.name in names]


def judge_all(
    test: TestResult,
    *,
    baselines: Baselines = no_baselines,
    metrics: Metrics = no_metrics,
    profiles: Profiles = no_profiles,
) -> TestResult:
    """Return a test's result with the verdict of each check that it was declared to be held to, in their order.

    But of those that a sweep judges: one run says nothing of them.
    """
    judged = functools.partial(
        _declared, test, baselines=baselines, metrics=functools.cache(metrics), profiles=profiles
    )
    checks = tuple(judged(plain) for plain in test.declared if not scaling.of_sweep(plain))
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
        judged = judge_all(test, baselines=baselines_of(test), metrics=metrics, profiles=profiles)
        tests.append(with_verdicts(judged, metrics))
    verdict = worst_of(test.verdict for test in last(tests))
    return msgspec.structs.replace(result, tests=tuple(tests), verdict=verdict)


def _declared(
    test: TestResult, plain: CheckDeclared, *, baselines: Baselines, metrics: Metrics, profiles: Profiles
) -> CheckResult:
    try:
        check = decode(plain.check)
        return judge(
            check,
            test,
            baselines=baselines,
            metrics=metrics,
            profiles=profiles,
            source=plain.source,
            enforced=plain.enforced,
        )
    except UsageError as error:
        # The test is over, so that the message can only stand in the report.
        return inconclusive(str(plain.check.get("check", "")), error, phase="", source=plain.source)


def result_of(check: AnyCheck, found: Finding, source: str) -> CheckResult:
    """Return what a check found as it stands in a result."""
    return CheckResult(
        check=text_of(check),
        subject=found.subject,
        id=id_of(check, found.phase),
        phase=found.phase,
        verdict=found.verdict,
        figure=found.figure,
        bound=found.bound,
        unit=found.unit,
        text=found.text,
        evidence=found.evidence,
        source=source,
    )


def inconclusive(check: str, error: GrovescaleError, *, phase: str, source: str, name: str = "") -> CheckResult:
    """Return that a check could not be decided, and why, as it stands in a result."""
    return CheckResult(
        check=check,
        id=name or check,
        phase=phase,
        verdict="inconclusive",
        text=error.message,
        evidence=(error.next_step,) if error.next_step else (),
        source=source,
    )


def _finding(check: AnyCheck, test: TestResult, baselines: Baselines, metrics: Metrics, profiles: Profiles) -> Finding:
    match check:
        case NoopWrites():
            return noop.writes(check, test)
        case NoopReads():
            return noop.reads(check, test)
        case NoopReconciles():
            return reconciles.per_trigger(check, test)
        case NoopCpu():
            return noop_cpu.judge(check, test, baselines)
        case SimulatedNodesOnly():
            return simulated_nodes.judge(test)
        case HotLoop():
            return reconciles.hot_loop(check, test)
        case ApiRequests():
            return traffic.requests(check, test)
        case Cpu():
            return resources.cpu(check, test)
        case Rss():
            return resources.rss(check, test)
        case Milestone():
            return milestones.judge(check, test, baselines)
        case Scales():
            raise NotMeasuredError(
                "one run has one size, and tells nothing of how a figure grows",
                next_step="It is judged by runs of several sizes: grovescale sweep TEST --set replicas=125,250,500.",
            )
        case _:
            return of_metrics.judge(check, test, metrics(), profiles)
