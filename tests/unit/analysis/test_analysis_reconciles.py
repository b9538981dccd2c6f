"""Reconciles from the operator's own counters: differences, new series, restarts, missing scrapes."""

from __future__ import annotations

import msgspec
import pytest
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.analysis import figures
from pytest_grovescale.analysis.analyse import analyse
from pytest_grovescale.analysis.phase_result import PhaseResult
from pytest_grovescale.analysis.reconcile_counters import controllers_of, counted_by, failures_of
from pytest_grovescale.errors import NotMeasuredError
from pytest_grovescale.recording import records as rec

from .simulated import Simulation


def series(controller: str, result: str = "success") -> str:
    return f'controller_runtime_reconcile_total{{controller="{controller}",result="{result}"}}'


def phase(*scrapes: tuple[float, str, dict[str, float]], extra: rec.AnyRecord | None = None) -> PhaseResult:
    sim = Simulation()
    sim.phase("p", 100, 1000)
    for moment, edge, samples in scrapes:
        sim.scrape(moment, samples, edge=edge)
    if extra is not None:
        sim.add(extra)
    return analyse(sim.records()).phases[0]


def test_unchanged_series_are_left_out_of_a_scrape_and_still_count() -> None:
    found = phase((90, "start:p", {series("a"): 5, series("b"): 7}), (1001, "end:p", {series("a"): 9}))
    assert figures.reconciles(found, "a") == 4
    assert figures.reconciles(found, "b") == 0


def test_a_series_that_appears_began_at_zero() -> None:
    found = phase((90, "start:p", {series("a"): 5}), (1001, "end:p", {series("a", "error"): 2}))
    assert figures.reconciles(found, "a", result="error") == 2
    assert figures.reconciles(found, "a") == 2


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({}, {}),  # the counter fell
        ({"process_start_time_seconds": 100.0}, {"process_start_time_seconds": 200.0}),
    ],
)
def test_a_restart_is_a_lower_bound(before: dict[str, float], after: dict[str, float]) -> None:
    value = 3.0 if not before else 50.0
    found = phase((90, "start:p", {series("a"): 5, **before}), (1001, "end:p", {series("a"): value, **after}))
    (row,) = found.reconciles
    assert (row.count, row.lower_bound) == (value, True)
    with pytest.raises(NotMeasuredError, match=f"at least {value:.0f} reconciles"):
        figures.reconciles(found, "a")


def test_a_process_that_went_between_the_scrapes_restarted() -> None:
    gone = rec.ProcessGone(at=1_790_000_000_000_000_000 + 500_000_000, process="operator", pid=10)
    found = phase((90, "start:p", {series("a"): 5}), (1001, "end:p", {series("a"): 6}), extra=gone)
    assert found.reconciles[0].lower_bound is True


def test_a_failed_scrape_is_not_zero() -> None:
    failed = rec.SourceFailed(at=1_790_000_000_000_000_000 + 999_000_000, source="scrape:operator", message="refused")
    found = phase((90, "start:p", {series("a"): 5}), extra=failed)
    with pytest.raises(NotMeasuredError, match="end failed: refused"):
        figures.reconciles(found, "a")


def test_a_bare_cluster_has_no_reconciles_to_miss() -> None:
    sim = Simulation()
    sim.phase("p", 100, 1000)
    opened, *others = sim.records()
    assert isinstance(opened, rec.Opened)
    bare = analyse([msgspec.structs.replace(opened, parameters={"operator": "none"}), *others]).phases[0]
    assert bare.missing["reconciles"] == "the test runs no operator"


def test_an_operator_without_the_counter(snapshot: SnapshotAssertion) -> None:
    found = phase((90, "start:p", {"go_goroutines": 5}), (1001, "end:p", {}))
    with pytest.raises(NotMeasuredError, match="controller_runtime_reconcile_total") as caught:
        figures.reconciles(found, "a")
    assert str(caught.value) == snapshot


def queue(name: str) -> str:
    return f'workqueue_work_duration_seconds_count{{name="{name}"}}'


def test_without_controller_runtime_the_work_queues_count() -> None:
    start = {queue("deployment"): 5.0, queue("replicaset"): 7.0}
    found = phase((90, "start:p", start), (1001, "end:p", {queue("deployment"): 9}))
    assert {(row.controller, row.result, row.count, row.source) for row in found.reconciles} == {
        ("deployment", "", 4, "work-queue"),
        ("replicaset", "", 0, "work-queue"),
    }
    assert figures.reconciles(found, "deployment") == 4
    with pytest.raises(NotMeasuredError, match="no result 'error'"):
        figures.reconciles(found, "deployment", result="error")


def test_controller_runtimes_own_counter_is_preferred() -> None:
    both = {series("a"): 5.0, queue("a"): 50.0}
    found = phase((90, "start:p", both), (1001, "end:p", {series("a"): 6, queue("a"): 60}))
    (row,) = found.reconciles
    assert (row.result, row.count, row.source) == ("success", 1, "controller-runtime")


def test_a_librarys_queue_is_no_evidence_of_a_reconcile() -> None:
    ticking = "DynamicServingCertificateController"
    found = phase((90, "start:p", {queue(ticking): 5, queue("job"): 1}), (1001, "end:p", {queue(ticking): 6}))
    assert figures.noop(found).reconciles == {"job": 0}
    only = phase((90, "start:p", {queue(ticking): 5}), (1001, "end:p", {queue(ticking): 6}))
    assert "no controller_runtime_reconcile_total" in only.missing["reconciles"]


