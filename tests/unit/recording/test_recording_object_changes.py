"""How an object changed between two versions: kind and paths, and never a value."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pytest_grovescale.recording import object_changes
from pytest_grovescale.recording.object_changes import Comparer, Facts
from pytest_grovescale.recording.object_versions import decode


def version(**parts: Any) -> dict[str, Any]:
    return {"metadata": {"name": "a", "uid": "1", "resourceVersion": "7", **parts.pop("metadata", {})}, **parts}


NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC).timestamp()


def facts(*versions: dict[str, Any], resource: str = "cliques.a.io", wall_s: float = NOON) -> Facts:
    comparer = Comparer(resource)
    *_, found = (compared(comparer, one, wall_s) for one in versions)
    assert found is not None
    return found


def compared(comparer: Comparer, one: dict[str, Any], wall_s: float = NOON) -> Facts | None:
    data = msgspec.Raw(msgspec.json.encode(one))
    read = decode(data)
    return comparer.facts(read, data, parts=read.parts(), fields={}, wall_s=wall_s)


def status(**fields: Any) -> dict[str, Any]:
    return version(spec={"replicas": 3}, status=fields)


def condition(**fields: Any) -> dict[str, Any]:
    return {"type": "Ready", "status": "True", "message": "ok", **fields}


@pytest.mark.parametrize(
    ("old", "new", "kind", "paths"),
    [
        (status(n=1), status(n=2), "content", ["status.n"]),
        (status(n=1), version(metadata={"resourceVersion": "8"}, spec={"replicas": 3}, status={"n": 1}), "none", []),
        (status(n=1), version(metadata={"generation": 2}, spec={"replicas": 3}, status={"n": 1}), "generation", []),
        (
            status(lastProbeTime="2026-01-01T00:00:01Z"),
            status(lastProbeTime="2026-01-01T00:00:02Z"),
            "time",
            ["status.lastProbeTime"],
        ),
        (status(seenAt=1_700_000_001), status(seenAt=1_700_000_002), "time", ["status.seenAt"]),
        (
            status(conditions=[condition(message="seen 12:00:01, 3 pods")]),
            status(conditions=[condition(message="seen 12:00:07, 3 pods")]),
            "time",
            ["status.conditions[].message"],
        ),
        (
            status(conditions=[condition(message="2 of 3 pods")]),
            status(conditions=[condition(message="3 of 3 pods")]),
            "content",
            ["status.conditions[].message"],
        ),
        (status(retries=1), status(retries=2), "counter", ["status.retries"]),
        (status(usage="1"), status(usage="2"), "content", ["status.usage"]),
        (status(names=["a", "b"]), status(names=["b", "a"]), "order", ["status.names"]),
        (status(names=["a", "b"]), status(names=["b"]), "content", ["status.names"]),
        (status(names=["a", "b"], retries=1), status(names=["b", "a"], retries=2), "bookkeeping", None),
        (status(names=["a", "b"], ready=1), status(names=["b", "a"], ready=2), "content", None),
        (version(data={"secret": "x"}), version(data={"secret": "y"}), "content", ["data"]),
        (
            version(metadata={"annotations": {"a.io/n": "1"}}),
            version(metadata={"annotations": {"a.io/n": "2"}}),
            "content",
            ["metadata.annotations.a.io/n"],
        ),
    ],
)
def test_what_differs(old: dict[str, Any], new: dict[str, Any], kind: str, paths: list[str] | None) -> None:
    found = facts(old, new).difference
    assert found is not None
    assert found.kind == kind
    assert paths is None or found.paths == paths


def test_a_first_version_and_another_object_of_the_name_are_compared_with_nothing() -> None:
    other = status(n=2)
    other["metadata"]["uid"] = "2"
    assert facts(status(n=1)).difference is None
    assert facts(status(n=1), other).difference is None


def test_a_field_that_goes_back_to_its_value_before() -> None:
    def to(value: str) -> dict[str, Any]:
        return version(metadata={"labels": {"mode": value}})

    found = facts(to("a"), to("b"), to("a")).difference
    assert found is not None
    assert found.back == ["metadata.labels.mode"]
    found = facts(to("a"), to("b"), to("c")).difference
    assert found is not None
    assert found.back == []


@pytest.mark.parametrize(
    ("names", "back"),
    [
        # A pod was taken out before the others, or one added: what is behind it moves, and nothing returns.
        (["bc", "cd", "ab"], []),
        (["abc", "0ab"], []),
        (["acd", "cde", "bce"], []),
        (["ab", "ax", "ab"], ["spec.members[].name"]),
    ],
)
def test_elements_that_move_in_a_list_are_no_value_that_returns(names: list[str], back: list[str]) -> None:
    found = facts(*(version(spec={"members": [{"name": name} for name in each]}) for each in names)).difference
    assert found is not None
    assert found.back == back


def test_declared_fields_are_reported_of_the_first_object_that_sets_them() -> None:
    comparer = Comparer("cliques.a.io")
    comparer.look_for(["ready", "selector", "phase"])
    other = status(ready=2, selector="a=b")
    other["metadata"]["uid"] = other["metadata"]["name"] = "2"
    versions = (status(ready=0, selector=""), status(ready=1, more=1), other, status(ready=3, phase=None))
    found = [compared(comparer, one) for one in versions]
    assert [one.written for one in found if one is not None] == [[], ["ready"], ["selector"], []]


def dated(kind: str, status: str, time: str) -> dict[str, Any]:
    return {"type": kind, "status": status, "lastTransitionTime": f"2026-01-01T00:00:0{time}Z"}


@pytest.mark.parametrize(
    ("new", "moved"),
    [
        ([dated("A", "True", "2"), dated("B", "True", "2")], 1),
        ([dated("A", "False", "2"), dated("B", "True", "1")], 0),
        ([dated("A", "True", "2"), dated("B", "False", "2")], 2),
        ([dated("C", "True", "2"), dated("B", "False", "1")], 0),
    ],
)
def test_conditions_whose_time_moves_without_a_transition(new: list[dict[str, Any]], moved: int) -> None:
    old = [dated("A", "True", "1"), dated("B", "False", "1")]
    found = facts(status(conditions=old), status(conditions=new)).difference
    assert found is not None
    assert found.moved == moved


def test_numbers_phases_and_conditions_that_changed() -> None:
    old = version(metadata={"generation": 1}, spec={"replicas": 3}, status={"phase": "New", "ready": 0})
    new = version(
        metadata={"generation": 1}, spec={"replicas": 3}, status={"phase": "New", "conditions": [condition()]}
    )
    assert facts(old).numbers == {
        "spec.replicas": 3, "status.phase": "New", "status.ready": 0, "metadata.generation": 1,
    }  # fmt: skip
    assert facts(old, new).numbers == {"status.conditions[type=Ready].status": "True"}


@pytest.mark.parametrize(
    ("stamp", "seen_s", "step"),
    [
        ("2026-03-01T12:34:00Z", 34 * 60 + 30, 60),
        ("2026-03-01T12:34:00+00:00", 34 * 60 + 59, 60),
        ("2026-03-01T12:00:00Z", 600, 3600),
        ("2026-03-01T00:00:00Z", 600, 86_400),
        # A moment ago it may be the time itself.
        ("2026-03-01T12:00:00Z", 2, 0),
        ("2026-03-01T12:00:01Z", 30, 0),
        ("2026-03-01T12:00:00.5Z", 30, 0),
        # Older than any step: a schedule, a certificate's date.
        ("2026-02-01T00:00:00Z", 30, 0),
        ("2026-03-01T12:00:00", 30, 0),
        ("x", 30, 0),
    ],
)
def test_times_that_are_rounded(stamp: str, seen_s: float, step: int) -> None:
    later = [status(last="2026-01-01T09:09:09Z"), status(last=stamp)]
    first = [version(spec={"replicas": 3}), status(last=stamp)]
    nested = [version(spec={"replicas": 3}), status(members=[{"last": stamp}])]
    for versions, name in ((later, "status.last"), (first, "status.last"), (nested, "status.members[].last")):
        assert facts(*versions, wall_s=NOON + seen_s).coarse == ({name: step} if step else {})


def test_of_a_secret_only_the_part_that_changed_is_known() -> None:
    first, second = (version(data={"password": value}, metadata={"labels": {"app": "a"}}) for value in ("b", "c"))
    changed = facts(first, second, resource="secrets").difference
    assert changed is not None
    assert (changed.kind, changed.paths, changed.back) == ("content", ["data"], [])
    back = facts(first, second, first, resource="secrets").difference
    assert back is not None
    assert back.back == ["data"]
    same = facts(first, first, resource="secrets").difference
    assert same is not None
    assert same.kind == "none"
    labelled = facts(first, version(data={"password": "b"}), resource="secrets").difference
    assert labelled is not None
    assert labelled.paths == ["metadata.labels"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=12,
)


@example([(False, None), (0, None)])
@given(st.lists(st.tuples(JSON, JSON), min_size=2, max_size=5))
def test_any_versions_can_be_compared(contents: list[tuple[Any, Any]]) -> None:
    versions = [version(spec=spec, status=status) for spec, status in contents]
    found = facts(*versions)
    assert found.difference is not None
    # As JSON: false and 0 are two values there, and one in Python.
    before, now = map(msgspec.json.encode, contents[-2:])
    assert found.difference.kind == "none" or now != before


def test_a_part_that_is_gone() -> None:
    found = facts(version(metadata={"labels": {"a": "b"}}), version()).difference
    assert found is not None
    assert (found.kind, found.paths) == ("content", ["metadata.labels"])


def test_by_how_much_an_object_grew() -> None:
    changed = facts(status(history=["a"]), status(history=["a", "b"]))
    assert changed.difference is not None
    assert (changed.difference.grown, changed.difference.paths) == (len(',"b"'), ["status.history"])


def with_variable(name: str, **value: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "db", "env": [{"name": name, **value}]}]}}


@pytest.mark.parametrize(
    ("resource", "part", "exposed"),
    [
        ("configmaps", {"data": {"settings": "mode=a\npassword=hunter2-and-more", "other": "ok"}}, ["data.settings"]),
        ("configmaps", {"data": {"settings": "passwordFile: /etc/keys"}}, []),
        ("cliques.a.io", {"status": {"token": "c2VjcmV0LXRva2VuLXZhbHVl"}}, ["status.token"]),
        ("secrets", {"data": {"password": "aHVudGVyMi1hbmQtbW9yZQ=="}}, []),
        ("pods", with_variable("DB_PASSWORD", value="hunter2-and-more"), ["env[DB_PASSWORD] in spec"]),
        ("pods", with_variable("TOKEN_FILE", value="/var/run/token"), []),
        ("pods", with_variable("DB_PASSWORD", valueFrom={"secretKeyRef": {"name": "db", "key": "password"}}), []),
        (
            "deployments.apps",
            {"spec": {"template": with_variable("DB_PASSWORD", value="hunter2-and-more")}},
            ["env[DB_PASSWORD] in spec"],
        ),
    ],
)
def test_fields_with_credentials(resource: str, part: dict[str, Any], exposed: list[str]) -> None:
    assert facts(version(**part), resource=resource).exposed == exposed


@given(st.lists(JSON, min_size=1, max_size=6))
def test_any_status_can_be_searched_for_credentials(contents: list[Any]) -> None:
    assert isinstance(facts(*(version(status=one) for one in contents)).exposed, list)


def test_an_object_for_which_there_is_no_room_is_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_changes, "_BUDGET", 30)
    comparer = Comparer("cliques.a.io")
    assert compared(comparer, version(spec={"text": "x" * 40})) is not None
    assert not comparer.full
    assert compared(comparer, version(metadata={"name": "b", "uid": "2"}, spec={"text": "x" * 40})) is None
    assert comparer.full
