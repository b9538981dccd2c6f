"""Kind clusters under attack: a creation that fails, a starter killed, a node restarted, an engine that is gone."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import msgspec
import pytest

from pytest_grovescale.cluster import commands, processes, state
from pytest_grovescale.cluster.kind import container_engine as engines
from pytest_grovescale.cluster.processes import ProcessInfo
from pytest_grovescale.errors import ClusterError
from pytest_grovescale.kube.portal import Portal
from tests.kind import kind_clusters
from tests.kind.kind_clusters import container
from tests.kind.unix_forward import forwarding
from tests.waiting import wait_until

pytestmark = pytest.mark.kind

NAME = "gs-kind-faults"
STARTER = """
    import sys
    from pytest_grovescale.cluster import handle
    from pytest_grovescale.cluster.definition import load_definition
    definition = load_definition("kind").with_nodes(1)
    handle.acquire(definition, name=sys.argv[1], progress=lambda text: print(text, flush=True))
"""
BROKEN = """\
kind: Cluster
apiVersion: kind.x-k8s.io/v1alpha4
kubeadmConfigPatches:
  - "{kind: ClusterConfiguration, kubernetesVersion: nonsense}"
"""


def nothing_is_left(folder: Path) -> bool:
    return state.names() == [] and kind_clusters.containers(NAME) == [] and processes.marked(folder) == []


def test_creation_that_fails_leaves_its_logs_and_nothing_else(state_dir: Path, tmp_path: Path) -> None:
    (tmp_path / "broken.yaml").write_text(BROKEN)
    wanted = kind_clusters.definition(tmp_path, nodes=1, kind={"config": "broken.yaml"})
    with pytest.raises(ClusterError, match=f"kind could not create cluster {NAME}") as caught:
        kind_clusters.acquire(wanted, NAME)
    assert "nonsense" in caught.value.message
    assert nothing_is_left(state.directory(NAME))
    kept = Path(caught.value.next_step.rpartition(", in ")[2].rstrip("."))
    assert "nonsense" in (kept / "kind-create.log").read_text(encoding="utf-8")
    assert list(kept.glob("*/kubelet.log"))


def test_starter_killed_half_way_leaves_nothing(state_dir: Path) -> None:
    starter = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(STARTER), NAME],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert starter.stdout is not None
    assert any("Preparing nodes" in line for line in starter.stdout), "the node is there"
    folder = state.directory(NAME)
    assert kind_clusters.containers(NAME) == [f"{NAME}-control-plane"]
    starter.send_signal(signal.SIGKILL)
    starter.communicate()
    wait_until(lambda: nothing_is_left(folder), "the end of the half cluster")


def test_killed_supervisor_leaves_a_node_that_down_removes(state_dir: Path, tmp_path: Path) -> None:
    cluster = kind_clusters.acquire(kind_clusters.definition(tmp_path, nodes=1), NAME)
    owner = state.owner(cluster.directory)
    assert owner is not None
    assert processes.kill(owner.pid, owner.started_ticks)
    wait_until(lambda: processes.marked(cluster.directory) == [], "the end of its processes")
    assert kind_clusters.containers(NAME) == [container(cluster)]
    commands.down(NAME, say=kind_clusters.quiet)
    cluster.release()
    assert nothing_is_left(cluster.directory)


@pytest.mark.long
def test_node_that_is_restarted_comes_back_with_its_log(state_dir: Path, tmp_path: Path) -> None:
    cluster = kind_clusters.acquire(kind_clusters.definition(tmp_path, nodes=3), NAME)
    engine = kind_clusters.engine()
    node = container(cluster)
    try:
        with Portal() as portal:
            client = portal.client(cluster.access)
            before = api_server(cluster.directory)
            engines.call(engine, "stop", "--time", "5", node, timeout_s=60)
            assert f"container {node} does not run" in cluster.trouble()
            engines.call(engine, "start", node)
            assert cluster.trouble() == ""
            wait_until(lambda: portal.run(client.ready()), "a ready API", seconds=180)

            def ready() -> int:
                found = portal.run(kind_clusters.nodes(client, f"grovescale.io/cluster={NAME}"))
                return sum(bool(kind_clusters.ready_since(one)) for one in found)

            wait_until(lambda: ready() == 3, "simulated nodes Ready again", seconds=180)
            wait_until(lambda: api_server(cluster.directory).pid != before.pid, "the new API server's pid")
            assert cluster.audit_log is not None
            maps = portal.run(client.resource("ConfigMap", "v1"))
            assert not portal.run(client.exists(maps, "after-the-restart-none", "default"))
    except BaseException:
        cluster.release()
        raise
    names = {request.name for request in kind_clusters.requests(cluster.audit_log)}
    cluster.release()
    assert "after-the-restart-none" in names
    assert nothing_is_left(cluster.directory)


def api_server(folder: Path) -> ProcessInfo:
    """Return the API server's process, as it is seen from this machine."""
    file = folder / state.CONTAINER_PROCESSES
    wait_until(lambda: file.exists() and b"kube-apiserver" in file.read_bytes(), "the components' processes")
    return msgspec.json.decode(file.read_bytes(), type=dict[str, ProcessInfo])["kube-apiserver"]


