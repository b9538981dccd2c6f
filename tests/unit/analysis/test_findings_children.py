"""What rules find in an object beside its like, its status beside its children, and its writes beside what was new."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_grovescale.analysis.analyse import analyse
from pytest_grovescale.analysis.result import Finding
from pytest_grovescale.exposition.families import Family
from pytest_grovescale.recording import records as rec
from pytest_grovescale.recording.conditions import WatchSpec
from pytest_grovescale.recording.object_references import any_kind

from .simulated import PODS, READY, Simulation, pods
from .test_findings import DELETED, DEPLOYED, IDLE, SERVICES, N, found, ids, made, poll, scrape, seen, settled
from .test_findings_objects import CLIQUES, DELETION, clique, gone, idle_cpu, shown, touched, written

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
    last = {one.name: one for _, _, one in sim.items if isinstance(one, rec.ObjectSeen) and one.watch in watches}
    for name in (name for name, one in last.items() if one.change != "deleted"):
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
    ("phase", "parts", "wrong"),
    [("Failed", 3, False), ("InvalidSpec", 3, False), ("Pending", 3, True), ("", 3, True)],
)
def test_an_object_that_says_that_it_failed_may_have_no_children(phase: str, parts: int, wrong: bool) -> None:
    sim = settled()
    for number in range(10):
        odd = number == 7
        family(sim, number, 0 if odd else 3, status_phase=phase if odd else "Ready", spec_parts=parts)
    all_gone(sim)
    assert any(one.id == "children" and one.severity == "defect" for one in found(sim)) == wrong


@pytest.mark.parametrize(("parts", "wrong"), [(0, False), (7, True)])
def test_an_object_of_another_spec_that_is_not_ready_may_have_no_children(parts: int, wrong: bool) -> None:
    sim = settled()
    for number in range(10):
        odd = number == 7
        numbers: dict[str, str | int] = {READY: "False" if odd else "True", "spec.parts": parts if odd else 7}
        family(sim, number, 0 if odd else 3, **numbers)
    all_gone(sim)
    assert any(one.id == "children" and one.severity == "defect" for one in found(sim)) == wrong


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


@pytest.mark.parametrize(("children", "workers", "named"), [(4, 4, []), (2, 3, ["spec.retries or spec.workers"])])
def test_a_number_of_a_spec_that_is_that_of_the_children_by_chance(
    children: int, workers: int, named: list[str]
) -> None:
    """A field that is right for all says how many there are to be; where none is, each that may is named, once."""
    sim = settled()
    for number in range(9):
        family(sim, number, 3, spec_workers=3, spec_retries=3)
    family(sim, 9, children, spec_workers=workers, spec_retries=3)
    all_gone(sim)
    assert [path for one in found(sim) for path in re.findall(r"spec[\w.]+(?: or spec[\w.]+)?", one.text)] == named


@pytest.mark.parametrize("path", ["spec_replicas", "status_observedGeneration"])
@pytest.mark.parametrize(("each", "pods"), [(1, 0), (2, 0), (3, 60)])
def test_a_workload_of_two_sizes_is_right(path: str, each: int, pods: int) -> None:
    """Each owner has as many Services, as one Role each; that most have as many replicas is chance."""
    sim = settled(60)
    for number in range(10):
        family(sim, number, each, **{path: 60 if number == 4 else each})
    all_gone(sim)
    records = [
        msgspec.structs.replace(record, owner="uid-c-4", uid=f"uid-{record.name}")
        if pods and isinstance(record, rec.ObjectSeen) and record.watch == sim.watch_ids[PODS]
        else record
        for record in sim.records()
    ]
    assert "children" not in {one.id for one in analyse(records).findings if one.severity == "defect"}


@pytest.mark.parametrize(("before", "wrong"), [(3, False), (1, True)])
def test_a_number_that_was_not_that_of_the_children_before(before: int, wrong: bool) -> None:
    """All were scaled to one, and have one Service each all the time, but one that has two."""
    sim = settled()
    for number in range(10):
        family(sim, number, 2 if number == 0 else 1, spec_replicas=before)
        if before != 1:
            numbers = {"spec.replicas": 1}
            shown(sim, f"c-{number}", IDLE + 100, numbers=numbers)
    all_gone(sim)
    odd = [one for one in found(sim) if "another number" in one.text]
    assert bool(odd) is wrong


@given(st.lists(st.integers(min_value=0, max_value=4), min_size=1, max_size=12))
def test_numbers_that_are_right_are_never_wrong(counts: list[int]) -> None:
    sim = settled()
    for number, count in enumerate(counts):
        family(sim, number, count, status_made=count, spec_replicas=count)
    all_gone(sim)
    odd = [one for one in found(sim) if one.id == "children"]
    assert all("of the services" in one.text for one in odd)


@pytest.mark.parametrize("makers", [["operator"], ["operator", "another"]])
def test_children_that_were_there_when_their_kind_was_first_followed_are_children(makers: list[str]) -> None:
    """Those with generated names, which the audit log does not have; who made them is unknown where several did."""
    sim = settled()
    sim.watch(SERVICES, 305)
    for number in range(10):
        family(sim, number, 0, status_made=3)
        for child in range(3):
            ms, name = 300 + 10 * number + child, f"c-{number}-{child}"
            user = makers[-1] if not number else makers[0]
            sim.request(ms, user=user, verb="create", resource="services", namespace="t", name="", code=201)
            seen(sim, name, max(ms, 306), "added", initial=not number, owner=f"uid-c-{number}")
    all_gone(sim)
    assert "children" not in ids(sim)


@pytest.mark.parametrize(
    ("names", "writes", "asked", "severity"),
    [
        (("bcdfg", "xz245"), True, 1, "defect"),
        (("bcdfg", "xz245"), True, 2, "note"),  # what its spec asks for
        (("bcdfg", "xz245"), False, 1, "note"),  # in one go
        (("web", "api"), True, 1, "note"),
    ],
)
def test_children_that_were_made_twice(names: tuple[str, str], writes: bool, asked: int, severity: str) -> None:
    sim = settled()
    for number in range(12):
        name, ms = f"c-{number}", 300 + 10 * number
        two = number < 2
        size = {"spec.size": 2} if two and asked == 2 else {}
        clique(sim, name, 200 + number, numbers={**size, "metadata.generation": 1})
        made(sim, f"{name}-{names[0]}", ms, owner=f"uid-{name}")
        if writes:
            written(sim, name, ms + 30, "content", paths=["status.child"])
        if two:
            made(sim, f"{name}-{names[1]}", ms + 100, owner=f"uid-{name}")
    all_gone(sim)
    every = [one for one in analyse(sim.records()).findings if one.id == "children" and "of the services" in one.text]
    assert [one.severity for one in every] == [severity]


def test_children_that_still_change_say_nothing() -> None:
    sim = settled()
    for number in range(10):
        family(sim, number, 3 if number else 0)
    for ms in range(DEPLOYED, IDLE, 500):
        seen(sim, "c-1-0", ms, "modified")
    all_gone(sim)
    assert "children" not in ids(sim)


@pytest.mark.parametrize(("until", "wrong"), [(DEPLOYED + 200, True), (IDLE - 50, False)])
def test_nothing_is_idle_while_the_test_restarts_the_operator(until: float, wrong: bool) -> None:
    sim = settled()
    for number in range(10):
        family(sim, number, 3 if number else 2, spec_replicas=3)
    for state, ms in (("begin", DEPLOYED + 100), ("end", until)):
        sim.add(rec.Mark(at=sim.at(ms), label="operator-restart", state=state))  # type: ignore[arg-type]
    all_gone(sim)
    assert ("children" in ids(sim)) == wrong


CONDITION = "status.conditions[type=Ready].status"


@pytest.mark.parametrize(("said", "controlled", "together"), [("False", True, True), ("True", False, False)])
def test_an_owner_that_is_wrong_by_what_is_below_it_is_shown_with_that(
    said: str, controlled: bool, together: bool
) -> None:
    """``said``: what the cliques say, all of whose pods are Ready; the Services above them say that none is."""
    sim = settled()
    status: dict[str, Any] = {"verb": "patch", "subresource": "status", "namespace": "t"}
    for number in range(3):
        made(sim, f"s-{number}", 190)
        clique(sim, f"c-{number}", 200, owner=f"uid-s-{number}", controlled=controlled)
        pod: dict[str, Any] = {"namespace": "t", "watch": sim.watch_ids[PODS], "owner": f"uid-c-{number}"}
        ready: dict[str, Any] = {"name": f"q-{number}", "uid": f"uid-q-{number}", "fields": {READY: "True"}}
        sim.add(rec.ObjectSeen(at=sim.at(300), change="added", **ready, **pod))
        sim.request(400, resource="cliques", group="a.io", name=f"c-{number}", **status)
        shown(sim, f"c-{number}", 410, numbers={CONDITION: said, "spec.replicas": 1})
        sim.request(420, resource="services", name=f"s-{number}", **status)
        seen(sim, f"s-{number}", 430, "modified", numbers={CONDITION: "False", "spec.replicas": 1})
    every = [one for one in analyse(sim.records()).findings if one.id == "stale-status"]
    (services,) = [one for group in every for one in group.all if " services " in one.text]
    assert any(services in group.explains for group in every) == together
    assert ("controller: true" in services.text) != controlled


@pytest.mark.parametrize(
    ("values", "reason", "wrong"),
    [
        (["False", "True", "False", "True"], "", True),
        (["False", "True"], "", False),
        (["Unknown", "False", "True"], "", False),
        (["False", "True", "False", "True"], "generation", False),
        (["False", "True", "False", "True"], "other", False),
        (["False", "True", "False", "True"], "route", False),  # an object that refers to it
        (["False", "True", "False", "True"], "child", False),  # rolled out again, for whatever reason
        (["False", "True", "False", "True"], "orphan", False),  # of a child that later loses its owner
        (["False", "True", "False", "True"], "elsewhere", False),  # the state of what it uses
        (["False", "True", "False", "True"], "sibling", True),  # of one owner
    ],
)
def test_a_condition_that_goes_back(values: list[str], reason: str, wrong: bool) -> None:
    sim = settled()
    if reason == "sibling":
        clique(sim, "root", 190, owner="")
    for number in range(3):
        owner: dict[str, Any] = {"owner": "uid-root"} if reason == "sibling" else {}
        clique(sim, f"c-{number}", 200, numbers={"metadata.generation": 1, CONDITION: values[0]}, **owner)
        clique(sim, f"d-{number}", 210, owner=f"uid-c-{number}", numbers={"metadata.generation": 1})
        for step, value in enumerate(values[1:], 1):
            ms = 250 + 1000 * step
            if reason in ("elsewhere", "sibling"):
                if step == 1:
                    made(sim, f"s-{number}", 205, owner="uid-root" if reason == "sibling" else "")
                sim.request(
                    ms - 110, verb="patch", resource="services", subresource="status", namespace="t", name=f"s-{number}"
                )
                state = {CONDITION: value, "metadata.generation": step + 1}
                seen(sim, f"s-{number}", ms - 100, "modified", numbers=state)
            if reason == "route":
                sim.request(ms, **{**APPLIED, "resource": "routes"}, name=f"r-{number}-{step}")
            elif reason in ("child", "orphan"):
                shown(sim, f"d-{number}", ms, numbers={"metadata.generation": step + 1})
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
        if reason == "orphan":
            shown(sim, f"c-{number}", DELETED - 800, fields={"metadata.deletionTimestamp": "2026-01-01T00:00:00Z"})
            shown(sim, f"d-{number}", DELETED - 700, owner="")
    gone(sim)
    assert ("conditions" in ids(sim)) == wrong


@pytest.mark.parametrize("restarted", [True, False])
def test_a_condition_that_goes_back_after_a_restart_is_called_so(restarted: bool) -> None:
    sim = settled()
    for ms, state in ((1200, "begin"), (1240, "end")) if restarted else ():
        sim.add(rec.Mark(at=sim.at(ms), label="operator-restart", state=state))  # type: ignore[arg-type]
    for number in range(3):
        clique(sim, f"c-{number}", 200, numbers={"metadata.generation": 1, CONDITION: "False"})
        for ms, value in ((400, "True"), (1250, "False"), (1450, "True")):
            sim.request(
                ms, verb="patch", resource="cliques", group="a.io", subresource="status", namespace="t",
                name=f"c-{number}",
            )  # fmt: skip
            shown(sim, f"c-{number}", ms + 10, numbers={CONDITION: value})
    gone(sim)
    (one,) = [one for one in found(sim) if one.id == "conditions"]
    assert ("starts again" in one.text) is restarted


@pytest.mark.parametrize(("restart", "wrong"), [(5000, True), (2900, False)])
def test_what_came_long_before_a_restart_is_no_reason_to_take_a_condition_back(restart: int, wrong: bool) -> None:
    """The test changes something else 2500 ms into the run, which may concern what was taken back just after."""
    sim = settled()
    sim.request(2500, user="harness", verb="patch", resource="secrets", namespace="t", name="s")
    for ms, state in ((restart, "begin"), (restart + 40, "end")):
        sim.add(rec.Mark(at=sim.at(ms), label="operator-restart", state=state))  # type: ignore[arg-type]
    for number in range(3):
        clique(sim, f"c-{number}", 200, numbers={"metadata.generation": 1, CONDITION: "False"})
        for ms, value in ((400, "True"), (restart + 50, "False"), (restart + 250, "True")):
            status = {"resource": "cliques", "group": "a.io", "subresource": "status", "namespace": "t"}
            sim.request(ms, verb="patch", name=f"c-{number}", **status)  # type: ignore[arg-type]
            shown(sim, f"c-{number}", ms + 10, numbers={CONDITION: value})
    gone(sim)
    assert ("conditions" in ids(sim)) is wrong


@pytest.mark.parametrize("came", ["status", "status.conditions", "status.conditions[].status", "status.phase"])
@pytest.mark.parametrize(("later_ms", "wrong"), [(300, False), (3500, True)])
def test_a_transition_that_a_lagging_cache_repeats_is_one(came: str, later_ms: int, wrong: bool) -> None:
    sim = settled()
    for number in range(6):
        clique(sim, f"c-{number}", 200)
        time = "status.conditions[].lastTransitionTime"
        written(sim, f"c-{number}", 600, "content", paths=[came])
        written(sim, f"c-{number}", 600 + later_ms, "time", paths=[time], moved=1)
    gone(sim)
    assert ("conditions" in ids(sim)) == (wrong or came == "status.phase")


@pytest.mark.parametrize("moved", [1, 0])
def test_a_time_of_transition_without_one(moved: int) -> None:
    sim = settled()
    for number in range(3):
        clique(sim, f"c-{number}", 200)
        for step in range(2):
            fields = ["status.conditions[].lastTransitionTime", "status.conditions[].status"]
            written(sim, f"c-{number}", 600 + 400 * step, "content", paths=fields, moved=moved)
    gone(sim)
    assert ids(sim) == ({"conditions"} if moved else set())


@pytest.mark.parametrize(("kept", "later_ms", "wrong"), [(9, 300, False), (9, 1500, True), (1, 300, True)])
def test_a_cache_that_lags_moves_few_times_of_transition(kept: int, later_ms: int, wrong: bool) -> None:
    """Each of five objects has changes that keep the time, and then one that does not."""
    sim = settled()
    for number in range(5):
        clique(sim, f"c-{number}", 200)
        for step in range(kept):
            written(sim, f"c-{number}", 600 + 20 * step, "content", paths=["status.ready"])
        last = 600 + 20 * (kept - 1)
        written(sim, f"c-{number}", last + later_ms, "time", paths=["status.conditions[].lastTransitionTime"], moved=1)
    gone(sim)
    assert ("conditions" in ids(sim)) is wrong


@pytest.mark.parametrize(("moved", "wrong"), [(1, True), (0, False)])
def test_a_time_of_transition_that_each_start_moves(moved: int, wrong: bool) -> None:
    sim = settled()
    for state, ms in (("begin", DEPLOYED + 1000), ("end", DEPLOYED + 1100)):
        sim.add(rec.Mark(at=sim.at(ms), label="operator-restart", state=state))  # type: ignore[arg-type]
    for number in range(6):
        clique(sim, f"c-{number}", 200)
        fields = ["status.conditions[].lastTransitionTime"]
        written(sim, f"c-{number}", DEPLOYED + 1500 + number, "time", paths=fields, moved=moved)
    gone(sim)
    moves = [one.text for one in found(sim) if one.id == "conditions"]
    assert ["after a restart" in text for text in moves] == [True] * wrong


@pytest.mark.parametrize(
    ("paths", "ms", "wrong"),
    [(["message"], DEPLOYED + 5300, True), (["message", "reason"], DEPLOYED + 5300, False), (["message"], 400, False)],
)
def test_a_message_that_changes_by_itself(paths: list[str], ms: int, wrong: bool) -> None:
    sim = settled()
    clique(sim, "c", 200, owner="uid-other")
    touched(sim, "c", DEPLOYED + 5000)
    for step in range(3):
        fields = [f"status.conditions[].{path}" for path in paths]
        written(sim, "c", ms + 100 * step, "content", paths=fields)
    gone(sim)
    said = [one for one in found(sim) if "changes by itself" in one.text]
    assert bool(said) is wrong


@pytest.mark.parametrize(
    ("said", "ready", "wanted", "phase", "wrong"),
    [
        ("False", "True", 10, "Running", True),
        ("False", "True", 11, "Running", False),
        ("True", "True", 10, "Running", False),
        ("True", "False", 10, "Running", True),
        ("True", "False", 10, "Failed", True),
        ("True", "False", 10, "Succeeded", False),
        ("False", "False", 10, "Running", False),
    ],
)
def test_a_condition_that_all_pods_contradict(said: str, ready: str, wanted: int, phase: str, wrong: bool) -> None:
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
            fields={READY: ready if record.fields.get(READY) == "True" else "False", "status.phase": phase},
        )
        if isinstance(record, rec.ObjectSeen) and record.watch == sim.watch_ids[PODS]
        else record
        for record in sim.records()
    ]
    assert ("stale-status" in {one.id for one in analyse(records).findings if one.severity != "note"}) == wrong


@pytest.mark.parametrize(
    ("name", "completed", "ended", "wanted", "wrong"),
    [
        ("completed", 3, 2, 2, True),
        ("stepsSucceeded", 3, 2, 2, True),
        ("completed", 2, 2, 2, False),
        ("completed", 3, 2, 3, False),  # one that is no Job
        ("completed", 3, 2, 5, False),
        ("attempts", 3, 2, 2, False),
    ],
)
def test_more_that_is_completed_than_there_is(name: str, completed: int, ended: int, wanted: int, wrong: bool) -> None:
    sim = settled()
    clique(sim, "c", 120, numbers={"spec.steps[]": wanted})
    for number in range(ended):
        clique(sim, f"s-{number}", 200, owner="uid-c")
        shown(sim, f"s-{number}", 300, numbers={"status.conditions[type=Complete].status": "True"})
    sim.request(3500, verb="patch", resource="cliques", group="a.io", subresource="status", namespace="t", name="c")
    shown(sim, "c", 3510, numbers={f"status.{name}": completed})
    gone(sim)
    assert ("stale-status" in {one.id for one in found(sim) if one.severity != "note"}) is wrong


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


@pytest.mark.parametrize(
    ("path", "user", "later", "objects", "wrong"),
    [
        ("spec.color", "operator", 5, 6, True),
        ("spec.color", "operator", 5, 4, False),
        ("spec.color", "operator", 1500, 6, False),
        ("spec.color", "kwok", 5, 6, False),
        ("spec.schedulingGates", "operator", 5, 6, False),
        ("status.color", "operator", 5, 6, False),
    ],
)
def test_objects_that_are_made_in_two_requests(path: str, user: str, later: int, objects: int, wrong: bool) -> None:
    sim = settled()
    for number in range(objects):
        clique(sim, f"c-{number}", 200)
        written(sim, f"c-{number}", 210 + later, "content", user=user, paths=[path])
    gone(sim)
    assert ("wasted-writes" in ids(sim)) == wrong


@pytest.mark.parametrize(
    ("before", "user", "kind", "wrong"),
    [
        (20, "operator", "content", True),
        (500, "operator", "content", False),
        (20, "kwok", "content", False),
        (20, "operator", "none", False),
    ],
)
def test_objects_that_are_written_right_before_they_are_deleted(
    before: int, user: str, kind: rec.DifferenceKind, wrong: bool
) -> None:
    sim = settled()
    for number in range(6):
        clique(sim, f"c-{number}", 200)
        written(sim, f"c-{number}", 5000 - before, kind, user=user, paths=["metadata.annotations.a.io/deleting"])
        sim.request(5000, verb="delete", resource="cliques", group="a.io", namespace="t", name=f"c-{number}")
        shown(sim, f"c-{number}", 5020, "deleted")
    assert ("wasted-writes" in ids(sim)) == wrong


@pytest.mark.parametrize(("number", "follow", "severity"), [(20, True, "waste"), (20, False, "note"), (19, True, None)])
def test_writes_that_are_tried_first(number: int, follow: bool, severity: str | None) -> None:
    sim = settled()
    parts: dict[str, Any] = {"verb": "create", "resource": "secrets", "namespace": "t", "code": 201}
    for index in range(number):
        sim.request(300 + 40 * index, dry_run=True, name=f"s-{index}", **parts)
        if follow:
            sim.request(320 + 40 * index, name=f"s-{index}", **parts)
    every = [each for one in analyse(sim.records()).findings for each in one.all if each.id == "wasted-writes"]
    assert [one.severity for one in every] == ([severity] if severity else [])


def test_what_is_written_again_and_again_was_not_left_out_of_the_creation() -> None:
    sim = settled()
    for number in range(6):
        clique(sim, f"c-{number}", 200)
        for ms in (220, 2000):
            written(sim, f"c-{number}", ms, "content", paths=["spec.color"])
    gone(sim)
    assert "wasted-writes" not in ids(sim)


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


@pytest.mark.parametrize(("path", "named"), [("status.ready", True), ("metadata.labels.a", False)])
def test_what_had_changed_before_a_timer_is_named(path: str, named: bool) -> None:
    sim = Simulation()
    sim.watch(PODS, 1)
    sim.watch(CLIQUES, 5)
    sim.phase("deploy", 100, 9000, "passed", made=pods(1))
    for ms in range(0, 9000, 500):
        sim.cpu("operator", ms, ms / 100_000)
    clique(sim, "c", 200)
    made(sim, "s", 250, owner="uid-c")
    seen(sim, "s", 700, "modified", difference=rec.Difference(kind="content", paths=[path]))
    written(sim, "c", 5000, "content", paths=["status.ready"])
    sim.write(PODS, "pod", 5100, user="operator", verb="create", fields={})
    sim.items.sort(key=lambda item: item[:2])
    text = [one.text for one in found(sim) if one.id == "dead-time"]
    assert [("services below c had changed 4.3 s before" in one) for one in text] == [named]


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
    assert ("references" in {one.id for one in analyse(records).findings}) == wrong


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


@pytest.mark.parametrize(
    ("user", "scaled", "wrong"), [("operator", False, True), ("harness", False, False), ("operator", True, False)]
)
def test_a_spec_that_the_operator_changes(user: str, scaled: bool, wrong: bool) -> None:
    """``scaled``: the test changed it through the scale subresource just before the operator's patch of nothing."""
    sim = settled()
    clique(sim, "own", 150)
    for number in range(3):
        sim.request(200, **APPLIED, name=f"c-{number}")
        shown(sim, f"c-{number}", 210, "added", owner="")
        if scaled:
            sim.request(245, **{**APPLIED, "verb": "patch", "subresource": "scale", "code": 200}, name=f"c-{number}")
        written(sim, f"c-{number}", 250, "content", user=user, paths=["spec.size"])
        written(sim, f"c-{number}", 300, "content", paths=["status.ready"])
    gone(sim)
    assert ("rival-writers" in {one.id for one in notes(sim)}) == wrong


