"""The history of figures: its files, trends, change points and their commits, and the check that uses its last runs."""

from __future__ import annotations

import builtins
import random
import shutil
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pytest_grovescale import checks, cli
from pytest_grovescale.analysis import grove_results
from pytest_grovescale.analysis.analyse import result_of
from pytest_grovescale.analysis.baseline import BaselineTest
from pytest_grovescale.analysis.history import Commit, History, HistoryRun, history_of, history_run
from pytest_grovescale.analysis.recording_index import Contents
from pytest_grovescale.analysis.result import Result, TestResult
from pytest_grovescale.analysis.run_metrics import metrics_of
from pytest_grovescale.analysis.statistics.change_points import change_points
from pytest_grovescale.bench import history
from pytest_grovescale.bench.baselines import Baselines
from pytest_grovescale.checks.judge import judge
from pytest_grovescale.checks.run import Run
from pytest_grovescale.errors import ExitCode
from pytest_grovescale.recording.machine import machine
from pytest_grovescale.recording.records import Machine
from pytest_grovescale.report.html.page import render_history

from .simulated import full_run

GROVE = Path(__file__).parents[2] / "data" / "grove" / "ScaleTest_1000.json"
HERE = machine()
TEST = "test_a.py::test_a"


def commit(number: int, *, dirty: bool = False) -> Commit:
    return Commit(id=f"{number:040x}", time=f"2026-01-01T{number // 60:02d}:{number % 60:02d}:00+01:00", dirty=dirty)


def run(number: int, metrics: dict[str, float], *, dirty: bool = False, on: Machine = HERE) -> HistoryRun:
    return HistoryRun(
        run=f"run-{number}",
        saved=f"2026-01-02T{number // 60:02d}:{number % 60:02d}:00+00:00",
        version="1",
        machine=on,
        commit=commit(number, dirty=dirty),
        tests={TEST: BaselineTest(metrics=metrics, parameters={"replicas": 50})},
    )


def noisy(number: int, seed: int = 1) -> list[HistoryRun]:
    """Runs whose CPU rises by 10 % with the 20th, and whose writes by one with the 30th."""
    chance = random.Random(seed)
    return [
        run(n, {"cpu:deploy": (1.1 if n >= 20 else 1.0) * chance.gauss(4, 0.08), "writes:deploy": 500 + 10 * (n >= 30)})
        for n in range(number)
    ]


def test_a_change_has_the_commits_between_which_it_came() -> None:
    (group,) = history_of(noisy(40)).groups
    figures = {one.metric: one for one in group.figures}
    (writes,) = figures["writes:deploy"].changes
    assert (writes.index, round(writes.before), round(writes.after)) == (30, 500, 510)
    assert writes.commits == f"{commit(29).id[:12]}..{commit(30).id[:12]}"
    (cpu,) = figures["cpu:deploy"].changes
    assert abs(cpu.index - 20) <= 1
    assert cpu.ratio == pytest.approx(1.1, abs=0.03)
    # The newest change is first.
    assert [one.metric for one in group.figures] == ["writes:deploy", "cpu:deploy"]


def test_runs_of_a_changed_worktree_bound_no_range() -> None:
    runs = [run(n, {"writes:deploy": 500 + 50 * (n >= 6)}, dirty=n in (5, 6)) for n in range(12)]
    (group,) = history_of(runs).groups
    (change,) = group.figures[0].changes
    assert change.index == 6
    assert change.commits == f"{commit(4).id[:12]}..{commit(7).id[:12]}"
    assert group.figures[0].points[5].commit.endswith("+")


def test_one_level_rarely_has_a_change() -> None:
    chance = random.Random(7)
    alarms = sum(bool(change_points([chance.gauss(4, 0.16) for _ in range(25)])) for _ in range(100))
    assert alarms <= 5


@pytest.mark.parametrize("figures", [[], [1.0] * 4, [0.0] * 20, [500.0] * 30, [3.0] * 9 + [9.0] + [3.0] * 9])
def test_what_has_no_change(figures: list[float]) -> None:
    assert change_points(figures) == ()


