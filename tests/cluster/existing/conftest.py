"""Fixtures of the tests that use a cluster which others made: theirs, and a state folder of the test's own.

Each control plane lives as long as a worker is in this package: one that only idles takes 4 % of a core from the rest.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_grovescale.cluster import handle
from pytest_grovescale.cluster.definition import load_definition
from pytest_grovescale.cluster.handle import Cluster
from pytest_grovescale.kube.client import Client
from pytest_grovescale.kube.portal import Portal
from tests.connect_proxy import connect_proxy
from tests.foreign_cluster import kubeconfig


@pytest.fixture(scope="package")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A control plane with one node of its own; its kwok plays any node, as one installed there would."""
    held = _made(tmp_path_factory.mktemp("theirs"), "theirs")
    yield held
    held.release()


@pytest.fixture(scope="package")
def without_kwok(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One where nobody plays kubelets."""
    held = _made(tmp_path_factory.mktemp("without"), "without-kwok")
    held.stop_process("kwok")
    yield held
    held.release()


def _made(folder: Path, name: str) -> Cluster:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GROVESCALE_STATE_DIR", str(folder / "their state"))
        return handle.acquire(load_definition("default").with_nodes(1), name=name, progress=lambda text: None)


@pytest.fixture
def admin(portal: Portal, theirs: Cluster) -> Client:
    """The client of whoever made it."""
    return portal.client(theirs.access)


@pytest.fixture
def config(theirs: Cluster, tmp_path: Path) -> Path:
    """A kubeconfig with all rights there."""
    return kubeconfig(tmp_path / "kubeconfig", theirs.access)


@pytest.fixture
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state folder of this test's own."""
    folder = tmp_path / "own state"
    monkeypatch.setenv("GROVESCALE_STATE_DIR", str(folder))
    return folder


@pytest.fixture
def proxy() -> Iterator[tuple[str, list[str]]]:
    """The URL of a proxy on loopback, and what it was asked to connect to."""
    with connect_proxy() as opened:
        yield opened
