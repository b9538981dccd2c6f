"""Verdicts as readers meet them: in the terminal, in Markdown, in JUnit XML, in the failure of a test."""

from __future__ import annotations

import re

import msgspec
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.analysis.result import CheckResult, Result
from pytest_grovescale.checks import Scales
from pytest_grovescale.checks.check import encode, failure, line, verdict_lines
from pytest_grovescale.errors import CheckFailed, GrovescaleError
from pytest_grovescale.recording.records import CheckDeclared
from pytest_grovescale.report import result_file, run_report
from pytest_grovescale.report.format import escape
from pytest_grovescale.report.html.tiles import answer
from pytest_grovescale.report.run_report import render_test
from tests.unit.report.sample import PASSED, RESULT, TEST

CHECKS = (
    CheckResult(
        check="noop_reads(max=3)",
        subject="object reads by operator",
        id="noop_reads.steady-state",
        phase="steady-state",
        verdict="pass",
        figure=3,
        bound=3,
        text="object reads by operator 3 ≤ 3",
        evidence=("3 × list pods",),
        source="budgets.yaml:4",
    ),
    CheckResult(
        check='cpu("x|y", max="1s")',
        id="cpu.x|y",
        verdict="inconclusive",
        text="the recording has no phase 'x|y'; there are: deploy",
        source="marker",
    ),
    CheckResult(
        check="noop_writes(max=0)",
        subject="object writes by operator",
        id="noop_writes.steady-state",
        phase="steady-state",
        verdict="fail",
        figure=500,
        bound=0,
        text="object writes by operator 500 > 0",
        evidence=tuple(f"wrote pods t/pod-{number}\x1b[31m" for number in range(14)),
        source="budgets.yaml:3",
    ),
)
JUDGED = msgspec.structs.replace(TEST, checks=CHECKS)


FOR_A_SWEEP = msgspec.structs.replace(
    JUDGED, declared=(CheckDeclared(at=1, check=encode(Scales("cpu:deploy")), source="budgets.yaml:9"),)
)


def squeezed(text: str) -> list[str]:
    return [re.sub(r" +", " ", line).strip() for line in text.splitlines()]


def test_what_a_sweep_judges_is_listed_without_a_verdict(snapshot: SnapshotAssertion) -> None:
    reported = [line.text for line in answer(FOR_A_SWEEP) if line.tone == "plain"][-1]
    assert reported.endswith(': scales("cpu:deploy", exponent_max=1.15) [budgets.yaml:9]')
    assert reported == snapshot(name="sweep")
    lines = squeezed(render_test(FOR_A_SWEEP, width=140))
    assert next(line for line in lines if line.startswith("Checks: ")) == snapshot(name="checks")
    assert f"- {reported}" in lines
    assert f"- {escape(reported)}\n" in run_report.render_markdown(
        msgspec.structs.replace(RESULT, tests=(FOR_A_SWEEP,))
    )


def test_the_terminal_has_the_bad_ones_first_and_what_they_rest_on(snapshot: SnapshotAssertion) -> None:
    lines = squeezed(render_test(JUDGED, width=140))
    start = next(number for number, line in enumerate(lines) if line.startswith("Checks: "))
    verdicts = [line.partition(" ")[0] for line in lines[start + 2 : start + 5]]
    assert verdicts == ["fail", "inconclusive", "pass"]
    assert lines[start + 5] == "- noop_writes(max=0)"
    assert "wrote pods t/pod-0" in lines
    assert "wrote pods t/pod-13" not in lines
    assert "3 × list pods" not in lines
    end = next(number for number, line in enumerate(lines) if "result.json" in line)
    assert "\n".join(lines[start : end + 1]) == snapshot


def test_no_checks_no_table() -> None:
    assert "Checks" not in render_test(PASSED)
    assert "verdict" not in run_report.render_markdown(RESULT)


def test_markdown_has_a_row_for_each() -> None:
    run = Result(
        run="r", version="0", machine=None, verdict="passed", scenario_outcome="passed", started="", tests=(JUDGED,)
    )
    rows = [
        row
        for row in run_report.render_markdown(run).splitlines()
        if row.startswith("|") and ("budgets.yaml" in row or "marker" in row)
    ]
    assert rows[0].startswith("| **fail** | steady-state | object writes by operator 500")
    assert rows[1].startswith("| inconclusive | – | ")
    assert rows[2].startswith("| pass | ")


def test_junit_has_a_property_for_each() -> None:
    found = dict(result_file.properties(JUDGED))
    assert found["grovescale.check.noop_writes.steady-state"] == "fail"
    assert found["grovescale.check.noop_writes.steady-state.figure"] == "500"
    assert found["grovescale.check.noop_writes.steady-state.bound"] == "0"
    assert found["grovescale.check.cpu.x|y"] == "inconclusive"
    assert "grovescale.check.cpu.x|y.figure" not in found


def test_a_line_starts_with_figure_and_bound_and_names_its_source(snapshot: SnapshotAssertion) -> None:
    assert line(CHECKS[2]).endswith(" 500 > 0 (fail; noop_writes(max=0), budgets.yaml:3)")
    assert line(CHECKS[1]).startswith('cpu("x|y", max="1s"): ')
    assert "\n".join(line(check) for check in CHECKS) == snapshot
    assert verdict_lines(CHECKS[:1]).splitlines() == [line(CHECKS[0]), "    3 × list pods"]


def test_the_failure_is_an_assertion_and_one_of_ours() -> None:
    error = failure(CHECKS)
    assert isinstance(error, CheckFailed | AssertionError)
    assert isinstance(error, GrovescaleError)
    assert str(error).splitlines()[0] == line(CHECKS[2])
