"""CPU and memory by scrapes: the truth within the resolution that is stated; over restarts and takeovers no more."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.analysis.analyse import analyse
from pytest_grovescale.analysis.phase_result import CpuResult, PhaseResult
from pytest_grovescale.recording import records as rec

from .simulated import T0, Simulation

CPU, RSS, BORN = "process_cpu_seconds_total", "process_resident_memory_bytes", "process_start_time_seconds"
OLD = T0 / 1e9 - 600
"""Started ten minutes before the recording, s since the epoch."""


def scrape(sim: Simulation, ms: float, cpu_s: float, *, edge: str = "", rss: float = 5e7, born: float = OLD) -> None:
    sim.scrape(ms, {CPU: cpu_s, RSS: rss, BORN: born}, edge=edge)


def phase(sim: Simulation) -> PhaseResult:
    return analyse(sim.records()).phases[0]


def operator(sim: Simulation) -> CpuResult:
    return next(row for row in phase(sim).cpu if row.process == "operator")


def test_a_phase_is_what_was_used_between_its_edges() -> None:
    sim = Simulation()
    scrape(sim, 80, 4.0, edge="start:p")
    sim.phase("p", 100, 10_100)
    scrape(sim, 5000, 6.0, rss=8e7)
    scrape(sim, 10_080, 7.5, edge="end:p", rss=7e7)
    row = operator(sim)
    assert (row.source, row.seconds, row.window_s) == ("scrape", 3.5, 10.0)
    assert (row.rss_bytes, row.peak_rss_bytes, row.rss_resolution_bytes) == (70_000_000, 80_000_000, 30_000_000)
    assert (row.lower_bound, row.restarts) == (False, 0)
    # No longer than the phase: what is left are ticks of the counter.
    assert row.resolution_s == pytest.approx(0.02)


def test_what_lies_outside_of_the_phase_counts_to_the_resolution() -> None:
    sim = Simulation()
    scrape(sim, 0, 4.0, edge="start:p")
    sim.phase("p", 100, 1100)
    scrape(sim, 1300, 7.9, edge="end:p")
    row = operator(sim)
    # 300 ms longer than the phase, at the three cores that it had.
    assert row.cores == pytest.approx(3.0)
    assert row.resolution_s == pytest.approx(0.02 + 0.3 * 3.0)


def test_a_clock_beats_a_scrape() -> None:
    sim = Simulation()
    scrape(sim, 90, 4.0, edge="start:p")
    sim.cpu("operator", 90, 4.0, edge="start:p")
    sim.phase("p", 100, 1100)
    sim.cpu("operator", 1100, 4.25, edge="end:p")
    scrape(sim, 1100, 4.9, edge="end:p")
    assert operator(sim).source == "clock"
    assert operator(sim).seconds == pytest.approx(0.25)


def test_a_restart_adds_the_new_life_and_bounds_from_below() -> None:
    sim = Simulation()
    scrape(sim, 90, 100.0, edge="start:p")
    sim.phase("p", 100, 10_000)
    scrape(sim, 3000, 101.0)
    scrape(sim, 8000, 0.5, born=T0 / 1e9 + 5)
    scrape(sim, 10_000, 0.75, edge="end:p", born=T0 / 1e9 + 5)
    row = operator(sim)
    assert (row.seconds, row.lower_bound, row.restarts) == (1.75, True, 1)
    # What fell with the old process' memory is no step of one process.
    assert row.rss_resolution_bytes == 0


def test_a_replica_that_takes_over_counts_from_its_own_first_scrape() -> None:
    sim = Simulation()
    scrape(sim, 90, 100.0, edge="start:p")
    sim.phase("p", 100, 10_000)
    scrape(sim, 3000, 101.0)
    scrape(sim, 8000, 40.0, born=OLD + 60)
    scrape(sim, 10_000, 40.25, edge="end:p", born=OLD + 60)
    assert (operator(sim).seconds, operator(sim).lower_bound) == (1.25, True)


def test_a_failed_edge_is_a_lower_bound() -> None:
    sim = Simulation()
    sim.phase("p", 100, 10_000)
    sim.add(rec.SourceFailed(at=sim.at(90), source="scrape:operator", message="refused"))
    scrape(sim, 3000, 5.0)
    scrape(sim, 8000, 6.0)
    assert (operator(sim).seconds, operator(sim).lower_bound) == (1.0, True)


def test_one_scrape_says_nothing_and_why() -> None:
    sim = Simulation()
    scrape(sim, 90, 5.0, edge="start:p")
    sim.phase("p", 100, 10_000)
    sim.add(rec.SourceFailed(at=sim.at(9_990), source="scrape:operator", message="hung"))
    assert phase(sim).cpu == ()
    assert "hung" in phase(sim).missing["cpu:operator"]


def test_metrics_without_the_families_say_so(snapshot: SnapshotAssertion) -> None:
    sim = Simulation()
    sim.scrape(90, {CPU: 5.0}, edge="start:p")
    sim.phase("p", 100, 10_000)
    sim.scrape(10_000, {CPU: 6.0}, edge="end:p")
    why = phase(sim).missing["cpu:operator"]
    assert RSS in why
    assert why == snapshot


def test_replicas_have_rows_of_their_own_but_for_the_one_that_leads() -> None:
    sim = Simulation()
    for name, born in (("operator", OLD), ("replica/a", OLD), ("replica/b", OLD + 1)):
        sim.scrape(90, {CPU: 1.0, RSS: 1e6, BORN: born}, edge="start:p", target=name)
        sim.scrape(10_000, {CPU: 2.0, RSS: 1e6, BORN: born}, edge="end:p", target=name)
    sim.phase("p", 100, 10_000)
    assert sorted(row.process for row in phase(sim).cpu) == ["operator", "replica/b"]


def test_what_runs_elsewhere_does_not_saturate_this_machine() -> None:
    sim = Simulation()
    scrape(sim, 100, 0.0, edge="start:p")
    sim.cpu("recorder", 100, 1.0, edge="start:p")
    sim.phase("p", 100, 1100)
    sim.cpu("recorder", 1100, 1.1, edge="end:p")
    scrape(sim, 1100, 30.0, edge="end:p")
    found = phase(sim).saturation
    assert found is not None
    assert (found.saturated, found.busiest) == (False, ("recorder",))
    assert found.busy_share == pytest.approx(0.05)


LIVES = st.lists(
    st.tuples(
        st.booleans(),  # whether it was started in the phase, rather than ran already
        st.lists(st.integers(0, 5000), min_size=1, max_size=4),  # ms of CPU between its scrapes
    ),
    min_size=1,
    max_size=4,
)


@given(LIVES)
def test_never_negative_never_more_than_the_truth_and_exact_without_restarts(
    lives: list[tuple[bool, list[int]]],
) -> None:
    sim = Simulation()
    at, truth = 50.0, 0
    count = sum(len(steps) + 1 for _, steps in lives)
    number = 0
    for index, (fresh, steps) in enumerate(lives):
        # The first one runs since before; a fresh one has used what its first scrape shows, in the phase.
        fresh = fresh and index > 0
        total = 300 if fresh else 7_000_000 + index
        truth += total if fresh else 0
        born = (T0 + (at - 500) * 1e6) / 1e9 if fresh else OLD - index
        for used in [0, *steps]:
            total += used
            truth += used
            edge = "start:p" if number == 0 else "end:p" if number == count - 1 else ""
            scrape(sim, at, total / 1000, edge=edge, born=born)
            number, at = number + 1, at + 1000
    sim.phase("p", 60, at - 1000)
    row = operator(sim)
    assert -1e-6 <= row.seconds <= truth / 1000 + 1e-6
    assert row.lower_bound is (len(lives) > 1)
    if len(lives) == 1:
        assert row.seconds == pytest.approx(truth / 1000, abs=1e-6)
