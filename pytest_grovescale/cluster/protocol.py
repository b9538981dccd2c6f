"""What is said between a cluster's supervisor and those who hold leases on it: JSON lines on a Unix socket."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

import msgspec

from ..errors import ClusterError

SOCKET = "supervisor.sock"


class ProcessSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A process to run under the supervisor."""

    name: str
    argv: list[str]
    env: dict[str, str] = {}
    """The whole environment; empty means a minimal one (PATH, HOME, LANG, TMPDIR)."""
    cwd: str = ""
    log: str
    """File that gets its output, appended."""
    stop_grace_s: float = 10
    """Seconds between SIGTERM and SIGKILL."""
    cores: list[int] = []
    """Cores that it is pinned to; empty: all."""
    memory_bytes: int = 0
    """Resident memory above which it is killed, looked at five times a second; 0: no limit."""
    restart: bool = False
    """Start it again when it ends without having been asked to."""


class ProcessInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a process."""

    name: str
    pid: int
    started_ticks: int
    """Clock ticks since boot: with the pid it names this very process."""
    log: str
    running: bool
    exit_code: int | None = None
    """Negative: killed by that signal. None while it runs."""
    restarts: int = 0


class Hello(msgspec.Struct, frozen=True, tag="hello"):
    """A lease file has been taken; answered with ok only if the cluster stays for it."""

    lease: str


class Bye(msgspec.Struct, frozen=True, tag="bye"):
    """A lease is given back. ``ending`` in the answer says that it was the last one."""

    lease: str


class StartProcess(msgspec.Struct, frozen=True, tag="start_process"):
    spec: ProcessSpec
    lease: str = ""
    """Owner: it is stopped when that lease ends. Empty: the cluster itself."""
    rank: int = 9
    """Stopping order: highest first."""


class ShareProcess(msgspec.Struct, frozen=True, tag="share_process"):
    """A running process gets one more owner: it is stopped when the last of its owners' leases has ended."""

    name: str
    lease: str


class StopProcess(msgspec.Struct, frozen=True, tag="stop_process"):
    name: str


class Keep(msgspec.Struct, frozen=True, tag="keep"):
    """Whether the cluster stays when nobody holds a lease on it."""

    on: bool


class StatusWanted(msgspec.Struct, frozen=True, tag="status"):
    pass


class Down(msgspec.Struct, frozen=True, tag="down"):
    """Stop everything, whoever holds a lease."""


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
    """Nobody answers on the cluster's socket."""


def ask(directory: Path, request: Request, *, timeout_s: float = 60.0) -> Answer:
    """Send one request and return the answer. Raises SupervisorGone, or ClusterError when it is refused."""
    try:
        with _connect(directory, timeout_s) as connection:
            connection.sendall(msgspec.json.encode(request) + b"\n")
            line = connection.makefile("rb").readline()
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
        raise ClusterError(answer.error)
    return answer


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
