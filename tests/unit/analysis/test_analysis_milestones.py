"""Milestones: both clocks, what they hold against the truth, and what is said where a clock is missing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.analysis import milestones
from pytest_grovescale.analysis.analyse import analyse
from pytest_grovescale.analysis.phase_result import MilestoneResult
from pytest_grovescale.analysis.result import TestResult
from pytest_grovescale.recording import records as rec
from pytest_grovescale.recording.conditions import AllOf, AnyOf, Condition, Count, FieldTest, Predicate, Timer

from .simulated import PODS, READY, S, Simulation, available, full_run, gone, pods


def named(result: TestResult, name: str) -> MilestoneResult:
    return next(m for phase in result.phases for m in phase.milestones if m.name == name)


@given(st.integers(0, 10_000), st.integers(1, 25))
def test_server_times_hold_the_write_that_tipped_each_milestone(seed: int, n: int) -> None:
    sim = full_run(n, seed)
    result = analyse(sim.records())
    commits = {key: sorted(times) for key, times in sim.commits.items()}
    made = sorted(times[0] for (resource, _), times in commits.items() if resource == "pods")
    ready = sorted(times[2] for (resource, _), times in commits.items() if resource == "pods")
    ended = sorted(times[-1] for (resource, _), times in commits.items() if resource == "pods")
    pcs = commits["podcliquesets.grove.io", "pcs"]
    truth = {
        "pods-created": (0, made[-1]),
        "pods-ready": (0, ready[-1]),
        "pcs-available": (0, pcs[1]),
        "pods-gone": (2, ended[-1]),
        "pcs-gone": (2, pcs[-1]),
    }
    for name, (index, commit) in truth.items():
        found = named(result, name)
        phase = result.phases[index]
        start = next(r.at for r in sim.records_made if isinstance(r, rec.PhaseStarted) and r.phase == phase.name)
        assert found.clock == "server", (name, found.why_not_server)
        assert found.server_s is not None
        assert found.observed_s is not None
        low, high = found.server_s
        assert low - 1e-9 <= (commit - start) / 1e9 <= high + 1e-9 <= found.observed_s + 2e-9
        assert found.held_to_end is True


def test_without_names_the_nth_create_is_found_by_order() -> None:
    sim = Simulation()
    sim.watch(PODS, 1)
    sim.phase("deploy", 50, 900, made=pods(5))
    commits = [sim.write(PODS, f"p{i}", 100 + i, verb="create", fields={}, logged_name="") for i in range(8)]
    found = named(analyse(sim.records()), "made")
    assert found.clock == "server"
    assert found.server_s is not None
    low, high = found.server_s
    assert low <= (sorted(commits)[4] - sim.at(50)) / 1e9 <= high
    assert found.held_to_end is False
    assert (found.reached, found.wanted) == (8, 5)


def test_a_deletion_in_between_leaves_the_watch_clock() -> None:
    sim = Simulation(lag_ms=(1, 2))
    sim.watch(PODS, 1)
    sim.phase("deploy", 50, 900, made=pods(3))
    sim.write(PODS, "x", 100, verb="create", fields={}, logged_name="", took=3)
    sim.write(PODS, "x", 200, verb="delete", took=3)
    for index in range(3):
        sim.write(PODS, f"p{index}", 300 + index, verb="create", fields={}, logged_name="", took=3)
    found = named(analyse(sim.records()), "made")
    assert (found.clock, found.server_s) == ("watch", None)
    assert "generateName" in found.why_not_server


def test_without_an_audit_log_the_watch_clock_stands_and_says_so() -> None:
    found = named(analyse(full_run(3, audited=False).records()), "pods-ready")
    assert (found.clock, found.server_s, found.why_not_server) == ("watch", None, "no audit log")
    assert found.seconds == found.observed_s


def test_a_gap_leaves_the_watch_clock() -> None:
    sim = full_run(3)
    sim.add(rec.WatchGap(at=sim.at(120), watch="w0", reason="too old", length_ns=S))
    sim.add(rec.WatchLive(at=sim.at(121), watch="w0", objects=0))
    result = analyse(sim.records())
    assert named(result, "pods-ready").clock == "watch"
    assert named(result, "pcs-available").clock == "server"
    assert any("gap of" in warning for warning in result.warnings)


def test_a_timer_has_no_event() -> None:
    sim = Simulation()
    sim.phase("hold", 50, 3000, rest=Timer(seconds=1.0))
    found = named(analyse(sim.records()), "rest")
    assert (found.met, found.clock, found.observed_s, found.held_to_end) == (True, "recorder", 1.0, True)


def test_a_milestone_that_is_not_met_says_how_far_it_came() -> None:
    sim = Simulation()
    sim.watch(PODS, 1)
    sim.phase("deploy", 50, 900, "timeout", made=pods(5))
    for index in range(3):
        sim.write(PODS, f"p{index}", 100, verb="create", fields={})
    found = named(analyse(sim.records()), "made")
    assert (found.met, found.reached, found.wanted, found.seconds) == (False, 3, 5, None)
    unfinished = [record for record in sim.records_made if not isinstance(record, rec.PhaseEnded)]
    assert named(analyse(unfinished), "made").reached == 3


def test_all_of_takes_the_time_of_the_event_that_tipped_it() -> None:
    sim = full_run(4)
    both = AllOf(of=(pods(4, ready=True), available(4)))
    sim.add(rec.MilestoneDeclared(at=sim.at(100) - 1, phase="deploy", name="both", condition=both))
    result = analyse(sim.records())
    assert named(result, "both").server_s == named(result, "pcs-available").server_s


def test_a_recorder_that_disagrees_with_its_events_is_reported() -> None:
    records = [r for r in full_run(3).records() if not (isinstance(r, rec.MilestoneMet) and r.name == "pods-ready")]
    warnings = analyse(records).warnings
    assert any("disagree about pods-ready" in warning for warning in warnings)


READY_TEST = FieldTest(path=READY, value="True")


@pytest.mark.parametrize(
    "condition",
    [
        pods(1000),
        pods(1000, ready=True),
        pods(0),
        pods(5, op=">="),
        available(500),
        gone(),
        Timer(seconds=30),
        AllOf(of=(pods(1), AnyOf(of=(gone(), pods(2))))),
        Count(watch=PODS, where=Predicate(expression='fields["a"] > 1'), n=2),
        Count(watch=PODS, where=Predicate(function="m:f"), n=2),
        Count(watch=PODS, name="x", where=Predicate(tests=(READY_TEST,)), n=1),
        Count(watch=PODS, name="x", n=1),
        Count(watch=PODS, name="x", where=Predicate(tests=(READY_TEST,)), n=0),
    ],
    ids=[
        "count", "ready", "none", "at least", "field", "gone", "timer", "nested", "expression", "function",
        "one ready", "one exists", "one not ready",
    ],
)  # fmt: skip
def test_conditions_in_words(condition: Condition, snapshot: SnapshotAssertion) -> None:
    assert milestones.condition_text(condition) == snapshot
