"""Reads /proc: state, parents, descendants, threads, sockets and cgroups of processes (proc(5)).

A process may end at any moment, and another user's may not be readable: each function says what it returns then.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import pairwise
from pathlib import Path

import msgspec

PROC = Path("/proc")

_CHUNK = 4096
_KEPT = 512
"""Files that are kept open at most."""
_MEMORY_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
_LISTENING = "0A"
"""TCP_LISTEN in the column ``st`` of /proc/net/tcp, proc_pid_net(5)."""


def read_bytes(path: str) -> bytes:
    """Return the content of a file in /proc; empty if the process is gone. Half the cost of Python's file objects."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, ProcessLookupError):
        return b""
    try:
        return _content(descriptor)
    except ProcessLookupError:
        return b""
    finally:
        os.close(descriptor)


Read = Callable[[str], bytes]
"""Returns the content of a file, as `read_bytes` does."""


class KeptFiles:
    """Reads files of /proc again and again, which stay open in between: a third of what `read_bytes` costs.

    A file shows the process, or thread, that had the id when it was opened; of one that has ended it cannot be read,
    and then the one that has the id now is opened.
    """

    def __init__(self) -> None:
        self._files: dict[str, int] = {}
        self._read = set[str]()

    def read(self, path: str) -> bytes:
        """Return a file's content; empty if the process is gone."""
        self._read.add(path)
        if (descriptor := self._files.get(path)) is not None:
            try:
                return _content(descriptor)
            except ProcessLookupError:
                os.close(self._files.pop(path))
        if len(self._files) >= _KEPT:
            return read_bytes(path)
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except (FileNotFoundError, ProcessLookupError):
            return b""
        self._files[path] = descriptor
        try:
            return _content(descriptor)
        except ProcessLookupError:
            return b""

    def close_others(self) -> None:
        """Close the files that were not read since the last call."""
        for path in self._files.keys() - self._read:
            os.close(self._files.pop(path))
        self._read.clear()

    def __del__(self) -> None:
        for descriptor in self._files.values():
            os.close(descriptor)


def _content(descriptor: int) -> bytes:
    content = chunk = os.pread(descriptor, _CHUNK, 0)
    while len(chunk) == _CHUNK:
        chunk = os.pread(descriptor, _CHUNK, len(content))
        content += chunk
    return content


class Identity(msgspec.Struct, frozen=True):
    """Identifies a process: pids are reused, pid and start time together are not."""

    pid: int
    started_ticks: int
    """Field 22 of /proc/PID/stat, clock ticks since boot."""


class MachineMemory(msgspec.Struct, frozen=True, kw_only=True):
    """Memory of this machine, or of the container that this process is in where that may use less; bytes."""

    total: int
    available: int
    """Without swapping, as the kernel estimates it."""


class Stat(msgspec.Struct, frozen=True):
    """What is read of /proc/PID/stat, proc_pid_stat(5)."""

    state: str
    """One letter: ``R`` runs, ``T`` is stopped by a signal, ``t`` by a debugger, ``Z`` has ended and was not reaped."""
    parent: int
    reaped_ticks: int
    """CPU time of the children that it has reaped, clock ticks."""
    started_ticks: int

    @property
    def ended(self) -> bool:
        """Whether it has ended, and is only not reaped yet."""
        return self.state in ("Z", "X")

    @property
    def stopped(self) -> bool:
        """Whether it is stopped: by SIGSTOP, Ctrl-Z or a debugger."""
        return self.state in ("T", "t")


def stat(pid: int, proc: Path = PROC, *, read: Read = read_bytes) -> Stat | None:
    """Return a process's state; None when there is none of this pid. ``read``: what reads the file."""
    text = read(f"{proc}/{pid}/stat")
    if not text:
        return None
    # The name in parentheses may contain any character, spaces and parentheses included.
    fields = text[text.rindex(b")") + 2 :].split()
    return Stat(fields[0].decode(), int(fields[1]), int(fields[13]) + int(fields[14]), int(fields[19]))


