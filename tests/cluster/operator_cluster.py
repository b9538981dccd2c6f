"""The control plane that the tests of the operator and workload rooms share, all workers of a run one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pytest_grovescale.cluster import handle
from pytest_grovescale.cluster.definition import load_definition
from pytest_grovescale.cluster.handle import Cluster, UnsupportedPlatform


@pytest.fixture(scope="session")
def cluster(testrun_uid: str) -> Iterator[Cluster]:
    """A local cluster with two nodes."""
    said: list[str] = []
    definition = load_definition("default").with_nodes(2)
    try:
        joined = handle.acquire(definition, name=f"tests-{testrun_uid[:12]}", progress=said.append)
    except UnsupportedPlatform as error:
        pytest.skip(str(error))
    yield joined
    joined.release()
