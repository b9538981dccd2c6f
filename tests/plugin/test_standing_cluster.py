"""A cluster made by `grovescale up`: what a session's operator has put there goes with the session."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_grovescale.cluster import handle
from pytest_grovescale.cluster.definition import load_definition
from pytest_grovescale.cluster.handle import Cluster
from pytest_grovescale.kube.client import Client
from pytest_grovescale.kube.portal import Portal
from pytest_grovescale.operator.install import MANAGED
from pytest_grovescale.operator.operator_state import objects
from pytest_grovescale.workload.template import render
from tests import forked

pytestmark = pytest.mark.cluster

TEST = """
import pytest

@pytest.mark.grovescale(nodes=1)
def test_it(grovescale_operator, grovescale_namespace):
    pass
"""
KINDS = (
    ("CustomResourceDefinition", "apiextensions.k8s.io/v1"),
    ("ClusterRole", "rbac.authorization.k8s.io/v1"),
    ("ClusterRoleBinding", "rbac.authorization.k8s.io/v1"),
    ("Namespace", "v1"),
)


@pytest.fixture
def standing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    monkeypatch.setenv("GROVESCALE_STATE_DIR", str(tmp_path / "state"))
    definition = load_definition("default").with_nodes(1)
    cluster = handle.acquire(definition, name="up", standing=True, progress=lambda text: None)
    yield cluster
    cluster.release()
    # A run that kept its namespace has marked the cluster as kept: it does not end with its last user.
    handle.stop("up")


async def managed(client: Client) -> set[str]:
    """Return what is there that tests have made."""
    found: set[str] = set()
    for kind, version in KINDS:
        listing = await client.list(await client.resource(kind, version), label_selector=f"{MANAGED}=true")
        found |= {f"{kind} {item['metadata']['name']}" for item in listing.items}
    return found


def run(folder: Path, *options: str) -> str:
    (folder / "test_it.py").write_text(TEST, encoding="utf-8")
    command = ["-p", "no:cacheprovider", "--grovescale", "--grovescale-cluster=up"]
    done = forked.run_pytest([*command, *options], cwd=folder)
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_an_operators_objects_go_with_the_last_session_that_does_not_keep_them(
    standing: Cluster, tmp_path: Path
) -> None:
    with Portal() as portal:
        client = portal.client(standing.access)
        before = portal.run(managed(client))
        run(tmp_path, "--grovescale-keep")
        kept = portal.run(managed(client)) - before
        assert {name.partition(" ")[0] for name in kept} == {kind for kind, _ in KINDS}
        before |= {name for name in kept if name.startswith("Namespace test-it-")}
        # Somebody's own object of a kind that the operator brought, and which would go with the CRD.
        [pcs] = [obj["metadata"]["name"] for obj in objects(standing) if "podcliquesets" in obj["metadata"]["name"]]
        [mine] = render(
            "pcs.yaml.j2", {"replicas": 0, "pods_per_replica": 1}, namespace="default", run_id="none", node_labels={}
        ).objects
        portal.run(client.create(mine))
        assert f"CustomResourceDefinition {pcs} stays on cluster up" in run(tmp_path)
        assert portal.run(managed(client)) - before == {f"CustomResourceDefinition {pcs}"}
        kind, name = portal.run(client.resource(mine["kind"], mine["apiVersion"])), mine["metadata"]["name"]
        portal.run(client.patch(kind, name, "default", body={"metadata": {"finalizers": None}}))
        portal.run(client.delete(kind, name, "default"))
        run(tmp_path)
        assert portal.run(managed(client)) == before
        assert objects(standing) == []
