"""What a process holds: threads, open files, sockets."""

from __future__ import annotations

import os
import socket
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


def test_a_process_that_is_gone_holds_nothing_known() -> None:
    assert procfs.held(2**22 + 1) is None