@pytest.mark.parametrize(
    ("finalizer", "held", "wrong"),
    [("a.io/keep", 400, True), ("a.io/keep", 150, False), ("foregroundDeletion", 400, False)],
)
def test_a_finalizer_that_comes_after_the_first_child(finalizer: str, held: int, wrong: bool) -> None:
    sim = settled()
    for number in range(5):
        name = f"c-{number}"
        clique(sim, name, 200, owner="uid-pcs", resource_version="100")
        sim.request(210, verb="patch", resource="cliques", group="a.io", namespace="t", name=name)
        shown(sim, name, 220, finalizers=[finalizer], resource_version=str(held))
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
        ("pods_operator_widgets_created_total", 3, False),
        ("op_pods_successfully_created_total", 0, True),
        ("op_pods_deleted_total", 3 * N, True),
    ],
)
def test_a_counter_that_is_not_what_was_done(name: str, grown: int, wrong: bool) -> None:
    sim = settled()
    scrape(sim, "counter", name, {"start:deploy": 5.0, rec.SETTLED: 5.0 + grown})
    assert ("counter" in ids(sim)) == wrong


@pytest.mark.parametrize(
    ("name", "kind", "grown", "wrong"),
    [
        ("op_time_to_ready_seconds", "histogram", 30, True),
        ("op_gadgets_restarted_total", "counter", 30, True),
        ("op_gadgets_restarted_total", "counter", 12, False),
        ("op_gadgets_restarted_total", "counter", 0, False),
        ("op_looked_total", "counter", 30, False),
        ("op_creation_checks_total", "counter", 30, False),
    ],
)
@pytest.mark.parametrize("happens", [False, True])
def test_a_counter_of_what_happens_that_grows_with_reconciles(
    name: str, kind: str, grown: int, wrong: bool, happens: bool
) -> None:
    sim = settled()
    clique(sim, "c", 200)
    if happens:
        status_write(sim, "c", IDLE - 5000)
    gone(sim)
    edges = ("start:deploy", "end:deploy", "start:steady-state", "end:steady-state", "start:delete")
    for family, type_, series, count in (
        ("controller_runtime_reconcile_total", "counter", "controller_runtime_reconcile_total", 30),
        (name, kind, name + ("_count" if kind == "histogram" else ""), grown),
    ):
        labels = {"controller": "clique", "result": "success"} if family.startswith("controller") else {}
        values = dict(zip(edges, (0.0, 9.0, 9.0, 9.0 + count, 9.0 + count), strict=True))
        scrape(sim, type_, series, values, **labels)
        if kind == "histogram" and series != family:
            retyped(sim, series, family)
    assert ("counter" in ids(sim)) == (wrong and not happens)


