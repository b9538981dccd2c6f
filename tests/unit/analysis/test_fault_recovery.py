"""What is found of an operator whose requests met faults, and that nothing is where it recovers."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.analysis.analyse import analyse
from pytest_grovescale.analysis.api_faults import MARK, NONE
from pytest_grovescale.analysis.findings import fault_recovery, refusals
from pytest_grovescale.analysis.phase_result import FaultsResult
from pytest_grovescale.analysis.result import Finding
from pytest_grovescale.recording import records as rec
from pytest_grovescale.recording.conditions import WatchSpec
from pytest_grovescale.report import document, traffic_table

from .simulated import PODS, Simulation, pods

CLIQUES = WatchSpec(resource="podcliques.grove.io", path="/apis/grove.io/v1alpha1/namespaces/t/podcliques", fields=())
POD: dict[str, Any] = {"resource": "pods", "namespace": "t", "name": "a"}
END = 30_000


class Faulted(Simulation):
    """A phase of 30 s in which faults are in force from the start on."""

    def __init__(self, *, outcome: str = "passed", met: bool = True) -> None:
        super().__init__()
        self.watch(PODS, 2)
        self.mark(50, "conflict=0.1, error=0.1, seed=1")
        self.phase("deploy", 100, END, outcome, pods_made=pods(2))
        if met:
            self.add(rec.MilestoneMet(at=self.at(20_000), phase="deploy", name="pods-made"))
        self.add(rec.Closed(at=self.at(END + 1000), reason="stopped"))

    def mark(self, ms: float, text: str) -> None:
        self.add(rec.Mark(at=self.at(ms), label=MARK, detail=text))

    def fault(self, ms: float, kind: rec.FaultKind = "error", *, took: float = 2.0, **parts: Any) -> None:
        code = {"error": 503, "throttled": 429, "conflict": 409, "watch-expired": 410}.get(kind, 0)
        answered = self.at(ms + took)
        given = {"verb": "patch", "code": code, **POD, **parts}
        self.add(
            rec.FaultInjected(at=answered + 1, kind=kind, received_wall=self.at(ms), answered_wall=answered, **given)
        )

    def again(self, ms: float, verb: str = "patch", **parts: Any) -> None:
        self.request(ms, verb=verb, **{**POD, **parts})

    def found(self) -> list[Finding]:
        findings = analyse(self.records()).findings
        return [one for one in findings if one.id in (fault_recovery.ID, refusals.ID) and one.severity != "note"]

    def faults(self) -> FaultsResult:
        (phase,) = analyse(self.records()).phases
        assert phase.faults is not None
        return phase.faults


def test_what_followed_is_counted_from_both_logs() -> None:
    sim = Faulted()
    sim.fault(1000)
    sim.fault(1010)
    sim.again(1050)
    sim.fault(2000, "throttled", name="b", retry_after_s=1)
    sim.again(2500, name="b")
    sim.fault(3000, "throttled", name="c", retry_after_s=1)
    sim.again(4010, name="c")
    sim.fault(5000, "lost-answer", verb="create", name="d", applied=201)
    sim.again(5001, verb="create", name="d", code=201)
    sim.fault(6000, "watch-cut", verb="watch", name="")
    sim.again(6100, verb="watch", name="", stage="ResponseStarted")
    sim.fault(7000, verb="create", name="d-*")
    faults = sim.faults()
    assert [(row.kind, row.verb, row.count) for row in faults.rows] == [
        ("error", "create", 1),
        ("error", "patch", 2),
        ("lost-answer", "create", 1),
        ("throttled", "patch", 2),
        ("watch-cut", "watch", 1),
    ]
    assert (faults.total, faults.repeated, faults.not_repeated) == (7, 4, 0)
    assert (faults.waits_asked, faults.waits_ignored) == (2, 1)
    assert (faults.watches_cut, faults.watches_reopened) == (1, 1)
    assert faults.delay_max_s == pytest.approx(1.008)
    assert faults.recovery_s == pytest.approx(13.0, abs=0.01)
    assert sim.found() == []


def test_without_faults_nothing_is_said_of_any() -> None:
    sim = Faulted()
    sim.items = [item for item in sim.items if not (isinstance(item[2], rec.Mark) and item[2].label == MARK)]
    (phase,) = analyse(sim.records()).phases
    assert phase.faults is None
    assert list(traffic_table.faults([phase])) == []
    assert traffic_table.line([phase]) == ""


def test_a_report_shows_them_and_what_was_in_force(snapshot: SnapshotAssertion) -> None:
    sim = Faulted()
    sim.fault(1000)
    sim.again(1050)
    sim.mark(15_000, NONE)
    (phase,) = analyse(sim.records()).phases
    assert document.text(traffic_table.faults([phase]), width=120) == snapshot
    assert traffic_table.line([phase]) == snapshot


def test_a_failed_write_that_is_not_repeated_is_lost_where_a_milestone_is_missed() -> None:
    sim = Faulted(outcome="timeout", met=False)
    sim.fault(1000)
    (lost,) = sim.found()
    assert (lost.severity, lost.evidence) == ("defect", ("patch pods t/a: 503",))


@pytest.mark.parametrize("how", ["repeated", "carried out", "late", "reached", "read again", "event", "backoff"])
def test_no_work_is_lost(how: str) -> None:
    sim = Faulted(outcome="passed" if how == "reached" else "timeout", met=how == "reached")
    if how == "read again":
        sim.fault(1000, verb="get")
        sim.again(END - 100, name="other")
    else:
        applied = 200 if how == "carried out" else 0
        sim.fault(END - 5000 if how == "late" else 1000, "lost-answer" if applied else "error", applied=applied)
    if how == "event":
        sim.items = [item for item in sim.items if not isinstance(item[2], rec.FaultInjected)]
        sim.fault(1000, verb="create", resource="events")
    if how == "backoff":
        # Six seconds before, so it may well be twelve, and more, now.
        sim.items = [item for item in sim.items if not isinstance(item[2], rec.FaultInjected)]
        for at in (4000, 7000, 13_000):
            sim.fault(at, verb="create", name="a-*")
    if how == "repeated":
        # An apply of the same object is another verb, and as good.
        sim.again(9000, verb="update", subresource="status")
    assert sim.found() == []


def test_a_process_that_ends_right_after_a_fault_is_named() -> None:
    sim = Faulted(outcome="failed", met=False)
    sim.fault(1000)
    sim.add(rec.ProcessGone(at=sim.at(1100), process="operator", pid=7))
    (crash,) = sim.found()
    assert crash.severity == "defect"
    assert "0.098 s after patch pods t/a met 503" in crash.text


@pytest.mark.parametrize("how", ["later", "restart", "lease"])
def test_other_ends_of_a_process_are_not(how: str) -> None:
    sim = Faulted(outcome="failed", met=True)
    if how == "restart":
        sim.add(rec.Mark(at=sim.at(1050), label="operator-restart", state="begin"))
    for number in range(3):
        parts: dict[str, Any] = (
            {"resource": "leases", "group": "coordination.k8s.io", "name": "l"} if how == "lease" else {}
        )
        sim.fault(1000 + number, **parts)
        sim.again(1060, **parts)
    sim.add(rec.ProcessGone(at=sim.at(9000 if how == "later" else 1100), process="operator", pid=7))
    assert sim.found() == []


def tries(sim: Faulted, delays_ms: list[float], *, kind: rec.FaultKind = "error", name: str = "a") -> None:
    """The same request again and again, each time that much after the last answer; at last it succeeds."""
    at = 1000.0
    for delay in delays_ms:
        sim.fault(at, kind, name=name, retry_after_s=1 if kind == "throttled" else 0)
        at += 2 + delay
    sim.again(at, name=name)


@pytest.mark.parametrize(
    ("delays", "flat"),
    [
        ([5 * 2**n for n in range(9)], False),
        ([100 + 5 * 2**n for n in range(9)], False),  # each reconcile takes a while
        ([4] * 9, True),
        ([50, 60, 40, 55, 60, 45, 50, 55], True),
        ([4] * 6, False),  # too few to tell
        ([2000] * 9, False),  # constant, and gentle
    ],
)
def test_a_delay_has_to_grow(delays: list[float], flat: bool) -> None:
    sim = Faulted()
    tries(sim, delays)
    assert [one.severity for one in sim.found()] == ["defect"] * flat


def test_a_throttled_client_that_waits_as_asked_need_not_wait_longer_each_time() -> None:
    sim = Faulted()
    tries(sim, [1000] * 9, kind="throttled")
    assert sim.found() == []


@pytest.mark.parametrize(("delay", "number", "severe"), [(1, 6, True), (6, 6, False), (1, 3, False)])
def test_repeating_at_once_shows_in_single_faults(delay: float, number: int, severe: bool) -> None:
    sim = Faulted()
    for index in range(number):
        tries(sim, [delay], name=f"pod-{index}")
    assert [one.severity for one in sim.found()] == ["waste"] * severe


@pytest.mark.parametrize(("waits", "ignored"), [([3, 4], True), ([3, 1010, 1020], False), ([1005, 1100], False)])
def test_a_retry_after_is_to_be_waited_for(waits: list[float], ignored: bool) -> None:
    sim = Faulted()
    for index, wait in enumerate(waits):
        tries(sim, [wait], kind="throttled", name=f"pod-{index}")
    assert [one.severity for one in sim.found()] == ["waste"] * ignored


@pytest.mark.parametrize("opened", [True, False])
def test_a_watch_that_is_cut_has_to_be_opened_again(opened: bool) -> None:
    sim = Faulted()
    sim.fault(1000, "watch-expired", verb="watch", name="")
    if opened:
        sim.again(1200, verb="watch", name="", stage="ResponseStarted")
    assert [one.severity for one in sim.found()] == ["defect"] * (not opened)


def children(sim: Faulted, numbers: list[int], *, until: dict[str, float] | None = None) -> None:
    """Owners with so many pods each; the first one's last pod is made by a write whose answer was lost."""
    sim.watch(CLIQUES, 3)
    for owner, number in enumerate(numbers):
        sim.add(
            rec.ObjectSeen(
                at=sim.at(200), watch=sim.watch_ids[CLIQUES], change="added", name=f"c{owner}", namespace="t",
                uid=f"c{owner}", owner="",
            )
        )  # fmt: skip
        for pod in range(number):
            name = f"c{owner}-{pod}"
            seen = rec.ObjectSeen(
                at=sim.at(500 + pod), watch=sim.watch_ids[PODS], change="added", name=name, namespace="t", uid=name,
                owner=f"c{owner}",
            )  # fmt: skip
            sim.add(seen)
            if until and name in until:
                sim.add(msgspec.structs.replace(seen, at=sim.at(until[name]), change="deleted"))
    sim.fault(450, "lost-answer", verb="create", name="c0-0", applied=201)


