"""A local control plane under attack: components, holders and supervisors killed; what is left is found and cleared."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.cluster import commands, handle, processes, state
from pytest_grovescale.cluster.definition import ClusterDefinition
from pytest_grovescale.cluster.handle import Cluster, ProcessInfo
from pytest_grovescale.errors import ClusterError, UsageError
from pytest_grovescale.kube.client import Client
from pytest_grovescale.kube.portal import Portal
from tests.golden import masked

pytestmark = pytest.mark.cluster

Eventually = Callable[[Callable[[], object], str], None]

# Joins a cluster, starts a process on it, says so, and waits to be killed.
HOLDER = """
    import sys
    from pytest_grovescale.cluster import handle
    name, run_id, log = sys.argv[1:]
    cluster = handle.join(name, run_id=run_id, progress=lambda text: None)
    cluster.start_process(handle.ProcessSpec(name=run_id, argv=["sleep", "1000"], log=log))
    print("ready", flush=True)
    sys.stdin.read()
"""


@pytest.fixture(scope="module")
def module_state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """One state folder for this module: its clusters are started and killed one after the other."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("faults") / "own state"
        patch.setenv("GROVESCALE_STATE_DIR", str(folder))
        yield folder


@pytest.fixture
def own(module_state: Path, definition: ClusterDefinition) -> Iterator[Cluster]:
    """A cluster that may be broken; one that survived the test before is used again."""
    cluster = handle.acquire(definition.with_nodes(1), name="faulty", progress=lambda text: None)
    cluster.keep()
    yield cluster
    cluster.release()


@pytest.fixture(scope="module", autouse=True)
def _cleared(module_state: Path) -> Iterator[None]:
    yield
    commands.down(everything=True, say=lambda text: None)
    assert state.names() == []


def join_elsewhere(run_id: str, folder: Path) -> subprocess.Popen[str]:
    holder = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(HOLDER), "faulty", run_id, str(folder / "log")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "ready\n"
    return holder


def kill(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


def alive(infos: list[ProcessInfo]) -> list[str]:
    return [info.name for info in infos if processes.alive(info.pid, info.started_ticks)]


def namespace(name: str, run_id: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name, "labels": {"grovescale.io/run": run_id}},
    }


@pytest.mark.parametrize("victim", ["kube-apiserver", "etcd"])
def test_killed_component_comes_back_with_all_data(
    own: Cluster, portal: Portal, eventually: Eventually, victim: str
) -> None:
    client = portal.client(own.access)
    kept = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"before-{victim}", "namespace": "default"}}
    portal.run(client.create(kept))
    before = own.processes()[victim]
    os.kill(before.pid, signal.SIGKILL)
    eventually(lambda: own.processes()[victim].restarts == before.restarts + 1, "its restart in processes.json")
    assert own.processes()[victim].pid != before.pid
    eventually(lambda: own.processes()[victim].running and portal.run(client.ready()), "a ready API")
    maps = portal.run(client.resource("ConfigMap"))
    eventually(lambda: portal.run(client.exists(maps, f"before-{victim}", "default")), "the object made before")


def test_killed_holder_is_swept_up_after_on_a_cluster_that_stays(
    own: Cluster, portal: Portal, tmp_path: Path, eventually: Eventually
) -> None:
    client = portal.client(own.access)
    namespaces, maps = portal.run(client.resource("Namespace")), portal.run(client.resource("ConfigMap"))
    for name, run_id in (("swept", "run-killed"), ("stays", "run-other")):
        portal.run(client.create(namespace(name, run_id)))
        metadata = {"name": "held", "namespace": name, "finalizers": ["test.grovescale.io/operator-is-gone"]}
        portal.run(client.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}))
    holder = join_elsewhere("run-killed", tmp_path)
    started = own.processes()["run-killed"]
    kill(holder)
    eventually(lambda: not portal.run(client.exists(namespaces, "swept")), "the end of the killed run's namespace")
    assert portal.run(client.exists(maps, "held", "stays"))
    assert alive([started]) == []
    eventually(lambda: "sweep-run-killed" not in own.processes(), "the sweep's end")
    assert "removed swept" in (own.directory / "logs" / "sweep.log").read_text()
    portal.run(_remove(client, "stays"))


