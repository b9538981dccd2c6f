"""What clusters leave on disk, and that clearing it never hits anybody else."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale import procfs
from pytest_grovescale.cluster import commands, handle, lease, locks, ports, processes, state
from pytest_grovescale.cluster.binaries import UnsupportedPlatform, architecture, require_linux
from pytest_grovescale.cluster.processes import ProcessInfo
from pytest_grovescale.errors import ClusterError, UsageError
from tests.golden import masked


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["sleep", "1000"])
    yield process
    process.kill()
    process.wait()


def folder_of(name: str) -> Path:
    folder = state.directory(name)
    folder.mkdir(parents=True)
    return folder


def info(pid: int, ticks: int) -> ProcessInfo:
    return ProcessInfo(name="one", pid=pid, started_ticks=ticks, log="", running=True)


@pytest.mark.parametrize("name", ["", "A", "../x", "a/b", "-a", "a" * 64, "a b"])
def test_names_that_cannot_be_are_refused(state_dir: Path, name: str) -> None:
    with pytest.raises(UsageError, match="cannot name a cluster"):
        state.directory(name)
    assert not handle.is_running(name)


@pytest.mark.parametrize("name", ["a", "run-20260102-030405-ab12", "a.b_c", "9"])
def test_names_that_can_be(state_dir: Path, name: str) -> None:
    assert state.directory(name) == state_dir / "clusters" / name


def test_process_of_a_dead_supervisor_is_killed(state_dir: Path, sleeper: subprocess.Popen[bytes]) -> None:
    folder = folder_of("one")
    state.write(folder / "processes.json", {"one": info(sleeper.pid, procfs.started_ticks(sleeper.pid))})
    assert state.clear_stale(folder) == [f"killed process {sleeper.pid}", f"removed {folder}"]
    assert sleeper.wait() == -9
    assert state.names() == []


def test_process_that_only_has_the_pid_is_left_alone(state_dir: Path, sleeper: subprocess.Popen[bytes]) -> None:
    folder = folder_of("one")
    state.write(folder / "processes.json", {"one": info(sleeper.pid, procfs.started_ticks(sleeper.pid) - 1)})
    assert state.clear_stale(folder) == [f"removed {folder}"]
    assert sleeper.poll() is None


DAMAGES = [b"", b"\xff\xfe{", b"[1]", b'{"pid": "x"}', b"null"]


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("file", ["supervisor.json", "cluster.json", "processes.json"])
def test_a_damaged_file_of_a_dead_cluster_stops_no_command(state_dir: Path, file: str, damage: bytes) -> None:
    (folder_of("one") / file).write_bytes(damage)
    shown: list[str] = []
    assert commands.status(write=shown.append) == 0
    assert any(line.startswith("one") for line in shown)
    assert commands.down(everything=True, say=shown.append) == 0
    assert state.names() == []


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_plan_of_what_to_remove_is_named_and_keeps_its_cluster(state_dir: Path, damage: bytes) -> None:
    folder = folder_of("one")
    (folder / "at_end.json").write_bytes(damage)
    with pytest.raises(ClusterError, match=r"at_end\.json is damaged") as caught:
        commands.down("one", say=lambda text: None)
    assert str(folder) in caught.value.next_step
    reported: list[str] = []
    handle.clear_stale(progress=reported.append)
    assert "is damaged" in reported[0]
    assert state.names() == ["one"]


@pytest.mark.parametrize("damage", [None, *DAMAGES])
def test_a_live_cluster_whose_files_are_damaged_or_lost_is_not_cleared(state_dir: Path, damage: bytes | None) -> None:
    folder = folder_of("one")
    (folder / "cluster.json").write_bytes(damage or b"")
    if damage is not None:
        (folder / "supervisor.json").write_bytes(damage)
    command = [sys.executable, "-c", "import sys; print(flush=True); sys.stdin.read()", state.SUPERVISOR, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as supervisor:
        assert supervisor.stdout is not None
        supervisor.stdout.readline()
        owner = state.owner(folder)
        assert owner is not None
        assert owner.pid == supervisor.pid
        handle.clear_stale(progress=lambda text: None)
        assert state.names() == ["one"]
        with pytest.raises(ClusterError, match=r"cluster\.json is damaged"):
            state.refuse_damaged(folder)
        supervisor.kill()
    assert state.owner(folder) is None


def test_orphan_that_is_on_no_list_is_found_by_its_mark(state_dir: Path) -> None:
    folder = folder_of("one")
    mine = subprocess.Popen(["sleep", "1000"], env={processes.MARK: str(folder)})
    other = subprocess.Popen(["sleep", "1000"], env={processes.MARK: f"{folder}-2"})
    try:
        assert f"killed process {mine.pid}" in state.clear_stale(folder)
        assert mine.wait() == -9
        assert other.poll() is None
    finally:
        for process in (mine, other):
            process.kill()
            process.wait()


def test_supervisor_counts_only_with_its_start_time_and_boot(state_dir: Path) -> None:
    folder = folder_of("one")
    pid, ticks, boot = os.getpid(), procfs.started_ticks(os.getpid()), processes.boot_id()
    path = folder / "supervisor.json"
    state.write(path, state.Owner(pid=pid, started_ticks=ticks, boot_id=boot))
    assert state.owner(folder) is not None
    state.write(path, state.Owner(pid=pid, started_ticks=ticks - 1, boot_id=boot))
    assert state.owner(folder) is None
    state.write(path, state.Owner(pid=pid, started_ticks=ticks, boot_id="another"))
    assert state.owner(folder) is None


def test_clearing_passes_over_what_is_just_being_started(state_dir: Path, snapshot: SnapshotAssertion) -> None:
    starting, stale = folder_of("starting"), folder_of("stale")
    said: list[str] = []
    with locks.held(state.start_lock(starting)):
        handle.clear_stale(progress=said.append)
    assert starting.exists()
    assert not stale.exists()
    assert str(stale) in said[0]
    assert masked("\n".join(said), {stale: "folder"}) == snapshot


def test_locks_that_killed_starts_and_runs_left_are_removed(state_dir: Path) -> None:
    starting, running, killed = (state.start_lock(state.directory(name)) for name in ("starting", "running", "killed"))
    folder_of("running")
    of_a_run = state.root() / "runs" / "20261122-1.lock"
    for path in (running, killed, of_a_run, of_a_run.with_suffix(".groups")):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    with locks.held(starting):
        state.remove_unused_locks()
        assert [path.exists() for path in (starting, running, killed)] == [True, True, False]
    assert not list(of_a_run.parent.iterdir())


@pytest.fixture
def tmpfs(state_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "tmpfs"
    folder.mkdir()
    monkeypatch.setattr(state, "_TMPFS", folder)
    monkeypatch.setattr(state, "_TMPFS_FREE_BYTES", 0)
    return folder


def test_data_on_tmpfs_goes_with_its_cluster(tmpfs: Path) -> None:
    folder = folder_of("first")
    lock = state.make_data_folder(folder)
    assert lock is not None
    (folder / "data" / "etcd").mkdir()
    data = state.data_folder(folder)
    assert data is not None
    assert data.parent == tmpfs
    state.remove(folder)
    assert not data.exists()
    os.close(lock)


def test_data_is_orphaned_when_no_one_holds_it_wherever_its_cluster_is(tmpfs: Path) -> None:
    folder = folder_of("second")
    lock = state.make_data_folder(folder)
    assert lock is not None
    (folder / "data" / "etcd").mkdir()
    left = state.data_folder(folder)
    # As in another mount namespace: the cluster's own folder is not to be seen, but its supervisor lives.
    (folder / "data").unlink()
    folder.rmdir()
    assert state.orphaned_data() == []
    os.close(lock)
    assert state.orphaned_data() == [left]


def test_what_another_put_among_the_data_is_left_alone_and_stops_nothing(tmpfs: Path, tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    (tmpfs / "grovescale-data-link").symlink_to(tmp_path / "precious")
    os.mkfifo(tmpfs / "grovescale-data-fifo")
    (tmpfs / "grovescale-data-file").write_bytes(b"\xff")
    (tmpfs / "somebody-elses").mkdir()
    (tmpfs / "grovescale-data-orphan" / "deep").mkdir(parents=True)
    before = set(tmpfs.iterdir())
    assert state.orphaned_data() == [tmpfs / "grovescale-data-orphan"]
    assert set(tmpfs.iterdir()) == before - {tmpfs / "grovescale-data-orphan"}
    assert (tmp_path / "precious").is_dir()


def test_data_stays_on_disk_where_memory_is_short(
    state_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state, "_TMPFS_FREE_BYTES", 1 << 62)
    folder = folder_of("one")
    state.make_data_folder(folder)
    assert state.data_folder(folder) is None
    assert (folder / "data").is_dir()


def test_lease_reports_release_from_death(state_dir: Path, python: Callable[..., subprocess.Popen[str]]) -> None:
    folder = folder_of("one")
    held = lease.take(folder, run_id="run-1")
    assert lease.names(folder) == [held.id]
    assert lease.is_held(folder, held.id)
    found = lease.holder(folder, held.id)
    assert found is not None
    assert (found.pid, found.run_id) == (os.getpid(), "run-1")
    held.release()
    held.release()
    assert lease.names(folder) == []
    code = """
        import sys
        from pathlib import Path
        from pytest_grovescale.cluster import lease
        held = lease.take(Path(sys.argv[1]))
        print(held.id, flush=True)
        sys.stdin.read()
    """
    holder = python(code, folder)
    assert holder.stdout is not None
    name = holder.stdout.readline().strip()
    assert lease.is_held(folder, name)
    holder.kill()
    holder.wait()
    assert lease.names(folder) == [name]
    assert not lease.is_held(folder, name)


def test_leased_ports_are_no_other_users(state_dir: Path) -> None:
    first, second = ports.lease(20), ports.lease(20)
    numbers = [port.number for port in (*first, *second)]
    assert len(set(numbers)) == 40
    assert all(number in ports.RANGE for number in numbers)
    ports.release([*first, *second])
    ports.release(first)


def test_only_linux_runs_a_control_plane(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(UnsupportedPlatform, match="runs on Linux only"):
        require_linux()
    with pytest.raises(UnsupportedPlatform):
        handle.join("any", progress=lambda text: None)
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    with pytest.raises(UnsupportedPlatform, match="riscv64"):
        architecture()
