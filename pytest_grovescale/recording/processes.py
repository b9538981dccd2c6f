"""Processes measured by their exact CPU clocks, and followed from pid to pid."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Collection
from pathlib import Path

import msgspec

from ..cluster.processes import descendants

_PROC = Path("/proc")
_TICK_NS = 10**9 // os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Identity(msgspec.Struct, frozen=True):
    """A process for certain: pids are used again, pid and start time together are not."""

    pid: int
    started_ticks: int
    """Field 22 of /proc/PID/stat."""


class Usage(msgspec.Struct, frozen=True):
    """CPU time since the start and memory of a process and its living descendants; reaped ones count in CPU."""

    cpu_ns: int
    rss_bytes: int
    peak_rss_bytes: int
    """Sum of each process' own peak."""


class _Stat(msgspec.Struct, frozen=True):
    reaped_ticks: int
    started_ticks: int


def identity(pid: int) -> Identity | None:
    """Return the identity of the process that has this pid now; None when there is none."""
    stat = _stat(pid)
    return Identity(pid, stat.started_ticks) if stat else None


def started_ticks(pid: int) -> int:
    """Return when a process started, clock ticks since boot; raises ProcessLookupError when there is none."""
    found = identity(pid)
    if found is None:
        raise ProcessLookupError(pid)
    return found.started_ticks


def usage(process: Identity, *, apart: Collection[int] = ()) -> Usage | None:
    """Return what a process has used; None when it is gone (its pid may be somebody else's by now).

    ``apart``: pids of descendants that are no part of it, nor are theirs: they are measured in their own right. A
    process that has exited but was not reaped yet still answers with its CPU time, and no memory.
    """
    total = _own_usage(process.pid, process.started_ticks)
    if total is None:
        return None
    cpu, rss, peak = total
    for child in descendants(process.pid, apart=apart):
        if part := _own_usage(child, None):
            cpu, rss, peak = cpu + part[0], rss + part[1], peak + part[2]
    return Usage(cpu, rss, peak)


def ready_ns(process: Identity) -> int | None:
    """Return for how long its main thread has been ready to run without a core, ns; None where that is not known.

    That is ``run_delay`` of /proc/PID/schedstat (Documentation/scheduler/sched-stats). A kernel that does not count
    it shows three zeros.
    """
    if identity(process.pid) != process:
        return None
    try:
        _, delay, timeslices = (_PROC / str(process.pid) / "schedstat").read_bytes().split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return int(delay) if int(timeslices) else None


def open_pidfd(process: Identity) -> int | None:
    """Return a descriptor that becomes readable when the process exits; None when it is gone already."""
    try:
        fd = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return None
    # The descriptor is for good; what was checked before it was opened need not be.
    if identity(process.pid) != process:
        os.close(fd)
        return None
    return fd


def has_ended(pidfd: int) -> bool:
    """Return whether the process of a descriptor of `open_pidfd` has ended."""
    ready = select.poll()
    ready.register(pidfd, select.POLLIN)
    return bool(ready.poll(0))


def _own_usage(pid: int, started_ticks: int | None) -> tuple[int, int, int] | None:
    stat = _stat(pid)
    if stat is None or started_ticks not in (None, stat.started_ticks):
        return None
    try:
        # Any process' CPU clock: ns, threads that have ended included (clock_getcpuclockid(3) makes the same id).
        cpu = time.clock_gettime_ns(((~pid) << 3) | 2)
    except OSError:
        return None
    rss, peak = _memory(pid)
    return cpu + stat.reaped_ticks * _TICK_NS, rss, peak


def _stat(pid: int) -> _Stat | None:
    try:
        text = (_PROC / str(pid) / "stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name in parentheses may hold anything, spaces and parentheses included.
    fields = text[text.rindex(b")") + 2 :].split()
    return _Stat(int(fields[13]) + int(fields[14]), int(fields[19]))


def _memory(pid: int) -> tuple[int, int]:
    """Return RSS and its peak, bytes; zeros for a process that has exited (it holds none)."""
    rss = peak = 0
    try:
        lines = (_PROC / str(pid) / "status").read_bytes().split(b"\n")
    except (FileNotFoundError, ProcessLookupError):
        return 0, 0
    for line in lines:
        if line.startswith(b"VmRSS:"):
            rss = int(line.split()[1]) * 1024
        elif line.startswith(b"VmHWM:"):
            peak = int(line.split()[1]) * 1024
    return rss, peak


class _Listed(msgspec.Struct):
    """The parts of cluster.handle.ProcessInfo that are read here."""

    pid: int
    started_ticks: int
    running: bool = True


_decode_list = msgspec.json.Decoder(dict[str, _Listed]).decode


class ProcessesFile:
    """The supervisor's list of processes, read again whenever it was replaced."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._version: tuple[int, int] | None = None

    def changed(self) -> dict[str, Identity] | None:
        """Return the running processes by name when the file is new since the last call, else None.

        Raises ValueError when it is not what it should be; a file that is not there is not new.
        """
        try:
            stat = self._path.stat()
            version = (stat.st_ino, stat.st_mtime_ns)
            if version == self._version:
                return None
            content = self._path.read_bytes()
        except FileNotFoundError:
            return None
        self._version = version
        listed = _decode_list(content)
        return {name: Identity(p.pid, p.started_ticks) for name, p in listed.items() if p.running}
