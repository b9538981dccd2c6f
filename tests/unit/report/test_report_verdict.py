"""One verdict, whoever shows it: each way in which a test can end, in each report of it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pytest_grovescale.analysis.analyse import analyse, merge
from pytest_grovescale.analysis.phase_result import ApiRow, Disruption, DisruptionKind, MilestoneResult
from pytest_grovescale.analysis.result import CheckResult, Result, TestResult, TestVerdict, verdict_of
from pytest_grovescale.recording.records import Closed, TestEnded
from pytest_grovescale.report import result_file, run_report, summary
from pytest_grovescale.report.html.page import render_run
from pytest_grovescale.report.html.tiles import answer
from tests.unit.analysis.simulated import Simulation

from .sample import DEPLOY, MACHINE, PASSED

BUDGET = CheckResult(
    check='cpu("deploy", max="5s")',
    subject="operator CPU",
    id="cpu.deploy",
    phase="deploy",
    verdict="pass",
    figure=2.8,
    bound=5,
    unit="s",
    text="operator CPU 2.8 s ≤ 5 s",
    source="budgets.yaml:9",
)
EXCEEDED = msgspec.structs.replace(BUDGET, verdict="fail", figure=6.84, text="operator CPU 6.84 s > 5 s")
UNDECIDED = msgspec.structs.replace(EXCEEDED, verdict="inconclusive")
OFF = msgspec.structs.replace(EXCEEDED, verdict="not enforced")
LATE = msgspec.structs.replace(DEPLOY, outcome="timeout", message="phase 'deploy' timed out after 5m00s")
CUT = msgspec.structs.replace(DEPLOY, outcome="interrupted")

CASES: dict[str, tuple[dict[str, Any], TestVerdict, str]] = {
    "all passed": ({"checks": (BUDGET,)}, "passed", "1 check, 2 phases"),
    "check failed": ({"checks": (EXCEEDED,), "ended": "failed"}, "failed", "operator CPU in deploy 6.84 s > 5 s"),
    "milestone failed": (
        {"phases": (LATE,), "scenario_outcome": "timeout", "ended": "failed"},
        "failed",
        "phase 'deploy' timed out after 5m00s",
    ),
    "assertion failed": ({"ended": "failed", "failure": "3 is not 4"}, "failed", "3 is not 4"),
    "inconclusive": ({"checks": (UNDECIDED,), "ended": "inconclusive"}, "inconclusive", "operator CPU"),
    "interrupted": (
        {"phases": (CUT,), "scenario_outcome": "interrupted", "ended": None, "closed": "interrupted"},
        "interrupted",
        "deploy",
    ),
    "error between phases": ({"ended": "error", "error": "ApiError: 409"}, "error", "ApiError: 409"),
    "killed": ({"ended": None, "closed": "controller-gone"}, "interrupted", ""),
    "killed with its recorder": ({"ended": None, "closed": ""}, "interrupted", ""),
    "disk full": ({"closed": "journal-full", "closed_message": "No space left"}, "error", "No space left"),
    "budgets off": ({"checks": (OFF,)}, "passed", ""),
}


def result_of(changes: dict[str, Any]) -> TestResult:
    test = msgspec.structs.replace(PASSED, **{"closed": "stopped", **changes})
    return msgspec.structs.replace(test, verdict=verdict_of(test))


def run_of(test: TestResult) -> Result:
    return Result(
        run="run-1",
        version="0.1.0",
        machine=MACHINE,
        verdict=test.verdict,
        scenario_outcome=test.scenario_outcome,
        started=test.started,
        tests=(test,),
    )


def of_page(test: TestResult) -> str:
    page = render_run(run_of(test))
    (heading,) = re.findall(r"<h1>.*?</h1>", page, flags=re.DOTALL)
    (badge,) = re.findall(r'class="badge[^"]*">([^<]+)<', heading)
    return str(badge)


def of_json(test: TestResult, folder: Path) -> str:
    result_file.write(run_of(test), folder / "result.json")
    read = result_file.read(folder / "result.json")
    assert read.verdict == read.tests[0].verdict
    return read.verdict


RENDERERS: dict[str, Callable[[TestResult, Path], str]] = {
    "terminal": lambda test, _: run_report.render_summary(test).split()[0].lower(),
    "terminal -v": lambda test, _: run_report.render_test(test).split()[0].lower(),
    "terminal -q": lambda test, _: run_report.render_line(test).split()[0].lower(),
    "page": lambda test, _: of_page(test),
    "Markdown": lambda test, _: run_report.render_markdown(run_of(test)).splitlines()[0].rpartition(": ")[2],
    "JUnit": lambda test, _: dict(result_file.properties(test))["grovescale.verdict"],
    "result.json": of_json,
}


@pytest.mark.parametrize("renderer", RENDERERS)
@pytest.mark.parametrize("case", CASES)
def test_every_report_has_the_same_verdict(renderer: str, case: str, tmp_path: Path) -> None:
    changes, verdict, _ = CASES[case]
    assert RENDERERS[renderer](result_of(changes), tmp_path) == verdict


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("render", [run_report.render_summary, run_report.render_test, run_report.render_line])
def test_the_reason_stands_in_the_first_lines(render: Callable[[TestResult], str], case: str) -> None:
    changes, _, reason = CASES[case]
    assert reason in "\n".join(render(result_of(changes)).splitlines()[:3])


def test_a_budget_that_is_not_enforced_is_no_failed_check() -> None:
    test = result_of(CASES["budgets off"][0])
    for text in (run_report.render_test(test), run_report.render_markdown(run_of(test))):
        assert "not enforced" in text
        assert "**fail**" not in text
        assert "1 failed" not in text


@pytest.mark.parametrize(
    ("ends", "closed", "verdict"),
    [
        (["passed"], "stopped", "passed"),
        (["passed", "error"], "stopped", "error"),
        (["failed", "error"], "stopped", "error"),
        (["inconclusive"], "stopped", "inconclusive"),
        ([], "interrupted", "interrupted"),
        ([], None, "interrupted"),
        (["passed"], "journal-full", "error"),
    ],
)
def test_a_recording_says_it(ends: list[Any], closed: Any, verdict: str) -> None:
    sim = Simulation()
    sim.phase("p", 100, 200, "passed")
    records = list(sim.records())
    records = [record for record in records if not isinstance(record, Closed)]
    at = records[-1].at
    # The teardown's outcome may follow the end of the recording.
    first, rest = ends[:1], ends[1:]
    records += [TestEnded(at=at, outcome=outcome) for outcome in first]
    records += [Closed(at=at + 1, reason=closed)] if closed else []
    records += [TestEnded(at=at + 10**12, outcome=outcome) for outcome in rest]
    test = analyse(records)
    assert test.verdict == verdict
    assert test.seconds < 1000
    assert merge([test]).verdict == verdict


BROKEN = Disruption(
    kind="component-restart",
    subject="kube-apiserver",
    from_s=4.2,
    to_s=5.0,
    text="kube-apiserver was restarted 4.2 s into deploy",
    uncertain=("CPU", "API traffic"),
)


def test_a_check_that_failed_comes_before_what_broke_and_did_not_touch_it() -> None:
    disturbed = msgspec.structs.replace(DEPLOY, disruptions=(BROKEN,))
    phases = (disturbed, *PASSED.phases[1:])
    test = msgspec.structs.replace(PASSED, phases=phases, checks=(UNDECIDED, EXCEEDED), verdict="failed")
    assert run_report.render_line(test).partition(" - ")[2].startswith("operator CPU in deploy")
    reported = " ".join(run_report.render_summary(test).split())
    order = ("1 of 2 checks failed", "operator CPU in deploy", BROKEN.text, "inconclusive: ")
    assert sorted(order, key=reported.index) == list(order)


@pytest.mark.parametrize("verdict", ["inconclusive", "passed"])
def test_what_broke_beneath_a_phase_comes_first_in_every_report(verdict: TestVerdict) -> None:
    disturbed = msgspec.structs.replace(DEPLOY, disruptions=(BROKEN,))
    checks = {"inconclusive": (UNDECIDED,), "passed": ()}[verdict]
    test = msgspec.structs.replace(PASSED, phases=(disturbed, *PASSED.phases[1:]), checks=checks, verdict=verdict)
    reported = " ".join(run_report.render_summary(test).split())
    page = render_run(run_of(test))
    lines = run_report.render_markdown(run_of(test))
    others = ("checks could not be decided", "operator CPU in deploy")
    for text in (reported, lines, page[page.index("<h1") :]):
        at = text.index(BROKEN.text)
        assert all(text.find(other) == -1 or text.find(other) > at for other in others), text[: at + 100]
    if verdict != "passed":
        assert run_report.render_line(test).partition(" - ")[2].startswith(BROKEN.text)
    whole = " ".join(run_report.render_test(test).split())
    assert f"{BROKEN.text}; uncertain: CPU, API traffic" in whole
    assert f"{BROKEN.text}; uncertain: CPU, API traffic" in lines


@pytest.mark.parametrize("case", ["milestone failed", "interrupted"])
@pytest.mark.parametrize("undecided", [0, 1, 3])
def test_why_a_test_ended_comes_before_the_checks_that_it_left_undecided(case: str, undecided: int) -> None:
    changes, _, first = CASES[case]
    test = result_of({**changes, "checks": (BUDGET, *[UNDECIDED] * undecided)})
    found = summary.reasons(test)
    left = [at for at, line in enumerate(found) if "inconclusive" in line or "could not be decided" in line]
    assert left == [len(found) - 1] * (undecided > 0), "in one line, the last"
    assert first in " ".join(run_report.render_line(test).split()), "and the reason first"


@pytest.mark.parametrize("kind", ["component-exit", "component-restart"])
def test_components_that_ended_with_their_cluster_are_no_cause_of_the_error_that_says_why(kind: DisruptionKind) -> None:
    broken = msgspec.structs.replace(BROKEN, kind=kind)
    phases = (msgspec.structs.replace(DEPLOY, disruptions=(broken,)), *PASSED.phases[1:])
    test = msgspec.structs.replace(PASSED, phases=phases, verdict="error", error="its supervisor was killed (pid 7)")
    assert run_report.render_line(test).partition(" - ")[2].startswith(BROKEN.text) == (kind == "component-restart")
    reported = " ".join(run_report.render_summary(test).split())
    order = (BROKEN.text, test.error) if kind == "component-restart" else (test.error, BROKEN.text)
    assert sorted(order, key=reported.index) == list(order)


def test_an_error_that_ended_a_phase_is_said_once() -> None:
    why = "PodCliqueSet t/pcs refused: .spec.replcas: field not declared in schema"
    broken = msgspec.structs.replace(DEPLOY, outcome="failed", message=f"WorkloadError: {why}")
    error = f"{why}\n  → Correct it."
    test = msgspec.structs.replace(PASSED, phases=(broken,), checks=(), verdict="error", error=error)
    for shown in (run_report.render_summary(test), run_report.render_line(test)):
        assert " ".join(shown.split()).count(why) == 1


@pytest.mark.parametrize(("changes", "is_said"), [({}, True), ({"observed_s": 0.4}, False), ({"met": False}, False)])
def test_a_phase_that_waited_for_what_was_there_before_says_so(changes: dict[str, Any], is_said: bool) -> None:
    met = MilestoneResult(name="back", condition="36 pods ready", met=True, observed_s=0.0, reached=36, wanted=36)
    request: dict[str, Any] = {"user": "harness", "code": 200, "category": "object", "p50_ms": 1.0, "p99_ms": 2.0}
    deleted = ApiRow(identity="harness", verb="delete", resource="pods", count=4, **request)
    lost = msgspec.structs.replace(DEPLOY, name="lost", milestones=(msgspec.structs.replace(met, **changes),))
    for phase, expected in (
        (msgspec.structs.replace(lost, api=(deleted,)), is_said),
        (msgspec.structs.replace(lost, api=(deleted,), triggers=1), False),
        (msgspec.structs.replace(lost, api=(msgspec.structs.replace(deleted, identity="operator"),)), False),
    ):
        test = msgspec.structs.replace(PASSED, phases=(phase,))
        for said in (summary.caveats(test), [line.text for line in answer(test)]):
            assert any(one.startswith("lost: back ") for one in said) is expected
