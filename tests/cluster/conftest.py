"""A control plane for the tests: one for each worker, or a state folder for one's own.

Workers do not share one: the tests of operators would take turns on it, as there can be one operator at a time.

The state folder's name has a space in it, so that everything is proven to work with one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pytest_grovescale.cluster import binaries as lookup
from pytest_grovescale.cluster import handle
from pytest_grovescale.cluster.definition import ClusterDefinition, load_definition
from pytest_grovescale.cluster.handle import Cluster
from pytest_grovescale.kube.client import Client
from pytest_grovescale.kube.portal import Portal
from tests.waiting import wait_until

NODES = 10


def _quiet(text: str) -> None:
    return None


@pytest.fixture(scope="session")
def definition() -> ClusterDefinition:
    """A cluster with a few nodes; ``GROVESCALE_TEST_KUBERNETES=1.34`` runs the tests on another version.

    Without the workload controllers, which are operators under test here.
    """
    minimal = load_definition("minimal").with_nodes(NODES)
    version = os.environ.get("GROVESCALE_TEST_KUBERNETES")
    return minimal.with_version(version) if version else minimal


@pytest.fixture(scope="session")
def binaries(definition: ClusterDefinition) -> Callable[[str], Path]:
    """Return the path of a control plane binary by its name."""
    found = lookup.resolve(definition, progress=_quiet)
    return lambda name: Path(found[name].path)


@pytest.fixture(scope="package")
def cluster(definition: ClusterDefinition, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One cluster for all tests of a worker that leave it as they found it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GROVESCALE_STATE_DIR", str(tmp_path_factory.mktemp("shared state")))
        held = handle.acquire(definition, name="tests", progress=_quiet)
    yield held
    held.release()


@pytest.fixture
def client(portal: Portal, cluster: Cluster) -> Client:
    """A client of the shared cluster, with the rights of the harness."""
    return portal.client(cluster.access_as("harness"))


@pytest.fixture
def state_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state folder of this test's own, for clusters that it starts and kills."""
    folder = tmp_path / "own state"
    monkeypatch.setenv("GROVESCALE_STATE_DIR", str(folder))
    return folder


@pytest.fixture
def eventually() -> Callable[[Callable[[], object], str], None]:
    """Wait for something that nothing announces, and fail with what it was."""
    return wait_until