def test_a_figure_that_was_zero_can_change() -> None:
    (change,) = change_points([0.0] * 8 + [3.0] * 8)
    assert (change.run, change.before, round(change.after)) == (8, 0.0, 3)


def test_machines_and_parameters_stand_apart() -> None:
    other = msgspec.structs.replace(HERE, fingerprint="other")
    runs = [run(n, {"api:deploy": 100.0 + 100 * (n % 2)}, on=other if n % 2 else HERE) for n in range(20)]
    found = history_of(runs)
    assert len(found.groups) == 2
    assert not [change for group in found.groups for one in group.figures for change in one.changes]


def test_the_files_merge_and_the_command_prints_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    for n, one in enumerate(noisy(40)):
        history.add(theirs if n % 2 else ours, one)
    shutil.copytree(theirs, ours, dirs_exist_ok=True)
    assert [one.run for one in history.read(ours)] == [f"run-{n}" for n in range(40)]
    page = tmp_path / "history.html"
    assert cli.main(["history", str(ours), "-o", str(page)]) == ExitCode.PASSED
    out = capsys.readouterr().out
    assert "2 changes of level" in out
    assert f"{commit(29).id[:12]}..{commit(30).id[:12]}" in out
    assert page.read_text().count("<circle") == 80
    assert cli.main(["history", str(ours), "--json", "--metric", "cpu:deploy"]) == ExitCode.PASSED
    found = msgspec.json.decode(capsys.readouterr().out, type=History)
    assert [one.metric for group in found.groups for one in group.figures] == ["cpu:deploy"]
    assert cli.main(["history", str(ours), "--markdown", "--test", "none of this name"]) == ExitCode.PASSED
    assert "No run of it has" in capsys.readouterr().out


def test_foreign_names_are_escaped_on_the_page() -> None:
    runs = [msgspec.structs.replace(one, tests={"<b>x": one.tests[TEST]}) for one in noisy(6)]
    assert "<b>x" not in render_history(history_of(runs))


def test_a_missing_folder_and_a_damaged_file_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["history", str(tmp_path / "none")]) == ExitCode.USAGE
    assert "holds no history" in capsys.readouterr().err
    file = history.add(tmp_path, noisy(1)[0])
    file.write_bytes(file.read_bytes()[:-30])
    assert cli.main(["history", str(tmp_path)]) == ExitCode.INFRASTRUCTURE
    said = capsys.readouterr().err
    assert f"{file} is not a run of a history" in said
    assert "or remove it" in said
    file.write_text('{"schema_version": 99}')
    assert cli.main(["history", str(tmp_path)]) == ExitCode.INFRASTRUCTURE
    assert "was written with schema version 99" in capsys.readouterr().err


def test_without_the_library_it_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for one in noisy(6):
        history.add(tmp_path, one)
    real = builtins.__import__

    def missing(name: str, *rest: Any, **more: Any) -> Any:
        if name == "ruptures":
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", missing)
    assert cli.main(["history", str(tmp_path)]) == ExitCode.USAGE
    assert "pip install 'pytest-grovescale[history]'" in capsys.readouterr().err


# ---- the commit of a run


def git(folder: Path, *arguments: str) -> str:
    own = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
    return subprocess.run(
        ["git", "-C", folder, *own, *arguments], check=True, capture_output=True, text=True
    ).stdout.strip()


def test_a_run_knows_its_commit_and_whether_the_worktree_was_changed(tmp_path: Path) -> None:
    assert history.commit_of(tmp_path) is None
    git(tmp_path, "init", "-q")
    assert history.commit_of(tmp_path) is None
    (tmp_path / "a").write_text("1")
    git(tmp_path, "add", "a")
    git(tmp_path, "commit", "-qm", "a")
    (tmp_path / "untracked").write_text("1")
    found = history.commit_of(tmp_path)
    assert found is not None
    assert (found.id, found.dirty) == (git(tmp_path, "rev-parse", "HEAD"), False)
    (tmp_path / "a").write_text("2")
    changed = history.commit_of(tmp_path)
    assert changed is not None
    assert changed.dirty


# ---- Grove's own results


