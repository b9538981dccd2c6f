"""The timeline: what happened when, exact where it is added up, and small whatever the size of the run."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_grovescale.analysis.analyse import result_of
from pytest_grovescale.analysis.recording_index import Contents
from pytest_grovescale.analysis.timeline import MAX_BINS, MAX_POINTS, Bins, Timeline, thinned, timeline_of
from pytest_grovescale.recording import records as rec
from pytest_grovescale.recording.conditions import WatchSpec

from .simulated import IDENTITIES, PODS, READY, Simulation, full_run, pods

N = 40
RECORDS = full_run(N).records()


def timeline(records: list[rec.AnyRecord]) -> Timeline:
    contents = Contents()
    for record in records:
        contents.feed(record)
    return timeline_of(contents, result_of(contents))


def counts(found: Timeline, watch: str, name: str) -> tuple[int, ...]:
    (counted,) = (counted for counted in found.objects if counted.watch == watch)
    return next(series.values for series in counted.series if series.name == name)


def bins(found: tuple[Bins, ...], name: str) -> tuple[float | None, ...]:
    return next(series.values for series in found if series.name == name)


def test_phases_and_milestones_stand_at_their_times() -> None:
    found = timeline(RECORDS)
    assert [phase.name for phase in found.phases] == ["deploy", "steady-state", "delete"]
    assert found.phases[0].start_s == pytest.approx(0.1)
    assert all(before.end_s <= after.start_s for before, after in zip(found.phases, found.phases[1:], strict=False))
    within = {phase.name: (phase.start_s, phase.end_s) for phase in found.phases}
    assert [milestone.name for milestone in found.milestones] == [
        "pods-created", "pods-ready", "pcs-available", "pods-gone", "pcs-gone"
    ]  # fmt: skip
    for milestone in found.milestones:
        low, high = within[milestone.phase]
        assert low <= milestone.at_s <= high
    assert [(mark.label, mark.phase) for mark in found.marks] == [("trigger", "steady-state")]


def test_objects_are_counted_by_state() -> None:
    found = timeline(RECORDS)
    assert max(counts(found, "pods", "existing")) == N
    assert max(counts(found, "pods", "ready")) == N
    assert (counts(found, "pods", "existing")[0], counts(found, "pods", "existing")[-1]) == (0, 0)
    assert counts(found, "pods", "gone")[-1] == N
    assert counts(found, "podcliquesets.grove.io", "gone")[-1] == 1


def test_an_object_is_in_one_state_after_the_other() -> None:
    sim = Simulation(lag_ms=(0, 0))
    spec = WatchSpec(
        resource="pods", path=PODS.path, fields=("metadata.deletionTimestamp", "spec.nodeName", "status.phase")
    )
    sim.watch(spec, 1)
    node = {"spec.nodeName": "node-1"}
    sim.write(spec, "pod", 1000, verb="create", took=0, fields={"status.phase": "Pending", "spec.nodeName": ""})
    sim.write(spec, "pod", 2000, verb="patch", took=0, fields={"status.phase": "Running", **node})
    sim.write(spec, "pod", 3000, verb="patch", took=0, fields={"status.phase": "Succeeded", **node})
    sim.write(spec, "pod", 4000, verb="delete", took=0, fields={"metadata.deletionTimestamp": "2026-01-01", **node})
    sim.write(spec, "pod", 5000, verb="delete", took=0)
    (counted,) = timeline(sim.records()).objects
    assert {series.name: list(zip(series.at_s, series.values, strict=True))[1:] for series in counted.series} == {
        "existing": [(1.0, 1), (5.0, 0)],
        "scheduled": [(2.0, 1), (5.0, 0)],
        "running": [(2.0, 1), (3.0, 0)],
        "succeeded": [(3.0, 1), (4.0, 0)],
        "deleting": [(4.0, 1), (5.0, 0)],
        "gone": [(5.0, 1)],
    }


def test_states_are_only_those_that_the_watch_can_see() -> None:
    (counted, _) = timeline(RECORDS).objects
    assert [series.name for series in counted.series] == ["existing", "ready", "gone"]


def test_watches_of_one_resource_are_distinguished_by_their_selectors() -> None:
    sim = Simulation()
    for selector in ("app=a", "app=b"):
        spec = WatchSpec(resource="pods", path=PODS.path, label_selector=selector, fields=(READY,))
        sim.watch(spec, 1)
        sim.write(spec, "pod", 100, verb="create", fields={})
    assert [counted.watch for counted in timeline(sim.records()).objects] == ["pods (app=a)", "pods (app=b)"]


def test_cpu_is_added_up_exactly_and_spread_over_its_bins() -> None:
    sim = Simulation()
    for ms, cpu_s in ((0, 1.0), (1500, 1.3), (3000, 2.0)):
        sim.cpu("operator", ms, cpu_s, rss=ms + 1)
    found = timeline(sim.records())
    assert bins(found.cores, "operator") == pytest.approx((0.2, (0.1 + 0.7 / 3) / 1, 0.7 / 1.5, None), abs=1e-3)
    assert bins(found.rss_bytes, "operator") == (1, 1501, 1501, 3001)


def test_a_restart_leaves_a_gap() -> None:
    sim = Simulation()
    for ms, cpu_s, pid in ((0, 1.0, 1), (1000, 1.5, 1), (3000, 0.1, 2), (4000, 0.2, 2)):
        sim.cpu("operator", ms, cpu_s, pid=pid)
    assert bins(timeline(sim.records()).cores, "operator") == (0.5, None, None, 0.1, None)


def test_requests_are_counted_by_identity_and_verb() -> None:
    found = timeline(RECORDS)
    total = {(row.identity, row.verb): sum(row.values) * found.bin_s for row in found.requests}
    assert total["operator", "create"] == pytest.approx(N)
    assert total["kube-scheduler", "create"] == pytest.approx(N)
    assert total["kwok", "patch"] == pytest.approx(N)
    assert total["operator", "watch"] == 1
    assert {identity for identity, _ in total} <= set(IDENTITIES)


def test_a_long_recording_has_wider_bins() -> None:
    sim = Simulation()
    sim.cpu("operator", 0, 0.0)
    sim.cpu("operator", 7_200_000, 3600.0)
    found = timeline(sim.records())
    values = bins(found.cores, "operator")
    assert len(values) <= MAX_BINS + 1
    assert found.bin_s == 15
    assert set(values) - {None} == {0.5}


def test_nothing_but_its_header() -> None:
    found = timeline(RECORDS[:1])
    assert (found.seconds, found.phases, found.objects, found.cores, found.requests) == (0, (), (), (), ())


def test_any_prefix_has_a_timeline() -> None:
    for length in range(1, len(RECORDS), 7):
        assert timeline(RECORDS[:length]).bin_s == 1


def test_a_phase_that_did_not_end_ends_with_the_recording() -> None:
    sim = Simulation()
    sim.watch(PODS, 1)
    sim.phase("deploy", 100, None, pods_created=pods(1))
    sim.cpu("operator", 2000, 1.0)
    (phase,) = timeline(sim.records()).phases
    assert (phase.outcome, phase.end_s) == ("unfinished", 2.0)


def test_counts_are_thinned() -> None:
    (pods_, _) = timeline(full_run(400).records()).objects
    assert all(len(series.values) <= MAX_POINTS for series in pods_.series)
    assert max(pods_.series[0].values) == 400


Points = st.lists(
    st.tuples(st.floats(0, 1e5, allow_nan=False), st.integers(-1000, 1000)),
    min_size=1,
    max_size=300,
    unique_by=lambda point: point[0],
).map(sorted)


@given(Points, st.integers(4, 60))
def test_thinning_keeps_the_ends_and_the_extremes(points: list[tuple[float, int]], limit: int) -> None:
    kept = thinned(points, limit)
    assert len(kept) <= max(limit, 1)
    assert set(kept) <= set(points)
    assert kept == sorted(kept)
    assert (kept[0], kept[-1]) == (points[0], points[-1])
    values = [value for _, value in points]
    assert {min(values), max(values)} <= {value for _, value in kept}
    if len(points) <= limit:
        assert kept == points
