"""That rules blame the operator only for what it did, in the time in which it was there."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from pytest_grovescale.analysis.analyse import analyse
from pytest_grovescale.analysis.findings.evidence import form, number_of
from pytest_grovescale.recording import records as rec
from pytest_grovescale.recording.conditions import WatchSpec

from .simulated import PODS
from .test_findings import DELETED, DEPLOYED, found, ids, made, seen, settled
from .test_findings_objects import clique, gone, shown, touched, written

CLIQUE: dict[str, Any] = {"resource": "cliques", "group": "a.io", "namespace": "t"}


@pytest.mark.parametrize(("writer", "wrong"), [("operator", True), ("kube-controller-manager", False)])
def test_a_status_is_that_of_who_writes_it_most(writer: str, wrong: bool) -> None:
    """An update of the whole object leaves a status as it is that is a part of its own."""
    sim = settled()
    clique(sim, "c", 200)
    sim.request(290, verb="update", **CLIQUE, name="c")
    for ms in (300, 350):
        sim.request(ms, user=writer, verb="patch", **CLIQUE, subresource="status", name="c")
    shown(sim, "c", 360, numbers={"metadata.generation": 2, "status.observedGeneration": 1})
    gone(sim)
    assert ("stale-status" in ids(sim)) is wrong


@pytest.mark.parametrize("deleter", ["operator", "harness"])
def test_who_deleted_an_object_is_not_who_deleted_its_namesake(deleter: str) -> None:
    sim = settled()
    for number in range(6):
        clique(sim, f"c-{number}", 200)
        sim.request(390, user="operator", verb="delete", **{**CLIQUE, "namespace": "other"}, name=f"c-{number}")
        sim.request(400, user=deleter, verb="delete", **CLIQUE, name=f"c-{number}")
        shown(sim, f"c-{number}", 410, "deleted")
    assert any("deleted again" in one.text for one in found(sim)) is (deleter == "operator")


@pytest.mark.parametrize(("before", "wrong"), [((), True), (range(2100, 4900, 100), False)])
def test_what_an_operator_writes_anyway_is_not_blamed_on_a_touch(before: tuple[int, ...], wrong: bool) -> None:
    """Each write is to another object, so that none of them was written before."""
    sim = settled()
    for number in range(60):
        clique(sim, f"c-{number}", 200 + number, owner="uid-other")
    touched(sim, "c-0", DEPLOYED + 5000)
    for number, ms in enumerate([*before, *range(5100, 5800, 100)]):
        at = DEPLOYED + ms
        sim.request(at, verb="patch", **CLIQUE, name=f"c-{number}")
        shown(sim, f"c-{number}", at + 10, difference=rec.Difference(kind="none"))
    gone(sim)
    assert any("a change of an annotation" in one.text for one in found(sim)) is wrong


@pytest.mark.parametrize(("deleter", "wrong"), [("operator", True), ("harness", False)])
def test_pods_that_the_test_deletes_are_not_replaced_for_a_trigger(deleter: str, wrong: bool) -> None:
    sim = settled(10)
    sim.events = [event for event in sim.events if event[0] < sim.at(DEPLOYED) or not event[2].startswith("pod-")]
    for number in range(10):
        sim.write(PODS, f"pod-{number}", DEPLOYED + 100 + number, user=deleter, verb="delete", fields=None)
        sim.write(PODS, f"new-{number}", DEPLOYED + 200 + number, verb="create", fields={})
    assert any("of 10 pods replaced" in one.text for one in found(sim)) is wrong


@pytest.mark.parametrize("restarted", [False, True])
def test_an_operator_that_is_not_there_waits_for_no_timer(restarted: bool) -> None:
    """In this run all pods are Ready long before the operator says so."""
    sim = settled()
    for index, (at, order, record) in enumerate(sim.items):
        if isinstance(record, rec.CpuRead) and record.process == "operator":
            sim.items[index] = at, order, msgspec.structs.replace(record, cpu_ns=record.cpu_ns // 8, waiting_ns=0)
    if restarted:
        for ms, state in ((900, "begin"), (2500, "end")):
            sim.add(rec.Mark(at=sim.at(ms), label="operator-restart", state=state))  # type: ignore[arg-type]
    assert ("dead-time" in ids(sim)) is not restarted


@pytest.mark.parametrize("user", ["operator", "kwok"])
def test_a_value_that_others_put_back_is_not_the_operators_alone(user: str) -> None:
    sim = settled()
    clique(sim, "c", 200)
    for number in range(6):
        by = ("operator", user)[number % 2]
        written(sim, "c", 300 + 100 * number, "content", user=by, paths=["spec.n"], back=["spec.n"])
    gone(sim)
    (one,) = [one for one in found(sim) if one.id == "rival-writers"]
    assert ("the operator alone" in one.text) is (user == "operator")


@pytest.mark.parametrize(
    ("user", "alone"), [("system:serviceaccount:kube-system:statefulset-controller", True), ("a-tool", False)]
)
def test_who_writes_a_status_only_and_is_of_kubernetes_is_no_rival(user: str, alone: bool) -> None:
    sim = settled()
    clique(sim, "c", 200)
    for number in range(4):
        path = "metadata.annotations.a"
        written(sim, "c", 300 + 100 * number, "content", paths=[path], back=[path])
        sim.request(350 + 100 * number, user=user, verb="update", **CLIQUE, subresource="status", name="c")
        if not alone:
            shown(sim, "c", 360 + 100 * number, difference=rec.Difference(kind="content", paths=[path], back=[path]))
    gone(sim)
    (one,) = [one for one in found(sim) if one.id == "rival-writers"]
    assert ("the operator alone" in one.text) is alone


@pytest.mark.parametrize(("finalizer", "wrong"), [("a.io/keep", True), ("kubernetes.io/pvc-protection", False)])
def test_a_finalizer_of_kubernetes_is_not_the_operators_to_take_away(finalizer: str, wrong: bool) -> None:
    sim = settled()
    made(sim, "svc", 200, owner="uid-pcs", finalizers=(finalizer,))
    seen(sim, "svc", DELETED - 900, "modified", fields={"metadata.deletionTimestamp": "2026-01-01T00:00:00Z"})
    every = [one.text for one in analyse(sim.records()).findings if one.id == "left-behind"]
    assert bool(every) is wrong
    assert all("one of the services " in text for text in every)


@pytest.mark.parametrize(
    ("owner", "severity", "words"),
    [
        ("gone", "waste", "since their owner was deleted, too"),
        ("absent", "defect", "since their owner does not exist"),
        ("there", "defect", "is not found by the kind, name and uid"),
    ],
)
def test_children_that_the_garbage_collector_removed(owner: str, severity: str, words: str) -> None:
    sim = settled()
    if owner != "absent":
        clique(sim, "parent", 190)
    if owner == "gone":
        shown(sim, "parent", 390, "deleted")
    for number in range(6):
        clique(sim, f"c-{number}", 200, owner="uid-parent")
        collector = "system:serviceaccount:kube-system:generic-garbage-collector"
        sim.request(400 + number, user=collector, verb="delete", **CLIQUE, name=f"c-{number}")
        shown(sim, f"c-{number}", 410 + number, "deleted")
    gone(sim)
    (churned,) = [one for one in found(sim) if one.id == "churn"]
    assert (churned.severity, words in churned.text) == (severity, True), churned.text


@pytest.mark.parametrize(
    ("user", "words"),
    [
        ("system:kube-controller-manager", "make a ServiceAccount before its Secret"),
        ("system:serviceaccount:kube-system:generic-garbage-collector", "the garbage collector removed them"),
    ],
)
def test_secrets_that_the_controller_manager_removed(user: str, words: str) -> None:
    """With the token of a ServiceAccount that it does not know yet, while their owner stays."""
    sim = settled()
    secrets = WatchSpec(resource="secrets", path="/api/v1/namespaces/t/secrets", fields=())
    sim.watch(secrets, 6)
    clique(sim, "parent", 190)
    for number in range(6):
        name = f"s-{number}"
        sim.request(200 + number, verb="create", resource="secrets", namespace="t", name=name, code=201)
        sim.request(220 + number, user=user, verb="delete", resource="secrets", namespace="t", name=name)
        of: dict[str, Any] = {"watch": sim.watch_ids[secrets], "name": name, "namespace": "t", "uid": f"uid-{name}"}
        sim.add(rec.ObjectSeen(at=sim.at(210 + number), change="added", owner="uid-parent", **of))
        sim.add(rec.ObjectSeen(at=sim.at(230 + number), change="deleted", owner="uid-parent", **of))
    gone(sim)
    (churned,) = [one for one in found(sim) if one.id == "churn"]
    assert (churned.severity, words in churned.text) == ("defect", True), churned.text


@pytest.mark.parametrize("number", [1, 2, 1000])
def test_a_number_of_objects_goes_with_its_verb(number: int) -> None:
    """Whatever the plural of a custom kind is: its singular is not guessed."""
    text = f"{number_of(number, 'statuses.a.io')} {form(number, 'is', 'are')}"
    assert text == {1: "one of the statuses.a.io is", 2: "2 statuses.a.io are", 1000: "1,000 statuses.a.io are"}[number]
