"""Which cluster a command means, and that none is stopped under a live run by accident."""

from __future__ import annotations

import os
import pwd
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.cluster import commands, inventory, lease, state
from pytest_grovescale.cluster.inventory import ClusterStatus, StatusFile, User
from pytest_grovescale.errors import UsageError
from tests.golden import masked

from .supervised import Supervised

STARTER = """
    import os, sys, time
    from pathlib import Path
    from pytest_grovescale.cluster import lease
    held = lease.take(Path(sys.argv[1]), run_id="run-2")
    held.note_test("tests/test_a.py::test_first")
    held.note_test("tests/test_a.py::test_second")
    print(os.getpid(), flush=True)
    sys.stdin.read()
"""

SESSION = User(pid=7, user="ann", run="run-9", test="tests/test_a.py::test_it", command="pytest --grovescale")


def facts(name: str, *, standing: bool) -> state.Facts:
    return state.Facts(
        name=name,
        backend="local",
        definition_digest="d",
        server="https://127.0.0.1:1",
        kubernetes="1.35.0",
        nodes=3,
        identities={},
        audit_log="",
        facts={},
        standing=standing,
    )


def cluster(name: str, *, made_by: str = "up", users: tuple[User, ...] = ()) -> ClusterStatus:
    plain = {"name": name, "state": "running", "made_by": made_by, "kept": made_by == "up"}
    return msgspec.structs.replace(msgspec.convert(plain, ClusterStatus), users=users)


def test_without_a_name_only_a_cluster_of_up_is_meant(snapshot: SnapshotAssertion) -> None:
    ours, of_a_run = cluster("mine"), cluster("run-9", made_by="run", users=(SESSION,))
    assert inventory.select([of_a_run, ours]) is ours
    assert inventory.select([of_a_run, ours], "run-9") is of_a_run
    with pytest.raises(UsageError) as caught:
        inventory.select([of_a_run])
    assert str(caught.value) == snapshot(name="a run's")
    assert "run-9" in caught.value.message
    with pytest.raises(UsageError) as caught:
        inventory.select([ours, cluster("other")])
    assert str(caught.value) == snapshot(name="several")
    assert "mine, other" in caught.value.message
    with pytest.raises(UsageError) as caught:
        inventory.select([])
    assert str(caught.value) == snapshot(name="none")


def test_an_unknown_name_is_answered_with_a_near_one(snapshot: SnapshotAssertion) -> None:
    with pytest.raises(UsageError) as caught:
        inventory.select([cluster("default"), cluster("run-9", made_by="run")], "defualt")
    assert str(caught.value) == snapshot
    assert "default, run-9" in caught.value.next_step


def test_a_cluster_in_use_is_refused_with_its_owner(snapshot: SnapshotAssertion) -> None:
    inventory.refuse_in_use(cluster("mine"))
    with pytest.raises(UsageError) as caught:
        inventory.refuse_in_use(cluster("mine", users=(SESSION,)))
    assert str(caught.value) == snapshot
    assert "pid 7" in caught.value.message
    assert "grovescale down mine --force" in caught.value.next_step
    stale = msgspec.structs.replace(cluster("mine", users=(SESSION,)), state="stale")
    inventory.refuse_in_use(stale)


def test_down_refuses_a_live_users_cluster_until_it_is_forced(
    supervised: Supervised, state_dir: Path, python: Callable[..., subprocess.Popen[str]], snapshot: SnapshotAssertion
) -> None:
    state.write(supervised.folder / "cluster.json", facts("one", standing=True))
    supervised.lease.note_test("tests/test_a.py::test_own")
    other = python(STARTER, supervised.folder)
    assert other.stdout is not None
    pid = int(other.stdout.readline())
    user = pwd.getpwuid(os.getuid()).pw_name
    written: list[str] = []
    assert commands.status(json=True, write=written.append) == 0
    [listed] = msgspec.json.decode(written[0], type=StatusFile).clusters
    assert (listed.name, listed.state, listed.made_by, listed.nodes) == ("one", "running", "up", 3)
    assert {(one.pid, one.user, one.run, one.test) for one in listed.users} == {
        (os.getpid(), user, "run-1", "tests/test_a.py::test_own"),
        (pid, user, "run-2", "tests/test_a.py::test_second"),
    }
    masks: dict[object, str] = {f"pid {pid}": "other's pid", f"pid {os.getpid()}": "own pid", f"of user {user}": "user"}
    asked: list[tuple[str, dict[str, Any]]] = [
        ("no name", {}),
        ("name", {"name": "one"}),
        ("all", {"everything": True}),
    ]
    for what, arguments in asked:
        with pytest.raises(UsageError) as caught:
            commands.down(**arguments, say=written.append)
        reported = masked(str(caught.value), masks)
        assert "<other's pid>" in reported
        assert "tests/test_a.py::test_second" in reported
        assert reported == snapshot(name=what)
    assert state.owner(supervised.folder) == supervised.owner
    said: list[str] = []
    assert commands.down("one", force=True, say=said.append) == 0
    assert said[0] == "stopped cluster one"
    assert supervised.gone()
    assert state.names() == []


def test_down_of_all_stops_the_others_and_names_those_in_use(
    supervised: Supervised, state_dir: Path, python: Callable[..., subprocess.Popen[str]], snapshot: SnapshotAssertion
) -> None:
    state.write(supervised.folder / "cluster.json", facts("one", standing=False))
    free = Supervised(state_dir / "clusters" / "free")
    supervised.lease.note_test("tests/test_a.py::test_own")
    (free.folder / "kept").touch()
    free.lease.release()
    said: list[str] = []
    with pytest.raises(UsageError) as caught:
        commands.down(everything=True, say=said.append)
    assert (
        masked(str(caught.value), {f"pid {os.getpid()}": "pid", f"of user {pwd.getpwuid(os.getuid()).pw_name}": "user"})
        == snapshot
    )
    assert f"pid {os.getpid()}" in caught.value.message
    assert "down --all --force" in caught.value.next_step
    assert said == ["stopped cluster free"]
    assert state.names() == ["one"]


def test_a_cluster_that_is_only_starting_is_its_starters(
    state_dir: Path, python: Callable[..., subprocess.Popen[str]], snapshot: SnapshotAssertion
) -> None:
    folder = state.directory("half")
    folder.mkdir(parents=True)
    starter = python(STARTER, folder)
    assert starter.stdout is not None
    starter.stdout.readline()
    assert inventory.status_of("half").state == "starting"
    with pytest.raises(UsageError) as caught:
        commands.down("half", say=lambda text: None)
    assert masked(
        str(caught.value), {f"pid {starter.pid}": "pid", f"of user {pwd.getpwuid(os.getuid()).pw_name}": "user"}
    ) == snapshot(name="in use")
    with pytest.raises(UsageError) as caught:
        commands.kubeconfig("half", write=lambda text: None)
    assert str(caught.value) == snapshot(name="not running")
    assert "starting" in caught.value.message
    starter.kill()
    starter.wait()
    assert inventory.status_of("half").state == "stale"
    commands.down("half", say=lambda text: None)
    assert state.names() == []


def test_a_half_written_line_of_a_lease_is_not_read(state_dir: Path) -> None:
    folder = state.directory("one")
    held = lease.take(folder, run_id="run-1")
    held.note_test("tests/test_a.py::test_it")
    with held.path.open("ab") as file:
        file.write(b'{"pid": 1, "test": "tests/test')
    found = lease.holder(folder, held.id)
    assert found is not None
    assert (found.pid, found.test) == (os.getpid(), "tests/test_a.py::test_it")
    held.release()
    held.note_test("tests/test_a.py::test_other")
