"""Idle windows: what was done in them, what is periodic, and what is out of proportion."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from pytest_grovescale.analysis.analyse import analyse
from pytest_grovescale.analysis.controller_result import IdleWindow
from pytest_grovescale.recording import records as rec

from .simulated import Simulation, full_run
from .test_findings import DELETED, DEPLOYED, IDLE, found, ids, made, poll, scrape, seen, settled
from .test_findings_objects import clique, gone, written

RECONCILES = "controller_runtime_reconcile_total"
POD = {"controller": "pod", "result": "success"}


def window(sim: Simulation) -> IdleWindow:
    return analyse(sim.records()).idle[0]


def reconciled(sim: Simulation, values: Mapping[int, float], controller: str = "pod", result: str = "success") -> None:
    """Serve a controller's count at these moments, ms: at the scrape that is there, or one more."""
    series = f'{RECONCILES}{{controller="{controller}",result="{result}"}}'
    for ms, value in values.items():
        sim.scrape(ms, {series: value})


def test_an_idle_window_holds_what_was_asked_by_kind() -> None:
    sim = settled()
    poll(sim, DEPLOYED + 1500, IDLE - 100, 1000)
    poll(
        sim, DEPLOYED + 1500, IDLE - 100, 2000, verb="update", resource="leases", group="coordination.k8s.io", name="l"
    )
    poll(sim, DEPLOYED + 2500, IDLE, 5000, verb="create", resource="events", code=201)
    idle = window(sim)
    assert idle.phase == "steady-state"
    assert (idle.requests["object"], idle.requests["lease"], idle.requests["event"]) == (9, 5, 2)
    assert idle.requests["review"] == idle.requests["watch"] == 0
    assert {row.what: row.period_s for row in idle.rows} == {
        "list nodes": pytest.approx(1.0, abs=0.1),
        "update leases.coordination.k8s.io": pytest.approx(2.0, abs=0.1),
        "create events": None,
    }


def test_work_that_comes_regularly_in_the_whole_run_is_found_although_each_window_is_too_short() -> None:
    sim = settled()
    poll(sim, 400, DELETED, 4500)
    (idle,) = [one for one in found(sim) if one.id == "idle-work"]
    assert "list nodes every 4.5 s" in idle.text


@pytest.mark.parametrize(("until", "wrong"), [(IDLE, True), (DEPLOYED + 5500, False)])
def test_work_that_comes_in_one_idle_time_and_not_in_another_is_not_regular(until: int, wrong: bool) -> None:
    sim = settled()
    sim.request(DEPLOYED + 5200, user="harness", verb="patch", resource="configmaps", namespace="t", name="c")
    for ms in range(DEPLOYED + 1200, IDLE, 600):
        clique(sim, f"c-{ms}", 200)
    for ms in range(DEPLOYED + 1200, until, 600):
        written(sim, f"c-{ms}", ms, "content", paths=["status.x"])
    gone(sim)
    regular = [one for one in found(sim) if one.id == "idle-work" and "at regular intervals" in one.text]
    assert bool(regular) is wrong


def test_work_that_a_clients_rate_limit_spreads_is_not_periodic() -> None:
    sim = settled()
    # 5 a second, as client-go does by default: the last three come when the window has begun.
    poll(sim, DEPLOYED + 800, DEPLOYED + 2000, 210, verb="update", resource="namespaces", name="n")
    (idle, *_) = analyse(sim.records()).idle
    assert [(row.what, row.period_s) for row in idle.rows] == [("update namespaces", None)]
    assert "idle-work" not in {one.id for one in found(sim)}


def test_rare_periodic_work_is_a_note() -> None:
    sim = settled()
    poll(sim, DEPLOYED + 1500, IDLE, 3100, verb="get", resource="configmaps", name="c", namespace="t")
    poll(sim, 300, 300 + 31 * 11_000, 11_000)
    assert [one.severity for one in found(sim) if one.id == "idle-work"] == ["waste"]


def test_requests_that_subside_are_the_end_of_earlier_work() -> None:
    sim = settled()
    poll(sim, DEPLOYED + 1500, DEPLOYED + 4000, 100)
    poll(sim, IDLE - 2000, IDLE - 1900, 200)
    assert "idle-work" not in {one.id for one in found(sim)}


@pytest.mark.parametrize(("more", "wrong"), [(2, False), (10, False), (19, False), (20, True), (200, True)])
def test_reconciles_go_on_where_each_object_had_two_of_them(more: int, wrong: bool) -> None:
    sim = settled(10)
    reconciled(sim, {DEPLOYED + 1500: 40, IDLE - 500: 40 + more})
    idle = [one for one in found(sim) if one.id == "idle-work"]
    assert bool(idle) is wrong
    (pods,) = [one for one in window(sim).reconciles if one.controller == "pod"]
    assert (pods.count, pods.objects) == (more, 10)


