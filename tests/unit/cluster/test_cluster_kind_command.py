"""``kind create`` under a supervisor: its steps are told, it ends with its cluster, and a failure leaves its logs."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.cluster import launch, lease, state, teardown_plan
from pytest_grovescale.cluster.definition import load_definition
from pytest_grovescale.cluster.kind import kind_command, provision
from pytest_grovescale.cluster.kind.container_engine import Engine
from pytest_grovescale.cluster.launch import Plan
from pytest_grovescale.cluster.ports import PortTaken
from pytest_grovescale.errors import ClusterError, UsageError
from tests.golden import masked

OUTPUT = """\
Creating cluster "mine" ...
 • Ensuring node image (node:v1) 🖼  ...
 ✓ Ensuring node image (node:v1) 🖼
 • Preparing nodes 📦 📦   ...
 ✓ Preparing nodes 📦 📦
 • Writing configuration 📜  ...
 ✗ Writing configuration 📜
"""

KIND = """\
#!/bin/sh
case "$1 $2" in
  "create cluster") echo "$@" > "{seen}"; cat <<'END'
{output}
END
    {then} ;;
  "export logs") mkdir -p "$3/node"; echo log > "$3/node/kubelet.log" ;;
  "delete cluster") echo "$@" >> "{seen}" ;;
