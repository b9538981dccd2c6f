"""Baselines on disk: numbered, by machine; absolute figures only at home."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from pytest_grovescale.analysis.baseline import Baseline, baseline_test, ratios_of, rows
from pytest_grovescale.analysis.result import Result, TestResult
from pytest_grovescale.bench.baselines import FOLDER, Baselines, check_name
from pytest_grovescale.errors import RecordingError, UsageError
from pytest_grovescale.recording.machine import machine
from pytest_grovescale.report import comparison_table, document, result_file

SAMPLE = Path(__file__).parents[3] / "reports" / "sample" / "result.json"


@pytest.fixture
def result() -> Result:
    """The committed sample, as if it had been recorded on this machine."""
    found = result_file.read(SAMPLE)
    tests = tuple(msgspec.structs.replace(test, machine=machine(), scenario_outcome="passed") for test in found.tests)
    return msgspec.structs.replace(found, tests=tests, machine=machine())


def elsewhere(result: Result) -> Result:
    """The same of another machine."""
    other = msgspec.structs.replace(machine(), fingerprint="feedfeedfeed", cpu="other")
    return msgspec.structs.replace(
        result, tests=tuple(msgspec.structs.replace(test, machine=other) for test in result.tests)
    )


def only(result: Result) -> TestResult:
    (test,) = result.tests
    return test


def test_files_are_numbered_across_names(tmp_path: Path, result: Result) -> None:
    baselines = Baselines(tmp_path)
    names = [baselines.save(name, result).name for name in ("main", "fix", "main")]
    assert names == ["0001_main.json", "0002_fix.json", "0003_main.json"]
    (folder,) = (tmp_path / FOLDER).iterdir()
    assert folder.name == machine().fingerprint
    assert len(list(folder.iterdir())) == 3


def test_the_newest_of_a_name_is_found_again(tmp_path: Path, result: Result) -> None:
    Baselines(tmp_path).save("main", result)
    Baselines(tmp_path).save("main", msgspec.structs.replace(result, run="second"))
    baselines = Baselines(tmp_path)
    found = baselines.find("main")
    assert found is not None
    assert found.run == "second"
    assert baselines.find("mai") is None
    metrics = baselines.metrics("main", only(result).test)
    assert metrics is not None
    assert metrics["cpu:deploy"] > 0
    assert baselines.metrics("main", "another test") is None


def saved(root: Path, result: Result, cpu_s: float, **parameters: str) -> None:
    """Save a run under ``main`` whose deployment took so much CPU."""
    test = only(result)
    deploy = test.phases[0]
    cpu = tuple(msgspec.structs.replace(row, seconds=cpu_s) if row.process == "operator" else row for row in deploy.cpu)
    phases = (msgspec.structs.replace(deploy, cpu=cpu), *test.phases[1:])
    changed = msgspec.structs.replace(test, phases=phases, parameters={**test.parameters, **parameters})
    Baselines(root).save("main", msgspec.structs.replace(result, tests=(changed,)))


def test_all_runs_of_a_name_that_compare_are_handed_out_newest_first(tmp_path: Path, result: Result) -> None:
    for seconds in (1.0, 2.0):
        saved(tmp_path, result, seconds)
    saved(tmp_path, result, 9.0, replicas="5")
    Baselines(tmp_path).save("main", elsewhere(result))
    saved(tmp_path, result, 3.0)
    runs = Baselines(tmp_path).runs("main", only(result).test)
    assert [run["cpu:deploy"] for run in runs] == [3.0, 2.0, 1.0]
    assert Baselines(tmp_path).runs("main", only(result).test, "another backend")[1:] == []
    assert Baselines(tmp_path).runs("other", only(result).test) == []


def test_of_another_machine_only_counts_are_handed_out(tmp_path: Path, result: Result) -> None:
    Baselines(tmp_path).save("main", elsewhere(result))
    metrics = Baselines(tmp_path).metrics("main", only(result).test)
    assert metrics is not None
    assert "api:deploy" in metrics
    assert not [key for key in metrics if key.startswith(("cpu", "wall", "milestone", "rss"))]


def test_this_machines_own_is_preferred_to_a_newer_one_of_another(tmp_path: Path, result: Result) -> None:
    Baselines(tmp_path).save("main", result)
    Baselines(tmp_path).save("other", elsewhere(result))
    Baselines(tmp_path).save("main", elsewhere(result))
    found = Baselines(tmp_path).find("main")
    assert found is not None
    assert found.machine.fingerprint == machine().fingerprint


def test_a_broken_or_profiled_run_is_no_baseline(tmp_path: Path, result: Result) -> None:
    for change in ({"scenario_outcome": "timeout"}, {"profiled": True}):
        tests = (msgspec.structs.replace(only(result), **change),)
        with pytest.raises(UsageError, match="main is not saved"):
            Baselines(tmp_path).save("main", msgspec.structs.replace(result, tests=tests))


@pytest.mark.parametrize("name", ["", "a/b", "..", "-x", "a b"])
def test_names_are_those_of_files(name: str) -> None:
    with pytest.raises(UsageError, match="no name for a baseline"):
        check_name(name)


def test_newer_and_damaged_files_are_reported(tmp_path: Path, result: Result) -> None:
    file = Baselines(tmp_path).save("main", result)
    text = file.read_text()
    file.write_text(text.replace('"schema_version": 1', '"schema_version": 9', 1))
    with pytest.raises(RecordingError, match="schema version 9"):
        Baselines(tmp_path).find("main")
    file.write_text(text[:50])
    with pytest.raises(RecordingError, match="is not a baseline"):
        Baselines(tmp_path).find("main")


def test_shares_compare_across_machines(result: Result) -> None:
    test = only(result)
    ratios = ratios_of(test)
    assert 0 < ratios["cpu_share:deploy"] < 1
    before = baseline_test(test)
    home = {row.key for row in rows(before, test, same_machine=True)}
    away = {row.key for row in rows(before, test, same_machine=False)}
    assert "cpu:deploy" in home
    assert "cpu:deploy" not in away
    assert {"cpu_share:deploy", "api:deploy"} <= away


def test_the_table_says_what_it_is_worth(result: Result) -> None:
    test = only(result)
    baseline = Baseline(
        name="main",
        saved="2026-01-01T00:00:00+00:00",
        run="r",
        version="0",
        machine=test.machine,
        tests={test.test: baseline_test(test)},
    )
    found = rows(baseline.tests[test.test], test, same_machine=True)
    text = document.text(comparison_table.baseline_blocks(baseline, found, same_machine=True))
    assert text.splitlines()[0].startswith("Compared with baseline main of 2026-01-01")
    assert "no interval" in text
    assert "+0.0 %" in text
    found = rows(baseline.tests[test.test], test, same_machine=False)
    text = document.text(comparison_table.baseline_blocks(baseline, found, same_machine=False))
    assert "another machine" in text