def retyped(sim: Simulation, series: str, family: str) -> None:
    """Have a series served as a part of a histogram."""
    for index, (at, order, record) in enumerate(sim.items):
        if isinstance(record, rec.Scraped) and series in record.families:
            families = {**record.families, family: Family(name=family, type="histogram", help="h")}
            del families[series]
            sim.items[index] = at, order, msgspec.structs.replace(record, families=families)


def status_write(sim: Simulation, name: str, ms: float, **parts: Any) -> None:
    """The operator writes a status, and the watch shows its new numbers."""
    sim.request(ms, verb="patch", resource="cliques", group="a.io", subresource="status", namespace="t", name=name)
    shown(sim, name, ms + 10, difference=rec.Difference(kind="content", paths=["status.size"]), **parts)


@pytest.mark.parametrize(("grown", "wrong"), [(12, False), (9, False), (24, True), (0, True)])
def test_a_counter_of_what_has_ended(grown: int, wrong: bool) -> None:
    """Nine of twelve objects end with success."""
    sim = settled()
    for number in range(12):
        clique(sim, f"c-{number}", 200)
        status_write(sim, f"c-{number}", 400 + number, numbers={"status.phase": "Running"})
        end = "Failed" if number < 3 else "Completed"
        status_write(sim, f"c-{number}", 600 + number, numbers={"status.phase": end})
    gone(sim)
    scrape(sim, "counter", "op_cliques_finished_total", {"start:deploy": 0.0, rec.SETTLED: float(grown)})
    assert ("counter" in ids(sim)) == wrong


