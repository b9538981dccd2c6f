"""Simulated nodes on a cluster that is there: ours come and go, and nothing else is touched."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.cluster import commands, handle, kwok, ledger, nodes, state
from pytest_grovescale.cluster.definition import POOL_LABEL, load_definition
from pytest_grovescale.cluster.handle import Cluster
from pytest_grovescale.errors import ClusterError, UsageError
from pytest_grovescale.kube.client import Client
from pytest_grovescale.kube.portal import Portal
from tests.foreign_cluster import CONTEXT, definition, kubeconfig, left_of, names, unique
from tests.golden import masked
from tests.waiting import wait_until

pytestmark = pytest.mark.cluster


def acquire(file: Path, name: str, *, said: list[str] | None = None, **settings: Any) -> Cluster:
    say = said.append if said is not None else lambda text: None
    return handle.acquire(definition(file, **settings), name=name, progress=say)


async def node(client: Client, name: str) -> dict[str, Any]:
    return await client.get(await client.resource("Node", "v1"), name)


def test_our_nodes_come_and_go(theirs: Cluster, config: Path, own_state: Path, portal: Portal, admin: Client) -> None:
    name = unique("ours")
    before = portal.run(names(admin, "Node"))
    said: list[str] = []
    ours = acquire(config, name, said=said, count=3, kwok="there")
    try:
        made = portal.run(names(admin, "Node", nodes.selector(name)))
        assert made == [f"{name}-node-{number}" for number in range(3)]
        assert portal.run(names(admin, "Node", f"{POOL_LABEL}=node,{ledger.CLUSTER_LABEL}={name}")) == made
        assert (ours.backend, ours.audit_log, ours.others_use_it) == ("existing", None, True)
        assert ours.pools == {f"{name}-node": 3}
        assert ours.identities == {"harness": "harness", "recorder": "harness"}
        assert ours.kubernetes == theirs.kubernetes
        assert ours.facts["kwok_runs"] == "there"
        assert ours.facts["context"] == CONTEXT
        assert any(line.startswith("  yes  grovescale-harness-nodes: ") for line in said)
    finally:
        ours.release()
    assert portal.run(names(admin, "Node")) == before
    assert not ours.directory.exists()


def test_our_own_kwok_plays_our_nodes_and_no_others(
    without_kwok: Cluster, own_state: Path, portal: Portal, tmp_path: Path
) -> None:
    client = portal.client(without_kwok.access)
    foreign = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "foreign", "labels": {"type": "kwok"}}}
    portal.run(client.create(foreign))
    name = unique("hosted")
    ours = acquire(kubeconfig(tmp_path / "config", without_kwok.access), name, kwok="auto")
    try:
        assert ours.facts["kwok_runs"] == "host"
        assert ours.processes()["kwok"].running
        assert "kwok" in ours.metrics
        # No second kwok, should one come, takes them for its own.
        found = portal.run(node(client, f"{name}-node-0"))
        assert kwok.ANNOTATION not in found["metadata"].get("annotations", {})
        leases = {f"{name}-node-0", f"{name}-node-1"}
        wait_until(lambda: leases <= set(portal.run(names(client, "Lease"))), "leases that keep the nodes alive")
        assert not portal.run(node(client, "foreign")).get("status", {}).get("conditions")
    finally:
        ours.release()
        portal.run(_delete(client, "foreign"))
    assert portal.run(left_of(client, ours)) == []
    wait_until(lambda: not leases & set(portal.run(names(client, "Lease"))), "the end of the leases with their nodes")


async def _delete(client: Client, name: str) -> None:
    await client.delete(await client.resource("Node", "v1"), name)


def test_nodes_live_where_a_node_lifecycle_controller_counts_their_heartbeats(
    own_state: Path, portal: Portal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    default = load_definition("default").with_nodes(1)
    manager = msgspec.structs.replace(
        default.controller_manager,
        controllers=[*default.controller_manager.controllers, "node-lifecycle-controller"],
        extra_args={"node-monitor-grace-period": "6s", "node-monitor-period": "1s"},
    )
    counting = msgspec.structs.replace(default, controller_manager=manager)
    monkeypatch.setenv("GROVESCALE_STATE_DIR", str(tmp_path / "their state"))
    strict = handle.acquire(counting, name="strict", progress=lambda text: None)
    strict.stop_process("kwok")
    client = portal.client(strict.access)
    monkeypatch.setenv("GROVESCALE_STATE_DIR", str(own_state))
    wanted = definition(kubeconfig(tmp_path / "config", strict.access), kwok="host")
    wanted = msgspec.structs.replace(wanted, kwok=msgspec.structs.replace(wanted.kwok, lease_seconds=8))
    ours = handle.acquire(wanted, name=unique("alive"), progress=lambda text: None)

    def taints(name: str) -> set[str]:
        return {taint["key"] for taint in portal.run(node(client, name))["spec"].get("taints", [])}

    try:
        wait_until(lambda: "node.kubernetes.io/unreachable" in taints("node-0"), "the end of a node without kubelet")
        assert taints(f"{ours.name}-node-0") == {"kwok.x-k8s.io/node"}
    finally:
        ours.release()
        strict.release()


def test_where_no_kwok_is_there_waiting_for_it_says_so(
    without_kwok: Cluster,
    own_state: Path,
    portal: Portal,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    snapshot: SnapshotAssertion,
) -> None:
    monkeypatch.setattr(kwok, "_READY_S", 1.0)
    with pytest.raises(ClusterError) as caught:
        acquire(kubeconfig(tmp_path / "config", without_kwok.access), unique("nobody"), kwok="there")
    assert caught.value.message.splitlines()[0].rpartition(": ")[2] == snapshot
    assert "kwok: host" in caught.value.next_step
    client = portal.client(without_kwok.access)
    assert portal.run(names(client, "Node", ledger.CLUSTER_LABEL)) == portal.run(
        names(client, "Node", nodes.selector(without_kwok.name))
    )
    assert state.names() == []


def test_a_name_that_someone_has_already_is_refused(
    config: Path,
    own_state: Path,
    portal: Portal,
    admin: Client,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    snapshot: SnapshotAssertion,
) -> None:
    name = unique("twice")
    first = acquire(config, name, kwok="there")
    monkeypatch.setenv("GROVESCALE_STATE_DIR", str(tmp_path / "another user's state"))
    with pytest.raises(ClusterError) as caught:
        acquire(config, name, kwok="there")
    assert masked(str(caught.value), {name: "cluster", tmp_path: "folder"}) == snapshot
    assert len(portal.run(names(admin, "Node", nodes.selector(name)))) == 2, "the first one's are left alone"
    assert state.names() == []
    monkeypatch.setenv("GROVESCALE_STATE_DIR", str(own_state))
    first.release()


@pytest.mark.parametrize("name", ["under_score", "x" * 60])
def test_a_name_that_no_node_can_have_is_refused(config: Path, own_state: Path, name: str) -> None:
    with pytest.raises(UsageError, match="no node can be called"):
        acquire(config, name, kwok="there")
    assert state.names() == []


def test_two_users_at_once_have_their_own_nodes(
    config: Path, own_state: Path, portal: Portal, admin: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = acquire(config, unique("first"), kwok="there")
    monkeypatch.setenv("GROVESCALE_STATE_DIR", str(tmp_path / "another user's state"))
    second = acquire(config, unique("second"), kwok="there")
    assert not set(portal.run(left_of(admin, first))) & set(portal.run(left_of(admin, second)))
    second.release()
    assert portal.run(left_of(admin, second)) == []
    assert len(portal.run(left_of(admin, first))) == 2
    monkeypatch.setenv("GROVESCALE_STATE_DIR", str(own_state))
    first.release()


def test_up_status_kubeconfig_and_down(
    config: Path, own_state: Path, portal: Portal, admin: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(config))
    name = unique("stays")
    said: list[str] = []
    written: list[str] = []
    assert commands.up(f"existing:{CONTEXT}", name=name, nodes=2, say=said.append, write=written.append) == 0
    assert written == [str(own_state / "clusters" / name / "kubeconfig")]
    assert yaml.safe_load(Path(written[0]).read_text())["current-context"] == name
    commands.status(write=written.append)
    assert f"{name}: existing, Kubernetes" in written[-1]
    assert len(portal.run(names(admin, "Node", nodes.selector(name)))) == 2
    commands.down(name, say=said.append)
    assert f"stopped cluster {name}" in said
    assert portal.run(names(admin, "Node", nodes.selector(name))) == []
    assert state.names() == []


def test_a_context_that_is_not_on_this_machine_is_refused_before_anything_is_made(
    own_state: Path, tmp_path: Path
) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text(
        yaml.safe_dump(
            {
                "current-context": CONTEXT,
                "clusters": [{"name": "c", "cluster": {"server": "https://203.0.113.7:6443"}}],
                "users": [{"name": "u", "user": {"token": "t"}}],
                "contexts": [{"name": CONTEXT, "context": {"cluster": "c", "user": "u"}}],
            }
        ),
        encoding="utf-8",
    )
    with pytest.raises(UsageError, match="not on this machine"):
        acquire(file, unique("far"), kwok="there")
    assert state.names() == []


def test_a_context_switched_by_another_user_changes_nothing(
    theirs: Cluster, config: Path, own_state: Path, portal: Portal, admin: Client
) -> None:
    name = unique("switched")
    current = definition(config, kwok="there")
    document = yaml.safe_load(config.read_text())
    ours = handle.acquire(current, name=name, progress=lambda text: None)
    document["current-context"] = "another"
    document["contexts"].append({"name": "another", "context": {"cluster": "another", "user": CONTEXT}})
    document["clusters"].append({"name": "another", "cluster": {"server": "https://203.0.113.7:6443"}})
    config.write_text(yaml.safe_dump(document))
    again = handle.join(name, progress=lambda text: None)
    assert again.access.server == theirs.server
    again.release()
    ours.release()
    assert portal.run(left_of(admin, ours)) == []
