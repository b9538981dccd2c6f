"""A kind configuration of the user's own, with a mount and a worker, and kwok as a pod: merged, and all of it runs."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
import yaml

from pytest_grovescale.cluster import state
from pytest_grovescale.cluster.kind import container_engine as engines
from pytest_grovescale.cluster.processes import ProcessInfo
from pytest_grovescale.kube.portal import Portal
from tests.kind import kind_clusters
from tests.waiting import wait_until

pytestmark = pytest.mark.kind

NAME = "gs-kind-own"


def test_mounts_and_workers_of_the_users_own_configuration_are_there(state_dir: Path, tmp_path: Path) -> None:
    (tmp_path / "mounted").mkdir()
    (tmp_path / "mounted" / "word").write_text("mine", encoding="utf-8")
    own = {
        "kind": "Cluster",
        "apiVersion": "kind.x-k8s.io/v1alpha4",
        "nodes": [
            {
                "role": "control-plane",
                "extraMounts": [{"hostPath": str(tmp_path / "mounted"), "containerPath": "/mine", "readOnly": True}],
            },
            {"role": "worker"},
        ],
    }
    (tmp_path / "own.yaml").write_text(yaml.safe_dump(own), encoding="utf-8")
    wanted = kind_clusters.definition(tmp_path, nodes=3, kind={"config": "own.yaml", "kwok": "cluster"})
    cluster = kind_clusters.acquire(wanted, NAME)
    try:
        node = kind_clusters.container(cluster)
        assert engines.call(kind_clusters.engine(), "exec", node, "cat", "/mine/word") == "mine"
        assert len(kind_clusters.containers(NAME)) == 2
        with Portal() as portal:
            found = portal.run(kind_clusters.nodes(portal.client(cluster.access), ""))
        real = [one for one in found if one["metadata"]["name"].startswith(NAME)]
        assert len(found) == 5
        assert len(real) == 2
        assert all(one["spec"].get("taints") for one in real), "workload pods stay off both"
        assert "kwok" not in cluster.processes()
        seen = cluster.directory / state.CONTAINER_PROCESSES
        wait_until(lambda: seen.exists() and "kwok" in followed(seen), "the kwok in the cluster")
    finally:
        cluster.release()
    assert state.names() == []
    assert kind_clusters.containers(NAME) == []


def followed(file: Path) -> dict[str, ProcessInfo]:
    """Return the processes whose CPU clocks are read in the node."""
    return msgspec.json.decode(file.read_bytes(), type=dict[str, ProcessInfo])
