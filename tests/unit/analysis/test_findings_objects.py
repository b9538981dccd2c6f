"""What rules find in how objects change: recordings with one thing wrong each, and almost."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, chain
from typing import Any

import msgspec
import pytest

from pytest_grovescale.analysis.analyse import analyse
from pytest_grovescale.recording import records as rec
from pytest_grovescale.recording.conditions import WatchSpec

from .simulated import PODS, READY, Simulation, pods
from .test_findings import (
    DELETED,
    DEPLOYED,
    EDGES,
    IDLE,
    SERVICES,
    N,
    found,
    ids,
    made,
    opened,
    poll,
    scrape,
    seen,
    settled,
)

CLIQUES = WatchSpec(resource="cliques.a.io", path="/apis/a.io/v1/namespaces/t/cliques")
LEASES = WatchSpec(
    resource="leases.coordination.k8s.io",
    path="/apis/coordination.k8s.io/v1/namespaces/op/leases",
    field_selector="metadata.name=op",
)
DELETION = {"verb": "delete", "resource": "cliques", "group": "a.io", "namespace": "t"}
LEASE = {"group": "coordination.k8s.io", "resource": "leases", "namespace": "op", "name": "op"}


def clique(sim: Simulation, name: str, ms: float, *, finalizers: tuple[str, ...] = (), **parts: Any) -> None:
    """The operator makes an object of its own kind, and the watch shows it."""
    if CLIQUES not in sim.watch_ids:
        sim.watch(CLIQUES, 6)
    sim.request(ms, verb="create", resource="cliques", group="a.io", namespace="t", name=name, code=201)
    shown(sim, name, ms + 10, "added", finalizers=list(finalizers), **{"owner": "uid-pcs", **parts})


def shown(sim: Simulation, name: str, ms: float, change: Any = "modified", **parts: Any) -> None:
    watch = sim.watch_ids[CLIQUES]
    sim.add(
        rec.ObjectSeen(at=sim.at(ms), watch=watch, change=change, name=name, namespace="t", uid=f"uid-{name}", **parts)
    )


def written(
    sim: Simulation, name: str, ms: float, kind: rec.DifferenceKind, *, user: str = "operator", **parts: Any
) -> None:
    """Someone writes an object, or its status, and the watch shows what that changed."""
    part = "" if any(not path.startswith("status") for path in parts.get("paths", ())) else "status"
    sim.request(
        ms, user=user, verb="patch", resource="cliques", group="a.io", namespace="t", name=name, subresource=part
    )
    shown(sim, name, ms + 10, difference=rec.Difference(kind=kind, **parts))


def busy_workers(sim: Simulation, busy: float) -> None:
    """The operator serves that so many of five workers were busy in the deployment."""
    queue = {"controller": "clique", "name": "clique"}
    sim.scrape(3000, {})
    edges, seconds = ("start:deploy", "", "end:deploy"), (0.0, 3.0, 5.9)
    for name, values in (
        ("workqueue_work_duration_seconds_sum", [busy * one for one in seconds]),
        ("workqueue_work_duration_seconds_count", [10 * one for one in seconds]),
        ("workqueue_unfinished_work_seconds", [0.0] * len(edges)),
        ("workqueue_longest_running_processor_seconds", [0.0] * len(edges)),
    ):
        scrape(sim, "gauge", name, dict(zip(edges, values, strict=True)), **queue)
    for name in ("controller_runtime_active_workers", "controller_runtime_max_concurrent_reconciles"):
        scrape(sim, "gauge", name, dict.fromkeys(edges, 5.0), controller="clique")


def gone(sim: Simulation) -> None:
    """All cliques are deleted with the workload."""
    last = {record.name: record for _, _, record in sim.items if isinstance(record, rec.ObjectSeen)}
    for name, record in last.items():
        if record.watch == sim.watch_ids[CLIQUES] and record.change != "deleted":
            shown(sim, name, DELETED - 500, "deleted")


@pytest.mark.parametrize(
    ("ended", "times", "wrong"), [("Complete", 4, True), ("Failed", 4, False), ("Complete", 2, False)]
)
def test_jobs_that_are_done_again(ended: str, times: int, wrong: bool) -> None:
    sim = settled()
    jobs = WatchSpec(resource="jobs.batch", path="/apis/batch/v1/namespaces/t/jobs")
    sim.watch(jobs, 5)
    written: dict[str, Any] = {"resource": "jobs", "group": "batch", "namespace": "t"}
    for number in range(2):
        for turn in range(times):
            at = 200 + 200 * turn
            one: dict[str, Any] = {"watch": sim.watch_ids[jobs], "name": f"j-{number}", "namespace": "t"}
            one["uid"] = f"uid-{number}-{turn}"
            sim.request(at, verb="create", name=f"j-{number}", code=201, **written)
            sim.add(rec.ObjectSeen(at=sim.at(at + 5), change="added", owner="uid-pcs", **one))
            numbers: dict[str, Any] = {f"status.conditions[type={ended}].status": "True"}
            sim.add(rec.ObjectSeen(at=sim.at(at + 100), change="modified", numbers=numbers, **one))
            sim.request(at + 120, verb="delete", name=f"j-{number}", **written)
            sim.add(rec.ObjectSeen(at=sim.at(at + 130), change="deleted", **one))
    texts = [one.text for one in found(sim) if one.id == "churn"]
    assert [text.startswith("the operator made 2 jobs.batch 8 times") for text in texts] == [True] * wrong


@pytest.mark.parametrize(
    ("kind", "user", "wrong"),
    [
        ("time", "operator", True),
        ("counter", "operator", True),
        ("order", "operator", True),
        ("bookkeeping", "operator", True),
        ("content", "operator", False),
        ("generation", "operator", False),
        # The operator wrote as often, and may have written what was news.
        ("time", "harness", False),
    ],
)
def test_writes_of_times_counters_and_orders_only(kind: rec.DifferenceKind, user: str, wrong: bool) -> None:
    sim = settled()
    for number in range(3):
        clique(sim, f"c-{number}", 200)
        for ms in (300, 400, 500):
            written(sim, f"c-{number}", ms + number, kind, user=user, paths=["status.last"])
    gone(sim)
    assert ids(sim) == ({"wasted-writes"} if wrong else set())
    if wrong:
        (one,) = found(sim)
        assert one.text.startswith("9 of 9")
        assert "status.last" in one.text


@pytest.mark.parametrize("finer", [0, 2])
def test_a_rounded_time_is_a_note_where_it_always_is(finer: int) -> None:
    sim = settled()
    for number in range(5):
        clique(sim, f"c-{number}", 200)
        sim.request(300, verb="patch", resource="cliques", group="a.io", namespace="t", name=f"c-{number}")
        shown(sim, f"c-{number}", 310, coarse={"status.last": 60})
        for later in range(finer):
            written(sim, f"c-{number}", 400 + 100 * later, "content", paths=["status.last"])
    gone(sim)
    assert ids(sim) == set()
    notes = [each.id for one in analyse(sim.records()).findings for each in one.all]
    assert ("wasted-writes" in notes) == (finer == 0)


@pytest.mark.parametrize(("new", "wrong"), [(0, True), (20, False)])
def test_a_random_value_that_returns_by_chance(new: int, wrong: bool) -> None:
    """It has a new value most times, which other rules say: no one puts the one back that was there before."""
    sim = settled()
    clique(sim, "c", 200)
    for number in range(new + 4):
        back = ["spec.hash"] if number >= new else []
        written(sim, "c", 300 + 50 * number, "content", paths=["spec.hash"], back=back)
    gone(sim)
    assert ("rival-writers" in ids(sim)) == wrong


def test_an_order_that_goes_back_and_forth_is_a_list_without_one() -> None:
    sim = settled()
    for number in range(3):
        clique(sim, f"c-{number}", 200)
        for at in range(6):
            path = "spec.members[].name"
            written(sim, f"c-{number}", 300 + 50 * at + number, "order", paths=[path], back=[path])
    gone(sim)
    assert ids(sim) == {"wasted-writes"}


@pytest.mark.parametrize(
    ("path", "times", "writer", "wrong"),
    [
        ("metadata.labels.mode", 4, "operator", True),
        ("spec.replicas", 4, "operator", True),
        ("spec.replicas", 1, "operator", False),
        # A status returns to what it was when the world does.
        ("status.ready", 4, "operator", False),
        # Nobody else's fight is the operator's.
        ("spec.replicas", 4, "harness", False),
        ("metadata.annotations.a.io/busy", 4, "operator", True),
        # kopf wakes itself so.
        ("metadata.annotations.a.io/touch-dummy", 4, "operator", False),
    ],
)
def test_a_field_that_goes_back_and_forth(path: str, times: int, writer: str, wrong: bool) -> None:
    sim = settled()
    clique(sim, "c", 200)
    for number in range(times):
        written(sim, "c", 300 + 100 * number, "content", user=writer, paths=[path], back=[path])
    gone(sim)
    assert ("rival-writers" in ids(sim)) == wrong


def test_the_other_one_of_a_fight_is_named() -> None:
    sim = settled()
    clique(sim, "c", 200)
    for number in range(6):
        user = ("operator", "kwok")[number % 2]
        written(sim, "c", 300 + 100 * number, "content", user=user, paths=["spec.n"], back=["spec.n"])
    gone(sim)
    (one,) = found(sim)
    assert "kwok" in one.text


@pytest.mark.parametrize("how", ["operator", "collector", "later", "ended", "harness"])
def test_objects_made_for_nothing(how: str) -> None:
    sim = settled()
    user = {"collector": "system:serviceaccount:kube-system:generic-garbage-collector", "harness": "harness"}
    for number in range(6):
        clique(sim, f"c-{number}", 200, fields={"status.phase": "Succeeded"} if how == "ended" else {})
        sent = (IDLE + 500 if how == "later" else 400) + number
        parts: dict[str, Any] = {
            "verb": "delete",
            "resource": "cliques",
            "group": "a.io",
            "namespace": "t",
            "name": f"c-{number}",
        }
        sim.request(sent, user=user.get(how, "operator"), **parts)
        shown(sim, f"c-{number}", sent + 10, "deleted")
    churned = [one for one in found(sim) if one.id == "churn"]
    assert [one.severity for one in churned] == {"operator": ["waste"], "collector": ["defect"]}.get(how, [])


def nodes_at_work(sim: Simulation) -> None:
    """Nodes write what their pods do until the operator says that they are ready: nothing stands still."""
    for ms in range(600, 3000, 400):
        sim.request(ms, user="kwok", verb="patch", resource="pods", subresource="status", namespace="t", name="pod-0")


def idle_cpu(sim: Simulation) -> None:
    """The operator uses a twentieth of a core in every phase."""
    nodes_at_work(sim)
    for index, (at, order, record) in enumerate(sim.items):
        if isinstance(record, rec.CpuRead) and record.process == "operator":
            used = record.cpu_ns // 8
            sim.items[index] = at, order, msgspec.structs.replace(record, cpu_ns=used, waiting_ns=0)


@pytest.mark.parametrize(
    ("pause", "jitter", "wrong"),
    [(40, 0, True), (40, 15, True), (1, 0, False), (40, 39, False)],
)
def test_requests_with_a_pause_after_each(pause: int, jitter: int, wrong: bool) -> None:
    sim = settled()
    idle_cpu(sim)
    ms = 200.0
    for number in range(60):
        clique(sim, f"c-{number}", ms)
        ms += 2 + pause + jitter * ((number * 7) % 11 - 5) / 5
    gone(sim)
    assert ids(sim) == ({"pacing"} if wrong else set())


@pytest.mark.parametrize(("busy", "why"), [(0.5, "a pause"), (3.0, "3 of 5 workers of clique were busy meanwhile")])
def test_requests_one_at_a_time_while_several_workers_are_busy(busy: float, why: str) -> None:
    sim = settled()
    idle_cpu(sim)
    for number in range(60):
        clique(sim, f"c-{number}", 200.0 + 42 * number)
    gone(sim)
    busy_workers(sim, busy)
    (pause,) = [one for one in found(sim) if one.id == "pacing"]
    assert why in pause.text


def test_what_waits_for_the_one_before_to_be_ready_has_no_pause() -> None:
    sim = settled()
    idle_cpu(sim)
    for number in range(60):
        clique(sim, f"c-{number}", 200 + 40 * number)
        shown(sim, f"c-{number}", 235 + 40 * number, fields={"status.conditions[type=Ready].status": "True"})
    gone(sim)
    assert "pacing" not in ids(sim)


@pytest.mark.parametrize(("pause", "ordered", "wrong"), [(200, False, True), (200, True, False), (10, False, False)])
def test_a_pause_after_each_child_of_an_owner(pause: int, ordered: bool, wrong: bool) -> None:
    """Ten owners at once: the stream of all creates has no pause. One that waits for the child before is by design."""
    sim = settled()
    idle_cpu(sim)
    sim.watch(CLIQUES, 6)
    for owner in range(10):
        shown(sim, f"owner-{owner}", 200, "added", owner="")
        for child in range(4):
            name, ms = f"child-{owner}-{child}", 300 + 17 * owner + pause * child
            clique(sim, name, ms, owner=f"uid-owner-{owner}")
            if ordered:
                ready = {"status.conditions[type=Ready].status": "True"}
                shown(sim, name, ms + pause - 5, fields=ready)
    gone(sim)
    assert ("pacing" in {one.id for one in found(sim)}) == wrong, found(sim)


@pytest.mark.parametrize(
    ("order", "replaced", "severity"),
    [(range(30), False, "waste"), (range(29, -1, -1), False, None), (range(30), True, "note")],
)
def test_deletions_one_after_the_other(order: range, replaced: bool, severity: str | None) -> None:
    sim = settled()
    idle_cpu(sim)
    for number in range(30):
        clique(sim, f"c-{number}", 200)
    for position, number in enumerate(order):
        ms = IDLE + 100 + 120 * position + 3 * (position % 5)
        parts: dict[str, Any] = {
            "verb": "delete",
            "resource": "cliques",
            "group": "a.io",
            "namespace": "t",
            "name": f"c-{number}",
        }
        sim.request(ms, **parts)
        shown(sim, f"c-{number}", ms + 100, "deleted")
        if replaced:
            clique(sim, f"other-{number}", ms + 105)
            sim.request(ms + 118, **parts | {"verb": "patch", "name": f"other-{number}"})
    paced = [one for one in analyse(sim.records()).findings if one.id == "pacing"]
    serial = [one.severity for one in paced if "one after the other" in one.text]
    assert serial == [severity] * (severity is not None)


@pytest.mark.parametrize(
    ("wait", "finalizer", "by", "wrong"),
    [
        (2000, "a.io/mine", "operator", True),
        (2000, "a.io/of-another", "kwok", False),
        (2000, "kubernetes.io/pvc-protection", "operator", False),
        (200, "a.io/mine", "operator", False),
        (2000, "orphan", "operator", False),
    ],
)
def test_a_finalizer_that_stays_longer_than_needed(wait: int, finalizer: str, by: str, wrong: bool) -> None:
    sim = settled()
    idle_cpu(sim)
    for number in range(8):
        clique(sim, f"c-{number}", 200, finalizers=(finalizer,))
        at = IDLE + 100
        shown(sim, f"c-{number}", at, fields={"metadata.deletionTimestamp": "2026-01-01T00:00:00Z"})
        taken = at + wait + 20 * number
        sim.request(
            taken - 5, user=by, verb="patch", name=f"c-{number}", resource="cliques", group="a.io", namespace="t"
        )
        shown(sim, f"c-{number}", taken, "deleted")
    assert ids(sim) == ({"pacing"} if wrong else set())


@pytest.mark.parametrize(("wait", "asked", "wrong"), [(2000, 0, True), (2000, 1900, False), (200, 0, False)])
def test_a_finalizer_that_does_not_wait_for_children(wait: int, asked: int, wrong: bool) -> None:
    """The collector takes the children after their owner; only what the operator itself wrote to them explains time."""
    sim = settled()
    idle_cpu(sim)
    at = IDLE + 100
    for number in range(8):
        clique(sim, f"c-{number}", 200, finalizers=("a.io/mine",))
        clique(sim, f"child-{number}", 300, owner=f"uid-c-{number}")
        shown(sim, f"c-{number}", at, fields={"metadata.deletionTimestamp": "2026-01-01T00:00:00Z"})
        parts: dict[str, Any] = {"resource": "cliques", "group": "a.io", "namespace": "t"}
        sim.request(at + wait + 20 * number - 5, verb="patch", name=f"c-{number}", **parts)
        if asked:
            sim.request(at + asked + number, verb="delete", name=f"child-{number}", **parts)
        shown(sim, f"c-{number}", at + wait + 20 * number, "deleted")
        shown(sim, f"child-{number}", at + wait + 1000 + 20 * number, "deleted")
    assert ("pacing" in ids(sim)) == wrong


def test_a_finalizer_behind_others_that_are_worked_through_is_no_pause() -> None:
    sim = settled()
    idle_cpu(sim)
    at = IDLE + 100
    for number in range(8):
        clique(sim, f"c-{number}", 200, finalizers=("a.io/mine",))
        shown(sim, f"c-{number}", at, fields={"metadata.deletionTimestamp": "2026-01-01T00:00:00Z"})
        sim.request(at + 250 * number, took=249, verb="get", resource="cliques", group="a.io", namespace="t", name="x")
        shown(sim, f"c-{number}", at + 2000, "deleted")
    assert "pacing" not in ids(sim)


@pytest.mark.parametrize(("kind", "wrong"), [("content", False), ("none", True), ("time", True)])
def test_writes_after_a_trigger_that_may_have_been_due_are_news(kind: rec.DifferenceKind, wrong: bool) -> None:
    """The deployment ended a moment before the trigger: a status that changes then tells of the last pod."""
    sim = settled()
    trigger = DEPLOYED + 21
    parts: dict[str, Any] = {"verb": "patch", "resource": "cliques", "group": "a.io", "subresource": "status"}
    for number in range(20):
        clique(sim, f"c-{number}", 200)
        shown(sim, f"c-{number}", trigger - 300)
        sim.request(trigger + 100 + number, namespace="t", name=f"c-{number}", **parts)
        shown(sim, f"c-{number}", trigger + 110 + number, difference=rec.Difference(kind=kind, paths=["status.ready"]))
    gone(sim)
    assert ("noop-work" in ids(sim)) == wrong


@pytest.mark.parametrize(
    ("numbers", "wrong"),
    [
        ({"metadata.generation": 2, "status.observedGeneration": 1}, True),
        ({"metadata.generation": 2, "status.observedGeneration": 2}, False),
        ({"metadata.generation": 2}, False),
        ({"metadata.generation": 2, "status.observedGeneration": 0}, False),
    ],
)
def test_a_generation_that_was_not_observed(numbers: dict[str, str | int], wrong: bool) -> None:
    sim = settled()
    clique(sim, "c", 200)
    sim.request(300, verb="patch", resource="cliques", group="a.io", subresource="status", namespace="t", name="c")
    shown(sim, "c", 310, numbers=numbers)
    gone(sim)
    assert ids(sim) == ({"stale-status"} if wrong else set())


@pytest.mark.parametrize("queue", ['workqueue_depth{name="clique"}', "operator_sdk_reconciliations_queue_size_clique"])
@pytest.mark.parametrize(("keys", "wrong"), [(0, True), (3, False)])
def test_a_generation_to_which_the_operator_has_not_come(keys: int, wrong: bool, queue: str) -> None:
    sim = settled()
    clique(sim, "c", 200)
    sim.request(300, verb="patch", resource="cliques", group="a.io", subresource="status", namespace="t", name="c")
    shown(sim, "c", 310, numbers={"metadata.generation": 2, "status.observedGeneration": 1})
    for at in (DEPLOYED + 3000, IDLE - 1000, IDLE + 3000):
        sim.scrape(at, {queue: float(keys)})
    gone(sim)
    assert ("stale-status" in ids(sim)) == wrong


@pytest.mark.parametrize(("changed", "every", "wrong"), [(6, 1400, False), (6, 300, True), (0, 1400, True)])
def test_a_generation_to_which_an_operator_comes_one_after_the_other(changed: int, every: int, wrong: bool) -> None:
    """It changes some objects before, the last one near the end of the idle time or not, and `c` not yet."""
    sim = settled()
    for name in ["c", *(f"c-{number}" for number in range(6))]:
        clique(sim, name, 200)
        written(sim, name, 300, "content", paths=["status.x"])
        shown(sim, name, 320, numbers={"metadata.generation": 1, "status.observedGeneration": 1})
    shown(sim, "c", DEPLOYED + 100, numbers={"metadata.generation": 2})
    for number in range(changed):
        written(sim, f"c-{number}", DEPLOYED + 1600 + every * number, "content", paths=["status.x"])
    gone(sim)
    assert ("stale-status" in ids(sim)) == wrong


@pytest.mark.parametrize(("ready", "wrong"), [(N, False), (N - 1, True)])
def test_ready_replicas_that_are_not_the_ready_pods(ready: int, wrong: bool) -> None:
    sim = settled()
    clique(sim, "c", 120)
    sim.request(DEPLOYED - 400, verb="patch", resource="cliques", group="a.io", subresource="status", name="c")
    shown(sim, "c", DEPLOYED - 300, numbers={"status.readyReplicas": ready})
    gone(sim)
    records = [
        msgspec.structs.replace(record, owner="uid-c", controlled=True, uid=f"uid-{record.name}")
        if isinstance(record, rec.ObjectSeen) and record.watch == sim.watch_ids[PODS]
        else record
        for record in sim.records()
    ]
    severe = {one.id for one in analyse(records).findings if one.severity != "note"}
    assert severe == ({"stale-status"} if wrong else set())


@pytest.mark.parametrize(
    ("phase", "number", "wrong"),
    [("Failed", N - 1, False), ("Failed", N, False), ("Running", N - 1, True), ("Failed", N - 2, True)],
)
def test_pods_that_ended_may_be_left_out_of_a_number_of_pods(phase: str, number: int, wrong: bool) -> None:
    sim = settled()
    clique(sim, "c", 120)
    sim.request(DEPLOYED - 400, verb="patch", resource="cliques", group="a.io", subresource="status", name="c")
    shown(sim, "c", DEPLOYED - 300, numbers={"status.replicas": number})
    gone(sim)
    records = []
    for record in sim.records():
        if isinstance(record, rec.ObjectSeen) and record.watch == sim.watch_ids[PODS]:
            fields = {**record.fields, "status.phase": phase if record.name == "pod-0" else "Running"}
            record = msgspec.structs.replace(record, owner="uid-c", uid=f"uid-{record.name}", fields=fields)
        records.append(record)
    texts = [one.text for one in analyse(records).findings if one.id == "stale-status"]
    assert any(text.startswith("status.replicas of") for text in texts) == wrong


def test_pods_without_a_controller_and_owners_elsewhere() -> None:
    sim = settled()
    clique(sim, "c", 120)
    made(sim, "svc-0", 200, owner="uid-c")
    gone(sim)
    seen(sim, "svc-0", DELETED - 500, "deleted")
    assert ids(sim) == set()
    for index, (at, order, record) in enumerate(sim.items):
        if isinstance(record, rec.ObjectSeen) and record.watch == sim.watch_ids[CLIQUES]:
            sim.items[index] = at, order, msgspec.structs.replace(record, namespace="elsewhere")
    assert "ownership" in ids(sim)


@pytest.mark.parametrize(("version", "right", "goes", "wrong"), [
    ("v1beta1", False, 2500, True), ("v1", False, 2500, False), ("", False, 2500, False),
    ("v1beta1", True, 2500, False), ("v1beta1", False, 500, False),
])  # fmt: skip
def test_an_owner_by_a_version_that_is_not_its_own(version: str, right: bool, goes: int, wrong: bool) -> None:
    """``right``: an object with a right reference stays as well, since the garbage collector is behind."""
    sim = settled()
    clique(sim, "c", 120)
    sim.watch(SERVICES, 8)
    for name, named in (("s", version), *([("r", "v1")] if right else [])):
        sim.request(200, verb="create", resource="services", namespace="t", name=name, code=201)
        seen(sim, name, 210, "added", owner="uid-c", owner_kind="clique.a.io", owner_version=named)
    shown(sim, "c", DELETED - goes, "deleted")
    left = [one for one in found(sim) if one.id == "ownership"]
    assert len(left) == wrong
    assert all(one.text.startswith("one of the services") and "v1beta1" in one.text for one in left)


@pytest.mark.parametrize(("kind", "owner", "wrong"), [
    ("clique.a.io", "uid-none", True), ("clique.a.io", "uid-c", False), ("deployment.apps", "uid-none", False),
    # The uid is that of an object of another kind.
    ("gadget.a.io", "uid-c", True), ("", "uid-c", False),
])  # fmt: skip
def test_an_owner_that_does_not_exist(kind: str, owner: str, wrong: bool) -> None:
    sim = settled()
    clique(sim, "c", 120)
    sim.watch(SERVICES, 8)
    sim.request(200, verb="create", resource="services", namespace="t", name="s", code=201)
    seen(sim, "s", 210, "added", owner=owner, owner_kind=kind)
    seen(sim, "s", DELETED - 500, "deleted")
    gone(sim)
    assert ids(sim) == ({"ownership"} if wrong else set())


def test_restarts_that_no_one_asked_for() -> None:
    sim = settled()
    sim.add(
        rec.Incident(at=sim.at(300), kind="container-restart", subject="operator/pod-a/manager", detail="OOMKilled")
    )
    (one,) = found(sim)
    assert (one.id, one.severity) == ("restarts", "defect")
    assert "OOMKilled" in one.evidence[0]
    for state, ms in (("begin", 200), ("end", 400)):
        sim.add(rec.Mark(at=sim.at(ms), label="operator-restart", state=state))  # type: ignore[arg-type]
    assert found(sim) == []


@pytest.mark.parametrize(("lasts", "every", "wrong"), [(15, 2000, False), (2, 2000, True), (15, 14_000, False)])
def test_a_lease_that_is_renewed_too_late(lasts: int, every: int, wrong: bool) -> None:
    sim = settled()
    sim.watch(LEASES, 7)
    poll(sim, 200, DELETED, every, verb="update", **LEASE)
    sim.add(
        rec.ObjectSeen(
            at=sim.at(300), watch=sim.watch_ids[LEASES], change="added", name="op", namespace="op", uid="l",
            fields={"spec.leaseDurationSeconds": lasts},
        )
    )  # fmt: skip
    assert ids(sim) == ({"housekeeping"} if wrong else set())


def test_discovery_again_and_again() -> None:
    sim = settled()
    poll(sim, 200, 1000, 80, verb="get", resource="", path="/apis")
    assert ids(sim) == set()
    poll(sim, 1000, 2000, 80, verb="get", resource="", path="/apis")
    assert ids(sim) == {"housekeeping"}


def test_rights_that_are_asked_for_at_each_turn() -> None:
    sim = settled()
    reviews = {"verb": "create", "group": "authorization.k8s.io", "resource": "subjectaccessreviews", "code": 201}
    poll(sim, 200, 1000, 80, **reviews)
    assert ids(sim) == set()
    poll(sim, 1000, 6000, 80, **reviews)
    assert ids(sim) == {"housekeeping"}


@pytest.mark.parametrize(
    ("verb", "to_status", "said"), [("update", 0, True), ("patch", 0, False), ("update", 1, False)]
)
def test_updates_that_drop_the_status(verb: str, to_status: int, said: bool) -> None:
    sim = settled()
    for number in range(4):
        clique(sim, f"c-{number}", 200)
        for at in (300, 400, 500):
            part = "status" if number < to_status and at == 300 else ""
            sim.request(
                at, verb=verb, resource="cliques", group="a.io", namespace="t", name=f"c-{number}", subresource=part
            )
    gone(sim)
    (one,) = [one for one in found(sim) if one.id == "wasted-writes" and "changed nothing" in one.text]
    assert ("does not take a status" in one.text) is said
    assert one.severity == ("defect" if said else "waste")


@pytest.mark.parametrize(
    ("number", "code", "watched", "ms", "wrong"),
    [
        (24, 404, True, 200, True),
        (12, 404, True, 200, False),
        (24, 404, False, 200, False),
        (24, 200, True, 200, False),
        (24, 404, True, DELETED - 300, False),  # to see that they are gone
    ],
)
def test_objects_that_are_looked_up_before_they_are_made(
    number: int, code: int, watched: bool, ms: int, wrong: bool
) -> None:
    sim = settled(200)
    of: dict[str, Any] = {"resource": "cliques", "group": "a.io", "namespace": "t"}
    if watched:
        sim.request(10, verb="watch", stage="ResponseStarted", **of)
    for one in range(24):
        if one < number:
            sim.request(ms + 5 * one, verb="get", name=f"c-{one}", code=code, **of)
        clique(sim, f"c-{one}", 203 + 5 * one)
    gone(sim)
    assert any("right before it made" in one.text for one in found(sim)) == wrong


def test_an_event_for_each_reconcile() -> None:
    sim = settled()
    poll(sim, 200, 5000, 80, verb="create", resource="events", namespace="t", code=201)
    assert ids(sim) == {"housekeeping"}


@pytest.mark.parametrize(("events", "noted"), [(160, True), (60, False)])
def test_events_of_a_phase_in_which_next_to_nothing_changed(events: int, noted: bool) -> None:
    sim = settled()
    for number in range(events):
        sim.request(IDLE + 100 + number, verb="create", resource="events", namespace="t", code=201)
    # Too few for all reconciles of the run.
    served = {"start:deploy": 0.0, "end:deploy": 500.0}
    scrape(sim, "counter", "controller_runtime_reconcile_total", served, controller="clique")
    texts = [one.text for one in analyse(sim.records()).findings if one.id == "housekeeping"]
    assert any("an Event for each" in text for text in texts) == noted


@pytest.mark.parametrize(("number", "unlimited", "wrong"), [(4, True, True), (4, False, False), (2, True, False)])
def test_lists_of_everything(number: int, unlimited: bool, wrong: bool) -> None:
    sim = settled(40)
    poll(sim, 200, 200 + 100 * number, 100, resource="pods", unlimited=unlimited)
    assert ids(sim) == ({"needless-reads"} if wrong else set())


@pytest.mark.parametrize(
    ("number", "parts", "objects", "noted"),
    [
        (2, {}, 20, True),
        (1, {}, 20, False),
        (2, {}, 19, False),
        # Single objects, and namespaces, are watched each by itself.
        (2, {"name": "c-{}"}, 20, False),
        (2, {"namespace": "n-{}"}, 20, False),
    ],
)
def test_several_watches_on_one_kind(number: int, parts: dict[str, str], objects: int, noted: bool) -> None:
    sim = settled()
    for one in range(number):
        own: dict[str, Any] = {key: text.format(one) for key, text in parts.items()}
        sim.request(50, verb="watch", resource="cliques", group="a.io", stage="ResponseStarted", **own)
    for one in range(objects):
        clique(sim, f"c-{one}", 200)
    gone(sim)
    texts = [one.text for one in analyse(sim.records()).findings if one.id == "housekeeping"]
    assert any("cliques.a.io (2)" in text for text in texts) == noted


@pytest.mark.parametrize(("reaped_s", "noted"), [(2.5, True), (0.1, False)])
def test_processes_that_the_operator_starts(reaped_s: float, noted: bool) -> None:
    sim = settled()
    for ms, share in ((500, 0.0), (DELETED, 1.0)):
        cpu_ns, reaped_ns = 10**9 + round(share * 3e9), round(share * reaped_s * 1e9)
        read = rec.CpuRead(at=sim.at(ms), process="operator", pid=99, cpu_ns=cpu_ns, reaped_ns=reaped_ns, rss_bytes=1)
        sim.add(read)
    texts = [one.text for one in analyse(sim.records()).findings if one.id == "reconcile-amplification"]
    assert any("processes that it starts" in text for text in texts) == noted


@pytest.mark.parametrize(("phases", "reconciles", "noted"), [(3, 200.0, True), (2, 200.0, False), (3, 2000.0, False)])
def test_a_process_for_each_reconcile_whatever_its_share_is(phases: int, reconciles: float, noted: bool) -> None:
    """Of 8.6 s of the operator's CPU, 0.3 s in each of some phases, or all in as many."""
    sim = settled()
    counts = {"start:deploy": 0.0, rec.SETTLED: reconciles}
    scrape(sim, "counter", "controller_runtime_reconcile_total", counts, controller="clique", result="success")
    grown = 0
    for index, (at, order, record) in enumerate(sim.items):
        if isinstance(record, rec.CpuRead) and record.process == "operator":
            grown += record.edge.startswith("end:") and grown < phases
            sim.items[index] = at, order, msgspec.structs.replace(record, reaped_ns=grown * 300_000_000)
    texts = [one.text for one in analyse(sim.records()).findings if one.id == "reconcile-amplification"]
    assert any("processes that it starts" in text for text in texts) == noted


