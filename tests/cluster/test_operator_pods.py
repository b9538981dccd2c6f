"""An operator as pods, on a real control plane: rolled out, followed, restarted, and taken out again however it ends.

Its nodes are simulated, so that its container does nothing and has no log; what runs in one is tested on kind.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.cluster import handle
from pytest_grovescale.cluster.handle import Cluster, UnsupportedPlatform
from pytest_grovescale.errors import OperatorError, UsageError
from pytest_grovescale.kube.client import Client
from pytest_grovescale.kube.errors import NotFound
from pytest_grovescale.kube.portal import Portal
from pytest_grovescale.operator import start
from pytest_grovescale.operator.pods import operator as starting
from pytest_grovescale.operator.pods import pod_supervisor, rollout, state
from pytest_grovescale.operator.pods.operator import OperatorPods
from pytest_grovescale.operator.schema import OperatorDefinition
from tests.simulated_operator import MANIFESTS, NAMESPACE, definition, make_real, with_deployments
from tests.waiting import wait_until

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def cluster(testrun_uid: str, worker_id: str) -> Iterator[Cluster]:
    """A local cluster with the controllers of Deployments, and a node that counts as real."""
    try:
        acquired = handle.acquire(
            with_deployments(), name=f"pods-{testrun_uid[:8]}-{worker_id}", progress=lambda text: None
        )
    except UnsupportedPlatform as error:
        pytest.skip(str(error))
    with Portal() as portal:
        client = portal.client(acquired.access_as("harness"))
        portal.run(make_real(client))
    yield acquired
    acquired.release()


@pytest.fixture
def client(cluster: Cluster) -> Iterator[tuple[Portal, Client]]:
    with Portal() as portal:
        yield portal, portal.client(cluster.access_as("harness"))


@pytest.fixture
def folder(tmp_path: Path, client: tuple[Portal, Client], cluster: Cluster) -> Iterator[Path]:
    """Where a test's files are; afterwards nothing of its operator is left on the cluster."""
    yield tmp_path
    portal, api = client
    portal.run(remove_namespace(api))


async def remove_namespace(client: Client) -> None:
    namespaces = await client.resource("Namespace", "v1")
    try:
        await client.delete(namespaces, NAMESPACE)
        while await client.exists(namespaces, NAMESPACE):
            await client.request("GET", "/api/v1/namespaces", params={"watch": "true", "timeoutSeconds": "1"})
    except NotFound:
        return


def bring_up(cluster: Cluster, wanted: OperatorDefinition, folder: Path) -> OperatorPods:
    return starting.bring_up(wanted, cluster, directory=folder / "logs", progress=lambda text: None)


def listed(client: tuple[Portal, Client], kind: str, api_version: str = "v1") -> list[dict[str, Any]]:
    portal, api = client

    async def ask() -> list[dict[str, Any]]:
        return (await api.list(await api.resource(kind, api_version), NAMESPACE)).items

    return portal.run(ask())


MONITOR = """\
---
apiVersion: monitoring.coreos.com/v1
kind: ServiceMonitor
metadata: {name: robot}
"""


def test_rolled_out_followed_and_taken_out(cluster: Cluster, client: tuple[Portal, Client], folder: Path) -> None:
    """Also without an add-on whose objects are among its manifests."""
    operator = bring_up(cluster, definition(folder, manifests=MANIFESTS + MONITOR, tag="x"), folder)
    try:
        (deployment,) = listed(client, "Deployment", "apps/v1")
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        assert container["args"] == ["--tag=x"]
        assert deployment["metadata"]["labels"]["grovescale.io/operator"] == "robot"
        assert operator.identity == "system:serviceaccount:robots:robot"
        assert operator.alive()
        assert operator.info() is None
        operator.check()
        kept = state.read(Path(folder_of(cluster)))
        assert sorted(kept.replicas) == sorted(pod["metadata"]["name"] for pod in listed(client, "Pod"))
        joined = start.join(cluster)
        assert isinstance(joined, OperatorPods)
        assert joined.stays()
        joined.stop()
        assert operator.alive()
    finally:
        operator.stop()
    assert listed(client, "Pod") == listed(client, "Deployment", "apps/v1") == []
    assert not cluster.processes()[pod_supervisor.NAME].running
    assert start.join(cluster) is None
    # As with a process, the rest stays for the next start.
    assert "settings" in [found["metadata"]["name"] for found in listed(client, "ConfigMap")]
    operator.uninstall()
    assert "settings" not in [found["metadata"]["name"] for found in listed(client, "ConfigMap")]


def folder_of(cluster: Cluster) -> Path:
    return cluster.directory / "operator"


def test_restart_replaces_the_pods(cluster: Cluster, client: tuple[Portal, Client], folder: Path) -> None:
    operator = bring_up(cluster, definition(folder), folder)
    try:
        (before,) = listed(client, "Pod")
        operator.restart()
        (after,) = listed(client, "Pod")
        assert before["metadata"]["uid"] != after["metadata"]["uid"]
        assert state.read(folder_of(cluster)).leader == after["metadata"]["name"]
    finally:
        operator.stop()


