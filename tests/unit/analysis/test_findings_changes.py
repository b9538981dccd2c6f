"""What rules find in a change, by the test or by the operator: without effect, with too much of it, or repeated."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from pytest_grovescale.analysis.analyse import analyse
from pytest_grovescale.analysis.findings import replacements
from pytest_grovescale.recording import records as rec
from pytest_grovescale.recording.conditions import WatchSpec

from .simulated import PODS, READY, Simulation
from .test_findings import DELETED, DEPLOYED, EDGES, IDLE, N, found, ids, made, poll, scrape, seen, settled
from .test_findings_children import APPLIED, CONFIGMAPS, all_gone, notes
from .test_findings_objects import CLIQUES, DELETION, LEASE, clique, gone, shown, written

SECRETS = WatchSpec(resource="secrets", path="/api/v1/namespaces/t/secrets")
BUDGETS = WatchSpec(resource="poddisruptionbudgets.policy", path="/apis/policy/v1/namespaces/t/poddisruptionbudgets")
WATCH: dict[str, Any] = {"verb": "watch", "resource": "cliques", "group": "a.io", "stage": "ResponseStarted"}
CHANGED = DEPLOYED + 3000


def versioned(sim: Simulation) -> Simulation:
    """Give each event a version of its own, in the order of time."""
    order = sorted(range(len(sim.items)), key=lambda index: sim.items[index][0])
    for number, index in enumerate(order):
        at, place, record = sim.items[index]
        if isinstance(record, rec.ObjectSeen) and not record.resource_version:
            sim.items[index] = at, place, msgspec.structs.replace(record, resource_version=str(1000 + number))
    return sim


def applied(sim: Simulation, name: str, **numbers: str | int) -> None:
    """The harness makes an object of the workload."""
    if not any(spec.resource == "cliques.a.io" for spec in sim.watch_ids):
        clique(sim, "own", 110)
    sim.request(150, **APPLIED, name=name)
    shown(sim, name, 160, "added", owner="", numbers={path.replace("_", "."): value for path, value in numbers.items()})


def changed(sim: Simulation, name: str, path: str, ms: float = CHANGED, **numbers: str | int) -> None:
    """The harness changes the spec of an object."""
    fields = {one.replace("_", "."): value for one, value in numbers.items()}
    written(sim, name, ms, "content", user="harness", paths=[path])
    sim.items[-1] = (*sim.items[-1][:2], msgspec.structs.replace(sim.items[-1][2], numbers=fields))


@pytest.mark.parametrize(
    ("path", "watched", "observed", "effect", "severity"),
    [
        ("spec.image", True, 2, "", "defect"),
        ("spec.image", True, 1, "", "note"),
        ("spec.image", False, 1, "", "defect"),
        ("spec.image", True, 2, "services", None),
        ("spec.paused", True, 2, "", None),
        ("metadata.annotations", True, 2, "", None),
    ],
)
def test_a_change_without_effect(path: str, watched: bool, observed: int, effect: str, severity: str | None) -> None:
    sim = settled()
    sim.request(50, **({**WATCH, "resource": "widgets"} if not watched else WATCH))
    for number in range(4):
        name = f"c-{number}"
        applied(sim, name, metadata_generation=1, status_observedGeneration=1)
        made(sim, f"{name}-s", 200, owner=f"uid-{name}")
        changed(sim, name, path, metadata_generation=2)
        written(sim, name, CHANGED + 100, "content", paths=["status.observedGeneration"])
        if observed == 2:
            shown(sim, name, CHANGED + 120, numbers={"status.observedGeneration": 2})
        if effect:
            sim.request(CHANGED + 150, verb="patch", resource=effect, namespace="t", name=f"{name}-s")
    all_gone(sim)
    every = [one for one in analyse(sim.records()).findings if one.id == "unapplied-changes"]
    effects = [one.severity for one in every if "no effect" in one.text]
    assert effects == ([severity] if severity else [])


@pytest.mark.parametrize("observed", [3, 2])
def test_a_change_that_is_observed_needs_no_longer_rest(observed: int) -> None:
    sim = settled()
    sim.request(50, **WATCH)
    for number in range(3):
        name = f"c-{number}"
        applied(sim, name, metadata_generation=1, status_observedGeneration=1)
        changed(sim, name, "spec.image", metadata_generation=2)
        written(sim, name, CHANGED + 100, "content", paths=["status.observedGeneration"])
        if number < observed:
            shown(sim, name, CHANGED + 120, numbers={"status.observedGeneration": 2})
    # The test goes on before the three seconds are over.
    sim.request(CHANGED + 1900, verb="patch", resource="services", namespace="t", name="s", user="harness")
    all_gone(sim)
    assert ("unapplied-changes" in ids(sim)) == (observed == 3)


@pytest.mark.parametrize(("missed", "wrong"), [(1, True), (0, False), (3, False)])
def test_a_change_without_effect_for_one_of_many(missed: int, wrong: bool) -> None:
    sim = settled()
    for number in range(6):
        name = f"c-{number}"
        applied(sim, name)
        made(sim, f"{name}-s", 200, owner=f"uid-{name}")
        changed(sim, name, "spec.image")
        if number >= missed:
            sim.request(CHANGED + 150, verb="patch", resource="services", namespace="t", name=f"{name}-s")
    all_gone(sim)
    assert ("unapplied-changes" in ids(sim)) == wrong


@pytest.mark.parametrize(
    ("path", "objects", "replaced", "wrong"),
    [
        ("spec.image", 6, 0, True),
        ("spec.image", 6, 4, False),
        ("spec.size", 6, 0, False),
        ("spec.image", 1, 0, True),
        ("spec.image", 1, 1, False),
    ],
)
def test_a_new_image_that_reaches_no_pod(path: str, objects: int, replaced: int, wrong: bool) -> None:
    sim = settled()
    for number in range(objects):
        name = f"c-{number}"
        pod: dict[str, Any] = {"namespace": "t", "watch": sim.watch_ids[PODS], "owner": f"uid-{name}"}
        applied(sim, name)
        made(sim, f"{name}-s", 200, owner=f"uid-{name}")
        for one in range(6 // objects):
            other = f"{name}-p{one}"
            sim.add(rec.ObjectSeen(at=sim.at(300), change="added", name=other, uid=f"uid-{other}", **pod))
        changed(sim, name, path)
        sim.request(CHANGED + 150, verb="patch", resource="services", namespace="t", name=f"{name}-s")
        if number < replaced:
            sim.add(
                rec.ObjectSeen(at=sim.at(CHANGED + 300), change="added", name=f"{name}-q", uid=f"uid-{name}-q", **pod)
            )
    all_gone(sim)
    texts = [one.text for one in analyse(sim.records()).findings if one.id == "unapplied-changes"]
    assert any(" 6 pods" in text for text in texts) == wrong


@pytest.mark.parametrize(("ahead", "by_test", "noted"), [(0, False, True), (300, False, False), (0, True, False)])
def test_pods_that_all_go_at_once_by_what_the_operator_wrote(ahead: int, by_test: bool, noted: bool) -> None:
    """``ahead``: how long before the old pods go the new ones are Ready, ms."""
    sim = settled()
    for number in range(4):
        name = f"c-{number}"
        applied(sim, name)
        made(sim, f"{name}-s", 200, owner=f"uid-{name}")
        sim.request(400, verb="patch", resource="cliques", group="a.io", subresource="status", namespace="t", name=name)
        for old, ms in ((True, 300), (False, CHANGED + 500 - ahead)):
            for one in range(2):
                pod: dict[str, Any] = {
                    "watch": sim.watch_ids[PODS], "namespace": "t", "owner": f"uid-{name}-s",
                    "name": f"{name}-{one}-{old}", "uid": f"uid-{name}-{one}-{old}", "fields": {READY: "True"},
                }  # fmt: skip
                sim.add(rec.ObjectSeen(at=sim.at(ms), change="added", **pod))
                if old:
                    sim.add(rec.ObjectSeen(at=sim.at(CHANGED + 400), change="deleted", **pod))
                    if by_test:
                        delete: dict[str, Any] = {"user": "harness", "verb": "delete", "resource": "pods"}
                        sim.request(CHANGED + 390, **delete, namespace="t", name=pod["name"])
    all_gone(sim)
    assert any("went at once" in one.text for one in notes(sim)) == noted


@pytest.mark.parametrize(("lost", "severity"), [(2, "defect"), (4, "note"), (0, None)])
def test_all_groups_of_an_object_that_go_at_once(lost: int, severity: str | None) -> None:
    """``lost``: objects of four whose two groups the operator replaces together; of the others one after the other."""
    sim = settled()
    for number in range(4):
        name = f"c-{number}"
        applied(sim, name)
        sim.request(400, verb="patch", resource="cliques", group="a.io", subresource="status", namespace="t", name=name)
        for group in range(2):
            made(sim, f"{name}-g{group}", 200, owner=f"uid-{name}")
            later = CHANGED + (0 if number < lost else 1500 * group)
            for one in range(2):
                pod(sim, f"{name}-g{group}-{one}", 250, ready=300, gone_ms=later)
                pod(sim, f"{name}-g{group}-{one + 2}", later + 50, ready=later + 400, gone_ms=DELETED - 300)
    all_gone(sim)
    found_ = [one for one in analyse(sim.records()).findings if one.id == "availability" and " cliques" in one.text]
    assert [one.severity for one in found_] == ([severity] if severity else [])


def test_a_change_that_was_sent_first_and_answered_last_has_its_effect_all_the_same() -> None:
    """As of twenty patches at a time: the log has them in the order of their answers."""
    sim = settled()
    for number in range(6):
        name = f"c-{number}"
        applied(sim, name)
        made(sim, f"{name}-s", 200, owner=f"uid-{name}")
        changed(sim, name, "spec.image")
        sim.request(CHANGED - 20, verb="patch", resource="services", namespace="t", name=f"{name}-s")
    for index, (_, place, record) in enumerate(sim.items):
        if isinstance(record, rec.Request) and record.name == "c-0" and record.received_wall == sim.at(CHANGED):
            parts = {"received_wall": sim.at(CHANGED - 40), "completed_wall": sim.at(CHANGED + 5)}
            sim.items[index] = sim.at(CHANGED + 900), place, msgspec.structs.replace(record, **parts)
    # Only the first one's effect was before the others were sent.
    for number in range(1, 6):
        sim.request(CHANGED + 150, verb="patch", resource="services", namespace="t", name=f"c-{number}-s")
    all_gone(sim)
    assert "unapplied-changes" not in ids(sim)


def configuration(sim: Simulation, name: str, ms: float, change: Any = "added", **parts: Any) -> None:
    """A ConfigMap that the operator makes or writes, and the watch shows."""
    if CONFIGMAPS not in sim.watch_ids:
        sim.watch(CONFIGMAPS, 8)
    verb, code = ("create", 201) if change == "added" else ("patch", 200)
    if change != "deleted":
        sim.request(ms, verb=verb, resource="configmaps", namespace="t", name=name, code=code)
    sim.add(
        rec.ObjectSeen(
            at=sim.at(ms + 5), watch=sim.watch_ids[CONFIGMAPS], change=change, name=name, namespace="t",
            uid=f"uid-cm-{name}", **parts,
        )
    )  # fmt: skip


def of_cliques(sim: Simulation, *, needs: bool) -> list[rec.AnyRecord]:
    """Give each pod a clique as its owner, and need of the ConfigMap of its name."""
    records = []
    for record in sim.records():
        if isinstance(record, rec.ObjectSeen) and record.watch == sim.watch_ids[PODS]:
            number = int(record.name.rpartition("-")[2]) % 3
            added = {"owner": f"uid-c-{number}", "controlled": True} if record.change == "added" else {}
            added["uid"] = f"uid-{record.name}"
            wanted = {"needs": [f"configmaps/c-{number}"]} if needs and record.change == "added" else {}
            record = msgspec.structs.replace(record, **added, **wanted)
        records.append(record)
    return records


@pytest.mark.parametrize(("changes", "noted"), [(True, True), (False, False)])
def test_pods_that_run_on_with_what_a_configuration_had_before(changes: bool, noted: bool) -> None:
    sim = settled()
    for number in range(3):
        applied(sim, f"c-{number}")
        configuration(sim, f"c-{number}", 200, owner=f"uid-c-{number}", resource_version="1")
        if changes:
            difference = rec.Difference(kind="content", paths=["data"])
            configuration(sim, f"c-{number}", CHANGED, "modified", difference=difference)
        configuration(sim, f"c-{number}", DELETED - 300, "deleted")
    gone(sim)
    every = [one for one in analyse(of_cliques(sim, needs=True)).findings if one.id == "unapplied-changes"]
    assert any("run on" in one.text for one in every) == noted


@pytest.mark.parametrize(
    ("late", "deleter", "wrong"), [(True, "operator", True), (False, "operator", False), (True, "harness", False)]
)
def test_a_configuration_that_goes_while_pods_need_it(late: bool, deleter: str, wrong: bool) -> None:
    sim = settled()
    for number in range(3):
        applied(sim, f"c-{number}")
        configuration(sim, f"c-{number}", 105, owner=f"uid-c-{number}", resource_version="1")
        at = CHANGED if late else DELETED - 300
        sim.request(at - 5, user=deleter, verb="delete", resource="configmaps", namespace="t", name=f"c-{number}")
        configuration(sim, f"c-{number}", at, "deleted")
    gone(sim)
    text = [one.text for one in analyse(of_cliques(sim, needs=True)).findings if one.id == "references"]
    assert any("still need" in one for one in text) == wrong


@pytest.mark.parametrize(("stays", "noted"), [(True, True), (False, False)])
def test_a_configuration_that_no_pod_needs_any_more(stays: bool, noted: bool) -> None:
    """A template named another one when it was made; what its pods name is what it needs now."""
    sim = settled()
    for number in range(3):
        applied(sim, f"c-{number}")
        for name in (f"c-{number}-old", f"c-{number}"):
            configuration(sim, name, 105, owner=f"uid-c-{number}", resource_version="1")
            at = DELETED - 300 if stays or name == f"c-{number}" else CHANGED
            configuration(sim, name, at, "deleted")
    gone(sim)
    records = [
        msgspec.structs.replace(record, needs=[f"configmaps/{record.name}-old"])
        if isinstance(record, rec.ObjectSeen) and record.watch == sim.watch_ids[CLIQUES] and record.change == "added"
        else record
        for record in of_cliques(sim, needs=True)
    ]
    every = [one for one in analyse(records).findings if one.id == "references"]
    assert any("stay" in one.text for one in every) == noted


@pytest.mark.parametrize(("name", "severity"), [("c-0-settings", "defect"), ("registry", "note")])
def test_what_pods_need_and_is_not_there_may_be_its_users(name: str, severity: str) -> None:
    sim = settled()
    sim.watch(CONFIGMAPS, 8)
    for number in range(3):
        applied(sim, f"c-{number}")
    gone(sim)
    records = [
        msgspec.structs.replace(record, needs=[f"configmaps/{name}"])
        if isinstance(record, rec.ObjectSeen) and record.name.startswith("pod-") and record.change == "added"
        else record
        for record in of_cliques(sim, needs=False)
    ]
    assert [one.severity for one in analyse(records).findings if one.id == "references"] == [severity]


@pytest.mark.parametrize(("watches", "noted"), [(True, False), (False, True)])
def test_kinds_that_are_made_and_not_watched(watches: bool, noted: bool) -> None:
    sim = settled()
    sim.request(50, verb="watch", resource="services" if watches else "widgets", stage="ResponseStarted")
    for number in range(5):
        made(sim, f"s-{number}", 200, owner="uid-pcs")
        seen(sim, f"s-{number}", DELETED - 300, "deleted")
    every = [one for one in notes(sim) if one.id == "unapplied-changes"]
    assert any("services" in one.text for one in every) == noted


@pytest.mark.parametrize(
    ("before", "after", "paths", "replaced", "made_ms", "earlier", "wrong"),
    [
        (3, 4, ["spec.size"], 3, 200, "", True),
        (3, 4, ["spec.size"], 0, 200, "", False),
        (4, 3, ["spec.size"], 1, 200, "", False),
        (3, 4, ["spec.size", "spec.image"], 3, 200, "", False),
        (2, 4, ["spec.size"], 3, 200, "", False),  # it is not the number of children
        (3, 4, ["spec.size"], 3, CHANGED - 1000, "", True),  # they had just been made
        (3, 4, ["spec.size"], 3, CHANGED - 1000, "spec.image", False),  # they were being replaced anyway
        (3, 2, ["spec.size"], 3, CHANGED - 1000, "spec.size", True),  # they had been made for another number
    ],
)
def test_children_replaced_for_a_change_of_their_number(
    before: int, after: int, paths: list[str], replaced: int, made_ms: int, earlier: str, wrong: bool
) -> None:
    """``earlier``: what of the spec had changed just before the children were made."""
    sim = settled()
    there = 4 if before == 4 else 3
    for number in range(3):
        name = f"c-{number}"
        applied(sim, name, spec_size=before)
        for child in range(there):
            made(sim, f"{name}-{child}", made_ms, owner=f"uid-{name}")
        if earlier:
            changed(sim, name, earlier, made_ms - 100, spec_size=before)
        changed(sim, name, paths[0], spec_size=after)
        sim.items[-1] = (
            *sim.items[-1][:2],
            msgspec.structs.replace(sim.items[-1][2], difference=rec.Difference(kind="content", paths=paths)),
        )
        for child in range(replaced):
            seen(sim, f"{name}-{child}", CHANGED + 200, "deleted")
            made(sim, f"{name}-{child}-new", CHANGED + 100, owner=f"uid-{name}")
    all_gone(sim)
    text = [one.text for one in found(sim) if one.id == "churn"]
    assert any("could have stayed" in one for one in text) == wrong


@pytest.mark.parametrize(("replaced", "wrong"), [(0, True), (1, False)])
def test_a_slow_rollout_goes_on_after_a_change_of_the_number(
    monkeypatch: pytest.MonkeyPatch, replaced: int, wrong: bool
) -> None:
    """``replaced``: of three children, those that were new before the number changed; none: it asked for no rollout."""
    # The times of this run are short.
    monkeypatch.setattr(replacements, "MOMENTS_NS", 10_000_000)
    monkeypatch.setattr(replacements, "_BEFORE_NS", 10_000_000)
    sim = settled()
    for number in range(3):
        name = f"c-{number}"
        applied(sim, name, spec_size=3)
        changed(sim, name, "spec.image", CHANGED - 1000, spec_size=3)
        for child in range(3):
            new = child < replaced
            made(sim, f"{name}-{child}", CHANGED - 800 if new else 200, owner=f"uid-{name}")
        changed(sim, name, "spec.size", spec_size=4)
        for child in range(3):
            seen(sim, f"{name}-{child}", CHANGED + 200, "deleted")
            made(sim, f"{name}-{child}-new", CHANGED + 100, owner=f"uid-{name}")
    all_gone(sim)
    assert any("could have stayed" in one.text for one in found(sim) if one.id == "churn") == wrong


@pytest.mark.parametrize(
    ("resource", "times", "generations", "cause", "severity"),
    [
        (SECRETS, 3, False, False, "defect"),
        (SECRETS, 3, False, True, "defect"),
        (SECRETS, 2, False, False, None),
        (SECRETS, 3, True, False, None),
        (CONFIGMAPS, 3, False, False, "waste"),
        (CONFIGMAPS, 3, False, True, None),
    ],
)
def test_contents_that_are_written_again(
    resource: WatchSpec, times: int, generations: bool, cause: bool, severity: str | None
) -> None:
    sim = settled()
    sim.watch(resource, 8)
    for number in range(3):
        owner, name = f"c-{number}", f"own-{number}"
        applied(sim, owner, metadata_generation=1)
        sim.request(200, verb="create", resource=resource.resource, namespace="t", name=name, code=201)
        one = rec.ObjectSeen(
            at=sim.at(210), watch=sim.watch_ids[resource], change="added", name=name, namespace="t",
            uid=f"uid-{name}", owner=f"uid-{owner}",
        )  # fmt: skip
        sim.add(one)
        if cause:
            made(sim, f"{owner}-s", 200, owner=f"uid-{owner}")
        for step in range(times):
            ms = 2500 + 1500 * step
            if generations:
                shown(sim, owner, ms - 50, numbers={"metadata.generation": step + 2})
            if cause:
                seen(sim, f"{owner}-s", ms - 200, "modified")
            sim.request(ms, verb="update", resource=resource.resource, namespace="t", name=name)
            difference = rec.Difference(kind="content", paths=["data"])
            sim.add(msgspec.structs.replace(one, at=sim.at(ms + 10), change="modified", difference=difference))
        sim.add(msgspec.structs.replace(one, at=sim.at(DELETED - 300), change="deleted"))
    all_gone(sim) if cause else gone(sim)
    severities = [one.severity for one in found(versioned(sim)) if one.id == "churn"]
    assert severities == ([severity] if severity else [])


@pytest.mark.parametrize("back", [True, False])
def test_what_is_rewritten_goes_back_and_forth_or_is_new_each_time(back: bool) -> None:
    """Two controllers of one operator that write one field look like one that draws a new value."""
    sim = settled()
    for number in range(3):
        applied(sim, f"c-{number}", metadata_generation=1)
        made(sim, f"s-{number}", 200, owner=f"uid-c-{number}")
        for step in range(4):
            ms = 2500 + 800 * step
            sim.request(ms, verb="update", resource="services", namespace="t", name=f"s-{number}")
            path = ["spec.selector.owner"]
            difference = rec.Difference(kind="content", paths=path, back=path if back and step else [])
            seen(sim, f"s-{number}", ms + 10, "modified", difference=difference)
    all_gone(sim)
    (churned,) = [one for one in found(versioned(sim)) if one.id == "churn"]
    assert ("in turn" in churned.text) == back


@pytest.mark.parametrize(("slow_ms", "others_ms", "wrong"), [(150, 2, True), (150, 130, False), (20, 2, False)])
def test_writes_that_a_webhook_takes_long_for(slow_ms: float, others_ms: float, wrong: bool) -> None:
    sim = settled()
    for number in range(12):
        sim.request(
            200 + 300 * number, slow_ms, user="harness", verb="patch", resource="cliques", group="a.io", name="c"
        )
        sim.request(360 + 300 * number, others_ms, user="harness", verb="patch", resource="nodes", name="n")
    text = [one.text for one in found(sim) if one.id == "pacing"]
    assert any("cliques" in one for one in text) == wrong


@pytest.mark.parametrize(("fastest_ms", "wrong"), [(320, True), (4, False)])
def test_writes_of_many_at_once_that_a_webhook_takes_long_for(fastest_ms: float, wrong: bool) -> None:
    """The API server is never without other work; a busy one answers some at once."""
    sim = settled()
    for number in range(24):
        ms = 200 + 100 * number
        took = fastest_ms if number == 7 else 350
        sim.request(ms, took, user="harness", verb="patch", resource="cliques", group="a.io", name=f"c-{number}")
        sim.request(ms + 20, 5, user="harness", verb="patch", resource="nodes", name="n")
    text = [one.text for one in found(sim) if one.id == "pacing"]
    assert any("a webhook" in one for one in text) == wrong


def test_deletions_of_what_is_not_there_are_one_finding() -> None:
    sim = settled()
    for number in range(12):
        for resource in ("services", "secrets"):
            parts: dict[str, Any] = {"verb": "delete", "resource": resource, "namespace": "t", "name": f"x-{number}"}
            sim.request(DELETED - 500 + number, code=404, **parts)
    gone(sim)
    (text,) = [one.text for one in found(sim) if "answered 404" in one.text]
    assert "(secrets, services)" in text


@pytest.mark.parametrize(("objects", "fixed"), [(2, True), (20, False)])
def test_failures_of_few_objects_are_tried_again_at_a_fixed_delay(objects: int, fixed: bool) -> None:
    sim = settled()
    for number in range(objects):
        clique(sim, f"c-{number}", 200)
    values = dict.fromkeys(EDGES[1:], 90.0) | {EDGES[0]: 0.0}
    scrape(sim, "counter", "controller_runtime_reconcile_total", values, controller="clique", result="error")
    gone(sim)
    (text,) = [one.text for one in found(sim) if one.id == "refused-requests"]
    assert ("45 times for each of 2 objects" in text) is fixed


def failing(number: int, verb: str, refused: int) -> list[str]:
    """Return what is said of requests where so many reconciles failed, and so many requests were answered 404."""
    sim = settled()
    values = {edge: float(number) for edge in EDGES[1:]} | {EDGES[0]: 0.0}
    scrape(sim, "counter", "controller_runtime_reconcile_total", values, controller="clique", result="error")
    for index in range(refused):
        sim.request(300 + index, verb=verb, resource="cliques", group="a.io", namespace="t", name="x", code=404)
    return [one.text for one in found(sim) if one.id == "refused-requests"]


@pytest.mark.parametrize(("verb", "number", "wrong"), [("patch", 60, True), ("get", 60, False), ("patch", 10, False)])
def test_reconciles_that_fail_since_what_they_write_is_gone(verb: str, number: int, wrong: bool) -> None:
    text = failing(number, verb, refused=number)
    assert any("is no failure" in one for one in text) == wrong, text


@pytest.mark.parametrize(
    ("verb", "refused", "number", "wrong"),
    [
        ("get", 0, 60, True),
        ("get", 60, 60, False),
        ("get", 0, 10, False),
        # What is gone already fails none that deletes it.
        ("delete", 60, 60, True),
    ],
)
def test_reconciles_that_fail_without_a_refused_request(verb: str, refused: int, number: int, wrong: bool) -> None:
    text = failing(number, verb, refused)
    assert any("ended with an error" in one for one in text) == wrong


@pytest.mark.parametrize(("number", "wrong"), [(30, True), (15, False), (24, False)])
def test_reconciles_that_fail_in_one_phase(number: int, wrong: bool) -> None:
    sim = settled()
    edges = ("start:deploy", "end:deploy", "start:delete", "end:delete", "settled")
    of: dict[str, Any] = {"controller": "clique"}
    well, failed = (0.0, 900.0, 900.0, 980.0, 980.0), (0.0, 0.0, 0.0, float(number), float(number))
    for result, values in (("success", well), ("error", failed)):
        every = dict(zip(edges, values, strict=True))
        scrape(sim, "counter", "controller_runtime_reconcile_total", every, **of, result=result)
    text = [one.text for one in found(sim) if one.id == "refused-requests"]
    assert any({f"{number}", f"{80 + number}", "delete"} <= set(one.split()) for one in text) == wrong


@pytest.mark.parametrize(("logged", "alone"), [(60, False), (90, True)])
def test_the_error_that_reconciles_fail_with_is_no_finding_of_its_own(logged: int, alone: bool) -> None:
    sim = settled()
    values = dict.fromkeys(EDGES[1:], 70.0) | {EDGES[0]: 0.0}
    scrape(sim, "counter", "controller_runtime_reconcile_total", values, controller="clique", result="error")
    sim.add(rec.Mark(at=sim.at(DELETED + 950), label="log-errors", count=logged, detail="ERROR not ready yet"))
    (first, *more) = analyse(sim.records()).findings
    assert first.id == "refused-requests"
    assert [one.id for one in (more if alone else first.explains)] == ["operator-log"]


@pytest.mark.parametrize(("gone", "noted"), [(15_000, True), (9400, False), (None, False)])
def test_an_operator_that_ends_late(gone: int | None, noted: bool) -> None:
    sim = settled()
    for state, ms in (("begin", 9000), ("end", 15_500)):
        sim.add(rec.Mark(at=sim.at(ms), label="operator-restart", state=state))  # type: ignore[arg-type]
    if gone is not None:
        sim.add(rec.ProcessGone(at=sim.at(gone), process="operator", pid=10))
    texts = [one.text for one in analyse(sim.records()).findings if one.id == "restarts"]
    assert any("took 6 s" in text for text in texts) == noted


@pytest.mark.parametrize(("verb", "code", "wrong"), [("create", 201, True), ("delete", 200, True), ("get", 200, False)])
def test_what_is_made_or_deleted_after_a_restart(verb: str, code: int, wrong: bool) -> None:
    sim = settled()
    for state, ms in (("begin", 9000), ("end", 9500)):
        sim.add(rec.Mark(at=sim.at(ms), label="operator-restart", state=state))  # type: ignore[arg-type]
    for number in range(3):
        sim.request(9800, verb=verb, resource="jobs", group="batch", namespace="t", name=f"j-{number}", code=code)
    assert ("restarts" in ids(sim)) == wrong


@pytest.mark.parametrize(("made", "replaced"), [(5, True), (1, False)])
def test_what_a_restart_replaces_is_one_finding(made: int, replaced: bool) -> None:
    sim = settled()
    for state, ms in (("begin", 9000), ("end", 9500)):
        sim.add(rec.Mark(at=sim.at(ms), label="operator-restart", state=state))  # type: ignore[arg-type]
    parts: dict[str, Any] = {"resource": "jobs", "group": "batch", "namespace": "t"}
    for number in range(5):
        sim.request(9700, verb="delete", name=f"old-{number}", **parts)
    for number in range(made):
        sim.request(9800, verb="create", name=f"new-{number}", code=201, **parts)
    (one,) = [one for one in found(sim) if one.id == "restarts"]
    assert ("makes them otherwise" in one.text) == replaced


def test_a_phase_that_only_begins_does_not_end_what_a_restart_does() -> None:
    sim = settled()
    for state, ms in (("begin", IDLE - 50), ("end", IDLE - 5)):
        sim.add(rec.Mark(at=sim.at(ms), label="operator-restart", state=state))  # type: ignore[arg-type]
    parts: dict[str, Any] = {"resource": "jobs", "group": "batch", "namespace": "t"}
    for number in range(5):
        sim.request(IDLE + 20, verb="delete", name=f"old-{number}", **parts)
        sim.request(IDLE + 30, verb="create", name=f"new-{number}", code=201, **parts)
    (one,) = [one for one in found(sim) if one.id == "restarts"]
    assert "makes them otherwise" in one.text


@pytest.mark.parametrize(("others", "wrong"), [(False, True), (True, False)])
def test_what_others_changed_after_a_restart_may_be_why_the_operator_writes(others: bool, wrong: bool) -> None:
    sim = settled()
    clique(sim, "c", 200)
    for state, ms in (("begin", 9000), ("end", 9500)):
        sim.add(rec.Mark(at=sim.at(ms), label="operator-restart", state=state))  # type: ignore[arg-type]
    parts: dict[str, Any] = {"resource": "cliques", "group": "a.io", "namespace": "t", "name": "c"}
    if others:
        sim.request(9700, user="kube-controller-manager", verb="patch", subresource="status", **parts)
    for number in range(3):
        sim.request(9800, verb="delete", resource="jobs", group="batch", namespace="t", name=f"j-{number}")
    gone(sim)
    assert ("restarts" in ids(sim)) == wrong


@pytest.mark.parametrize(("events", "writes", "wrong"), [(12, 0, True), (3, 0, False), (12, 12, False)])
def test_events_after_a_restart_without_a_change(events: int, writes: int, wrong: bool) -> None:
    sim = settled()
    for state, ms in (("begin", 9000), ("end", 9500)):
        sim.add(rec.Mark(at=sim.at(ms), label="operator-restart", state=state))  # type: ignore[arg-type]
    for number in range(events):
        sim.request(9600, verb="create", resource="events", namespace="t", name=f"c-{number}.17f", code=201)
    for number in range(writes):
        parts: dict[str, Any] = {"resource": "cliques", "group": "a.io", "namespace": "t", "name": f"c-{number}"}
        sim.request(9580, verb="patch", subresource="status", **parts)
    assert any("Events" in one.text for one in found(sim) if one.id == "restarts") == wrong


@pytest.mark.parametrize(("waits", "noted"), [(6, True), (1, False)])
def test_a_lease_of_its_own_that_it_waits_for(waits: int, noted: bool) -> None:
    """What it serves until then is not what it would count."""
    sim = settled()
    scrape(sim, "gauge", "op_pods", dict(zip(EDGES, (0.0, N, 0.0, 0.0, 0.0), strict=True)))
    for state, ms in (("begin", 7000), ("end", 7500)):
        sim.add(rec.Mark(at=sim.at(ms), label="operator-restart", state=state))  # type: ignore[arg-type]
    poll(sim, 7600, 7600 + 1500 * waits, 1500, verb="get", **LEASE)
    poll(sim, 7600 + 1500 * waits, 7601 + 1500 * waits, 1500, verb="update", **LEASE)
    assert ("restarts" in {one.id for one in notes(sim)}) == noted
    assert ("gauge" in ids(sim)) != noted


@pytest.mark.parametrize(
    ("expected", "healthy", "allowed", "severity"),
    [(0, 0, 0, "defect"), (4, 4, 0, "waste"), (1, 1, 0, "note"), (4, 4, 1, None), (4, 2, 0, None)],
)
def test_budgets_that_select_nothing_or_allow_nothing(
    expected: int, healthy: int, allowed: int, severity: str | None
) -> None:
    sim = settled()
    sim.watch(BUDGETS, 8)
    for number in range(3):
        name = f"c-{number}"
        applied(sim, name)
        sim.request(
            200, verb="create", resource="poddisruptionbudgets", group="policy", namespace="t", name=name, code=201
        )
        one = rec.ObjectSeen(
            at=sim.at(210), watch=sim.watch_ids[BUDGETS], change="added", name=name, namespace="t", uid=f"uid-b-{name}",
            owner=f"uid-{name}",
            numbers={
                "status.expectedPods": expected, "status.currentHealthy": healthy, "status.disruptionsAllowed": allowed,
            },
        )  # fmt: skip
        sim.add(one)
        sim.add(msgspec.structs.replace(one, at=sim.at(DELETED - 300), change="deleted", numbers={}))
    gone(sim)
    every = [one for one in analyse(of_cliques(sim, needs=False)).findings if one.id == "children"]
    assert [one.severity for one in every if "poddisruptionbudgets" in one.text] == ([severity] if severity else [])


def test_what_is_named_for_another_thing_is_a_part_of_it() -> None:
    sim = settled()
    applied(sim, "c-0")
    for number in range(3):
        owner = f"c-{number}"
        applied(sim, owner) if number else None
        for part in ("web", "worker", "worker-settings", "web-settings"):
            made(sim, f"{owner}-{part}", 200, owner=f"uid-{owner}")
        configuration(sim, f"{owner}-worker", 205, owner=f"uid-{owner}")
        sim.request(CHANGED, verb="delete", resource="configmaps", namespace="t", name=f"{owner}-worker")
        configuration(sim, f"{owner}-worker", CHANGED + 5, "deleted")
    all_gone(sim)
    (left,) = [one for one in found(sim) if one.id == "children"]
    assert "left 6 services" in left.text  # the worker's two of each owner, and not the web's


def pod(sim: Simulation, name: str, ms: float, *, ready: float | None = None, gone_ms: float | None = None) -> None:
    """A pod that the operator makes for a clique, c-0 for c-0-1, and deletes itself."""
    sim.request(ms, verb="create", resource="pods", namespace="t", name=name, code=201)
    owner = f"uid-{name.rpartition('-')[0]}"
    moments = [(ms + 10, "added", {}), (ready, "modified", {READY: "True"}), (gone_ms, "deleted", {READY: "True"})]
    for at, change, fields in moments:
        if at is not None:
            sim.add(
                rec.ObjectSeen(
                    at=sim.at(at), watch=sim.watch_ids[PODS], change=change, name=name, namespace="t",  # type: ignore[arg-type]
                    uid=f"uid-{name}", owner=owner, controlled=True, fields=fields,
                )
            )  # fmt: skip
    if gone_ms is not None and gone_ms < DELETED - 400:
        sim.request(gone_ms - 20, verb="delete", resource="pods", namespace="t", name=name)


@pytest.mark.parametrize(
    ("step", "deleted", "wrong"),
    [(0, "by-name", True), (300, "by-name", False), (0, "collection", True), (0, "collection-of-another", False)],
)
def test_all_pods_of_an_object_that_go_at_once(step: int, deleted: str, wrong: bool) -> None:
    """``deleted``: each by its name, or a whole collection, after which a kubelet deletes each."""
    sim = settled()
    for number in range(3):
        name = f"c-{number}"
        applied(sim, name)
        for index in range(3):
            pod(sim, f"{name}-{index}", 200, ready=900, gone_ms=CHANGED + step * index)
            pod(
                sim,
                f"{name}-{index + 3}",
                CHANGED + step * index,
                ready=CHANGED + 200 + step * index,
                gone_ms=DELETED - 300,
            )
    gone(sim)
    records = list(sim.records())
    if deleted != "by-name":
        namespace = "t" if deleted == "collection" else "other"
        sim.request(CHANGED - 30, verb="deletecollection", resource="pods", namespace=namespace)
        records = [
            msgspec.structs.replace(one, user="kubelet")
            if isinstance(one, rec.Request) and one.verb == "delete" and one.resource == "pods"
            else one
            for one in sim.records()
        ]
    every = [one.text for one in analyse(records).findings if one.id == "availability"]
    assert any("at once" in one for one in every) == wrong


@pytest.mark.parametrize(
    ("others", "by_test", "wrong"),
    [([], False, True), ([], True, False), (["a"], False, True), (["a", "b"], False, False)],
)
def test_a_template_of_the_tests_own_that_is_changed_twice(others: list[str], by_test: bool, wrong: bool) -> None:
    """``others``: what the template names and the test changes with it; ``by_test``: it writes the template itself."""
    sim = settled()
    for number in range(3):
        applied(sim, f"c-{number}")
    sim.add(rec.Mark(at=sim.at(CHANGED - 10), label="patch", state="begin"))
    for number in range(3):
        name = f"c-{number}"
        for other in others:
            sim.request(CHANGED, user="harness", verb="patch", resource="configmaps", namespace="t", name=other)
        for ms in (CHANGED + 50, CHANGED + 500):
            user = "harness" if by_test else "operator"
            sim.request(ms, user=user, verb="patch", resource="cliques", group="a.io", namespace="t", name=name)
            shown(sim, name, ms + 5, difference=rec.Difference(kind="content", paths=["spec.template.metadata.x"]))
    all_gone(sim)
    records = [
        msgspec.structs.replace(one, needs=[f"configmaps/{other}" for other in others])
        if isinstance(one, rec.ObjectSeen) and one.change == "added" and one.uid == f"uid-{one.name}"
        else one
        for one in sim.records()
    ]
    texts = [one.text for one in analyse(records).findings if one.id == "availability"]
    assert any("2 times (median) for one change" in text for text in texts) == wrong


@pytest.mark.parametrize(("rolled", "objects_written", "noted"), [(6, 12, True), (12, 12, False), (6, 6, False)])
def test_configurations_a_change_of_which_had_an_effect_for_some(
    rolled: int, objects_written: int, noted: bool
) -> None:
    """``objects_written``: those that the operator had written before, as it has to do with them."""
    sim = settled()
    sim.watch(CONFIGMAPS, 8)
    for number in range(12):
        name = f"c-{number}"
        of_harness: dict[str, Any] = {"user": "harness", "resource": "configmaps", "namespace": "t", "name": name}
        shown_now: dict[str, Any] = {"watch": sim.watch_ids[CONFIGMAPS], "namespace": "t", "uid": f"uid-cm-{name}"}
        sim.request(140, verb="create", code=201, **of_harness)
        sim.add(rec.ObjectSeen(at=sim.at(145), change="added", name=name, owner="", **shown_now))
        applied(sim, name)
        if number < objects_written:
            sim.request(300, verb="patch", resource="cliques", group="a.io", namespace="t", name=name)
        sim.request(CHANGED, verb="patch", **of_harness)
        difference = rec.Difference(kind="content", paths=["data"])
        sim.add(
            rec.ObjectSeen(at=sim.at(CHANGED + 5), change="modified", name=name, difference=difference, **shown_now)
        )
        if number < rolled:
            sim.request(CHANGED + 100, verb="patch", resource="cliques", group="a.io", namespace="t", name=name)
    sim.request(60, verb="watch", resource="configmaps", namespace="t")
    all_gone(sim)
    records = [
        msgspec.structs.replace(one, needs=[f"configmaps/{one.name}"])
        if isinstance(one, rec.ObjectSeen) and one.change == "added" and one.uid == f"uid-{one.name}"
        else one
        for one in sim.records()
    ]
    texts = [one.text for one in analyse(records).findings if one.id == "unapplied-changes"]
    assert any("no effect for 6 of them" in text for text in texts) == noted


@pytest.mark.parametrize(
    ("kind", "during", "last", "noted"),
    [
        ("Programmed", "True", 3000, True),
        ("Programmed", "False", 3000, False),
        ("Programmed", "True", 500, False),  # a cache may be behind
        ("Available", "True", 3000, False),  # as that of a Deployment
    ],
)
def test_a_condition_that_holds_for_a_new_generation_while_the_one_before_runs(
    kind: str, during: str, last: float, noted: bool
) -> None:
    sim = settled()
    path = f"status.conditions[type={kind}].status"
    status: dict[str, Any] = {**APPLIED, "user": "operator", "verb": "patch", "subresource": "status", "code": 200}
    for number in range(3):
        name = f"c-{number}"
        applied(sim, name, metadata_generation=1)
        sim.request(240, **status, name=name)
        shown(sim, name, 250, numbers={path: "False", "status.observedGeneration": 1})
        for index in range(2):
            pod(sim, f"{name}-{index}", 300, ready=900, gone_ms=CHANGED + last)
            pod(sim, f"{name}-{index + 2}", CHANGED + 200, ready=CHANGED + 400, gone_ms=DELETED - 300)
        shown(sim, name, 1000, numbers={path: "True"})
        shown(sim, name, CHANGED, numbers={"metadata.generation": 2})
        shown(sim, name, CHANGED + 100, numbers={"status.observedGeneration": 2, path: during})
    gone(sim)
    every = [one for one in analyse(sim.records()).findings if one.id == "stale-status"]
    assert any("rollout" in one.text for one in every) == noted


@pytest.mark.parametrize(
    ("times", "generations", "severity"),
    [(2, False, "waste"), (2, True, None), (1, False, None), (6, False, "defect"), (6, True, None)],
)
def test_a_template_that_is_written_twice_for_one_spec(times: int, generations: bool, severity: str | None) -> None:
    sim = settled()
    for number in range(3):
        name = f"c-{number}"
        applied(sim, name, metadata_generation=1)
        made(sim, f"{name}-s", 200, owner=f"uid-{name}")
        for step in range(times):
            ms = CHANGED + 400 * step
            if generations:
                shown(sim, name, ms - 50, numbers={"metadata.generation": step + 2})
            sim.request(ms, verb="patch", resource="services", namespace="t", name=f"{name}-s")
            seen(
                sim,
                f"{name}-s",
                ms + 10,
                "modified",
                difference=rec.Difference(kind="content", paths=["spec.template.x"]),
            )
    all_gone(sim)
    every = [one.severity for one in found(versioned(sim)) if one.id == "availability"]
    assert every == ([severity] if severity else [])


@pytest.mark.parametrize(
    ("owners", "own", "before", "wrong"),
    [
        (["spec.size"], ["spec.replicas", "spec.template.x"], False, True),
        (["spec.size"], ["spec.replicas"], False, False),
        (["spec.size"], ["spec.template.x"], False, False),  # another number, as a port
        (["spec.size", "spec.image"], ["spec.replicas", "spec.template.x"], False, False),
        (["spec.size"], ["spec.replicas", "spec.template.x"], True, False),  # a change before, which comes late
    ],
)
def test_a_template_that_changes_with_the_number_of_pods(
    owners: list[str], own: list[str], before: bool, wrong: bool
) -> None:
    sim = settled()
    for number in range(3):
        name = f"c-{number}"
        applied(sim, name, spec_size=3)
        made(sim, f"{name}-s", 200, owner=f"uid-{name}")
        if before:
            written(sim, name, CHANGED - 1000, "content", user="harness", paths=["spec.image"])
        written(sim, name, CHANGED, "content", user="harness", paths=owners)
        sim.items[-1] = (*sim.items[-1][:2], msgspec.structs.replace(sim.items[-1][2], numbers={"spec.size": 4}))
        sim.request(CHANGED + 200, verb="patch", resource="services", namespace="t", name=f"{name}-s")
        seen(sim, f"{name}-s", CHANGED + 210, "modified", difference=rec.Difference(kind="content", paths=own))
    all_gone(sim)
    assert ("availability" in ids(sim)) == wrong


@pytest.mark.parametrize(("replaced", "wrong"), [(False, True), (True, False)])
def test_failed_pods_that_stay(replaced: bool, wrong: bool) -> None:
    sim = settled()
    for number in range(3):
        name = f"c-{number}"
        applied(sim, name)
        pod(sim, f"{name}-0", 200, gone_ms=DELETED - 300)
        failed = rec.ObjectSeen(
            at=sim.at(2000), watch=sim.watch_ids[PODS], change="modified", name=f"{name}-0", namespace="t",
            uid=f"uid-{name}-0", fields={"status.phase": "Failed"},
        )  # fmt: skip
        sim.add(failed)
        if replaced:
            pod(sim, f"{name}-1", 2500, ready=3000, gone_ms=DELETED - 300)
    gone(sim)
    assert ("availability" in ids(sim)) == wrong


def test_events_without_the_right_to_are_refused_requests() -> None:
    sim = settled()
    for number in range(8):
        sim.request(300 + 10 * number, verb="create", resource="events", namespace="t", code=403)
    (one,) = found(sim)
    assert (one.id, one.severity) == ("refused-requests", "defect")


@pytest.mark.parametrize(("grown", "severity"), [(400, "waste"), (210, "waste"), (20, None)])
def test_one_object_that_grows_with_the_workload(grown: int, severity: str | None) -> None:
    sim = settled(n=12)
    clique(sim, "index", 150, owner="")
    for step in range(12):
        written(sim, "index", 300 + 100 * step, "content", paths=["spec.members"], grown=grown)
    gone(sim)
    every = [one.severity for one in found(sim) if one.id == "growing-objects"]
    assert every == ([severity] if severity else [])


@pytest.mark.parametrize(("asked", "wrong"), [(False, True), (True, False)])
def test_what_others_made_is_not_the_operators_to_delete(asked: bool, wrong: bool) -> None:
    sim = settled()
    of_user: dict[str, Any] = {"resource": "configmaps", "namespace": "t", "name": "settings"}
    sim.request(150, user="harness", verb="create", code=201, **of_user)
    if asked:
        sim.request(CHANGED, user="harness", verb="delete", **of_user)
    sim.request(CHANGED + 50, verb="delete", **of_user)
    assert ("rival-writers" in ids(sim)) == wrong


@pytest.mark.parametrize("handed_on", [True, False])
def test_a_variable_that_the_tests_own_object_has_is_handed_on(handed_on: bool) -> None:
    sim = settled()
    exposed = ["env[DB_PASSWORD] in spec"]
    applied(sim, "web")
    sim.items[-1] = (
        *sim.items[-1][:2],
        msgspec.structs.replace(sim.items[-1][2], exposed=exposed if handed_on else []),
    )
    clique(sim, "web-0", 200, owner="uid-web", exposed=exposed)
    # Kubernetes' controllers hand on what the operator wrote into a template.
    sim.add(
        rec.ObjectSeen(
            at=sim.at(300), watch=sim.watch_ids[PODS], change="added", name="web-0-p", namespace="t", uid="uid-web-0-p",
            owner="uid-web-0", exposed=exposed,
        )
    )  # fmt: skip
    all_gone(sim)
    assert ("credentials-logged" in ids(sim)) is not handed_on


@pytest.mark.parametrize(("maker", "wrong"), [("operator", True), ("harness", False)])
def test_credentials_in_what_is_no_secret(maker: str, wrong: bool) -> None:
    sim = settled()
    sim.watch(CONFIGMAPS, 8)
    sim.request(200, user=maker, verb="create", resource="configmaps", namespace="t", name="s", code=201)
    one = rec.ObjectSeen(
        at=sim.at(210), watch=sim.watch_ids[CONFIGMAPS], change="added", name="s", namespace="t", uid="uid-s",
        owner="uid-pcs", exposed=["data.settings"],
    )  # fmt: skip
    sim.add(one)
    sim.add(msgspec.structs.replace(one, at=sim.at(DELETED - 300), change="deleted", exposed=[]))
    assert ("credentials-logged" in ids(sim)) == wrong


@pytest.mark.parametrize(
    ("lost", "again", "says", "wrong"),
    [
        (2, False, "", True),
        (2, True, "", False),
        (8, False, "", False),
        (2, False, "True", False),
        (2, False, "False", True),
    ],
)
def test_writes_that_are_refused_once_and_given_up(lost: int, again: bool, says: str, wrong: bool) -> None:
    """``says``: what those say whose write was refused last; the others say True."""
    sim = settled()
    write: dict[str, Any] = {
        "verb": "update", "resource": "cliques", "group": "a.io", "subresource": "status", "namespace": "t",
    }  # fmt: skip
    for number in range(12):
        name = f"c-{number}"
        clique(sim, name, 200)
        sim.request(400, **write, name=name, code=409)
        if number >= lost or again:
            sim.request(420, **write, name=name)
            shown(sim, name, 430, difference=rec.Difference(kind="content", paths=["status.x"]))
        if says:
            value = says if number < lost else "True"
            shown(sim, name, 440, numbers={"status.conditions[type=Ready].status": value})
    gone(sim)
    assert any("not sent again" in one.text for one in found(sim)) == wrong


@pytest.mark.parametrize(
    ("said", "kind", "state", "wrong"),
    [
        ("True", "ReplicaFailure", "True", True),
        ("False", "ReplicaFailure", "True", False),
        ("True", "ReplicaFailure", "False", False),
        # Of a Deployment that is a failure; of other kinds that all is done.
        ("True", "Progressing", "False", False),
    ],
)
def test_an_object_that_is_ready_while_its_child_has_failed(said: str, kind: str, state: str, wrong: bool) -> None:
    sim = settled()
    for number in range(3):
        name = f"c-{number}"
        applied(sim, name, **{"status.conditions[type=Ready].status": said})
        sim.request(180, verb="patch", resource="cliques", group="a.io", subresource="status", namespace="t", name=name)
        made(sim, f"{name}-s", 200, owner=f"uid-{name}")
        seen(sim, f"{name}-s", 300, "modified", numbers={f"status.conditions[type={kind}].status": state})
    all_gone(sim)
    assert ("stale-status" in ids(sim)) == wrong


@pytest.mark.parametrize(
    ("kind", "later", "objects", "noted"),
    [
        ("Ready", "False", 3, True),
        ("Ready", "True", 3, False),
        # Of a mistake, or a pause, False is as it should be.
        ("Degraded", "False", 3, False),
        ("Ready", "False", 2, False),
    ],
)
def test_what_all_objects_never_became_is_a_note(kind: str, later: str, objects: int, noted: bool) -> None:
    sim = settled()
    status: dict[str, Any] = {**APPLIED, "user": "operator", "verb": "patch", "subresource": "status", "code": 200}
    for number in range(objects):
        name = f"c-{number}"
        applied(sim, name, **{f"status.conditions[type={kind}].status": "False"})
        sim.request(180, **status, name=name)
        shown(sim, name, 400 + number, numbers={f"status.conditions[type={kind}].status": later if number else "False"})
    gone(sim)
    every = [each for one in analyse(sim.records()).findings for each in one.all if each.id == "conditions"]
    assert [one.severity for one in every if "never" in one.text] == (["note"] if noted else [])


@pytest.mark.parametrize(("lost", "wrong"), [(True, True), (False, False)])
def test_a_number_of_ready_pods_that_was_right_once(lost: bool, wrong: bool) -> None:
    """Two times in which nothing changes; before the second, a pod of each object is lost."""
    sim = settled()
    for number in range(3):
        name = f"c-{number}"
        applied(sim, name, status_readyMembers=3)
        sim.request(180, verb="patch", resource="cliques", group="a.io", subresource="status", namespace="t", name=name)
        for index in range(3):
            pod(sim, f"{name}-{index}", 200, ready=900, gone_ms=11_100 if lost and not index else DELETED - 300)
    sim.request(11_000, user="harness", verb="patch", resource="nodes", name="n")
    sim.request(11_050, user="harness", verb="patch", resource="cliques", group="a.io", namespace="t", name="own")
    gone(sim)
    assert any("readyMembers" in one.text for one in found(sim) if one.id == "stale-status") == wrong


@pytest.mark.parametrize(("put_back", "wrong"), [(False, True), (True, False)])
def test_what_the_test_changed_of_the_operators_own_objects_stays(put_back: bool, wrong: bool) -> None:
    sim = settled()
    for number in range(3):
        clique(sim, f"c-{number}", 200)
        changed(sim, f"c-{number}", "spec.size")
        if put_back:
            written(sim, f"c-{number}", CHANGED + 200, "content", paths=["spec.size"])
    gone(sim)
    assert ("unapplied-changes" in ids(sim)) == wrong


@pytest.mark.parametrize(("again", "wrong"), [(False, True), (True, False)])
def test_what_the_test_deleted_is_not_made_again(again: bool, wrong: bool) -> None:
    sim = settled()
    for number in range(3):
        name = f"c-{number}"
        applied(sim, name)
        made(sim, f"{name}-s", 200, owner=f"uid-{name}")
        sim.request(CHANGED, user="harness", verb="delete", resource="services", namespace="t", name=f"{name}-s")
        seen(sim, f"{name}-s", CHANGED + 20, "deleted")
        if again:
            made(sim, f"{name}-again", CHANGED + 300, owner=f"uid-{name}")
    all_gone(sim)
    assert ("unapplied-changes" in ids(sim)) == wrong


@pytest.mark.parametrize(("deleter", "wrong"), [("operator", True), ("harness", False)])
def test_objects_that_lose_their_owner_when_it_is_deleted(deleter: str, wrong: bool) -> None:
    sim = settled()
    for number in range(3):
        clique(sim, f"c-{number}", 200)
        made(sim, f"c-{number}-s", 250, owner=f"uid-c-{number}")
        poll(sim, 2990, 2991, 1, user=deleter, name=f"c-{number}", **DELETION)
        seen(sim, f"c-{number}-s", 2995, "modified", owner="")
        shown(sim, f"c-{number}", 3000, "deleted")
        seen(sim, f"c-{number}-s", DELETED - 300, "deleted")
    gone(sim)
    text = [one.text for one in found(sim) if one.id == "left-behind"]
    assert any("without an owner" in one for one in text) == wrong


@pytest.mark.parametrize(("after", "wrong"), [(400, True), (10, False)])
def test_files_that_each_change_leaves_open(after: int, wrong: bool) -> None:
    sim = settled()
    clique(sim, "c", 200)
    written(sim, "c", CHANGED, "content", user="harness", paths=["spec.size"])
    gone(sim)
    counts = {"start:steady-state": 10, "end:steady-state": 400, "start:delete": after, "end:delete": after}
    for index, (at, order, record) in enumerate(sim.items):
        if isinstance(record, rec.CpuRead) and record.process == "operator" and record.edge in counts:
            read = msgspec.structs.replace(record, threads=5, files=counts[record.edge], sockets=3)
            sim.items[index] = at, order, read
    assert any("open files" in one.text for one in found(sim) if one.id == "initial-state") == wrong


def test_a_template_that_is_written_again_right_after_its_object_was_made() -> None:
    sim = settled()
    for number in range(3):
        name = f"c-{number}"
        applied(sim, name, metadata_generation=1)
        made(sim, f"{name}-s", 200, owner=f"uid-{name}")
        sim.request(350, verb="patch", resource="services", namespace="t", name=f"{name}-s")
        seen(sim, f"{name}-s", 360, "modified", difference=rec.Difference(kind="content", paths=["spec.template.x"]))
    all_gone(sim)
    assert "availability" in ids(versioned(sim))


@pytest.mark.parametrize(("owners", "severity"), [(1, "note"), (3, "defect")])
def test_children_made_for_owners_that_had_gone(owners: int, severity: str) -> None:
    sim = settled()
    for number in range(owners):
        clique(sim, f"c-{number}", 200)
        shown(sim, f"c-{number}", 500, "deleted")
        made(sim, f"c-{number}-s", 7000, owner=f"uid-c-{number}")
        seen(sim, f"c-{number}-s", 7500, "deleted")
    every = [one for one in analyse(sim.records()).findings if one.id == "ownership"]
    assert [one.severity for one in every] == [severity]


@pytest.mark.parametrize(("spec", "wrong"), [(CONFIGMAPS, True), (BUDGETS, False)])
def test_what_follows_the_pods_as_the_status_does_is_not_what_it_follows(spec: WatchSpec, wrong: bool) -> None:
    sim = settled()
    sim.watch(spec, 8)
    sim.request(50, verb="watch", resource="widgets", stage="ResponseStarted")
    for number in range(6):
        clique(sim, f"c-{number}", 120 + number, owner="uid-pcs")
        child = rec.ObjectSeen(
            at=sim.at(140 + number), watch=sim.watch_ids[spec], change="added", name=f"b-{number}", namespace="t",
            uid=f"uid-b-{number}", owner=f"uid-c-{number}",
        )  # fmt: skip
        difference = rec.Difference(kind="content", paths=["status.currentHealthy"])
        sim.add(child)
        sim.add(msgspec.structs.replace(child, at=sim.at(500 + number), change="modified", difference=difference))
        sim.add(msgspec.structs.replace(child, at=sim.at(DELETED - 300), change="deleted"))
        written(sim, f"c-{number}", 2000 + number, "content", paths=["status.phase"])
    gone(sim)
    assert ("stale-status" in ids(sim)) == wrong