@pytest.mark.parametrize(
    ("used_s", "writes", "jvm", "noted"),
    [(4.0, 20, False, True), (4.0, 150, False, False), (0.5, 20, False, False), (4.0, 20, True, False)],
)
def test_cpu_time_of_each_write(used_s: float, writes: int, jvm: bool, noted: bool) -> None:
    sim = settled()
    sim.items = [
        (at, order, msgspec.structs.replace(record, cpu_ns=record.cpu_ns + round(used_s * 1e9)))
        if isinstance(record, rec.CpuRead) and record.process == "operator" and record.edge != "start:deploy"
        else (at, order, record)
        for at, order, record in sim.items
    ]
    for number in range(writes):
        sim.request(300 + number, verb="create", resource="configmaps", namespace="t", name=f"a-{number}", code=201)
        sim.request(400 + number, verb="patch", resource="cliques", group="a.io", subresource="status", name="c")
    if jvm:
        sim.scrape(DEPLOYED + 10, {"jvm_threads_live_threads": 20.0})
    texts = [one.text for one in analyse(sim.records()).findings if one.id == "reconcile-amplification"]
    assert any("computes for" in text for text in texts) is noted


@pytest.mark.parametrize(("started", "noted"), [(400, True), (60, False)])
def test_threads_that_reconciles_start(started: int, noted: bool) -> None:
    sim = settled()
    for name, most in (("jvm_threads_started_threads_total", started), ("controller_runtime_reconcile_total", 500)):
        scrape(sim, "counter", name, {"start:deploy": 20.0, "end:deploy": 20.0 + most}, controller="clique")
    texts = [one.text for one in analyse(sim.records()).findings if one.id == "reconcile-amplification"]
    assert any("threads" in text for text in texts) == noted


