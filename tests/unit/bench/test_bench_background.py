"""What stands behind a comparison: links to its runs, what was in force, a run of each variant over time."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale import cli
from pytest_grovescale.analysis.analyse import analyse_run_over_time
from pytest_grovescale.bench import run_context
from pytest_grovescale.bench.output import ComparisonFile
from pytest_grovescale.bench.profiled_runs import Profiled
from pytest_grovescale.bench.store import Slot, Store
from pytest_grovescale.report import result_file
from pytest_grovescale.report.html import files
from pytest_grovescale.report.html.page import Background, RunLink
from tests.unit.bench.planned import plan, sample

RECORDING = Path(__file__).parents[1] / "report" / "data" / "configmaps.jsonl"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.create(tmp_path, plan(3))


def recorded(folder: Path) -> Path:
    """Make a run's folder as pytest leaves it; return its recording."""
    (folder / "recordings").mkdir(parents=True)
    recording = folder / "recordings" / "t.jsonl"
    recording.write_bytes(RECORDING.read_bytes())
    run = analyse_run_over_time(folder)
    result_file.write(run.result, folder / result_file.NAME)
    files.write_run(folder, run.result, run.timelines)
    return recording


def keep(store: Store, part: str, number: int, arm: str, recording: Path | None, *, broken: str = "") -> None:
    bare = sample(Slot(part=part, round=number, arm=arm), broken=broken)
    name = recording.relative_to(store.folder).as_posix() if recording is not None else ""
    run = msgspec.structs.replace(bare.run, recording=name)
    store.keep(msgspec.structs.replace(bare, run=run, parameters={"variant": arm, "qps": 50}))


def found(store: Store) -> Background:
    return run_context.of_comparison(store, store.plan(), Profiled(), page=store.folder / "comparison.html")


def test_the_windows_of_one_process_are_one_row_and_deploy_runs_one_each(store: Store) -> None:
    for arm in "ab":
        session = recorded(store.run_folder(f"noop-{arm}-1") / "1")
        for number in range(3):
            keep(store, "noop", number, arm, session)
        for number in range(2):
            keep(store, "deploy", number, arm, recorded(store.run_folder(f"deploy-0{number}-{arm}") / "1"))
    keep(store, "deploy", 2, "b", None, broken="deploy: timeout")
    rows = found(store).runs
    assert [(row.part, row.pairs) for row in rows] == [
        ("no-op windows", "1 to 3"),
        ("deploy and delete", "1"),
        ("deploy and delete", "2"),
        ("deploy and delete", "3"),
    ]
    assert rows[1].a == RunLink(page="runs/deploy-00-a/1/report.html")
    assert rows[3].a is None
    assert rows[3].b == RunLink(broken="deploy: timeout")


def test_the_last_deploy_run_that_works_is_shown(store: Store) -> None:
    for arm in "ab":
        keep(store, "noop", 2, arm, recorded(store.run_folder(f"noop-{arm}-1") / "1"))
        for number, broken in ((0, ""), (1, ""), (2, "deploy: timeout")):
            recording = recorded(store.run_folder(f"deploy-0{number}-{arm}") / "1")
            keep(store, "deploy", number, arm, recording, broken=broken)
    shown = found(store).shown
    assert [(run.variant, run.what) for run in shown] == [
        ("A", "deploy and delete, pair 2"),
        ("B", "deploy and delete, pair 2"),
    ]
    assert all(run.timeline.phases for run in shown)
    assert shown[0].page == "runs/deploy-01-a/1/report.html"


def test_of_runs_side_by_side_the_one_that_was_alone_is_shown(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    planned = plan(3)
    together = {part: msgspec.structs.replace(one, parallel=True) for part, one in planned.comparisons.items()}
    store = Store.create(tmp_path, msgspec.structs.replace(planned, comparisons=together))
    for arm in "ab":
        keep(store, "deploy", 1, arm, recorded(store.run_folder(f"deploy-01-{arm}") / "1"))
    beside = [run.what for run in found(store).shown]
    assert "\n".join(beside) == snapshot(name="beside")
    for arm, broken in (("a", ""), ("b", "deploy: timeout")):
        keep(store, "profile", 0, arm, recorded(store.run_folder(f"profile-00-{arm}") / "1"), broken=broken)
    shown = found(store).shown
    assert shown[0].what == snapshot(name="alone")
    assert [run.what for run in shown[1:]] == beside[1:]
    assert shown[0].page == "runs/profile-00-a/1/report.html"


def test_a_run_that_cannot_be_read_is_reported(store: Store) -> None:
    recording = recorded(store.run_folder("deploy-00-a") / "1")
    recording.write_text("{", encoding="utf-8")
    keep(store, "deploy", 0, "a", recording)
    behind = found(store)
    assert behind.shown == ()
    assert behind.not_shown[0].startswith("No run of A is shown: ")


def test_what_was_in_force_is_of_every_run(store: Store) -> None:
    for arm in "ab":
        keep(store, "deploy", 0, arm, None)
    in_force = found(store).in_force
    assert in_force.shared == {"qps": (50,), "kubernetes": ("1.36",), "nodes": (100,)}
    assert in_force.differing == {"variant": (("a",), ("b",))}


def test_nothing_has_been_run_yet(store: Store) -> None:
    assert found(store) == Background()


def test_recorded_runs_have_links_facts_and_a_timeline_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("one", "two"):
        recorded(tmp_path / "kept" / name)
    assert cli.main(["compare", "kept/one", "kept/two", "--fail-on=never"]) == 0
    folder = tmp_path / "reports" / "compared-one-two"
    page = (folder / "comparison.html").read_text(encoding="utf-8")
    assert 'href="../../kept/one/report.html"' in page
    assert page.count("-timeline") >= 2
    written = msgspec.json.decode((folder / "comparison.json").read_bytes(), type=ComparisonFile)
    assert written.in_force.shared
    assert written.profiles.missing == (), "none were asked for"
    assert "No profile" not in capsys.readouterr().out