def identity(pid: int) -> Identity | None:
    """Return the identity of the process with this pid, also of one that was not reaped yet; None without one."""
    found = stat(pid)
    return Identity(pid, found.started_ticks) if found is not None else None


def started_ticks(pid: int) -> int:
    """Return a process's start time, clock ticks since boot; 0 if there is none, or it has ended."""
    found = stat(pid)
    return 0 if found is None or found.ended else found.started_ticks


def is_stopped(pid: int) -> bool:
    """Return whether a process is stopped; False if there is none."""
    found = stat(pid)
    return found is not None and found.stopped


def age_s(ticks: int) -> float:
    """Return the age of a process with this start time, seconds."""
    return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK"))


def machine_memory() -> MachineMemory:
    """Return the memory of this machine. Sources: proc_meminfo(5), and a container's own cgroup, of version 2 and 1."""
    facts = dict(line.split(":", 1) for line in (PROC / "meminfo").read_text(encoding="ascii").splitlines())
    total, available = (int(facts[name].split()[0]) * 1024 for name in ("MemTotal", "MemAvailable"))
    limits = [int(text) for path in _MEMORY_LIMITS if (text := read_bytes(path).strip()).isdigit()]
    return MachineMemory(total=min([total, *limits]), available=min([available, *limits]))


def memory_bytes(pid: int) -> int:
    """Return a process's resident memory; 0 when it is gone."""
    fields = read_bytes(f"/proc/{pid}/statm").split()
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE") if fields else 0


def lineage(pid: int) -> list[int]:
    """Return a process and its ancestors, nearest first; empty if it is gone."""
    found: list[int] = []
    while pid > 0 and (one := stat(pid)) is not None:
        found.append(pid)
        pid = one.parent
    return found


def descendants(pid: int, *, apart: Collection[int] = ()) -> Iterator[int]:
    """Yield all living descendants, except ``apart`` and their descendants."""
    for member, _ in family(pid, apart=apart):
        if member != pid:
            yield member


def family(pid: int, *, apart: Collection[int] = (), read: Read = read_bytes) -> Iterator[tuple[int, list[str]]]:
    """Yield a process and all its living descendants, each with the ids of its threads.

    Excludes ``apart`` and their descendants. A process that is gone yields nothing. ``read``: what reads the files.
    """
    try:
        threads = os.listdir(f"/proc/{pid}/task")  # noqa: PTH208 - hundreds of threads, each second
    except (FileNotFoundError, ProcessLookupError):
        return
    yield pid, threads
    # The kernel lists a child under the thread that forked it.
    for thread in threads:
        for child in map(int, read(f"/proc/{pid}/task/{thread}/children").split()):
            if child not in apart:
                yield from family(child, apart=apart, read=read)


class Held(msgspec.Struct, frozen=True):
    """What a process and its descendants hold."""

    threads: int
    files: int
    """Descriptors that are no sockets."""
    sockets: int
    zombies: int
    """Descendants that have ended and that their parent has not waited for, wait(2)."""
    accepted: int | None
    """TCP connections that its network namespace has accepted since it exists: ``PassiveOpens``, RFC 4022."""


def held(pid: int, *, apart: Collection[int] = ()) -> Held | None:
    """Return what a process and its descendants hold, except ``apart``; None where it cannot be read."""
    threads = files = sockets = zombies = 0
    for member, tasks in family(pid, apart=apart):
        if member != pid and (found := stat(member)) is not None and found.ended:
            zombies += 1
            continue
        threads += len(tasks)
        try:
            names = os.listdir(f"/proc/{member}/fd")  # noqa: PTH208 - hundreds of them, at each edge
        except OSError:
            return None
        for name in names:
            try:
                is_socket = os.readlink(f"/proc/{member}/fd/{name}").startswith("socket:")  # noqa: PTH115
            except OSError:
                continue  # closed since
            sockets += is_socket
            files += not is_socket
    return Held(threads, files, sockets, zombies, _accepted(pid)) if threads else None


