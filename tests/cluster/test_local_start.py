"""A local control plane as its users find it: nodes, identities, tokens, audit log, limits; shared, and twice."""

from __future__ import annotations

import json
import os
import secrets
import socket
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale import procfs
from pytest_grovescale.cluster import handle, ports, processes, state
from pytest_grovescale.cluster.definition import ApiServer, ClusterDefinition
from pytest_grovescale.cluster.handle import Cluster, ProcessSpec
from pytest_grovescale.cluster.local import components, start
from pytest_grovescale.cluster.ports import PortLease
from pytest_grovescale.errors import ClusterError
from pytest_grovescale.kube.access import Access, from_kubeconfig
from pytest_grovescale.kube.client import Client
from pytest_grovescale.kube.errors import Invalid
from pytest_grovescale.kube.portal import Portal
from tests.golden import masked

pytestmark = pytest.mark.cluster

Eventually = Callable[[Callable[[], object], str], None]


def pod(name: str, **metadata: Any) -> dict[str, Any]:
    spec = {
        "containers": [{"name": "main", "image": "none"}],
        "tolerations": [{"operator": "Exists"}],
        "terminationGracePeriodSeconds": 30,
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **metadata}, "spec": spec}


def audited(cluster: Cluster) -> list[dict[str, Any]]:
    assert cluster.audit_log is not None
    return [json.loads(line) for line in cluster.audit_log.read_text().splitlines()]


def test_all_nodes_are_ready_with_the_pools_labels(portal: Portal, client: Client, cluster: Cluster) -> None:
    nodes = portal.run(client.list(portal.run(client.resource("Node")))).items
    assert len(nodes) == cluster.facts["nodes"]
    for node in nodes:
        conditions = {c["type"]: c["status"] for c in node["status"]["conditions"]}
        assert conditions["Ready"] == "True"
        assert node["metadata"]["labels"]["type"] == "kwok"
        assert "taints" not in node["spec"]
        assert node["status"]["allocatable"]["pods"] == "250"


def test_pod_becomes_ready_and_goes_with_one_delete_by_kwok(
    portal: Portal, client: Client, cluster: Cluster, eventually: Eventually
) -> None:
    pods = portal.run(client.resource("Pod"))
    # Other tests have deleted pods before, and their requests are in the log.
    name = f"one-{secrets.token_hex(4)}"
    portal.run(client.create(pod(name)))

    def is_ready() -> bool:
        found = portal.run(client.get(pods, name, "default"))
        return any(c["type"] == "Ready" and c["status"] == "True" for c in found["status"].get("conditions", []))

    eventually(is_ready, "a Ready pod")
    portal.run(client.delete(pods, name, "default"))
    eventually(lambda: not portal.run(client.exists(pods, name, "default")), "the pod's end")
    asked = [
        (event["user"]["username"], event["responseStatus"]["code"])
        for event in audited(cluster)
        if event["verb"] == "delete" and event.get("objectRef", {}).get("name") == name
    ]
    # The log has them in the order of their answers.
    assert sorted(asked) == [("harness", 200), ("kwok", 200)]


def test_pod_with_a_finalizer_waits_for_the_controller_that_set_it(
    portal: Portal, client: Client, eventually: Eventually
) -> None:
    pods = portal.run(client.resource("Pod"))
    portal.run(client.create(pod("held", finalizers=["test.grovescale.io/held"])))
    portal.run(client.delete(pods, "held", "default"))

    def kubelet_is_done() -> bool:
        return bool(portal.run(client.get(pods, "held", "default"))["metadata"]["deletionGracePeriodSeconds"] == 0)

    eventually(kubelet_is_done, "the simulated kubelet's part of the deletion")
    portal.run(client.patch(pods, "held", "default", body={"metadata": {"finalizers": None}}))
    assert not portal.run(client.exists(pods, "held", "default"))


def test_everyone_has_an_identity_of_its_own(
    portal: Portal, client: Client, cluster: Cluster, eventually: Eventually
) -> None:
    recorder = portal.client(cluster.access_as("recorder"))
    portal.run(recorder.list(portal.run(recorder.resource("Namespace"))))

    def missing() -> set[str]:
        return set(cluster.identities.values()) - {event["user"]["username"] for event in audited(cluster)}

    # Each component sends its first request when it has started.
    eventually(lambda: not missing(), "a request by each identity")
    assert cluster.identities["kube-apiserver"] == "system:apiserver"