@pytest.mark.parametrize(
    ("first", "then", "wrong"),
    [("Running", "Completed", True), ("Running", "Paused", False), ("Pending", "Completed", False)],
)
def test_work_that_has_ended_is_not_taken_up_again_for_what_came_before(first: str, then: str, wrong: bool) -> None:
    """A change of its annotations, before it ends; kopf's own of its progress come later."""
    sim = settled()
    for number in range(3):
        name = f"c-{number}"
        clique(sim, name, 200, numbers={"metadata.generation": 1})
        status_write(sim, name, 400, numbers={"status.phase": first})
        shown(sim, name, 500, difference=rec.Difference(kind="content", paths=["metadata.annotations.a"]))
        status_write(sim, name, 2000, numbers={"status.phase": then})
        kept = ["metadata.annotations.a.io/last-handled-configuration"]
        shown(sim, name, 3000, difference=rec.Difference(kind="content", paths=kept))
        status_write(sim, name, 4000, numbers={"status.phase": "Running"})
    gone(sim)
    assert ("conditions" in ids(sim)) is wrong


def test_a_phase_that_a_new_spec_takes_back_is_right() -> None:
    """Running, a new generation, Forming, Running: what made it leave came before it left."""
    sim = settled()
    for number in range(3):
        name = f"c-{number}"
        clique(sim, name, 200, numbers={"metadata.generation": 1})
        status_write(sim, name, 400, numbers={"status.phase": "Forming"})
        status_write(sim, name, 600, numbers={"status.phase": "Running"})
        shown(sim, name, 3000, numbers={"metadata.generation": 2, "spec.size": 4})
        status_write(sim, name, 3400, numbers={"status.phase": "Forming", "status.observedGeneration": 2})
        status_write(sim, name, 3800, numbers={"status.phase": "Running"})
    gone(sim)
    assert "conditions" not in ids(sim)


