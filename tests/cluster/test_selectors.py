"""Nothing lists everything: what a run asks of a cluster does not grow with what others have there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from pytest_grovescale import resources
from pytest_grovescale.cluster import handle
from pytest_grovescale.cluster import rbac as rights
from pytest_grovescale.cluster.definition import load_definition
from pytest_grovescale.cluster.handle import Cluster
from pytest_grovescale.kube.access import Access, to_kubeconfig
from pytest_grovescale.kube.client import Client
from pytest_grovescale.kube.portal import Portal
from tests import forked
from tests.audited import Asked, asked

pytestmark = pytest.mark.cluster

THEIRS = "somebody-else"
HARNESS = "system:serviceaccount:grovescale:harness"

# The main job, small; where others have nodes, those that were made for it are counted among them.
JOB = """
import pytest
from pytest_grovescale import conditions

def test_job(scale):
    pcs = scale.workload("pcs.yaml.j2", replicas=6, pods_per_replica=2)
    with scale.phase("deploy", timeout="90s") as deploy:
        if nodes := scale.parameter("nodes", 0):
            deploy.milestone("nodes", conditions.count("nodes", nodes, ready=True))
        deploy.milestone("pods-ready", conditions.count("pods", 12, ready=True))
        deploy.milestone("available", pcs.status(availableReplicas=6))
        pcs.apply()
    with scale.phase("steady-state", timeout="60s") as steady:
        pcs.trigger_reconcile()
        steady.hold("2s")
    with scale.phase("delete", timeout="90s") as delete:
        delete.milestone("pods-gone", conditions.count("pods", 0))
        delete.milestone("pcs-gone", conditions.gone(pcs))
        pcs.delete()
"""


def too_wide(requests: list[Asked]) -> Counter[str]:
    """Return what of a run's requests reads everybody's objects, or others', or more at a time than a page."""
    wide = [r for r in requests if r.reads_everybodys or r.object.namespace == THEIRS]
    wide += [r for r in requests if r.verb == "list" and "limit" not in r.parameters]
    return Counter(f"{r.user.username} ({r.agent}): {r.verb} {r.uri}" for r in wide)


def run_job(folder: Path, *options: str) -> None:
    """Run the job in a process of its own; fail with all that it says if it does not pass."""
    (folder / "test_job.py").write_text(JOB, encoding="utf-8")
    (folder / "pyproject.toml").write_text("[tool.pytest]\n", encoding="utf-8")
    done = forked.run_pytest(["--grovescale", "-p", "no:cacheprovider", *options], cwd=folder)
    assert done.returncode == 0, done.stdout


@pytest.fixture
def own(state_dir: Path) -> Iterator[Cluster]:
    """A cluster on which nobody asks but the run: other tests' questions would stand in the same log."""
    made = handle.acquire(load_definition("default").with_nodes(3), name="own", progress=lambda text: None)
    yield made
    made.release()


def test_harness_and_recorder_read_only_what_is_theirs(tmp_path: Path, own: Cluster) -> None:
    run_job(tmp_path, f"--grovescale-cluster={own.name}")
    assert own.audit_log is not None
    requests = [r for r in asked(own.audit_log) if r.user.username in ("harness", "recorder")]
    watched = {r.what for r in requests if r.user.username == "recorder" and r.verb == "watch"}
    assert {"watch pods", "watch podcliquesets.grove.io"} <= watched
    assert too_wide(requests) == Counter()


# ---- on a cluster that others use, with the rights of fixtures/rbac/harness.yaml and no others

DEFINITION = """
name: shared
backend: existing
nodes:
  - prefix: node
    count: 3
    capacity: {cpu: 64, memory: 256Gi, pods: 250}
    labels: {type: kwok}
    taints: [{key: kwok.x-k8s.io/node, value: fake, effect: NoSchedule}]
stages: [node-initialize.yaml, pod-ready.yaml, pod-delete.yaml]
existing: {kubeconfig: harness.kubeconfig, kwok: host}
"""


@pytest.fixture
def shared(state_dir: Path) -> Iterator[Cluster]:
    """A cluster without a kwok, on which somebody has nodes, namespaces and pods of their own."""
    made = handle.acquire(load_definition("default").with_nodes(2), name="shared", progress=lambda text: None)
    made.stop_process("kwok")
    with Portal() as portal:
        portal.run(_occupy(portal.client(made.access)))
    yield made
    made.release()


async def _occupy(client: Client) -> None:
    await client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": THEIRS}})
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": THEIRS}}
    await client.apply(account)
    for number in range(10):
        metadata = {"name": f"theirs-{number}", "namespace": THEIRS}
        spec = {"containers": [{"name": "c", "image": "none"}]}
        await client.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})


@pytest.fixture
def limited(shared: Cluster) -> Access:
    """The ServiceAccount of fixtures/rbac/harness.yaml, which may also do what the operator may."""
    with Portal() as portal:
        return portal.run(_granted(portal.client(shared.access), shared.access))


async def _granted(client: Client, admin: Access) -> Access:
    await client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "grovescale"}})
    for file in ("harness.yaml", "reference-operator.yaml"):
        text = resources.find(rights.FOLDER, file).read_text(encoding="utf-8")
        for document in yaml.safe_load_all(text):
            await client.apply(document)
    await client.create(_operators_role_too())
    token = await client.token("harness", "grovescale")
    return Access(server=admin.server, ca_pem=admin.ca_pem, token=token)


def _operators_role_too() -> dict[str, Any]:
    rbac = "rbac.authorization.k8s.io"
    return {
        "apiVersion": f"{rbac}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "grovescale-harness-operator"},
        "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": "grove-reference-operator"},
        "subjects": [{"kind": "ServiceAccount", "name": "harness", "namespace": "grovescale"}],
    }


def test_the_rights_suffice_and_others_objects_are_left_alone(tmp_path: Path, shared: Cluster, limited: Access) -> None:
    (tmp_path / "harness.kubeconfig").write_text(to_kubeconfig(limited, name="shared"), encoding="utf-8")
    (tmp_path / "shared.yaml").write_text(DEFINITION, encoding="utf-8")
    run_job(tmp_path, "--grovescale-cluster=shared.yaml", "--grovescale-param=nodes=3")
    assert shared.audit_log is not None
    requests = [r for r in asked(shared.audit_log) if r.user.username == HARNESS and not r.agent.startswith("kwok")]
    # The clean-up looks for objects of every kind in its own namespaces, and leaves to the namespace controller what
    # it may not see.
    refused = [r for r in requests if r.status.code == 403 and not (r.verb == "list" and r.object.namespace)]
    assert {r.what: r.status.message for r in refused} == {}
    assert too_wide(requests) == Counter()
    unused = {right.text for right in rights.rights() if right.needed} - {r.what for r in requests}
    assert unused == SPARE


RBAC = "rbac.authorization.k8s.io"
CRDS = "customresourcedefinitions.apiextensions.k8s.io"
SPARE = {
    # Server-side apply is a patch to the audit log, and has to be allowed to create as well.
    *(f"create {kind}" for kind in ("serviceaccounts", f"clusterroles.{RBAC}", f"clusterrolebindings.{RBAC}", CRDS)),
    # For operators whose rules hold in one namespace.
    *(f"{verb} {kind}.{RBAC}" for verb in ("get", "create", "patch", "delete") for kind in ("roles", "rolebindings")),
    # For servers that know no streaming lists (before 1.32): there a watch begins with a list.
    f"list {CRDS}",
    # Why an object is late.
    "get pods",
    "get nodes",
}
"""Needed rights that this run makes no use of, and why they are there."""