@pytest.mark.parametrize(("more", "wrong"), [(8, True), (7, False)])
def test_a_counter_of_its_own_counts_what_the_operator_writes_the_status_of(more: int, wrong: bool) -> None:
    """Of three cliques and their set, two for each; there are ten pods beside them."""
    sim = settled(10)
    for number in range(3):
        clique(sim, f"c-{number}", 200 + number)
        written(sim, f"c-{number}", 300 + number, "content", paths=["status.n"])
    reconciled(sim, {DEPLOYED + 1500: 40, IDLE - 500: 40 + more}, controller="gang")
    gone(sim)
    assert ("idle-work" in ids(sim)) is wrong


@pytest.mark.parametrize(("more", "wrong"), [(8, True), (7, False)])
def test_a_counter_of_its_own_counts_what_the_operator_changes_of_the_tests(more: int, wrong: bool) -> None:
    """An operator without kinds of its own writes no status; it changes four objects of the test, beside ten pods."""
    sim = settled(10)
    for number in range(3):
        clique(sim, f"c-{number}", 200 + number)
        parts: dict[str, Any] = {"resource": "cliques", "group": "a.io", "namespace": "t", "name": f"c-{number}"}
        sim.request(199 + number, user="harness", verb="create", code=201, **parts)
        sim.request(300 + number, verb="patch", **parts)
    reconciled(sim, {DEPLOYED + 1500: 40, IDLE - 500: 40 + more}, controller="gang")
    gone(sim)
    records = [one for one in sim.records() if not (isinstance(one, rec.Request) and one.subresource == "status")]
    assert ("idle-work" in {one.id for one in analyse(records).findings}) is wrong


def test_a_poll_loop_of_one_object_is_found_among_many() -> None:
    sim = settled(30)
    end = DEPLOYED + 10_000
    reconciled(sim, {DEPLOYED + 1500: 40, end - 500: 45}, controller="podcliqueset")
    (idle,) = [one for one in found(sim) if one.id == "idle-work"]
    assert "5 of podcliqueset" in idle.text


@pytest.mark.parametrize(("passes", "anyway"), [(1, False), (4, True)])
def test_reconciles_that_go_on_anyway_are_not_of_the_triggers(passes: int, anyway: bool) -> None:
    sim = settled(10)
    reconciled(sim, {DEPLOYED + 1500: 45.0, DEPLOYED + 8500: 45.0 + 10 * passes})
    scrape(sim, "counter", RECONCILES, {"start:steady-state": 40.0, "end:steady-state": 50.0 + 10 * passes}, **POD)
    assert ("idle-work" in ids(sim)) is anyway
    assert bool(ids(sim) & {"noop-work", "reconcile-amplification"}) is not anyway


@pytest.mark.parametrize(("later_s", "wrong"), [(0.0, False), (0.6, True)])
def test_what_a_process_compiles_after_its_start_is_no_work_while_idle(later_s: float, wrong: bool) -> None:
    """The operator starts 15 s before the second of two idle times."""
    sim = settled()
    split = DEPLOYED + 6200
    sim.add(rec.ProcessSeen(at=sim.at(50), process="operator", pid=10, started_ticks=1, ran_ns=2_510_000_000))
    sim.request(split, user="harness", verb="patch", resource="configmaps", namespace="t", name="c")
    end_s = 7.416  # as the phase's last reading has it
    for ms, cpu_s in ((DEPLOYED + 1100, 4.0), (split - 100, 4.5), (split + 1100, end_s - later_s)):
        sim.cpu("operator", ms, cpu_s)
    assert [round(one.cpu_s or 0, 1) for one in analyse(sim.records()).idle] == [0.5, later_s]
    assert ("idle-work" in ids(sim)) is wrong


# ---- out of proportion


@pytest.mark.parametrize(
    ("a_second", "result", "wrong"), [(4, "requeue_after", True), (2, "requeue_after", False), (4, "success", False)]
)
def test_objects_that_are_looked_at_again_and_again_while_a_phase_lasts(
    a_second: int, result: str, wrong: bool
) -> None:
    sim = settled(10)
    (steady,) = [one for one in analyse(sim.records()).phases if one.name == "steady-state"]
    edges = {"start:steady-state": 0.0, "end:steady-state": float(round(a_second * 10 * steady.seconds))}
    scrape(sim, "counter", RECONCILES, edges, controller="pod", result=result)
    polls = [one for one in found(sim) if "RequeueAfter:" in one.text]
    assert bool(polls) is wrong


@pytest.mark.parametrize(("count", "wrong"), [(10, False), (15, False), (20, True)])
def test_a_trigger_that_wakes_each_object_more_than_once(count: int, wrong: bool) -> None:
    sim = settled(10)
    values = {"start:steady-state": 40.0, "end:steady-state": 40.0 + count}
    scrape(sim, "counter", RECONCILES, values, controller="pod", result="success")
    amplified = [one for one in found(sim) if one.id == "reconcile-amplification"]
    assert bool(amplified) is wrong
    if wrong:
        assert amplified[0].text.endswith("20 of pod, not 10")