@pytest.mark.parametrize("ended", [True, False])
def test_watches_that_stay_open(ended: bool) -> None:
    sim = settled()
    watch: dict[str, Any] = {"verb": "watch", "resource": "pods", "namespace": "t"}
    for number in range(6):
        sim.request(300 + number, stage="ResponseStarted", **watch)
        if ended:
            sim.request(DELETED - 100, stage="ResponseComplete", **watch)
    assert ids(sim) == (set() if ended else {"initial-state"})


@pytest.mark.parametrize(("threads", "wrong"), [(400, True), (60, False)])
def test_threads_that_stay_by_the_kernels_count(threads: int, wrong: bool) -> None:
    sim = settled()
    for ms, edge, number in ((90, "start:deploy", 20), (DELETED + 900, rec.SETTLED, threads)):
        sim.add(
            rec.CpuRead(
                at=sim.at(ms), process="operator", pid=10, cpu_ns=10**9, rss_bytes=1, edge=edge, threads=number,
                files=5, sockets=5,
            )
        )  # fmt: skip
    assert ids(sim) == ({"initial-state"} if wrong else set())


@pytest.mark.parametrize(
    ("label", "count", "severity"),
    [
        ("log-panics", 1, "defect"),
        ("log-memory", 1, "defect"),
        ("log-traces", 1, None),
        ("log-traces", 3, "defect"),
        ("log-errors", 10, None),
        ("log-errors", 40, "waste"),
        ("log-bytes", 10_000, None),
        ("log-bytes", 2_000_000, "waste"),
    ],
)
def test_what_the_log_says(label: str, count: int, severity: str | None) -> None:
    sim = settled()
    sim.add(rec.Mark(at=sim.at(DELETED + 950), label=label, count=count, detail="operator.log:7"))
    assert [one.severity for one in found(sim) if one.id == "operator-log"] == ([severity] if severity else [])


