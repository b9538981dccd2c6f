"""An operator's image on its way to a kind cluster's nodes: brought there once, and again when it is another one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale import resources
from pytest_grovescale.cluster.handle import Cluster
from pytest_grovescale.cluster.kind import images
from pytest_grovescale.cluster.state import Container
from pytest_grovescale.errors import ClusterError, UsageError
from pytest_grovescale.operator.definition import load
from pytest_grovescale.operator.pods import operator
from pytest_grovescale.operator.schema import OperatorDefinition
from tests.golden import masked


class KindCluster(Cluster):
    """A folder, and a container that nobody asks anything."""

    def __init__(self, folder: Path, container: Container | None) -> None:
        self.name, self.directory, self.container, self.backend = "kind", folder, container, "kind"
        self.kubernetes, self.binaries = "1.36.3", {}


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    folder = tmp_path / "cluster"
    folder.mkdir()
    return KindCluster(folder, Container(engine="docker", name="kind-control-plane"))


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The archives that reach the nodes, by what is in them."""
    found: list[bytes] = []

    def load_one(archive: Path, *others: Any, **more: Any) -> None:
        found.append(archive.read_bytes())

    monkeypatch.setattr(images, "load", load_one)
    return found


def archived(path: Path, content: bytes = b"image") -> OperatorDefinition:
    path.write_bytes(content)
    return load("reference-pod", values={"archive": str(path)})


def bring(definition: OperatorDefinition, cluster: Cluster) -> bool:
    return operator.bring(definition, cluster, lambda text: None)


def test_definition_that_has_none_to_bring(cluster: Cluster, loaded: list[bytes]) -> None:
    assert not bring(load("reference-pod"), cluster)
    assert not loaded


def test_archive_is_brought_once(cluster: Cluster, loaded: list[bytes], tmp_path: Path) -> None:
    definition = archived(tmp_path / "operator.tar")
    assert bring(definition, cluster)
    assert bring(definition, cluster)
    assert loaded == [b"image"]


def test_archive_that_was_written_again_is_brought_again(cluster: Cluster, loaded: list[bytes], tmp_path: Path) -> None:
    bring(archived(tmp_path / "operator.tar"), cluster)
    bring(archived(tmp_path / "operator.tar", b"another one"), cluster)
    assert loaded == [b"image", b"another one"]


def test_two_variants_in_turn_are_brought_each_time(cluster: Cluster, loaded: list[bytes], tmp_path: Path) -> None:
    """Both may have the same image name: the one that was brought last is what nodes would run."""
    before, after = archived(tmp_path / "before.tar", b"before"), archived(tmp_path / "after.tar", b"after")
    for definition in (before, after, before):
        bring(definition, cluster)
    assert loaded == [b"before", b"after", b"before"]


def test_archive_that_could_not_be_brought_is_tried_again(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*arguments: Any, **more: Any) -> None:
        raise ClusterError("the engine has stopped")

    definition = archived(tmp_path / "operator.tar")
    monkeypatch.setattr(images, "load", fails)
    for _ in range(2):
        with pytest.raises(ClusterError, match="has stopped"):
            bring(definition, cluster)


def test_other_clusters_pull_it(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    with pytest.raises(UsageError) as raised:
        bring(archived(tmp_path / "operator.tar"), KindCluster(tmp_path, None))
    assert masked(str(raised.value), {resources.root(): "bundled"}) == snapshot
    assert "`image:` alone" in str(raised.value)
