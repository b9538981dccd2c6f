"""The cache: versions, own writes before the watch, deletions, relists, indexes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_grovescale.reference_operator.objects import Metadata, Object
from pytest_grovescale.reference_operator.store import DELETED_S, Store


def make(name: str, version: int, *, uid: str = "", **labels: str) -> Object:
    return Object(Metadata(name=name, namespace="n", uid=uid or name, resource_version=str(version), labels=labels))


def store() -> tuple[Store[Object], list[tuple[int | None, int | None]]]:
    found: Store[Object] = Store(app=lambda o: [o.metadata.labels["app"]] if "app" in o.metadata.labels else [])
    heard: list[tuple[int | None, int | None]] = []

    def version(obj: Object | None) -> int | None:
        return int(obj.metadata.resource_version) if obj else None

    found.on_change(lambda old, new: heard.append((version(old), version(new))))
    return found, heard


def test_the_echo_of_an_own_write_is_dropped() -> None:
    found, heard = store()
    assert found.upsert(make("a", 5))
    assert not found.upsert(make("a", 5))
    assert not found.upsert(make("a", 4))
    assert found.upsert(make("a", 6))
    assert heard == [(None, 5), (5, 6)]


def test_a_late_answer_does_not_bring_back_what_is_deleted() -> None:
    found, heard = store()
    found.upsert(make("a", 5))
    found.remove(make("a", 9))
    assert not found.upsert(make("a", 8))
    assert found.get("n/a") is None
    assert found.upsert(make("a", 10, uid="second"))
    assert heard == [(None, 5), (5, None), (None, 10)]


def test_deletions_are_forgotten_when_no_answer_can_come_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    found: Store[Object] = Store()
    for second in range(1, 1000):
        now = float(second)
        found.remove(make(f"a{second}", second))
        assert not found.upsert(make(f"a{second}", second))
        assert len(found._deleted) <= DELETED_S + 1
    found.remove(make("a990", 2000))
    assert not found.upsert(make("a990", 1500))
    assert found.upsert(make("a1", 1))


def test_a_late_deletion_does_not_take_the_successor() -> None:
    found, _ = store()
    found.upsert(make("a", 10, uid="second"))
    found.remove(make("a", 9))
    assert found.get("n/a") is not None


def test_a_successor_is_a_deletion_and_an_addition() -> None:
    found, heard = store()
    found.upsert(make("a", 5, uid="first"))
    found.upsert(make("a", 7, uid="second"))
    assert heard == [(None, 5), (5, None), (None, 7)]


def test_a_relist_drops_what_is_gone_and_keeps_what_is_newer() -> None:
    found, heard = store()
    for name, version in (("gone", 5), ("kept", 6), ("newer", 20)):
        found.upsert(make(name, version))
    found.retain({"n/kept"}, upto=10)
    assert sorted(o.name for o in found) == ["kept", "newer"]
    assert heard[-1] == (5, None)


def test_doomed_until_it_is_gone() -> None:
    found, _ = store()
    pod = make("a", 5)
    found.upsert(pod)
    found.doom(pod)
    assert found.doomed(pod)
    found.upsert(make("a", 6))
    assert found.doomed(make("a", 6))
    found.remove(make("a", 7))
    assert not found.doomed(make("a", 8))
    found.doom(make("never seen", 1))
    assert not found.doomed(make("never seen", 1))


OPERATIONS = st.tuples(st.sampled_from("abc"), st.booleans(), st.sampled_from(["x", "y", ""]))


@given(st.lists(OPERATIONS, max_size=40))
def test_indexes_agree_with_the_objects(operations: list[tuple[str, bool, str]]) -> None:
    found, _ = store()
    expected: dict[str, str] = {}
    for version, (name, remove, label) in enumerate(operations, start=1):
        if remove:
            found.remove(make(name, version))
            expected.pop(name, None)
        else:
            found.upsert(make(name, version, **({"app": label} if label else {})))
            expected[name] = label
    for label in "xy":
        assert {o.name for o in found.by("app", label)} == {n for n, have in expected.items() if have == label}
    assert {o.name for o in found} == set(expected)
