"""Protocol between a cluster's supervisor and the holders of its leases: JSON lines on a Unix socket."""

from __future__ import annotations

import os
import select
import socket
import struct
import time
from pathlib import Path
from typing import Any

import msgspec

from ..errors import ClusterError
from ..log_files import what_to_do
from . import processes

SOCKET = "supervisor.sock"

_ANSWER_S = 60.0
_STATUS_S = 10.0
_LOOK_S = 0.25
_CHUNK = 1 << 16


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
    """State of a process."""

    name: str
    pid: int
    started_ticks: int
    """Clock ticks since boot: identifies the process together with its pid."""
    log: str
    running: bool
    exit_code: int | None = None
    """Negative: killed by that signal. None while it runs."""
    restarts: int = 0


class Hello(msgspec.Struct, frozen=True, tag="hello"):
    """Announces a new lease file; the cluster stays for it only if the answer is ok."""

    lease: str


class Bye(msgspec.Struct, frozen=True, tag="bye"):
    """Releases a lease. ``ending`` in the answer says that it was the last one."""

    lease: str


class StartProcess(msgspec.Struct, frozen=True, tag="start_process"):
    spec: ProcessSpec
    lease: str = ""
    """Owner: it is stopped when that lease ends. Empty: the cluster itself."""
    rank: int = 9
    """Stopping order: highest first."""


class ShareProcess(msgspec.Struct, frozen=True, tag="share_process"):
    """Adds an owner to a running process: it is stopped when the last of its owners' leases has ended."""

    name: str
    lease: str


class StopProcess(msgspec.Struct, frozen=True, tag="stop_process"):
    name: str


class Keep(msgspec.Struct, frozen=True, tag="keep"):
    """Sets whether the cluster stays without leases."""

    on: bool


class StatusWanted(msgspec.Struct, frozen=True, tag="status"):
    pass


class Down(msgspec.Struct, frozen=True, tag="down"):
    """Stops all processes, even if there are leases."""


Request = Hello | Bye | StartProcess | ShareProcess | StopProcess | Keep | StatusWanted | Down


class Status(msgspec.Struct, frozen=True, kw_only=True):
    kept: bool
    leases: list[dict[str, Any]]
    processes: dict[str, ProcessInfo]


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    error: str = ""
    process: ProcessInfo | None = None
    status: Status | None = None
    ending: bool = False


class SupervisorGone(ClusterError):
    """The cluster's socket does not answer."""


class SupervisorStopped(ClusterError):
    """The cluster's supervisor is stopped (SIGSTOP, Ctrl-Z, a debugger): it does not answer, and has not ended."""

    def __init__(self, cluster: str, pid: int, *, ended: bool = False) -> None:
        """``ended``: the cluster had no other user, so its supervisor was killed and its remains were cleared."""
        what = f"the supervisor of cluster {cluster} (pid {pid}) is stopped and does not answer"
        super().__init__(
            f"{what}: it was killed and its cluster removed" if ended else what,
            next_step="Look for what stopped it: SIGSTOP, a debugger, a frozen cgroup."
            if ended
            else f"Let it go on: kill -CONT {pid}. Or end the cluster: grovescale down {cluster} --force",
        )
        self.pid = pid


def ask(directory: Path, request: Request, *, timeout_s: float = _ANSWER_S) -> Answer:
    """Send one request and return the answer.

    Raises SupervisorGone without an answer, SupervisorStopped if the supervisor is stopped for `processes.STOPPED_S`,
    ClusterError if the request is rejected. With a ``timeout_s`` above one minute, repeatedly checks that the
    supervisor still works.
    """
    try:
        with _connect(directory, min(timeout_s, _ANSWER_S)) as connection:
            connection.sendall(msgspec.json.encode(request) + b"\n")
            line = _line(connection, directory, timeout_s)
    except (OSError, TimeoutError) as error:
        raise SupervisorGone(
            f"the supervisor of the cluster in {directory} does not answer: {error}",
            next_step="Clear what is left of it with: grovescale down --all.",
        ) from error
    if not line.endswith(b"\n"):
        raise SupervisorGone(
            f"the supervisor of the cluster in {directory} ended while it was asked",
            next_step="See grovescale status.",
        )
    answer = msgspec.json.decode(line, type=Answer)
    if answer.error:
        raise ClusterError(answer.error, next_step=what_to_do(answer.error))
    return answer


def _line(connection: socket.socket, directory: Path, timeout_s: float) -> bytes:
    """Return the supervisor's line, partial if it ended meanwhile. Raises TimeoutError, SupervisorStopped."""
    pid = _peer(connection)
    stopped = processes.StoppedFor(pid)
    now = time.monotonic()
    deadline, next_question = now + timeout_s, now + _ANSWER_S
    line = b""
    readable = select.poll()
    readable.register(connection, select.POLLIN)
    while not line.endswith(b"\n"):
        if readable.poll(_LOOK_S * 1000):
            part = connection.recv(_CHUNK)
            if not part:
                break
            line += part
            continue
        now = time.monotonic()
        if stopped.too_long():
            raise SupervisorStopped(directory.name, pid)
        if now >= deadline:
            raise TimeoutError(f"timed out after {timeout_s:g} s")
        if now >= next_question:
            ask(directory, StatusWanted(), timeout_s=_STATUS_S)
            next_question = time.monotonic() + _ANSWER_S
    return line


def _peer(connection: socket.socket) -> int:
    """Return the pid of the listening process at the other end, unix(7)."""
    pid, _, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
    return int(pid)


def _connect(directory: Path, timeout_s: float) -> socket.socket:
    # A socket's address holds 107 bytes; through a descriptor of its folder every path is short enough.
    folder = os.open(directory, os.O_PATH | os.O_DIRECTORY)
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(timeout_s)
        connection.connect(f"/proc/self/fd/{folder}/{SOCKET}")
    except BaseException:
        connection.close()
        raise
    finally:
        os.close(folder)
    return connection
