"""What is kept of a run, and what says that its variant does not work."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.analysis.comparison import VariantRun
from pytest_grovescale.analysis.result import TestResult
from pytest_grovescale.analysis.run_metrics import metrics_of
from pytest_grovescale.bench import measured
from pytest_grovescale.bench.measured import NothingMeasured
from pytest_grovescale.errors import ClusterError, ExitCode
from pytest_grovescale.report import result_file
from tests.unit.bench.planned import SUBJECT

SAMPLE = Path(__file__).parents[3] / "reports" / "sample" / "result.json"


@pytest.fixture
def test_result() -> TestResult:
    """The committed sample's test: deploy, steady-state with a trigger, delete; all passed."""
    (test,) = result_file.read(SAMPLE).tests
    return test


def changed(test: TestResult, phase: str, **fields: Any) -> TestResult:
    phases = tuple(msgspec.structs.replace(p, **fields) if p.name == phase else p for p in test.phases)
    return msgspec.structs.replace(test, phases=phases)


def test_deploy_runs_keep_nothing_of_the_phase_whose_hold_is_cut(test_result: TestResult) -> None:
    kept = measured.deploy_run(test_result, VariantRun(metrics=metrics_of(test_result)))
    phases = {key.partition(":")[2].partition("/")[0] for key in kept}
    assert phases == {"deploy", "delete"}
    assert "cpu:deploy" in kept


def test_a_variant_that_passed_is_not_broken(test_result: TestResult) -> None:
    assert measured.broken(test_result) == ""


def test_the_first_phase_that_failed_says_why(test_result: TestResult) -> None:
    late = changed(test_result, "deploy", outcome="timeout", message="3 of 4 are there\nmore")
    assert measured.broken(late) == "deploy: 3 of 4 are there"
    assert measured.broken(changed(test_result, "delete", outcome="failed")) == "delete: failed"


def test_an_error_between_two_phases_breaks_a_variant_and_an_assertion_does_not(test_result: TestResult) -> None:
    short = msgspec.structs.replace(test_result, phases=test_result.phases[:1])
    error = msgspec.structs.replace(short, error="ApiError: 409 Conflict")
    assert measured.broken(error) == "after deploy: ApiError: 409 Conflict"
    assert measured.broken(msgspec.structs.replace(short, failure="assert 3 == 4")) == ""
    none = msgspec.structs.replace(error, phases=())
    assert measured.broken(none) == "ApiError: 409 Conflict"


@pytest.mark.parametrize("outcome", ["interrupted", "unfinished"])
def test_a_run_that_was_cut_short_blames_no_one(
    test_result: TestResult, outcome: str, snapshot: SnapshotAssertion
) -> None:
    with pytest.raises(NothingMeasured, match=r"'deploy'[\s\S]*--resume") as caught:
        measured.broken(changed(test_result, "deploy", outcome=outcome))
    assert str(caught.value) == snapshot


def test_a_cluster_that_ended_is_not_the_variants_fault(test_result: TestResult, snapshot: SnapshotAssertion) -> None:
    # As a phase's end has it: the type's name, then the first line.
    ended = f"{ClusterError.__name__}: cluster run-1 ended while this session used it"
    for run in (
        changed(test_result, "deploy", outcome="failed", message=ended),
        msgspec.structs.replace(test_result, error=ended),
    ):
        with pytest.raises(NothingMeasured, match="cut short: ClusterError: ") as caught:
            measured.broken(run)
        assert str(caught.value) == snapshot(name="error" if run.error else "phase")
        assert caught.value.exit_code is ExitCode.INFRASTRUCTURE


def test_a_full_disk_is_not_the_variants_fault(test_result: TestResult) -> None:
    lost = msgspec.structs.replace(test_result, closed="failed", closed_message="No space left on device")
    with pytest.raises(NothingMeasured, match="No space left on device"):
        measured.broken(changed(lost, "deploy", outcome="failed"))


def test_the_result_of_the_newest_run_is_read_and_of_this_test_only(tmp_path: Path, test_result: TestResult) -> None:
    assert measured.result_in(tmp_path, SUBJECT) is None
    run = tmp_path / "20260101-000000-abcd"
    run.mkdir()
    (run / "result.json").write_bytes(SAMPLE.read_bytes())
    (tmp_path / "latest").symlink_to(run.name)
    assert measured.result_in(tmp_path, SUBJECT) is None
    same = msgspec.structs.replace(SUBJECT, nodeid=test_result.test)
    assert measured.result_in(tmp_path, same) == test_result
