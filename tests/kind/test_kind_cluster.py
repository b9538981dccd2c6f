"""A kind cluster that the harness made: its limits, identities, nodes and log; and that none of it is left."""

from __future__ import annotations

import ssl
import urllib.request
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pytest_grovescale.analysis.result import Result
from pytest_grovescale.cluster import commands, handle, state
from pytest_grovescale.cluster.handle import Cluster
from pytest_grovescale.cluster.kind import bootstrap
from pytest_grovescale.cluster.kind import container_engine as engines
from pytest_grovescale.endpoints import Address
from pytest_grovescale.errors import ClusterError
from pytest_grovescale.kube.portal import Portal
from tests.kind import kind_clusters, scale_run
from tests.kind.kind_clusters import container, last
from tests.waiting import wait_until

pytestmark = pytest.mark.kind

NAME = "gs-kind-tests"
NODES = 10
GRACE_S = 50
"""--node-monitor-grace-period: a node whose lease is older is given up."""

PROXY = "http://127.0.0.1:9"
SIMULATED = f"grovescale.io/cluster={NAME}"
REAL = "!grovescale.io/pool"


FAULTED = """
from pytest_grovescale import conditions

def test_under_faults(scale):
    pcs = scale.workload("pcs.yaml.j2", replicas=10, pods_per_replica=2)
    with scale.faults(conflict=0.1, throttled=0.03, error=0.05, lost_answer=0.05, watch_cut=0.02):
        with scale.phase("deploy", timeout="2m") as deploy:
            deploy.milestone("pods-ready", conditions.count("pods", 20, ready=True))
            pcs.apply()
        with scale.phase("delete", timeout="2m") as delete:
            delete.milestone("gone", conditions.gone(pcs))
            pcs.delete()
"""


@pytest.fixture(scope="module")
def users_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, users_home: Path) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("definitions")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GROVESCALE_STATE_DIR", str(tmp_path_factory.mktemp("own state")))
        patch.setenv("KUBECONFIG", str(users_home / "config"))
        # Nobody answers there: what goes through it on its way to the cluster fails.
        patch.setenv("HTTPS_PROXY", PROXY)
        wanted = kind_clusters.definition(
            folder, nodes=NODES, api_server={"gomaxprocs": 3, "max_requests_inflight": 123, "extra_args": {"v": "1"}}
        )
        made = kind_clusters.acquire(wanted, NAME)
        yield made
        made.release()
        assert state.names() == []
        assert kind_clusters.containers(NAME) == []
        assert scale_run.containers_of(state_folder(made)) == []
        assert scale_run.processes_of(state_folder(made)) == []
    assert not (users_home / "config").exists()


def state_folder(cluster: Cluster) -> Path:
    return cluster.directory.parents[1]


def pod(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": [{"name": "main", "image": "registry.k8s.io/pause:3.10"}], **spec},
    }


def test_nodes_are_ready_and_apart_from_the_real_one(cluster: Cluster, portal: Portal) -> None:
    client = portal.client(cluster.access)
    simulated = portal.run(kind_clusters.nodes(client, SIMULATED))
    assert {node["metadata"]["name"] for node in simulated} == {f"node-{number}" for number in range(NODES)}
    assert all(kind_clusters.ready_since(node) for node in simulated)
    assert cluster.pools == {"node": NODES}
    (real,) = portal.run(kind_clusters.nodes(client, REAL))
    assert real["metadata"]["name"] == container(cluster)
    (taint,) = real["spec"]["taints"]
    assert taint["key"].partition("/")[::2] == ("node-role.kubernetes.io", "control-plane")


def test_workload_goes_to_simulated_nodes_and_no_other_pod_to_the_real_one(cluster: Cluster, portal: Portal) -> None:
    client = portal.client(cluster.access)
    pods = portal.run(client.resource("Pod", "v1"))
    toleration = {"key": "kwok.x-k8s.io/node", "operator": "Exists", "effect": "NoSchedule"}
    portal.run(client.create(pod("simulated", tolerations=[toleration])))
    portal.run(client.create(pod("intolerant")))

    def status(name: str) -> dict[str, Any]:
        found: dict[str, Any] = portal.run(client.get(pods, name, "default"))
        return found

    wait_until(lambda: status("simulated")["status"]["phase"] == "Running", "the pod on a simulated node")
    assert status("simulated")["spec"]["nodeName"].startswith("node-")
    wait_until(lambda: status("intolerant")["status"].get("conditions"), "the scheduler's word on the other one")
    assert "nodeName" not in status("intolerant")["spec"]
    for name in ("simulated", "intolerant"):
        portal.run(client.delete(pods, name, "default"))
    wait_until(lambda: not portal.run(client.exists(pods, "simulated", "default")), "its end")


