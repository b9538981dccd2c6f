"""The bundled operator as pods of a real kind cluster: its processes, log, restarts, and a change of leader."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pytest_grovescale.cluster import processes, state
from pytest_grovescale.cluster.handle import Cluster
from pytest_grovescale.cluster.kind import node_processes
from pytest_grovescale.endpoints import Address
from pytest_grovescale.errors import ClusterError, OperatorError
from pytest_grovescale.exposition.reader import Reader
from pytest_grovescale.kube.client import Client
from pytest_grovescale.kube.portal import Portal
from pytest_grovescale.operator import start
from pytest_grovescale.operator.definition import OperatorDefinition, load
from pytest_grovescale.operator.pods.operator import OperatorPods
from pytest_grovescale.operator.readiness import fetch
from pytest_grovescale.operator.schema import Served
from pytest_grovescale.procfs import Identity
from pytest_grovescale.recording.process_table import usage
from tests.kind import kind_clusters
from tests.waiting import wait_until

pytestmark = pytest.mark.kind

NAME = "gs-kind-pods"
NAMESPACE = "grove-system"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("definitions")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GROVESCALE_STATE_DIR", str(tmp_path_factory.mktemp("own state")))
        made = kind_clusters.acquire(kind_clusters.definition(folder, nodes=2), NAME)
        yield made
        made.release()
        assert state.names() == []


@pytest.fixture
def client(cluster: Cluster) -> Iterator[tuple[Portal, Client]]:
    with Portal() as portal:
        yield portal, portal.client(cluster.access_as("harness"))


def bundled(**values: str) -> OperatorDefinition:
    return load("reference-pod", values={"archive": os.environ["GROVESCALE_TEST_OPERATOR_ARCHIVE"], **values})


def started(
    cluster: Cluster, folder: Path, definition: OperatorDefinition | None = None, **values: str
) -> OperatorPods:
    wanted = definition or bundled(**values)
    operator = start.start(wanted, cluster, directory=folder / "logs", progress=kind_clusters.quiet)
    assert isinstance(operator, OperatorPods)
    return operator


@pytest.fixture
def operator(cluster: Cluster, tmp_path: Path) -> Iterator[OperatorPods]:
    running = started(cluster, tmp_path)
    yield running
    running.stop()


def pods(client: tuple[Portal, Client]) -> list[dict[str, Any]]:
    portal, api = client

    async def ask() -> list[dict[str, Any]]:
        return (await api.list(await api.resource("Pod", "v1"), NAMESPACE)).items

    return portal.run(ask())


def pid(operator: OperatorPods) -> int:
    info = operator.info()
    assert info is not None
    return info.pid


def test_its_process_is_one_of_this_host(operator: OperatorPods, client: tuple[Portal, Client]) -> None:
    info = operator.info()
    assert info is not None
    assert b"pytest_grovescale.reference_operator" in Path(f"/proc/{info.pid}/cmdline").read_bytes()
    used = usage(Identity(info.pid, info.started_ticks))
    served = operator.served_cpu_s()
    assert used is not None
    assert served is not None
    # Its own figure has a resolution of 10 ms, and was asked for a moment later.
    assert served == pytest.approx(used.cpu_ns / 1e9, abs=0.5)
    (pod,) = pods(client)
    assert pod["spec"]["nodeName"].startswith(NAME)


def test_it_is_an_identity_of_its_own(operator: OperatorPods, cluster: Cluster) -> None:
    assert cluster.audit_log is not None
    log = cluster.audit_log

    def users() -> set[str]:
        return {request.user for request in kind_clusters.requests(log)}

    wait_until(lambda: operator.identity in users(), "the operator's requests in the audit log")


def test_its_log_and_metrics_are_read_through_the_api_server(operator: OperatorPods) -> None:
    wait_until(lambda: any("caches synced" in line for line in operator.tail()), "its log")
    assert isinstance(operator.metrics, Served)
    address = operator.address(operator.metrics)
    assert address is not None
    assert "process_cpu_seconds_total" in Reader().read(*fetch(address)).samples


def test_metrics_are_read_by_a_forwarded_port(cluster: Cluster, tmp_path: Path) -> None:
    definition = bundled()
    assert definition.as_pod.metrics is not None
    metrics = msgspec.structs.replace(definition.as_pod.metrics, via="forward", token=True)
    forwarded = msgspec.structs.replace(definition, pod=msgspec.structs.replace(definition.as_pod, metrics=metrics))
    operator = started(cluster, tmp_path, forwarded)
    try:
        assert isinstance(operator.metrics, Address)
        assert operator.metrics.url.startswith("http://127.0.0.1:")
        assert Path(operator.metrics.token_file).is_file()
        for _ in range(3):
            assert "process_cpu_seconds_total" in Reader().read(*fetch(operator.metrics)).samples
        operator.restart()
        assert "process_cpu_seconds_total" in Reader().read(*fetch(operator.metrics)).samples
    finally:
        operator.stop()


def test_container_that_is_killed_is_followed(operator: OperatorPods, client: tuple[Portal, Client]) -> None:
    before = pid(operator)
    info = operator.info()
    assert info is not None
    assert processes.kill(info.pid, info.started_ticks)
    wait_until(lambda: (now := operator.info()) is not None and now.pid != before, "its next process")
    assert operator.outlives(before)
    operator.check()
    wait_until(
        lambda: any("container restarted (1): the one before: " in line for line in operator.tail(200)), "its log"
    )
    (pod,) = pods(client)
    assert pod["status"]["containerStatuses"][0]["restartCount"] == 1


def test_restart_is_another_pod(operator: OperatorPods, client: tuple[Portal, Client]) -> None:
    before = pid(operator)
    (old,) = pods(client)
    operator.restart()
    (new,) = pods(client)
    assert old["metadata"]["uid"] != new["metadata"]["uid"]
    assert pid(operator) != before


def test_leader_is_followed_when_it_changes(cluster: Cluster, client: tuple[Portal, Client], tmp_path: Path) -> None:
    portal, api = client
    operator = started(cluster, tmp_path, replicas="2", leader_election="on")
    try:
        assert operator.lease == f"{NAMESPACE}/grove-reference-operator"
        first, leader = pid(operator), operator.leader
        assert f"HOSTNAME={leader}\0".encode() in Path(f"/proc/{first}/environ").read_bytes()

        async def delete() -> None:
            await api.delete(await api.resource("Pod", "v1"), leader, NAMESPACE)

        portal.run(delete())
        wait_until(lambda: (now := operator.info()) is not None and now.pid != first, "the other's process")
        assert operator.leader != leader
        operator.check()
    finally:
        operator.stop()
    assert pods(client) == []


def test_one_that_crashes_is_reported_with_its_last_words(cluster: Cluster, tmp_path: Path) -> None:
    with pytest.raises(OperatorError, match="CrashLoopBackOff") as raised:
        started(cluster, tmp_path, defect="no-such-defect")
    assert "no-such-defect" in str(raised.value).partition("lines of its log")[2]
    assert start.join(cluster) is None


def test_image_that_is_not_there_is_reported(cluster: Cluster, tmp_path: Path) -> None:
    with pytest.raises(OperatorError, match=r"ImagePullBackOff|ErrImagePull"):
        started(cluster, tmp_path, image="registry.invalid/nowhere:1")


def built(folder: Path, dockerfile: str) -> OperatorDefinition:
    """Return the bundled operator with an image that is built by a Dockerfile on top of its own."""
    definition = bundled()
    (folder / "Dockerfile").write_text(dockerfile, encoding="utf-8")
    pod = msgspec.structs.replace(
        definition.as_pod,
        image="grovescale-built-for-a-test:1",
        archive="",
        dockerfile=str(folder / "Dockerfile"),
        build_args={"BASE": "{image}"},
    )
    return msgspec.structs.replace(definition, pod=pod)


def test_image_may_be_built_by_a_dockerfile(cluster: Cluster, client: tuple[Portal, Client], tmp_path: Path) -> None:
    operator = started(cluster, tmp_path, built(tmp_path, "ARG BASE\nFROM $BASE\nENV BUILT_FOR=a-test\n"))
    try:
        (pod,) = pods(client)
        assert pod["spec"]["containers"][0]["image"] == "grovescale-built-for-a-test:1"
        assert b"BUILT_FOR=a-test\0" in Path(f"/proc/{pid(operator)}/environ").read_bytes()
    finally:
        operator.stop()
        engine = kind_clusters.engine()
        subprocess.run([engine.executable, "image", "rm", "grovescale-built-for-a-test:1"], check=True)


def test_build_that_fails_is_reported_with_its_last_words(cluster: Cluster, tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="no-such-file") as raised:
        started(cluster, tmp_path, built(tmp_path, "ARG BASE\nFROM $BASE\nCOPY no-such-file /\n"))
    assert "build -t grovescale-built-for-a-test:1" in raised.value.next_step
    assert start.join(cluster) is None


def test_components_of_the_control_plane_have_processes(cluster: Cluster) -> None:
    file = cluster.directory / state.CONTAINER_PROCESSES
    wait_until(file.exists, "the components' processes")
    node = node_processes.Node(executable=kind_clusters.engine().executable, name=kind_clusters.container(cluster))
    init = node_processes.init_of(node)
    assert init is not None
    found = node_processes.components(init)
    assert {"kube-apiserver", "etcd", "kube-scheduler", "kube-controller-manager", "kubelet"} <= set(found)
    command = Path(f"/proc/{found['kube-apiserver'].pid}/cmdline").read_bytes()
    assert command.startswith(b"kube-apiserver\0")
