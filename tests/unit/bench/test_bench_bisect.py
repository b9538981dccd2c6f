"""The search of a bisection: what it measures next, what it skips, and what its range may be."""

from __future__ import annotations

from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.analysis.comparison_plan import VariantRun
from pytest_grovescale.analysis.contention import RunContention
from pytest_grovescale.bench import bisect, variant
from pytest_grovescale.bench.bisect import GOOD
from pytest_grovescale.bench.store import BISECT, BisectPlan, Plan, Sample, Slot, Store
from pytest_grovescale.bench.target_test import Subject
from pytest_grovescale.bench.variant import Revision, Variant
from pytest_grovescale.errors import RecordingError, UsageError
from pytest_grovescale.recording.records import Machine
from pytest_grovescale.report import bisect_table, document
from tests.repositories import committed, git, repository

COMMITS = 8
MACHINE = Machine(fingerprint="f", cpu="c", cores=2, memory_bytes=1, kernel="k", python="p")
QUIET = RunContention(share=0.0)


def identity(number: int) -> str:
    return f"{number:x}".ljust(40, "0")


def plan(metric: str = "writes:deploy", *, commits: int = COMMITS, most: int = 60, pairs: int = 8) -> Plan:
    first = Variant(label="", operator="operator.yaml", build="make")
    revisions = [Revision(identity(n), f"commit {n}") for n in range(1, commits + 1)]
    return bisect.plan_of(
        Subject(nodeid="test_it.py::test_it", path="/test_it.py", name="test_it", cluster="default"),
        bisect.variants(first, identity(0), revisions),
        BisectPlan(metric=metric, most=most, error=0.05, max_contention=0.25, pairs=pairs, profiles=True),
        "/repository",
    )


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.within(tmp_path / "bisect-1", plan())


def keep(
    store: Store, round_: int, arm: str, figures: dict[str, float], *, broken: str = "", share: float = 0.0
) -> None:
    run = VariantRun(metrics=figures, broken=broken, contention=RunContention(share=share))
    store.keep(Sample(slot=Slot(part=BISECT, round=round_, arm=arm), run=run, seconds=1.0, machine=MACHINE))


def search(store: Store, of: Plan, guilty: int, *, skipped: tuple[int, ...] = ()) -> list[int]:
    """Measure counts as the search asks for, until it is over; return the commits in their order."""
    asked: list[int] = []
    while (coming := bisect.state(of, store)[1]) is not None:
        asked.append(coming)
        arm = list(of.arms)[coming]
        if coming in skipped:
            store.skip(arm, "make ended with code 2")
        else:
            keep(store, len(asked), arm, {"writes:deploy": 110.0 if coming >= guilty else 100.0})
    return asked


@pytest.mark.parametrize("guilty", range(1, COMMITS + 1))
def test_each_commit_is_found_when_it_is_the_guilty_one(store: Store, guilty: int) -> None:
    asked = search(store, plan(), guilty)
    found, _ = bisect.state(plan(), store)
    assert found.guilty == (identity(guilty),)
    assert found.change == pytest.approx(1.1, abs=0.01)
    assert asked[:2] in ([0, COMMITS], [COMMITS, 0])
    assert len(asked) <= 9


def test_a_search_continues_from_its_files(store: Store) -> None:
    whole = search(store, plan(), 5)
    again = Store(store.folder)
    assert bisect.state(again.plan(), again) == bisect.state(plan(), store)
    # Without its last file, it asks for that again.
    max((store.folder / "samples").glob("*.json")).unlink()
    assert bisect.state(plan(), again)[1] == whole[-1]


def test_commits_that_cannot_be_measured_are_named_with_the_next_that_can(store: Store) -> None:
    search(store, plan(), 4, skipped=(4, 5))
    found, _ = bisect.state(plan(), store)
    assert found.guilty == (identity(4), identity(5), identity(6))
    assert [step.skipped for step in found.steps if step.skipped] == ["make ended with code 2"] * 2


def test_no_change_differs_from_too_few_measurements(store: Store) -> None:
    search(store, plan(), COMMITS + 1)
    none, _ = bisect.state(plan(), store)
    assert (none.guilty, none.over) == ((), True)
    short = Store.within(store.folder.parent / "short", plan(most=3))
    search(short, plan(most=3), 3)
    few, coming = bisect.state(plan(most=3), short)
    assert (few.guilty, few.over, coming) == ((), False, None)


