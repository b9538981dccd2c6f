"""Conflicts and errors next to what was tried: by the audit log, by the operator's own counters, and by neither."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.analysis.controller_result import ReconcileRow
from pytest_grovescale.analysis.phase_result import ApiRow, PhaseResult
from pytest_grovescale.analysis.result import TestResult
from pytest_grovescale.checks import ConflictRate, ErrorRatio
from pytest_grovescale.errors import UsageError
from tests.unit.checks.noop_run import NoopRun, changed
from tests.unit.checks.scraped_run import OWN_ERRORS, SENT, ScrapedRun, controllers

DEPLOY = "deploy"


def row(verb: str, code: int, count: int, **more: Any) -> ApiRow:
    fields = {"identity": "operator", "user": "op", "resource": "pods/status", "category": "object", **more}
    return ApiRow(verb=verb, code=code, count=count, p50_ms=1, p99_ms=2, **fields)


def result(*rows: ApiRow, reconciles: int = 200, **fields: Any) -> TestResult:
    counted = ReconcileRow(controller="a", result="success", count=reconciles)
    found = changed(NoopRun().result(), DEPLOY, api=rows, reconciles=(counted,), missing={}, **fields)
    phases = tuple(phase for phase in found.phases if phase.name == DEPLOY)
    return msgspec.structs.replace(found, phases=phases)


def requests(conflicts: float, *, sent: float = 90) -> ScrapedRun:
    run = ScrapedRun()
    for number, edge in ((0.0, "start:deploy"), (1.0, "end:deploy")):
        run.scrape(
            {
                f'{SENT}{{code="200",host="h",method="PUT"}}': 10 + number * sent,
                f'{SENT}{{code="409",host="h",method="PATCH"}}': 2 + number * conflicts,
                f'{SENT}{{code="409",host="h",method="POST"}}': 5 + number * 70,
                **controllers(OWN_ERRORS, {"a": number * 6}, error_type="conflict"),
                **controllers(OWN_ERRORS, {"a": number * 2}, error_type="forbidden"),
                **controllers(OWN_ERRORS, {"a": number * 4}, error_type="internal"),
            },
            edge=edge,
        )
    return run


def test_conflicts_are_a_share_of_updates_and_patches(snapshot: SnapshotAssertion) -> None:
    test = result(row("update", 200, 90), row("patch", 409, 10), row("create", 409, 500), row("get", 200, 1000))
    verdict, text = ScrapedRun().judged(ConflictRate(max=0.1), test)
    assert verdict == "pass"
    assert " 0.1 ≤ 0.1" in text
    assert "10 × 409: patch pods/status" in text
    assert text == snapshot
    assert ScrapedRun().judged(ConflictRate(max=0.09), test)[0] == "fail"


def test_dry_runs_leases_and_others_are_left_out() -> None:
    test = result(
        row("update", 200, 10),
        row("patch", 409, 10, dry_run=True),
        row("update", 409, 10, category="lease"),
        row("update", 409, 10, identity="kwok", user="kwok"),
    )
    assert ScrapedRun().judged(ConflictRate(max=0), test)[0] == "pass"


def test_without_an_audit_log_the_operators_own_count_stands_and_is_named(snapshot: SnapshotAssertion) -> None:
    test = result(audit_complete=False, identities_seen=())
    verdict, text = requests(10).judged(ConflictRate(max=0.05, phase=DEPLOY), test)
    assert verdict == "fail"
    assert SENT in text
    assert "10 × 409: PATCH" in text
    assert text == snapshot


@pytest.mark.parametrize(
    ("test", "run"),
    [
        (result(row("get", 200, 5)), ScrapedRun()),
        (result(audit_complete=False), ScrapedRun()),
        (result(row("update", 200, 5), outcome="timeout"), ScrapedRun()),
    ],
    ids=["only reads", "no scrape", "timeout"],
)
def test_conflicts_that_were_not_measured_do_not_pass(
    test: TestResult, run: ScrapedRun, snapshot: SnapshotAssertion
) -> None:
    verdict, text = run.judged(ConflictRate(max=1), test)
    assert verdict == "inconclusive"
    assert text == snapshot


def test_an_unknown_phase_is_reported() -> None:
    assert "no phase 'deply'" in ScrapedRun().judged(ConflictRate(max=1, phase="deply"), result())[1]


@pytest.mark.parametrize(("kind", "count"), [("persistent", 2), ("transient", 6), ("all", 12)])
def test_errors_of_a_kind_are_counted_for_each_reconcile(kind: Any, count: int, snapshot: SnapshotAssertion) -> None:
    verdict, text = requests(0).judged(ErrorRatio(kind, max=count / 200), result())
    assert verdict == "pass"
    assert OWN_ERRORS in text
    assert text == snapshot
    assert requests(0).judged(ErrorRatio(kind, max=(count - 1) / 200), result())[0] == "fail"


def test_the_kinds_that_were_met_are_the_evidence() -> None:
    assert "2 × forbidden (a)" in requests(0).judged(ErrorRatio(), result())[1]


def test_a_patch_that_another_write_overtook_is_a_conflict() -> None:
    run = ScrapedRun()
    run.scrape({"x": 1}, types={"x": "gauge"})
    test = result(row("patch", 200, 18), row("patch", 422, 2, overtaken=2))
    assert run.judged(ErrorRatio(), test)[0] == "pass"
    assert run.judged(ErrorRatio("transient", max=0.009), test)[0] == "fail"
    verdict, text = run.judged(ConflictRate(max=0.09), test)
    assert verdict == "fail"
    assert "2 × 409: patch pods/status" in text
    lasting = result(row("patch", 200, 18), row("patch", 422, 2, overtaken=1))
    assert run.judged(ErrorRatio(), lasting)[0] == "fail"


def test_without_such_a_counter_the_answers_of_the_api_server_stand(snapshot: SnapshotAssertion) -> None:
    run = ScrapedRun()
    run.scrape({"x": 1}, types={"x": "gauge"})
    test = result(row("update", 422, 3), row("create", 403, 2), row("patch", 409, 40), row("get", 404, 9))
    verdict, text = run.judged(ErrorRatio("persistent", max=0.01), test)
    assert verdict == "fail"
    assert " 0.025 > 0.01" in text
    assert text == snapshot
    assert run.judged(ErrorRatio("transient", max=0.2), test)[0] == "pass"


def test_all_errors_are_reported_by_how_reconciles_ended(snapshot: SnapshotAssertion) -> None:
    run = ScrapedRun()
    run.scrape({"x": 1}, types={"x": "gauge"})
    rows = [ReconcileRow(controller="a", result=kind, count=n) for kind, n in (("success", 95), ("error", 5))]
    test = changed(result(row("get", 404, 99)), DEPLOY, reconciles=tuple(rows))
    verdict, text = run.judged(ErrorRatio("all", max=0.04), test)
    assert verdict == "fail"
    assert " 0.05 > 0.04" in text
    assert "5 × error (a)" in text
    assert text == snapshot


def test_a_family_that_is_named_has_to_be_there(snapshot: SnapshotAssertion) -> None:
    verdict, text = requests(0).judged(ErrorRatio(family="my_errors_total"), result())
    assert verdict == "inconclusive"
    assert "my_errors_total" in text
    assert text == snapshot


def test_reconciles_that_were_not_counted_are_no_answer() -> None:
    test = changed(result(), DEPLOY, missing={"reconciles": "it was not scraped"})
    assert "it was not scraped" in requests(0).judged(ErrorRatio(), test)[1]
    assert "nothing was reconciled" in requests(0).judged(ErrorRatio(), result(reconciles=0))[1]


def test_a_kind_that_is_none_is_refused() -> None:
    with pytest.raises(UsageError, match="kind"):
        ErrorRatio("lasting")  # type: ignore[arg-type]


def test_the_phase_is_one_of_the_result() -> None:
    assert isinstance(result().phases[0], PhaseResult)
