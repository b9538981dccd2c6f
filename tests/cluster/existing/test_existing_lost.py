"""A machine that is lost with its state folder: what its run left on a cluster of others is cleared from elsewhere."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.cluster import commands, handle, lease_lock, nodes, processes, state
from pytest_grovescale.cluster.existing import orphans
from pytest_grovescale.cluster.handle import Cluster
from pytest_grovescale.errors import ClusterError, UsageError
from pytest_grovescale.kube.client import Client, Object
from pytest_grovescale.kube.portal import Portal
from pytest_grovescale.operator import install
from pytest_grovescale.operator.manifests import Manifest
from pytest_grovescale.workload import namespace as namespaces
from tests.foreign_cluster import (
    CONTEXT,
    account,
    binding,
    definition,
    harness_roles,
    kubeconfig,
    left_of,
    names,
    unique,
)
from tests.golden import masked

pytestmark = pytest.mark.cluster


def role(name: str) -> Object:
    return {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name}}


def settings(name: str) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}}


async def install_left_behind(client: Client, cluster: Cluster, *objects: Object) -> None:
    manifests = [Manifest(obj, "test.yaml:1") for obj in objects]
    await install.install(client, manifests, operator="test", owner=cluster.owner, progress=lambda text: None)


def lose(cluster: Cluster) -> None:
    """Kill the supervisor, and remove the state folder: as when the machine is gone."""
    owner = state.owner(cluster.directory)
    assert owner is not None
    os.kill(owner.pid, signal.SIGKILL)
    assert processes.wait_gone(owner.pid, owner.started_ticks, 30)
    shutil.rmtree(state.root())
    # Nothing is known of what it was; this closes our own file.
    cluster.release()


class Elsewhere:
    """The command as another machine runs it, and what it said."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.written: list[str] = []

    def down(self, name: str, *, dry_run: bool = False) -> int:
        return commands.down_elsewhere(
            name, context=CONTEXT, dry_run=dry_run, say=self.said.append, write=self.written.append
        )


@pytest.fixture
def elsewhere(config: Path, monkeypatch: pytest.MonkeyPatch) -> Elsewhere:
    monkeypatch.setenv("KUBECONFIG", str(config))
    return Elsewhere()


@pytest.fixture
def ours(config: Path, own_state: Path) -> Iterator[Cluster]:
    held = handle.acquire(definition(config, kwok="there"), name=unique("lost"), progress=lambda text: None)
    yield held
    held.release()


def test_what_carries_its_labels_goes_and_nothing_else(
    ours: Cluster, portal: Portal, admin: Client, elsewhere: Elsewhere, snapshot: SnapshotAssertion
) -> None:
    made, foreign = role(unique("made")), role(unique("foreign"))
    portal.run(admin.create(foreign))
    portal.run(install_left_behind(admin, ours, made, settings(unique("made"))))
    place = portal.run(namespaces.create(admin, test="left", run_id="run-x", labels=ours.owner.labels))
    lose(ours)
    assert elsewhere.down(ours.name, dry_run=True) == 0
    assert place in portal.run(names(admin, "Namespace"))
    reported = "\n".join(elsewhere.written)
    assert f"2 nodes, as {ours.name}-node-0\nNamespace {place}\n" in reported
    assert f"ClusterRole {made['metadata']['name']}" in reported
    assert "ConfigMap default/made-" in reported
    assert elsewhere.down(ours.name) == 0
    assert portal.run(left_of(admin, ours)) == []
    roles = portal.run(names(admin, "ClusterRole"))
    assert made["metadata"]["name"] not in roles
    assert foreign["metadata"]["name"] in roles
    assert elsewhere.down(ours.name) == 0
    assert CONTEXT in elsewhere.said[-1]
    assert masked(elsewhere.said[-1], {ours.name: "cluster"}) == snapshot


