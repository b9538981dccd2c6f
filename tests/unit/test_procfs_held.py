"""What a process holds: threads, open files, sockets; and files of processes that are kept open."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading

from pytest_grovescale import procfs


def test_files_and_sockets_and_threads_are_counted_apart() -> None:
    before = procfs.held(os.getpid(), apart=())
    leave = threading.Event()
    thread = threading.Thread(target=leave.wait)
    with socket.socket(), open(os.devnull), open(os.devnull):
        thread.start()
        after = procfs.held(os.getpid(), apart=())
        leave.set()
        thread.join()
    assert before is not None
    assert after is not None
    assert (after.threads - before.threads, after.files - before.files, after.sockets - before.sockets) == (1, 2, 1)


def test_a_child_that_has_ended_and_is_not_waited_for_is_a_zombie_and_no_thread() -> None:
    before = procfs.held(os.getpid())
    # A `Popen` would wait for what others have left.
    child = os.posix_spawn(sys.executable, [sys.executable, "-c", ""], {})
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    after, state = procfs.held(os.getpid()), procfs.stat(child)
    os.waitpid(child, 0)
    assert before is not None
    assert after is not None
    assert state is not None
    assert state.ended
    # A thread that another test has left may end just then.
    assert (after.zombies - before.zombies, after.threads <= before.threads) == (1, True)


def test_connections_that_were_accepted_are_counted() -> None:
    before = procfs.held(os.getpid())
    with socket.create_server(("127.0.0.1", 0)) as server:
        for _ in range(3):
            with socket.create_connection(server.getsockname()), server.accept()[0]:
                pass
    after = procfs.held(os.getpid())
    assert before is not None
    assert after is not None
    assert before.accepted is not None
    assert after.accepted is not None
    assert after.accepted >= before.accepted + 3


def test_a_process_that_is_gone_holds_nothing_known() -> None:
    assert procfs.held(2**22 + 1) is None


def test_a_file_that_is_kept_open_shows_what_it_shows_now_and_nothing_of_a_process_that_is_gone() -> None:
    kept = procfs.KeptFiles()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        state = procfs.stat(process.pid, read=kept.read)
        assert state == procfs.stat(process.pid)
        process.kill()
        process.wait()
        assert procfs.stat(process.pid, read=kept.read) is None
    assert kept.read("/proc/self/stat").split()[0] == str(os.getpid()).encode()
    stat = kept.read("/proc/stat")
    assert len(stat) > 100
    assert stat.startswith(b"cpu ")


def test_files_that_are_read_no_more_are_closed() -> None:
    def files() -> int:
        held = procfs.held(os.getpid())
        assert held is not None
        return held.files

    kept = procfs.KeptFiles()
    before = files()
    for path in ("/proc/self/stat", "/proc/self/status"):
        kept.read(path)
    kept.close_others()
    assert files() == before + 2
    kept.read("/proc/self/stat")
    kept.close_others()
    assert files() == before + 1
    del kept
    assert files() == before