def test_tokens_are_issued_and_accepted(portal: Portal, client: Client, cluster: Cluster) -> None:
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "one", "namespace": "default"}}
    portal.run(client.apply(account))
    token = portal.run(client.token("one", "default"))
    own = Access(server=cluster.access.server, ca_pem=cluster.access.ca_pem, token=token)
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview", "metadata": {}}
    answer = portal.run(
        portal.client(own).request(
            "POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", body=msgspec.json.encode(review)
        )
    )
    assert json.loads(answer)["status"]["userInfo"]["username"] == "system:serviceaccount:default:one"


def test_audit_log_reports_completions_only(cluster: Cluster) -> None:
    events = audited(cluster)
    assert {event["level"] for event in events} == {"Metadata"}
    assert "RequestReceived" not in {event["stage"] for event in events}


def test_secrets_are_for_their_owner_only(cluster: Cluster) -> None:
    assert stat.S_IMODE(cluster.directory.stat().st_mode) == 0o700
    for path in (cluster.directory / "pki").iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
    assert stat.S_IMODE(cluster.kubeconfig.stat().st_mode) == 0o600


def test_kubeconfig_works(portal: Portal, cluster: Cluster) -> None:
    assert portal.run(portal.client(from_kubeconfig(cluster.kubeconfig)).ready())


def test_each_component_itself_listens_on_loopback_only(cluster: Cluster) -> None:
    listed = cluster.processes()
    port = int(cluster.access.server.rpartition(":")[2])
    assert port in procfs.ports_of([listed["kube-apiserver"].pid])
    assert port not in procfs.ports_of([listed["etcd"].pid])
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        address, _, local_port = line.split()[1].rpartition(":")
        if line.split()[3] == "0A" and int(local_port, 16) == port:
            assert address == "0100007F"


def test_facts_say_what_was_in_force(cluster: Cluster) -> None:
    facts = cluster.facts
    assert facts["backend"] == "local"
    assert str(facts["kubernetes"]).startswith("1.")
    assert facts["priority_and_fairness"] is True
    assert (facts["max_requests_inflight"], facts["max_mutating_requests_inflight"]) == (400, 200)
    assert facts["audit_level"] == "Metadata"
    json.dumps(facts)


def test_process_of_a_lease_runs_on_the_cluster_and_stops(cluster: Cluster, tmp_path: Path) -> None:
    name = f"sleeper-{os.getpid()}"
    spec = ProcessSpec(name=name, argv=["sleep", "1000"], log=str(tmp_path / "log"))
    info = cluster.start_process(spec)
    assert cluster.processes()[name] == info
    assert cluster.stop_process(name).exit_code == -15
    assert not processes.alive(info.pid, info.started_ticks)


def test_running_cluster_is_joined_by_name_and_not_changed(
    cluster: Cluster, definition: ClusterDefinition, monkeypatch: pytest.MonkeyPatch, snapshot: SnapshotAssertion
) -> None:
    monkeypatch.setenv("GROVESCALE_STATE_DIR", str(cluster.directory.parents[1]))
    assert handle.is_running("tests")
    second = handle.join("tests", progress=lambda text: None)
    third = handle.acquire(definition, name="tests", progress=lambda text: None)
    assert second.access == third.access == cluster.access
    second.release()
    third.release()
    with pytest.raises(ClusterError, match="made from another definition"):
        handle.acquire(definition.with_nodes(3), name="tests", progress=lambda text: None)
    with pytest.raises(ClusterError) as caught:
        handle.join("other", progress=lambda text: None)
    assert str(caught.value) == snapshot
    assert cluster.processes()["kube-apiserver"].running