def test_a_log_of_many_short_lines() -> None:
    sim = settled()
    for label, count in (("log-lines", 9_000), ("log-bytes", 300_000)):
        sim.add(rec.Mark(at=sim.at(DELETED + 950), label=label, count=count))
    assert [one.severity for one in found(sim) if one.id == "operator-log"] == ["waste"]


@pytest.mark.parametrize(
    ("goals", "collections", "wrong"),
    [
        ((5, 22, 28), (3, 9, 12), True),
        # It shrinks with the objects.
        ((5, 40, 28), (3, 9, 12), False),
        # No collection since the deletion began.
        ((5, 22, 28), (3, 12, 12), False),
        ((5, 7, 8), (3, 9, 12), False),
        ((20, 25, 30), (3, 9, 12), False),
    ],
)
def test_a_heap_that_does_not_shrink_with_the_workload(
    goals: tuple[int, int, int], collections: tuple[int, int, int], wrong: bool
) -> None:
    sim = settled()
    edges = ("start:deploy", "start:delete", rec.SETTLED)
    for name, values in (
        ("go_memstats_next_gc_bytes", [goal * 1e6 for goal in goals]),
        ("go_gc_duration_seconds_count", [float(count) for count in collections]),
    ):
        scrape(sim, "gauge", name, dict(zip(edges, values, strict=True)))
    assert ("initial-state" in ids(sim)) == wrong


def test_a_heap_that_stays_where_no_reconciles_are_counted() -> None:
    sim = settled()
    edges = ("start:deploy", "start:delete", rec.SETTLED)
    for index, (at, order, record) in enumerate(sim.items):
        if isinstance(record, rec.Scraped):
            sim.items[index] = at, order, msgspec.structs.replace(record, samples={})
    scrape(sim, "gauge", "go_memstats_next_gc_bytes", dict(zip(edges, (5e6, 22e6, 28e6), strict=True)))
    scrape(sim, "counter", "go_gc_duration_seconds_count", dict(zip(edges, (3.0, 9.0, 12.0), strict=True)))
    assert "initial-state" in ids(sim)


def cycled(sim: Simulation, values: list[int], field: str = "rss_bytes", *, warm_up: int = 1) -> None:
    """The operator is measured at rest before the first cycle and after each."""
    nodes_at_work(sim)
    sim.add(rec.Mark(at=sim.at(20), label=rec.CYCLES, count=warm_up))
    for number, value in enumerate(values):
        ms = 30 + 800 * number
        held: dict[str, Any] = {"rss_bytes": 50_000_000, "threads": 3, "files": 3, "sockets": 3, field: value}
        edge = rec.cycle_edge(number)
        sim.add(rec.Mark(at=sim.at(ms), label=edge))
        sim.add(rec.CpuRead(at=sim.at(ms), process="operator", pid=10, cpu_ns=10**9, edge=edge, **held))
        sim.scrape(ms, {"go_goroutines": 20.0}, edge=edge)


MB = 1_000_000


@pytest.mark.parametrize(
    ("values", "wrong"),
    [
        ([50, 60, 61.1, 62.2, 63.2, 64.4, 65.5], True),
        # The bundled operator, which keeps nothing: pages of its allocator.
        ([47, 58.78, 59.82, 60.32, 61.39, 61.47, 62.06], False),
        # Caches that fill, and then stay.
        ([50, 60, 61.0, 61.3, 61.3, 61.4, 61.3], False),
        # A heap that goes up and down.
        ([50, 60, 63, 61, 64, 62, 64], False),
        # Less than counts.
        ([50, 60, 60.01, 60.02, 60.03, 60.04, 60.05], False),
        # Too few to say.
        ([50, 60, 60.6, 61.1], False),
    ],
)
def test_memory_that_grows_with_each_cycle(values: list[float], wrong: bool) -> None:
    sim = settled()
    cycled(sim, [round(value * MB) for value in values])
    assert ids(sim) == ({"cycles"} if wrong else set())


@pytest.mark.parametrize("field", ["threads", "files", "sockets"])
def test_what_one_cycle_is_too_few_to_show(field: str) -> None:
    sim = settled()
    cycled(sim, [5, 9, 10, 11, 12, 13], field)
    assert ids(sim) == {"cycles"}
    sim = settled()
    cycled(sim, [5, 9, 10, 9, 10, 9], field)
    assert ids(sim) == set()


def test_cycles_are_in_the_result() -> None:
    sim = settled()
    cycled(sim, [50 * MB, 60 * MB])
    result = analyse(sim.records())
    assert [(one.cycle, one.rss_bytes, one.goroutines) for one in result.cycles] == [(0, 50 * MB, 20), (1, 60 * MB, 20)]


@pytest.mark.parametrize(
    ("name", "values", "wrong"),
    [
        # Never set, doubled, and off by one: none of them ever was right.
        ("op_pods", (0, 0, 0, 0, 0), True),
        ("op_managed_pods", (0, 2 * N, 2 * N, 0, 0), True),
        ("op_pods_total", (0, N + 1, N + 1, 0, 0), True),
        # A number of its own for all clusters, or of something else.
        ("op_pods", (7, N + 7, N + 7, 7, 7), False),
        ("op_evicted_pods", (0, 0, 0, 0, 0), False),
        ("op_pods", (0, N, N, 0, 0), False),
    ],
)
def test_a_gauge_that_is_not_what_its_name_says(name: str, values: tuple[float, ...], wrong: bool) -> None:
    sim = settled()
    for other in ("op_up", "op_queue"):
        scrape(sim, "gauge", other, dict.fromkeys(EDGES, 1.0))
    scrape(sim, "gauge", name, dict(zip(EDGES, map(float, values), strict=True)))
    assert ids(sim) == ({"gauge"} if wrong else set())


@pytest.mark.parametrize(("left", "wrong"), [(5, True), (0, False)])
def test_a_gauge_of_a_kind_that_is_gone_while_others_still_go(left: int, wrong: bool) -> None:
    """As what is in the namespaces that belong to an object."""
    sim = settled()
    for number in range(5):
        clique(sim, f"c-{number}", 200 + number)
        shown(sim, f"c-{number}", IDLE + 200, "deleted")
    scrape(sim, "gauge", "op_cliques", dict(zip(EDGES, map(float, (0, 5, 5, left, left)), strict=True)))
    for ms in range(IDLE + 2000, DELETED + 900, 100):
        made(sim, f"s-{ms}", 300, owner="uid-c-0")
        seen(sim, f"s-{ms}", ms, "deleted")
    assert ("gauge" in ids(sim)) == wrong


@pytest.mark.parametrize(("woken", "wrong"), [(False, True), (True, False)])
def test_what_is_asked_for_after_its_end(woken: bool, wrong: bool) -> None:
    """``woken``: by a Service of it that goes then."""
    sim = settled()
    asked: dict[str, Any] = {"verb": "get", "resource": "cliques", "group": "a.io", "namespace": "t"}
    for number in range(5):
        name = f"c-{number}"
        clique(sim, name, 200 + number)
        made(sim, f"{name}-web", 300, owner=f"uid-{name}")
        shown(sim, name, IDLE + 200, "deleted")
        seen(sim, f"{name}-web", DELETED - 1010 if woken else IDLE + 300, "deleted")
        for ms in (DEPLOYED + 3000, DEPLOYED + 5000, DELETED - 1000):
            sim.request(ms, **asked, name=name, code=404 if ms > IDLE else 200)
    assert ("initial-state" in ids(sim)) == wrong


def test_of_several_kinds_of_which_there_are_as_many_a_gauge_is_of_that_which_it_names() -> None:
    sim = settled()
    sim.watch(WatchSpec(resource="gizmos.a.io", path="/apis/a.io/v1/namespaces/t/gizmos"), 6)
    (gizmos,) = (watch for spec, watch in sim.watch_ids.items() if spec.resource == "gizmos.a.io")
    for number in range(N):
        clique(sim, f"c-{number}", 200 + number)
    gone(sim)
    for _, _, record in list(sim.items):
        if isinstance(record, rec.ObjectSeen) and record.watch == sim.watch_ids[CLIQUES]:
            sim.add(msgspec.structs.replace(record, watch=gizmos, uid=f"{record.uid}-of-gizmo"))
    for name in ("op_watched_gizmos", "op_watched_cliques"):
        scrape(sim, "gauge", name, dict(zip(EDGES, map(float, (0, N, N, N, N)), strict=True)))
    texts = [one.text for one in found(sim) if one.id == "gauge"]
    assert {text.split()[0]: text.split()[-1] for text in texts} == {
        "op_watched_cliques": "cliques.a.io",
        "op_watched_gizmos": "gizmos.a.io",
    }


@pytest.mark.parametrize(
    ("name", "values", "wrong"),
    [
        ("op_reconciles_in_progress", (0, 4, 9, 9, 12), True),
        ("op_inflight_syncs", (0, 0, 3, 3, 3), True),
        ("op_runs_running", (0, 4, 9, 9, 12), True),
        # What falls is counted down; of something else it may be as many.
        ("op_reconciles_in_progress", (0, 4, 2, 9, 12), False),
        ("op_reconciles_in_progress", (0, 0, 0, 0, 1), False),
        ("op_templates_cached", (0, 4, 9, 9, 12), False),
    ],
)
@pytest.mark.parametrize("end", ["gone", "ended", "there"])
def test_a_gauge_of_work_in_progress_when_all_is_done(
    name: str, values: tuple[float, ...], wrong: bool, end: str
) -> None:
    sim = settled()
    clique(sim, "c", 200)
    if end == "ended":
        shown(sim, "c", 400, numbers={"status.conditions[type=Complete].status": "True"})
    elif end == "gone":
        gone(sim)
    scrape(sim, "gauge", name, dict(zip(EDGES, map(float, values), strict=True)))
    assert ("gauge" in ids(sim)) == (wrong and end != "there")


@pytest.mark.parametrize(
    ("name", "values", "wrong"),
    [
        # All pods are Ready at the second and the third.
        ("op_pods_pending", (0, 3, 3, 0, 0), True),
        ("op_pods_pending", (0, 3, 0, 0, 0), False),
        ("op_updates_pending", (0, 3, 3, 0, 0), False),
        ("op_updates_pending", (0, 3, 0, 3, 3), True),
        ("op_pods_seen", (0, 3, 3, 3, 3), False),
    ],
)
def test_a_gauge_of_what_is_still_to_come_when_nothing_can(name: str, values: tuple[float, ...], wrong: bool) -> None:
    sim = settled()
    clique(sim, "c", 200)
    gone(sim)
    sim.phase("pause", IDLE - 6000, IDLE - 4000)
    sim.scrape(IDLE - 4001, {}, edge="end:pause")
    edges = ("start:deploy", "end:pause", "end:steady-state", "end:delete", rec.SETTLED)
    scrape(sim, "gauge", name, dict(zip(edges, map(float, values), strict=True)))
    records = [
        msgspec.structs.replace(record, fields={READY: "True"})
        if isinstance(record, rec.ObjectSeen) and record.watch == sim.watch_ids[PODS] and record.change == "deleted"
        else record
        for record in sim.records()
    ]
    assert any(one.id == "gauge" for one in analyse(records).findings) == wrong


def test_a_gauge_of_a_phase_that_is_never_left() -> None:
    def phased(sim: Simulation, new: tuple[float, ...]) -> Simulation:
        for number in range(4):
            clique(sim, f"c-{number}", 200, numbers={"status.phase": "New"})
            shown(sim, f"c-{number}", DEPLOYED + 100, numbers={"status.phase": "Done"})
        gone(sim)
        scrape(sim, "gauge", "op_things", dict(zip(EDGES, new, strict=True)), phase="New")
        scrape(sim, "gauge", "op_things", dict(zip(EDGES, (0.0, 0.0, 4.0, 4.0, 0.0), strict=True)), phase="Done")
        return sim

    edges = phased(settled(), (0.0, 4.0, 0.0, 0.0, 0.0))
    assert ids(edges) == set()
    assert ids(phased(settled(), (0.0, 4.0, 4.0, 4.0, 0.0))) == {"gauge"}