@pytest.mark.parametrize(("went", "wrong"), [(False, True), (True, False)])
def test_a_count_that_falls_although_nothing_went(went: bool, wrong: bool) -> None:
    sim = settled()
    clique(sim, "c", 200)
    for number in range(3):
        made(sim, f"svc-{number}", 250, owner="uid-pcs")
    for step, count in enumerate((1, 3, 2)):
        status_write(sim, "c", 400 + 400 * step, numbers={"status.services": count})
    if went:
        seen(sim, "svc-0", 1000, "deleted")
    all_gone(sim)
    assert ("conditions" in ids(sim)) == wrong


@pytest.mark.parametrize(("ready", "wrong"), [(3, False), (4, True)])
def test_a_part_that_is_more_than_all(ready: int, wrong: bool) -> None:
    sim = settled()
    clique(sim, "c", 200)
    status_write(sim, "c", 400, numbers={"status.stacks": 3, "status.readyStacks": ready})
    gone(sim)
    assert ids(sim) == ({"stale-status"} if wrong else set())


@pytest.mark.parametrize(("lasted", "number", "wrong"), [(600, 2, True), (600, 1, False), (5500, 2, False)])
def test_a_few_surplus_objects(lasted: int, number: int, wrong: bool) -> None:
    sim = settled()
    for index in range(60):
        clique(sim, f"c-{index}", 200, owner="uid-pcs")
    deletion: dict[str, Any] = {**DELETION}
    for index in range(number):
        sim.request(200 + lasted, **deletion, name=f"c-{index}")
        shown(sim, f"c-{index}", 210 + lasted, "deleted")
    gone(sim)
    assert ("churn" in ids(sim)) == wrong


