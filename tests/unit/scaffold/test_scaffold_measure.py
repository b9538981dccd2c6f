"""``grovescale init --measure``: bounds of what a few runs measured."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
import yaml
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale import cli
from pytest_grovescale.analysis.result import TestResult
from pytest_grovescale.checks import budgets
from pytest_grovescale.checks.check import decode
from pytest_grovescale.checks.judge import judge
from pytest_grovescale.checks.run import Run
from pytest_grovescale.errors import ExitCode
from pytest_grovescale.report import result_file
from pytest_grovescale.scaffold import measure

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def sample() -> TestResult:
    return result_file.read(ROOT / "reports/sample/result.json").tests[0]


def without_objects(result: TestResult) -> TestResult:
    return msgspec.structs.replace(result, objects=None)


def test_bounds_are_written_beside_what_was_measured(sample: TestResult, snapshot: SnapshotAssertion) -> None:
    assert measure.budgets([sample, sample, sample]) == snapshot


def test_every_bound_holds_for_the_runs_that_it_is_from(sample: TestResult, tmp_path: Path) -> None:
    for run in (sample, without_objects(sample)):
        text = measure.budgets([run])
        (bounds,) = yaml.safe_load(text)["tests"].values()
        checks = [{"check": name, **arguments} for bound in bounds for name, arguments in bound.items()]
        assert {check["check"] for check in checks} == {"noop_writes", "api_requests", "cpu", "rss", "milestone"}
        assert {judge(decode(check), Run(run)).verdict for check in checks} == {"pass"}
        (tmp_path / "test_it.py").write_text("def test_thousand_pods(): ...\n")
        (tmp_path / "budgets.yaml").write_text(text)
        assert budgets.read(tmp_path / "budgets.yaml", tmp_path)


def test_a_bound_that_cannot_be_decided_is_left_out(sample: TestResult) -> None:
    phases = tuple(msgspec.structs.replace(phase, reconciles=()) for phase in sample.phases)
    text = measure.budgets([msgspec.structs.replace(sample, phases=phases)])
    assert "# noop_writes" in text
    assert "noop_writes" not in str(yaml.safe_load(text))


def test_budgets_that_are_there_are_left(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("handlers.py", "deploy/crd.yaml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text((ROOT / "examples/kopf-operator" / name).read_text())
    file = tmp_path / measure.BUDGETS
    file.parent.mkdir(parents=True)
    file.write_text("tests: {}\n")
    assert cli.main(["init", "--measure", str(tmp_path)]) == ExitCode.USAGE
    assert file.read_text() == "tests: {}\n"
    assert measure.BUDGETS in capsys.readouterr().err
