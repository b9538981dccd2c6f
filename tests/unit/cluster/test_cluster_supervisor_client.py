"""A supervisor that has ended, or is stopped: those who need it notice, wait no longer than they must, and say why."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale import procfs
from pytest_grovescale.cluster import launch, processes, state, supervisor_client
from pytest_grovescale.cluster.supervisor_client import (
    StatusWanted,
    StopProcess,
    SupervisorStopped,
    ended_error,
    how_it_ended,
    while_running,
)
from pytest_grovescale.errors import ClusterError
from tests.golden import masked

from .supervised import Supervised

STUBBORN = """
    import signal
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print("ready", flush=True)
    signal.pause()
"""
Eventually = Callable[[Callable[[], object], str], None]


@pytest.fixture
def stopped(supervised: Supervised, monkeypatch: pytest.MonkeyPatch) -> Iterator[Supervised]:
    """A supervisor that is stopped, and a short patience with it."""
    monkeypatch.setattr(processes, "STOPPED_S", 0.3)
    os.kill(supervised.owner.pid, signal.SIGSTOP)
    yield supervised
    with contextlib.suppress(ProcessLookupError):
        os.kill(supervised.owner.pid, signal.SIGCONT)


def test_a_stopped_supervisor_is_named_with_what_to_do(stopped: Supervised, snapshot: SnapshotAssertion) -> None:
    pid, name = stopped.owner.pid, stopped.folder.name
    with pytest.raises(SupervisorStopped) as raised:
        supervisor_client.ask(stopped.folder, StatusWanted(), timeout_s=3600)
    assert masked(str(raised.value), {pid: "pid"}) == snapshot
    assert f"(pid {pid})" in raised.value.message
    assert f"kill -CONT {pid}" in raised.value.next_step
    assert f"grovescale down {name} --force" in raised.value.next_step


def test_one_that_goes_on_in_time_answers_as_if_nothing_had_been(
    stopped: Supervised, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "STOPPED_S", 60)
    looks: list[float] = []

    def go_on(self: processes.StoppedFor) -> bool:
        looks.append(time.monotonic())
        if len(looks) == 2:
            os.kill(stopped.owner.pid, signal.SIGCONT)
        return False

    monkeypatch.setattr(processes.StoppedFor, "too_long", go_on)
    assert supervisor_client.ask(stopped.folder, StatusWanted()).status is not None
    assert len(looks) >= 2


def test_a_long_question_ends_when_the_supervisor_is_stopped_meanwhile(
    supervised: Supervised, eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "STOPPED_S", 0.3)
    _start_stubborn(supervised, eventually)
    looks: list[int] = []
    before = procfs.is_stopped

    def stop_it(pid: int) -> bool:
        if not looks:
            os.kill(supervised.owner.pid, signal.SIGSTOP)
        looks.append(pid)
        return before(pid)

    monkeypatch.setattr(procfs, "is_stopped", stop_it)
    with pytest.raises(SupervisorStopped):
        supervisor_client.ask(supervised.folder, StopProcess(name="stubborn"), timeout_s=3600)
    assert set(looks) == {supervised.owner.pid}, "the process that answers, as the socket knows it"
    os.kill(supervised.owner.pid, signal.SIGKILL)


def test_the_end_of_a_cluster_whose_supervisor_is_stopped_kills_it(stopped: Supervised) -> None:
    launch.end(stopped.folder, stopped.owner)
    assert state.owner(stopped.folder) is None
    assert state.clear_stale(stopped.folder)[-1] == f"removed {stopped.folder}"


def test_a_stopped_process_is_not_waited_for(stopped: Supervised) -> None:
    assert not processes.wait_gone(stopped.owner.pid, stopped.owner.started_ticks, 3600)


def test_work_ends_with_the_supervisor_and_shows_the_end_of_its_log(
    supervised: Supervised, snapshot: SnapshotAssertion
) -> None:
    with (supervised.folder / "supervisor.log").open("a") as log:
        log.write("12:00:00 something was wrong\n")

    async def work() -> None:
        os.kill(supervised.owner.pid, signal.SIGKILL)
        await asyncio.sleep(3600)

    with pytest.raises(ClusterError) as raised:
        asyncio.run(while_running(supervised.folder, work()))
    name, pid = supervised.folder.name, supervised.owner.pid
    lines = "".join(f"  {line}\n" for line in (supervised.folder / "supervisor.log").read_text().splitlines()).rstrip()
    assert lines.endswith("  12:00:00 something was wrong")
    assert raised.value.message.endswith(f"\n{lines}")
    assert f"cluster {name}" in raised.value.message
    assert masked(str(raised.value), {lines: "log", f"pid {pid}": "pid"}) == snapshot


def test_work_ends_when_the_supervisor_is_stopped(stopped: Supervised) -> None:
    with pytest.raises(SupervisorStopped):
        asyncio.run(while_running(stopped.folder, asyncio.sleep(3600)))


def test_work_under_a_supervisor_that_runs_is_done(supervised: Supervised) -> None:
    assert asyncio.run(while_running(supervised.folder, asyncio.sleep(0, 7))) == 7


def test_one_that_was_asked_to_end_is_distinguished_from_a_killed_one(
    supervised: Supervised, snapshot: SnapshotAssertion
) -> None:
    supervisor_client.ask(supervised.folder, supervisor_client.Down())
    assert supervised.gone()
    assert str(ended_error(supervised.folder, "it ended")).partition("\n")[0] == snapshot


def test_one_that_a_signal_ends_in_order_names_the_signal(
    supervised: Supervised, eventually: Eventually, snapshot: SnapshotAssertion
) -> None:
    _start_stubborn(supervised, eventually)
    os.kill(supervised.owner.pid, signal.SIGTERM)
    eventually(lambda: not (supervised.folder / supervisor_client.SOCKET).exists(), "the begin of its end")
    pid = supervised.owner.pid
    how = how_it_ended(supervised.folder, pid=pid)
    assert how.endswith("SIGTERM")
    assert masked(how, {f"pid {pid}": "pid"}) == snapshot
    os.kill(pid, signal.SIGKILL)


def test_a_component_that_cannot_be_kept_running_ends_the_cluster_and_is_named(
    supervised: Supervised, eventually: Eventually
) -> None:
    _start_stubborn(supervised, eventually)
    supervised.start(supervised.spec("etcd", "raise SystemExit('wal: no space left on device')", restart=True))
    eventually(lambda: not (supervised.folder / supervisor_client.SOCKET).exists(), "the begin of its end")
    error = ended_error(supervised.folder, "it ended", pid=supervised.owner.pid)
    assert error.message.startswith("it ended: etcd exited 8 times in a row")
    assert "wal: no space left" in error.message
    assert error.next_step.startswith("Free some space")
    os.kill(supervised.owner.pid, signal.SIGKILL)


def test_a_state_folder_that_was_removed_is_named(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    assert masked(how_it_ended(tmp_path / "clusters" / "one"), {tmp_path: "state"}) == snapshot


def test_a_failure_of_its_own_is_distinguished_from_a_kill(supervised: Supervised) -> None:
    with (supervised.folder / "supervisor.log").open("a") as log:
        log.write("Traceback (most recent call last):\n  File x\nOSError: no space\n")
    os.kill(supervised.owner.pid, signal.SIGKILL)
    assert supervised.gone()
    message = ended_error(supervised.folder, "it ended").message
    assert message.startswith(f"it ended: its supervisor (pid {supervised.owner.pid}) failed\n")
    assert message.endswith("  OSError: no space")


def _start_stubborn(supervised: Supervised, eventually: Eventually) -> None:
    """Start a process that does not end on SIGTERM, and whose grace is long."""
    info = supervised.start(supervised.spec("stubborn", STUBBORN, stop_grace_s=3600))
    eventually(lambda: Path(info.log).read_text() == "ready\n", "its readiness")