def test_engine_that_is_gone_at_the_end_is_reported_and_down_finishes_later(
    state_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = engine_socket()
    # A socket's address holds 107 bytes: not below pytest's own folder.
    with tempfile.TemporaryDirectory(prefix="gs-") as folder:
        way = Path(folder) / "engine.sock"
        monkeypatch.setenv("DOCKER_HOST", f"unix://{way}")
        with forwarding(way, own):
            cluster = kind_clusters.acquire(kind_clusters.definition(tmp_path, nodes=1), NAME)
        assert "docker does not run" in cluster.trouble()
        with pytest.raises(ClusterError, match="cannot clear up") as caught:
            cluster.release()
        assert "Cannot connect to" in caught.value.message
        assert "grovescale down" in caught.value.next_step
        written: list[str] = []
        commands.status(write=written.append)
        assert any(text.startswith(f"{NAME}: stale") for text in written)
        with forwarding(way, own):
            commands.down(NAME, say=kind_clusters.quiet)
            assert nothing_is_left(cluster.directory)


def engine_socket() -> str:
    """Return the path of the engine's own socket; skips where it is not Docker's."""
    engine = kind_clusters.engine()
    if engine.name != "docker":
        pytest.skip("Podman has no daemon that could be gone")
    host = engines.call(engine, "context", "inspect", "--format", "{{.Endpoints.docker.Host}}").strip()
    return host.removeprefix("unix://")


def test_cluster_that_is_there_is_joined_and_left_as_it_was(state_dir: Path, tmp_path: Path) -> None:
    host = kind_clusters.acquire(kind_clusters.definition(tmp_path, nodes=1), NAME)
    kind = {"cluster": NAME, "kwok": "cluster"}
    wanted = kind_clusters.definition(tmp_path, nodes=3, kind=kind, api_server=None, scheduler=None)
    with Portal() as portal:
        client = portal.client(host.access)
        before = portal.run(kind_clusters.nodes(client, ""))
        guest = kind_clusters.acquire(wanted, "guest")
        assert guest.audit_log == host.audit_log
        assert guest.container == host.container
        assert guest.others_use_it
        assert guest.pools == {"guest-node": 3}
        mine = portal.run(kind_clusters.nodes(client, "grovescale.io/cluster=guest"))
        assert all(kind_clusters.ready_since(node) for node in mine)
        assert "kwok" not in guest.processes()
        guest.release()
        after = portal.run(kind_clusters.nodes(client, ""))
        assert [node["metadata"]["name"] for node in after] == [node["metadata"]["name"] for node in before]
        namespaces = portal.run(client.resource("Namespace", "v1"))
        assert not portal.run(client.exists(namespaces, "grovescale-kwok-guest"))
        assert portal.run(client.ready())
    host.release()
    assert nothing_is_left(host.directory)
