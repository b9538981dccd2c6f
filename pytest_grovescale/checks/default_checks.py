"""Checks that need no bound of anyone's: judged on every run, whether declared or not. What fails is a finding.

Only checks by which a sound operator passes at any size and speed; what depends on the machine needs a declared bound.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from ..analysis.findings import may_have_findings, ordered
from ..analysis.result import CheckResult, Finding, Severity, TestResult
from .check import Check, tag_of, text_of
from .metrics.buckets import HistogramBuckets
from .metrics.builtin_duplicates import NoBuiltinDuplicates
from .metrics.counter_resets import CounterResets
from .metrics.error_rates import ErrorRatio
from .metrics.function_names import FunctionNameLabels
from .metrics.names import MetricNames
from .metrics.series import SeriesGrowth

_DEFAULTS: tuple[tuple[Check, Severity], ...] = (
    (CounterResets(), "defect"),
    (ErrorRatio(kind="persistent"), "defect"),
    (SeriesGrowth(), "waste"),
    (NoBuiltinDuplicates(), "waste"),
    (FunctionNameLabels(), "waste"),
    (HistogramBuckets(family="*"), "note"),
    (MetricNames(), "note"),
)

_EVIDENCE = 5


def ids() -> list[str]:
    """Return the ids of the findings that these checks can make."""
    return [_id(check) for check, _ in _DEFAULTS]


def with_defaults(
    test: TestResult, judge: Callable[[Check], CheckResult], severity_of: Callable[[Check], Severity | None]
) -> TestResult:
    """Return a test's result with the findings of the default checks, and without those that a declared check made.

    ``judge`` gives a check's verdict on this test, ``severity_of`` how severe a failure is, None for the usual.
    """
    if not may_have_findings(test):
        return test
    declared = {_name(check.check) for check in test.checks}
    failed = {_name(check.check) for check in test.checks if check.verdict in ("fail", "not enforced")}
    found = [one for one in test.findings if _name(one.check) not in failed]
    for check, severity in _DEFAULTS:
        if tag_of(check) not in declared and _id(check) not in test.findings_off:
            judged = judge(check)
            if judged.verdict == "fail":
                found.append(_finding(judged, check, severity_of(check) or severity))
    return msgspec.structs.replace(test, findings=ordered(found))


def _finding(judged: CheckResult, check: Check, severity: Severity) -> Finding:
    return Finding(
        id=_id(check), severity=severity, text=judged.text, evidence=judged.evidence[:_EVIDENCE], check=text_of(check)
    )


def _name(text: str) -> str:
    """Return the name in a check's text: ``noop_writes`` of ``noop_writes(max=0)``."""
    return text.partition("(")[0]


def _id(check: Check) -> str:
    return tag_of(check).replace("_", "-")