# ---- one object touched alone


def touched(sim: Simulation, name: str, ms: float) -> None:
    """The harness changes an annotation of a clique, in a phase without triggers of all objects."""
    sim.items = [item for item in sim.items if not (isinstance(item[2], rec.Mark) and item[2].label == "trigger")]
    where = f"cliques.a.io t/{name}"
    sim.add(rec.Mark(at=sim.at(ms), label=rec.TOUCH, state="begin", detail=where))
    sim.request(ms + 5, user="harness", verb="patch", resource="cliques", group="a.io", namespace="t", name=name)
    sim.add(rec.Mark(at=sim.at(ms + 800), label=rec.TOUCH, state="end", detail=where))


@pytest.mark.parametrize(
    ("woken", "result", "severity"),
    [
        (1, "success", None),
        (5, "success", None),
        (10, "success", "waste"),
        (20, "success", "waste"),
        (20, "requeue_after", "note"),  # so each of them may end, whatever it began with
        (20, "error", None),
    ],
)
def test_an_object_that_wakes_others_which_have_nothing_to_do_with_it(
    woken: int, result: str, severity: str | None
) -> None:
    sim = settled()
    for number in range(20):
        clique(sim, f"c-{number}", 200 + number, owner="uid-other")
    touched(sim, "c-0", DEPLOYED + 5000)
    series = f'controller_runtime_reconcile_total{{controller="clique",result="{result}"}}'
    sim.scrape(DEPLOYED + 4900, {series: 40})
    sim.scrape(DEPLOYED + 5700, {series: 40 + woken})
    gone(sim)
    amplified = [one for one in analyse(sim.records()).findings if one.id == "reconcile-amplification"]
    assert [one.severity for one in amplified] == ([severity] if severity else [])
    if severity:
        assert f"{woken} reconciles of clique; there are 20" in amplified[0].text


@pytest.mark.parametrize(("controller", "wrong"), [("que", True), ("operator", False), ("ue", False)])
def test_a_controller_is_known_by_the_end_of_its_kinds_name(controller: str, wrong: bool) -> None:
    """``que`` is of cliques, of which there are twenty; else it could be of all 220 objects with a status."""
    sim = settled()
    for number in range(20):
        clique(sim, f"c-{number}", 200 + number, owner="uid-other")
        written(sim, f"c-{number}", 300 + number, "content", paths=["status.n"])
    for number in range(200):
        made(sim, f"s-{number}", 200, owner="uid-other")
        sim.request(300, verb="patch", resource="services", namespace="t", name=f"s-{number}", subresource="status")
        seen(sim, f"s-{number}", DELETED - 500, "deleted")
    touched(sim, "c-0", DEPLOYED + 5000)
    series = f'controller_runtime_reconcile_total{{controller="{controller}",result="success"}}'
    sim.scrape(DEPLOYED + 4900, {series: 40})
    sim.scrape(DEPLOYED + 5700, {series: 60})
    gone(sim)
    assert any(f"20 reconciles of {controller}; there are 20" in one.text for one in found(sim)) == wrong


def test_an_object_that_wakes_others_of_an_operator_that_does_not_say_what_it_reconciles() -> None:
    sim = settled()
    for number in range(20):
        clique(sim, f"c-{number}", 200 + number, owner="uid-other")
        written(sim, f"c-{number}", 300 + number, "content", paths=["status.n"])
    touched(sim, "c-0", DEPLOYED + 5000)
    series = 'controller_runtime_reconcile_total{controller="operator",result="success"}'
    sim.scrape(DEPLOYED + 4900, {series: 40})
    sim.scrape(DEPLOYED + 5700, {series: 60})
    gone(sim)
    assert [one.text for one in found(sim) if "20 reconciles of operator; there are 2" in one.text]


def test_a_node_that_wakes_all_objects() -> None:
    sim = settled()
    for number in range(20):
        clique(sim, f"c-{number}", 200 + number, owner="uid-other")
    sim.add(rec.Mark(at=sim.at(DEPLOYED + 5000), label=rec.TOUCH, state="begin", detail="nodes /node-0"))
    sim.request(DEPLOYED + 5005, user="harness", verb="patch", resource="nodes", name="node-0")
    sim.add(rec.Mark(at=sim.at(DEPLOYED + 5800), label=rec.TOUCH, state="end", detail="nodes /node-0"))
    series = 'controller_runtime_reconcile_total{controller="clique",result="success"}'
    sim.scrape(DEPLOYED + 4900, {series: 40})
    sim.scrape(DEPLOYED + 5700, {series: 60})
    gone(sim)
    assert [one.text for one in found(sim) if "one of the nodes" in one.text]


@pytest.mark.parametrize(("named", "wrong"), [("new", True), ("c-1", False)])
def test_objects_that_are_made_for_a_touched_one(named: str, wrong: bool) -> None:
    """One in place of another is none."""
    sim = settled()
    for number in range(3):
        clique(sim, f"c-{number}", 200 + number, owner="uid-other")
    touched(sim, "c-0", DEPLOYED + 5000)
    if not wrong:
        shown(sim, named, DEPLOYED + 5100, "deleted")
    clique(sim, "new", DEPLOYED + 5150, owner="uid-c-0")
    gone(sim)
    assert bool([one for one in found(sim) if "the operator create" in one.text]) is wrong


@pytest.mark.parametrize(
    ("by", "parts", "wrong"),
    [
        ("replicaset-controller", {"owner": "uid-c-0"}, True),
        ("replicaset-controller", {"owner": "", "needs": ["cliques.a.io/c-0"]}, True),
        ("replicaset-controller", {"owner": "", "needs": ["cliques.a.io/c-1"]}, False),
        ("harness", {"owner": "uid-c-0"}, False),
    ],
)
def test_pods_that_are_replaced_for_a_touched_object(by: str, parts: dict[str, Any], wrong: bool) -> None:
    sim = settled()
    clique(sim, "c-0", 200, owner="uid-other")
    touched(sim, "c-0", DEPLOYED + 5000)
    old = rec.ObjectSeen(
        at=sim.at(300),
        watch=sim.watch_ids[PODS],
        change="added",
        name="old",
        namespace="t",
        uid="uid-old",
        **parts,
    )
    deleting = {"metadata.deletionTimestamp": "2026-01-01T00:00:00Z"}
    sim.add(old)
    sim.request(DEPLOYED + 5150, user=by, verb="delete", resource="pods", namespace="t", name="old")
    sim.add(msgspec.structs.replace(old, at=sim.at(DEPLOYED + 5160), change="modified", fields=deleting))
    sim.add(msgspec.structs.replace(old, at=sim.at(DEPLOYED + 5200), name="new", uid="uid-new"))
    gone(sim)
    assert bool([one for one in found(sim) if "pod replaced" in one.text]) is wrong


@pytest.mark.parametrize(("each", "watches", "wrong"), [(60, True, True), (1, True, False), (60, False, False)])
def test_reconciles_for_each_change_of_a_kind_that_it_watches(each: int, watches: bool, wrong: bool) -> None:
    """It makes cliques, and others make more changes of pods, which it does not watch."""
    sim = settled()
    if watches:
        sim.request(10, verb="watch", stage="ResponseStarted", resource="cliques", group="a.io")
    for number in range(30):
        clique(sim, f"c-{number}", 200 + number)
        for more in range(20):
            sim.request(
                300 + number, verb="patch", user="kwok", resource="pods", namespace="t", name=f"x-{number}-{more}"
            )
    reconciled = 'controller_runtime_reconcile_total{controller="clique",result="success"}'
    sim.scrape(90, {reconciled: 0}, edge="start:deploy")
    sim.scrape(DEPLOYED - 5, {reconciled: 30 * each}, edge="end:deploy")
    gone(sim)
    amplified = [one.text for one in analyse(sim.records()).findings if "each change that it watches" in one.text]
    assert bool(amplified) is wrong, amplified


@pytest.mark.parametrize(("asked", "wrong"), [(1, False), (20, True)])
def test_nor_may_it_have_them_read_one_by_one(asked: int, wrong: bool) -> None:
    sim = settled()
    for number in range(20):
        clique(sim, f"c-{number}", 200 + number, owner="uid-other")
    touched(sim, "c-0", DEPLOYED + 5000)
    for number in range(asked):
        sim.request(
            DEPLOYED + 5100 + number,
            verb="get",
            resource="cliques",
            group="a.io",
            namespace="t",
            name=f"c-{number}",
        )
    gone(sim)
    assert ("reconcile-amplification" in ids(sim)) is wrong


@pytest.mark.parametrize(("code", "before", "wrong"), [(200, False, True), (200, True, False), (422, True, False)])
def test_what_is_asked_anyway_was_not_asked_for_a_touched_object(code: int, before: bool, wrong: bool) -> None:
    """Polls, and retries, come in the time of a touch, too."""
    sim = settled()
    for number in range(20):
        clique(sim, f"c-{number}", 200 + number, owner="uid-other")
    touched(sim, "c-0", DEPLOYED + 5000)
    for number in range(20):
        for ms in (2500, 5100) if before else (5100,):
            at, name = DEPLOYED + ms + 10 * number, f"c-{number}"
            sim.request(at, verb="update", resource="cliques", group="a.io", namespace="t", name=name, code=code)
    gone(sim)
    woken = [one for one in found(sim) if one.text.startswith("a change of an annotation of one of")]
    assert bool(woken) is wrong


@pytest.mark.parametrize(("often", "noted"), [(2, True), (1, False)])
def test_an_object_that_is_written_for_each_of_many_is_a_note(often: int, noted: bool) -> None:
    sim = settled()
    for number in range(12):
        parts: dict[str, Any] = {"user": "harness", "resource": "apps", "group": "a.io", "namespace": "t"}
        sim.request(120 + number, verb="create", name=f"a-{number}", code=201, **parts)
        for more in range(often):
            at = 200 + 10 * number + more
            sim.request(at, verb="patch", resource="profiles", group="a.io", name="default", subresource="status")
        parts |= {"user": "operator", "subresource": "status"}
        sim.request(400 + number, verb="patch", name=f"a-{number}", **parts)
    notes = [one for one in analyse(sim.records()).findings if one.id == "reconcile-amplification"]
    assert bool(notes) is noted


def test_the_children_of_a_touched_object_may_all_be_woken() -> None:
    sim = settled()
    clique(sim, "parent", 199, owner="")
    for number in range(20):
        clique(sim, f"c-{number}", 200 + number, owner="uid-parent")
    touched(sim, "parent", DEPLOYED + 5000)
    series = 'controller_runtime_reconcile_total{controller="clique",result="success"}'
    sim.scrape(DEPLOYED + 4900, {series: 40})
    sim.scrape(DEPLOYED + 5700, {series: 61})
    gone(sim)
    assert "reconcile-amplification" not in ids(sim)


@pytest.mark.parametrize(("woken", "by_itself"), [(20, True), (1, False)])
def test_an_operator_that_goes_through_all_objects_just_then_was_not_woken_by_a_touch(
    woken: int, by_itself: bool
) -> None:
    sim = settled()
    for number in range(20):
        clique(sim, f"c-{number}", 200 + number, owner="uid-other")
        made(sim, f"svc-{number}", 300 + number, owner="uid-other")
    touched(sim, "c-0", DEPLOYED + 5000)
    kinds = ("clique", "service")
    series = [f'controller_runtime_reconcile_total{{controller="{kind}",result="success"}}' for kind in kinds]
    sim.scrape(DEPLOYED + 4900, dict.fromkeys(series, 40))
    sim.scrape(DEPLOYED + 5700, dict(zip(series, (61, 40 + woken), strict=True)))
    those = [one for one in found(sim) if one.id == "reconcile-amplification"]
    assert [one.text.startswith("within a second") for one in those] == [by_itself]