@pytest.mark.parametrize(
    ("kind", "paths", "user", "wrong"),
    [
        ("content", "data", "", True),
        ("content", "status.n", "", False),
        ("content", "data", "harness", False),
        ("none", "", "", True),
        ("time", "status.at", "", False),
    ],
)
def test_what_an_operator_catches_up_with_after_a_restart(kind: Any, paths: str, user: str, wrong: bool) -> None:
    sim = settled()
    for number in range(3):
        clique(sim, f"c-{number}", 200, owner="uid-pcs")
    for state, ms in (("begin", 9000), ("end", 9500)):
        sim.add(rec.Mark(at=sim.at(ms), label="operator-restart", state=state))  # type: ignore[arg-type]
    if user:
        sim.request(9600, user=user, verb="patch", resource="configmaps", namespace="t", name="settings")
    for number in range(3):
        written(sim, f"c-{number}", 9800, kind, paths=[paths] if paths else [])
    gone(sim)
    assert ("restarts" in ids(sim)) == wrong


@pytest.mark.parametrize(("name", "both", "wrong"), [("c", False, True), ("c", True, False), ("other", False, False)])
def test_parts_of_one_name_of_which_some_are_left(name: str, both: bool, wrong: bool) -> None:
    sim = settled()
    deletion: dict[str, Any] = {**DELETION}
    clique(sim, "parent", 150, owner="uid-pcs")
    for number in range(3):
        clique(sim, f"c-{number}", 200, owner="uid-parent")
        made(sim, f"{name}-{number}", 210, owner="uid-parent")
        sim.request(3000, **deletion, name=f"c-{number}")
        shown(sim, f"c-{number}", 3010, "deleted")
        if both:
            sim.request(3000, verb="delete", resource="services", namespace="t", name=f"{name}-{number}")
            seen(sim, f"{name}-{number}", 3010, "deleted")
    all_gone(sim)
    for index, (at, order, record) in enumerate(sim.items):
        if isinstance(record, rec.ObjectSeen) and record.watch != sim.watch_ids[PODS] and record.owner != "uid-pcs":
            uid = f"{record.watch}-{record.name}" if record.name != "parent" else record.uid
            sim.items[index] = at, order, msgspec.structs.replace(record, uid=uid)
    assert ("children" in ids(sim)) == wrong


@pytest.mark.parametrize(("held", "wrong"), [(0.2, True), (0.01, False)])
def test_reconciles_that_wait_by_a_histogram_of_the_operators_own(held: float, wrong: bool) -> None:
    sim = settled()
    idle_cpu(sim)
    for part, value in (("sum", 20 * held + 0.5), ("count", 20.0)):
        name = f"op_reconcile_duration_seconds_{part}"
        scrape(sim, "counter", name, {"start:deploy": 0.0, "end:steady-state": value, "start:delete": value})
    assert ("workers" in ids(sim)) == wrong


@pytest.mark.parametrize(("held", "number", "wrong"), [(0.5, 20, True), (0.02, 200, False), (0.5, 6, False)])
def test_reconciles_at_work_that_wait_by_a_histogram_of_the_operators_own(
    held: float, number: int, wrong: bool
) -> None:
    sim = settled()
    idle_cpu(sim)
    for part, value in (("sum", number * held), ("count", float(number))):
        name = f"op_reconcile_duration_seconds_{part}"
        scrape(sim, "counter", name, {"start:deploy": 0.0, "end:deploy": value, "end:delete": value})
    assert ("workers" in ids(sim)) == wrong


@pytest.mark.parametrize(
    ("name", "mean", "wrong"), [("reconcile", 15.0, True), ("reconcile", 0.5, False), ("apply", 15.0, False)]
)
def test_reconciles_that_last_longer_than_all_objects_together_could(name: str, mean: float, wrong: bool) -> None:
    """A hundred of four objects, in 22 s."""
    sim = settled()
    for number in range(4):
        clique(sim, f"c-{number}", 200 + number)
        written(sim, f"c-{number}", 300 + number, "content", paths=["status.n"])
    for part, value in (("sum", 100 * mean), ("count", 100.0)):
        scrape(sim, "counter", f"op_{name}_duration_seconds_{part}", {"start:deploy": 0.0, "end:delete": value})
    all_gone(sim)
    assert ("wrong-unit" in ids(sim)) == wrong


