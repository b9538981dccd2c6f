"""Identities with little rights on a cluster that is there: asked beforehand, and told what is missing."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
import yaml
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.cluster import handle, ledger, nodes, state
from pytest_grovescale.cluster.existing.discovery import KWOK_ROLE
from pytest_grovescale.cluster.handle import Cluster
from pytest_grovescale.errors import ClusterError
from pytest_grovescale.kube.client import Client, Object
from pytest_grovescale.kube.portal import Portal
from pytest_grovescale.workload import namespace as namespaces
from tests.foreign_cluster import account, definition, harness_roles, kubeconfig, left_of, names, unique
from tests.waiting import wait_until

pytestmark = pytest.mark.cluster


def test_the_bundled_roles_suffice(without_kwok: Cluster, own_state: Path, portal: Portal, tmp_path: Path) -> None:
    admin = portal.client(without_kwok.access)
    access = portal.run(account(admin))
    said: list[str] = []
    name = unique("small")
    ours = handle.acquire(
        definition(kubeconfig(tmp_path / "config", access), kwok="host"), name=name, progress=said.append
    )
    try:
        assert ours.identities["harness"].startswith("system:serviceaccount:default:user-")
        assert any("refused: get /metrics" in line for line in said), "what was not bound is told"
        assert "metrics" in str(ours.facts["not_allowed"])
        assert list(ours.metrics) == ["kwok"], "what may not be read is not tried"
    finally:
        ours.release()
    assert portal.run(left_of(admin, ours)) == []


def test_pods_whose_kwok_has_ended_go_with_the_bundled_roles(
    without_kwok: Cluster, own_state: Path, portal: Portal, tmp_path: Path
) -> None:
    admin = portal.client(without_kwok.access)
    file = kubeconfig(tmp_path / "config", portal.run(account(admin)))
    ours = handle.acquire(definition(file, kwok="host"), name=unique("pods"), progress=lambda text: None)
    try:
        place = portal.run(namespaces.create(admin, test="left", run_id="run-x", labels=ours.owner.labels))
        for number in range(3):
            portal.run(admin.create(pod(f"pod-{number}", place, f"{ours.name}-node-0")))
        wait_until(lambda: portal.run(running(admin, place)) == 3, "the pods")
    finally:
        # Before what was made goes, kwok is stopped: nobody ends the pods within the grace that they have.
        ours.release()
    assert portal.run(left_of(admin, ours)) == []


def pod(name: str, namespace: str, node: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "nodeName": node,
            "containers": [{"name": "worker", "image": "pause"}],
            "tolerations": [{"operator": "Exists"}],
        },
    }


async def running(client: Client, namespace: str) -> int:
    listing = await client.list(await client.resource("Pod", "v1"), namespace, field_selector="status.phase=Running")
    return len(listing.items)


def test_rights_that_are_too_small_end_it_before_anything_is_made(
    theirs: Cluster, own_state: Path, portal: Portal, admin: Client, tmp_path: Path
) -> None:
    access = portal.run(account(admin, harness_roles(without="grovescale-harness-nodes")))
    before = portal.run(names(admin, "Node"))
    with pytest.raises(ClusterError) as caught:
        handle.acquire(
            definition(kubeconfig(tmp_path / "config", access), kwok="there"),
            name=unique("refused"),
            progress=lambda text: None,
        )
    rules = yaml.safe_load(caught.value.message.partition(":\n")[2])["rules"]
    missing = {verb for rule in rules if "nodes" in rule["resources"] for verb in rule["verbs"]}
    # What kwok's role grants too is not missing.
    assert {"create", "delete"} <= missing
    assert portal.run(names(admin, "Node")) == before
    assert state.names() == []


def test_without_the_rights_of_a_kwok_of_ours_one_must_be_there(
    theirs: Cluster,
    without_kwok: Cluster,
    own_state: Path,
    portal: Portal,
    admin: Client,
    tmp_path: Path,
    snapshot: SnapshotAssertion,
) -> None:
    roles = harness_roles(without=KWOK_ROLE)
    access = portal.run(account(admin, roles))
    there = handle.acquire(
        definition(kubeconfig(tmp_path / "there", access), kwok="auto"),
        name=unique("there"),
        progress=lambda text: None,
    )
    assert there.facts["kwok_runs"] == "there"
    there.release()
    with pytest.raises(ClusterError, match="nothing was made"):
        handle.acquire(
            definition(kubeconfig(tmp_path / "there", access), kwok="host"),
            name=unique("h"),
            progress=lambda text: None,
        )
    bare = portal.client(without_kwok.access)
    access = portal.run(account(bare, roles))
    with pytest.raises(ClusterError) as caught:
        handle.acquire(
            definition(kubeconfig(tmp_path / "bare", access), kwok="auto"), name=unique("b"), progress=lambda text: None
        )
    assert caught.value.message.splitlines()[0] == snapshot
    assert KWOK_ROLE in caught.value.next_step
    own = nodes.selector(without_kwok.name)
    assert portal.run(names(bare, "Node", ledger.CLUSTER_LABEL)) == portal.run(names(bare, "Node", own))


def test_no_one_at_all_is_reported_what_to_try(theirs: Cluster, own_state: Path, tmp_path: Path) -> None:
    stranger = msgspec.structs.replace(theirs.access, client_cert_pem="", client_key_pem="", token="not-a-token")
    with pytest.raises(ClusterError, match=r"cannot be used: .*Unauthorized") as caught:
        handle.acquire(
            definition(kubeconfig(tmp_path / "config", stranger)), name=unique("nobody"), progress=lambda text: None
        )
    assert "kubectl version --context theirs" in caught.value.next_step
    assert state.names() == []
