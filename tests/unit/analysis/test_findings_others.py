"""What rules find where the operator meets what others make: what it reads, what is scaled, what is being deleted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from pytest_grovescale.analysis.analyse import analyse
from pytest_grovescale.analysis.result import Finding
from pytest_grovescale.recording import records as rec
from pytest_grovescale.recording.conditions import WatchSpec

from .simulated import PODS, Simulation
from .test_findings import DELETED, DEPLOYED, IDLE, SERVICES, found, made, seen, settled
from .test_findings_changes import CHANGED, WATCH, applied, pod, versioned
from .test_findings_children import CONFIGMAPS, all_gone
from .test_findings_objects import CLIQUES, clique, gone, shown, written

DEPLOYMENTS = WatchSpec(resource="deployments.apps", path="/apis/apps/v1/namespaces/t/deployments")
SCALERS = WatchSpec(
    resource="horizontalpodautoscalers.autoscaling", path="/apis/autoscaling/v2/namespaces/t/horizontalpodautoscalers"
)
SETTINGS: dict[str, Any] = {"resource": "configmaps", "namespace": "t", "name": "settings"}


def findings(sim: Simulation, rule: str) -> list[Finding]:
    return [one for one in analyse(sim.records()).findings if one.id == rule]


def settings(sim: Simulation, ms: float, change: Any, **parts: Any) -> None:
    """A ConfigMap that the harness makes or changes."""
    if CONFIGMAPS not in sim.watch_ids:
        sim.watch(CONFIGMAPS, 8)
    verb, code = ("create", 201) if change == "added" else ("patch", 200)
    sim.request(ms, user="harness", verb=verb, **SETTINGS, code=code)
    sim.add(
        rec.ObjectSeen(
            at=sim.at(ms + 5), watch=sim.watch_ids[CONFIGMAPS], change=change, name="settings", namespace="t",
            uid="uid-settings", owner="", **parts,
        )
    )  # fmt: skip


@pytest.mark.parametrize(
    ("reads", "watches", "wrote", "severity"),
    [
        (3, False, "", "defect"),
        (0, False, "", None),  # it has nothing to do with them
        (0, True, "", "note"),
        (3, False, "status", None),
        (3, False, "services", None),
    ],
)
def test_a_change_of_what_the_operator_reads(reads: int, watches: bool, wrote: str, severity: str | None) -> None:
    sim = settled()
    sim.request(50, **({**WATCH, "resource": "configmaps", "group": ""} if watches else WATCH))
    applied(sim, "c-0")
    settings(sim, 140, "added")
    for number in range(reads):
        sim.request(200 + 50 * number, verb="get", **SETTINGS)
    settings(sim, CHANGED, "modified", difference=rec.Difference(kind="content", paths=["data"]))
    if wrote:
        part = "status" if wrote == "status" else ""
        kind = ("cliques", "a.io") if part else (wrote, "")
        sim.request(
            CHANGED + 100, verb="patch", resource=kind[0], group=kind[1], subresource=part, namespace="t", name="c-0"
        )
    all_gone(sim)
    effects = [one for one in findings(sim, "unapplied-changes") if "no effect" in one.text]
    assert [one.severity for one in effects] == ([severity] if severity else [])
    assert any("3 times" in line for one in effects for line in one.evidence) == (severity == "defect")


@pytest.mark.parametrize("how", ["reads", "watches", "makes", "polls", "seldom", "before", "nodes"])
def test_what_the_operator_reads_and_does_not_watch(how: str) -> None:
    sim = settled()
    sim.request(50, **({**WATCH, "resource": "configmaps", "group": ""} if how == "watches" else WATCH))
    if how == "makes":
        sim.request(150, verb="create", **SETTINGS, code=201)
    start = {"polls": DEPLOYED + 3000, "before": 20}.get(how, 300)
    parts = {**SETTINGS, **({"resource": "nodes", "namespace": ""} if how == "nodes" else {})}
    for number in range(1 if how == "seldom" else 4):
        sim.request(start + 20 * number, verb="get", **parts)
    noted = [one for one in findings(sim, "unapplied-changes") if "does not watch" in one.text]
    assert [one.severity for one in noted] == (["note"] if how == "reads" else [])


@pytest.mark.parametrize(
    ("target", "first", "last", "wrong"),
    [
        ("web", "kwok", "operator", True),
        ("web", "operator", "operator", False),  # nobody else has written it
        ("web", "operator", "kwok", False),
        ("other", "kwok", "operator", False),  # it puts back what drifted
    ],
)
def test_replicas_of_an_autoscaler(target: str, first: str, last: str, wrong: bool) -> None:
    sim = settled()
    sim.watch(DEPLOYMENTS, 8)
    sim.watch(SCALERS, 8)
    web = rec.ObjectSeen(
        at=sim.at(210), watch=sim.watch_ids[DEPLOYMENTS], change="added", name="web", namespace="t", uid="u-web",
        owner="uid-pcs",
    )  # fmt: skip
    sim.request(200, verb="create", resource="deployments", group="apps", namespace="t", name="web", code=201)
    sim.add(web)
    sim.add(
        rec.ObjectSeen(
            at=sim.at(260), watch=sim.watch_ids[SCALERS], change="added", name="scaler", namespace="t", uid="u-scaler",
            owner="uid-pcs", needs=[f"deployments.apps/{target}"],
        )
    )  # fmt: skip
    for ms, user, back in ((DEPLOYED, first, []), (DEPLOYED + 500, last, ["spec.replicas"])):
        part = "scale" if user == "kwok" else ""
        sim.request(
            ms, user=user, verb="update", resource="deployments", group="apps", subresource=part, namespace="t",
            name="web",
        )  # fmt: skip
        difference = rec.Difference(kind="content", paths=["spec.replicas"], back=back)
        sim.add(
            rec.ObjectSeen(
                at=sim.at(ms + 10), watch=web.watch, change="modified", name="web", namespace="t", uid="u-web",
                difference=difference,
            )
        )  # fmt: skip
    text = [one.text for one in findings(sim, "rival-writers") if one.severity == "defect"]
    assert any("t/scaler" in one for one in text) == wrong


@pytest.mark.parametrize(
    ("after_ms", "goes", "deleted", "wrong"),
    [
        (3000, True, True, True),
        (300, True, True, False),  # a cache may not show yet that its owner is being deleted
        (3000, False, True, False),  # what cleans up, say
        (3000, True, False, False),
        (3000, "new", True, False),  # one step of a clean-up after the other
    ],
)
def test_children_of_new_names_for_owners_that_go(
    after_ms: float, goes: bool | str, deleted: bool, wrong: bool
) -> None:
    sim = settled()
    begin = IDLE + 100
    for number in range(6):
        clique(sim, f"c-{number}", 200)
        made(sim, f"c-{number}-old", begin + 50 if goes == "new" else 250, owner=f"uid-c-{number}")
        if deleted:
            shown(sim, f"c-{number}", begin, fields={"metadata.deletionTimestamp": "2026-01-01T00:00:00Z"})
        if goes:
            seen(sim, f"c-{number}-old", begin + 100, "deleted")
        made(sim, f"c-{number}-new", begin + after_ms, owner=f"uid-c-{number}")
        seen(sim, f"c-{number}-new", DELETED - 520, "deleted")
    all_gone(sim)
    text = [one.text for one in found(sim) if one.id == "churn"]
    assert any("were being deleted" in one for one in text) == wrong


LATE = IDLE + 20
"""More than ten seconds after the trigger, and before the deletion."""


def replaced(sim: Simulation, name: str, ms: float, *, by: str = "operator", again: bool = True) -> None:
    """A Service of c-N is deleted, and another one made in its place."""
    owner = name.rpartition("-")[0]
    sim.request(ms, user=by, verb="delete", resource="services", namespace="t", name=name)
    seen(sim, name, ms + 10, "deleted")
    if again:
        made(sim, f"{name}-new", ms + 50, owner=f"uid-{owner}")


@pytest.mark.parametrize(
    ("how", "wrong"),
    [
        ("beside", True),
        ("nothing", True),
        ("generation", False),
        ("touched", False),
        ("settings", False),
        ("restart", False),
        ("harness", False),
        ("scaled down", False),
    ],
)
def test_children_replaced_although_nothing_of_theirs_had_changed(how: str, wrong: bool) -> None:
    sim = settled()
    other: dict[str, Any] = {"user": "harness", "resource": "cliques", "group": "a.io", "namespace": "t"}
    for number in range(6):
        name = f"c-{number}"
        applied(sim, name, metadata_generation=1)
        made(sim, f"{name}-s", 200, owner=f"uid-{name}")
        if how == "generation":
            shown(sim, name, LATE, numbers={"metadata.generation": 2})
        if how == "touched":
            sim.request(LATE, verb="patch", name=name, **other)
        by = "harness" if how == "harness" else "operator"
        replaced(sim, f"{name}-s", LATE + 10, by=by, again=how != "scaled down")
    if how == "beside":
        sim.request(LATE, verb="create", name="another", code=201, **other)
    if how == "settings":
        sim.request(LATE, user="harness", verb="patch", **SETTINGS)
    if how == "restart":
        for state, ms in (("begin", LATE - 500), ("end", LATE)):
            sim.add(rec.Mark(at=sim.at(ms), label="operator-restart", state=state))  # type: ignore[arg-type]
    all_gone(sim)
    text = [one.text for one in findings(sim, "churn") if one.severity == "defect"]
    assert any("of which nothing had changed" in one for one in text) == wrong
    assert any("other cliques" in one for one in text) == (how == "beside")


@pytest.mark.parametrize(
    ("same", "number", "between", "wrong"),
    [(True, 3, False, True), (True, 2, False, False), (False, 3, False, False), (True, 3, True, False)],
)
def test_what_is_made_again_under_its_name(same: bool, number: int, between: bool, wrong: bool) -> None:
    sim = settled()
    if between:
        sim.request(
            CHANGED + 120, user="harness", verb="patch", resource="cliques", group="a.io", namespace="t", name="c-0"
        )
    for index in range(4):
        name = f"c-{index}"
        applied(sim, name, metadata_generation=1)
        made(sim, f"{name}-s", 200, owner=f"uid-{name}")
        shown(sim, name, CHANGED, numbers={"metadata.generation": 2})
        if index < number:
            replaced(sim, f"{name}-s", CHANGED + 100, again=False)
            sim.request(CHANGED + 150, verb="create", resource="services", namespace="t", name=f"{name}-s", code=201)
            sim.add(
                rec.ObjectSeen(
                    at=sim.at(CHANGED + 160), watch=sim.watch_ids[SERVICES], change="added", namespace="t",
                    name=f"{name}-s" if same else f"{name}-t", uid=f"new-{name}", owner=f"uid-{name}",
                )
            )  # fmt: skip
            sim.add(
                rec.ObjectSeen(
                    at=sim.at(DELETED - 400), watch=sim.watch_ids[SERVICES], change="deleted", namespace="t",
                    name=f"{name}-s" if same else f"{name}-t", uid=f"new-{name}", owner=f"uid-{name}",
                )
            )  # fmt: skip
    all_gone(sim)
    text = [one.text for one in findings(sim, "churn")]
    assert any("under the same names" in one for one in text) == wrong


def test_what_is_made_again_twice_was_deleted_twice() -> None:
    """The log has several deletions of one name: each is of the object that had it then."""
    sim = settled()
    sim.add(rec.Mark(at=sim.at(CHANGED + 300), label="patch", state="begin"))
    for index in range(3):
        name = f"c-{index}"
        applied(sim, name, metadata_generation=1)
        made(sim, f"{name}-s", 200, owner=f"uid-{name}")
        shown(sim, name, CHANGED, numbers={"metadata.generation": 2})
        for again in range(2):
            at = CHANGED + 100 + 400 * again
            parts: dict[str, Any] = {"resource": "services", "namespace": "t", "name": f"{name}-s"}
            sim.request(at, verb="delete", **parts)
            old = f"again-{name}-{again - 1}" if again else f"uid-{name}-s"
            seen_as: dict[str, Any] = {"watch": sim.watch_ids[SERVICES], "namespace": "t", "name": f"{name}-s"}
            seen_as["owner"] = f"uid-{name}"
            sim.add(rec.ObjectSeen(at=sim.at(at + 10), change="deleted", uid=old, **seen_as))
            sim.request(at + 50, verb="create", code=201, **parts)
            sim.add(rec.ObjectSeen(at=sim.at(at + 60), change="added", uid=f"again-{name}-{again}", **seen_as))
        sim.add(rec.ObjectSeen(at=sim.at(DELETED - 400), change="deleted", uid=f"again-{name}-1", **seen_as))
    all_gone(sim)
    (text,) = [one.text for one in findings(sim, "churn") if "under the same names" in one.text]
    assert "deleted 6 services" in text


@pytest.mark.parametrize(
    ("changes", "owners", "goes", "paths", "noted"),
    [
        (1, 3, False, ["spec.image"], True),
        (2, 1, False, ["spec.image"], True),
        (1, 2, False, ["spec.image"], False),
        (1, 3, True, ["spec.image"], False),
        (1, 3, False, ["spec.size"], False),
    ],
)
def test_histories_without_end(changes: int, owners: int, goes: bool, paths: list[str], noted: bool) -> None:
    sim = settled()
    for number in range(owners):
        name = f"c-{number}"
        applied(sim, name, metadata_generation=1, spec_size=1)
        made(sim, f"{name}-0", 200, owner=f"uid-{name}")
        for step in range(1, changes + 1):
            ms = CHANGED + 1000 * step
            numbers = {"metadata.generation": 1 + step, **({"spec.size": 1 + step} if "spec.size" in paths else {})}
            shown(sim, name, ms, difference=rec.Difference(kind="content", paths=paths), numbers=numbers)
            sim.request(
                ms - 5, user="harness", verb="patch", resource="cliques", group="a.io", namespace="t", name=name
            )
            made(sim, f"{name}-{step}", ms + 100, owner=f"uid-{name}")
            if goes:
                seen(sim, f"{name}-{step - 1}", ms + 200, "deleted")
    all_gone(sim)
    assert [one.severity for one in findings(sim, "growing-objects")] == (["note"] if noted else [])


@pytest.mark.parametrize(
    ("name", "asked_ms", "owner", "noted"),
    [("c-{}-config", 300, "", True), ("c-{}-config", -50, "", False), ("other-{}", 300, "", False),
     ("c-{}-config", 300, "uid-pcs", False)],
)  # fmt: skip
def test_finalizers_that_are_taken_away_too_early(name: str, asked_ms: int, owner: str, noted: bool) -> None:
    sim = settled()
    begin = IDLE + 1000
    for number in range(3):
        clique(sim, f"c-{number}", 200, finalizers=("a.io/clean-up",))
        made(sim, name.format(number), 250, owner=owner)
        fields = {"metadata.deletionTimestamp": "2026-01-01T00:00:00Z"}
        shown(sim, f"c-{number}", begin, fields=fields)
        sim.request(begin + 50, verb="patch", resource="cliques", group="a.io", namespace="t", name=f"c-{number}")
        shown(sim, f"c-{number}", begin + 60, "deleted", fields=fields)
        ms = begin + 60 + asked_ms
        sim.request(ms, verb="delete", resource="services", namespace="t", name=name.format(number))
        seen(sim, name.format(number), ms + 20, "deleted")
    early = [one for one in findings(sim, "left-behind") if "before" in one.text]
    assert [one.severity for one in early] == (["note"] if noted else [])


@pytest.mark.parametrize(
    ("name", "stays", "noted"), [("a-t-c-{}", 0, True), ("a-t-c-{}", 1, True), ("a-c-{}", 0, False)]
)
def test_what_the_cluster_has_for_objects_whose_finalizer_was_taken_away(name: str, stays: int, noted: bool) -> None:
    """It has the namespace in its name, and no owner, since that would be in a namespace."""
    sim = settled()
    classes = WatchSpec(resource="priorityclasses.scheduling.k8s.io", path="/apis/scheduling.k8s.io/v1/priorityclasses")
    sim.watch(classes, 8)
    one: dict[str, Any] = {"resource": "priorityclasses", "group": "scheduling.k8s.io"}
    fields = {"metadata.deletionTimestamp": "2026-01-01T00:00:00Z"}
    for number in range(4):
        clique(sim, f"c-{number}", 200, finalizers=("a.io/clean-up",))
        its = name.format(number)
        sim.request(250, verb="create", **one, name=its, code=201)
        seen_ = rec.ObjectSeen(
            at=sim.at(260), watch=sim.watch_ids[classes], change="added", name=its, namespace="", uid=its, owner=""
        )
        sim.add(seen_)
        begin = IDLE + 1000
        shown(sim, f"c-{number}", begin, fields=fields)
        sim.request(begin + 50, verb="patch", resource="cliques", group="a.io", namespace="t", name=f"c-{number}")
        shown(sim, f"c-{number}", begin + 60, "deleted", fields=fields)
        if number >= stays:
            sim.request(begin + 400, verb="delete", **one, name=its)
            sim.add(msgspec.structs.replace(seen_, at=sim.at(begin + 420), change="deleted"))
    early = [one.severity for one in findings(sim, "left-behind") if "only after their cliques.a.io" in one.text]
    assert early == (["note"] if noted else [])
    left = [one.text for one in findings(sim, "left-behind") if "still exists" in one.text]
    assert [text.endswith("though it took the finalizer of its cliques.a.io away") for text in left] == [True] * stays


@pytest.mark.parametrize(
    ("each", "noted"),
    [(lambda objects: 0.1 * objects, True), (lambda objects: 10, False), (lambda objects: 0.005 * objects, False)],
)
def test_cpu_time_that_grows_with_the_objects(each: Callable[[int], float], noted: bool) -> None:
    """Sixty objects are made in each of six seconds; ``each``: ms of CPU for one of them."""
    sim = settled()
    cpu_ms = 10_000.0
    for second in range(7):
        sim.cpu("operator", 200 + 900 * second, cpu_ms / 1000)
        for number in range(30 if second < 6 else 0):
            clique(sim, f"c-{second}-{number}", 210 + 900 * second + 20 * number)
            cpu_ms += each(30 * second + number)
    for number in range(180):
        shown(sim, f"c-{number // 30}-{number % 30}", DELETED - 500, "deleted")
    grows = [one for one in findings(sim, "reconcile-amplification") if "CPU" in one.text]
    assert [one.severity for one in grows] == (["note"] if noted else [])


@pytest.mark.parametrize(
    ("maker", "owner", "noted"), [("harness", "uid-c-0", True), ("harness", "", False), ("operator", "uid-c-0", False)]
)
def test_objects_that_the_operator_takes_over(maker: str, owner: str, noted: bool) -> None:
    sim = settled()
    sim.watch(CONFIGMAPS, 8)
    applied(sim, "c-0")
    sim.request(180, user=maker, verb="create", **SETTINGS, code=201)
    one = rec.ObjectSeen(
        at=sim.at(190), watch=sim.watch_ids[CONFIGMAPS], change="added", name="settings", namespace="t", uid="u-s",
        owner="",
    )  # fmt: skip
    sim.add(one)
    sim.request(300, verb="patch", **SETTINGS)
    sim.add(msgspec.structs.replace(one, at=sim.at(310), change="modified", owner=owner))
    sim.add(msgspec.structs.replace(one, at=sim.at(DELETED - 400), change="deleted"))
    all_gone(sim)
    assert [one.severity for one in findings(sim, "ownership")] == (["note"] if noted else [])


@pytest.mark.parametrize(
    ("path", "writer", "noted"),
    [("data", "operator", True), ("data", "harness", False), ("metadata.labels", "operator", False)],
)
def test_contents_of_others_that_the_operator_changes(path: str, writer: str, noted: bool) -> None:
    sim = settled()
    applied(sim, "c-0")
    settings(sim, 140, "added")
    sim.request(300, user=writer, verb="patch", **SETTINGS)
    sim.add(
        rec.ObjectSeen(
            at=sim.at(310), watch=sim.watch_ids[CONFIGMAPS], change="modified", name="settings", namespace="t",
            uid="uid-settings", difference=rec.Difference(kind="content", paths=[path]),
        )
    )  # fmt: skip
    all_gone(sim)
    assert [one.severity for one in findings(sim, "rival-writers")] == (["note"] if noted else [])


@pytest.mark.parametrize(
    ("ready", "observed_ms", "effect", "noted"),
    [("True", 100, True, True), ("False", 100, True, False), ("True", 300, True, False), ("True", 100, False, False)],
)
def test_a_generation_that_is_observed_before_its_effect(
    ready: str, observed_ms: int, effect: bool, noted: bool
) -> None:
    sim = settled()
    for number in range(3):
        name = f"c-{number}"
        applied(sim, name, metadata_generation=1)
        made(sim, f"{name}-s", 200, owner=f"uid-{name}")
        shown(sim, name, 400, numbers={"status.conditions[type=Ready].status": ready, "status.observedGeneration": 1})
        shown(sim, name, CHANGED, numbers={"metadata.generation": 2})
        sim.request(
            CHANGED + 90, verb="patch", resource="cliques", group="a.io", subresource="status", namespace="t", name=name
        )
        shown(sim, name, CHANGED + observed_ms, numbers={"status.observedGeneration": 2})
        if effect:
            difference = rec.Difference(kind="content", paths=["spec.ports"])
            seen(sim, f"{name}-s", CHANGED + 200, "modified", difference=difference)
    all_gone(sim)
    assert any("observed" in one.text for one in findings(versioned(sim), "stale-status")) == noted


@pytest.mark.parametrize(("deleted", "back", "noted"), [(True, True, True), (False, True, False), (True, False, False)])
def test_a_generation_that_is_observed_and_ready_until_its_rollout_is_seen(
    deleted: bool, back: bool, noted: bool
) -> None:
    """``deleted``: the operator deletes a pod for it; ``back``: the object is not Ready then."""
    sim = settled()
    state = "status.conditions[type=Ready].status"
    for number in range(3):
        name = f"c-{number}"
        applied(sim, name, metadata_generation=1)
        made(sim, f"{name}-s", 200, owner=f"uid-{name}")
        pod(sim, f"{name}-0", 210, ready=300, gone_ms=CHANGED + 250 if deleted else DELETED - 300)
        shown(sim, name, 400, numbers={state: "True", "status.observedGeneration": 1})
        shown(sim, name, CHANGED, numbers={"metadata.generation": 2})
        difference = rec.Difference(kind="content", paths=["spec.ports"])
        seen(sim, f"{name}-s", CHANGED + 50, "modified", difference=difference)
        written(sim, name, CHANGED + 100, "content", paths=["status.observedGeneration"])
        shown(sim, name, CHANGED + 110, numbers={"status.observedGeneration": 2})
        if back:
            shown(sim, name, CHANGED + 400, numbers={state: "False"})
            shown(sim, name, CHANGED + 900, numbers={state: "True"})
    all_gone(sim)
    assert any("they were not" in one.text for one in findings(versioned(sim), "stale-status")) == noted


@pytest.mark.parametrize(("number", "others", "wrong"), [(4, True, True), (2, True, False), (4, False, False)])
def test_children_that_have_another_owner_than_their_name_has(number: int, others: bool, wrong: bool) -> None:
    sim = settled()
    for index in range(6):
        if others or not index:
            applied(sim, f"c-{index}")
    for index in range(1, 1 + number):
        made(sim, f"c-{index}", 300, owner="uid-c-0")
    all_gone(sim)
    texts = [one.text for one in findings(sim, "ownership")]
    assert any("names of other cliques" in text for text in texts) is wrong


@pytest.mark.parametrize(
    ("objects", "took", "verb", "wrong"),
    [(6, 20, "update", True), (3, 20, "update", False), (6, 5, "update", False), (6, 20, "get", False)],
)
def test_two_requests_for_one_object_at_once(objects: int, took: int, verb: str, wrong: bool) -> None:
    sim = settled()
    for index in range(6):
        applied(sim, f"c-{index}")
    for index in range(objects):
        for later in (0, 10):
            sim.request(
                400 + 30 * index + later, took, verb=verb, resource="cliques", group="a.io", namespace="t",
                name=f"c-{index}",
            )  # fmt: skip
    all_gone(sim)
    texts = [one.text for one in found(sim) if one.id == "rival-writers"]
    assert any("under way at once" in text for text in texts) is wrong


def of_definition(sim: Simulation, *written: str, pods_ready: bool = True, **declared: Any) -> list[rec.AnyRecord]:
    """A clique whose status the operator writes, with pods below it, and what its definition declares."""
    clique(sim, "c", 120, owner="")
    sim.request(300, verb="patch", resource="cliques", group="a.io", subresource="status", namespace="t", name="c")
    shown(sim, "c", 310, written=list(written))
    gone(sim)

    def changed(record: rec.AnyRecord) -> rec.AnyRecord:
        if isinstance(record, rec.WatchOpened) and record.watch == sim.watch_ids[CLIQUES]:
            return msgspec.structs.replace(record, declared=rec.Declared(**{"subresource": True, **declared}))
        if isinstance(record, rec.ObjectSeen) and record.watch == sim.watch_ids[PODS]:
            fields = record.fields if pods_ready else {}
            return msgspec.structs.replace(record, owner="uid-c", uid=f"uid-{record.name}", fields=fields)
        return record

    return list(map(changed, sim.records()))


@pytest.mark.parametrize(
    ("written", "declared", "pods_ready", "severities"),
    [
        (["ready"], {"status": ["ready", "observedGeneration"]}, True, ["defect"]),
        (["observedGeneration"], {"status": ["message", "observedGeneration"]}, True, []),
        (["ready"], {"status": ["ready", "selector"], "scale": {"selector": "status.selector"}}, True, ["defect"]),
        (["ready"], {"status": ["ready", "selector"]}, True, []),
        (["ready"], {"status": ["ready", "size"], "scale": {"replicas": "status.size"}}, True, ["defect"]),
        (["ready"], {"status": ["ready", "size"], "scale": {"replicas": "status.size"}}, False, []),
        (["phase"], {"status": ["phase", "readyReplicas"]}, True, ["defect"]),
        (["phase"], {"status": ["phase", "readyReplicas"]}, False, []),
        ([], {"status": ["phase", "readyReplicas"]}, False, ["defect"]),
        (["ready"], {"status": ["ready", "conditions"]}, True, ["note"]),
        (["ready"], {"status": ["ready"], "subresource": False}, True, ["note"]),
        (["ready"], {"status": ["ready"], "blank_columns": {"Ready": ".status.redy"}}, True, ["defect"]),
        (["ready"], {"status": ["ready"]}, True, []),
    ],
)
def test_fields_that_a_definition_declares_and_nothing_sets(
    written: list[str], declared: dict[str, Any], pods_ready: bool, severities: list[str]
) -> None:
    records = of_definition(settled(), *written, pods_ready=pods_ready, **declared)
    every = [each for one in analyse(records).findings for each in one.all]
    assert [one.severity for one in every if one.id == "unset-field"] == severities


@pytest.mark.parametrize("outcome", ["passed", "timeout"])
def test_fields_are_unset_where_phases_passed(outcome: str) -> None:
    records = of_definition(settled(), status=["ready", "phase"])
    ended = [
        msgspec.structs.replace(one, outcome=outcome)
        if isinstance(one, rec.PhaseEnded) and one.phase == "delete"
        else one
        for one in records
    ]
    every = [each for one in analyse(ended).findings for each in one.all]
    assert any(one.id == "unset-field" for one in every) == (outcome == "passed")


@pytest.mark.parametrize(
    ("objects", "outcome", "by", "back", "severity"),
    [
        (4, "timeout", "operator", True, "defect"),
        (1, "timeout", "operator", True, "defect"),
        (4, "passed", "operator", True, "note"),  # a test may want just that
        (1, "passed", "operator", True, ""),
        (4, "timeout", "operator", False, ""),
        (4, "timeout", "kubelet", True, ""),
    ],
)
def test_what_the_operator_sets_back_after_the_test_changed_it(
    objects: int, outcome: Any, by: str, back: bool, severity: str
) -> None:
    sim = settled()
    at = DEPLOYED + 600
    for number in range(objects):
        name = f"c-{number}"
        clique(sim, name, 200, owner="uid-pcs")
        for user, ms, returned in (("harness", at, []), (by, at + 300, ["spec.replicas"] if back else [])):
            sim.request(ms, user=user, verb="patch", resource="cliques", group="a.io", namespace="t", name=name)
            difference = rec.Difference(kind="content", paths=["spec.replicas"], back=returned)
            shown(sim, name, ms + 5, difference=difference)
        # A status of the operator's own is no such write.
        sim.request(
            at + 320, verb="patch", resource="cliques", group="a.io", subresource="status", namespace="t", name=name
        )
    for index, (time, order, record) in enumerate(sim.items):
        if isinstance(record, rec.PhaseEnded) and record.phase == "steady-state":
            sim.items[index] = time, order, msgspec.structs.replace(record, outcome=outcome)
    gone(sim)
    own = [one for one in findings(sim, "rival-writers") if "back" in one.text]
    assert [one.severity for one in own] == ([severity] if severity else [])