@pytest.mark.parametrize(
    ("numbers", "twice"),
    [([3, 2, 2, 2], True), ([2, 2, 2, 2], False), ([3, 2, 1, 2], False), ([3, 2, 2], False)],
)
def test_what_was_made_without_an_answer_is_not_to_be_made_again(numbers: list[int], twice: bool) -> None:
    sim = Faulted()
    children(sim, numbers)
    found = sim.found()
    assert [one.severity for one in found] == ["defect"] * twice
    if twice:
        assert found[0].evidence == ("podcliques.grove.io t/c0: 3 pods",)


def test_one_too_many_that_goes_again_is_a_sound_answer() -> None:
    sim = Faulted()
    children(sim, [3, 2, 2, 2], until={"c0-2": 900})
    assert sim.found() == []


@pytest.mark.parametrize("more", [0, 1, 2])
def test_where_there_is_one_owner_the_number_that_is_waited_for_shows_it(more: int) -> None:
    sim = Faulted()
    children(sim, [2 + more])
    # One answer was lost: two more are what the test has not waited for.
    assert ["3 pods" in one.text for one in sim.found()] == [True] * (more == 1)


def test_refusals_that_follow_from_a_fault_are_not_the_operators_own() -> None:
    sim = Faulted()
    for number in range(12):
        name = f"pod-{number}"
        sim.fault(1000 + number, "lost-answer", name=name, applied=200)
        sim.again(1100 + number, name=name, code=409)
    assert sim.found() == []
    for number in range(12):
        sim.again(2000 + number, name=f"other-{number}", code=409)
    assert [one.id for one in sim.found()] == [refusals.ID]