def test_two_starters_of_one_name_get_one_cluster_beside_another(
    state_dir: Path, definition: ClusterDefinition, cluster: Cluster
) -> None:
    small = msgspec.structs.replace(
        definition.with_nodes(1),
        api_server=ApiServer(priority_and_fairness=False, max_requests_inflight=0, max_mutating_requests_inflight=0),
    )
    held: list[Cluster] = []
    failed: list[BaseException] = []

    def take() -> None:
        try:
            held.append(handle.acquire(small, name="same", progress=lambda text: None))
        except BaseException as error:  # noqa: BLE001 - shown below, in the test's own thread
            failed.append(error)

    threads = [threading.Thread(target=take) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    try:
        assert failed == []
        assert held[0].access == held[1].access
        assert held[0].access.server != cluster.access.server
        assert held[0].facts["priority_and_fairness"] is False
        held[0].release()
        assert held[1].processes()["kube-apiserver"].running
    finally:
        for one in held:
            one.release()
    assert state.names() == []
    assert list((state_dir / "locks").iterdir()) == []


def test_port_that_someone_takes_meanwhile_costs_a_second_try(
    state_dir: Path, definition: ClusterDefinition, monkeypatch: pytest.MonkeyPatch, snapshot: SnapshotAssertion
) -> None:
    # Chosen as free, then taken before the API server listens: the choice is made to find it free.
    with socket.socket() as stranger:
        stranger.bind(("127.0.0.1", 0))
        stranger.listen()
        taken = stranger.getsockname()[1]
        choose = ports.lease
        tries: list[list[int]] = []

        def unlucky(count: int) -> list[PortLease]:
            leased = choose(count)
            if not tries:
                leased[0] = PortLease(taken, leased[0].lock)
            tries.append([port.number for port in leased])
            return leased

        monkeypatch.setattr(ports, "lease", unlucky)
        said: list[str] = []
        own = handle.acquire(definition.with_nodes(1), name="unlucky", progress=said.append)
        own.release()
    assert len(tries) == 2
    (reported,) = (line for line in said if "other ports" in line)
    assert reported == snapshot


@pytest.mark.parametrize(("crashes", "starts"), [(1, True), (2, False)])
def test_a_component_that_a_race_of_its_own_ends_is_started_again_once(
    state_dir: Path,
    definition: ClusterDefinition,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    crashes: int,
    starts: bool,
) -> None:
    """A shell stands before kwok, which ends as a Go program with a race does."""
    specs = components.specs
    script = f'''
        echo x >> "{tmp_path}/starts"
        if [ "$(wc -l < "{tmp_path}/starts")" -le {crashes} ]; then
            echo "fatal error: concurrent map writes" >&2; exit 2
        fi
        exec "$0" "$@"
    '''

    def crashing(start: components.Start) -> dict[str, ProcessSpec]:
        plan = specs(start)
        kwok = plan["kwok"]
        return plan | {"kwok": msgspec.structs.replace(kwok, argv=["/bin/sh", "-c", script, *kwok.argv])}

    monkeypatch.setattr(components, "specs", crashing)
    said: list[str] = []
    small = definition.with_nodes(2)
    if starts:
        own = handle.acquire(small, name="racy", progress=said.append)
        assert own.processes()["kwok"].restarts == 1
        own.release()
        assert sum("kwok" in line for line in said) == 1
    else:
        with pytest.raises(ClusterError, match="kwok"):
            handle.acquire(small, name="racy", progress=said.append)


def test_flag_that_a_component_refuses_is_shown_with_its_log(state_dir: Path, definition: ClusterDefinition) -> None:
    wrong = msgspec.structs.replace(
        definition, api_server=msgspec.structs.replace(definition.api_server, extra_args={"no-such-flag": "1"})
    )
    with pytest.raises(ClusterError, match="unknown flag: --no-such-flag") as raised:
        handle.acquire(wrong, name="wrong", progress=lambda text: None)
    assert state.names() == []
    # The cluster's folder goes; what its components had to say stays.
    kept = state_dir / "failed-starts" / "wrong"
    assert raised.value.message.endswith(f"all logs of this start: {kept}")
    assert "--no-such-flag" in (kept / "kube-apiserver.log").read_text(encoding="utf-8")


def test_node_that_the_api_server_refuses_is_shown_with_its_reason(
    state_dir: Path, definition: ClusterDefinition
) -> None:
    pools = [msgspec.structs.replace(definition.nodes[0], labels={"type": "no value!"})]
    with pytest.raises(Invalid, match=r'"node-\d+" is invalid: metadata.labels'):
        handle.acquire(msgspec.structs.replace(definition, nodes=pools), name="wrong", progress=lambda text: None)
    assert state.names() == []


def test_stages_without_ready_nodes_are_reported_after_the_timeout(
    state_dir: Path, definition: ClusterDefinition, monkeypatch: pytest.MonkeyPatch, snapshot: SnapshotAssertion
) -> None:
    monkeypatch.setattr(start, "_START_S", 8.0)
    stages = [stage for stage in definition.stages if "node-initialize" not in stage]
    with pytest.raises(ClusterError) as caught:
        handle.acquire(
            msgspec.structs.replace(definition.with_nodes(2), stages=stages),
            name="never",
            progress=lambda text: None,
        )
    assert masked(str(caught.value), {state_dir: "state"}) == snapshot
    assert "not Ready: node-0, node-1" in caught.value.message
    assert state.names() == []
