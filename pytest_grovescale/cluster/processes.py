"""Which process is meant: pids are used again, pid and start time together are not (until the next boot)."""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Collection, Iterator
from pathlib import Path

MARK = "GROVESCALE_CLUSTER_DIRECTORY"
"""Environment variable of everything that a supervisor starts, so that what outlived it can be found."""


def started_ticks(pid: int) -> int:
    """Return when a process started, clock ticks since boot; 0 when there is none or it is a zombie."""
    try:
        text = Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    # The name in parentheses may hold anything, spaces and parentheses included.
    fields = text[text.rindex(b")") + 2 :].split()
    return 0 if fields[0] in (b"Z", b"X") else int(fields[19])


def login(uid: int) -> str:
    """Return a user's login name; the number of one that has none, as often in a container."""
    # Imported late: like fcntl in locks.py, this module is missing where the package only has to be importable.
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def boot_id() -> str:
    """Return what tells this boot from the one before: start times count from it."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def alive(pid: int, ticks: int) -> bool:
    """Return whether this very process still runs."""
    return ticks > 0 and started_ticks(pid) == ticks


def kill(pid: int, ticks: int, number: int = signal.SIGKILL) -> bool:
    """Send a signal to this very process; return False when it is gone. Never hits one that reuses its pid."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return False
    try:
        # The descriptor stays with the process it was opened on, so checked now is checked for good.
        if not alive(pid, ticks):
            return False
        signal.pidfd_send_signal(descriptor, number)
    except ProcessLookupError:
        return False
    finally:
        os.close(descriptor)
    return True


def wait_gone(pid: int, ticks: int, timeout_s: float) -> bool:
    """Wait until this very process has ended; return False when it still runs after ``timeout_s``."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        if not alive(pid, ticks):
            return True
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        return bool(poll.poll(timeout_s * 1000))
    finally:
        os.close(descriptor)


def marked(directory: Path) -> list[tuple[int, int]]:
    """Return (pid, start ticks) of every process of ours that a supervisor of this directory started."""
    wanted = f"{MARK}={directory}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            environment = (entry / "environ").read_bytes()
        except OSError:
            # Ended meanwhile, or another user's.
            continue
        if wanted in environment.split(b"\0"):
            pid = int(entry.name)
            if ticks := started_ticks(pid):
                found.append((pid, ticks))
    return found


def memory_bytes(pid: int) -> int:
    """Return a process' resident memory; 0 when it is gone."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_bytes().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (FileNotFoundError, ProcessLookupError):
        return 0


def listens(pid: int, port: int) -> bool:
    """Return whether this process itself listens on a TCP port, and not somebody else."""
    inodes = set()
    for table in ("tcp", "tcp6"):
        path = Path("/proc/net") / table
        if not path.exists():
            continue
        for line in path.read_text().splitlines()[1:]:
            columns = line.split()
            if columns[3] == "0A" and int(columns[1].rpartition(":")[2], 16) == port:
                inodes.add(f"socket:[{columns[9]}]")
    try:
        descriptors = list(Path(f"/proc/{pid}/fd").iterdir())
    except FileNotFoundError:
        return False
    return bool(inodes) and any(_target(descriptor) in inodes for descriptor in descriptors)


def _target(descriptor: Path) -> str:
    try:
        return str(descriptor.readlink())
    except FileNotFoundError:
        # Closed meanwhile.
        return ""


def age_s(ticks: int) -> float:
    """Return how long ago a process with this start time started, seconds."""
    return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK"))


def descendants(pid: int, *, apart: Collection[int] = ()) -> Iterator[int]:
    """Yield all living descendants, without those ``apart`` and theirs."""
    for member, _ in family(pid, apart=apart):
        if member != pid:
            yield member


def family(pid: int, *, apart: Collection[int] = ()) -> Iterator[tuple[int, list[str]]]:
    """Yield a process and all its living descendants, each with the ids of its threads.

    Descendants in ``apart`` and theirs are left out. A process that is gone yields nothing.
    """
    try:
        threads = os.listdir(f"/proc/{pid}/task")  # noqa: PTH208 - hundreds of threads, each second
    except (FileNotFoundError, ProcessLookupError):
        return
    yield pid, threads
    # The kernel lists a child under the thread that forked it.
    for thread in threads:
        for child in map(int, read_bytes(f"/proc/{pid}/task/{thread}/children").split()):
            if child not in apart:
                yield from family(child, apart=apart)


_CHUNK = 4096


def read_bytes(path: str) -> bytes:
    """Return a file of /proc; nothing when the process or thread is gone. Half the cost of Python's file objects."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, ProcessLookupError):
        return b""
    try:
        content = chunk = os.read(descriptor, _CHUNK)
        while len(chunk) == _CHUNK:
            chunk = os.read(descriptor, _CHUNK)
            content += chunk
        return content
    except ProcessLookupError:
        return b""
    finally:
        os.close(descriptor)
