"""A test's namespace goes with all that is in it, and no other namespace is ever touched."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.errors import WorkloadError
from pytest_grovescale.kube.client import Client
from pytest_grovescale.kube.errors import NotFound
from pytest_grovescale.kube.informer import follow
from pytest_grovescale.kube.portal import Portal
from pytest_grovescale.workload import actions, namespace
from pytest_grovescale.workload.template import RUN_LABEL
from tests.golden import masked

pytestmark = pytest.mark.cluster

HOLD = "test.grovescale.io/held"


def config_map(namespace: str, *finalizers: str, name: str = "one") -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace, "finalizers": list(finalizers)}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


async def left_in(client: Client, name: str) -> list[str]:
    """Return what is left in a namespace, itself included, by kind and name."""
    names = ["Namespace"] if await there(client, name) else []
    for kind in ("ConfigMap", "ServiceAccount", "Secret", "Pod"):
        found = await client.list(await client.resource(kind), name)
        names += [f"{kind} {item['metadata']['name']}" for item in found.items]
    return names


async def there(client: Client, name: str) -> bool:
    return await client.exists(await client.resource("Namespace"), name)


def test_namespace_says_whose_it_is(portal: Portal, client: Client) -> None:
    name = portal.run(namespace.create(client, test="test_x[1]", run_id="run-1"))
    found = portal.run(client.get(portal.run(client.resource("Namespace")), name))["metadata"]
    assert name.startswith("test-x-1-")
    assert found["labels"][RUN_LABEL] == "run-1"
    assert found["annotations"][namespace.TEST_ANNOTATION] == "test_x[1]"
    assert portal.run(namespace.remove(client, name, run_id="run-1", at_once=True)) == []


@pytest.mark.parametrize("at_once", [True, False])
def test_what_belongs_to_objects_of_no_namespace_goes_with_them(portal: Portal, client: Client, at_once: bool) -> None:
    """As Namespaces and bindings of a cluster-scoped object: the next test may have one of that name."""
    name = portal.run(namespace.create(client, test="dependents", run_id="run-1"))
    tenant = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": f"t-{name}"}}
    uid = portal.run(client.create(tenant))["metadata"]["uid"]
    owner = {"apiVersion": tenant["apiVersion"], "kind": "ClusterRole", "name": f"t-{name}", "uid": uid}
    owned = {"name": f"owned-{name}", "ownerReferences": [owner]}
    made = portal.run(client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": owned}))
    config = {**config_map(f"owned-{name}", name="inside"), "data": {"a": "b"}}
    portal.run(client.create(config))
    binding = {"roleRef": {"kind": "ClusterRole", "name": "view", "apiGroup": "rbac.authorization.k8s.io"}}
    portal.run(
        client.create({**binding, "apiVersion": tenant["apiVersion"], "kind": "ClusterRoleBinding", "metadata": owned})
    )
    portal.run(client.delete(portal.run(client.resource("ClusterRole")), f"t-{name}"))
    assert portal.run(namespace.remove(client, name, run_id="run-1", objects=[tenant], at_once=at_once)) == []
    assert not portal.run(there(client, made["metadata"]["name"]))
    assert not portal.run(client.exists(portal.run(client.resource("ClusterRoleBinding")), f"owned-{name}"))


@pytest.mark.parametrize("at_once", [True, False])
def test_removal_leaves_nothing(portal: Portal, client: Client, at_once: bool) -> None:
    name = portal.run(namespace.create(client, test="removal", run_id="run-1"))
    objects = [config_map(name)]
    portal.run(actions.apply(client, [*objects, config_map(name, name="not-told-of")]))
    assert portal.run(namespace.remove(client, name, run_id="run-1", objects=objects, at_once=at_once)) == []
    assert portal.run(left_in(client, name)) == []
    assert portal.run(namespace.remove(client, name, run_id="run-1", objects=objects)) == []


def test_workload_goes_before_the_namespace(portal: Portal, client: Client) -> None:
    """Whoever owns the finalizer has its time: the namespace is not even asked to go before."""
    name = portal.run(namespace.create(client, test="order", run_id="run-1"))
    objects = [config_map(name, HOLD)]

    async def removal() -> tuple[str, list[str]]:
        await actions.apply(client, objects)
        removing = asyncio.create_task(namespace.remove(client, name, run_id="run-1", objects=objects, at_once=True))
        maps, namespaces = await client.resource("ConfigMap"), await client.resource("Namespace")
        async for change in follow(client, maps, name, field_selector="metadata.name=one"):
            if change.object is not None and change.object.metadata.deletion_timestamp:
                break
        phase = (await client.get(namespaces, name))["status"]["phase"]
        await actions.patch(client, objects, {"metadata": {"finalizers": None}})
        return phase, await removing

    assert portal.run(removal()) == ("Active", [])


def test_what_holds_a_namespace_is_reported_and_freed(portal: Portal, client: Client) -> None:
    name = portal.run(namespace.create(client, test="held", run_id="run-1"))
    objects = [config_map(name, HOLD)]
    portal.run(actions.apply(client, objects))
    said: list[str] = []
    freed = portal.run(
        namespace.remove(
            client, name, run_id="run-1", objects=objects, objects_timeout=0.2, timeout=0.2, progress=said.append
        )
    )
    assert len(freed) == 1
    assert freed[0].startswith(f"ConfigMap {name}/one: deletion asked for at ")
    assert freed[0].endswith(f"finalizers: {HOLD}")
    assert any("there are still" in line for line in said)
    assert not portal.run(there(client, name))


def test_a_namespace_that_still_changes_is_waited_for(portal: Portal, client: Client) -> None:
    """Its controller tells in its status how much is left; here somebody else writes into it, longer than the limit."""
    name = portal.run(namespace.create(client, test="slow", run_id="run-1"))
    objects = [config_map(name, HOLD)]

    async def removal() -> list[str]:
        await actions.apply(client, objects)
        removing = asyncio.create_task(
            namespace.remove(client, name, run_id="run-1", objects=objects, objects_timeout=0.1, timeout=3)
        )
        resource = await client.resource("Namespace")
        for count in range(60):
            if removing.done():
                break
            await asyncio.sleep(0.2)
            if count == 20:
                await actions.patch(client, objects, {"metadata": {"finalizers": None}})
            with contextlib.suppress(NotFound):
                await client.patch(resource, name, body={"metadata": {"annotations": {"count": str(count)}}})
        return await removing

    assert portal.run(removal()) == []


def test_namespace_of_another_user_is_not_touched(portal: Portal, client: Client) -> None:
    name = f"theirs-{secrets.token_hex(3)}"
    portal.run(client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}))
    with pytest.raises(WorkloadError, match="was not made by a run"):
        portal.run(namespace.remove(client, name))
    resource = portal.run(client.resource("Namespace"))
    assert portal.run(client.get(resource, name))["status"]["phase"] == "Active"
    portal.run(client.delete(resource, name))


def test_namespace_of_another_run_is_not_touched(portal: Portal, client: Client, snapshot: SnapshotAssertion) -> None:
    name = portal.run(namespace.create(client, test="other", run_id="run-1"))
    with pytest.raises(WorkloadError) as caught:
        portal.run(namespace.remove(client, name, run_id="run-2"))
    assert masked(str(caught.value), {name: "namespace"}) == snapshot
    assert "run-2" in str(caught.value)
    assert portal.run(namespace.remove(client, name, run_id="run-1", at_once=True)) == []
