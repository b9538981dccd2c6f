"""Server times from matched writes, held against a simulated API server whose commits are known."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.analysis.audit_times import (
    Interval,
    Unknown,
    Write,
    WriteLog,
    object_of,
    order_statistic,
    time_of_event,
)
from pytest_grovescale.analysis.findings.evidence import requests_read
from pytest_grovescale.analysis.milestones import watch_lag
from pytest_grovescale.analysis.recording_index import Contents, WallClock
from pytest_grovescale.recording.records import ClockStep, Request
from tests.unit.analysis.commit_intervals import server_intervals

from .simulated import PODS, READY, T0, Simulation, full_run

READ = {READY: "True"}


def fed(sim: Simulation) -> tuple[Contents, WriteLog]:
    contents = Contents()
    for record in sim.records():
        contents.feed(record)
    return contents, WriteLog(contents.requests, contents.clock)


def last_event_time(sim: Simulation, name: str = "a") -> Interval | Unknown:
    contents, log = fed(sim)
    story = contents.watches["w0"]
    return time_of_event(log, story, story.objects["t", name][-1])


@given(st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 300), st.floats(0, 1)), min_size=1), st.data())
def test_order_statistics_hold_the_truth(spans: list[tuple[int, int, float]], data: st.DataObject) -> None:
    """Whatever the overlap, the j-th commit lies in the j-th interval, with no-op writes in between as well."""
    writes = [Write(start, start + length, True, 0) for start, length, _ in spans]
    moments = [start + round(length * share) for start, length, share in spans]
    real = data.draw(st.lists(st.booleans(), min_size=len(spans), max_size=len(spans)))
    commits = sorted(moment for moment, was in zip(moments, real, strict=True) if was)
    spare = len(spans) - len(commits)
    for j, commit in enumerate(commits, start=1):
        found = order_statistic(writes, j, spare=spare)
        assert found.low <= commit <= found.high


@given(st.integers(0, 10_000), st.integers(1, 25))
def test_every_certain_interval_holds_the_commit(seed: int, n: int) -> None:
    sim = full_run(n, seed)
    found = server_intervals(sim.records(), "pods")
    assert len(found) == n
    for (_, name), intervals in found.items():
        commits = sorted(sim.commits["pods", name])
        assert len(intervals) == len(commits)
        for interval, commit in zip(intervals, commits, strict=True):
            assert interval.low <= commit <= interval.high


def test_watch_lag_is_what_the_simulation_adds() -> None:
    contents, log = fed(full_run(50, lag_ms=(40, 40)))
    lag = watch_lag(contents, log)
    assert lag is not None
    assert lag.events == 50 * 5 + 5
    # The lag counts from the answer, up to 30 ms after the commit; order may hold an event up for longer.
    assert 10 <= lag.p50_ms <= 45
    assert lag.p50_ms <= lag.p99_ms <= lag.max_ms


def test_a_write_that_changed_nothing_leaves_no_server_time(snapshot: SnapshotAssertion) -> None:
    sim = Simulation()
    sim.watch(PODS, 1)
    sim.write(PODS, "a", 100, verb="create", fields={}, took=5)
    sim.write(PODS, "a", 150, verb="patch", fields=READ, took=5, shown=False)
    sim.write(PODS, "a", 200, verb="patch", fields=READ, took=5)
    found = last_event_time(sim)
    assert isinstance(found, Unknown)
    assert "3 writes " in found.why
    assert "2 changes " in found.why
    assert found.why == snapshot


def ended_pod(sim: Simulation) -> int:
    """A pod that has succeeded is deleted: one request, two changes. One write before it changed nothing.

    Returns when it was marked.
    """
    sim.watch(PODS, 1)
    sim.write(PODS, "a", 100, verb="create", fields={}, took=5)
    sim.write(PODS, "a", 150, verb="patch", fields=READ, took=5)
    sim.write(PODS, "a", 200, verb="patch", user="kwok", took=5, shown=False)
    marked = sim.write(PODS, "a", 5000, verb="delete", fields={"metadata.deletionTimestamp": "now"}, took=5)
    sim.events.append((marked + 1, PODS, "a", "deleted", {"metadata.deletionTimestamp": "now"}))
    return marked


def test_one_delete_that_is_two_changes_proves_nothing_by_its_number() -> None:
    sim = Simulation()
    ended_pod(sim)
    contents, log = fed(sim)
    story = contents.watches["w0"]
    events = story.objects["t", "a"]
    # Four writes and four events: were they paired, the mark would seem to have been made five seconds early.
    assert len(events) == len(log.named["pods", "t", "a"]) == 4
    assert [type(time_of_event(log, story, event)) for event in events] == [Interval, Interval, Unknown, Interval]
    assert watch_lag(contents, log) is None


def test_what_went_before_a_pods_deletion_is_certain_all_the_same() -> None:
    sim = Simulation(lag_ms=(40, 40))
    ended_pod(sim)
    sim.items = [item for item in sim.items if getattr(item[2], "user", "") != sim.identities["kwok"]]
    lag = watch_lag(*fed(sim))
    assert lag is not None
    assert lag.events == 2
    assert lag.max_ms <= 45


def test_a_create_by_generate_name_does_not_spoil_later_writes() -> None:
    sim = Simulation()
    sim.watch(PODS, 1)
    sim.write(PODS, "a", 100, verb="create", fields={}, logged_name="", took=5)
    commit = sim.write(PODS, "a", 200, verb="patch", fields=READ, took=5)
    found = last_event_time(sim)
    assert isinstance(found, Interval)
    assert found.low == T0 + 200_000_000
    assert found.low <= commit <= found.high


def test_an_end_lies_between_the_last_receipt_and_the_last_answer_even_with_no_op_deletes() -> None:
    sim = Simulation()
    sim.watch(PODS, 1)
    sim.write(PODS, "a", 100, verb="create", fields={}, took=5)
    sim.write(PODS, "a", 200, verb="delete", fields={}, took=5)
    sim.write(PODS, "a", 220, verb="delete", fields={}, took=5, shown=False)
    commit = sim.write(PODS, "a", 300, verb="delete", took=5)
    sim.request(400, verb="delete", resource="pods", namespace="t", name="a", code=404)
    found = last_event_time(sim)
    assert isinstance(found, Interval)
    assert (found.low, found.high) == (T0 + 300_000_000, T0 + 305_000_000)
    assert found.low <= commit <= found.high


@pytest.mark.parametrize("collection_ms", [250.0, 299.0])
def test_a_deletecollection_leaves_an_end_uncertain_unless_a_named_write_came_after_it(collection_ms: float) -> None:
    sim = Simulation()
    sim.watch(PODS, 1)
    sim.write(PODS, "a", 100, verb="create", fields={}, took=5)
    sim.request(collection_ms, 5, verb="deletecollection", resource="pods", namespace="t")
    sim.write(PODS, "a", 300, verb="delete", took=5)
    found = last_event_time(sim)
    # 299 + 5 ms overlaps the last write: either of them may have ended it.
    assert isinstance(found, Interval) == (collection_ms == 250.0)


def test_an_object_made_again_under_its_name_is_not_guessed_at() -> None:
    sim = Simulation()
    sim.watch(PODS, 1)
    for start in (100, 300):
        sim.write(PODS, "a", start, verb="create", fields={}, took=5)
        sim.write(PODS, "a", start + 50, verb="patch", fields={}, took=5, shown=False)
        sim.write(PODS, "a", start + 100, verb="delete", took=5)
    assert isinstance(last_event_time(sim), Unknown)


def test_refused_dry_and_foreign_writes_do_not_count() -> None:
    sim = Simulation()
    sim.watch(PODS, 1)
    sim.write(PODS, "a", 100, verb="create", fields={}, took=5)
    patch: dict[str, Any] = {"verb": "patch", "resource": "pods", "namespace": "t", "name": "a"}
    for extra in ({"code": 409}, {"dry_run": True}, {"subresource": "exec"}, {"namespace": "other"}):
        sim.request(150, **(patch | extra))
    sim.write(PODS, "a", 200, verb="patch", fields=READ, took=5)
    assert isinstance(last_event_time(sim), Interval)


def test_a_clock_step_widens_what_is_near_it_and_shifts_what_is_after() -> None:
    clock = WallClock()
    clock.add(ClockStep(at=T0 + 10_000_000_000, offset_ns=5_000_000_000))
    assert (clock.offset(T0), clock.doubt(T0)) == (0, 0)
    assert clock.doubt(T0 + 9_000_000_000) == clock.doubt(T0 + 11_000_000_000) == 5_000_000_000
    assert (clock.offset(T0 + 20_000_000_000), clock.doubt(T0 + 20_000_000_000)) == (5_000_000_000, 0)


def test_events_shown_twice_after_a_resume_count_once() -> None:
    sim = Simulation(seed=Random(3).randint(0, 9))
    sim.watch(PODS, 1)
    sim.write(PODS, "a", 100, verb="create", fields={}, took=5)
    sim.write(PODS, "a", 200, verb="patch", fields=READ, took=5)
    contents, log = fed(sim)
    story = contents.watches["w0"]
    events = story.objects["t", "a"]
    events.append(events[-1].__class__(**{f: getattr(events[-1], f) for f in events[-1].__struct_fields__}))
    assert isinstance(time_of_event(log, story, events[1]), Interval)


def test_what_came_before_a_deletecollection_stays_certain() -> None:
    sim = Simulation(lag_ms=(1, 5))
    sim.watch(PODS, 1)
    commits = [
        sim.write(PODS, "a", 100, verb="create", fields={}, took=5),
        sim.write(PODS, "a", 200, verb="patch", fields=READ, took=5),
    ]
    sim.request(300, 5, verb="deletecollection", resource="pods", namespace="t")
    sim.write(PODS, "a", 301, verb="patch", fields={}, took=1)
    (intervals,) = server_intervals(sim.records(), "pods").values()
    assert len(intervals) == 2
    assert all(found.low <= commit <= found.high for found, commit in zip(intervals, commits, strict=True))


@pytest.mark.parametrize(
    ("resource", "group", "named"),
    [("namespaces", "", ("", "n")), ("pods", "", ("n", "n")), ("namespaces", "a.io", ("n", "n"))],
)
def test_a_namespace_is_in_none_although_the_log_says_so(resource: str, group: str, named: tuple[str, str]) -> None:
    request = Request(at=1, user="op", verb="delete", resource=resource, group=group, namespace="n", name="n", code=200)
    (sent,) = requests_read([request], None, -1, 1)
    assert sent.object == object_of(request) == named