@pytest.mark.parametrize(("square", "wrong"), [(True, True), (False, False)])
def test_reconciles_that_grow_faster_than_the_objects(square: bool, wrong: bool) -> None:
    sim = settled(300)
    total = 0.0
    for ms in range(150, 1400, 150):
        count = (ms - 150) / 4
        total = count * count / 8 if square else 2 * count
        reconciled(sim, {ms: total})
    grown = [one for one in found(sim) if "grow faster" in one.text]
    assert bool(grown) is wrong


@pytest.mark.parametrize(("count", "asked", "wrong"), [(100, False, True), (15, False, False), (100, True, False)])
def test_reconciles_after_a_restart_that_no_list_explains(count: int, asked: bool, wrong: bool) -> None:
    sim = settled(10)
    for state, ms in (("begin", DEPLOYED + 1000), ("end", DEPLOYED + 1100)):
        sim.add(rec.Mark(at=sim.at(ms), label="operator-restart", state=state))  # type: ignore[arg-type]
    sim.request(DEPLOYED + 1050, 9, verb="watch", resource="pods", stage="ResponseStarted")
    labels = {"controller": "pod", "result": "requeue_after" if asked else "success"}
    scrape(sim, "counter", RECONCILES, {"start:steady-state": 0.0, "end:steady-state": float(count)}, **labels)
    again = [one.text for one in found(sim) if one.id == "restarts"]
    assert [f"reconciled {count:,} times" in text for text in again] == [True] * wrong


def test_reconciles_of_objects_that_are_gone() -> None:
    sim = settled(5)
    end = DELETED - 20
    # An owned object that goes late wakes its owner, which is gone: no defect.
    late = settled(5)
    made(late, "svc-0", 300, owner="uid-pcs")
    seen(late, "svc-0", end - 150, "deleted")
    reconciled(late, {end - 1500: 10, end - 200: 40})
    assert not any("went on reconciling" in one.text for one in found(late))
    reconciled(sim, {end - 1500: 10, end - 200: 40})
    assert any("went on reconciling" in one.text for one in found(sim))


@pytest.mark.parametrize(("clean_up", "wrong"), [(7500, False), (IDLE + 20, True)])
def test_what_an_interrupted_phase_holds_of_the_clean_up_is_no_idle_work(clean_up: int, wrong: bool) -> None:
    sim = full_run()
    sim.items = [
        (at, order, msgspec.structs.replace(record, outcome="interrupted"))
        if isinstance(record, rec.PhaseEnded) and record.phase == "steady-state"
        else (at, order, record)
        for at, order, record in sim.items
        if at <= sim.at(IDLE) and getattr(record, "phase", "") != "delete"
    ]
    sim.add(rec.Mark(at=sim.at(clean_up), label="clean-up", state="begin"))
    reconciled(sim, {7200: 0, 9000: 0, 15_000: 200})
    sim.add(rec.Closed(at=sim.at(IDLE + 1000), reason="interrupted"))
    assert ("idle-work" in ids(sim)) == wrong


@pytest.mark.parametrize(
    ("before", "after", "every", "wrong"),
    [
        ((0, 310), (0, 310, 550), 1000, True),
        ((0, 310), (0, 310), 1000, False),
        ((0,), (0, 310), 1000, False),  # two that it was meant to have
        ((0, 310, 550), (0, 310), 1000, False),
        ((0, 310), (0, 310, 550), 700, False),  # not the same timers
    ],
)
def test_timers_of_which_each_change_starts_one_more(
    before: tuple[int, ...], after: tuple[int, ...], every: int, wrong: bool
) -> None:
    """``every``: the period after a change by others at 11 s; it is 1 s before."""
    sim = settled()
    sim.request(11_000, user="harness", verb="patch", resource="jobs", group="batch", namespace="t", name="other")
    for number in range(4):
        for start, end, moments, period in ((7000, 10_990, before, 1000), (11_020, 15_900, after, every)):
            for moment in moments:
                poll(
                    sim, start + moment + 7 * number, end, period, verb="get", resource="jobs", group="batch",
                    namespace="t", name=f"j-{number}",
                )  # fmt: skip
    timers = [one for one in found(sim) if one.id == "idle-work" and "timers" in one.text]
    assert [one.severity for one in timers] == (["defect"] if wrong else [])


@pytest.mark.parametrize(("again", "wrong"), [(False, False), (True, True)])
def test_writes_that_are_left_of_earlier_work_are_no_idle_work(again: bool, wrong: bool) -> None:
    """Twelve statuses, written one after the other, of twelve objects, or of six."""
    sim = settled()
    for number in range(12):
        clique(sim, f"c-{number}", 200 + number)
    for number in range(12):
        written(
            sim, f"c-{number % 6 if again else number}", DEPLOYED + 2000 + 400 * number, "content", paths=["status.n"]
        )
    gone(sim)
    assert ("idle-work" in ids(sim)) == wrong
