"""The measured processes: their exact CPU clocks, and their pids over restarts and exits."""

from __future__ import annotations

import asyncio
import os
import select
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path

import msgspec

from .. import procfs
from ..procfs import Identity, KeptFiles, Read, age_s, family, identity, read_bytes
from .machine import MachineReader
from .protocol import ProcessExited, ProcessStarted
from .record_writer import Ledger
from .records import CpuRead, ProcessGone, ProcessSeen

_TICK_NS = 10**9 // os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Usage(msgspec.Struct, frozen=True):
    """CPU time since the start and memory of a process and its living descendants; reaped ones count in CPU."""

    cpu_ns: int
    reaped_ns: int
    """Of that, of children that have ended."""
    rss_bytes: int
    peak_rss_bytes: int
    """Sum of each process' own peak."""
    waiting_ns: int | None = None
    """How long their threads have waited for a core, ns; None when not requested or not counted by the kernel."""
    threads: int | None = None
    """None for a process that has exited."""


def usage(
    process: Identity, *, apart: Collection[int] = (), core_wait: CoreWait | None = None, read: Read = read_bytes
) -> Usage | None:
    """Return a process' CPU time and memory; None when it is gone (another process may have its pid).

    ``apart``: pids of descendants to exclude, with their own descendants: they are measured separately.
    ``core_wait``: the state that this process keeps between reads. ``read``: what reads files of /proc. A process that
    has exited but was not reaped yet still answers with its CPU time, and no memory.
    """
    total = _own_usage(process.pid, process.started_ticks, read)
    if total is None:
        return None
    cpu, reaped, rss, peak = total
    number = 0
    members = list(family(process.pid, apart=apart, read=read))
    for pid, threads in members:
        if pid != process.pid and (part := _own_usage(pid, None, read)):
            cpu, reaped, rss, peak = cpu + part[0], reaped + part[1], rss + part[2], peak + part[3]
            # A child that has ended and was not waited for is listed, without memory and with one thread in name.
            if not part[2]:
                continue
        number += len(threads)
    waiting = core_wait.read(members, read) if core_wait is not None else None
    return Usage(cpu, reaped, rss, peak, waiting, number or None)


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

    def read(self, members: Iterable[tuple[int, list[str]]], read: Read = read_bytes) -> int | None:
        """Return the sum so far, ns, which never decreases; None where the kernel does not count it.

        ``members``: each process with its threads, as of `family`. A thread that has ended counts with its last value;
        one that began and ended between two reads is missed.
        """
        living: dict[tuple[int, str], int] = {}
        for pid, threads in members:
            for thread in threads:
                fields = read(f"/proc/{pid}/task/{thread}/schedstat").split()
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


def _own_usage(pid: int, started_ticks: int | None, read: Read) -> tuple[int, int, int, int] | None:
    stat = procfs.stat(pid, read=read)
    if stat is None or started_ticks not in (None, stat.started_ticks):
        return None
    try:
        # CPU clock id of any process: ns, including threads that have ended (as clock_getcpuclockid(3) builds it).
        cpu = time.clock_gettime_ns(((~pid) << 3) | 2)
    except OSError:
        return None
    rss, peak = _memory(read(f"/proc/{pid}/status"))
    reaped = stat.reaped_ticks * _TICK_NS
    return cpu + reaped, reaped, rss, peak


def _memory(status: bytes) -> tuple[int, int]:
    """Return RSS and peak RSS, bytes, of a file /proc/PID/status; zeros for a process that has exited."""
    found = [0, 0]
    for number, name in enumerate((b"\nVmRSS:", b"\nVmHWM:")):
        begin = status.find(name)
        if begin >= 0:
            found[number] = int(status[begin + len(name) :].split(maxsplit=1)[0]) * 1024
    return found[0], found[1]


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


