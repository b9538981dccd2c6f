"""Checks of a budgets file held against one scrape: judged where one can tell, named where it takes a run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.cli import main

from .surfaces import family

SERVED = (
    family("grove_operator_reconcile_errors_total", "counter", '{controller="podclique",error_type="internal"}')
    + family("controller_runtime_reconcile_errors_total", "counter", '{controller="podclique"}')
    + family("controller_runtime_active_workers", "gauge", '{controller="podclique"}').replace("} 1", "} 0")
)

CHECKS = """\
tests:
  "test_*":
    - series: {max: 1, family: "grove_*"}
    - labels: {allowed_values: {error_type: [internal]}}
    - labels: {allowed_values: {controller: [podcliqueset]}, family: "grove_*"}
    - invariant: {expression: "sum(grove_operator_reconcile_errors_total) == sum(controller_runtime_reconcile_errors_total)"}
    - invariant: {expression: "sum(increase(grove_operator_reconcile_errors_total)) <= 0"}
    - noop_writes: {max: 0}
    - series: {max: 1, target: etcd}
  "*":
    - series: {max: 1, family: "grove_*"}
    - preinitialized_series: {families: [controller_runtime_reconcile_errors_total]}
    - preinitialized_series: {families: [grove_operator_status_update_conflict_total]}
    - scales: {metric: "series:deploy"}
"""  # noqa: E501 - a file as one would write it


@pytest.fixture
def endpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "budgets.yaml").write_text(CHECKS, "utf-8")
    (tmp_path / "m.prom").write_text(SERVED, "utf-8")
    monkeypatch.chdir(tmp_path)
    return "m.prom"


def test_each_check_is_judged_or_named(
    endpoint: str, capsys: pytest.CaptureFixture[str], snapshot: SnapshotAssertion
) -> None:
    assert main(["lint-metrics", endpoint, "--budgets", "budgets.yaml", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)["budgets"]
    verdicts = {check["source"]: check["verdict"] for check in found["checks"]}
    assert verdicts == {
        "budgets.yaml:3": "pass",
        "budgets.yaml:4": "pass",
        "budgets.yaml:5": "fail",
        "budgets.yaml:6": "pass",
        "budgets.yaml:7": "fail",
        "budgets.yaml:13": "fail",
    }
    unjudged = {left["source"]: left["why"] for left in found["unjudged"]}
    assert list(unjudged) == [f"budgets.yaml:{line}" for line in (8, 9, 12, 14)]
    assert "\n".join(f"{source} {why}" for source, why in unjudged.items()) == snapshot


def test_they_are_reported_in_lines(
    endpoint: str, capsys: pytest.CaptureFixture[str], snapshot: SnapshotAssertion
) -> None:
    assert main(["lint-metrics", endpoint, "--budgets", "budgets.yaml"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("budgets.yaml:5 labels(")
    assert "fail: " in lines[0]
    assert lines[1].startswith("  grove_operator_reconcile_errors_total: controller ")
    assert any(line.startswith('budgets.yaml:3 series(max=1, family="grove_*"): pass: ') for line in lines)
    assert any(line.startswith("budgets.yaml:8 noop_writes(max=0): ") for line in lines)
    assert "3 failed, 3 passed" in lines[-1]
    assert "\n".join(lines) == snapshot


def test_what_the_endpoint_does_not_tell_is_no_pass(
    endpoint: str, capsys: pytest.CaptureFixture[str], snapshot: SnapshotAssertion
) -> None:
    Path("budgets.yaml").write_text('tests: {"*": [series: {max: 5, family: "other_*"}]}', "utf-8")
    assert main(["lint-metrics", endpoint, "--budgets", "budgets.yaml"]) == 1
    out = capsys.readouterr().out
    assert "inconclusive: m.prom " in out
    assert out == snapshot


def test_a_wrong_file_is_reported_with_its_line(
    endpoint: str, capsys: pytest.CaptureFixture[str], snapshot: SnapshotAssertion
) -> None:
    Path("budgets.yaml").write_text('tests:\n  "*":\n    - serie: {max: 5}\n', "utf-8")
    assert main(["lint-metrics", endpoint, "--budgets", "budgets.yaml"]) == 2
    err = capsys.readouterr().err
    assert "budgets.yaml:3: tests.*[0].serie: " in err
    assert " series?" in err
    assert err == snapshot
