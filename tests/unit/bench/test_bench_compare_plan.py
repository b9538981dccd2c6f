"""What a comparison is planned to do, before anything of it is run."""

from __future__ import annotations

import io
import time
from pathlib import Path

import msgspec
import pytest
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.analysis.run_metrics import default_gates
from pytest_grovescale.bench import compare, variant
from pytest_grovescale.bench.screen import Screen
from pytest_grovescale.bench.store import Store, WindowPlan
from pytest_grovescale.errors import UsageError
from pytest_grovescale.kube.access import Access, to_kubeconfig
from tests.unit.bench.planned import SUBJECT, sample

EXISTING = msgspec.structs.replace(SUBJECT, cluster="existing")
WANTED = compare.Wanted(
    pairing=variant.of_definitions("reference", "", values={}, other={}, parameters={}),
    subject=SUBJECT,
    pairs={"noop": 10, "deploy": 10},
)


@pytest.fixture(autouse=True)
def kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A context on this machine, as the plan of a comparison on a cluster that is there needs."""
    (tmp_path / "kubeconfig").write_text(to_kubeconfig(Access(server="https://127.0.0.1:1"), name="here"))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))


@pytest.mark.parametrize(("no_early_stop", "looks"), [(False, (5, 10)), (True, (10,))])
def test_looks_are_planned_before_the_first_run(no_early_stop: bool, looks: tuple[int, ...]) -> None:
    plan = compare.plan_of(WANTED._replace(no_early_stop=no_early_stop))
    assert {comparison.looks for comparison in plan.comparisons.values()} == {looks}


def test_parts_share_the_alarms_that_are_allowed() -> None:
    assert {part: plan.alpha for part, plan in compare.plan_of(WANTED).comparisons.items()} == {
        "noop": 0.025,
        "deploy": 0.025,
    }
    assert [plan.alpha for plan in compare.plan_of(WANTED._replace(parts=("noop",))).comparisons.values()] == [0.05]


def test_parts_do_not_share_what_ok_may_be_wrong_in() -> None:
    assert {plan.ok_alpha for plan in compare.plan_of(WANTED).comparisons.values()} == {0.05}


def test_only_sequential_runs_have_a_warm_up() -> None:
    plans = compare.plan_of(WANTED._replace(sequential=True)).comparisons
    assert {part: (plan.warmup, plan.looks) for part, plan in plans.items()} == {
        "noop": (0, (5, 10)),
        "deploy": (1, (6, 10)),
    }


@pytest.mark.parametrize(
    ("wanted", "parallel"),
    [
        (WANTED, True),
        (WANTED._replace(gated=("cpu:deploy", "noop_cpu")), True),
        (WANTED._replace(sequential=True), False),
        # A time by the clock on the wall that is gated on is that of a machine to itself.
        (WANTED._replace(gated=("cpu:deploy", "wall:deploy", "noop_cpu")), False),
        (WANTED._replace(gated=("milestone:deploy/pods-ready", "noop_cpu")), False),
        # There is one cluster only.
        (WANTED._replace(parts=("deploy",), subject=EXISTING), False),
    ],
)
def test_deploy_runs_are_side_by_side_where_that_measures_what_is_asked(wanted: compare.Wanted, parallel: bool) -> None:
    plans = compare.plan_of(wanted).comparisons
    assert plans["deploy"].parallel is parallel
    assert "noop" not in plans or plans["noop"].parallel, "windows always are"


def test_windows_on_a_cluster_that_is_there_are_refused(snapshot: SnapshotAssertion) -> None:
    with pytest.raises(UsageError, match="two clusters") as caught:
        compare.plan_of(WANTED._replace(subject=EXISTING))
    assert str(caught.value) == snapshot


def test_windows_are_planned_too() -> None:
    windows = WindowPlan(seconds=3.0, fresh=False)
    assert compare.plan_of(WANTED._replace(windows=windows)).windows == windows


QUICK = WANTED._replace(parts=("run",), pairs={"run": 12}, time_limit_s=300.0, hold_s=3.0)


def test_a_quick_comparison_is_one_part_of_whole_runs_by_counts() -> None:
    plan = compare.plan_of(QUICK)
    (comparison,) = plan.comparisons.values()
    assert (comparison.by_counts, comparison.parallel, comparison.warmup) == (True, True, 0)
    assert (comparison.looks, comparison.repeats, comparison.alpha) == ((5, 8, 12), 0, 0.05)
    assert (plan.time_limit_s, plan.hold_s) == (300.0, 3.0)
    # No-op phases count: what a trigger costs can be gated on as well as what a phase does.
    assert compare.plan_of(QUICK._replace(gated=("noop_writes", "cpu:deploy"))).comparisons["run"].gated
    one = compare.plan_of(QUICK._replace(subject=EXISTING)).comparisons["run"]
    assert not one.parallel


def test_fewer_pairs_than_anything_is_decided_by_are_refused(snapshot: SnapshotAssertion) -> None:
    with pytest.raises(UsageError, match="3 pairs") as caught:
        compare.plan_of(QUICK._replace(pairs={"run": 3}))
    assert str(caught.value) == snapshot


def test_gates_by_counts_have_no_times_and_few_requests_guard_only() -> None:
    runs = {"wall:deploy": 3.0, "wall:delete": 1.0, "cpu:deploy": 1.0, "api:deploy": 90.0, "api:delete": 2.0}
    gates = default_gates({**runs, "noop_cpu": 0.1, "noop_writes": 0.0}, by_counts=True)
    assert gates.gated == ("api:delete", "api:deploy", "noop_writes")
    assert gates.guards == ("api:delete",)
    assert default_gates(runs).guards == ()


def test_the_cpu_of_a_phase_that_has_little_of_it_is_a_guard() -> None:
    runs = {"wall:deploy": 30.0, "wall:grow": 30.0, "wall:delete": 15.0, "cpu:deploy": 3.2, "cpu:grow": 1.7}
    assert default_gates({**runs, "cpu:delete": 0.9}).guards == ("cpu:delete",)
    assert default_gates({**runs, "cpu:delete": 1.6}).guards == ()


class Clock:
    """The monotonic clock, set by hand."""

    now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(time, "monotonic", clock.monotonic)
    return clock


def test_a_pair_is_begun_if_one_like_those_before_fits_into_the_time_limit(clock: Clock) -> None:
    limit = compare.TimeLimit(300, [])
    assert limit.fits_one_more, "whatever the first one takes"
    for took, fits in ((70, True), (30, True), (60, True), (20, True), (25, False)):
        # Of 300 s 205 are over in the end; 60 for one as long as the longest of the last three, 42 to end it all.
        clock.now += took
        limit.note(took)
        assert limit.fits_one_more is fits
    limit.check()
    clock.now += 95.1
    with pytest.raises(compare.OutOfTime):
        limit.check()


def test_the_time_that_others_have_the_machine_does_not_count(clock: Clock) -> None:
    limit = compare.TimeLimit(300, [])
    limit.note(60)
    clock.now += 60 + 320
    assert not limit.fits_one_more
    limit.extend(320)
    assert limit.fits_one_more
    limit.check()


def test_an_interrupted_comparison_goes_on_with_what_is_left_of_its_time(clock: Clock) -> None:
    assert compare.TimeLimit(300, [80, 30, 30]).fits_one_more
    assert not compare.TimeLimit(300, [80, 30, 30, 100]).fits_one_more


def test_a_part_that_was_ended_needs_no_more_runs_and_is_analysed(tmp_path: Path) -> None:
    planned = compare.plan_of(QUICK._replace(gated=("wall:deploy",)))
    store = Store.create(tmp_path, planned)
    for slot in planned.slots[:6]:
        store.keep(sample(slot))
    assert compare.results(store, planned)[0].stopped == ""
    why = "the time limit of 5m00s ended it"
    store.stop("run", why)
    (found,) = compare.run(store, planned, Screen(io.StringIO())).parts
    assert (found.verdict, found.stopped, found.pairs) == ("inconclusive", why, 3)