def test_groves_results_are_read_and_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["history", str(tmp_path), "--add", str(GROVE), "--machine", "lab"]) == ExitCode.PASSED
    (kept,) = history.read(tmp_path)
    assert kept.saved == "2026-03-04T12:00:00+00:00"
    (one,) = kept.tests.values()
    assert one.metrics == {"milestone:deploy/pods-created": 10.0, "milestone:deploy/pods-ready": 15.0}
    assert one.parameters == {"pcsCount": 50, "qps": 100.0, "burst": 150, "workers": "1/1/1"}
    wrong = tmp_path / "wrong.json"
    wrong.write_text('{"testName": 3}')
    capsys.readouterr()
    assert cli.main(["history", str(tmp_path), "--add", str(wrong)]) == ExitCode.INFRASTRUCTURE
    assert "at `$.testName`" in capsys.readouterr().err


def test_a_run_is_exported_as_grove_writes_its_own() -> None:
    test = simulated()
    written = msgspec.json.encode(grove_results.of_test(test))
    found = msgspec.json.decode(written, type=grove_results.GroveResult)
    assert [phase.name for phase in found.phases or []] == ["deploy", "steady-state", "delete"]
    back = grove_results.history_run(found, commit=None)
    assert back is not None
    milestones = {key: value for key, value in metrics_of(test).items() if key.startswith("milestone:")}
    assert next(iter(back.tests.values())).metrics == pytest.approx(milestones)


# ---- the gate


def simulated() -> TestResult:

    contents = Contents()
    for record in full_run(8).records():
        contents.feed(record)
    return result_of(contents)


def saved(folder: Path, test: TestResult, shares: list[float], metric: str) -> None:
    """Add runs of a test whose metric is a share of the test's own."""
    for n, share in enumerate(shares):
        one = history_run(
            Result(
                run=f"run-{n}", version="1", machine=HERE, verdict="passed", scenario_outcome="passed", started="",
                tests=(msgspec.structs.replace(test, machine=HERE),),
            ),
            saved=f"2026-01-02T00:{n:02d}:00+00:00",
            commit=commit(n),
        )  # fmt: skip
        assert one is not None
        kept = one.tests[test.test]
        metrics = {**kept.metrics, metric: share * kept.metrics[metric]}
        tests = {test.test: msgspec.structs.replace(kept, metrics=metrics)}
        history.add(folder, msgspec.structs.replace(one, tests=tests))


@pytest.mark.parametrize(
    ("shares", "metric", "verdict"),
    [
        ([1.0, 1.01, 0.99, 1.0, 1.0], "cpu:deploy", "pass"),
        ([0.80, 0.81, 0.79, 0.80, 0.80], "cpu:deploy", "fail"),
        ([0.8, 1.3, 1.0, 0.9, 1.1], "cpu:deploy", "inconclusive"),
        ([1.0, 1.0], "cpu:deploy", "inconclusive"),
        ([1.0], "api:deploy", "pass"),
        ([0.5], "api:deploy", "fail"),
        ([], "api:deploy", "inconclusive"),
    ],
)
def test_the_gate_compares_with_the_last_runs(tmp_path: Path, shares: list[float], metric: str, verdict: str) -> None:
    test = simulated()
    saved(tmp_path, test, shares, metric)
    baselines = Baselines(tmp_path / "project", history=tmp_path)
    judged = judge(
        checks.Regression(metric=metric, vs="history:5"), Run(test, lambda name: baselines.runs(name, test.test))
    )
    assert judged.verdict == verdict, judged.text


def test_the_gate_uses_the_last_n_runs_only(tmp_path: Path) -> None:
    test = simulated()
    saved(tmp_path, test, [9.0, 9.0, 1.0, 1.0, 1.0], "cpu:deploy")
    baselines = Baselines(tmp_path / "project", history=tmp_path)
    assert len(baselines.runs("history:3", test.test)) == 3
    assert len(baselines.runs("history", test.test)) == 5
    judged = judge(
        checks.Regression(metric="cpu:deploy", vs="history:3"), Run(test, lambda name: baselines.runs(name, test.test))
    )
    assert judged.verdict == "pass"
    assert judged.figure == pytest.approx(1)
