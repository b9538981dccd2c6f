"""Checks that every run is judged by: what fails is a finding, unless a declared check says so already."""

from __future__ import annotations

import msgspec
import pytest

from pytest_grovescale.analysis.phase_result import FaultsResult
from pytest_grovescale.analysis.result import CheckResult, CheckVerdict, Finding, Severity, TestResult
from pytest_grovescale.checks.budgets import ids, with_defaults
from pytest_grovescale.checks.check import Check, tag_of, text_of
from tests.unit.checks.noop_run import NoopRun


def judged(test: TestResult, *failing: str) -> list[str]:
    """Return the ids of the findings where these checks fail, and all others pass."""

    def judge(check: Check) -> CheckResult:
        verdict = "fail" if tag_of(check) in failing else "pass"
        return CheckResult(check=text_of(check), verdict=verdict, text="why", evidence=("a", "b"))  # type: ignore[arg-type]

    return [one.id for one in with_defaults(test, judge, lambda check: None).findings]


RUN = msgspec.structs.replace(NoopRun().result(), findings=())


def test_what_fails_is_a_finding_the_most_severe_first() -> None:
    assert judged(RUN) == []
    assert judged(RUN, "metric_names", "no_builtin_duplicates", "counter_resets") == [
        "counter-resets",
        "no-builtin-duplicates",
        "metric-names",
    ]


def test_errors_that_a_test_put_in_the_operators_way_are_no_finding() -> None:
    faulted = msgspec.structs.replace(RUN.phases[0], faults=FaultsResult(settings=("error=0.1",), seconds=1.0))
    test = msgspec.structs.replace(RUN, phases=(faulted, *RUN.phases[1:]))
    assert judged(RUN, "error_ratio", "counter_resets") == ["counter-resets", "error-ratio"]
    assert judged(test, "error_ratio", "counter_resets") == ["counter-resets"]


@pytest.mark.parametrize("verdict", ["pass", "fail", "inconclusive", "not enforced"])
def test_a_declared_check_speaks_for_itself(verdict: str) -> None:
    declared = CheckResult(check="counter_resets(max=3)", verdict=verdict, text="…")  # type: ignore[arg-type]
    assert judged(msgspec.structs.replace(RUN, checks=(declared,)), "counter_resets") == []


@pytest.mark.parametrize(("rule", "again"), [("noop-work", False), ("growing-objects", True)])
def test_what_a_failed_check_counts_is_not_counted_again_and_its_cause_stays(rule: str, again: bool) -> None:
    found = Finding(id=rule, severity="waste", text="…", check="noop_writes(max=0)")
    test = msgspec.structs.replace(RUN, findings=(found,))
    failed = CheckResult(check="noop_writes(max=0)", verdict="fail", text="…")
    assert judged(test) == [rule]
    assert judged(msgspec.structs.replace(test, checks=(failed,))) == [rule] * again
    assert judged(msgspec.structs.replace(test, checks=(msgspec.structs.replace(failed, verdict="pass"),))) == [rule]


@pytest.mark.parametrize(
    ("check", "severity", "lines", "one"),
    [
        ('error_ratio(kind="persistent")', "waste", ("a",), True),
        ('error_ratio(kind="persistent")', "note", ("a",), False),  # what may be intended explains nothing
        ("noop_writes(max=0)", "waste", ("a",), False),
        (
            'series_growth(family="a_total")',
            "defect",
            ("a_total: 2 series per object", "    pod has 9 values", "0 to 9 pods"),
            True,
        ),
        ('series_growth(family="a_total")', "defect", ("a_total: 2", "b_total: 1"), False),
    ],
)
def test_what_a_rule_found_of_the_same_stands_with_it(
    check: str, severity: Severity, lines: tuple[str, ...], one: bool
) -> None:
    found = Finding(id="rule", severity=severity, text="…", check=check)
    failing = "series_growth" if "series" in check else "error_ratio"

    def judge(asked: Check) -> CheckResult:
        verdict: CheckVerdict = "fail" if tag_of(asked) == failing else "pass"
        return CheckResult(check=text_of(asked), verdict=verdict, text="why", evidence=lines)

    findings = with_defaults(msgspec.structs.replace(RUN, findings=(found,)), judge, lambda asked: None).findings
    assert len(findings) == (1 if one else 2)
    assert [[other.text for other in each.explains] for each in findings if each.id == "rule"] == [["why"] * one]


def test_a_rule_that_is_switched_off_is_not_judged() -> None:
    assert judged(msgspec.structs.replace(RUN, findings_off={"counter-resets": "why"}), "counter_resets") == []
    assert "counter-resets" in ids()


@pytest.mark.parametrize("change", [{"profiled": True}, {"disturbed": "others were there"}, {"phases": ()}])
def test_a_run_that_proves_nothing_has_none(change: dict[str, object]) -> None:
    assert judged(msgspec.structs.replace(RUN, **change), "counter_resets") == []