@pytest.mark.parametrize(("before", "wrong"), [(True, False), (False, True)])
def test_reconciles_that_a_heartbeat_makes_are_not_of_a_touch(before: bool, wrong: bool) -> None:
    """What it writes to each object at quiet times, too, wakes it."""
    sim = settled()
    for number in range(20):
        clique(sim, f"c-{number}", 200 + number, owner="uid-other")
    touched(sim, "c-0", DEPLOYED + 5000)
    parts: dict[str, Any] = {"resource": "cliques", "group": "a.io", "namespace": "t", "subresource": "status"}
    for number in range(20):
        for ms in (2500, 5100) if before else ():
            sim.request(DEPLOYED + ms + 10 * number, verb="patch", name=f"c-{number}", **parts)
    series = 'controller_runtime_reconcile_total{controller="clique",result="success"}'
    sim.scrape(DEPLOYED + 4900, {series: 40})
    sim.scrape(DEPLOYED + 5700, {series: 61})
    gone(sim)
    assert ("reconcile-amplification" in ids(sim)) is wrong


@pytest.mark.parametrize("named", [True, False])
def test_all_that_name_a_touched_object_may_be_woken(named: bool) -> None:
    sim = settled()
    clique(sim, "shared", 199, owner="")
    for number in range(20):
        clique(sim, f"c-{number}", 200 + number, owner="uid-other")
    touched(sim, "shared", DEPLOYED + 5000)
    series = 'controller_runtime_reconcile_total{controller="clique",result="success"}'
    sim.scrape(DEPLOYED + 4900, {series: 40})
    sim.scrape(DEPLOYED + 5700, {series: 61})
    gone(sim)
    records = [
        msgspec.structs.replace(one, needs=[f"{CLIQUES.resource}/shared"])
        if named and isinstance(one, rec.ObjectSeen) and one.name.startswith("c-")
        else one
        for one in sim.records()
    ]
    found = {one.id for one in analyse(records).findings}
    assert ("reconcile-amplification" in found) is not named


@pytest.mark.parametrize(("kind", "wrong"), [("none", True), ("content", False)])
def test_writes_that_change_nothing_for_a_touched_object(kind: rec.DifferenceKind, wrong: bool) -> None:
    sim = settled()
    clique(sim, "c", 200, owner="uid-other")
    shown(sim, "c", 400, difference=rec.Difference(kind="content", paths=["spec.n"]))
    touched(sim, "c", DEPLOYED + 5000)
    for number in range(3):
        at = DEPLOYED + 5100 + 50 * number
        sim.request(at, verb="patch", resource="cliques", group="a.io", namespace="t", name="c")
        shown(sim, "c", at + 10, difference=rec.Difference(kind=kind))
    gone(sim)
    assert ("noop-work" in ids(sim)) is wrong


@pytest.mark.parametrize(("polled", "wrong"), [(True, True), (False, False)])
def test_requests_for_objects_that_are_gone(polled: bool, wrong: bool) -> None:
    sim = settled()
    for number in range(5):
        name = f"c-{number}"
        clique(sim, name, 200 + number, owner="uid-pcs")
        # One late look at each is a queue that is worked off; what also came while nothing changed is a poller.
        for at in (DEPLOYED + 3000, DELETED + 700) if polled else (DELETED + 700,):
            code = 200 if at < DELETED else 404
            sim.request(at + number, verb="get", resource="cliques", group="a.io", namespace="t", name=name, code=code)
    gone(sim)
    assert ("initial-state" in ids(sim)) is wrong


@pytest.mark.parametrize(("children", "wrong"), [(1, False), (3, True)])
def test_one_child_that_is_made_again_and_again_is_the_race_of_one_owner(children: int, wrong: bool) -> None:
    sim = settled()
    clique(sim, "p", 200, owner="")
    for number in range(children):
        clique(sim, f"k-{number}", 300, owner="uid-p")
    shown(sim, "p", IDLE + 100, fields={"metadata.deletionTimestamp": "2026-01-01T00:00:00Z"}, resource_version="500")
    watch = sim.watch_ids[CLIQUES]
    for turn in range(6):
        for number in range(children):
            name, at = f"k-{number}", IDLE + 200 + 40 * turn
            uid = f"uid-{name}" if not turn else f"uid-{name}-{turn}"
            of: dict[str, Any] = {"watch": watch, "name": name, "namespace": "t", "owner": "uid-p"}
            version = str(600 + 2 * turn)
            sim.add(rec.ObjectSeen(at=sim.at(at), change="deleted", uid=uid, resource_version=version, **of))
            sim.request(at + 10, verb="create", resource="cliques", group="a.io", namespace="t", name=name, code=201)
            again: dict[str, Any] = {"uid": f"uid-{name}-{turn + 1}", "resource_version": f"{601 + 2 * turn}"}
            sim.add(rec.ObjectSeen(at=sim.at(at + 20), change="added", **again, **of))
    for number in range(children):
        of = {"watch": watch, "name": f"k-{number}", "namespace": "t", "owner": "uid-p", "uid": f"uid-k-{number}-6"}
        sim.add(rec.ObjectSeen(at=sim.at(DELETED - 600), change="deleted", **of))
    shown(sim, "p", DELETED - 500, "deleted")
    assert any("were being deleted" in one.text for one in found(sim)) is wrong


@pytest.mark.parametrize(
    ("asked", "went", "after", "wrong"),
    [
        (True, IDLE + 200, 300, True),
        (False, IDLE + 200, 300, False),
        (True, IDLE - 200, 300, False),  # it had gone before, and was wanted again when the deletion came
        (True, IDLE - 200, 3000, True),
    ],
)
def test_children_that_are_made_again_for_owners_that_go(asked: bool, went: float, after: float, wrong: bool) -> None:
    sim = settled()
    for number in range(5):
        parent, child = f"p-{number}", f"k-{number}"
        clique(sim, parent, 200 + number, owner="")
        clique(sim, child, 300 + number, owner=f"uid-{parent}")
        if asked:
            fields = {"metadata.deletionTimestamp": "2026-01-01T00:00:00Z"}
            shown(sim, parent, IDLE + 100, fields=fields, resource_version="500")
        shown(sim, child, went, "deleted")
        create: dict[str, Any] = {
            "verb": "create",
            "resource": "cliques",
            "group": "a.io",
            "namespace": "t",
            "code": 201,
        }
        sim.request(IDLE + after, **create, name=child)
        watch = sim.watch_ids[CLIQUES]
        again: dict[str, Any] = {"name": child, "namespace": "t", "uid": f"uid-again-{number}"}
        again |= {"owner": f"uid-{parent}", "resource_version": "600"}
        sim.add(rec.ObjectSeen(at=sim.at(IDLE + after + 10), watch=watch, change="added", **again))
        sim.add(rec.ObjectSeen(at=sim.at(DELETED - 600), watch=watch, change="deleted", **again))
        shown(sim, parent, DELETED - 500, "deleted")
    churned = [one for one in found(sim) if one.id == "churn"]
    assert bool(churned) is wrong
    if wrong:
        assert "5 cliques.a.io again" in churned[0].text


def test_a_kind_without_a_watch_that_is_collected_again_and_again() -> None:
    sim = settled()
    for number in range(4):
        at = 300 + 100 * number
        slices: dict[str, Any] = {"resource": "endpointslices", "group": "discovery.k8s.io", "namespace": "t"}
        sim.request(at, verb="create", code=201, name="s", **slices)
        sim.request(at + 20, user="kube-controller-manager", verb="delete", name="s", **slices)
    (churned,) = [one for one in found(sim) if one.id == "churn"]
    assert churned.text.startswith("the operator made 1 endpointslices.discovery.k8s.io 4 times")


# ---- objects that grow


@pytest.mark.parametrize(
    ("moments", "sizes", "wrong"),
    [
        ([400, DEPLOYED + 100, DEPLOYED + 200], [40, 40, 40], True),
        ([400, 500, 600, 700], [40, 40, 40, 40], False),  # as its children were made
        ([400, DEPLOYED + 100], [40, 40], False),
        ([400, DEPLOYED + 100, DEPLOYED + 200], [40, -40, 40], False),
    ],
)
def test_an_object_that_grows_with_each_write(moments: list[int], sizes: list[int], wrong: bool) -> None:
    sim = settled()
    clique(sim, "c", 200, owner="uid-other")
    for ms, size in zip(moments, sizes, strict=True):
        written(sim, "c", ms, "content", paths=["status.history"], grown=size)
    gone(sim)
    growing = [one for one in found(sim) if one.id == "growing-objects"]
    assert bool(growing) is wrong
    assert all(one.severity == "defect" and one.text.startswith("status.history of one of ") for one in growing)


@pytest.mark.parametrize(("phases", "smaller", "wrong"), [(4, 0, True), (2, 0, False), (4, 1, False)])
def test_an_object_that_grows_in_phase_after_phase(phases: int, smaller: int, wrong: bool) -> None:
    """What is there to do in each of them makes no object larger for good."""
    sim = Simulation()
    sim.watch(CLIQUES, 1)
    for phase in range(4):
        sim.phase(f"p{phase}", 100 + 1000 * phase, 1050 + 1000 * phase)
    for one in range(3):
        clique(sim, f"c-{one}", 110 + one, owner="uid-other")
        for number in range(16):
            grown = -40 if number < smaller else 40
            at = 200 + 1000 * phases * number / 16 + one
            written(sim, f"c-{one}", at, "content", paths=["metadata.annotations.a"], grown=grown)
    sim.add(rec.Closed(at=sim.at(6000), reason="stopped"))
    growing = [one for one in analyse(sim.records()).findings if one.id == "growing-objects"]
    assert bool(growing) is wrong


def test_a_status_that_others_write_is_not_the_operators_to_bound() -> None:
    sim = settled()
    clique(sim, "c", 200, owner="uid-other")
    for ms in (400, DEPLOYED + 100, DEPLOYED + 200):
        written(sim, "c", ms, "content", user="kube-controller-manager", paths=["status.terminating"], grown=21)
        sim.request(ms, verb="patch", resource="cliques", group="a.io", namespace="t", name="c")
    gone(sim)
    assert "growing-objects" not in ids(sim)


def test_an_object_between_two_states_does_not_grow() -> None:
    """A time that changes with seconds only: with the longer state, by chance."""
    sim = settled()
    clique(sim, "c", 200, owner="uid-other")
    times = [400, *(DEPLOYED + ms for ms in range(100, 1000, 100))]
    for number, ms in enumerate(times):
        paths = ["status.phase", *(["status.since"] if number % 2 == 0 else [])]
        written(sim, "c", ms, "content", paths=paths, grown=-7 if number % 2 else 7)
    gone(sim)
    assert "growing-objects" not in ids(sim)


# ---- deletions that do not end


@pytest.mark.parametrize(("waits_for_child", "wrong"), [(False, True), (True, False)])
def test_a_finalizer_that_ends_no_deletion_is_named(waits_for_child: bool, wrong: bool) -> None:
    sim = opened(Simulation())
    sim.watch(PODS, 1)
    sim.phase("delete", 100, 9000, "timeout", gone=pods(2))
    deletion = {"metadata.deletionTimestamp": "2026-01-01T00:00:00Z"}
    for number in range(3):
        clique(sim, f"c-{number}", 200 + number, owner="uid-other", finalizers=("a.io/keep",))
        written(sim, f"c-{number}", 300, "content")
        shown(sim, f"c-{number}", 600, fields=deletion)
        if waits_for_child:
            made(sim, f"s-{number}", 400, owner=f"uid-c-{number}")
            seen(sim, f"s-{number}", 590, "modified", fields=deletion)
    held = [one for one in found(sim) if "wait for their finalizer a.io/keep" in one.text]
    assert bool(held) is wrong


@pytest.mark.parametrize(("works", "wrong"), [((200,), True), (range(500, 9000, 500), False)])
def test_what_has_no_owner_is_left_behind_where_a_deletion_does_not_end(works: Sequence[int], wrong: bool) -> None:
    """Nothing went on any more, or the operator still did something when the phase had its time."""
    sim = opened(Simulation())
    sim.watch(PODS, 1)
    sim.phase("delete", 100, 9000, "timeout", gone=pods(2))
    for label, at in (("apply", 110), ("delete", 150)):
        for state in ("begin", "end"):
            sim.add(rec.Mark(at=sim.at(at), label=label, state=state, count=1))
    for number in range(3):
        made(sim, f"s-{number}", 120 + number)
    for ms in works:
        clique(sim, f"c-{ms}", ms)
    left = [one for one in found(sim) if one.id == "left-behind"]
    assert [one.text.startswith("3 services that the operator made still exist") for one in left] == [True] * wrong


