"""A whole run on somebody's cluster, the operator as a pod: few rights, a proxy, a token that ends in the middle."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import yaml

from pytest_grovescale import resources
from pytest_grovescale.analysis.result import Result
from pytest_grovescale.cluster.handle import Cluster
from pytest_grovescale.cluster.kind import images
from pytest_grovescale.kube.access import from_kubeconfig
from pytest_grovescale.kube.client import Client
from pytest_grovescale.kube.portal import Portal
from tests.connect_proxy import connect_proxy
from tests.foreign_cluster import (
    CONTEXT,
    account,
    binding,
    cluster_roles,
    ending_token,
    names,
    plugin_user,
    refused,
)
from tests.kind import kind_clusters
from tests.waiting import wait_until

pytestmark = pytest.mark.kind

NAME = "gs-kind-theirs"
USER = "tester"
ROLES = [str(role["metadata"]["name"]) for role in cluster_roles() if "grant" not in role["metadata"]["name"]]

TEST = """\
import time
from pathlib import Path

import pytest

from pytest_grovescale import checks, conditions


def wait_until(told):
    deadline = time.monotonic() + 60
    while not told():
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.mark.grovescale(prometheus="start")
def test_small(scale):
    pcs = scale.workload("pcs.yaml.j2", replicas=10, pods_per_replica=2)
    with scale.phase("deploy", timeout="2m") as deploy:
        deploy.milestone("pods-ready", conditions.count("pods", 20, ready=True))
        pcs.apply()
    scale.wait_idle()
    # Who has started this run ends its token now.
    Path("asked").touch()
    wait_until(lambda: Path("done").exists())
    scale.wait_idle()
    with scale.phase("steady-state", timeout="1m") as steady:
        pcs.trigger_reconcile()
        steady.hold("5s")
    scale.check(checks.NoopWrites(max=0))
    with scale.phase("delete", timeout="2m") as delete:
        delete.milestone("pods-gone", conditions.count("pods", 0))
        delete.milestone("pcs-gone", conditions.gone(pcs))
        pcs.delete()
    assert steady.reconciles("podcliqueset") >= 1
    # Prometheus was refused, and let in again.
    wait_until(lambda: scale.promql("min(min_over_time(up[10m]))").value == 0 and scale.promql("min(up)").value == 1)
    assert len(scale.promql('up{job=~"operator|kube-apiserver"}').samples) == 2
"""


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A kind cluster whose one real node takes pods, and has the operator's image."""
    with pytest.MonkeyPatch.context() as patch, Portal() as portal:
        patch.setenv("GROVESCALE_STATE_DIR", str(tmp_path_factory.mktemp("their state")))
        made = kind_clusters.acquire(kind_clusters.definition(tmp_path_factory.mktemp("definition"), nodes=1), NAME)
        try:
            assert made.container is not None
            archive = Path(os.environ["GROVESCALE_TEST_OPERATOR_ARCHIVE"])
            images.load(
                archive, made.container, kubernetes=made.kubernetes, given=made.binaries, progress=kind_clusters.quiet
            )
            portal.run(prepared(portal.client(made.access), kind_clusters.container(made)))
            yield made
        finally:
            made.release()


async def prepared(admin: Client, node: str) -> None:
    """Let pods onto the real node, and make a user with the bundled rights and the operator's."""
    await admin.patch(await admin.resource("Node", "v1"), node, body={"spec": {"taints": None}})
    await account(admin, ROLES, name=USER)
    (role,) = cluster_roles("reference-operator.yaml")
    await admin.apply(role)
    await admin.apply(binding(f"{USER}-operator", role["metadata"]["name"], USER))


async def operator(admin: Client, folder: Path) -> Path:
    """Write the definition of the bundled operator, fit for kind, which is perhaps without Services."""
    slices = await admin.resource("EndpointSlice", "discovery.k8s.io/v1")
    found = await admin.get(slices, "kubernetes", "default")
    address, port = found["endpoints"][0]["addresses"][0], found["ports"][0]["port"]
    bundled_one = resources.root() / "fixtures/operators/reference-pod.yaml"
    definition = yaml.safe_load(bundled_one.read_text(encoding="utf-8"))
    definition["pod"]["env"] = {"KUBERNETES_SERVICE_HOST": str(address), "KUBERNETES_SERVICE_PORT": str(port)}
    for section, key in ((definition["pod"], "manifests"), (definition, "crds")):
        section[key] = [str(bundled_one.parent / path) for path in section[key]]
    (folder / "operator.yaml").write_text(yaml.safe_dump(definition), encoding="utf-8")
    return folder / "operator.yaml"


async def left(admin: Client) -> list[str]:
    """Return all that runs have left, but for what is the cluster's own."""
    own = f"grovescale.io/cluster,grovescale.io/cluster!={NAME}"
    found = [*await names(admin, "Node", own), *await names(admin, "Namespace", own)]
    for kind in ("Namespace", "ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition", "Deployment"):
        found += await names(admin, kind, "grovescale.io/managed")
    return found


def test_an_operator_as_a_pod_outlives_its_token_behind_a_proxy(theirs: Cluster, tmp_path: Path) -> None:
    (tmp_path / "test_small.py").write_text(TEST, encoding="utf-8")
    with Portal() as portal, connect_proxy() as (url, asked):
        admin = portal.client(theirs.access)
        # kwok 0.8 loses what it wants to do when that is refused; as most plugins do, this one says when to ask again.
        file = plugin_user(tmp_path, msgspec.structs.replace(theirs.access, proxy=url), lasts_s=5)
        end = portal.run(ending_token(admin, USER, tmp_path / "token"))
        old = from_kubeconfig(file)
        own = {"KUBECONFIG": str(file), "GROVESCALE_STATE_DIR": str(tmp_path / "state")}
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--grovescale", "test_small.py"]
        command += [f"--grovescale-cluster=existing:{CONTEXT}", f"--grovescale-allow-context={CONTEXT}"]
        definition = portal.run(operator(admin, tmp_path))
        command += ["--grovescale-nodes=5", f"--grovescale-operator={definition}", "--grovescale-scrape=components"]
        with (
            (tmp_path / "output").open("w+") as output,
            subprocess.Popen(
                command, cwd=tmp_path, env={**os.environ, **own}, stdout=output, stderr=subprocess.STDOUT
            ) as run,
        ):
            wait_until(lambda: (tmp_path / "asked").exists() or run.poll() is not None, "the first phase's end", 240)
            (tmp_path / "token").write_text(portal.run(admin.token(USER, "default")), encoding="utf-8")
            portal.run(end())
            wait_until(lambda: portal.run(refused(old)), "the end of the token")
            (tmp_path / "done").touch()
            run.wait()
        reported = (tmp_path / "output").read_text()
        assert run.returncode == 0, reported
        assert set(asked) == {f"CONNECT {theirs.server.removeprefix('https://')}"}
        assert portal.run(left(admin)) == []
    result = msgspec.json.decode((tmp_path / "reports/latest/result.json").read_bytes(), type=Result)
    (test,) = result.tests
    assert test.cluster["backend"] == "existing"
    assert test.cluster["kwok_runs"] == "host"
    assert [(phase.name, phase.outcome) for phase in test.phases] == [
        ("deploy", "passed"),
        ("steady-state", "passed"),
        ("delete", "passed"),
    ]
    # None of its processes is one that the run could see: from edge to edge it was scraped, by two tokens.
    sources = [{row.process: row.source for row in phase.cpu}.get("operator") for phase in test.phases]
    assert sources == ["scrape"] * 3
