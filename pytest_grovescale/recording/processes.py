"""Processes measured by their exact CPU clocks, and identified beyond pid reuse."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Collection, Iterable
from pathlib import Path

import msgspec

from ..cluster.processes import family, read_bytes

_PROC = Path("/proc")
_TICK_NS = 10**9 // os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Identity(msgspec.Struct, frozen=True):
    """Identifies a process: pids are reused, pid and start time together are not."""

    pid: int
    started_ticks: int
    """Field 22 of /proc/PID/stat."""


class Usage(msgspec.Struct, frozen=True):
    """CPU time since the start and memory of a process and its living descendants; reaped ones count in CPU."""

    cpu_ns: int
    rss_bytes: int
    peak_rss_bytes: int
    """Sum of each process' own peak."""
    waiting_ns: int | None = None
    """How long their threads have waited for a core, ns; None when not requested or not counted by the kernel."""


class _Stat(msgspec.Struct, frozen=True):
    reaped_ticks: int
    started_ticks: int


def identity(pid: int) -> Identity | None:
    """Return the identity of the process with this pid; None when there is none."""
    stat = _stat(pid)
    return Identity(pid, stat.started_ticks) if stat else None


def started_ticks(pid: int) -> int:
    """Return the start time of a process, clock ticks since boot. Raises ProcessLookupError when there is none."""
    found = identity(pid)
    if found is None:
        raise ProcessLookupError(pid)
    return found.started_ticks


def usage(process: Identity, *, apart: Collection[int] = (), core_wait: CoreWait | None = None) -> Usage | None:
    """Return a process' CPU time and memory; None when it is gone (another process may have its pid).

    ``apart``: pids of descendants to exclude, with their own descendants: they are measured separately.
    ``core_wait``: the state that this process keeps between reads. A process that has exited but was not reaped yet
    still answers with its CPU time, and no memory.
    """
    total = _own_usage(process.pid, process.started_ticks)
    if total is None:
        return None
    cpu, rss, peak = total
    members = list(family(process.pid, apart=apart))
    for pid, _ in members:
        if pid != process.pid and (part := _own_usage(pid, None)):
            cpu, rss, peak = cpu + part[0], rss + part[1], peak + part[2]
    return Usage(cpu, rss, peak, core_wait.read(members) if core_wait is not None else None)


class CoreWait:
    """Total time that the threads of a process and its descendants were runnable without a core.

    That is ``run_delay`` of /proc/PID/task/TID/schedstat (Documentation/scheduler/sched-stats.rst); the kernel adds to
    it when the thread gets its core. /proc/PID/schedstat covers the main thread only: next to nothing for a Go program,
    whose work is on other threads.
    """

    def __init__(self) -> None:
        self._living: dict[tuple[int, str], int] = {}
        self._ended_ns = 0
        self._counted = False

    def read(self, members: Iterable[tuple[int, list[str]]]) -> int | None:
        """Return the sum so far, ns, which never decreases; None where the kernel does not count it.

        ``members``: each process with its threads, as of `family`. A thread that has ended counts with its last value;
        one that began and ended between two reads is missed.
        """
        living: dict[tuple[int, str], int] = {}
        for pid, threads in members:
            for thread in threads:
                fields = read_bytes(f"/proc/{pid}/task/{thread}/schedstat").split()
                if len(fields) == 3:
                    living[pid, thread] = int(fields[1])
                    # A kernel that does not count shows three zeros, also for a thread that has run.
                    self._counted = self._counted or fields[2] != b"0"
        for key, last in self._living.items():
            # A lower value comes from another thread that reuses the id of one that ended.
            if living.get(key, -1) < last:
                self._ended_ns += last
        self._living = living
        return self._ended_ns + sum(living.values()) if self._counted else None


def open_pidfd(process: Identity) -> int | None:
    """Return a descriptor that becomes readable when the process exits; None when it has already ended."""
    try:
        fd = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return None
    # A pidfd never refers to another process; the check before it was opened may be outdated.
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
        # CPU clock id of any process: ns, including threads that have ended (as clock_getcpuclockid(3) builds it).
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
    # The name in parentheses may contain anything, spaces and parentheses included.
    fields = text[text.rindex(b")") + 2 :].split()
    return _Stat(int(fields[13]) + int(fields[14]), int(fields[19]))


def _memory(pid: int) -> tuple[int, int]:
    """Return RSS and peak RSS, bytes; zeros for a process that has exited."""
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
    """The fields of cluster.handle.ProcessInfo that are read here."""

    pid: int
    started_ticks: int
    running: bool = True


_decode_list = msgspec.json.Decoder(dict[str, _Listed]).decode


class ProcessesFile:
    """The supervisor's list of processes; read again whenever it was replaced."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._version: tuple[int, int] | None = None

    def changed(self) -> dict[str, Identity] | None:
        """Return the running processes by name when the file has changed since the last call, else None.

        Raises ValueError for invalid contents; a missing file counts as unchanged.
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
