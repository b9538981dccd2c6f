"""What a test's conditions read of a cluster that others use."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.errors import UsageError
from pytest_grovescale.kube.resources import Resource
from pytest_grovescale.recording.conditions import AllOf, Condition, Count, watches
from pytest_grovescale.scenario.conditions import (
    Declared,
    ObjectName,
    all_of,
    any_of,
    count,
    each_of,
    field,
    gone,
    resolve,
    timer,
)
from pytest_grovescale.scenario.running_test import SINGLE_WATCHES, confined

PODS = Resource(group="", version="v1", plural="pods", kind="Pod", namespaced=True)
NODES = Resource(group="", version="v1", plural="nodes", kind="Node", namespaced=False)
FLEETS = Resource(group="example.com", version="v1", plural="fleets", kind="Fleet", namespaced=False)
RESOURCES = {("pods", ""): PODS, ("nodes", ""): NODES, ("fleets", ""): FLEETS}


def shared(condition: Declared) -> Condition:
    return confined(resolve(condition, RESOURCES, namespace="mine"), "run-7")


def counted(condition: Declared) -> Count:
    found = shared(condition)
    assert isinstance(found, Count)
    return found


def fleet(name: str) -> ObjectName:
    return ObjectName(kind="fleets", name=name)


def test_what_is_in_the_tests_namespace_is_read_as_ever() -> None:
    plain = resolve(count("pods", 3), RESOURCES, namespace="mine")
    assert confined(plain, "run-7") == plain


def test_nodes_are_those_that_were_made_for_it() -> None:
    assert counted(count("nodes", 10, ready=True)).watch.label_selector == "grovescale.io/cluster=run-7"


def test_a_node_by_name_may_be_anybodys() -> None:
    watch = counted(field(ObjectName(kind="nodes", name="real-1"), "spec.unschedulable", True)).watch
    assert (watch.label_selector, watch.field_selector) == ("", "metadata.name=real-1")


def test_an_object_without_namespace_is_watched_alone() -> None:
    assert counted(gone(fleet("a"))).watch.field_selector == "metadata.name=a"


@pytest.mark.parametrize(
    ("condition", "what"),
    [
        (count("pods", 3, namespace="*"), " pods "),
        (count("fleets", 1), " fleets.example.com "),
        (all_of(timer(1), any_of(count("fleets", 1))), " fleets.example.com "),
    ],
    ids=["pods", "fleets", "nested"],
)
def test_everybodys_objects_are_refused(condition: Declared, what: str, snapshot: SnapshotAssertion) -> None:
    with pytest.raises(UsageError) as refused:
        shared(condition)
    assert what in str(refused.value)
    assert "selector=" in (refused.value.next_step or "")
    assert str(refused.value) == snapshot


def test_a_selector_of_the_tests_own_is_enough() -> None:
    wanted = count("pods", 3, namespace="*", selector="app=mine")
    assert counted(wanted) == resolve(wanted, RESOURCES, namespace="mine")


def test_not_more_objects_one_by_one_than_there_are_connections() -> None:
    shared(all_of(*(gone(fleet(f"f{n}")) for n in range(SINGLE_WATCHES))))
    with pytest.raises(UsageError, match=f"{SINGLE_WATCHES + 1} objects in no namespace"):
        shared(all_of(*(gone(fleet(f"f{n}")) for n in range(SINGLE_WATCHES + 1))))


def test_each_of_several_objects_without_namespace_is_watched_alone() -> None:
    found = shared(each_of([fleet("a"), fleet("b")]))
    assert isinstance(found, AllOf)
    assert [(part.watch.field_selector, part.n) for part in found.of if isinstance(part, Count)] == [
        ("metadata.name=a", 1),
        ("metadata.name=b", 1),
    ]


leaves = st.one_of(
    st.builds(count, st.sampled_from(["pods", "nodes"]), st.integers(0, 9)),
    st.builds(
        count,
        st.sampled_from(["pods", "fleets"]),
        st.integers(0, 9),
        selector=st.sampled_from(["", "a=b"]),
        namespace=st.sampled_from([None, "*", "other"]),
    ),
    st.builds(gone, st.builds(fleet, st.sampled_from("abc"))),
    st.just(timer(1)),
)
conditions = st.recursive(
    leaves,
    lambda parts: st.lists(parts, min_size=1, max_size=3).flatmap(
        lambda some: st.sampled_from([all_of(*some), any_of(*some)])
    ),
    max_leaves=6,
)


@given(conditions)
def test_whatever_is_asked_no_watch_reads_all_of_a_cluster(condition: Declared) -> None:
    try:
        found = shared(condition)
    except UsageError:
        return
    for watch in watches(found):
        assert "/namespaces/" in watch.path or watch.label_selector or watch.field_selector
