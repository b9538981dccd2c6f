"""What broke beneath a phase: when, in words, and which of its figures are uncertain by it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.analysis.analyse import contents_of, result_of
from pytest_grovescale.analysis.phase_result import Disruption
from pytest_grovescale.analysis.result import TestResult
from pytest_grovescale.recording import records as rec

from .simulated import PODS, S, Simulation, pods


def run(sim: Simulation) -> TestResult:
    return result_of(contents_of(sim.records()))


def found(sim: Simulation) -> list[Disruption]:
    """Return the disruptions of the first phase that are of no source: the log of these runs has no marker."""
    return [one for one in run(sim).phases[0].disruptions if one.kind != "audit-gap"]


def phase(*, audited: bool = False, **milestones: Any) -> Simulation:
    """A phase from 1 s to 11 s."""
    sim = Simulation(audited=audited)
    sim.phase("steady", 1000, 11_000, **milestones)
    return sim


def stall(sim: Simulation, process: str, kind: Any, began: float, seconds: float, *, at: float | None = None) -> None:
    ended = began + seconds * 1000
    sim.add(
        rec.Stalled(
            at=sim.at(ended if at is None else at),
            process=process,
            kind=kind,
            began=sim.at(began),
            length_ns=round(seconds * S),
        )
    )


def lives(sim: Simulation, process: str, *lives: tuple[float, float], gone: bool = True) -> None:
    """Each life of a process from a moment to another, ms, with its end journaled."""
    for pid, (born, died) in enumerate(lives, start=10):
        sim.cpu(process, born, 1.0, pid=pid)
        sim.cpu(process, died, 1.1, pid=pid)
        if gone:
            sim.add(rec.ProcessGone(at=sim.at(died), process=process, pid=pid))


@pytest.mark.parametrize(
    ("spans", "kind"),
    [
        ([(500, 5200), (5900, 12_000)], "component-restart"),
        ([(500, 5200)], "component-exit"),
        ([(500, 5200), (12_000, 13_000)], "component-exit"),
        ([(200, 800), (2500, 12_000)], "component-restart"),
        ([(200, 800)], "component-exit"),
    ],
    ids=["restarted", "ended", "started later", "started late", "not running"],
)
def test_the_end_of_a_component_is_reported_with_its_time(
    spans: list[tuple[float, float]], kind: str, snapshot: SnapshotAssertion
) -> None:
    sim = phase()
    lives(sim, "etcd", *spans)
    # What ends after the phase is no part of it.
    [one] = found(sim)
    assert (one.kind, one.subject) == (kind, "etcd")
    assert one.text == snapshot
    assert {"CPU", "API traffic", "duration"} <= set(one.uncertain)


def test_a_takeover_without_a_journaled_end_is_a_restart(snapshot: SnapshotAssertion) -> None:
    sim = phase()
    lives(sim, "kube-apiserver", (500, 5000), (6000, 12_000), gone=False)
    [one] = found(sim)
    assert (one.kind, one.subject) == ("component-restart", "kube-apiserver")
    assert one.text == snapshot


def test_what_ended_and_came_back_between_phases_disrupts_none() -> None:
    sim = phase()
    lives(sim, "etcd", (100, 300), (500, 20_000))
    assert found(sim) == []


def test_the_operator_may_be_restarted() -> None:
    sim = phase()
    lives(sim, "operator", (500, 5200), (5900, 12_000))
    lives(sim, "prometheus", (500, 5200))
    stall(sim, "prometheus", "stopped", 3000, 2)
    assert found(sim) == []


@pytest.mark.parametrize(
    ("process", "kind"),
    [
        ("recorder", "late"),
        ("kube-apiserver", "stopped"),
        ("etcd", "silent"),
        ("operator", "stopped"),
        ("harness", "stopped"),
    ],
)
def test_a_stall_is_reported_with_its_time(process: str, kind: str, snapshot: SnapshotAssertion) -> None:
    sim = phase()
    stall(sim, process, kind, 4000, 2)
    [one] = found(sim)
    assert (one.kind, one.subject) == ("stall", process)
    assert one.text == snapshot
    assert (one.from_s, one.to_s) == (3.0, 5.0)


def test_a_suspended_machine_is_reported_although_the_recorders_clock_stood_still(snapshot: SnapshotAssertion) -> None:
    sim = phase()
    stall(sim, "machine", "suspended", 4000, 3600, at=4100)
    [one] = found(sim)
    assert " 3600.0 s, 3.0 s " in one.text
    assert one.text == snapshot
    assert one.to_s == pytest.approx(3.1)


def test_a_stall_that_goes_on_is_reported_once_as_long_as_it_is_known(snapshot: SnapshotAssertion) -> None:
    sim = phase()
    for seconds in (0.1, 7.0, 9.0):
        stall(sim, "etcd", "stopped", 4000, seconds)
    [one] = found(sim)
    assert " 9.0 s, 3.0 s " in one.text
    assert one.text == snapshot
    assert one.to_s is None, "it lasts beyond the phase"


def test_silence_is_not_reported_beside_what_explains_it() -> None:
    sim = phase()
    stall(sim, "kube-apiserver", "stopped", 4000, 2)
    stall(sim, "kube-apiserver", "silent", 4300, 1.7)
    stall(sim, "etcd", "silent", 4300, 1.7)
    stall(sim, "etcd", "silent", 9000, 1.2)
    assert [(one.subject, one.from_s) for one in found(sim)] == [("kube-apiserver", 3.0), ("etcd", 8.0)]


def test_silence_after_a_restart_is_its_start() -> None:
    sim = phase()
    lives(sim, "kube-apiserver", (500, 4000), (4300, 12_000))
    stall(sim, "kube-apiserver", "silent", 4600, 4)
    assert [one.kind for one in found(sim)] == ["component-restart"]


def test_a_stopped_recorder_names_what_it_saw_late_and_what_stands(snapshot: SnapshotAssertion) -> None:
    sim = Simulation(lag_ms=(0.5, 0.5))
    sim.watch(PODS, 1)
    sim.phase("steady", 1000, 11_000, created=pods(1), more=pods(2))
    for name, ms in (("a", 3895), ("b", 6000)):
        sim.write(PODS, name, ms, verb="create", took=1, fields={})
    stall(sim, "recorder", "late", 1900, 2)
    sim.cpu("operator", 11_000, 2.0, edge="end:steady")
    [one] = found(sim)
    first, *others = one.uncertain
    assert first.startswith("milestone created ")
    assert "(2.9 s; 2.9 s " in first
    assert first == snapshot
    assert others == ["samples from 0.9 s to 2.9 s"], "neither a later milestone, nor the clocks at the phase's end"


def test_a_recorder_that_is_late_at_the_phases_end_makes_its_length_uncertain() -> None:
    sim = phase()
    stall(sim, "recorder", "busy", 9000, 2)
    sim.cpu("operator", 11_100, 2.0, edge="end:steady")
    [one] = found(sim)
    assert one.kind == "busy-recorder"
    assert one.uncertain[:2] == ("duration", "CPU at its end")


def gap(sim: Simulation, ms: float, seconds: float) -> None:
    sim.add(rec.WatchGap(at=sim.at(ms), watch="w0", reason="too old", length_ns=round(seconds * S)))


@pytest.mark.parametrize(
    ("write", "missed"),
    [
        ({"verb": "create", "resource": "pods", "name": "x"}, True),
        ({"verb": "create", "resource": "pods", "name": "x", "code": 409}, False),
        ({"verb": "create", "resource": "secrets", "name": "x"}, False),
        ({"verb": "get", "resource": "pods", "name": "x"}, False),
    ],
    ids=["created", "refused", "unwatched", "read"],
)
def test_a_gap_in_a_watch_counts_when_the_log_shows_a_write_in_it(
    write: dict[str, Any], missed: bool, snapshot: SnapshotAssertion
) -> None:
    sim = Simulation()
    sim.watch(PODS, 1)
    sim.phase("steady", 1000, 11_000, never=pods(99))
    gap(sim, 6000, 2)
    sim.request(5000, **write)
    watch_gaps = found(sim)
    assert len(watch_gaps) == missed
    if missed:
        assert watch_gaps[0].uncertain == ("milestone never",)
        assert watch_gaps[0].text == snapshot


def test_what_is_missed_after_a_milestone_was_met_changes_nothing_of_it() -> None:
    sim = Simulation()
    sim.watch(PODS, 1)
    sim.phase("steady", 1000, 11_000, created=pods(1))
    sim.write(PODS, "a", 2000, verb="create", fields={})
    gap(sim, 6000, 2)
    sim.request(5000, verb="delete", resource="pods", name="a")
    assert found(sim) == []


def test_without_an_audit_log_a_gap_may_have_missed_anything() -> None:
    sim = phase(never=pods(99))
    sim.watch(PODS, 1)
    gap(sim, 6000, 2)
    assert [one.kind for one in found(sim)] == ["watch-gap"]


def test_a_gap_in_a_watch_that_no_milestone_of_the_phase_looks_at_is_none_of_it() -> None:
    sim = phase()
    sim.watch(PODS, 1)
    gap(sim, 6000, 2)
    assert found(sim) == []


def test_a_gap_in_the_audit_log_is_reported_in_its_phase(snapshot: SnapshotAssertion) -> None:
    sim = phase(audited=True)
    sim.add(rec.SourceFailed(at=sim.at(3000), source="audit", message="audit.log was cut off"))
    [one] = run(sim).phases[0].disruptions
    assert one.kind == "audit-gap"
    assert one.text == snapshot
    assert run(sim).disrupted == "", "the other figures are as certain as ever"


@pytest.mark.parametrize("broken", [True, False])
def test_a_milestone_after_the_end_of_the_audit_log_has_the_watchs_clock(broken: bool) -> None:
    sim = Simulation(lag_ms=(0.5, 0.5))
    sim.watch(PODS, 1)
    sim.write(PODS, "a", 500, verb="create", took=1, fields={})
    sim.phase("delete", 1000, 4000, gone=pods(0))
    sim.write(PODS, "a", 2000, verb="delete", took=1, fields=None)
    if broken:
        sim.items = [item for item in sim.items if getattr(item[2], "verb", "") != "delete"]
        sim.add(rec.SourceFailed(at=sim.at(3000), source="audit", message="no space left"))
    [milestone] = run(sim).phases[0].milestones
    assert milestone.clock == ("watch" if broken else "server")
    assert "no space left" in milestone.why_not_server or not broken


def test_a_milestone_that_a_late_recorder_saw_is_as_uncertain_as_it_was_late() -> None:
    sim = Simulation(audited=False, lag_ms=(0.5, 0.5))
    sim.watch(PODS, 1)
    sim.phase("steady", 1000, 11_000, created=pods(1))
    sim.write(PODS, "a", 3895, verb="create", took=1, fields={})
    stall(sim, "recorder", "late", 1900, 2)
    [milestone] = run(sim).phases[0].milestones
    assert milestone.observed_s is not None
    assert milestone.uncertainty_s == pytest.approx(milestone.observed_s - 0.9, abs=0.01)
    assert milestone.uncertainty_s > 1.9


def test_it_is_in_the_result_as_plain_data() -> None:
    sim = phase()
    stall(sim, "etcd", "stopped", 4000, 2)
    plain = msgspec.to_builtins(run(sim))
    assert plain["phases"][0]["disruptions"][0]["subject"] == "etcd"