def test_the_bundled_roles_suffice_for_what_a_process_operator_leaves(
    ours: Cluster,
    portal: Portal,
    admin: Client,
    elsewhere: Elsewhere,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    snapshot: SnapshotAssertion,
) -> None:
    made = [role(unique("made")), binding(unique("made"), "view", "nobody")]
    portal.run(install_left_behind(admin, ours, *made))
    lose(ours)
    limited = kubeconfig(tmp_path / "limited", portal.run(account(admin, harness_roles())))
    monkeypatch.setenv("KUBECONFIG", str(limited))
    assert elsewhere.down(ours.name) == 0
    assert portal.run(left_of(admin, ours)) == []
    assert made[0]["metadata"]["name"] not in portal.run(names(admin, "ClusterRole"))
    assert made[1]["metadata"]["name"] not in portal.run(names(admin, "ClusterRoleBinding"))
    unseen = [line for line in elsewhere.said if "may not list" in line]
    assert [line.rpartition(": ")[2] for line in unseen] == ["configmaps", "secrets"]
    assert "\n".join(unseen) == snapshot


def test_a_cluster_of_this_machine_is_not_lost(ours: Cluster, elsewhere: Elsewhere) -> None:
    with pytest.raises(UsageError, match="is one of this machine") as caught:
        elsewhere.down(ours.name)
    assert caught.value.next_step == f"Use: grovescale down {ours.name}"


def test_without_a_name_those_that_are_there_are_reported(ours: Cluster, elsewhere: Elsewhere) -> None:
    with pytest.raises(UsageError, match=f"There is something of: .*{ours.name}"):
        elsewhere.down("")


def test_a_cluster_whose_tests_run_is_left_alone(
    ours: Cluster, portal: Portal, admin: Client, elsewhere: Elsewhere, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rhythm = lease_lock.Rhythm(lasts=2.0, renew=0.5, look=0.1)
    turn = lease_lock.SharedTurn(
        admin, lease_lock.claim(alone=False, operator=False, cluster=ours.name, rhythm=rhythm), rhythm=rhythm
    )
    portal.run(turn.take(lambda text: None))
    try:
        with monkeypatch.context() as patch:
            patch.setenv("GROVESCALE_STATE_DIR", str(tmp_path / "another machine"))
            with pytest.raises(ClusterError, match=r"is in use: ") as caught:
                elsewhere.down(ours.name)
            assert "nothing was removed" in caught.value.message
    finally:
        portal.run(turn.give_back(lambda text: None))
    assert len(portal.run(names(admin, "Node", nodes.selector(ours.name)))) == 2


def test_a_claim_that_is_renewed_no_longer_is_none(theirs: Cluster, portal: Portal, admin: Client) -> None:
    rhythm = lease_lock.Rhythm(lasts=1.0, renew=0.2, look=0.1)
    claim = lease_lock.claim(alone=False, operator=False, cluster=unique("silent"), rhythm=rhythm)
    with Portal() as gone:
        gone.run(lease_lock.SharedTurn(gone.client(theirs.access), claim, rhythm=rhythm).take(lambda text: None))
    assert claim.id in [standing.id for standing in portal.run(lease_lock.standing(admin)).claims]
    assert portal.run(orphans.in_use(admin, claim.cluster)) == ""


def test_one_whose_own_kwok_plays_its_nodes_is_in_use(
    without_kwok: Cluster, own_state: Path, portal: Portal, tmp_path: Path, snapshot: SnapshotAssertion
) -> None:
    admin = portal.client(without_kwok.access)
    file = kubeconfig(tmp_path / "kubeconfig", without_kwok.access)
    ours = handle.acquire(definition(file, kwok="host"), name=unique("played"), progress=lambda text: None)
    try:
        reported = portal.run(orphans.in_use(admin, ours.name))
        assert ours.name in reported
        assert masked(reported, {ours.name: "cluster"}) == snapshot
    finally:
        ours.release()
    assert portal.run(orphans.in_use(admin, ours.name)) == ""
