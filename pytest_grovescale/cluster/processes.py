"""Processes of this machine, identified by pid and start time: unlike a pid, the pair is unique until a reboot."""

from __future__ import annotations

import os
import select
import signal
import time
from pathlib import Path

import msgspec

from .. import procfs

MARK = "GROVESCALE_CLUSTER_DIRECTORY"
"""Environment variable of all processes that a supervisor starts, so that survivors can be found."""
NAME_MARK = "GROVESCALE_PROCESS"
"""Variable with the name of a supervised process, which its children inherit, whichever session they are in."""


STOPPED_S = 5.0
"""A required process that stays stopped for so long is reported as an error, s."""

_EVERY_S = 0.25


class ProcessSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A process to run under the supervisor."""

    name: str
    argv: list[str]
    env: dict[str, str] = {}
    """The whole environment; empty: a minimal one (PATH, HOME, LANG, TMPDIR)."""
    cwd: str = ""
    log: str
    """File that its output is appended to."""
    stop_grace_s: float = 10
    """Seconds between SIGTERM and SIGKILL."""
    cores: list[int] = []
    """Cores that it is pinned to; empty: all."""
    memory_bytes: int = 0
    """Resident memory above which it is killed, checked five times a second; 0: no limit."""
    restart: bool = False
    """Restart it when it ends without a stop request."""


class ProcessInfo(msgspec.Struct, frozen=True, kw_only=True):
    """State of a process that a supervisor runs."""

    name: str
    pid: int
    started_ticks: int
    """Clock ticks since boot: identifies the process together with its pid."""
    log: str
    running: bool
    exit_code: int | None = None
    """Negative: killed by that signal. None while it runs."""
    restarts: int = 0


def info_of(process: procfs.Identity, name: str, *, log: str = "") -> ProcessInfo:
    """Return a running process in the format of the supervisor's list."""
    return ProcessInfo(name=name, pid=process.pid, started_ticks=process.started_ticks, log=log, running=True)


def login(uid: int) -> str:
    """Return a user's login name, or the uid if there is none, as often in a container."""
    # Imported late: like fcntl in locks.py, this module is missing on platforms where the package must be importable.
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def boot_id() -> str:
    """Return the id of this boot: start times count from it."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def alive(pid: int, ticks: int) -> bool:
    """Return whether the process with this pid and start time still runs."""
    return ticks > 0 and procfs.started_ticks(pid) == ticks


OVER_MEMORY = "grovescale: killed for limits.memory"
"""Beginning of the line that the supervisor adds to the log of a process that it kills for its memory."""


def exit_text(code: int | None, log: str = "") -> str:
    """Return ``exited with code 3`` or ``was killed by SIGKILL``. ``log``: its last lines."""
    if code == -signal.SIGKILL and OVER_MEMORY in log:
        return "had more memory than limits.memory, and was killed"
    if code is None:
        return "exited"
    if code >= 0:
        return f"exited with code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"


def exit_advice(code: int | None, log: str = "") -> str:
    """Return what to look for where a process ended so that was to run until it is stopped; empty for other ends.

    Its sentences end with a space, as more may follow.
    """
    if code == 0:
        return (
            "It ended by itself, as one that has nothing left to do: it has to stay in the foreground until SIGTERM,"
            " and to start no other process in its place. "
        )
    if code == -signal.SIGKILL and OVER_MEMORY in log:
        return "Raise limits.memory in its definition, or see what takes so much. "
    if code == -signal.SIGKILL:
        return "grovescale did not send that: the kernel does where memory is short (dmesg), or another program. "
    if code in (126, 127):
        return "With that a shell says that it could not start a program that it names. "
    return ""


def kill(pid: int, ticks: int, number: int = signal.SIGKILL) -> bool:
    """Send a signal to this very process; return False if it is gone. Never hits a process that reuses its pid."""
    descriptor = open_pidfd(pid, ticks)
    if descriptor is None:
        return False
    try:
        signal.pidfd_send_signal(descriptor, number)
    except ProcessLookupError:
        return False
    finally:
        os.close(descriptor)
    return True


def wait_gone(pid: int, ticks: int, timeout_s: float) -> bool:
    """Wait until this very process has ended; return False if it has not after ``timeout_s``.

    Returns early if it has been stopped for `STOPPED_S`: a stopped process does not end.
    """
    descriptor = open_pidfd(pid, ticks)
    if descriptor is None:
        return True
    try:
        stopped = StoppedFor(pid)
        deadline = time.monotonic() + timeout_s
        while (left := deadline - time.monotonic()) > 0 and not stopped.too_long():
            if has_ended(descriptor, min(left, _EVERY_S)):
                return True
        return has_ended(descriptor)
    finally:
        os.close(descriptor)


def open_pidfd(pid: int, ticks: int) -> int | None:
    """Return a pidfd of this very process; None if it is gone."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return None
    # The pidfd stays with its process, so one check is enough.
    if alive(pid, ticks):
        return descriptor
    os.close(descriptor)
    return None


def has_ended(descriptor: int, timeout_s: float = 0.0) -> bool:
    """Return whether the process of a pidfd has ended, or ends within ``timeout_s``."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(timeout_s * 1000))


class StoppedFor:
    """Measures how long a process has been stopped continuously, as seen by repeated calls.

    ``patience_s``: the allowed time; None: `STOPPED_S`.
    """

    def __init__(self, pid: int, *, patience_s: float | None = None) -> None:
        self._pid = pid
        self._patience = patience_s
        self._since: float | None = None

    def too_long(self) -> bool:
        """Return whether the process is stopped now, and was at every call for longer than the allowed time."""
        if not procfs.is_stopped(self._pid):
            self._since = None
            return False
        now = time.monotonic()
        self._since = now if self._since is None else self._since
        return now - self._since >= (STOPPED_S if self._patience is None else self._patience)


def marked(directory: Path, name: str = "") -> list[tuple[int, int]]:
    """Return (pid, start ticks) of every process of this user that a supervisor of this directory started.

    With a ``name``, those of that process: itself, and what it started that kept its environment.
    """
    marks = {os.fsencode(f"{MARK}={directory}"), *([os.fsencode(f"{NAME_MARK}={name}")] if name else [])}
    marked_processes = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            environment = (entry / "environ").read_bytes()
        except OSError:
            # Ended meanwhile, or another user's.
            continue
        if marks <= set(environment.split(b"\0")):
            pid = int(entry.name)
            if ticks := procfs.started_ticks(pid):
                marked_processes.append((pid, ticks))
    return marked_processes
