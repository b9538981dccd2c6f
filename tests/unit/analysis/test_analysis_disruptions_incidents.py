"""Incidents: those that were journaled, and those that pids and metrics tell of."""

from __future__ import annotations

from pytest_grovescale.analysis.analyse import contents_of, result_of
from pytest_grovescale.analysis.timeline import timeline_of
from pytest_grovescale.recording import records as rec

from .simulated import T0, Simulation

BORN = "process_start_time_seconds"


def incidents(sim: Simulation) -> list[tuple[str, str, float]]:
    contents = contents_of(sim.records())
    return [(one.kind, one.subject, one.after_s) for one in result_of(contents).phases[0].incidents]


def test_journaled_ones_stand_in_their_phase_and_all_on_the_timeline() -> None:
    sim = Simulation()
    sim.phase("p", 1000, 3000)
    for ms, kind in ((500, "pod-started"), (2000, "container-restart"), (4000, "leader-change")):
        sim.add(rec.Incident(at=sim.at(ms), kind=kind, subject="operator/a", detail="why"))  # type: ignore[arg-type]
    contents = contents_of(sim.records())
    result = result_of(contents)
    (found,) = result.phases[0].incidents
    assert (found.kind, found.subject, found.detail, found.after_s) == ("container-restart", "operator/a", "why", 1.0)
    timeline = timeline_of(contents, result)
    assert [(one.at_s, one.phase, one.kind) for one in timeline.incidents] == [
        (0.5, "", "pod-started"),
        (2.0, "p", "container-restart"),
        (4.0, "", "leader-change"),
    ]


def test_a_process_that_is_another_one_was_restarted() -> None:
    sim = Simulation()
    sim.phase("p", 1000, 3000)
    for process in ("operator", "kube-apiserver", "containerd"):
        sim.cpu(process, 1000, 5.0, edge="start:p")
        sim.cpu(process, 2000, 0.1, pid=11)
        sim.cpu(process, 3000, 0.2, pid=11, edge="end:p")
    assert incidents(sim) == [
        ("api-server-restart", "kube-apiserver", 1.0),
        ("node-restart", "containerd", 1.0),
        ("process-restart", "operator", 1.0),
    ]


def test_metrics_tell_of_a_restart_where_there_is_no_clock() -> None:
    sim = Simulation()
    sim.scrape(990, {BORN: 7.0}, edge="start:p")
    sim.phase("p", 1000, 3000)
    sim.scrape(3010, {BORN: T0 / 1e9}, edge="end:p")
    assert incidents(sim) == [("process-restart", "operator", 2.01)]


def test_what_was_journaled_is_not_reported_again_by_metrics() -> None:
    sim = Simulation()
    sim.scrape(990, {BORN: 7.0}, edge="start:p")
    sim.phase("p", 1000, 3000)
    sim.add(rec.Incident(at=sim.at(1500), kind="container-restart", subject="operator/a/manager"))
    sim.scrape(2500, {BORN: T0 / 1e9})
    assert incidents(sim) == [("container-restart", "operator/a/manager", 0.5)]


def test_what_was_journaled_of_pods_is_not_reported_again_by_pids() -> None:
    sim = Simulation()
    sim.phase("p", 1000, 30_000)
    sim.cpu("operator", 1000, 5.0, edge="start:p")
    sim.cpu("operator", 2000, 0.1, pid=11)
    # A kubelet says so a little later.
    sim.add(rec.Incident(at=sim.at(3500), kind="container-restart", subject="operator/a/manager"))
    sim.cpu("operator", 19_000, 0.2, pid=11)
    sim.cpu("operator", 20_000, 0.1, pid=12)
    assert incidents(sim) == [("container-restart", "operator/a/manager", 2.5), ("process-restart", "operator", 19.0)]
