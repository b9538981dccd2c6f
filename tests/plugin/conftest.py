"""Plugin tests that need a cluster share a running one per worker; it is found by name, as a user's own would be."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from pytest_grovescale import resources
from pytest_grovescale.cluster import handle
from pytest_grovescale.cluster.definition import load_definition
from pytest_grovescale.cluster.handle import Cluster
from pytest_grovescale.kube.portal import Portal

# A pytest that a test runs in this process takes away what it imported when it ends. Modules that another one has kept
# would then know other classes than those imported next: so all that collection uses is here before the first.
from pytest_grovescale.session import preflight  # noqa: F401


@pytest.fixture(scope="package")
def state_dir(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A state folder of this worker's own: its runs then wait for no other worker's turn."""
    folder = tmp_path_factory.mktemp("state")
    before = os.environ.get("GROVESCALE_STATE_DIR")
    os.environ["GROVESCALE_STATE_DIR"] = str(folder)
    yield folder
    if before is None:
        del os.environ["GROVESCALE_STATE_DIR"]
    else:
        os.environ["GROVESCALE_STATE_DIR"] = before


@pytest.fixture(scope="package")
def running_cluster(state_dir: Path) -> Iterator[Cluster]:
    """A cluster with three nodes that stays between runs.

    The bundled operator's kinds are somebody else's there: where each run brings and removes its own, the API server
    and its garbage collector take half a second of CPU to learn and forget them.
    """
    definition = load_definition("default").with_nodes(3)
    cluster = handle.acquire(definition, name=f"plugin-{secrets.token_hex(2)}", progress=lambda text: None)
    with Portal() as portal:
        client = portal.client(cluster.access)
        for file in sorted((resources.root() / "fixtures/crds/grove").glob("*.yaml")):
            portal.run(client.create(yaml.safe_load(file.read_text(encoding="utf-8"))))
    yield cluster
    cluster.release()


@pytest.fixture
def shared(running_cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> str:
    """The option for the running cluster, for a run that leaves it as it was; after fixtures with a state folder."""
    monkeypatch.setenv("GROVESCALE_STATE_DIR", str(running_cluster.directory.parents[1]))
    return f"--grovescale-cluster={running_cluster.name}"