# ---- a status that runs ahead, or counts wrongly under a name of its own


def three_ready_pods(sim: Simulation, *owners: str) -> None:
    """A phase that ends in a timeout, with three pods below each clique, the first of them Ready at version 500."""
    sim.watch(PODS, 1)
    sim.phase("deploy", 100, 9000, "timeout", made=pods(4))
    for number, owner in ((number, owner) for number in range(3) for owner in owners or ("c",)):
        for version, ready in ((100, "False"), (500, "True")):
            sim.add(
                rec.ObjectSeen(
                    at=sim.at(200 + version),
                    watch=sim.watch_ids[PODS],
                    change="modified" if ready == "True" else "added",
                    name=f"{owner}-pod-{number}",
                    namespace="t",
                    uid=f"uid-{owner}-pod-{number}",
                    resource_version=str(version + number),
                    owner=f"uid-{owner}" if ready == "False" else None,
                    fields={"status.conditions[type=Ready].status": ready},
                )
            )


@pytest.mark.parametrize(
    ("version", "owners", "wrong"), [("502", "abc", True), ("503", "abc", False), ("502", "ab", False)]
)
def test_more_ready_pods_than_there_had_been(version: str, owners: str, wrong: bool) -> None:
    sim = opened(Simulation())
    three_ready_pods(sim, *owners)
    for owner in owners:
        clique(sim, owner, 120, owner="", resource_version="1")
        written(sim, owner, 700, "content")
        shown(sim, owner, 715, numbers={"status.readyReplicas": 3}, resource_version=version)
    assert any("had not been Ready yet" in one.text for one in found(sim)) is wrong


@pytest.mark.parametrize(
    ("version", "name", "wrong"),
    [("499", "readyBrokers", True), ("502", "readyBrokers", True), ("503", "readyBrokers", False), ("499", "x", False)],
)
def test_more_ready_things_than_there_had_been_ready_pods(version: str, name: str, wrong: bool) -> None:
    """Under a name of the operator's own, which at rest is the number of Ready pods."""
    sim = opened(Simulation())
    three_ready_pods(sim, *"abc")
    sim.phase("steady-state", 9100, 15_000, "passed")
    for owner in "abc":
        clique(sim, owner, 120, owner="", resource_version="1")
        written(sim, owner, 700, "content")
        shown(sim, owner, 715, numbers={f"status.{name}": 3}, resource_version=version)
    assert any("had not been Ready yet" in one.text for one in found(sim)) is wrong


@pytest.mark.parametrize(("version", "wrong"), [("499", True), ("501", False)])
def test_a_status_that_is_ready_before_any_pod_is(version: str, wrong: bool) -> None:
    sim = opened(Simulation())
    three_ready_pods(sim)
    clique(sim, "c", 120, owner="", resource_version="1")
    written(sim, "c", 240, "content")
    ready = {"status.conditions[type=Ready].status": "True"}
    shown(sim, "c", 255, numbers=ready, resource_version=version)
    ahead = [one for one in found(sim) if one.id == "stale-status"]
    assert bool(ahead) is wrong


@pytest.mark.parametrize(
    ("owners", "made", "act_ms", "wrong"),
    [(3, "500", 0, True), (3, "100", 0, False), (2, "500", 0, False), (3, "500", 350, False)],
)
def test_a_status_that_is_ready_before_anything_is_made(owners: int, made: str, act_ms: int, wrong: bool) -> None:
    """``made``: version of what is made for each; its status has 300. ``act_ms``: the test asks for more before it."""
    sim = settled()
    for number in range(owners):
        clique(sim, f"c-{number}", 120, owner="", resource_version="1")
        written(sim, f"c-{number}", 300, "content")
        ready: dict[str, str | int] = {"status.conditions[type=Ready].status": "True"}
        shown(sim, f"c-{number}", 315, numbers=ready, resource_version="300")
        clique(sim, f"c-{number}-s", 400, owner=f"uid-c-{number}", resource_version=made)
    if act_ms:
        sim.add(rec.Mark(at=sim.at(act_ms), label="patch", state="begin"))
    gone(sim)
    assert any("before anything was made" in one.text for one in found(sim)) is wrong


@pytest.mark.parametrize(("ready", "wrong"), [(2, True), (3, False)])
def test_a_number_of_ready_things_under_a_name_of_its_own(ready: int, wrong: bool) -> None:
    sim = opened(Simulation())
    three_ready_pods(sim)
    clique(sim, "c", 120, owner="", numbers={"spec.members": 3})
    written(sim, "c", 800, "content")
    shown(sim, "c", 820, numbers={"status.readyMembers": ready})
    false = [one for one in found(sim) if one.id == "stale-status"]
    assert bool(false) is wrong
    assert all(one.text.startswith("status.readyMembers of one of the cliques.a.io") for one in false)


# ---- units


@pytest.mark.parametrize(("each", "wrong"), [(4000.0, True), (4.0, False)])
def test_a_duration_that_is_longer_than_the_run(each: float, wrong: bool) -> None:
    sim = settled()
    for part, value in (("sum", 10 * each), ("count", 10.0)):
        name = f"op_provision_seconds_{part}"
        sim.scrape(DEPLOYED + 10, {name: value})
        scrape(sim, "gauge", name, {"start:deploy": 0.0, "end:delete": value, "settled": value})
    assert ("wrong-unit" in ids(sim)) is wrong


@pytest.mark.parametrize(("status", "wrong"), [(True, True), (False, False)])
def test_times_of_reconciles_are_held_against_the_objects_where_these_are_known(status: bool, wrong: bool) -> None:
    sim = settled()
    for part, value in (("sum", 400.0), ("count", 100.0)):
        name = f"op_reconcile_duration_seconds_{part}"
        sim.scrape(DEPLOYED + 10, {name: 0.0})
        scrape(sim, "gauge", name, {"start:deploy": 0.0, "end:delete": value, "settled": value})
    records = [one for one in sim.records() if status or getattr(one, "subresource", "") != "status"]
    assert ("wrong-unit" in {one.id for one in analyse(records).findings}) is wrong


# ---- refused patches


@pytest.mark.parametrize("then", ["accepted", "given up"])
def test_a_json_patch_that_was_overtaken_is_no_invalid_one(then: str) -> None:
    sim = settled()
    patch: dict[str, Any] = {"verb": "patch", "resource": "cliques", "group": "a.io", "namespace": "t"}
    for number in range(6):
        sim.request(300 + 50 * number, 2.0, **patch, name=f"c-{number}", code=422)
        if then == "accepted":
            sim.request(2000 + 50 * number, 2.0, **patch, name=f"c-{number}")
    refused = [one for one in found(sim) if one.id == "refused-requests"]
    assert bool(refused) is (then == "given up")


def test_refusals_of_one_kind_are_one_finding() -> None:
    sim = settled()
    for number in range(6):
        for resource in ("configmaps", "services"):
            sim.request(300 + number, verb="create", resource=resource, namespace="t", name=f"c-{number}", code=409)
    (refused,) = [one for one in found(sim) if one.id == "refused-requests"]
    assert refused.text.count("create") == 2
    assert "12 times" in refused.text


# ---- a status that comes late


@pytest.mark.parametrize(
    ("watched", "late_ms", "others_ms", "wrong"),
    [
        (False, 1500, 0, True),
        (True, 1500, 0, False),
        (True, 4000, 0, True),
        (True, 4000, 2000, True),
        (True, 4000, 400, False),  # it comes to one object after the other
        (False, 200, 0, False),
    ],
)
def test_a_status_that_follows_its_children_late(watched: bool, late_ms: int, others_ms: int, wrong: bool) -> None:
    sim = settled()
    for ms in range(600, 500 + late_ms, others_ms) if others_ms else ():
        sim.request(ms, verb="patch", resource="configmaps", namespace="t", name=f"other-{ms}")
    if watched:
        sim.request(50, verb="watch", resource="services", stage="ResponseStarted")
    for number in range(6):
        clique(sim, f"c-{number}", 120 + number, owner="uid-pcs")
        made(sim, f"s-{number}", 130 + number, owner=f"uid-c-{number}")
        change = rec.Difference(kind="content", paths=["status.phase"])
        seen(sim, f"s-{number}", 500 + number, "modified", difference=change)
        written(sim, f"c-{number}", 500 + late_ms + number, "content", paths=["status.phase"])
    gone(sim)
    late = [one for one in found(sim) if one.id == "stale-status"]
    assert bool(late) is wrong
    assert all(("does not watch" in one.text) is not watched for one in late)


@pytest.mark.parametrize(("user", "wrong"), [("harness", False), ("operator", True)])
def test_a_status_that_follows_what_someone_asked_of_the_object_is_not_late(user: str, wrong: bool) -> None:
    sim = settled()
    for number in range(6):
        clique(sim, f"c-{number}", 120 + number, owner="uid-pcs")
        made(sim, f"s-{number}", 130 + number, owner=f"uid-c-{number}")
        change = rec.Difference(kind="content", paths=["status.phase"])
        seen(sim, f"s-{number}", 500 + number, "modified", difference=change)
        sent: dict[str, Any] = {"resource": "cliques", "group": "a.io", "namespace": "t", "name": f"c-{number}"}
        sim.request(3000 + number, verb="patch", user=user, **sent)
        written(sim, f"c-{number}", 3100 + number, "content", paths=["status.phase"])
    gone(sim)
    assert any("follows changes" in one.text for one in found(sim)) is wrong


@pytest.mark.parametrize(("every_ms", "wrong"), [(20, False), (500, True)])
def test_a_status_that_waits_in_a_queue_is_not_late(every_ms: int, wrong: bool) -> None:
    sim = settled()
    sim.request(50, verb="watch", resource="services", stage="ResponseStarted")
    for number in range(6):
        clique(sim, f"c-{number}", 120 + number, owner="uid-pcs")
        made(sim, f"s-{number}", 130 + number, owner=f"uid-c-{number}")
        change = rec.Difference(kind="content", paths=["status.phase"])
        seen(sim, f"s-{number}", 500 + number, "modified", difference=change)
        written(sim, f"c-{number}", 4500 + number, "content", paths=["status.phase"])
    poll(sim, 500, 4500, every_ms, verb="get", resource="nodes", name="n")
    gone(sim)
    assert any("follows changes" in one.text for one in found(sim)) is wrong


# ---- what triggers bring about


def triggered_cliques(sim: Simulation, number: int) -> None:
    """The harness triggers so many cliques, in the phase in which it triggers its set."""
    for index in range(number):
        clique(sim, f"c-{index}", 120 + index, owner="uid-pcs")
        sim.request(
            DEPLOYED + 25,
            user="harness",
            verb="patch",
            resource="cliques",
            group="a.io",
            namespace="t",
            name=f"c-{index}",
        )


@pytest.mark.parametrize(("count", "wrong"), [(0, False), (10, True), (28, False), (30, False)])
def test_triggered_objects_that_an_idle_operator_does_not_reconcile(count: int, wrong: bool) -> None:
    sim = settled()
    triggered_cliques(sim, 30)
    values = {"start:steady-state": 40.0, "end:steady-state": 40.0 + count}
    scrape(sim, "counter", "controller_runtime_reconcile_total", values, controller="clique", result="success")
    gone(sim)
    assert ("pacing" in ids(sim)) is wrong


def test_pods_that_are_replaced_for_a_trigger() -> None:
    sim = settled(10)
    sim.events = [event for event in sim.events if event[0] < sim.at(DEPLOYED) or not event[2].startswith("pod-")]
    for number in range(10):
        sim.write(PODS, f"pod-{number}", DEPLOYED + 100 + number, verb="delete", fields=None)
        sim.write(PODS, f"new-{number}", DEPLOYED + 200 + number, verb="create", fields={})
    replaced = [one for one in found(sim) if one.id == "noop-work"]
    assert replaced[0].severity == "defect"
    assert "10 of 10 pods" in replaced[0].text