def test_lease_reports_who_works(cluster: Cluster, client: tuple[Portal, Client], folder: Path) -> None:
    """Nothing runs in these pods: the Lease is held for them, first by one, then by the other."""
    portal, api = client
    wanted = definition(folder, replicas="2")

    async def hold(pod: str, verb: str) -> None:
        body = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": "x", "namespace": NAMESPACE},
        }
        await api.apply({**body, "spec": {"holderIdentity": pod and f"{pod}_{verb}"}})

    async def hold_when_there() -> None:
        """As a replica does: the first pod takes the Lease when it runs."""
        resource = await api.resource("Pod", "v1")
        while True:
            items = (await api.list(resource, NAMESPACE)).items
            if len(items) == 2 and all(one["status"].get("phase") == "Running" for one in items):
                return await hold(sorted(one["metadata"]["name"] for one in items)[0], "1")
            await api.request("GET", resource.path(NAMESPACE), params={"watch": "true", "timeoutSeconds": "1"})

    holding = portal.submit(hold_when_there())
    operator = bring_up(cluster, wanted, folder)
    try:
        holding.result(timeout=30)
        first, second = sorted(one["metadata"]["name"] for one in listed(client, "Pod"))
        assert operator.lease == f"{NAMESPACE}/x"
        wait_until(lambda: state.read(folder_of(cluster)).leader == first, "the first leader")
        portal.run(hold(second, "1"))
        wait_until(lambda: state.read(folder_of(cluster)).leader == second, "the second leader")
        portal.run(hold("", ""))
        wait_until(lambda: state.read(folder_of(cluster)).leader == "", "a moment without one")
        assert operator.lease == f"{NAMESPACE}/x"
    finally:
        operator.stop()


def test_several_that_elect_no_one_are_reported(
    cluster: Cluster,
    client: tuple[Portal, Client],
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    snapshot: SnapshotAssertion,
) -> None:
    monkeypatch.setattr(rollout, "SEEN_S", 5.0)
    with pytest.raises(OperatorError) as raised:
        bring_up(cluster, definition(folder, replicas="2"), folder)
    assert str(raised.value) == snapshot
    assert "pod: {lease: NAMESPACE/NAME}" in str(raised.value)
    assert listed(client, "Pod") == []


def test_one_that_no_node_takes_is_reported_early(
    cluster: Cluster, client: tuple[Portal, Client], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rollout, "MAY_PASS_S", 1.0)
    picky = MANIFESTS.replace("serviceAccountName: robot", "serviceAccountName: robot\n      nodeSelector: {a: b}")
    with pytest.raises(OperatorError, match=r"Unschedulable: 0/1 nodes are available") as raised:
        bring_up(cluster, definition(folder, manifests=picky), folder)
    assert "FailedScheduling" in str(raised.value)
    assert listed(client, "Pod") == listed(client, "Deployment", "apps/v1") == []
    assert start.join(cluster) is None


def test_pods_that_may_not_be_created_are_reported_early(
    cluster: Cluster, client: tuple[Portal, Client], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rollout, "MAY_PASS_S", 1.0)
    strict = "{pod-security.kubernetes.io/enforce: restricted}"
    namespace = f"---\napiVersion: v1\nkind: Namespace\nmetadata: {{name: {NAMESPACE}, labels: {strict}}}\n"
    with pytest.raises(OperatorError, match=r"FailedCreate: .*violates PodSecurity"):
        bring_up(cluster, definition(folder, manifests=MANIFESTS + namespace), folder)
    assert listed(client, "Deployment", "apps/v1") == []


def test_deployment_of_another_user_is_left_alone(
    cluster: Cluster, client: tuple[Portal, Client], folder: Path
) -> None:
    portal, api = client
    wanted = definition(folder)
    theirs: dict[str, Any] = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "robot", "namespace": NAMESPACE},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": {"app": "theirs"}},
            "template": {
                "metadata": {"labels": {"app": "theirs"}},
                "spec": {"containers": [{"name": "main", "image": "theirs"}]},
            },
        },
    }
    portal.run(api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}))
    portal.run(api.create(theirs))
    with pytest.raises(OperatorError, match="is there already"):
        bring_up(cluster, wanted, folder)
    (found,) = listed(client, "Deployment", "apps/v1")
    assert found["spec"]["selector"]["matchLabels"] == {"app": "theirs"}


KILLED = """
import os, signal, sys
from pathlib import Path
from pytest_grovescale.cluster import handle
from pytest_grovescale.operator.definition import load
from pytest_grovescale.operator.pods import operator as starting

cluster = handle.join(sys.argv[1], progress=lambda text: None)
folder = Path(sys.argv[2])
starting.bring_up(load(str(folder / "definition.yaml")), cluster, directory=folder, progress=lambda text: None)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_pods_of_a_killed_run_are_taken_out(cluster: Cluster, client: tuple[Portal, Client], folder: Path) -> None:
    definition(folder)
    command = [sys.executable, "-c", KILLED, cluster.name, str(folder)]
    killed = subprocess.run(command, env=os.environ, capture_output=True, text=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    wait_until(lambda: not listed(client, "Deployment", "apps/v1"), "the end of its Deployment", seconds=60)
    wait_until(lambda: not listed(client, "Pod"), "the end of its pods", seconds=60)


def test_local_cluster_runs_no_pods(cluster: Cluster, folder: Path, snapshot: SnapshotAssertion) -> None:
    with pytest.raises(UsageError) as raised:
        start.start(definition(folder), cluster, directory=folder, progress=lambda text: None)
    assert str(raised.value) == snapshot
    assert "--grovescale-cluster=kind" in str(raised.value)
