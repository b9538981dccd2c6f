"""Why a phase stalls: the sentence has the cause, and a sound operator that waits has no defect."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from pytest_grovescale.analysis.analyse import analyse
from pytest_grovescale.analysis.result import Finding
from pytest_grovescale.recording import records as rec
from pytest_grovescale.recording.conditions import WatchSpec

from .simulated import PODS, READY, Simulation, pods
from .test_findings import DEPLOYED, found, ids, settled
from .test_findings_objects import CLIQUES, clique, gone, shown

WATCH: dict[str, Any] = {"verb": "watch", "resource": "cliques", "group": "a.io", "stage": "ResponseStarted"}
APPLY: dict[str, Any] = {
    "user": "harness",
    "verb": "create",
    "resource": "cliques",
    "group": "a.io",
    "namespace": "t",
    "code": 201,
}
SERVICE: dict[str, Any] = {"verb": "create", "resource": "services", "namespace": "t", "name": "s"}
SETTINGS: dict[str, Any] = {"resource": "configmaps", "namespace": "t", "name": "settings"}


def stall(*steps: Callable[[Simulation], None], cliques: int = 0, watches: bool = True) -> Finding:
    """What is found in a phase in which nothing happens after 1 s, until it ends at 12 s."""
    sim = Simulation()
    sim.watch(PODS, 1)
    sim.watch(CLIQUES, 5)
    if watches:
        sim.request(10, **WATCH)
    sim.phase("deploy", 100, 12_000, "timeout", made=pods(5))
    sim.request(150, user="harness", verb="create", resource="cliques", group="b.io", namespace="t", name="x", code=201)
    for number in range(cliques):
        sim.request(160, **APPLY, name=f"c-{number}")
        shown(sim, f"c-{number}", 170, "added", owner="")
    for step in steps:
        step(sim)
    (one,) = [one for one in analyse(sim.records()).findings if one.id == "stalled"]
    return one


def refused(times: int = 1, **parts: Any) -> Callable[[Simulation], None]:
    def add(sim: Simulation) -> None:
        for number in range(times):
            sim.request(500 + number * 20, **{**SERVICE, "code": 422, **parts})

    return add


@pytest.mark.parametrize(
    ("parts", "times", "severity", "words"),
    [
        ({"message": "spec.ports: Required"}, 1, "defect", "create services t/s was answered 422 (invalid) 1 time"),
        (
            {"code": 500, "message": "failed to create typed patch object: .status.a: field not declared in schema"},
            2,
            "defect",
            "another version of the CRD) 2 times",
        ),
        ({"code": 500}, 1, "defect", "answered 500 (error of the server) 1 time, and not sent again for 11 s"),
        ({"code": 403, "message": 'User "op" cannot create'}, 2, "defect", "403 (a right is missing) 2 times"),
        ({"code": 403, "message": "exceeded quota: q"}, 2, "defect", "403 (a quota is used up) 2 times"),
        ({"code": 403, "message": "because it is being terminated"}, 2, "note", "its namespace is being deleted"),
        # It may be as it should be; who tries again does not take it for its own.
        ({"code": 409}, 1, "note", "409 (it exists already) 1 time"),
        ({"code": 409}, 6, "defect", "409 (it exists already) 6 times"),
        ({"code": 409, "verb": "update"}, 6, "note", "409 (a conflict) 6 times"),
    ],
)  # fmt: skip
def test_a_request_that_was_refused(parts: dict[str, Any], times: int, severity: str, words: str) -> None:
    one = stall(refused(times, **parts))
    assert (one.severity, words in one.text) == (severity, True), one.text
    assert any("said" in line for line in one.evidence) == ("message" in parts)


@pytest.mark.parametrize(("verb", "words"), [("create", "made by kwok"), ("update", "(a conflict) 6 times")])
def test_who_made_it_is_said_of_what_cannot_be_made_again(verb: str, words: str) -> None:
    def by_another(sim: Simulation) -> None:
        sim.request(300, **{**SERVICE, "user": "kwok"}, code=201)

    one = stall(by_another, refused(6, code=409, verb=verb))
    assert words in one.text


@pytest.mark.parametrize("how", ["again", "own", "gone"])
def test_a_refusal_that_is_no_cause(how: str) -> None:
    def mended(sim: Simulation) -> None:
        if how == "again":
            sim.request(900, **SERVICE, code=201)

    def before(sim: Simulation) -> None:
        if how == "own":
            sim.request(300, **SERVICE, code=201)

    code = {"again": 500, "own": 409, "gone": 404}[how]
    verb = "delete" if how == "gone" else "create"
    one = stall(before, refused(code=code, verb=verb), mended)
    assert "answered" not in one.text
    assert one.severity == "note"


@pytest.mark.parametrize("late", [False, True])
def test_a_refusal_of_an_object_that_the_operator_went_on_with(late: bool) -> None:
    clique: dict[str, Any] = {"resource": "cliques", "group": "a.io", "namespace": "t", "name": "c-0", "verb": "patch"}

    def went_on(sim: Simulation) -> None:
        sim.request(900, **clique, subresource="status")
        if late:
            of = rec.ObjectRef(namespace="t", name="c-0", resource="cliques.a.io")
            sim.add(rec.LateObject(at=sim.at(11_990), phase="deploy", milestone="made", object=of, reason="not Ready"))

    one = stall(refused(**{**clique, "code": 422}), went_on)
    assert ("was answered 422" in one.text) == late, one.text


def asks(sim: Simulation) -> None:
    sim.request(500, verb="get", **SETTINGS, code=404)


def comes(sim: Simulation) -> None:
    sim.request(2000, user="kwok", verb="create", **SETTINGS, code=201)


def test_what_came_after_it_was_asked_for() -> None:
    one = stall(asks, comes)
    assert one.severity == "defect"
    assert "configmaps t/settings, which came 1.5 s later" in one.text


def test_what_is_not_there_may_be_the_tests_matter() -> None:
    one = stall(asks)
    assert one.severity == "note"
    assert "waits for configmaps t/settings" in one.text


@pytest.mark.parametrize(("reason", "own", "severity"), [
    ("scheduling gates a.io/gang; phase Pending", True, "defect"),
    ("scheduling gates a.io/gang; phase Pending", False, "note"),
    ("phase Pending; PodScheduled=False (Unschedulable)", True, "note"),
])  # fmt: skip
def test_pods_that_a_scheduling_gate_holds(reason: str, own: bool, severity: str) -> None:
    def gated(sim: Simulation) -> None:
        for number in range(4):
            of: dict[str, Any] = {"namespace": "t", "name": f"g-{number}"}
            seen: dict[str, Any] = {"watch": sim.watch_ids[PODS], "uid": str(number), **of}
            sim.request(200, verb="create", resource="pods", code=201, **of)
            sim.add(rec.ObjectSeen(at=sim.at(210), change="added", fields={READY: "False"}, **seen))
            if number and own:
                sim.request(300, verb="patch", resource="pods", **of)
            if number:
                sim.add(rec.ObjectSeen(at=sim.at(320), change="modified", fields={READY: "True"}, **seen))
        late = rec.ObjectRef(resource="pods", namespace="t", name="g-0")
        sim.add(rec.LateObject(at=sim.at(11_900), phase="deploy", milestone="m", object=late, reason=reason))

    one = stall(gated)
    assert one.severity == severity
    assert ("scheduling gate a.io/gang" in one.text) == ("gates" in reason)
    assert ("took away from the others" in one.text) == (severity == "defect")


def test_what_a_watch_shows_need_not_be_asked_for_again() -> None:
    def watches(sim: Simulation) -> None:
        sim.request(20, verb="watch", resource="configmaps", stage="ResponseStarted")

    one = stall(watches, asks, comes)
    assert one.severity == "note"
    assert "look again" not in one.text


@pytest.mark.parametrize(("left", "severity"), [(1, "defect"), (3, "note"), (0, "note")])
def test_objects_that_nothing_was_done_for(left: int, severity: str) -> None:
    def served(sim: Simulation) -> None:
        for number in range(left, 6):
            sim.request(
                400, verb="patch", resource="cliques", group="a.io", subresource="status", namespace="t",
                name=f"c-{number}",
            )  # fmt: skip

    one = stall(served, cliques=6)
    assert one.severity == severity
    assert (f"for {left} of 6 cliques.a.io" in one.text) == bool(left)


def test_a_kind_of_the_workload_that_is_not_watched() -> None:
    def others(sim: Simulation) -> None:
        sim.request(20, verb="watch", resource="widgets", stage="ResponseStarted")

    one = stall(others, cliques=6, watches=False)
    assert one.severity == "defect"
    assert "does not watch cliques.a.io" in one.text


def test_pods_that_do_not_become_ready_are_named() -> None:
    def starts(sim: Simulation) -> None:
        for number in range(3):
            sim.write(PODS, f"p-{number}", 300, verb="create", fields={"status.phase": "Pending"})
        sim.write(PODS, "p-0", 400, verb="patch", user="kwok", subresource="status", fields={READY: "True"})

    one = stall(starts)
    assert one.severity == "note"
    assert "2 of 3 pods" in one.text


@pytest.mark.parametrize(
    ("since", "kind", "named"), [(0, "cliques.a.io", True), (3, "cliques.a.io", False), (0, "pods", False)]
)
def test_tries_that_failed_and_ended(since: int, kind: str, named: bool) -> None:
    def gives_up(sim: Simulation) -> None:
        failed = 'controller_runtime_reconcile_total{controller="clique",result="error"}'
        for ms, count, edge in (
            (100, 0, "start:deploy"),
            (3000, 9, ""),
            (7000, 9 + since, ""),
            (11_990, 9 + since, ""),
        ):
            sim.scrape(ms, {failed: count}, edge=edge)
        of = rec.ObjectRef(namespace="t", name="c-0", resource=kind)
        sim.add(rec.LateObject(at=sim.at(11_990), phase="deploy", milestone="made", object=of))

    one = stall(gives_up)
    assert ("9 reconciles of clique" in one.text, one.severity) == (named, "defect" if named else "note"), one.text


@pytest.mark.parametrize(
    ("finalizer", "held"), [("a.io/keep", True), ("kubernetes.io/pvc-protection", False), ("orphan", False)]
)
def test_a_finalizer_that_the_operator_made_its_objects_with(finalizer: str, held: bool) -> None:
    def deleted(sim: Simulation) -> None:
        clique(sim, "own", 300, finalizers=(finalizer,))
        shown(sim, "own", 900, fields={"metadata.deletionTimestamp": "2026-01-01T00:00:00Z"})

    one = stall(deleted)
    assert (one.severity == "defect") == held
    assert (f"waits for its finalizer {finalizer}" in one.text) == held


def test_why_reconciles_fail_is_in_the_evidence() -> None:
    def fails(sim: Simulation) -> None:
        for ms, count in ((3000, 0), (11_000, 20)):
            sim.scrape(ms, {'controller_runtime_reconcile_total{controller="a",result="error"}': count})
        sim.add(rec.Mark(at=sim.at(11_500), label="log-errors", count=20, detail="ERROR: no such zone"))

    one = stall(refused(), fails)
    assert "create services t/s was answered 422 (invalid)" in one.text
    assert one.evidence[-1].endswith("20 times: no such zone")


@pytest.mark.parametrize("logged", [True, False])
def test_an_error_before_any_request_stands_before_what_else_is_odd(logged: bool) -> None:
    def fails(sim: Simulation) -> None:
        for number in range(10):
            clique(sim, f"c-{number}", 300, numbers={"status.phase": "Failed" if number == 3 else "Pending"})
        for ms, count in ((3000, 0), (11_000, 20)):
            sim.scrape(ms, {'controller_runtime_reconcile_total{controller="a",result="error"}': count})
        if logged:
            sim.add(rec.Mark(at=sim.at(11_500), label="log-errors", count=20, detail="ERROR: already owned by b"))

    one = stall(fails)
    assert ("already owned by b" in one.text) == logged
    assert not (logged and "Pending" in one.text)


@pytest.mark.parametrize(
    ("message", "times", "objects", "wrong", "words"),
    [
        ('User "op" cannot create resource', 6, 6, True, "a right is missing"),
        ("exceeded quota: q, requested: pods=1", 6, 6, True, "a quota is used up"),
        ("", 6, 6, True, "a right is missing"),
        ("namespace t because it is being terminated", 6, 6, False, ""),
        ("namespace t because it is being terminated", 24, 6, True, "in namespaces that were being deleted"),
    ],
)
def test_why_a_request_is_forbidden(message: str, times: int, objects: int, wrong: bool, words: str) -> None:
    sim = settled()
    for number in range(times):
        sim.request(
            300 + 40 * number * number, verb="create", resource="services", namespace="t", name=f"s-{number % objects}",
            code=403, message=message,
        )  # fmt: skip
    assert ("refused-requests" in ids(sim)) == wrong
    assert any(words in one.text for one in found(sim)) == wrong


STATUS: dict[str, Any] = {"resource": "cliques", "group": "a.io", "subresource": "status", "namespace": "t"}
JOBS = WatchSpec(resource="jobs.batch", path="/apis/batch/v1/namespaces/t/jobs")


def served(sim: Simulation, number: int, ms: float, phase: str) -> None:
    """The operator writes the status of a clique, and the watch shows it."""
    sim.request(ms, verb="patch", **STATUS, name=f"c-{number}")
    shown(sim, f"c-{number}", ms + 10, numbers={"status.phase": phase}, difference=rec.Difference(kind="content"))


def job(sim: Simulation, number: int, ms: float, change: Any, **parts: Any) -> None:
    name = f"c-{number}"
    one = rec.ObjectSeen(
        at=sim.at(ms), watch=sim.watch_ids[JOBS], change=change, name=name, namespace="t", uid=f"uid-job-{number}",
        owner=f"uid-{name}", **parts,
    )  # fmt: skip
    sim.add(one)


def done(sim: Simulation, number: int, ms: float) -> None:
    complete = {"status.conditions[type=Complete].status": "True"}
    job(sim, number, ms, "modified", numbers=complete, difference=rec.Difference(kind="content", paths=["status"]))


@pytest.mark.parametrize("lost", [0, 2, 4])
def test_an_event_that_was_lost(lost: int) -> None:
    """Of jobs that all are complete, the operator has looked at some only before."""

    def serves(sim: Simulation) -> None:
        sim.watch(JOBS, 7)
        for number in range(9):
            job(sim, number, 200, "added")
            served(sim, number, 400, "Running")
            done(sim, number, 500)
            if number >= lost:
                served(sim, number, 600, "Done")

    one = stall(serves, cliques=9)
    assert (one.severity == "defect", "it lost that" in one.text) == (bool(lost), bool(lost)), one.text
    assert not lost or f"{lost} of 9 cliques" in one.text


@pytest.mark.parametrize(("looked", "wrong"), [(0, True), (9, False), (4, False)])
def test_work_that_ended_and_of_which_nothing_came(looked: int, wrong: bool) -> None:
    """The operator made all jobs, all are complete, and it has written of some after that."""

    def serves(sim: Simulation) -> None:
        sim.watch(JOBS, 7)
        for number in range(9):
            sim.request(190, verb="create", resource="jobs", group="batch", namespace="t", name=f"c-{number}", code=201)
            job(sim, number, 200, "added")
            served(sim, number, 400, "Running")
            done(sim, number, 500)
            if number < looked:
                served(sim, number, 600, "Running")

    one = stall(serves, cliques=9)
    words = "jobs.batch of 9 of 9 cliques.a.io have ended"
    assert (one.severity == "defect", words in one.text) == (wrong, wrong), one.text


@pytest.mark.parametrize(
    ("owner", "ends", "by", "wrong"),
    [
        ("", 9, "operator", True),
        ("uid-other", 9, "operator", False),
        (None, 9, "operator", False),  # a recording made before owners were kept
        ("", 8, "operator", False),  # one still runs
        ("", 9, "harness", False),
    ],
)
def test_work_that_ended_and_belongs_to_nothing(owner: str | None, ends: int, by: str, wrong: bool) -> None:
    def serves(sim: Simulation) -> None:
        sim.watch(JOBS, 7)
        for number in range(9):
            of: dict[str, Any] = {"resource": "jobs", "group": "batch", "namespace": "t", "name": f"j-{number}"}
            sim.request(190, user=by, verb="create", code=201, **of)
            served(sim, number, 400, "Running")
            one = rec.ObjectSeen(
                at=sim.at(200),
                watch=sim.watch_ids[JOBS],
                change="added",
                name=f"j-{number}",
                namespace="t",
                uid=f"uid-job-{number}",
                owner=owner,
            )
            sim.add(one)
            if number < ends:
                complete = {"status.conditions[type=Complete].status": "True"}
                sim.add(msgspec.structs.replace(one, at=sim.at(500), change="modified", owner=None, numbers=complete))

    one = stall(serves, cliques=9)
    assert ("no owner reference" in one.text and one.severity == "defect") is wrong, one.text


@pytest.mark.parametrize("pending", [True, False])
def test_objects_behind_others_of_which_the_children_are_not_alike(pending: bool) -> None:
    """What waits for a job that is not complete has missed nothing."""

    def serves(sim: Simulation) -> None:
        sim.watch(JOBS, 7)
        for number in range(9):
            job(sim, number, 200, "added")
            served(sim, number, 400, "Running")
            if number or not pending:
                done(sim, number, 500)
            if number:
                served(sim, number, 600, "Done")

    one = stall(serves, cliques=9)
    assert ("it lost that" in one.text) is not pending


@pytest.mark.parametrize(("others", "severity"), [("alike", "defect"), ("one waits", "note")])
def test_objects_behind_others_with_nothing_below(others: str, severity: str) -> None:
    def serves(sim: Simulation) -> None:
        sim.watch(JOBS, 7)
        for number in range(9):
            served(sim, number, 400, "Done" if number else "Running")
            # No clique's, but what one of them may wait for.
            job(sim, number + 20, 200, "added")
            if number or others == "alike":
                done(sim, number + 20, 500)

    one = stall(serves, cliques=9)
    assert (one.severity, "1 of 9 cliques.a.io have" in one.text) == (severity, True), one.text


@pytest.mark.parametrize(("how", "lost"), [("ended", True), ("reopened", False), ("open", False), ("unchanged", False)])
def test_a_watch_that_ended_and_was_not_opened_again(how: str, lost: bool) -> None:
    sim = settled()
    sim.watch(CLIQUES, 6)
    sim.request(5, **WATCH)
    for number in range(4):
        shown(sim, f"c-{number}", 300, "added", owner="uid-pcs")
    if how != "open":
        sim.request(5, 3000, **{**WATCH, "stage": "ResponseComplete"})
    if how == "reopened":
        sim.request(3100, **WATCH)
    for number in range(4 if how != "unchanged" else 0):
        shown(sim, f"c-{number}", DEPLOYED + 900, difference=rec.Difference(kind="content", paths=["status.phase"]))
    gone(sim)
    texts = [one.text for one in found(sim) if one.id == "unapplied-changes"]
    assert [text.startswith("the operator's watch on cliques.a.io ended 2.9") for text in texts] == [True] * lost


def test_kinds_that_wait_for_their_finalizers_together() -> None:
    deleted = {"metadata.deletionTimestamp": "2026-01-01T00:00:00Z"}

    def waits(sim: Simulation) -> None:
        sim.watch(JOBS, 7)
        for number in range(2):
            clique(sim, f"d-{number}", 300, finalizers=("a.io/clean-up",))
            shown(sim, f"d-{number}", 900, fields=deleted, finalizers=["a.io/clean-up"])
        sim.request(300, verb="create", resource="jobs", group="batch", namespace="t", name="c-0", code=201)
        job(sim, 0, 310, "added", finalizers=["a.io/revoke"])
        job(sim, 0, 900, "modified", fields=deleted, finalizers=["a.io/revoke"])

    one = stall(waits)
    words = "2 cliques.a.io wait for their finalizer a.io/clean-up, and one of the jobs.batch for a.io/revoke"
    assert words in one.text
