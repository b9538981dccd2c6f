"""A small control plane per worker, and the bundled operator as a process on it."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pytest_grovescale import resources
from pytest_grovescale.cluster.definition import load_definition
from pytest_grovescale.cluster.handle import Cluster, acquire
from pytest_grovescale.kube.portal import Portal

from .operator_process import Credentials, OperatorProcess, install
from .relay import Relay
from .workbench import PODS, REPLICAS, Workbench

NODES = 3


@pytest.fixture(scope="package")
def cluster() -> Iterator[Cluster]:
    definition = load_definition("default").with_nodes(NODES)
    found = acquire(definition, progress=lambda text: None)
    yield found
    found.release()


@pytest.fixture(scope="package")
def portal() -> Iterator[Portal]:
    with Portal() as found:
        yield found


@pytest.fixture(scope="package")
def credentials(cluster: Cluster, portal: Portal, tmp_path_factory: pytest.TempPathFactory) -> Credentials:
    """CRDs and rights are in place, and a kubeconfig of the operator's own identity is there."""
    client = portal.client(cluster.access_as("harness"))
    found = portal.run(install(client, cluster, resources.root() / "fixtures", tmp_path_factory.mktemp("operator")))
    # Its garbage collector looks for new kinds every 30 s, and the first test would wait for that.
    cluster.restart_process("kube-controller-manager")
    return found


@pytest.fixture
def bench(cluster: Cluster, portal: Portal, credentials: Credentials) -> Iterator[Workbench]:
    """An empty namespace of the test's own."""
    client = portal.client(cluster.access_as("harness"))
    found = Workbench(portal, client, f"t-{uuid.uuid4().hex[:8]}")
    found.create_namespace()
    yield found
    # Not waited for: that takes its controller 5 s, and the cluster ends with the session.
    found.delete_namespace(wait=False)


@pytest.fixture
def start(bench: Workbench, credentials: Credentials, tmp_path: Path) -> Iterator[Callable[..., OperatorProcess]]:
    """Start the operator with the arguments given; it is stopped when the test ends, and its sets deleted."""
    started: list[OperatorProcess] = []

    def begin(*arguments: str, kubeconfig: Path = credentials.kubeconfig) -> OperatorProcess:
        process = OperatorProcess(kubeconfig, tmp_path / f"operator-{len(started)}.log", arguments)
        started.append(process)
        process.wait_ready()
        return process

    yield begin
    for process in started:
        process.stop()
    # The next test's operator is to find none of it.
    bench.clear()


@pytest.fixture
def deployed(bench: Workbench, start: Callable[..., OperatorProcess]) -> Callable[..., OperatorProcess]:
    """Start an operator with the arguments given, deploy 4 × 2 pods, and let it come to rest."""

    def begin(*arguments: str) -> OperatorProcess:
        operator = start(*arguments)
        bench.deploy(replicas=REPLICAS, pods=PODS)
        bench.wait_deployed(REPLICAS, PODS)
        bench.settle(operator)
        return operator

    return begin


@pytest.fixture
def relay(cluster: Cluster, portal: Portal) -> Iterator[Relay]:
    found = Relay(portal, cluster.server)
    yield found
    found.close()


@pytest.fixture
def operator(start: Callable[..., OperatorProcess]) -> OperatorProcess:
    return start()