esac
"""

DOCKER = Engine(name="docker", executable="docker", version="1", cgroup_version="2", rootless=False)


class Clusters:
    """A folder with a supervisor, and a program that does as kind does."""

    def __init__(self, folder: Path, seen: Path) -> None:
        self.folder = folder
        self.seen = seen
        self.kind = seen.with_name("kind")
        self.reported: list[str] = []

    def create(self, output: str = OUTPUT, then: str = "exit 0", later: Callable[[], None] = lambda: None) -> None:
        self.kind.write_text(KIND.format(seen=self.seen, output=output, then=then))
        self.kind.chmod(0o755)
        kind_command.plan_deletion(self.folder, kind=str(self.kind), engine=DOCKER, name="mine")
        with kind_command.logs_kept(self.folder, kind=str(self.kind), engine=DOCKER, name="mine"):
            kind_command.create(
                self.folder,
                kind=str(self.kind),
                engine=DOCKER,
                name="mine",
                configuration="kind: Cluster\n",
                progress=self.reported.append,
            )
            later()


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Clusters]:
    monkeypatch.setenv("GROVESCALE_STATE_DIR", str(tmp_path / "own state"))
    folder = state.directory("mine")
    (folder / "logs").mkdir(parents=True)
    held = lease.take(folder)
    with launch.supervisor(folder, []):
        pass
    owner = state.owner(folder)
    assert owner is not None
    yield Clusters(folder, tmp_path / "seen")
    held.release()
    launch.end(folder, owner)
    assert not folder.exists()


def test_steps_are_reported_in_plain_words(cluster: Clusters, snapshot: SnapshotAssertion) -> None:
    cluster.create()
    assert "\n".join(cluster.reported) == snapshot
    assert (cluster.folder / "kind.yaml").read_text() == "kind: Cluster\n"


def test_users_own_kubeconfig_is_never_named(cluster: Clusters) -> None:
    cluster.create()
    words = cluster.seen.read_text()
    assert f"--kubeconfig {cluster.folder}/pki/kind.kubeconfig" in words
    planned = teardown_plan.planned(cluster.folder)[0]
    assert planned.argv[1:5] == ["delete", "cluster", "--name", "mine"]
    assert planned.argv[-2:] == ["--kubeconfig", f"{cluster.folder}/pki/kind.kubeconfig"]


def test_failure_shows_the_end_of_the_log_and_keeps_all_of_it(cluster: Clusters, snapshot: SnapshotAssertion) -> None:
    with pytest.raises(ClusterError) as caught:
        cluster.create(OUTPUT + "ERROR: failed to init node\n", "exit 1")
    assert "ERROR: failed to init node" in caught.value.message
    kept = logs_of(caught.value)
    assert masked(str(caught.value), {kept: "folder"}) == snapshot
    assert "failed to init node" in (kept / "kind-create.log").read_text()
    assert (kept / "node" / "kubelet.log").read_text() == "log\n"


def logs_of(error: ClusterError) -> Path:
    """Return the folder that an error says the logs are in."""
    kept = Path(error.next_step.rpartition(", in ")[2].rstrip("."))
    assert kept.is_relative_to(state.root() / "logs")
    return kept


def test_creation_that_does_not_end_keeps_its_logs(
    cluster: Clusters, monkeypatch: pytest.MonkeyPatch, snapshot: SnapshotAssertion
) -> None:
    monkeypatch.setattr(kind_command, "_CREATE_S", 0.5)
    with pytest.raises(ClusterError) as caught:
        cluster.create(then="exec sleep 600")
    assert caught.value.message.splitlines()[0] == snapshot(name="message")
    assert masked(caught.value.next_step, {logs_of(caught.value): "folder"}) == snapshot(name="next step")
    assert (logs_of(caught.value) / "node" / "kubelet.log").exists()


def test_a_cluster_that_never_is_ready_keeps_its_logs(cluster: Clusters, snapshot: SnapshotAssertion) -> None:
    def never() -> None:
        raise ClusterError("node mine-control-plane is missing", next_step="A busy machine may need a second try.")

    with pytest.raises(ClusterError) as caught:
        cluster.create(later=never)
    assert masked(str(caught.value), {logs_of(caught.value): "folder"}) == snapshot
    assert "a second try" in caught.value.next_step
    assert (logs_of(caught.value) / "kind-create.log").exists()


def test_what_fails_before_kind_begins_has_no_logs(cluster: Clusters) -> None:
    refused = UsageError("no engine", next_step="Start it.")
    with (
        pytest.raises(UsageError) as caught,
        kind_command.logs_kept(cluster.folder, kind="kind", engine=DOCKER, name="mine"),
    ):
        raise refused
    assert caught.value is refused
    assert not (state.root() / "logs").exists()


def test_error_is_not_lost_in_its_call_stack() -> None:
    error = 'ERROR: failed to init node\nerror: version "nonsense" is none\n'
    stack = "k8s.io/kubernetes/cmd.(*Runner).Run.func3\n\tk8s.io/kubernetes@v1.36.3/cmd/init.go:180\nruntime.main\n"
    assert kind_command.without_stack_traces(f"{error}{stack}\truntime/proc.go:290\n") == error
    assert kind_command.without_stack_traces(OUTPUT) == OUTPUT


def test_port_that_was_taken_is_worth_another_try(cluster: Clusters) -> None:
    said = "docker: Bind for 127.0.0.1:18001 failed: port is already allocated.\n"
    with pytest.raises(PortTaken):
        cluster.create(said, "exit 1")


# ---- names


def plan(name: str, folder: Path) -> Plan:
    return Plan(name=name, folder=folder, definition=load_definition("kind"), binaries={})


@pytest.mark.parametrize("name", ["under_score", "a" * 50])
def test_name_that_kind_does_not_take_is_refused_before_anything_is_made(
    tmp_path: Path, name: str, snapshot: SnapshotAssertion
) -> None:
    with pytest.raises(UsageError) as caught:
        provision.make(plan(name, tmp_path), DOCKER, "kind", {}, lambda text: None)
    assert str(caught.value) == snapshot


def test_folder_that_cannot_be_mounted_is_refused(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    with pytest.raises(UsageError) as caught:
        provision.make(plan("mine", tmp_path / "a:b"), DOCKER, "kind", {}, lambda text: None)
    assert masked(str(caught.value), {tmp_path: "folder"}) == snapshot


def test_cluster_of_another_user_is_neither_used_nor_deleted(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    engine = tmp_path / "docker"
    engine.write_text(
        textwrap.dedent("""\
        #!/bin/sh
        case "$*" in *label=io.x-k8s.kind.cluster=mine*) echo mine-control-plane ;; esac
        """)
    )
    engine.chmod(0o755)
    theirs = Engine(name="docker", executable=str(engine), version="1", cgroup_version="2", rootless=False)
    with pytest.raises(ClusterError) as caught:
        provision.make(plan("mine", tmp_path), theirs, "kind", {}, lambda text: None)
    assert str(caught.value) == snapshot
    assert "kind: {cluster: mine}" in caught.value.next_step
    assert teardown_plan.planned(tmp_path) == []
    assert os.listdir(tmp_path) == ["docker"]