def test_pairs_leave_out_the_warm_up_contended_ones_and_halves(store: Store) -> None:
    of, arm = plan("cpu:deploy"), identity(COMMITS)
    for round_, (share, cpu) in enumerate([(0.0, 9.0), (0.9, 7.0), (0.0, 1.1)]):
        keep(store, round_, GOOD, {"cpu:deploy": 1.0}, share=share)
        keep(store, round_, arm, {"cpu:deploy": cpu})
    keep(store, 3, GOOD, {"cpu:deploy": 1.0})
    found, _ = bisect.state(of, store)
    (ratio,) = found.steps[-1].ratios
    assert ratio == pytest.approx(1.1)
    assert found.left_out == 1


def test_broken_runs_do_not_count(store: Store) -> None:
    keep(store, 0, GOOD, {"writes:deploy": 100.0})
    keep(store, 1, identity(4), {"writes:deploy": 10.0}, broken="deploy: timeout")
    assert not any(step.ratios for step in bisect.state(plan(), store)[0].steps)


def test_a_metric_that_is_not_measured_names_those_that_are(store: Store) -> None:
    keep(store, 0, GOOD, {"cpu:deploy": 1.0})
    with pytest.raises(UsageError) as caught:
        bisect.state(plan(), store)
    assert "cpu:deploy" in caught.value.next_step


@pytest.mark.parametrize("metric", ["speed:deploy", "noop_cpu"])
def test_a_metric_that_cannot_be_bisected_is_refused(metric: str) -> None:
    with pytest.raises(UsageError, match=f"--metric {metric}"):
        plan(metric)


def test_a_damaged_sample_is_named(store: Store) -> None:
    keep(store, 0, GOOD, {"writes:deploy": 1.0})
    (file,) = (store.folder / "samples").glob("*.json")
    file.write_text("{")
    with pytest.raises(RecordingError, match=file.name):
        bisect.state(plan(), store)


def test_only_a_commit_of_the_range_is_skipped_by_hand(store: Store) -> None:
    bisect.skip(store, plan(), identity(3))
    assert store.skipped() == {identity(3): "left out by --skip"}
    for wrong in (identity(0), identity(COMMITS), identity(99)):
        with pytest.raises(UsageError, match="not between"):
            bisect.skip(store, plan(), wrong)


def test_the_guilty_commit_is_compared_with_the_last_measurable_one_before_it(store: Store) -> None:
    search(store, plan(), 4, skipped=(4,))
    found, _ = bisect.state(plan(), store)
    pair = bisect.pair_plan(plan(), found)
    assert pair is not None
    assert [pair.arms[arm].revision for arm in "ab"] == [identity(3), identity(5)]
    assert bisect.pair_plan(plan(pairs=0), found) is None


def test_the_report(store: Store, snapshot: SnapshotAssertion) -> None:
    search(store, plan(), 4, skipped=(6,))
    assert document.text(bisect_table.blocks(bisect.state(plan(), store)[0])) == snapshot


# ---- the range


@pytest.fixture
def top(tmp_path: Path) -> Path:
    folder = tmp_path / "top"
    folder.mkdir()
    repository(folder)
    for name in ("a", "b", "c"):
        (folder / "file").write_text(name)
        committed(folder, name)
    return folder


def test_the_range_is_along_first_parents(top: Path) -> None:
    git(top, "checkout", "-q", "-b", "side", "b")
    (top / "other").write_text("side")
    committed(top, "side-1")
    git(top, "checkout", "-q", "-")
    git(top, "merge", "-q", "--no-ff", "-m", "merged", "side-1")
    found = variant.between(top, variant.commit(top, "a"), variant.commit(top, "HEAD"))
    assert [one.subject for one in found] == ["b", "c", "merged"]
    with pytest.raises(UsageError, match="no ancestor"):
        variant.between(top, variant.commit(top, "side-1"), variant.commit(top, "HEAD"))


def test_a_range_the_wrong_way_round_is_refused(top: Path) -> None:
    with pytest.raises(UsageError, match="no ancestor"):
        variant.between(top, variant.commit(top, "c"), variant.commit(top, "a"))


def test_a_changed_working_tree_is_noticed(top: Path) -> None:
    assert not variant.is_dirty(top)
    (top / "untracked").write_text("1")
    assert not variant.is_dirty(top)
    (top / "file").write_text("changed")
    assert variant.is_dirty(top)