async def _remove(client: Client, name: str) -> None:
    await client.patch(await client.resource("ConfigMap"), "held", name, body={"metadata": {"finalizers": None}})
    await client.delete(await client.resource("Namespace"), name)


def test_released_lease_is_not_swept_up_after(own: Cluster, portal: Portal) -> None:
    client = portal.client(own.access)
    portal.run(client.create(namespace("left", "run-clean")))
    second = handle.join("faulty", run_id="run-clean", progress=lambda text: None)
    second.release()
    namespaces = portal.run(client.resource("Namespace"))
    assert "sweep-run-clean" not in own.processes()
    assert portal.run(client.exists(namespaces, "left"))
    portal.run(client.delete(namespaces, "left"))


def test_killed_holder_of_a_run_that_goes_on_is_not_swept_up_after(
    own: Cluster, portal: Portal, tmp_path: Path, eventually: Eventually
) -> None:
    client = portal.client(own.access)
    namespaces = portal.run(client.resource("Namespace"))
    portal.run(client.create(namespace("in-use", "run-shared")))
    second = handle.join("faulty", run_id="run-shared", progress=lambda text: None)
    kill(join_elsewhere("run-shared", tmp_path))
    eventually(lambda: not own.processes()["run-shared"].running, "the end of what the killed one started")
    assert "sweep-run-shared" not in own.processes()
    assert portal.run(client.get(namespaces, "in-use"))["status"]["phase"] == "Active"
    # Its last user's end is the run's end.
    second.release()
    eventually(lambda: not portal.run(client.exists(namespaces, "in-use")), "the end of the run's namespace")


def test_killed_supervisor_leaves_nothing_running_and_the_next_start_clears_the_rest(
    own: Cluster, definition: ClusterDefinition, portal: Portal, eventually: Eventually
) -> None:
    infos = list(own.processes().values())
    owner, data = state.owner(own.directory), state.data_folder(own.directory)
    assert owner is not None
    os.kill(owner.pid, signal.SIGKILL)
    eventually(lambda: alive(infos) == [], "the end of every process of the cluster")
    assert not handle.is_running("faulty")
    lines: list[str] = []
    commands.status(write=lines.append)
    assert any(line.startswith("faulty: stale") for line in lines)
    again = handle.acquire(definition.with_nodes(1), name="faulty", progress=lambda text: None)
    assert portal.run(portal.client(again.access).ready())
    assert again.access != own.access
    assert data is None or not data.exists()
    again.keep()
    again.release()


def test_a_run_that_does_not_see_the_clusters_folder_leaves_its_data_alone(own: Cluster, portal: Portal) -> None:
    data = state.data_folder(own.directory)
    if data is None:
        pytest.skip("the data is on disk: /dev/shm has too little room")
    code = "from pytest_grovescale.cluster import state; print(state.names(), state.orphaned_data())"
    hidden = 'mount -t tmpfs none "$1" && exec "$2" -c "$3"'
    elsewhere = subprocess.run(
        ["unshare", "--mount", "sh", "-c", hidden, "sh", str(own.directory.parent), sys.executable, code],
        capture_output=True,
        text=True,
    )
    if "not permitted" in elsewhere.stderr:
        pytest.skip(f"no mount namespace can be made here: {elsewhere.stderr}")
    assert elsewhere.stdout == "[] []\n", elsewhere.stderr
    assert data.is_dir()
    assert portal.run(portal.client(own.access).ready())


