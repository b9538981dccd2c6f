"""What tests do to workloads, on a real API server."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.cluster.handle import Cluster
from pytest_grovescale.errors import WorkloadError
from pytest_grovescale.kube.client import Client
from pytest_grovescale.kube.portal import Portal
from pytest_grovescale.operator.install import wait_established
from pytest_grovescale.workload import actions, namespace
from pytest_grovescale.workload.actions import Pace
from pytest_grovescale.workload.template import RUN_LABEL, render
from tests.golden import masked

pytestmark = pytest.mark.cluster

DATA = Path(__file__).parents[1] / "data/workloads"
T = TypeVar("T")
Object = dict[str, Any]


class Place:
    """A namespace of its own for one test, and a client to reach it."""

    def __init__(self, portal: Portal, client: Client, name: str, run_id: str) -> None:
        self.portal, self.client, self.name, self.run_id = portal, client, name, run_id

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self.portal.run(coroutine)

    def pods(self, number: int) -> list[Object]:
        text = str(DATA / "pods.yaml.j2")
        return render(text, {"pods": number}, namespace=self.name, run_id=self.run_id).objects

    def config_map(self, **fields: Any) -> Object:
        metadata = {"name": "one", "namespace": self.name, "labels": {RUN_LABEL: self.run_id}}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, **fields}

    def get(self, obj: Object) -> Object:
        resource = self.run(self.client.resource(obj["kind"], obj["apiVersion"]))
        return self.run(self.client.get(resource, obj["metadata"]["name"], obj["metadata"].get("namespace")))

    def count(self, kind: str) -> int:
        resource = self.run(self.client.resource(kind))
        return len(self.run(self.client.list(resource, self.name)).items)


@pytest.fixture
def place(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[Place]:
    run_id = f"run-{secrets.token_hex(3)}"
    with Portal() as portal:
        client = portal.client(cluster.access_as("harness"))
        name = portal.run(namespace.create(client, test=request.node.name, run_id=run_id))
        yield Place(portal, client, name, run_id)
        portal.run(namespace.remove(client, name, run_id=run_id, at_once=True))


def replica_set(place: Place, replicas: int) -> Object:
    pod = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "main", "image": "none"}]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"a": "b"}}, "template": pod}
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": "set", "namespace": place.name},
        "spec": spec,
    }


@asynccontextmanager
async def custom_kind(client: Client, *, scale: bool) -> AsyncIterator[str]:
    """Serve a kind ``Thing`` with ``spec.replicas`` (0 to 10) for the length of the block; yields its apiVersion."""
    group = f"{secrets.token_hex(4)}.test.grovescale.io"
    replicas = {"type": "integer", "minimum": 0, "maximum": 10}
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"replicas": replicas}}}}
    version: Object = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    if scale:
        version["subresources"] = {
            "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
        }
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"things.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": [version],
        },
    }
    await client.apply(crd)
    try:
        await wait_established(client, [crd])
        yield f"{group}/v1"
    finally:
        await client.delete(await client.resource("CustomResourceDefinition"), f"things.{group}")


def test_apply_is_create_and_then_update(place: Place) -> None:
    place.run(actions.apply(place.client, [place.config_map(data={"a": "1"})]))
    place.run(actions.apply(place.client, [place.config_map(data={"a": "2"})]))
    assert place.get(place.config_map())["data"] == {"a": "2"}


def test_create_mode_refuses_what_is_there(place: Place) -> None:
    place.run(actions.apply(place.client, [place.config_map()], mode="create"))
    with pytest.raises(WorkloadError, match=r"ConfigMap .*/one refused: .*already exists"):
        place.run(actions.apply(place.client, [place.config_map()], mode="create"))


@pytest.mark.parametrize("mode", ["apply", "create"])
def test_many_objects_by_many_clients(place: Place, mode: actions.Mode) -> None:
    pods = place.pods(60)
    place.run(actions.apply(place.client, pods, concurrency=20, mode=mode))
    assert place.count("Pod") == 60
    place.run(actions.trigger(place.client, pods, "test.grovescale.io/trigger", "1"))
    assert place.get(pods[7])["metadata"]["annotations"] == {"test.grovescale.io/trigger": "1"}
    place.run(actions.delete(place.client, pods, grace_seconds=0))
    place.run(actions.wait_gone(place.client, pods, timeout=30))
    assert place.count("Pod") == 0


def test_rate_holds_on_the_wire(place: Place) -> None:
    """At most one start per turn: the pace is asked once for each object, and objects arrive in that order."""

    class Counted(Pace):
        turns = 0

        async def turn(self) -> None:
            self.turns += 1
            await super().turn()

    pace = Counted(500)
    # Of a kind that nobody else writes to, so that the resourceVersion tells the order of creation.
    names = [f"c-{number}" for number in range(20)]
    objects = [place.config_map() | {"metadata": {"name": name, "namespace": place.name}} for name in names]
    place.run(actions.apply(place.client, objects, concurrency=1, pace=pace))
    resource = place.run(place.client.resource("ConfigMap"))
    found = [item["metadata"] for item in place.run(place.client.list(resource, place.name)).items]
    by_age = sorted(found, key=lambda metadata: int(metadata["resourceVersion"]))
    assert [metadata["name"] for metadata in by_age if metadata["name"] in names] == names
    assert pace.turns == 20


def test_cluster_scoped_objects_have_no_namespace(place: Place) -> None:
    name = f"grovescale-{secrets.token_hex(4)}"
    # As rendering leaves it: it cannot know which kinds have a namespace.
    obj = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name, "namespace": place.name},
        "value": 7,
    }
    place.run(actions.apply(place.client, [obj]))
    place.run(actions.trigger(place.client, [obj], "a.b/c", "1"))
    assert place.get(obj)["metadata"]["annotations"] == {"a.b/c": "1"}
    place.run(actions.delete(place.client, [obj]))
    place.run(actions.wait_gone(place.client, [obj], timeout=30))


def test_scale_by_subresource(place: Place) -> None:
    obj = replica_set(place, 0)
    place.run(actions.apply(place.client, [obj]))
    place.run(actions.scale(place.client, [obj], 3))
    assert place.get(obj)["spec"]["replicas"] == 3
    # The scale subresource says so itself: who wrote the field is recorded with the subresource.
    managers = place.get(obj)["metadata"]["managedFields"]
    assert any(m.get("subresource") == "scale" for m in managers)


@pytest.mark.parametrize("served", [True, False])
def test_scale_of_a_custom_kind(place: Place, served: bool) -> None:
    async def scaled() -> tuple[Object, Object]:
        async with custom_kind(place.client, scale=served) as api_version:
            obj = {
                "apiVersion": api_version,
                "kind": "Thing",
                "metadata": {"name": "thing", "namespace": place.name},
                "spec": {"replicas": 1},
            }
            await actions.apply(place.client, [obj])
            await actions.scale(place.client, [obj], 4)
            found = await place.client.get(await place.client.resource("Thing", api_version), "thing", place.name)
            await actions.delete(place.client, [obj])
            await actions.wait_gone(place.client, [obj], timeout=30)
            return obj, found

    _, found = place.run(scaled())
    assert found["spec"]["replicas"] == 4
    assert any(m.get("subresource") == "scale" for m in found["metadata"]["managedFields"]) is served


def test_schema_refusal_shows_the_field_errors(place: Place) -> None:
    async def applied() -> None:
        async with custom_kind(place.client, scale=False) as api_version:
            metadata = {"name": "thing", "namespace": place.name}
            obj = {"apiVersion": api_version, "kind": "Thing", "metadata": metadata, "spec": {"replicas": 11}}
            await actions.apply(place.client, [obj])

    with pytest.raises(WorkloadError) as raised:
        place.run(applied())
    assert "spec.replicas: Invalid value: 11" in raised.value.message
    assert "kubectl explain things" in raised.value.next_step


@pytest.mark.parametrize("mode", ["apply", "create"])
def test_unknown_field_is_refused_not_dropped(place: Place, mode: actions.Mode) -> None:
    with pytest.raises(WorkloadError, match=r"dta"):
        place.run(actions.apply(place.client, [place.config_map(dta={})], mode=mode))
    assert place.count("ConfigMap") <= 1  # kube-root-ca.crt, where a controller makes it


def test_kind_that_is_not_served(place: Place, snapshot: SnapshotAssertion) -> None:
    # Near a kind that every cluster serves: which custom resources this one has depends on the tests before.
    lost = {"apiVersion": "gone.example/v1", "kind": "ConfigMapp", "metadata": {"name": "x"}}
    with pytest.raises(WorkloadError) as raised:
        place.run(actions.apply(place.client, [place.config_map(), lost]))
    assert "'ConfigMapp' of gone.example/v1" in raised.value.message
    assert str(raised.value) == snapshot
    assert "`crds:` of the operator definition" in raised.value.next_step
    resource = place.run(place.client.resource("ConfigMap"))
    assert not place.run(place.client.exists(resource, "one", place.name))


def test_trigger_of_an_object_that_is_not_there(place: Place) -> None:
    with pytest.raises(WorkloadError, match="could not be patched") as raised:
        place.run(actions.trigger(place.client, [place.config_map()], "a.b/c", "1"))
    assert "Apply the workload first" in raised.value.next_step


def test_delete_of_what_is_gone_is_no_error(place: Place) -> None:
    place.run(actions.delete(place.client, [place.config_map()]))
    place.run(actions.wait_gone(place.client, [place.config_map()], timeout=30))


def test_a_wait_that_times_out_reports_what_holds(place: Place, snapshot: SnapshotAssertion) -> None:
    held = place.config_map()
    held["metadata"]["finalizers"] = ["test.grovescale.io/held"]
    place.run(actions.apply(place.client, [held]))
    with pytest.raises(WorkloadError, match="not being deleted"):
        place.run(actions.wait_gone(place.client, [held], timeout=0.5))
    place.run(actions.delete(place.client, [held]))
    with pytest.raises(WorkloadError) as caught:
        place.run(actions.wait_gone(place.client, [held], timeout=0.5))
    assert masked(str(caught.value), {place.name: "namespace"}, numbers=True) == snapshot(name="still there")
    place.run(actions.patch(place.client, [held], {"metadata": {"finalizers": None}}))
    place.run(actions.wait_gone(place.client, [held], timeout=30))


def test_wait_begins_before_the_deletion(place: Place) -> None:
    """The watch sees objects go one by one, whenever they do."""
    pods = place.pods(10)

    async def both() -> None:
        waiting = asyncio.create_task(actions.wait_gone(place.client, pods, timeout=30))
        for pod in pods:
            assert not waiting.done()
            await actions.delete(place.client, [pod], grace_seconds=0)
        await waiting

    place.run(actions.apply(place.client, pods))
    place.run(both())
