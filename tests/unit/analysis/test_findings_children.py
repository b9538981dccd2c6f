"""What rules find in an object beside its like, its status beside its children, and its writes beside what was new."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_grovescale.analysis.analyse import analyse
from pytest_grovescale.analysis.result import Finding
from pytest_grovescale.recording import records as rec
from pytest_grovescale.recording.conditions import WatchSpec

from .simulated import PODS, READY, Simulation
from .test_findings import DELETED, DEPLOYED, IDLE, N, found, ids, made, poll, scrape, seen, settled
from .test_findings_objects import clique, gone, idle_cpu, shown, written

CONFIGMAPS = WatchSpec(resource="configmaps", path="/api/v1/namespaces/t/configmaps")

APPLIED: dict[str, Any] = {
    "user": "harness",
    "verb": "create",
    "resource": "cliques",
    "group": "a.io",
    "namespace": "t",
    "code": 201,
}


def family(sim: Simulation, number: int, children: int, **numbers: str | int) -> None:
    """A clique with Services that it owns, and numbers of its spec and status."""
    name = f"c-{number}"
    fields = {path.replace("_", "."): value for path, value in numbers.items()}
    clique(sim, name, 200 + number, owner="uid-pcs", numbers=fields)
    for child in range(children):
        made(sim, f"{name}-{child}", 300 + 10 * number + child, owner=f"uid-{name}")


def all_gone(sim: Simulation) -> None:
    gone(sim)
    watches = {watch for spec, watch in sim.watch_ids.items() if spec.resource == "services"}
    names = {one.name for _, _, one in sim.items if isinstance(one, rec.ObjectSeen) and one.watch in watches}
    for name in names:
        seen(sim, name, DELETED - 400, "deleted")


@pytest.mark.parametrize(
    ("counts", "wrong"),
    [
        ([3] * 9 + [0], "defect"),
        ([3] * 9 + [2], ""),  # a note: a workload may be of two sizes
        ([3] * 10, ""),
        ([0] * 9 + [1], ""),  # one that all share
        ([1] * 5 + [0] * 5, ""),
    ],
)
def test_one_of_many_without_children(counts: list[int], wrong: str) -> None:
    sim = settled()
    for number, count in enumerate(counts):
        family(sim, number, count)
    all_gone(sim)
    assert {one.severity for one in found(sim) if one.id == "children"} == ({wrong} if wrong else set())


@pytest.mark.parametrize(
    ("path", "numbers", "wrong"),
    [
        ("status_made", [3] * 9 + [2], True),
        ("status_made", [3] * 10, False),
        ("status_made", [1, 2, 3, 4, 5, 6, 7, 8, 9, 10], False),
        ("spec_replicas", [3] * 9 + [2], True),
        ("status_services", [4] * 10, True),
        ("status_seen", [4] * 10, False),
    ],
)
def test_a_number_that_is_that_of_the_children_for_all_but_one(path: str, numbers: list[int], wrong: bool) -> None:
    sim = settled()
    for number, value in enumerate(numbers):
        family(sim, number, 3, **{path: value})
    all_gone(sim)
    assert ids(sim) == ({"children"} if wrong else set())


@given(st.lists(st.integers(min_value=0, max_value=4), min_size=1, max_size=12))
def test_numbers_that_are_right_are_never_wrong(counts: list[int]) -> None:
    sim = settled()
    for number, count in enumerate(counts):
        family(sim, number, count, status_made=count, spec_replicas=count)
    all_gone(sim)
    odd = [one for one in found(sim) if one.id == "children"]
    assert all("of the services" in one.text for one in odd)


def test_children_that_still_change_say_nothing() -> None:
    sim = settled()
    for number in range(10):
        family(sim, number, 3 if number else 0)
    for ms in range(DEPLOYED, IDLE, 500):
        seen(sim, "c-1-0", ms, "modified")
    all_gone(sim)
    assert "children" not in ids(sim)


CONDITION = "status.conditions[type=Ready].status"


@pytest.mark.parametrize(
    ("values", "reason", "wrong"),
    [
        (["False", "True", "False", "True"], "", True),
        (["False", "True"], "", False),
        (["Unknown", "False", "True"], "", False),
        (["False", "True", "False", "True"], "generation", False),
        (["False", "True", "False", "True"], "other", False),
    ],
)
def test_a_condition_that_goes_back(values: list[str], reason: str, wrong: bool) -> None:
    sim = settled()
    for number in range(3):
        clique(sim, f"c-{number}", 200, numbers={"metadata.generation": 1, CONDITION: values[0]})
        for step, value in enumerate(values[1:], 1):
            ms = 250 + 100 * step
            if reason == "other":
                sim.request(
                    ms,
                    user="harness",
                    verb="patch",
                    resource="cliques",
                    group="a.io",
                    namespace="t",
                    name=f"c-{number}",
                )
            numbers: dict[str, str | int] = {CONDITION: value}
            if reason == "generation":
                numbers["metadata.generation"] = step + 1
                numbers["status.observedGeneration"] = step + 1
            sim.request(
                ms + 5, verb="patch", resource="cliques", group="a.io", subresource="status", namespace="t",
                name=f"c-{number}",
            )  # fmt: skip
            shown(sim, f"c-{number}", ms + 15, numbers=numbers)
    gone(sim)
    assert ("conditions" in ids(sim)) == wrong


@pytest.mark.parametrize(
    ("paths", "wrong"),
    [
        (["lastTransitionTime", "message"], True),
        (["lastTransitionTime", "status"], False),
        (["lastTransitionTime", "type"], False),
        (["message"], False),
    ],
)
def test_a_time_of_transition_without_one(paths: list[str], wrong: bool) -> None:
    sim = settled()
    for number in range(3):
        clique(sim, f"c-{number}", 200)
        for step in range(2):
            fields = [f"status.conditions[].{path}" for path in paths]
            written(sim, f"c-{number}", 600 + 400 * step, "content", paths=fields)
    gone(sim)
    assert ids(sim) == ({"conditions"} if wrong else set())


@pytest.mark.parametrize(
    ("said", "ready", "wanted", "wrong"),
    [
        ("False", "True", 10, True),
        ("False", "True", 11, False),
        ("True", "True", 10, False),
        ("True", "False", 10, True),
        ("False", "False", 10, False),
    ],
)
def test_a_condition_that_all_pods_contradict(said: str, ready: str, wanted: int, wrong: bool) -> None:
    sim = settled()
    clique(sim, "c", 120, numbers={"spec.size": wanted})
    sim.request(3500, verb="patch", resource="cliques", group="a.io", subresource="status", namespace="t", name="c")
    shown(sim, "c", 3510, numbers={CONDITION: said})
    gone(sim)
    records = [
        msgspec.structs.replace(
            record,
            owner="uid-c",
            controlled=True,
            uid=f"uid-{record.name}",
            fields={READY: ready if record.fields.get(READY) == "True" else "False"},
        )
        if isinstance(record, rec.ObjectSeen) and record.watch == sim.watch_ids[PODS]
        else record
        for record in sim.records()
    ]
    assert ("stale-status" in {one.id for one in analyse(records).findings if one.severity != "note"}) == wrong


@pytest.mark.parametrize(
    ("path", "user", "wrong"),
    [
        ("metadata.annotations.grovescale.io/touched", "harness", True),
        ("metadata.annotations", "harness", True),
        ("metadata.annotations.a.io/lock", "harness", False),
        ("metadata.annotations", "operator", False),
    ],
)
def test_an_annotation_of_others_that_is_taken_back(path: str, user: str, wrong: bool) -> None:
    sim = settled()
    clique(sim, "c", 200)
    written(sim, "c", 300, "content", user=user, paths=[path])
    written(sim, "c", 400, "content", paths=[path], back=[path])
    gone(sim)
    assert ids(sim) == ({"rival-writers"} if wrong else set())


@pytest.mark.parametrize(
    ("writes", "between", "wrong"),
    [(3, "", True), (2, "", False), (4, "child", False), (4, "other", False), (4, "time", False)],
)
def test_an_object_that_is_written_in_pieces(writes: int, between: str, wrong: bool) -> None:
    sim = settled()
    for number in range(6):
        name, ms = f"c-{number}", 300.0 + 500 * number
        clique(sim, name, 200)
        for step in range(writes):
            written(sim, name, ms, "content", paths=[f"status.field{step}"])
            if between == "child":
                made(sim, f"{name}-{step}", ms + 5, owner=f"uid-{name}")
            if between == "other":
                written(sim, name, ms + 5, "content", user="kwok", paths=["status.other"])
            ms += 400 if between == "time" else 20
    all_gone(sim) if between == "child" else gone(sim)
    assert ("wasted-writes" in ids(sim)) == wrong


@pytest.mark.parametrize(("delay", "cores", "wrong"), [(900, 0, True), (20, 0, False), (900, 1, False)])
def test_objects_for_which_nothing_is_done_at_first(delay: int, cores: int, wrong: bool) -> None:
    sim = settled()
    if not cores:
        idle_cpu(sim)
    for number in range(6):
        name, ms = f"c-{number}", 200 + 5 * number
        if not number:
            clique(sim, "first", 150)
        sim.request(ms, **APPLIED, name=name)
        shown(sim, name, ms + 10, "added", owner="")
        written(sim, name, ms + delay, "content", paths=["status.ready"])
    gone(sim)
    assert ("dead-time" in ids(sim)) == wrong


@pytest.mark.parametrize("ended_by", ["operator", "kwok"])
def test_a_time_in_which_nothing_happens_until_the_operator_goes_on(ended_by: str) -> None:
    """In this run all pods are Ready long before the operator says so."""
    sim = settled()
    for index, (at, order, record) in enumerate(sim.items):
        if isinstance(record, rec.CpuRead) and record.process == "operator":
            sim.items[index] = at, order, msgspec.structs.replace(record, cpu_ns=record.cpu_ns // 8, waiting_ns=0)
    if ended_by == "kwok":
        sim.request(3000, user="kwok", verb="patch", resource="pods", subresource="status", namespace="t", name="pod-0")
    assert ids(sim) == ({"dead-time"} if ended_by == "operator" else set())


@pytest.mark.parametrize(("every", "wrong"), [(40, True), (400, False)])
def test_polls_for_objects_that_are_gone(every: int, wrong: bool) -> None:
    sim = settled()
    clique(sim, "c", 200)
    shown(sim, "c", DELETED - 2000, "deleted")
    for ms in range(DELETED - 900, DELETED + 990, every):
        sim.request(ms, verb="list", resource="pods", namespace="t")
    assert ("initial-state" in ids(sim)) == wrong


def notes(sim: Simulation) -> list[Finding]:
    return [one for one in analyse(sim.records()).findings if one.severity == "note"]


@pytest.mark.parametrize(
    ("version", "optional", "wrong"), [(500, False, True), (50, False, False), (500, True, False), (None, False, True)]
)
def test_pods_that_come_before_what_they_need(version: int | None, optional: bool, wrong: bool) -> None:
    """``version``: of the ConfigMap, of which None is made at all; pods have 101 and more."""
    sim = settled()
    sim.watch(CONFIGMAPS, 8)
    if version is not None:
        sim.request(400, verb="create", resource="configmaps", namespace="t", name="settings", code=201)
        at, watch = sim.at(410), sim.watch_ids[CONFIGMAPS]
        for change, ms, event in (("added", 410, version), ("deleted", DELETED - 400, 900)):
            at = sim.at(ms)
            one = rec.ObjectSeen(
                at=at, watch=watch, change=change, name="settings", namespace="t", uid="uid-s",  # type: ignore[arg-type]
                resource_version=str(event), owner="uid-pcs",
            )  # fmt: skip
            sim.add(one)
    records = [
        msgspec.structs.replace(record, needs=[] if optional else ["configmaps/settings"])
        if isinstance(record, rec.ObjectSeen) and record.watch == sim.watch_ids[PODS] and record.change == "added"
        else record
        for record in sim.records()
    ]
    assert ("creation-order" in {one.id for one in analyse(records).findings}) == wrong


@pytest.mark.parametrize("first_stays", [True, False])
def test_a_child_that_two_owners_take_from_each_other(first_stays: bool) -> None:
    sim = settled()
    for name in ("a", "b"):
        clique(sim, name, 200, owner="uid-pcs")
    if not first_stays:
        shown(sim, "a", 400, "deleted")
    made(sim, "shared", 300, owner="uid-a")
    seen(sim, "shared", 500, "modified", owner="uid-b")
    all_gone(sim)
    taken = [one for one in found(sim) if one.id == "ownership"]
    assert bool(taken) == first_stays
    if first_stays:
        assert "from a to b" in taken[0].text


@pytest.mark.parametrize(("each", "stays", "wrong"), [(1, True, True), (2, True, True), (1, False, False)])
def test_goroutines_that_come_with_the_objects_one_for_each(each: int, stays: bool, wrong: bool) -> None:
    sim = settled()
    number = 40
    for index in range(number):
        clique(sim, f"c-{index}", 200 + 50 * index, owner="uid-pcs")
    gone(sim)
    scrape(sim, "gauge", "go_goroutines", {"start:deploy": 20.0})
    for ms in (700, 1300, 2000, 2300):
        there = sum(200 + 50 * index + 10 <= ms for index in range(number))
        sim.scrape(ms, {"go_goroutines": 20.0 + each * there})
    sim.scrape(DELETED + 890, {"go_goroutines": 20.0 + each * number * stays})
    assert ("initial-state" in ids(sim)) == wrong


@pytest.mark.parametrize(("verb", "wrong"), [("patch", True), ("create", True)])
def test_events_that_repeat(verb: str, wrong: bool) -> None:
    sim = settled()
    for number in range(120):
        sim.request(
            200 + 20 * number, verb=verb, resource="events", namespace="t", name=f"e-{number % 3}",
            code=201 if verb == "create" else 200,
        )  # fmt: skip
    assert ("housekeeping" in ids(sim)) == wrong


@pytest.mark.parametrize(("names", "severity"), [(1, "waste"), (10, "note")])
def test_reads_of_a_kind_that_is_not_watched(names: int, severity: str) -> None:
    sim = settled()
    poll(sim, 200, 2200, 50, verb="get", resource="configmaps", namespace="t", name="settings")
    if names > 1:
        sim.items = [
            (
                at,
                order,
                msgspec.structs.replace(record, name=f"c-{order % names}")
                if isinstance(record, rec.Request) and record.resource == "configmaps"
                else record,
            )
            for at, order, record in sim.items
        ]
    every = [one for one in analyse(sim.records()).findings if one.id == "needless-reads"]
    assert [one.severity for one in every] == [severity]


@pytest.mark.parametrize(("user", "wrong"), [("operator", True), ("harness", False)])
def test_a_spec_that_the_operator_changes(user: str, wrong: bool) -> None:
    sim = settled()
    clique(sim, "own", 150)
    for number in range(3):
        sim.request(200, **APPLIED, name=f"c-{number}")
        shown(sim, f"c-{number}", 210, "added", owner="")
        written(sim, f"c-{number}", 250, "content", user=user, paths=["spec.size"])
        written(sim, f"c-{number}", 300, "content", paths=["status.ready"])
    gone(sim)
    assert ("rival-writers" in {one.id for one in notes(sim)}) == wrong


@pytest.mark.parametrize(("held", "wrong"), [(400, True), (150, False)])
def test_a_finalizer_that_comes_after_the_first_child(held: int, wrong: bool) -> None:
    sim = settled()
    for number in range(5):
        name = f"c-{number}"
        clique(sim, name, 200, owner="uid-pcs", resource_version="100")
        sim.request(210, verb="patch", resource="cliques", group="a.io", namespace="t", name=name)
        shown(sim, name, 220, finalizers=["a.io/keep"], resource_version=str(held))
        sim.request(300, verb="create", resource="services", namespace="t", name=name, code=201)
        made(sim, f"{name}-child", 300, owner=f"uid-{name}")
    for index, (at, order, record) in enumerate(sim.items):
        if isinstance(record, rec.ObjectSeen) and record.name.endswith("-child"):
            sim.items[index] = at, order, msgspec.structs.replace(record, resource_version="300")
    all_gone(sim)
    assert ("left-behind" in {one.id for one in notes(sim)}) == wrong


@pytest.mark.parametrize(("cores", "severity"), [(0.5, "waste"), (0.15, "note"), (0.001, "")])
def test_the_cpu_of_a_reconcile_that_finds_nothing_to_do(cores: float, severity: str) -> None:
    """A hundred triggers, and six seconds with nothing to do after them."""
    sim = settled()
    idle_cpu(sim)
    for index, (at, order, record) in enumerate(sim.items):
        if isinstance(record, rec.Mark) and record.label == "trigger":
            sim.items[index] = at, order, msgspec.structs.replace(record, count=100)
    served = {"end:steady-state": 141.0, "start:delete": 141.0, "end:delete": 160.0}
    scrape(sim, "counter", "controller_runtime_reconcile_total", served, controller="podcliqueset", result="success")
    start = next(
        record.cpu_ns for _, _, record in sim.items if isinstance(record, rec.CpuRead) and record.edge == "start:delete"
    )
    for index, (at, order, record) in enumerate(sim.items):
        if (
            isinstance(record, rec.CpuRead)
            and record.process == "operator"
            and record.edge.endswith(("delete", "state"))
        ):
            used = start - (10**10 * cores if record.edge == "start:steady-state" else 0)
            sim.items[index] = at, order, msgspec.structs.replace(record, cpu_ns=round(used))
    for ms in (IDLE - 5000, IDLE - 1000):
        sim.add(rec.CpuRead(at=sim.at(ms), process="operator", pid=10, cpu_ns=start, rss_bytes=10**8))
    costs = [one for one in analyse(sim.records()).findings if "of CPU" in one.text and one.id == "noop-work"]
    assert [one.severity for one in costs] == ([severity] if severity else [])


@pytest.mark.parametrize(
    ("name", "grown", "wrong"),
    [
        ("op_pods_created_total", N, False),
        ("op_pods_created_total", 2 * N, True),
        ("op_pods_created_total", 0, True),
        ("op_pods_creation_failures_total", 0, False),
        ("op_widgets_created_total", 3, False),
        ("op_pods_deleted_total", 3 * N, True),
    ],
)
def test_a_counter_that_is_not_what_was_done(name: str, grown: int, wrong: bool) -> None:
    sim = settled()
    scrape(sim, "counter", name, {"start:deploy": 5.0, rec.SETTLED: 5.0 + grown})
    assert ("counter" in ids(sim)) == wrong
