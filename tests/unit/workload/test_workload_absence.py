"""What is watched to learn that objects are gone."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pytest_grovescale.kube.resources import Resource
from pytest_grovescale.workload.actions import Collection, watched

PODS = Resource(group="", version="v1", plural="pods", kind="Pod", namespaced=True)
FLEETS = Resource(group="example.com", version="v1", plural="fleets", kind="Fleet", namespaced=False)
RESOURCES = {("v1", "Pod"): PODS, ("example.com/v1", "Fleet"): FLEETS}


def pod(name: str, namespace: str = "mine") -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace}}


def fleet(name: str) -> dict[str, Any]:
    # Rendering gives every object the test's namespace; a kind that has none ignores it.
    return {"apiVersion": "example.com/v1", "kind": "Fleet", "metadata": {"name": name, "namespace": "mine"}}


def collection(resource: Resource, namespace: str, *names: str) -> Collection:
    return Collection(resource=resource, namespace=namespace, names=frozenset(names))


def test_a_namespace_is_watched_once_for_all_objects_of_a_kind() -> None:
    found = watched([pod("a"), pod("b"), pod("c", "other")], RESOURCES)
    assert found == [collection(PODS, "mine", "a", "b"), collection(PODS, "other", "c")]


def test_objects_in_no_namespace_are_watched_one_by_one() -> None:
    found = watched([fleet("a"), fleet("b")], RESOURCES)
    assert found == [collection(FLEETS, "", "a"), collection(FLEETS, "", "b")]


names = st.sampled_from("abcd")


@given(st.lists(st.one_of(st.builds(pod, names, st.sampled_from(["mine", "other"])), st.builds(fleet, names))))
def test_every_object_is_in_just_one_and_none_is_everybodys(objects: list[dict[str, Any]]) -> None:
    found = watched(objects, RESOURCES)
    reported = sorted((one.resource.kind, one.namespace, name) for one in found for name in one.names)
    wanted = {
        (obj["kind"], obj["metadata"]["namespace"] * (obj["kind"] == "Pod"), obj["metadata"]["name"]) for obj in objects
    }
    assert reported == sorted(wanted)
    assert all(one.namespace or len(one.names) == 1 for one in found)
