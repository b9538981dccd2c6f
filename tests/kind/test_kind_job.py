"""The tests as a Job inside of the cluster that they measure: the example's own manifests and commands, on kind."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from pytest_grovescale.analysis.result import Result
from pytest_grovescale.cluster import handle
from pytest_grovescale.cluster.definition import load_definition
from pytest_grovescale.cluster.handle import Cluster
from pytest_grovescale.cluster.kind import images
from pytest_grovescale.cluster.state import Container

pytestmark = pytest.mark.kind

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "job-in-cluster"
ARCHIVE = "GROVESCALE_TEST_HARNESS_ARCHIVE"
NAMESPACE = "grovescale"
JOB = "job/scale-tests"
OF_JOB = ("--namespace=grovescale", "--selector=job-name=scale-tests")
OPERATORS_ROLE = "grove-reference-operator"
PODS = 40
_PASSED_S = 300
_ADMIN = "/etc/kubernetes/admin.conf"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A kind cluster whose node has the harness' image, with the identity and the definition of the example."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GROVESCALE_STATE_DIR", str(tmp_path_factory.mktemp("state")))
        made = handle.acquire(load_definition("kind").with_nodes(1), name="gs-job", progress=lambda text: None)
        archive = Path(os.environ[ARCHIVE])
        images.load(archive, container(made), kubernetes=made.kubernetes, given={}, progress=lambda text: None)
        identity(made)
        cluster_definition(made)
        yield made
        made.release()


@pytest.fixture
def start(cluster: Cluster) -> Iterator[Callable[..., None]]:
    """A function that starts the example's Job, with more arguments for its tests; it is deleted afterwards."""

    def apply(*arguments: str) -> None:
        kubectl(cluster, "apply", "-f-", given=yaml.safe_dump(job(cluster, *arguments)).encode())
        kubectl(cluster, "wait", JOB, f"-n{NAMESPACE}", "--for=jsonpath={.status.active}=1", "--timeout=60s")

    yield apply
    delete(cluster)


def delete(cluster: Cluster) -> None:
    """Delete the Job and return when its pod is gone: when it has had its time to clear up."""
    kubectl(cluster, "delete", JOB, f"-n{NAMESPACE}", "--cascade=foreground", "--ignore-not-found", "--timeout=300s")


def left(cluster: Cluster) -> list[str]:
    """Return the nodes and namespaces that a run inside of the cluster has left there."""
    labels = f"grovescale.io/cluster,grovescale.io/cluster!={cluster.name}"
    return kubectl(cluster, "get", "nodes,namespaces", f"--selector={labels}", "--output=name").decode().split()


def container(cluster: Cluster) -> Container:
    assert cluster.container is not None
    return cluster.container


def kubectl(cluster: Cluster, *arguments: str, given: bytes = b"", check: bool = True) -> bytes:
    """Run kubectl in the node, as an administrator; fail with what it says."""
    node = container(cluster)
    command = [node.engine, "exec", "--interactive", node.name, "kubectl", f"--kubeconfig={_ADMIN}", *arguments]
    done = subprocess.run(command, input=given, capture_output=True, check=False)
    assert not check or done.returncode == 0, done.stderr.decode(errors="replace") + reported(cluster)
    return done.stdout


def reported(cluster: Cluster) -> str:
    """Return what the tests have said so far."""
    return kubectl(cluster, "logs", f"-n{NAMESPACE}", JOB, "-ctests", "--tail=60", check=False).decode()