@pytest.mark.parametrize(
    ("generation", "paths", "severity"),
    [
        (2, ["status.observedGeneration"], "note"),
        (2, ["status.observedGeneration", "status.synced"], "waste"),
        (None, ["status.observedGeneration"], "waste"),
    ],
)
def test_a_generation_that_a_trigger_makes_is_acknowledged(
    generation: int | None, paths: list[str], severity: str
) -> None:
    """An annotation of a Deployment has one made; of most kinds it has not."""
    sim = settled()
    clique(sim, "c-0", 200, owner="uid-other")
    triggered_cliques(sim, 1)
    numbers: dict[str, str | int] = {"metadata.generation": generation} if generation else {}
    shown(sim, "c-0", DEPLOYED + 40, numbers=numbers)
    written(sim, "c-0", DEPLOYED + 60, "content", paths=paths)
    gone(sim)
    noop = [one for one in analyse(sim.records()).findings if one.id == "noop-work"]
    assert [one.severity for one in noop] == [severity]


@pytest.mark.parametrize(
    ("name", "severity"), [("kopf.dev/last-handled-configuration", "note"), ("a.io/seen-at", "waste")]
)
def test_what_kopf_notes_of_a_triggered_object_is_a_note(name: str, severity: str) -> None:
    sim = settled()
    clique(sim, "c-0", 200, owner="uid-other")
    triggered_cliques(sim, 1)
    written(sim, "c-0", DEPLOYED + 60, "content", paths=[f"metadata.annotations.{name}"])
    gone(sim)
    noop = [one for one in analyse(sim.records()).findings if one.id == "noop-work"]
    assert [one.severity for one in noop] == [severity]


def test_new_objects_that_triggers_leave_are_named_by_kind() -> None:
    sim = settled(10)
    triggered_cliques(sim, 1)
    for number in range(8):
        sim.write(PODS, f"new-{number}", DEPLOYED + 200 + number, verb="create", fields={})
    for number in range(6):
        sim.request(
            DEPLOYED + 300, verb="create", code=201, resource="cliques", group="a.io", namespace="t", name=f"n-{number}"
        )
        clique(sim, f"n-{number}", DEPLOYED + 310, owner="uid-pcs")
    (noop,) = [one for one in found(sim) if one.id == "noop-work"]
    (stay,) = [one for one in noop.evidence if one.startswith("8 of the new pods stay")]
    assert stay.endswith("so do 6 cliques.a.io")
    assert noop.severity == "defect"


@pytest.mark.parametrize(("failed", "wrong"), [(20, True), (2, False)])
def test_a_phase_that_stalls_since_reconciles_fail(failed: int, wrong: bool) -> None:
    sim = opened(Simulation())
    sim.watch(PODS, 1)
    sim.phase("deploy", 100, 9000, "timeout", made=pods(2))
    for ms, count in ((2000, 0), (8000, failed)):
        total = "controller_runtime_reconcile_total"
        sim.scrape(
            ms, {f'{total}{{controller="a",result="error"}}': count, f'{total}{{controller="a",result="success"}}': 9}
        )
    (stalled,) = analyse(sim.records()).findings
    assert (stalled.severity == "defect") is wrong


# ---- gauges of states


@pytest.mark.parametrize(("old", "wrong"), [(1.0, True), (0.0, False)])
def test_a_gauge_that_has_objects_in_two_states_at_once(old: float, wrong: bool) -> None:
    sim = settled()
    for number in range(4):
        for phase, at_first, later in (("New", 1.0, old), ("Ready", 0.0, 1.0)):
            values = {"end:deploy": at_first, "end:steady-state": later, "end:delete": 0.0, "settled": 0.0}
            scrape(sim, "gauge", "op_set_phase", values, set=f"s-{number}", phase=phase)
    several = [one for one in found(sim) if "in more than one phase" in one.text]
    assert bool(several) is wrong


def test_a_series_that_has_an_objects_name_in_a_path_is_one_of_that_object() -> None:
    sim = settled()
    for number in range(3):
        made(sim, f"svc-{number}", 200, owner="uid-pcs")
        seen(sim, f"svc-{number}", DELETED - 900, "deleted")
        url = f"/api/v1/namespaces/t/services/svc-{number}/status"
        scrape(sim, "counter", "op_requests_total", {"settled": 1.0}, url=url)
    (left,) = [one for one in found(sim) if one.id == "initial-state"]
    assert left.text.startswith("3 series of op_requests")


def test_conflicts_and_reads_of_one_object_name_it() -> None:
    sim = settled()
    sim.request(50, verb="watch", resource="configmaps", stage="ResponseStarted")
    for number in range(20):
        sim.request(300 + number, verb="get", resource="configmaps", namespace="t", name="registry")
        sim.request(320 + number, verb="update", resource="configmaps", namespace="t", name="registry", code=409)
    texts = {one.id: one.text for one in found(sim)}
    assert "registry, 20 times" in texts["needless-reads"]
    assert "it was registry" in texts["refused-requests"]


def test_surplus_objects_are_the_operators_although_a_node_deletes_them_at_last() -> None:
    sim = settled()
    for number in range(6):
        made(sim, f"svc-{number}", 200 + number, owner="uid-pcs")
        sim.request(400 + number, verb="delete", resource="services", namespace="t", name=f"svc-{number}")
        sim.request(450 + number, user="kwok", verb="delete", resource="services", namespace="t", name=f"svc-{number}")
        seen(sim, f"svc-{number}", 460 + number, "deleted")
    (churn,) = [one for one in found(sim) if one.id == "churn"]
    assert churn.text.endswith("it deleted them itself")


@pytest.mark.parametrize(("wanted", "surplus"), [(N - 2, True), (N, False)])
def test_numbers_of_the_same_pods_are_wrong_together(wanted: int, surplus: bool) -> None:
    sim = settled()
    clique(sim, "c", 120)
    sim.request(DEPLOYED - 400, verb="patch", resource="cliques", group="a.io", subresource="status", name="c")
    numbers: dict[str, str | int] = {"status.replicas": N - 2, "status.readyReplicas": N - 2, "spec.replicas": wanted}
    shown(sim, "c", DEPLOYED - 300, numbers={**numbers, READY: "False"})
    gone(sim)
    records = [
        msgspec.structs.replace(record, owner="uid-c", controlled=True, uid=f"uid-{record.name}")
        if isinstance(record, rec.ObjectSeen) and record.watch == sim.watch_ids[PODS]
        else record
        for record in sim.records()
    ]
    every = [each for one in analyse(records).findings for each in one.all]
    (wrong,) = [one.text for one in every if one.id == "stale-status"]
    both = "status.replicas and status.readyReplicas of" if surplus else "status.replicas, status.readyReplicas and"
    assert wrong.startswith(both)
    assert (READY in wrong) != surplus
    assert ("the others are too many" in wrong) == surplus


@pytest.mark.parametrize(("lists", "ends", "wrong"), [(True, True, True), (False, True, False), (True, False, False)])
def test_watches_that_end_at_once_and_all_is_listed_again(lists: bool, ends: bool, wrong: bool) -> None:
    sim = settled()
    for resource in ("cliques", "pods"):
        for at in (DEPLOYED + 2500, DEPLOYED + 4500):
            if lists:
                sim.request(at, verb="list", resource=resource)
            sim.request(at + 20, verb="watch", resource=resource, stage="ResponseStarted")
            if ends:
                sim.request(at + 1500, verb="watch", resource=resource, stage="ResponseComplete")
    every = [each for one in analyse(sim.records()).findings for each in one.all]
    assert any("end within seconds" in one.text for one in every) == wrong


@pytest.mark.parametrize(
    ("accepted", "wrong"),
    [
        ((150, 3, 151), True),
        ((12, 3, 9), False),
        ((150, 3, 20), False),  # another program's, at that time
        ((160, 120, 170), False),  # a busy server of another program's beside it
        ((600, 3, 610), False),
        (None, False),  # an older recording
    ],
)
def test_a_connection_for_each_request(accepted: tuple[int, ...] | None, wrong: bool) -> None:
    sim = settled(150)
    edges = [f"{edge}:{phase}" for phase in ("deploy", "steady-state", "delete") for edge in ("start", "end")]
    counts = list(accumulate(chain.from_iterable((1, number) for number in accepted or ())))
    for index, (at, order, record) in enumerate(sim.items):
        if isinstance(record, rec.CpuRead) and record.process == "kube-apiserver" and record.edge and counts:
            number = counts[edges.index(record.edge)]
            sim.items[index] = at, order, msgspec.structs.replace(record, accepted=number)
    assert ("housekeeping" in ids(sim)) == wrong


@pytest.mark.parametrize(
    ("reconciles", "each", "wrong"),
    [
        ((20, 90, 40), (1.1, 1.2, 1.0), True),
        ((20, 90, 40), (1.1, 0.2, 1.0), False),
        ((20, 90, 40), (2.1, 2.2, 2.0), False),
        ((20, 30, 40), (1.1, 1.2, 1.0), False),  # of another program, as many a second
        ((20, 90), (1.1, 1.2), False),
    ],
)
def test_a_connection_in_each_reconcile(reconciles: tuple[int, ...], each: tuple[float, ...], wrong: bool) -> None:
    sim = settled(150)
    total = 'controller_runtime_reconcile_total{controller="clique",result="success"}'
    done, opened = 100, 400
    # The first one's edges are those of the phase before, too.
    for number, (count, share) in enumerate([(0, 0.0), *zip(reconciles, each, strict=True)]):
        start, end, name = DELETED + 10 + 200 * number, DELETED + 200 + 200 * number, f"again-{number}"
        sim.phase(name, start, end)
        for edge, ms in (("start", start - 1), ("end", end - 1)):
            done += count * (edge == "end")
            opened += round(count * share) * (edge == "end")
            sim.scrape(ms, {total: done}, edge=f"{edge}:{name}")
            server: dict[str, Any] = {"process": "kube-apiserver", "pid": 11, "cpu_ns": 10**9, "rss_bytes": 10**8}
            sim.add(rec.CpuRead(at=sim.at(ms), accepted=opened, edge=f"{edge}:{name}", **server))
    gone(sim)
    assert any("in nearly each reconcile" in one.text for one in found(sim)) == wrong


@pytest.mark.parametrize(
    ("times", "apart_ms", "made", "wrong"),
    [
        (4, 1500, False, True),
        (2, 1500, False, False),  # once more
        (4, 300, False, False),  # races with their deletion
        (4, 1500, True, False),  # it is there again in between
    ],
)
def test_writes_to_what_is_gone_are_no_race_with_its_deletion(
    times: int, apart_ms: int, made: bool, wrong: bool
) -> None:
    sim = settled()
    of: dict[str, Any] = {"resource": "cliques", "group": "a.io", "namespace": "t"}
    for number in range(4):
        for turn in range(times):
            ms = DEPLOYED + 500 + turn * apart_ms + number
            sim.request(ms, verb="patch", name=f"c-{number}", code=404, **of)
            if made:
                sim.request(ms + 100, verb="create", name=f"c-{number}", code=201, **of)
    texts = [one.text for one in found(sim) if one.id == "refused-requests"]
    assert bool(texts) == wrong, texts


@pytest.mark.parametrize(
    ("again", "after_ms", "wrong"),
    [
        (6, 40, False),  # its cache does not show the last write yet
        (6, 1000, True),
        (20, 40, True),  # each write is sent twice
    ],
)
def test_a_write_just_after_the_last_one_may_follow_from_a_cache_that_lags(
    again: int, after_ms: int, wrong: bool
) -> None:
    sim = settled()
    for number in range(20):
        name = f"c-{number}"
        clique(sim, name, 200)
        for ms in (600, 1200):
            written(sim, name, ms, "content", paths=["status.phase"])
        if number < again:
            of: dict[str, Any] = {"resource": "cliques", "group": "a.io", "subresource": "status", "namespace": "t"}
            sim.request(1200 + after_ms, verb="patch", name=name, **of)
    gone(sim)
    assert ("wasted-writes" in ids(sim)) == wrong
