"""Processes that a test's run has started, found by a mark that all of them carry, and waited for without sleeping."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from pytest_grovescale.procfs import descendants
from tests import forked

_PF_KTHREAD = 0x00200000
"""Flag of a thread of the kernel's own (include/linux/sched.h)."""


def carrying(mark: str) -> dict[int, str]:
    """Return pid → command line of every process, other than this one, with ``mark`` in it or its environment."""
    found = {}
    for pid in _pids():
        try:
            command, environment = _texts(Path("/proc") / str(pid))
        except OSError:
            continue
        if pid != os.getpid() and any(mark.encode() in text for text in (command, environment)):
            found[pid] = command.replace(b"\0", b" ").decode(errors="replace")
    return found


def _texts(folder: Path) -> tuple[bytes, bytes]:
    """Return a process' command line and environment; both are empty for a kernel's thread, and one that has ended."""
    while True:
        command, environment = (folder / "cmdline").read_bytes(), (folder / "environ").read_bytes()
        state, *rest = (folder / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        if command or environment or state in "ZX" or int(rest[5]) & _PF_KTHREAD:
            return command, environment
        # In the middle of execve it has neither.
        os.sched_yield()


def written(pipe: Path, process: subprocess.Popen[str] | forked.Process) -> str:
    """Return what a process' test writes into a pipe; fails with the process' output if it ends before."""
    descriptor = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        text = b""
        while not text:
            with contextlib.suppress(BlockingIOError):
                text = os.read(descriptor, 4096)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(0 if text else 0.05)
                pytest.fail(f"it ended before it wrote: {process.communicate()[0]}")
    finally:
        os.close(descriptor)
    return text.decode()


def new_descendants(monkeypatch: pytest.MonkeyPatch, module: ModuleType) -> None:
    """Let ``module`` see no child that is there already: this process plays an operator, and may have a whole control
    plane of other tests among its children.
    """
    known = set(descendants(os.getpid()))
    monkeypatch.setattr(module, "descendants", lambda pid: descendants(pid, apart=known))


def wait_none(mark: str, timeout: float = 120) -> None:
    """Return when no process carries ``mark``; raise AssertionError with those that are left after ``timeout`` s."""
    deadline = time.monotonic() + timeout
    while left := carrying(mark):
        poller = select.poll()
        descriptors = []
        for pid in left:
            try:
                descriptors.append(os.pidfd_open(pid))
            except ProcessLookupError:
                continue
            poller.register(descriptors[-1], select.POLLIN)
        ended = poller.poll(max(0.0, deadline - time.monotonic()) * 1000) if descriptors else True
        for descriptor in descriptors:
            os.close(descriptor)
        if not ended:
            raise AssertionError(f"still running after {timeout:g} s: {carrying(mark)}")


def _pids() -> Iterator[int]:
    return (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())
