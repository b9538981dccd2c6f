"""Reports of a run without an audit log and without clocks say where each figure is from, wherever it stands."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

import msgspec
import pytest
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.analysis.phase_result import ClientRow, IncidentResult, MilestoneResult, PhaseResult
from pytest_grovescale.analysis.result import Result, TestResult
from pytest_grovescale.report import document, findings_table, result_file, run_report
from pytest_grovescale.report.html.page import render_run
from pytest_grovescale.report.summary import cpu_cell
from tests.unit.report.sample import MACHINE, PASSED, cpu

PHASE = PhaseResult(
    name="deploy",
    outcome="passed",
    started="",
    seconds=10.0,
    timeout_s=60,
    milestones=(
        MilestoneResult(
            name="ready", condition="c", met=True, observed_s=9.5, why_not_server="no audit log", held_to_end=True
        ),
    ),
    cpu=(cpu("operator", 2.5, source="scrape", resolution_s=0.0605, rss_resolution_bytes=3_000_000),),
    traffic_source="metrics",
    client_requests=(
        ClientRow(method="GET", code="200", count=0, total=11),
        ClientRow(method="PATCH", code="200", count=1503, total=1503),
        ClientRow(method="PATCH", code="409", count=4, total=4),
    ),
    incidents=(
        IncidentResult(kind="container-restart", subject="operator/a/manager", detail="exit code 137", after_s=3.2),
    ),
    missing={"audit": "this cluster's audit log is no source of the recording"},
)
TEST = TestResult(
    test="t.py::t",
    run="r",
    version="0",
    scenario_outcome="passed",
    verdict="passed",
    started="2026-01-31T12:00:00.000Z",
    seconds=20,
    machine=MACHINE,
    cluster={"backend": "existing"},
    audited=False,
    phases=(PHASE,),
    objects=500,
    objects_resource="pods",
)


def page(test: TestResult) -> str:
    return render_run(
        Result(
            run="r",
            version="0",
            machine=MACHINE,
            verdict="passed",
            scenario_outcome="passed",
            started=test.started,
            tests=(test,),
        )
    )


def test_the_terminal_says_what_figures_are_from(snapshot: SnapshotAssertion) -> None:
    text = run_report.render_test(TEST, width=200)
    assert text == snapshot
    text = " ".join(text.split())
    assert "No audit log: " in text
    assert "2.50 ± 0.06 s" in text
    assert "up to 3.00 MB" in text
    assert "deploy 1,507 0 1,507 4" in text
    assert "deploy, after 3.20 s: container restarted: " in text
    assert "operator/a/manager (exit code 137)" in text


def test_markdown_says_the_same(snapshot: SnapshotAssertion) -> None:
    text = run_report.render_markdown(
        Result(
            run="r",
            version="0",
            machine=MACHINE,
            verdict="passed",
            scenario_outcome="passed",
            started="",
            tests=(TEST,),
        )
    )
    assert text == snapshot
    assert "No audit log: " in text
    assert "\n- ready: by " in text
    assert "| 2.50 ± 0.06 s | ≤ 1,507 |" in text
    assert "container restarted" in text


def test_no_write_of_any_kind_is_shown_as_none() -> None:
    quiet = msgspec.structs.replace(PHASE, client_requests=(ClientRow(method="POST", code="201", count=0, total=5),))
    text = run_report.render_markdown(
        Result(
            run="r", version="0", machine=MACHINE, verdict="passed", scenario_outcome="passed", started="",
            tests=(msgspec.structs.replace(TEST, phases=(quiet,)),),
        )
    )  # fmt: skip
    assert "| 2.50 ± 0.06 s | 0 |" in text


def test_junit_names_the_source() -> None:
    found = dict(result_file.properties(TEST))
    assert found["grovescale.deploy.operator.cpu_source"] == "scrape"
    assert found["grovescale.deploy.operator.cpu_resolution_seconds"] == "0.0605"
    assert found["grovescale.deploy.operator.client_requests"] == "1507"
    assert "grovescale.deploy.operator.object_writes" not in found


def test_the_page_says_the_same(snapshot: SnapshotAssertion) -> None:
    text = page(TEST)
    said = [unescape(re.sub(r"<[^>]+>", "", line)).strip() for line in text.splitlines()]
    for name, part in (
        ("reservation", "No audit log: "), ("heading", "requests by its own"), ("restart", "container restarted")
    ):  # fmt: skip
        assert "\n".join(line for line in said if part in line) == snapshot(name=name)
    assert "2.50 ± 0.06 s" in text
    assert "operator/a/manager (exit code 137)" in text
    assert "API traffic was not measured" not in text


def test_a_run_with_a_log_has_no_reservation() -> None:
    audited = msgspec.structs.replace(PHASE, audit_complete=True, traffic_source="audit", missing={}, incidents=())
    test = msgspec.structs.replace(TEST, audited=True, phases=(audited,))
    assert "No audit log" not in run_report.render_test(test)
    assert "requests by its own" not in page(test)


def test_cpu_is_shown_as_exactly_as_it_is_known() -> None:
    assert cpu_cell(cpu("operator", 4.31)) == "4.31 s"
    assert cpu_cell(cpu("operator", 4.31, lower_bound=True, resolution_s=0.034)) == "≥ 4.31 ± 0.034 s"


@pytest.mark.parametrize(
    ("change", "looked"),
    [
        ({}, True),
        ({"audited": False}, True),
        ({"disturbed": "its lease was lost"}, False),
        ({"phases": ()}, False),
        ({"ended": None}, True),
        ({"ended": None, "scenario_outcome": "interrupted"}, True),
    ],
    ids=["whole", "no-audit-log", "others", "no-phase", "unfinished", "interrupted"],
)
def test_what_was_not_looked_for_is_not_called_no_finding(
    change: dict[str, Any], looked: bool, snapshot: SnapshotAssertion
) -> None:
    test = msgspec.structs.replace(PASSED, **change)
    text = document.text(findings_table.of_tests([test]))
    assert ("no finding" in text) == looked
    assert text == snapshot