def _accepted(pid: int) -> int | None:
    try:
        lines = [line.split() for line in read_bytes(f"/proc/{pid}/net/snmp").splitlines() if line.startswith(b"Tcp:")]
    except OSError:
        return None
    return next(
        (int(dict(zip(names, values, strict=False))[b"PassiveOpens"]) for names, values in pairwise(lines)), None
    )


def have_open(path: Path) -> list[int]:
    """Return the visible processes that have a file open."""
    wanted = str(path)
    return [pid for pid in _pids(PROC) if wanted in _open_files(pid)]


def _open_files(pid: int) -> Iterator[str]:
    with contextlib.suppress(OSError):  # of another user, or gone
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):  # closed since
                yield os.readlink(descriptor)  # noqa: PTH115 - pipes and sockets have no path


def command(pid: int) -> list[str]:
    """Return a process' command line; empty for one that is gone, and for the kernel's."""
    try:
        return read_bytes(f"/proc/{pid}/cmdline").decode(errors="replace").rstrip("\0").split("\0")
    except OSError:
        return []


def listeners(port: int) -> set[int] | None:
    """Return the pids that listen on a TCP port, of visible processes; None if /proc/net is not readable."""
    listening = _listening()
    if listening is None:
        return None
    sockets = {socket for socket, at in listening.items() if at == port}
    return {pid for pid in _pids(PROC) if sockets & _sockets(pid)}


def ports_of(pids: Iterable[int]) -> set[int]:
    """Return the TCP ports that processes listen on, of visible processes."""
    listening = _listening() or {}
    sockets = {socket for pid in pids for socket in _sockets(pid)}
    return {port for socket, port in listening.items() if socket in sockets}


def first_of_containers(container_ids: Collection[str], proc: Path = PROC) -> dict[str, Identity]:
    """Return the first process of each container by container id; containers without a visible process are omitted.

    A container's processes are processes of the host that runs its engine, and their cgroup's path contains the
    container's id. The first one is the one whose parent is outside the container. Where the engine runs in a virtual
    machine, or this process in a pid namespace of its own, no process is identified, and none is guessed.
    """
    members: dict[str, set[int]] = {}
    for pid in _pids(proc):
        cgroups = read_bytes(f"{proc}/{pid}/cgroup").decode(errors="replace")
        for container_id in container_ids:
            if container_id in cgroups:
                members.setdefault(container_id, set()).add(pid)
    first: dict[str, Identity] = {}
    for container_id, pids in members.items():
        for pid in sorted(pids):
            found = stat(pid, proc)
            if found is not None and not found.ended and found.parent not in pids:
                first[container_id] = Identity(pid, found.started_ticks)
                break
    return first


def _pids(proc: Path) -> list[int]:
    return [int(entry.name) for entry in proc.iterdir() if entry.name.isdigit()]


def _listening() -> dict[str, int] | None:
    """Return the listening sockets: target of the descriptor's link → port."""
    found: dict[str, int] | None = None
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            lines = (PROC / "net" / table).read_text().splitlines()[1:]
            found = found if found is not None else {}
            for columns in map(str.split, lines):
                if columns[3] == _LISTENING:
                    found[f"socket:[{columns[9]}]"] = int(columns[1].rpartition(":")[2], 16)
    return found


def _sockets(pid: int) -> set[str]:
    """Return the targets of a process's descriptors, ``socket:[…]`` among them; empty if they are not readable."""
    targets: set[str] = set()
    with contextlib.suppress(OSError):
        for descriptor in (PROC / str(pid) / "fd").iterdir():
            with contextlib.suppress(OSError):
                targets.add(str(descriptor.readlink()))
    return targets
