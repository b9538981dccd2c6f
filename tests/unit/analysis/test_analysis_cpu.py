"""CPU time: differences at the edges, sums over restarts, and lower bounds that say that they are."""

from __future__ import annotations

import pytest

from pytest_grovescale.analysis import figures
from pytest_grovescale.analysis.analyse import analyse
from pytest_grovescale.analysis.phase_result import CpuResult, PhaseResult
from pytest_grovescale.errors import NotMeasuredError
from pytest_grovescale.recording import records as rec

from .simulated import Simulation


def phase(sim: Simulation) -> PhaseResult:
    return analyse(sim.records()).phases[0]


def operator(sim: Simulation) -> CpuResult:
    return next(row for row in phase(sim).cpu if row.process == "operator")


def test_edges_may_be_read_before_the_phase_starts_and_count_from_their_own_time() -> None:
    sim = Simulation()
    sim.cpu("operator", 90, 5.0, edge="start:p")
    sim.phase("p", 100, 1000)
    sim.cpu("operator", 500, 5.2)
    sim.cpu("operator", 1010, 5.46, edge="end:p", rss=7)
    row = operator(sim)
    assert row.seconds == pytest.approx(0.46)
    assert row.window_s == pytest.approx(0.92)
    assert row.cores == pytest.approx(0.5)
    assert (row.lower_bound, row.restarts, row.rss_bytes, row.peak_rss_bytes) == (False, 0, 7, 105_000_000)


def test_a_restart_adds_the_new_process_in_full_and_bounds_from_below() -> None:
    sim = Simulation()
    sim.phase("p", 100, 1000)
    sim.cpu("operator", 100, 5.0, edge="start:p")
    sim.cpu("operator", 400, 5.3)
    sim.add(rec.ProcessGone(at=sim.at(500), process="operator", pid=10))
    sim.cpu("operator", 600, 0.1, pid=11)
    sim.cpu("operator", 1000, 0.4, pid=11, edge="end:p")
    row = operator(sim)
    assert row.seconds == pytest.approx(0.3 + 0.4)
    assert (row.lower_bound, row.restarts) == (True, 1)
    with pytest.raises(NotMeasuredError, match=r"at least 0\.7 s"):
        _ = figures.cpu(phase(sim), "operator").seconds
    assert figures.cpu(phase(sim), "operator").at_least == pytest.approx(0.7)


def test_a_process_that_ends_is_a_lower_bound() -> None:
    sim = Simulation()
    sim.phase("p", 100, 1000)
    sim.cpu("operator", 100, 5.0, edge="start:p")
    sim.cpu("operator", 400, 5.3)
    sim.add(rec.ProcessGone(at=sim.at(500), process="operator", pid=10))
    row = operator(sim)
    assert row.seconds == pytest.approx(0.3)
    assert row.lower_bound is True


def test_a_process_first_seen_in_the_phase_counts_from_its_first_read() -> None:
    sim = Simulation()
    sim.phase("p", 100, 1000)
    sim.cpu("operator", 400, 50.0)
    sim.cpu("operator", 1000, 50.5, edge="end:p")
    row = operator(sim)
    assert row.seconds == pytest.approx(0.5)
    assert row.lower_bound is True


def test_one_read_says_nothing() -> None:
    sim = Simulation()
    sim.phase("p", 100, 1000)
    sim.cpu("operator", 100, 5.0, edge="start:p")
    sim.add(rec.SourceFailed(at=sim.at(200), source="cpu:operator", message="no such process"))
    with pytest.raises(NotMeasuredError, match="no such process"):
        figures.cpu(phase(sim), "operator")


def test_a_process_that_had_ended_before_is_missing_with_the_reason() -> None:
    sim = Simulation()
    sim.cpu("operator", 50, 5.0)
    sim.add(rec.ProcessGone(at=sim.at(60), process="operator", pid=10))
    sim.phase("p", 100, 1000)
    with pytest.raises(NotMeasuredError, match="operator had ended"):
        figures.cpu(phase(sim), "operator")


def test_no_process_list_at_all() -> None:
    sim = Simulation()
    sim.phase("p", 100, 1000)
    sim.add(rec.SourceFailed(at=sim.at(20), source="cpu", message="the list cannot be read"))
    with pytest.raises(NotMeasuredError, match="the list cannot be read"):
        figures.cpu(phase(sim), "operator")


def test_an_unfinished_phase_is_a_lower_bound() -> None:
    sim = Simulation()
    sim.phase("p", 100, None)
    sim.cpu("operator", 100, 5.0, edge="start:p")
    sim.cpu("operator", 700, 5.3)
    assert operator(sim).lower_bound is True


def test_phases_of_one_name_keep_their_own_edges() -> None:
    sim = Simulation()
    for start, cpu in ((100, 1.0), (2000, 7.0)):
        sim.cpu("operator", start - 1, cpu, edge="start:p")
        sim.phase("p", start, start + 1000)
        sim.cpu("operator", start + 1001, cpu + start / 1000, edge="end:p")
    first, second = analyse(sim.records()).phases
    assert first.cpu[0].seconds == pytest.approx(0.1)
    assert second.cpu[0].seconds == pytest.approx(2.0)


def test_saturation_counts_all_processes_and_the_seconds_in_which_it_was_so() -> None:
    sim = Simulation()
    sim.phase("p", 0, 10_000)
    for process, busy_until in (("operator", 5), ("kube-apiserver", 5)):
        for second in range(11):
            edge = {0: "start:p", 10: "end:p"}.get(second, "")
            sim.cpu(process, second * 1000, min(second, busy_until), edge=edge)
    sim.scrape(0, {'apiserver_terminated_watchers_total{resource="pods"}': 4}, edge="start:p", target="kube-apiserver")
    sim.scrape(9999, {'apiserver_terminated_watchers_total{resource="pods"}': 9}, edge="end:p", target="kube-apiserver")
    found = phase(sim).saturation
    assert found is not None
    assert found.busy_share == pytest.approx(0.5)
    assert (found.saturated, found.saturated_s, found.terminated_watchers) == (False, 5.0, 5)


def test_saturation_of_nothing_is_not_measured() -> None:
    sim = Simulation()
    sim.phase("p", 0, 10_000)
    found = phase(sim)
    assert found.saturation is None
    assert "saturation" in found.missing


def test_recorder_cost_is_a_share_of_all() -> None:
    sim = Simulation()
    for process, used in (("operator", 9.5), ("recorder", 0.5)):
        sim.cpu(process, 1, 1.0)
        sim.cpu(process, 1000, 1.0 + used)
    cost = analyse(sim.records()).recorder
    assert cost is not None
    assert cost.cpu_s == pytest.approx(0.5)
    assert cost.share == pytest.approx(0.05)


def test_a_replica_that_takes_over_counts_from_its_own_first_read() -> None:
    sim = Simulation()
    sim.phase("p", 100, 1000)
    sim.cpu("operator", 100, 5.0, edge="start:p")
    sim.cpu("operator", 400, 5.3)
    sim.add(rec.ProcessSeen(at=sim.at(600), process="operator", pid=11, started_ticks=1, ran_ns=60_000_000_000))
    sim.cpu("operator", 600, 40.0, pid=11)
    sim.cpu("operator", 1000, 40.2, pid=11, edge="end:p")
    row = operator(sim)
    assert row.seconds == pytest.approx(0.3 + 0.2)
    assert (row.lower_bound, row.restarts) == (True, 1)