class Roster:
    """Measures named processes; a name continues with the process that replaces its former one."""

    def __init__(
        self, ledger: Ledger, *, file: Path | None, wanted: Collection[str], extra: Mapping[str, Identity]
    ) -> None:
        self._ledger = ledger
        self._files: dict[ProcessesFile, dict[str, Identity]] = {}
        """File → its processes at the last read."""
        self._wanted = frozenset(wanted)
        self._running: dict[str, Identity] = {}
        self._pidfds: dict[str, int] = {}
        self._core_waits: dict[str, CoreWait] = {}
        self._kept = KeptFiles()
        self._machine = MachineReader()
        self._file_bad = False
        self.on_seen: Callable[[str], None] = lambda name: None
        """Called when a name gets a new process."""
        self.on_gone: Callable[[str], None] = lambda name: None
        """Called when the process of a name has ended, or is no longer measured."""
        for name, process in extra.items():
            self._see(name, process)
        if file is not None:
            self.add_file(file)

    def process(self, name: str) -> Identity | None:
        """Return the current process of this name; None when none runs."""
        return self._running.get(name)

    def others(self, name: str) -> dict[str, Identity]:
        """Return the process of every name but this one."""
        return {other: process for other, process in self._running.items() if other != name}

    def add_file(self, path: Path) -> None:
        """Read one more processes file from here on."""
        self._files[ProcessesFile(path)] = {}

    def look(self) -> None:
        """Process changes of the processes files."""
        for file, before in self._files.items():
            try:
                listed = file.changed()
            except (ValueError, OSError) as error:
                if not self._file_bad:
                    self._file_bad = True
                    self._ledger.failed("cpu", f"the list of processes cannot be read: {error}")
                continue
            if listed is not None:
                self._files[file] = listed
                self._follow(before, listed)

    def _follow(self, before: Mapping[str, Identity], listed: Mapping[str, Identity]) -> None:
        """Apply the difference between two versions of a file: removed names first, then new ones."""
        for name, process in before.items():
            if listed.get(name) != process and self._running.get(name) == process:
                self._leave(name)
        for name, process in listed.items():
            if (not self._wanted or name in self._wanted) and self._running.get(name) != process:
                self._leave(name)
                self._see(name, process)

    def read(self, edge: str = "") -> None:
        """Journal the CPU clock and memory of every process, then the use of the machine's cores."""
        self.look()
        for name in list(self._running):
            self._read(name, edge)
        self._kept.close_others()
        self._ledger.add(self._machine.read(self._ledger.now(), edge))

    def close(self) -> None:
        """Stop watching for exits."""
        for name in list(self._running):
            self._forget(name)

    def _see(self, name: str, process: Identity) -> None:
        pidfd = open_pidfd(process)
        if pidfd is None:
            # It ended before it was ever measured: only the exit is known.
            self._ledger.tell(ProcessExited(process=name, pid=process.pid))
            return
        self._running[name] = process
        self._pidfds[name] = pidfd
        self._core_waits[name] = CoreWait()
        asyncio.get_running_loop().add_reader(pidfd, self._exited, name)
        self._ledger.add(
            ProcessSeen(
                at=self._ledger.now(),
                process=name,
                pid=process.pid,
                started_ticks=process.started_ticks,
                ran_ns=round(age_s(process.started_ticks) * 1e9),
            )
        )
        self._read(name, "")
        self._ledger.tell(ProcessStarted(process=name, pid=process.pid))
        self.on_seen(name)

    def _leave(self, name: str) -> None:
        """Stop measuring the process of a name: it has ended, or continues under another name or unmeasured."""
        if name not in self._running:
            return
        if has_ended(self._pidfds[name]):
            self._exited(name)
        else:
            self._read(name, "")
            self._forget(name)
            self.on_gone(name)

    def _exited(self, name: str) -> None:
        process = self._running[name]
        # Until its parent reaps it, its clock can still be read: the CPU time of a crashed process is not lost.
        self._read(name, "")
        self._forget(name)
        self._ledger.add(ProcessGone(at=self._ledger.now(), process=name, pid=process.pid))
        self._ledger.tell(ProcessExited(process=name, pid=process.pid))
        self.on_gone(name)

    def _read(self, name: str, edge: str) -> None:
        process = self._running[name]
        at = self._ledger.now()
        # The recorder is a child of the harness: without this its CPU time would count for both.
        apart = {other.pid for other in self._running.values()}
        used = usage(process, apart=apart, core_wait=self._core_waits[name], read=self._kept.read)
        if used is None:
            # It ended between two polls; its pidfd reports that.
            return
        held = procfs.held(process.pid, apart=apart) if edge else None
        self._ledger.add(
            CpuRead(
                at=at,
                process=name,
                pid=process.pid,
                cpu_ns=used.cpu_ns,
                reaped_ns=used.reaped_ns,
                rss_bytes=used.rss_bytes,
                peak_rss_bytes=used.peak_rss_bytes,
                waiting_ns=used.waiting_ns,
                threads=used.threads,
                files=held.files if held is not None else None,
                sockets=held.sockets if held is not None else None,
                zombies=held.zombies if held is not None else None,
                accepted=held.accepted if held is not None else None,
                edge=edge,
            )
        )

    def _forget(self, name: str) -> None:
        pidfd = self._pidfds.pop(name, None)
        if pidfd is not None:
            asyncio.get_running_loop().remove_reader(pidfd)
            os.close(pidfd)
        self._running.pop(name, None)
        self._core_waits.pop(name, None)