def test_claims_are_bound_and_services_balanced_by_stages(cluster: Cluster, portal: Portal) -> None:
    """The node's own storage class would wait for a pod of its provisioner, and nothing gives addresses."""
    client = portal.client(cluster.access_as("harness"))
    wanted = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    service = {"type": "LoadBalancer", "ports": [{"port": 80}]}
    for kind, spec in (("PersistentVolumeClaim", wanted), ("Service", service)):
        place = {"name": "simulated", "namespace": "default"}
        portal.run(client.create({"apiVersion": "v1", "kind": kind, "metadata": place, "spec": spec}))
    claims, services = (portal.run(client.resource(kind)) for kind in ("PersistentVolumeClaim", "Service"))

    def are_served() -> bool:
        claim, balanced = (portal.run(client.get(kind, "simulated", "default")) for kind in (claims, services))
        return claim["status"].get("phase") == "Bound" and bool(balanced["status"]["loadBalancer"].get("ingress"))

    wait_until(are_served, "a bound claim and an address")
    for of in (claims, services):
        portal.run(client.delete(of, "simulated", "default"))
    wait_until(lambda: not portal.run(client.exists(claims, "simulated", "default")), "the claim's end")


def test_daemons_are_kept_on_the_real_node(cluster: Cluster, portal: Portal) -> None:
    """As those of kube-proxy and the CNI, which a published node image starts."""
    client = portal.client(cluster.access)
    daemons = portal.run(client.resource("DaemonSet", "apps/v1"))
    template = {
        "metadata": {"labels": {"app": "daemon"}},
        "spec": pod("", tolerations=[{"operator": "Exists"}])["spec"],
    }
    metadata = {"name": "daemon", "namespace": "kube-system"}
    spec = {"selector": {"matchLabels": {"app": "daemon"}}, "template": template}
    portal.run(client.create({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": metadata, "spec": spec}))

    def scheduled() -> int:
        found = portal.run(client.get(daemons, "daemon", "kube-system"))
        return int(found.get("status", {}).get("desiredNumberScheduled", 0))

    wait_until(lambda: scheduled() == NODES + 1, "a pod for each node")
    assert portal.run(bootstrap.keep_daemons_on(client)) == ["daemon"]
    wait_until(lambda: scheduled() == 1, "a pod for the real node alone")
    portal.run(client.delete(daemons, "daemon", "kube-system", propagation="Foreground"))
    wait_until(lambda: not portal.run(client.exists(daemons, "daemon", "kube-system")), "its end")


def test_limits_of_the_definition_are_in_force(cluster: Cluster, portal: Portal) -> None:
    client = portal.client(cluster.access)
    api = portal.run(kind_clusters.flags(client, cluster, "kube-apiserver"))
    assert last(api, "max-requests-inflight") == "123"
    assert last(api, "v") == "1"
    manager = portal.run(kind_clusters.flags(client, cluster, "kube-controller-manager"))
    assert (last(manager, "kube-api-qps"), last(manager, "leader-elect")) == ("5000", "false")
    scheduler = portal.run(kind_clusters.flags(client, cluster, "kube-scheduler"))
    assert last(scheduler, "config") == "/etc/grovescale/scheduler.yaml"
    assert last(portal.run(kind_clusters.flags(client, cluster, "etcd")), "unsafe-no-fsync") == "true"
    facts = cluster.facts
    assert (facts["max_requests_inflight"], facts["apiserver_gomaxprocs"]) == (123, 3)
    assert facts["start_s"] >= facts["nodes_ready_s"] >= facts["api_server_ready_s"]  # type: ignore[operator]


def test_facts_name_engine_node_and_versions(cluster: Cluster) -> None:
    engine = kind_clusters.engine()
    assert (cluster.backend, cluster.facts["kind"]) == ("kind", "0.32.0")
    assert (cluster.facts["engine"], cluster.facts["engine_version"]) == (engine.name, engine.version)
    assert cluster.facts["cgroup_version"] in ("1", "2")
    assert engines.inspect(engine, container(cluster)).state.running
    assert cluster.kubernetes.startswith("1.36.")
    assert cluster.trouble() == ""


def test_audit_log_distinguishes_identities(cluster: Cluster, portal: Portal) -> None:
    assert cluster.audit_log is not None
    log = cluster.audit_log
    for role in ("harness", "recorder"):
        client = portal.client(cluster.access_as(role))
        portal.run(client.request("GET", f"/api/v1/namespaces/default/configmaps?limit=1&by={role}"))
    seen = {request.user for request in kind_clusters.requests(log)}
    assert {"harness", "recorder", "kwok", "system:kube-scheduler", "system:kube-controller-manager"} <= seen
    assert set(cluster.identities.values()) <= seen


def test_components_serve_their_metrics_to_the_recorder(cluster: Cluster) -> None:
    expected = {"kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd", "kwok"}
    assert set(cluster.metrics) == expected
    for name, endpoint in cluster.metrics.items():
        assert "process_cpu_seconds_total" in scrape(endpoint), name


def scrape(endpoint: Address) -> str:
    context = None
    if endpoint.ca_file:
        context = ssl.create_default_context(cafile=endpoint.ca_file)
        context.load_cert_chain(endpoint.cert_file, endpoint.key_file)
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), *([urllib.request.HTTPSHandler(context=context)] if context else [])
    )
    with opener.open(endpoint.url, timeout=10) as answer:
        text: str = answer.read().decode()
    return text


def test_proxies_are_handed_to_the_node_and_not_for_loopback(cluster: Cluster) -> None:
    def variable(name: str) -> str:
        return engines.call(kind_clusters.engine(), "exec", container(cluster), "printenv", name).strip()

    assert variable("https_proxy") == PROXY
    assert {"localhost", "127.0.0.1", container(cluster)} <= set(variable("NO_PROXY").split(","))


def test_cluster_is_reported_of_and_can_be_joined(cluster: Cluster) -> None:
    written: list[str] = []
    commands.status(write=written.append)
    assert any(f"container {container(cluster)} runs in" in text for text in written)
    joined = handle.join(NAME, progress=kind_clusters.quiet)
    assert joined.container == cluster.container
    joined.release()
    assert kind_clusters.containers(NAME) == [container(cluster)]


def test_api_faults_meet_an_operator_on_its_way_to_the_node(cluster: Cluster, pytester: pytest.Pytester) -> None:
    pytester.makepyfile(FAULTED)
    shown = pytester.runpytest_subprocess(
        "--grovescale",
        f"--grovescale-cluster={cluster.name}",
        "--grovescale-operator=reference",
        "--grovescale-findings=fail",
        "-p",
        "no:cacheprovider",
    )
    shown.assert_outcomes(passed=1)
    result = msgspec.json.decode((pytester.path / "reports/latest/result.json").read_bytes(), type=Result)
    deploy = result.tests[0].phases[0]
    assert deploy.faults is not None
    assert deploy.faults.total > 0
    # Answered by the proxy: the log of the API server in the node has none of them.
    assert not any(row.code in (429, 500, 503) and row.identity == "operator" for row in deploy.api)


def test_what_a_run_left_would_be_seen(cluster: Cluster) -> None:
    """By those tests of whole runs that find nothing."""
    assert scale_run.containers_of(state_folder(cluster)) == [container(cluster)]
    assert scale_run.processes_of(state_folder(cluster)) != []


def test_name_that_is_taken_is_refused_and_stays(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GROVESCALE_STATE_DIR", str(tmp_path / "another users state"))
    with pytest.raises(ClusterError, match=f"there is a kind cluster {NAME} already"):
        kind_clusters.acquire(kind_clusters.definition(tmp_path), NAME)
    assert state.names() == []
    assert cluster.trouble() == ""


@pytest.mark.long
def test_nodes_stay_ready_longer_than_leases_last(cluster: Cluster, portal: Portal) -> None:
    client = portal.client(cluster.access)
    leases = portal.run(client.resource("Lease", "coordination.k8s.io/v1"))
    before = {n["metadata"]["name"]: n for n in portal.run(kind_clusters.nodes(client, SIMULATED))}

    def oldest() -> float:
        """Return how long after its node's beginning the least renewed lease was renewed, s."""
        ages = []
        for name, node in before.items():
            lease = portal.run(client.get(leases, name, "kube-node-lease"))
            ages.append(moment(lease["spec"]["renewTime"]) - moment(node["metadata"]["creationTimestamp"]))
        return min(ages).total_seconds()

    wait_until(lambda: oldest() > 1.5 * GRACE_S, "leases renewed for longer than the grace", seconds=4 * GRACE_S)
    after = {n["metadata"]["name"]: n for n in portal.run(kind_clusters.nodes(client, SIMULATED))}
    assert {n: kind_clusters.ready_since(after[n]) for n in after} == {
        n: kind_clusters.ready_since(before[n]) for n in before
    }


def moment(text: str) -> timedelta:
    return datetime.fromisoformat(text) - datetime.fromisoformat("2020-01-01T00:00:00Z")