@pytest.mark.parametrize(
    ("counter", "labels", "source"),
    [
        ("reconciliations_started_total", 'controller_name="shop"', "java-operator-sdk"),
        ("operator_sdk_reconciliations_started_total", 'kind="shop",name="{object}"', "java-operator-sdk"),
        ("shop_reconcile_runs_total", "", "kube-rs"),
    ],
)
def test_counters_of_other_libraries(counter: str, labels: str, source: str) -> None:
    """Those with a series for each object are summed."""
    before, after = ({f"{counter}{{{labels.format(object=name)}}}": value for name in "ab"} for value in (5.0, 7.0))
    if not labels:
        before, after = {counter: 3.0}, {counter: 7.0}
    found = phase((90, "start:p", before), (1001, "end:p", after))
    (row,) = found.reconciles
    assert (row.controller, row.count, row.source) == ("shop", 4 if "object" in labels or not labels else 2, source)
    assert not found.counts_no_reconciles


def test_counter_that_the_definition_names() -> None:
    declared = rec.ReconcileCounter(counter="runs_total", controller_label="loop", result_label="how")
    sim = Simulation()
    sim.phase("p", 100, 1000)
    own = {'runs_total{loop="shop",how="ok"}': 1.0, 'runs_total{loop="shop",how="error"}': 1.0, series("a"): 5.0}
    sim.scrape(90, own, edge="start:p")
    sim.scrape(1001, {name: value + 2 for name, value in own.items()}, edge="end:p")
    opened, *others = sim.records()
    assert isinstance(opened, rec.Opened)
    found = analyse([msgspec.structs.replace(opened, reconciles=declared), *others]).phases[0]
    assert figures.reconciles(found, "shop") == 4
    assert figures.reconciles(found, "shop", result="error") == 2
    one = msgspec.structs.replace(declared, controller_label="", result_label="", controller="mine")
    found = analyse([msgspec.structs.replace(opened, reconciles=one), *others]).phases[0]
    assert figures.reconciles(found, "mine") == 4
    lost = msgspec.structs.replace(declared, counter="run_total")
    found = analyse([msgspec.structs.replace(opened, reconciles=lost), *others]).phases[0]
    assert "run_total" in found.missing["reconciles"]
    assert not found.counts_no_reconciles


@pytest.mark.parametrize(
    ("served", "controllers"),
    [
        ({series("a"): "5", series("b"): "7"}, {"a", "b"}),
        ({'runs_total{loop="shop"}': "5"}, set()),  # another loop's series may come with its first run
        ({'runs_total{loop="shop"}': "5", 'runs_total{loop="cart"}': "0"}, {"shop", "cart"}),
        ({"go_goroutines": "5"}, set()),
    ],
)
def test_controllers_are_known_where_all_their_series_are_served(served: dict[str, str], controllers: set[str]) -> None:
    own = any("loop" in name for name in served)
    declared = rec.ReconcileCounter(counter="runs_total", controller_label="loop") if own else None
    assert controllers_of(served, declared) == controllers


def test_an_operator_that_counts_nothing_is_known() -> None:
    assert phase().counts_no_reconciles
    assert phase((90, "start:p", {"go_goroutines": 5}), (1001, "end:p", {"go_goroutines": 6})).counts_no_reconciles
    assert not phase((90, "start:p", {"go_goroutines": 5})).counts_no_reconciles
    failed = rec.SourceFailed(at=1_790_000_000_000_000_000 + 999_000_000, source="scrape:operator", message="refused")
    assert not phase(extra=failed).counts_no_reconciles


def test_work_queues_of_a_restarted_operator_are_a_lower_bound() -> None:
    born = "process_start_time_seconds"
    found = phase((90, "start:p", {queue("job"): 5, born: 1.0}), (1001, "end:p", {queue("job"): 6, born: 2.0}))
    (row,) = found.reconciles
    assert (row.count, row.lower_bound) == (6, True)


def test_label_values_with_escapes() -> None:
    found = phase((90, "start:p", {series(r"a\"b"): 5}), (1001, "end:p", {series(r"a\"b"): 6}))
    assert found.reconciles[0].controller == 'a"b'


@pytest.mark.parametrize(
    ("counter", "failures", "found"),
    [
        ('a_reconciles_total{controller="shop"}', 'a_reconcile_errors_total{controller="shop",error="api"}', "shop"),
        ("shop_reconcile_runs_total", 'shop_reconcile_failures_total{instance="x"}', "shop"),
        ('a_reconciles_total{controller="shop"}', 'a_reconcile_errors_total{controller="other"}', None),
        ('a_reconciles_total{controller="shop"}', 'a_request_errors_total{controller="shop"}', None),
        ('a_reconciles_total{controller="shop",result="ok"}', 'a_reconcile_errors_total{controller="shop"}', None),
    ],
)
def test_a_counter_of_failed_reconciles_beside_that_of_all(counter: str, failures: str, found: str | None) -> None:
    name = counter.partition("{")[0]
    declared = rec.ReconcileCounter(counter=name, controller_label="controller", result_label="result")
    counted = counted_by([counter, failures], None if name.endswith("_runs_total") else declared)
    assert failures_of([counter, failures], counted) == ({failures: found} if found else {})