def job(cluster: Cluster, *arguments: str) -> dict[str, Any]:
    """Return the example's Job, fit for kind: its one real node is tainted, and perhaps without Services."""
    manifest: dict[str, Any] = yaml.safe_load((EXAMPLE / "job.yaml").read_text(encoding="utf-8"))
    spec = manifest["spec"]["template"]["spec"]
    spec["tolerations"] = [{"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"}]
    tests = spec["containers"][0]
    # The budgets are those of a thousand pods on the local backend.
    tests["args"] += [f"--grovescale-param=replicas={PODS // 2}", "--grovescale-budgets=off", *arguments]
    tests["resources"]["requests"]["cpu"] = "100m"
    address = kubectl(
        cluster, "get", "endpointslices", "-ndefault", "kubernetes", "-ojsonpath={.endpoints[0].addresses[0]}"
    ).decode()
    port = kubectl(cluster, "get", "endpointslices", "-ndefault", "kubernetes", "-ojsonpath={.ports[0].port}").decode()
    tests["env"] = [
        {"name": "KUBERNETES_SERVICE_HOST", "value": address},
        {"name": "KUBERNETES_SERVICE_PORT", "value": port},
    ]
    return manifest


def identity(cluster: Cluster) -> None:
    """Make the ServiceAccount, with the rights of the file and those of the operator."""
    kubectl(cluster, "create", "namespace", NAMESPACE)
    for file in ("harness.yaml", "reference-operator.yaml"):
        kubectl(cluster, "apply", "-f-", given=(ROOT / "fixtures" / "rbac" / file).read_bytes())
    kubectl(
        cluster,
        *("create", "clusterrolebinding", "grovescale-harness-operator"),
        *(f"--clusterrole={OPERATORS_ROLE}", f"--serviceaccount={NAMESPACE}:harness"),
    )


def cluster_definition(cluster: Cluster) -> None:
    definition = (EXAMPLE / "cluster.yaml").read_text(encoding="utf-8")
    data = {"cluster.yaml": definition.replace("count: 100", "count: 3")}
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "scale-tests-cluster"}, "data": data}
    kubectl(cluster, "apply", f"-n{NAMESPACE}", "-f-", given=yaml.safe_dump(config).encode())


def test_the_job_measures_the_cluster_that_it_runs_in(
    cluster: Cluster, start: Callable[..., None], tmp_path: Path
) -> None:
    start("--grovescale-hold=2s")
    ended = '{.status.containerStatuses[?(@.name=="tests")].state.terminated.exitCode}'
    kubectl(cluster, "wait", "pod", *OF_JOB, f"--for=jsonpath={ended}", f"--timeout={_PASSED_S}s")
    pod = kubectl(cluster, "get", "pods", *OF_JOB, "--output=name").decode().strip()
    assert kubectl(cluster, "get", pod, f"-n{NAMESPACE}", f"--output=jsonpath={ended}") == b"0", reported(cluster)

    inside = ("exec", f"-n{NAMESPACE}", pod, "--container=results", "--")
    packed = kubectl(cluster, *inside, "tar", "-C", "/suite", "-cf", "-", "reports")
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(tmp_path, filter="data")
    kubectl(cluster, *inside, "touch", "/suite/reports/fetched")
    kubectl(cluster, "wait", f"-n{NAMESPACE}", "--for=condition=complete", "--timeout=60s", JOB)

    result = msgspec.json.decode((tmp_path / "reports/latest/result.json").read_bytes(), type=Result)
    (test,) = result.tests
    assert [(phase.name, phase.outcome) for phase in test.phases] == [
        ("deploy", "passed"),
        ("steady-state", "passed"),
        ("touch", "passed"),
        ("delete", "passed"),
    ]
    assert test.cluster["backend"] == "existing"
    assert test.pod_places is not None
    assert test.pod_places.simulated == PODS
    assert not test.pod_places.elsewhere
    assert left(cluster) == []


def test_a_job_that_is_deleted_leaves_nothing(cluster: Cluster, start: Callable[..., None]) -> None:
    start("--grovescale-hold=10m")
    run = f"grovescale.io/cluster,grovescale.io/cluster!={cluster.name}"
    for kind in ("node", "namespace"):
        kubectl(cluster, "wait", kind, f"--selector={run}", "--for=create", f"--timeout={_PASSED_S}s")
    assert left(cluster) != []
    delete(cluster)
    assert left(cluster) == []