def test_down_clears_what_a_killed_supervisor_left(own: Cluster, eventually: Eventually) -> None:
    infos = list(own.processes().values())
    owner, data = state.owner(own.directory), state.data_folder(own.directory)
    assert owner is not None
    os.kill(owner.pid, signal.SIGKILL)
    eventually(lambda: alive(infos) == [], "the end of every process of the cluster")
    said: list[str] = []
    assert commands.down("faulty", say=said.append) == 0
    assert not own.directory.exists()
    assert data is None or not data.exists()
    assert said == [f"removed {own.directory}"]


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (signal.SIGKILL, "cluster lost ended while it was starting: its supervisor was killed (pid {pid})"),
        (signal.SIGSTOP, "the supervisor of cluster lost (pid {pid}) is stopped and does not answer"),
    ],
)
def test_supervisor_lost_while_the_cluster_starts_is_named_at_once(
    module_state: Path, definition: ClusterDefinition, number: signal.Signals, said: str
) -> None:
    lost: list[state.Owner] = []

    def progress(text: str) -> None:
        owner = state.owner(state.directory("lost"))
        if "etcd and kube-apiserver started" in text and owner is not None:
            lost.append(owner)
            os.kill(owner.pid, number)

    began = time.monotonic()
    with pytest.raises(ClusterError) as raised:
        handle.acquire(definition.with_nodes(1), name="lost", progress=progress)
    [owner] = lost
    assert raised.value.message.partition("\n")[0] == said.format(pid=owner.pid)
    assert time.monotonic() - began < 40, "not the 120 s that a slow API server may take"
    assert not state.directory("lost").exists()
    assert not processes.alive(owner.pid, owner.started_ticks)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_starter_ended_half_way_leaves_nothing(
    module_state: Path, definition: ClusterDefinition, eventually: Eventually, number: signal.Signals
) -> None:
    code = """
        import sys
        from pytest_grovescale.cluster import handle
        from pytest_grovescale.cluster.definition import load_definition
        definition = load_definition("default").with_version(sys.argv[1])
        handle.acquire(definition, name="half", progress=lambda text: print(text, flush=True))
    """
    starter = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), definition.kubernetes],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert starter.stdout is not None
    assert "etcd and kube-apiserver started" in starter.stdout.readline()
    infos = list(state.process_list(state.directory("half")).values())
    assert infos
    starter.send_signal(number)
    starter.communicate()
    eventually(lambda: alive(infos) == [] and not state.directory("half").exists(), "the end of the half cluster")


def test_commands_from_up_to_down(
    module_state: Path,
    definition: ClusterDefinition,
    portal: Portal,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    snapshot: SnapshotAssertion,
) -> None:
    monkeypatch.chdir(tmp_path)
    said: list[str] = []
    written: list[str] = []
    try:
        up = commands.up(name="mine", nodes=2, kubernetes=definition.kubernetes, say=said.append, write=written.append)
        assert up == 0
        commands.kubeconfig("mine", write=written.append)
        assert written[0] == written[1] == str(state.directory("mine") / "kubeconfig")
        written.clear()
        assert commands.status(write=written.append) == 0
        mine = next(text for text in written if text.startswith("mine: local, Kubernetes"))
        assert "2 nodes" in mine
        (made,) = (line for line in mine.splitlines() if "`grovescale up`" in line)
        assert masked(made, numbers=True) == snapshot
        assert "kube-apiserver" in mine
        joined = handle.join("mine", progress=said.append)
        assert portal.run(portal.client(joined.access).ready())
        with pytest.raises(UsageError, match=f"in use by pid {os.getpid()} "):
            commands.down(say=said.append)
        joined.release()
        assert handle.is_running("mine")
        with pytest.raises(UsageError, match="there is no cluster other"):
            commands.down("other", say=said.append)
    finally:
        # Without a name: the only one that `up` made, whatever others are there.
        commands.down(say=said.append)
    assert not state.directory("mine").exists()
    with pytest.raises(UsageError, match="there is no cluster mine"):
        commands.kubeconfig("mine", write=written.append)
