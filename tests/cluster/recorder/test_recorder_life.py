"""How a recorder ends: told to, killed, orphaned, out of disk; the journal can be read in each case."""

from __future__ import annotations

import os
import resource
import select
import signal
import subprocess
import sys
import threading
from pathlib import Path

import msgspec
import pytest
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.errors import RecordingError
from pytest_grovescale.kube.access import Access
from pytest_grovescale.recording import journal
from pytest_grovescale.recording.journal import Reader
from pytest_grovescale.recording.protocol import MilestoneReached, PhaseComplete, RecorderConfig, SourceBroke
from pytest_grovescale.recording.recorder import Recorder
from pytest_grovescale.recording.records import Closed, CpuRead, Mark, MilestoneMet, PhaseEnded, Stalled
from tests.golden import masked
from tests.waiting import wait_until

from .control_plane import ControlPlane, Proxy
from .harness import Maps, check, complete, config, of, recorder, until

pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("recorder")]

SLACK = 16
"""Bytes that the journal may still take: less than a flush."""


def wait_for_end(pid: int) -> None:
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    poller = select.poll()
    poller.register(pidfd, select.POLLIN)
    ended = poller.poll(30_000)
    os.close(pidfd)
    assert ended, f"process {pid} is still there"


CONTROLLER = """
import sys, time
from pathlib import Path
import msgspec
from pytest_grovescale.recording.conditions import Count, WatchSpec
from pytest_grovescale.recording.protocol import RecorderConfig
from pytest_grovescale.recording.recorder import Recorder
folder, path = Path(sys.argv[1]), sys.argv[2]
config = msgspec.json.decode(sys.stdin.readline(), type=RecorderConfig)
recorder = Recorder.start(config, log=folder / "recorder.log")
watch = WatchSpec(resource="configmaps", path=path)
recorder.begin_phase("deploy", [("never", Count(watch=watch, n=99))], timeout=60)
print(recorder.pid, flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("leave_a_child", [False, True])
def test_orphaned_recorder_closes_the_journal_and_becomes_its_successor(
    control_plane: ControlPlane, maps: Maps, tmp_path: Path, leave_a_child: bool
) -> None:
    successor = "import pathlib,sys; pathlib.Path(sys.argv[1]).write_bytes(pathlib.Path(sys.argv[2]).read_bytes())"
    copy = tmp_path / "copy.jsonl"
    after = (sys.executable, "-c", successor, str(copy), str(tmp_path / "recording.jsonl"))
    given = msgspec.structs.replace(config(tmp_path, control_plane.access), after_close=after)
    code = CONTROLLER
    if leave_a_child:
        # A forked child holds a copy of the control socket: it must not keep the recorder.
        code = code.replace("print(", "import os\nif os.fork() == 0:\n    time.sleep(600)\nprint(")
    controller = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path), maps.path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    with controller:
        assert controller.stdin is not None
        assert controller.stdout is not None
        controller.stdin.write(msgspec.json.encode(given) + b"\n")
        controller.stdin.flush()
        pid = int(controller.stdout.readline())
        controller.kill()
        controller.wait()
        wait_for_end(pid)
        if leave_a_child:
            os.killpg(controller.pid, signal.SIGKILL)
    found = check(tmp_path / "recording.jsonl")
    closed, (ended,) = found[-1], of(found, PhaseEnded)
    assert isinstance(closed, Closed)
    assert closed.reason == "controller-gone"
    assert (ended.phase, ended.outcome) == ("deploy", "interrupted")
    assert {read.process for read in of(found, CpuRead) if read.edge == "end:deploy"} >= {"recorder"}
    # It ran after the journal was closed: it saw the last line.
    assert list(journal.read(copy)) == found


def test_nothing_runs_after_a_normal_stop(control_plane: ControlPlane, tmp_path: Path) -> None:
    left = tmp_path / "left"
    with recorder(tmp_path, control_plane.access, after_close=("touch", str(left))) as running:
        running.mark("hello", detail="password=hunter2")
    running.stop()
    wait_for_end(running.pid)
    assert not left.exists()
    found = check(running.journal)
    assert [mark.detail for mark in of(found, Mark)] == ["password=[redacted]"]
    assert isinstance(found[-1], Closed)
    assert found[-1].reason == "stopped"


def test_sigterm_closes_the_journal_and_sigint_is_not_for_it(
    control_plane: ControlPlane, maps: Maps, tmp_path: Path
) -> None:
    with recorder(tmp_path, control_plane.access) as running:
        running.begin_phase("p", [("never", maps.count(99))], timeout=60)
        os.kill(running.pid, signal.SIGINT)
        running.mark("still there")
        os.kill(running.pid, signal.SIGTERM)
        wait_for_end(running.pid)
        with pytest.raises(RecordingError, match="exited with code 0"):
            running.mark("too late")
        assert not running.alive()
    found = check(running.journal)
    assert [mark.label for mark in of(found, Mark)] == ["still there"]
    assert [ended.outcome for ended in of(found, PhaseEnded)] == ["interrupted"]
    assert isinstance(found[-1], Closed)
    assert (found[-1].reason, "SIGTERM" in found[-1].message) == ("interrupted", True)


def test_killed_recorder_is_reported_and_its_journal_can_be_read(
    control_plane: ControlPlane, maps: Maps, tmp_path: Path
) -> None:
    with recorder(tmp_path, control_plane.access) as running:
        running.begin_phase("p", [("one", maps.count(1))], timeout=60)
        running.flush()
        os.kill(running.pid, signal.SIGKILL)
        with pytest.raises(RecordingError, match="was killed by SIGKILL") as reported:
            until(running, PhaseComplete)
        assert str(running.journal) in str(reported.value)
        with pytest.raises(RecordingError):
            running.end_phase("p", "failed")
    assert not isinstance(check(running.journal)[-1], Closed)


def test_stopped_recorder_is_named_with_what_to_do_and_goes_on(
    control_plane: ControlPlane, maps: Maps, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pytest_grovescale.recording.recorder.STOPPED_S", 1.5)
    with recorder(tmp_path, control_plane.access) as running:
        running.begin_phase("p", [("one", maps.count(1))], timeout=60)
        os.kill(running.pid, signal.SIGSTOP)
        with pytest.raises(RecordingError, match=rf"the recorder \(pid {running.pid}\) is stopped") as reported:
            running.flush()
        assert f"kill -CONT {running.pid}" in str(reported.value)
        os.kill(running.pid, signal.SIGCONT)
        maps.create("a")
        complete(running, "p")
        running.end_phase("p", "passed")
    [stall] = of(check(running.journal), Stalled)
    assert (stall.process, stall.kind) == ("recorder", "late")
    assert stall.length_ns > 1.4e9


def interrupt() -> None:
    """Send Ctrl-C to the main thread, which waits in a system call; to another one it would be no end of that."""
    main = threading.main_thread().ident
    assert main is not None
    signal.pthread_kill(main, signal.SIGINT)


def test_stop_while_a_phase_is_being_begun_waits_for_nothing(
    control_plane: ControlPlane, maps: Maps, tmp_path: Path
) -> None:
    proxy = Proxy(control_plane.port)
    access = Access(server=f"https://127.0.0.1:{proxy.port}", token="recorder-token", insecure=True)
    running = Recorder.start(config(tmp_path, access), log=tmp_path / "recorder.log")
    proxy.cut(refuse=True)
    # Ctrl-C strikes while the watches wait for an API server that does not come.
    alarm = threading.Timer(0.5, interrupt)
    alarm.start()
    with pytest.raises(KeyboardInterrupt):
        running.begin_phase("p", [("one", maps.count(1))], timeout=600)
    alarm.join()
    running.stop("interrupted")
    wait_for_end(running.pid)
    found = check(running.journal)
    assert isinstance(found[-1], Closed)
    assert (found[-1].reason, found[-1].message) == ("interrupted", "")


def test_ctrl_c_loses_no_update(control_plane: ControlPlane, maps: Maps, tmp_path: Path) -> None:
    with recorder(tmp_path, control_plane.access) as running:
        running.begin_phase("p", [("one", maps.count(1)), ("two", maps.count(2))], timeout=60)
        alarm = threading.Timer(0.2, interrupt)
        alarm.start()
        with pytest.raises(KeyboardInterrupt):
            until(running, PhaseComplete)
        alarm.join()
        maps.create("a")
        maps.create("b")
        assert [until(running, MilestoneReached).name for _ in range(2)] == ["one", "two"]
        complete(running, "p")
        running.end_phase("p", "interrupted")


def test_journal_that_is_there_already_is_not_written_over(control_plane: ControlPlane, tmp_path: Path) -> None:
    (tmp_path / "recording.jsonl").write_text("precious")
    with pytest.raises(RecordingError, match=r"recording\.jsonl cannot be written"):
        Recorder.start(config(tmp_path, control_plane.access), log=tmp_path / "recorder.log")
    assert (tmp_path / "recording.jsonl").read_text() == "precious"


def test_full_disk_ends_the_journal_and_not_the_test(control_plane: ControlPlane, maps: Maps, tmp_path: Path) -> None:
    with recorder(tmp_path, control_plane.access) as running:
        running.begin_phase("p", [("ten", maps.count(10))], timeout=60)
        running.flush()
        size = running.journal.stat().st_size
        resource.prlimit(running.pid, resource.RLIMIT_FSIZE, (size + SLACK, size + SLACK))
        for number in range(9):
            maps.create(f"c{number}")
        reported = until(running, SourceBroke)
        assert (reported.source, reported.fatal) == ("journal", True)
        assert "File too large" in reported.message
        for _ in range(2):
            with pytest.raises(RecordingError, match="File too large"):
                running.check_journal()
        # It is evaluated to the end all the same: the phase can be ended in order.
        maps.create("last")
        complete(running, "p")
        running.end_phase("p", "passed")
    assert running.journal.stat().st_size <= size + SLACK
    assert b"".join(Reader(running.journal).lines()).endswith(b"\n")
    found = check(running.journal)
    assert isinstance(found[-1], Closed)
    assert found[-1].reason == "journal-full"
    assert of(found, MilestoneMet) == []


def test_a_recording_that_is_no_longer_at_its_place_has_ended(
    control_plane: ControlPlane, tmp_path: Path, snapshot: SnapshotAssertion
) -> None:
    """The file takes every write, and nobody would ever read it."""
    with recorder(tmp_path, control_plane.access) as running:
        running.check_written()
        elsewhere = running.journal.rename(tmp_path / "elsewhere.jsonl")
        running.mark("into nowhere")
        with pytest.raises(RecordingError) as caught:
            running.check_written()
        assert masked(str(caught.value), {tmp_path: "folder"}) == snapshot
        elsewhere.rename(running.journal)
    last = check(running.journal)[-1]
    assert isinstance(last, Closed)
    assert last.reason == "journal-full"


def test_no_credential_is_in_arguments_environment_journal_or_log(
    control_plane: ControlPlane, maps: Maps, tmp_path: Path
) -> None:
    with recorder(tmp_path, control_plane.access, audit_log=str(control_plane.audit_log)) as running:
        proc = Path("/proc") / str(running.pid)
        for part in ("cmdline", "environ"):
            assert b"recorder-token" not in (proc / part).read_bytes()
        running.begin_phase("p", [("none", maps.count(0))], timeout=60)
        running.lines("log:operator", ["GET /x Authorization: Bearer recorder-token", "plain"])
        running.end_phase("p", "passed")
    for file in tmp_path.iterdir():
        if file.is_file():
            assert b"recorder-token" not in b"".join(Reader(file).lines()), file


def test_its_file_descriptors_are_its_own(control_plane: ControlPlane, tmp_path: Path) -> None:
    with recorder(tmp_path, control_plane.access) as running:
        child = subprocess.Popen(["sleep", "600"])
        try:
            running.stop()
            # The other end of the socket is in no child of ours.
            wait_until(lambda: not running.alive(), "the recorder ended")
        finally:
            child.kill()
            child.wait()


def test_config_survives_the_line(control_plane: ControlPlane, tmp_path: Path) -> None:
    given = config(tmp_path, control_plane.access)
    assert msgspec.json.decode(msgspec.json.encode(given), type=RecorderConfig) == given