@pytest.mark.parametrize(
    ("name", "mean", "wrong"), [("apply", 15.0, True), ("apply", 0.015, False), ("queue_wait", 15.0, False)]
)
def test_durations_that_sum_to_more_than_all_reconciles(name: str, mean: float, wrong: bool) -> None:
    sim = settled()
    scrape(sim, "counter", "controller_runtime_reconcile_time_seconds_sum", {"start:deploy": 0.0, "end:delete": 2.0})
    for part, value in (("sum", 100 * mean), ("count", 100.0)):
        scrape(sim, "counter", f"op_{name}_duration_seconds_{part}", {"start:deploy": 0.0, "end:delete": value})
    assert ("wrong-unit" in ids(sim)) == wrong


@pytest.mark.parametrize(
    ("rss", "wrong"),
    [
        ([20, 90, 110, 110, 300], True),
        ([20, 90, 90, 90, 95], False),  # what the deployment took
        ([20, 90, 110, 110, 60], False),
        ([100, 110, 120, 120, 140], False),
    ],
)
def test_resident_memory_that_each_reconcile_takes(rss: list[int], wrong: bool) -> None:
    sim = settled()
    edges = ["start:deploy", "start:steady-state", "end:steady-state", "start:delete", "end:delete"]
    for index, (at, order, record) in enumerate(sim.items):
        if isinstance(record, rec.CpuRead) and record.process == "operator":
            value = rss[max(number for number, edge in enumerate(["", *edges[1:]]) if edge in ("", record.edge))]
            sim.items[index] = at, order, msgspec.structs.replace(record, rss_bytes=value * 10**6)
    sim.cpu("operator", DELETED + 900, 20, edge=rec.SETTLED, rss=rss[-1] * 10**6)
    assert ("initial-state" in ids(sim)) == wrong


@pytest.mark.parametrize(
    ("selector", "labels", "other", "severity"),
    [
        ({"app": "web", "part": "api"}, {"app": "web"}, {}, "defect"),
        ({"app": "wbe"}, {"app": "web"}, {}, "defect"),
        ({"app": "wbe"}, {"app": "web"}, {"app": "web"}, "note"),  # of a part that this workload may not have
        ({"part": "api"}, {"app": "web"}, {"app": "web"}, "defect"),
        ({"app": "web"}, {"app": "web"}, {}, ""),
        ({"app": "wbe"}, {"app": "*"}, {}, ""),  # a label with more values than were kept
        ({"app": "wbe"}, {}, {}, ""),  # an older recording
        ({}, {"app": "web"}, {}, ""),
    ],
)
def test_services_that_select_no_pod(
    selector: dict[str, str], labels: dict[str, str], other: dict[str, str], severity: str
) -> None:
    sim = settled()
    clique(sim, "c", 120, owner="uid-pcs")
    for name, of in (("web", selector), ("other", other)):
        made(sim, name, 125, owner="uid-c")
        sim.items[-1] = (*sim.items[-1][:2], msgspec.structs.replace(sim.items[-1][2], selector=of))
    all_gone(sim)
    records = [
        msgspec.structs.replace(record, owner="uid-c", uid=f"uid-{record.name}", labels=labels)
        if isinstance(record, rec.ObjectSeen) and record.watch == sim.watch_ids[PODS]
        else record
        for record in sim.records()
    ]
    found = [one for one in analyse(records).findings if one.id == "children"]
    assert [one.severity for one in found] == ([severity] if severity else [])


@pytest.mark.parametrize(
    ("parts", "lost", "taken_back", "wrong"),
    [
        (("alice", "bob"), "bob", False, True),
        (("alice", "bob"), "bob", True, False),
        (("alice", "bob"), "carol", False, False),  # nothing is named for it
        (("bob",), "bob", False, False),  # nothing else has a name of that pattern
        (("bob-smith", "alice"), "bob-smith", False, True),
    ],
)
def test_what_is_named_for_what_a_spec_lost(parts: tuple[str, ...], lost: str, taken_back: bool, wrong: bool) -> None:
    sim = settled()
    for number in range(4):
        clique(sim, f"c-{number}", 130, owner="uid-pcs")
        for part in parts:
            made(sim, f"{part}-of-c-{number}", 140, owner=f"uid-c-{number}")
        shown(sim, f"c-{number}", 7000, dropped=[any_kind(lost)], difference=rec.Difference(kind="content"))
        if taken_back:
            seen(sim, f"{lost}-of-c-{number}", 7500, "deleted")
    all_gone(sim)
    texts = [one.text for one in analyse(sim.records()).findings if one.id == "left-behind"]
    assert any(lost in text for text in texts) == wrong


def selecting(sim: Simulation, selector: str, owners: int) -> list[rec.AnyRecord]:
    """Return a run's records with a selector for each Service of a clique, and pods of so many of the cliques."""
    records = sim.records()
    for index, one in enumerate(records):
        if isinstance(one, rec.ObjectSeen) and one.name.endswith("-web"):
            records[index] = msgspec.structs.replace(one, selects=selector.format(one.name))
        if isinstance(one, rec.ObjectSeen) and one.watch == sim.watch_ids[PODS]:
            owner = f"uid-c-{int(one.name.rpartition('-')[2]) % owners}"
            records[index] = msgspec.structs.replace(one, owner=owner, uid=f"uid-{one.name}")
    return records


@pytest.mark.parametrize(("selector", "owners", "wrong"), [("a", 6, True), ("a-{}", 6, False), ("a", 1, False)])
def test_services_of_several_owners_with_one_selector(selector: str, owners: int, wrong: bool) -> None:
    """``owners``: how many of the six have pods of their own."""
    sim = settled()
    for number in range(6):
        clique(sim, f"c-{number}", 130, owner="uid-pcs")
        made(sim, f"c-{number}-web", 140, owner=f"uid-c-{number}")
    all_gone(sim)
    records = selecting(sim, selector, owners)
    texts = [one.text for one in analyse(records).findings if one.id == "children"]
    assert any("one and the same selector" in text for text in texts) == wrong


