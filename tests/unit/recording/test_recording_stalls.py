"""Stalls: a heartbeat that is late, a process that is stopped, a server that is silent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_grovescale.procfs import Identity, identity
from pytest_grovescale.recording import journal
from pytest_grovescale.recording.machine import machine
from pytest_grovescale.recording.protocol import StallSeen, Update
from pytest_grovescale.recording.record_writer import Ledger, RecorderClock
from pytest_grovescale.recording.records import SCHEMA_VERSION, Opened, Stalled
from pytest_grovescale.recording.stalls import Clocks, Heartbeat, Server, StoppedProcesses
from tests.waiting import wait_until

MS, S = 10**6, 10**9


class Kept:
    """A ledger on a clock that a test sets, ns."""

    def __init__(self, folder: Path) -> None:
        self.now = 0
        self.clocks = Clocks(boot=0, ran=0)
        self.reported: list[Update] = []
        self._path = folder / "recording.jsonl"
        clock = RecorderClock(wall=lambda: 0, monotonic=lambda: self.now)
        self.ledger = Ledger(journal.Writer(self._path), clock, self.reported.append)
        self.ledger.add(Opened(at=0, schema_version=SCHEMA_VERSION, run="r", test="t", version="0", machine=machine()))

    def stalls(self) -> list[tuple[str, str, float, float]]:
        """Return each as process, kind, begin and length in s; the harness is told of all."""
        self.ledger.flush()
        found = [record for record in journal.read(self._path) if isinstance(record, Stalled)]
        assert [(u.process, u.kind) for u in self.reported if isinstance(u, StallSeen)] == [
            (one.process, one.kind) for one in found
        ]
        return [(one.process, one.kind, one.began / S, one.length_ns / S) for one in found]


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    return Kept(tmp_path)


@pytest.fixture
def heartbeat(kept: Kept) -> Heartbeat:
    return Heartbeat(kept.ledger, 100 * MS, clocks=lambda: kept.clocks)


@pytest.mark.parametrize("late_ms", [0, 100, 1000])
def test_a_beat_in_time_is_no_stall(kept: Kept, heartbeat: Heartbeat, late_ms: int) -> None:
    for _ in range(3):
        kept.now += (100 + late_ms) * MS
        assert not heartbeat.is_late(kept.now)
        heartbeat.beat()
    assert kept.stalls() == []


def test_a_beat_that_is_more_than_a_second_late_is_a_stall(kept: Kept, heartbeat: Heartbeat) -> None:
    kept.now += 5 * S
    heartbeat.beat()
    kept.now += 10 * S
    assert heartbeat.is_late(kept.now)
    heartbeat.beat()
    kept.now += 100 * MS
    heartbeat.beat()
    assert kept.stalls() == [("recorder", "late", 0, 5), ("recorder", "late", 5, 10)]


def test_a_recorder_that_ran_meanwhile_or_waited_for_a_core_was_busy(kept: Kept, heartbeat: Heartbeat) -> None:
    kept.now += 4 * S
    kept.clocks = Clocks(boot=0, ran=3 * S)
    heartbeat.beat()
    assert kept.stalls() == [("recorder", "busy", 0, 4)]


def test_a_suspended_machine_shows_in_the_clock_that_counts_it(kept: Kept, heartbeat: Heartbeat) -> None:
    kept.now += 100 * MS
    kept.clocks = Clocks(boot=3600 * S, ran=0)
    heartbeat.beat()
    kept.now += 100 * MS
    heartbeat.beat()
    assert kept.stalls() == [("machine", "suspended", 0, 3600)]


def test_the_clocks_of_this_process_are_read(kept: Kept) -> None:
    heartbeat = Heartbeat(kept.ledger, 100 * MS)
    heartbeat.beat()
    assert kept.stalls() == []


# ---- stopped processes


@pytest.fixture
def sleeper() -> Iterator[Identity]:
    process = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    found = identity(process.pid)
    assert found is not None
    yield found
    process.kill()
    process.communicate()


def _signal(process: Identity, number: signal.Signals, state: bytes) -> None:
    os.kill(process.pid, number)
    stat = Path(f"/proc/{process.pid}/stat")
    wait_until(lambda: (stat.read_bytes().rpartition(b") ")[2][:1] == b"T") == (state == b"T"), f"state {state!r}")


def test_a_stopped_process_is_journaled_at_its_second_look_and_when_it_goes_on(kept: Kept, sleeper: Identity) -> None:
    stopped = StoppedProcesses(kept.ledger, lambda: {"etcd": sleeper})
    stopped.look()
    _signal(sleeper, signal.SIGSTOP, b"T")
    for _ in range(3):
        kept.now += 100 * MS
        stopped.look()
    kept.now = 2 * S
    stopped.report()
    _signal(sleeper, signal.SIGCONT, b"")
    kept.now = 3 * S
    stopped.look()
    stopped.look()
    assert kept.stalls() == [
        ("etcd", "stopped", 0.1, 0.1),
        ("etcd", "stopped", 0.1, 1.9),
        ("etcd", "stopped", 0.1, 2.9),
    ]


def test_a_stop_that_one_look_alone_saw_is_none(kept: Kept, sleeper: Identity) -> None:
    stopped = StoppedProcesses(kept.ledger, lambda: {"etcd": sleeper})
    _signal(sleeper, signal.SIGSTOP, b"T")
    stopped.look()
    stopped.report()
    _signal(sleeper, signal.SIGCONT, b"")
    stopped.look()
    assert kept.stalls() == []


def test_a_process_that_is_gone_while_it_was_stopped_is_journaled_up_to_then(kept: Kept, sleeper: Identity) -> None:
    running = {"etcd": sleeper}
    stopped = StoppedProcesses(kept.ledger, lambda: running)
    _signal(sleeper, signal.SIGSTOP, b"T")
    stopped.look()
    kept.now = S
    stopped.look()
    running.clear()
    kept.now = 2 * S
    stopped.look()
    assert kept.stalls()[-1] == ("etcd", "stopped", 0, 2)


# ---- servers that are probed


@pytest.fixture
def server(kept: Kept) -> Server:
    """One that has answered before, in 5 ms."""
    server = Server(kept.ledger, "kube-apiserver")
    server.asked()
    server.answered(5 * MS)
    return server


def test_an_answer_that_takes_over_a_second_longer_than_usual_ends_a_stall(kept: Kept, server: Server) -> None:
    server.asked()
    kept.now += S
    server.answered(S)
    assert kept.stalls() == []
    server.asked()
    kept.now += 3 * S
    server.answered(3 * S)
    assert kept.stalls() == [("kube-apiserver", "silent", 1, 3)]


def test_a_probe_that_failed_waits_on(kept: Kept, server: Server) -> None:
    for _ in range(4):
        server.asked()
        kept.now += S
    server.report()
    server.answered(5 * MS)
    assert kept.stalls() == [("kube-apiserver", "silent", 0, 4)] * 2


def test_a_busy_server_that_shows_other_signs_of_life_has_not_stalled(kept: Kept, server: Server) -> None:
    server.asked()
    for _ in range(10):
        kept.now += 900 * MS
        server.works()
    server.answered(9 * S)
    assert kept.stalls() == []


@pytest.mark.parametrize(("ran_s", "stalled"), [(0.1, True), (1.9, False)])
def test_a_server_that_runs_or_waits_for_a_core_is_slow_and_has_not_stalled(
    kept: Kept, server: Server, ran_s: float, stalled: bool
) -> None:
    server.ran(0, 50 * S)
    server.asked()
    kept.now += 3 * S
    server.ran(kept.now, 50 * S + round(ran_s * S))
    server.answered(3 * S)
    assert bool(kept.stalls()) is stalled


def test_a_server_that_never_answered_is_not_known_to_be_there(kept: Kept) -> None:
    server = Server(kept.ledger, "etcd")
    server.asked()
    kept.now += 60 * S
    server.report()
    server.works()
    assert kept.stalls() == []


def test_a_slow_server_is_compared_with_itself(kept: Kept) -> None:
    server = Server(kept.ledger, "kube-apiserver")
    server.asked()
    server.answered(4 * S)
    server.asked()
    kept.now += 4500 * MS
    server.answered(4500 * MS)
    assert kept.stalls() == []


@pytest.mark.parametrize("first", ["etcd", "api"])
def test_the_silence_of_a_server_that_hands_questions_on_is_its_own(kept: Kept, server: Server, first: str) -> None:
    etcd = Server(kept.ledger, "etcd", through=server)
    server.on_stall = etcd.forgive
    etcd.asked()
    etcd.answered(5 * MS)
    for one in (server, etcd):
        one.asked()
    kept.now += 3 * S
    for one in (etcd, server) if first == "etcd" else (server, etcd):
        one.answered(3 * S)
    assert kept.stalls() == [("kube-apiserver", "silent", 0, 3)]


def test_after_a_stall_of_the_recorder_servers_begin_again(kept: Kept, heartbeat: Heartbeat, server: Server) -> None:
    heartbeat.on_stall = server.forgive
    server.asked()
    kept.now += 10 * S
    heartbeat.beat()
    server.answered(10 * S)
    assert kept.stalls() == [("recorder", "late", 0, 10)]
