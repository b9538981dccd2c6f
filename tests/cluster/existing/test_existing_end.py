"""The end on a cluster that is there: all that was made goes, whatever happened before, and nothing else does."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.cluster import handle, nodes, processes, state
from pytest_grovescale.cluster.existing import cleanup
from pytest_grovescale.cluster.handle import Cluster
from pytest_grovescale.errors import OperatorError
from pytest_grovescale.kube.access import Access
from pytest_grovescale.kube.client import Client, Object
from pytest_grovescale.kube.portal import Portal
from pytest_grovescale.operator import install
from pytest_grovescale.operator.manifests import Manifest
from pytest_grovescale.workload import namespace as namespaces
from tests.foreign_cluster import definition, left_of, names, unique
from tests.golden import masked

pytestmark = pytest.mark.cluster

Join = Callable[[str], Cluster]


@pytest.fixture
def join(config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Join]:
    """Use their cluster as one user or another, each with a state folder of their own."""
    held: list[tuple[str, Cluster]] = []

    def use(user: str) -> Cluster:
        folder = str(tmp_path / user)
        monkeypatch.setenv("GROVESCALE_STATE_DIR", folder)
        found = handle.acquire(definition(config, kwok="there"), name=unique(user), progress=lambda text: None)
        held.append((folder, found))
        return found

    yield use
    for folder, cluster in held:
        monkeypatch.setenv("GROVESCALE_STATE_DIR", folder)
        cluster.release()


def config_map(name: str, namespace: str = "default", **data: str) -> Object:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def crd(group: str, kind: str = "string") -> Object:
    properties = {"spec": {"type": "object", "properties": {"size": {"type": kind}}}}
    schema = {"type": "object", "properties": properties}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"widgets.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget", "singular": "widget"},
            "versions": [version],
        },
    }


def group() -> str:
    return f"{secrets.token_hex(4)}.test.grovescale.io"


async def install_left_behind(client: Client, cluster: Cluster, *objects: Object) -> list[Object]:
    manifests = [Manifest(obj, "test.yaml:1") for obj in objects]
    made = await install.install(client, manifests, operator="test", owner=cluster.owner, progress=lambda text: None)
    await install.wait_established(client, [obj for obj in objects if obj["kind"] == "CustomResourceDefinition"])
    return made


async def there(client: Client, obj: Object) -> dict[str, Any] | None:
    resource = await client.resource(obj["kind"], obj["apiVersion"])
    name, namespace = obj["metadata"]["name"], obj["metadata"].get("namespace")
    return await client.get(resource, name, namespace) if await client.exists(resource, name, namespace) else None


async def delete(client: Client, obj: Object) -> None:
    resource = await client.resource(obj["kind"], obj["apiVersion"])
    await client.delete(resource, obj["metadata"]["name"], obj["metadata"].get("namespace"))


def pod(namespace: str, node: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "worker", "namespace": namespace, "finalizers": ["test.grovescale.io/operator-is-gone"]},
        "spec": {
            "nodeName": node,
            "containers": [{"name": "worker", "image": "pause"}],
            "tolerations": [{"operator": "Exists"}],
        },
    }


def test_all_that_was_made_goes_and_nothing_else(join: Join, portal: Portal, admin: Client) -> None:
    ours = join("ours")
    portal.run(admin.create(before := config_map(unique("before"))))
    made = [config_map(unique("made")), crd(group())]
    portal.run(install_left_behind(admin, ours, before, *made))
    place = portal.run(namespaces.create(admin, test="left", run_id="run-x", labels=ours.owner.labels))
    foreign = portal.run(namespaces.create(admin, test="foreign", run_id="run-x"))
    portal.run(admin.create(pod(place, f"{ours.name}-node-0")))
    ours.release()
    assert portal.run(left_of(admin, ours)) == []
    assert [portal.run(there(admin, obj)) for obj in made] == [None, None]
    assert portal.run(there(admin, before)) is not None
    assert foreign in portal.run(names(admin, "Namespace"))
    portal.run(delete(admin, before))
    portal.run(namespaces.remove(admin, foreign, at_once=True))


def test_a_killed_supervisors_cluster_is_cleared_by_the_next_start(join: Join, portal: Portal, admin: Client) -> None:
    ours = join("killed")
    made = config_map(unique("made"))
    portal.run(install_left_behind(admin, ours, made))
    owner = state.owner(ours.directory)
    assert owner is not None
    os.kill(owner.pid, signal.SIGKILL)
    assert processes.wait_gone(owner.pid, owner.started_ticks, 30)
    said: list[str] = []
    handle.clear_stale(progress=said.append)
    assert portal.run(left_of(admin, ours)) == []
    assert portal.run(there(admin, made)) is None
    assert any("cleared up after it" in line for line in said)
    assert not ours.directory.exists()


def test_a_cluster_that_is_no_more_is_reported_and_can_be_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], snapshot: SnapshotAssertion
) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    state.write_access(folder, "harness", Access(server="https://127.0.0.1:1"))
    monkeypatch.setattr(cleanup, "_ANSWER_S", 0.0)
    assert asyncio.run(cleanup.main(folder)) == 1
    reported = capsys.readouterr().out
    says, advice = reported.splitlines()
    # What follows it are the words of the client's library.
    assert says.partition(": ")[0] == snapshot(name="reason")
    assert masked(advice, {folder: "folder"}) == snapshot(name="advice")
    assert f"rm -r '{folder}'" in reported


def test_what_two_users_need_stays_until_both_are_done(join: Join, portal: Portal, admin: Client) -> None:
    shared = crd(group())
    first, second = join("first"), join("second")
    for user in (first, second):
        assert len(portal.run(install_left_behind(admin, user, shared))) == 1
    portal.run(cleanup.remove_objects(admin, first.owner))
    found = portal.run(there(admin, shared))
    assert found is not None
    assert second.owner.label in found["metadata"]["labels"]
    assert first.owner.label not in found["metadata"]["labels"]
    removal = portal.run(cleanup.remove_objects(admin, second.owner))
    assert portal.run(there(admin, shared)) is None
    assert any("widgets" in line for line in removal.removed)


def test_an_operator_that_is_uninstalled_stays_for_others(join: Join, portal: Portal, admin: Client) -> None:
    shared = crd(group())
    first, second = join("first"), join("second")
    for user in (first, second):
        portal.run(install_left_behind(admin, user, shared))
    portal.run(install.remove(admin, [shared], owner=first.owner))
    assert portal.run(there(admin, shared)) is not None
    portal.run(install.remove(admin, [shared], owner=second.owner))
    assert portal.run(cleanup.remove_objects(admin, second.owner)).stuck == []
    assert portal.run(there(admin, shared)) is None


def test_two_users_cannot_need_two_versions_at_once(
    join: Join, portal: Portal, admin: Client, snapshot: SnapshotAssertion
) -> None:
    where = group()
    first, second = join("first"), join("second")
    portal.run(install_left_behind(admin, first, crd(where)))
    with pytest.raises(OperatorError) as caught:
        portal.run(install_left_behind(admin, second, crd(where, "integer")))
    assert masked(str(caught.value), {where: "group", first.name: "cluster"}) == snapshot
    assert first.name in caught.value.message
    assert "wanted 'integer'" in caught.value.message
    assert first.owner.label in portal.run(there(admin, crd(where)))["metadata"]["labels"]  # type: ignore[index]


def test_a_crd_that_was_there_is_used_if_it_is_the_same_and_stays(
    join: Join, portal: Portal, admin: Client, snapshot: SnapshotAssertion
) -> None:
    theirs = crd(group())
    portal.run(admin.create(theirs))
    ours = join("ours")
    assert portal.run(install_left_behind(admin, ours, theirs)) == []
    with pytest.raises(OperatorError) as caught:
        portal.run(install_left_behind(admin, ours, crd(theirs["spec"]["group"], "integer")))
    assert masked(str(caught.value), {theirs["spec"]["group"]: "group"}) == snapshot
    assert "test.yaml:1" in caught.value.message
    assert "wanted 'integer'" in caught.value.message
    assert caught.value.next_step
    portal.run(cleanup.remove_objects(admin, ours.owner))
    assert portal.run(there(admin, theirs)) is not None
    portal.run(delete(admin, theirs))


def test_a_crd_of_ours_stays_for_those_who_use_it_by_then(
    join: Join, portal: Portal, admin: Client, snapshot: SnapshotAssertion
) -> None:
    made = crd(group())
    ours = join("ours")
    portal.run(install_left_behind(admin, ours, made))
    widget = {
        "apiVersion": f"{made['spec']['group']}/v1",
        "kind": "Widget",
        "metadata": {"name": "somebodys", "namespace": "default"},
    }
    portal.run(admin.create(widget))
    removal = portal.run(cleanup.remove_objects(admin, ours.owner))
    (kept,) = (line for line in removal.kept if "default/somebodys" in line)
    assert masked(kept, {made["metadata"]["name"]: "name"}) == snapshot
    assert portal.run(there(admin, widget)) is not None
    labels = portal.run(there(admin, made))["metadata"]["labels"]  # type: ignore[index]
    assert not [label for label in labels if label.startswith(("owner.grovescale.io/", "grovescale.io/managed"))]
    portal.run(delete(admin, made))


def test_an_object_made_again_by_another_user_is_theirs(join: Join, portal: Portal, admin: Client) -> None:
    made = config_map(unique("made"))
    ours = join("ours")
    portal.run(install_left_behind(admin, ours, made))
    portal.run(delete(admin, made))
    portal.run(admin.create(made))
    portal.run(cleanup.remove_objects(admin, ours.owner))
    assert portal.run(there(admin, made)) is not None
    portal.run(delete(admin, made))


def test_a_namespace_that_is_stuck_is_named_with_what_holds_it_and_others_go(
    join: Join, portal: Portal, admin: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Nobody serves it, so the namespace controller cannot know whether a namespace is empty.
    api = {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": f"v1.{group()}"},
        "spec": {
            "group": "",
            "version": "v1",
            "groupPriorityMinimum": 1000,
            "versionPriority": 1,
            "service": {"name": "nobody", "namespace": "default", "port": 443},
            "insecureSkipTLSVerify": True,
        },
    }
    api["spec"]["group"] = api["metadata"]["name"].removeprefix("v1.")  # type: ignore[index]
    ours = join("stuck")
    made = config_map(unique("made"))
    portal.run(install_left_behind(admin, ours, made))
    place = portal.run(namespaces.create(admin, test="stuck", run_id="run-x", labels=ours.owner.labels))
    portal.run(admin.create(api))
    try:
        monkeypatch.setattr(cleanup, "_NAMESPACE_S", 10.0)
        removal = portal.run(cleanup.remove_objects(admin, ours.owner))
        (reported,) = removal.stuck
        assert place in reported
        assert "DiscoveryFail" in reported
        assert portal.run(there(admin, made)) is None
        assert portal.run(names(admin, "Node", nodes.selector(ours.name))) == []
    finally:
        portal.run(delete(admin, api))
    assert portal.run(cleanup.remove_objects(admin, ours.owner)).stuck == []
    assert portal.run(left_of(admin, ours)) == []
