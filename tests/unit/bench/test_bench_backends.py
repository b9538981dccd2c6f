"""``grovescale backends``: folders of runs in, one table out; the exit code says whether the counts are equal."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale import cli
from pytest_grovescale.analysis.comparison import Comparison
from pytest_grovescale.analysis.result import Result, TestResult
from pytest_grovescale.bench.baselines import Baselines
from pytest_grovescale.bench.from_results import compare_recorded, pairs_in
from pytest_grovescale.errors import ExitCode
from pytest_grovescale.recording.machine import machine
from pytest_grovescale.report import result_file
from tests.golden import masked

SAMPLE = Path(__file__).parents[3] / "reports" / "sample" / "result.json"


def saved(folder: Path, *tests: TestResult) -> str:
    first = tests[0]
    result_file.write(
        Result(
            run=folder.name,
            version="0",
            machine=first.machine,
            verdict="passed",
            scenario_outcome="passed",
            started=first.started,
            tests=tests,
        ),
        folder / "result.json",
    )
    return str(folder)


@pytest.fixture
def sample() -> TestResult:
    return result_file.read(SAMPLE).tests[0]


def on(test: TestResult, backend: str) -> TestResult:
    return msgspec.structs.replace(test, cluster={**test.cluster, "backend": backend})


def fewer_pods(test: TestResult) -> TestResult:
    first, *others = test.phases
    rows = tuple(
        msgspec.structs.replace(row, count=row.count - 1)
        if (row.identity, row.verb, row.resource) == ("operator", "create", "pods")
        else row
        for row in first.api
    )
    return msgspec.structs.replace(test, phases=(msgspec.structs.replace(first, api=rows), *others))


def test_two_runs_of_the_same_work_are_equal(
    tmp_path: Path, sample: TestResult, capsys: pytest.CaptureFixture[str], snapshot: SnapshotAssertion
) -> None:
    runs = [saved(tmp_path / "a", sample), saved(tmp_path / "b", on(sample, "kind"))]
    assert cli.main(["backends", *runs]) == 0
    text = capsys.readouterr().out
    verdict = text.splitlines()[1]
    assert verdict.startswith("Equal: ")
    assert verdict == snapshot
    assert "gates taken off pods" in text


def test_a_pod_less_is_an_exit_code_and_a_line(
    tmp_path: Path, sample: TestResult, capsys: pytest.CaptureFixture[str], snapshot: SnapshotAssertion
) -> None:
    runs = [saved(tmp_path / "a", sample), f"there={saved(tmp_path / 'b', fewer_pods(on(sample, 'kind')))}"]
    assert cli.main(["backends", *runs, "--markdown"]) == 1
    _, verdict, differing, *_ = capsys.readouterr().out.split("\n\n")
    assert masked(verdict, numbers=True) == snapshot(name="verdict")
    assert "create pods: local 1,000, there 999" in differing
    assert differing == snapshot(name="line")


def test_floors_are_named_by_their_columns(
    tmp_path: Path, sample: TestResult, capsys: pytest.CaptureFixture[str], snapshot: SnapshotAssertion
) -> None:
    runs = [saved(tmp_path / "a", sample), saved(tmp_path / "b", on(sample, "kind"))]
    without = msgspec.structs.replace(sample, test="t.py::test_bare", parameters={"operator": "none"})
    floor = f"local={saved(tmp_path / 'f=1', without)}"
    assert cli.main(["backends", *runs, "--floor", floor]) == 0
    text = capsys.readouterr().out
    rows = text.partition("\nFloor\n")[2].partition("\n\n")[0].splitlines()[1:]
    assert "\n".join(row.partition("  ")[0] for row in rows) == snapshot
    assert "1.00×" in next(row for row in rows if row.startswith("deploy: pods-ready, with it"))


@pytest.mark.parametrize("floor", ["missing", "local=missing", "local"])
def test_a_floor_that_is_not_there_is_reported(
    tmp_path: Path, sample: TestResult, capsys: pytest.CaptureFixture[str], floor: str
) -> None:
    runs = [saved(tmp_path / "a", sample), saved(tmp_path / "b", sample)]
    assert cli.main(["backends", *runs, "--floor", floor]) == 2
    assert "no such run" in capsys.readouterr().err


def test_a_floor_has_one_test(
    tmp_path: Path, sample: TestResult, capsys: pytest.CaptureFixture[str], snapshot: SnapshotAssertion
) -> None:
    other = msgspec.structs.replace(sample, test="t.py::test_bare", parameters={"operator": "none"})
    runs = [saved(tmp_path / "a", sample), saved(tmp_path / "b", sample)]
    assert cli.main(["backends", *runs, "--floor", f"local={saved(tmp_path / 'two', other, sample)}"]) == 2
    assert masked(capsys.readouterr().err, {tmp_path: "folder"}) == snapshot


def test_json_is_the_table(tmp_path: Path, sample: TestResult, capsys: pytest.CaptureFixture[str]) -> None:
    runs = [saved(tmp_path / "a", sample), saved(tmp_path / "b", sample)]
    assert cli.main(["backends", *runs, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["schema_version"], found["verdict"], len(found["runs"])) == (1, "equal", 2)


def test_a_folder_may_have_an_equals_sign(
    tmp_path: Path, sample: TestResult, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = [saved(tmp_path / "x=a", sample), saved(tmp_path / "b", sample)]
    assert cli.main(["backends", *runs]) == 0
    assert "local and local #2" in capsys.readouterr().out


def test_profiled_passes_are_left_out_and_several_tests_are_asked_for(
    tmp_path: Path, sample: TestResult, capsys: pytest.CaptureFixture[str]
) -> None:
    profiled = msgspec.structs.replace(sample, test=f"{sample.test}[profiled]", profiled=True)
    other = msgspec.structs.replace(sample, test="tests/scale/test_other.py::test_other")
    runs = [saved(tmp_path / "a", sample, profiled), saved(tmp_path / "b", sample, profiled)]
    assert cli.main(["backends", *runs]) == 0
    runs = [saved(tmp_path / "c", sample, other), saved(tmp_path / "d", sample, other)]
    assert cli.main(["backends", *runs]) == 2
    assert "several tests in common" in capsys.readouterr().err
    assert cli.main(["backends", *runs, "--test", "test_other"]) == 0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["a"], "compared with nothing"),
        (["a", "missing"], "result.json"),
        (["a", "b", "--test", "nope"], "has no test nope"),
    ],
)
def test_what_cannot_be_compared(
    tmp_path: Path,
    sample: TestResult,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    says: str,
) -> None:
    saved(tmp_path / "a", sample), saved(tmp_path / "b", sample)
    (tmp_path / "missing").mkdir()
    monkeypatch.chdir(tmp_path)
    assert cli.main(["backends", *arguments]) == 2
    assert says in capsys.readouterr().err


def recorded(a: str, b: str) -> Comparison:
    return compare_recorded(Path(a), Path(b), pairs_in(Path(a), Path(b)))


def test_a_comparison_of_recorded_runs_of_two_backends_is_labelled(tmp_path: Path, sample: TestResult) -> None:
    a, b = saved(tmp_path / "a", sample), saved(tmp_path / "b", on(sample, "kind"))
    assert "backend: local and kind" in recorded(a, b).weaker
    assert "backend" not in recorded(a, a).weaker


def test_a_comparison_of_different_runs_is_refused_until_it_is_allowed(
    tmp_path: Path,
    sample: TestResult,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    snapshot: SnapshotAssertion,
) -> None:
    monkeypatch.chdir(tmp_path)
    smaller = msgspec.structs.replace(sample, parameters={**sample.parameters, "replicas": "100", "operator": "mine"})
    runs = [saved(tmp_path / "a", sample), saved(tmp_path / "b", on(smaller, "kind"))]
    assert cli.main(["compare", *runs]) == ExitCode.USAGE
    said = capsys.readouterr().err
    assert masked(said, {tmp_path: "folder"}) == snapshot(name="different")
    assert "\n  replicas: not given" in said
    assert "--allow-different" in said
    assert not (tmp_path / "reports").exists()
    assert cli.main(["compare", *runs, "--allow-different"]) == ExitCode.PASSED
    assert "backend: local and kind" in " ".join(capsys.readouterr().out.split())
    assert cli.main(["compare", "reference", "--allow-different"]) == ExitCode.USAGE
    assert capsys.readouterr().err == snapshot(name="not finished")


def test_a_baseline_of_another_backend_lends_its_counts_only(tmp_path: Path, sample: TestResult) -> None:
    result = Result(
        run="r",
        version="0",
        machine=machine(),
        verdict="passed",
        scenario_outcome="passed",
        started="",
        tests=(sample,),
    )
    here = msgspec.structs.replace(result, tests=(msgspec.structs.replace(sample, machine=machine()),))
    Baselines(tmp_path).save("main", here)
    kept = Baselines(tmp_path)
    everything, counts = (kept.metrics("main", sample.test, backend) for backend in ("local", "kind"))
    assert everything is not None
    assert counts is not None
    assert {"cpu:deploy", "writes:deploy"} <= everything.keys()
    assert set(counts) & {"cpu:deploy", "writes:deploy"} == {"writes:deploy"}
    assert kept.metrics("main", sample.test) == everything