def test_services_with_one_selector_that_came_one_after_the_other_are_of_one_owner_each() -> None:
    """In cycles, under other names."""
    sim = settled()
    for number in range(6):
        clique(sim, f"c-{number}", 130 + 200 * number, owner="uid-pcs")
        made(sim, f"c-{number}-web", 140 + 200 * number, owner=f"uid-c-{number}")
        seen(sim, f"c-{number}-web", 300 + 200 * number, "deleted")
    gone(sim)
    records = selecting(sim, "a", 6)
    assert not any("one and the same" in one.text for one in analyse(records).findings)


@pytest.mark.parametrize(
    ("family", "asks", "named"),
    [
        ("op_reconcile_duration_seconds", False, True),
        ("op_reconcile_seconds", False, True),
        ("op_sync_duration_seconds", False, True),
        ("op_async_seconds", False, False),
        ("op_reconcile_duration_seconds", True, False),
    ],
)
def test_the_cpu_of_one_of_two_controllers_by_the_time_of_its_reconciles(family: str, asks: bool, named: bool) -> None:
    sim = settled()
    idle_cpu(sim)
    for index, (at, order, record) in enumerate(sim.items):
        if isinstance(record, rec.Mark) and record.label == "trigger":
            sim.items[index] = at, order, msgspec.structs.replace(record, count=100)
    for controller, number, seconds in (("podcliqueset", 100, 0.9), ("podclique", 200, 0.1)):
        for name, value in (
            ("controller_runtime_reconcile_total", float(number)),
            (f"{family}_sum", seconds),
            (f"{family}_count", float(number)),
        ):
            served = {"start:steady-state": 0.0, **dict.fromkeys(("end:steady-state", "start:delete"), value)}
            labels = {"result": "success"} if name.endswith("total") else {}
            scrape(sim, "counter", name, served, controller=controller, **labels)
    start = next(one.cpu_ns for _, _, one in sim.items if isinstance(one, rec.CpuRead) and one.edge == "start:delete")
    for index, (at, order, record) in enumerate(sim.items):
        if isinstance(record, rec.CpuRead) and record.process == "operator" and record.edge.endswith("state"):
            used = start - (1_500_000_000 if record.edge == "start:steady-state" else 0)
            sim.items[index] = at, order, msgspec.structs.replace(record, cpu_ns=round(used))
    for ms in (IDLE - 5000, IDLE - 1000):
        sim.add(rec.CpuRead(at=sim.at(ms), process="operator", pid=10, cpu_ns=start, rss_bytes=10**8))
    if asks:
        sim.request(IDLE - 4000, 500, verb="get", resource="pods", namespace="t", name="x")
    costs = [one.text for one in analyse(sim.records()).findings if "of CPU" in one.text and one.id == "noop-work"]
    assert any("a reconcile of podcliqueset that" in text for text in costs) is named, costs


@pytest.mark.parametrize(("after", "wrong"), [(3000, True), (300, False)])
def test_a_generation_that_is_never_observed_although_the_status_is_written(after: int, wrong: bool) -> None:
    sim = settled()
    for number in range(3):
        name, ms = f"c-{number}", DELETED - 5000
        clique(sim, name, 200, numbers={"metadata.generation": 1})
        status_write(sim, name, 400, numbers={"status.observedGeneration": 1})
        shown(sim, name, ms, numbers={"metadata.generation": 2, "spec.size": 4})
        status_write(sim, name, ms + after, numbers={"status.size": 4})
    gone(sim)
    assert ("stale-status" in ids(sim)) == wrong


@pytest.mark.parametrize(("name", "wrong"), [("c-{}-web", False), ("other-{}", True)])
def test_a_finalizer_waits_for_what_is_named_for_its_object(name: str, wrong: bool) -> None:
    """Services without an owner, which the operator deletes at once, and which are gone a second and a half later."""
    sim = settled()
    idle_cpu(sim)
    clique(sim, "own", 110)
    for number in range(8):
        of, service, asked = f"c-{number}", name.format(number), IDLE + 100 + number
        sim.request(150, **APPLIED, name=of)
        shown(sim, of, 160, "added", owner="", finalizers=["a.io/keep"])
        written(sim, of, 300, "content", paths=["status.n"])
        made(sim, service, 250)
        sim.request(asked, user="harness", verb="delete", resource="cliques", group="a.io", namespace="t", name=of)
        shown(sim, of, asked + 5, fields={"metadata.deletionTimestamp": "2026-01-01T00:00:00Z"})
        sim.request(asked + 20, verb="delete", resource="services", namespace="t", name=service)
        seen(sim, service, asked + 1500, "deleted")
        sim.request(asked + 1520, verb="patch", resource="cliques", group="a.io", namespace="t", name=of)
        shown(sim, of, asked + 1530, "deleted")
    gone(sim)
    held = [one for one in found(sim) if "held by a finalizer" in one.text]
    assert bool(held) is wrong


@pytest.mark.parametrize(("changed", "wrong"), [(False, True), (True, False)])
def test_a_count_falls_where_what_is_wanted_changed(changed: bool, wrong: bool) -> None:
    sim = settled()
    clique(sim, "c-0", 200)
    for number in range(3):
        made(sim, f"s-{number}", 210, owner="uid-c-0")
    written(sim, "c-0", 290, "content", paths=["status.services"])
    shown(sim, "c-0", 300, numbers={"status.services": 3, "metadata.generation": 1})
    if changed:
        shown(sim, "c-0", 2000, numbers={"metadata.generation": 2})
    shown(sim, "c-0", 2100, numbers={"status.services": 2})
    all_gone(sim)
    assert bool([one for one in found(sim) if "fell from 3 to 2" in one.text]) is wrong
