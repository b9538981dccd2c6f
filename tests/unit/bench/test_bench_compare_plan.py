"""What a comparison is planned to do, before anything of it is run."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.bench import compare, variant
from pytest_grovescale.bench.store import WindowPlan
from pytest_grovescale.errors import UsageError
from pytest_grovescale.kube.access import Access, to_kubeconfig
from tests.unit.bench.planned import SUBJECT

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


@pytest.mark.parametrize(("no_early_stop", "looks"), [(False, (6, 10)), (True, (10,))])
def test_looks_are_planned_before_the_first_run(no_early_stop: bool, looks: tuple[int, ...]) -> None:
    plan = compare.plan_of(WANTED._replace(no_early_stop=no_early_stop))
    assert {comparison.looks for comparison in plan.comparisons.values()} == {looks}


def test_parts_share_the_alarms_that_are_allowed() -> None:
    assert {part: plan.alpha for part, plan in compare.plan_of(WANTED).comparisons.items()} == {
        "noop": 0.025,
        "deploy": 0.025,
    }
    assert [plan.alpha for plan in compare.plan_of(WANTED._replace(parts=("noop",))).comparisons.values()] == [0.05]


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
