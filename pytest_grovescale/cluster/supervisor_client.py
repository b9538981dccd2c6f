"""The supervisor as its users see it: requests over its Unix socket, whether it runs, and how it ended."""

from __future__ import annotations

import asyncio
import os
import socket
import struct
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from .. import log_files, procfs
from ..errors import ClusterError
from ..json_lines import Channel
from ..log_files import what_to_do
from . import processes, state
from .processes import ProcessInfo, ProcessSpec

SOCKET = "supervisor.sock"

_ANSWER_S = 60.0
_STATUS_S = 10.0
_ANSWER_POLL_S = 0.25

T = TypeVar("T")

LOG = "supervisor.log"
ENDING = "ending: "
"""Prefix of the line in the supervisor's log with the reason of an orderly end; a killed one has no such line."""

DOWN = "down"
"""Reason after `ENDING`: a request."""

FAILED = "failed: "
"""Reason after `ENDING`: a control plane component could not be kept running; its fate follows."""

_TAIL_LINES = 10
_TRACE_LINES = 60
_SUPERVISION_POLL_S = 0.1
_LET_GO_S = 0.3


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


class RestartProcess(msgspec.Struct, frozen=True, tag="restart_process"):
    """Stops a process and starts it again as it was."""

    name: str


class Keep(msgspec.Struct, frozen=True, tag="keep"):
    """Sets whether the cluster stays without leases."""

    on: bool


class StatusWanted(msgspec.Struct, frozen=True, tag="status"):
    pass


class Down(msgspec.Struct, frozen=True, tag="down"):
    """Stops all processes, even if there are leases."""


Request = Hello | Bye | StartProcess | ShareProcess | StopProcess | RestartProcess | Keep | StatusWanted | Down


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
            channel: Channel[Answer] = Channel(connection, Answer)
            channel.say(request)
            answer = _answer(channel, directory, pid=_peer(connection), timeout_s=timeout_s)
    except (OSError, TimeoutError) as error:
        raise SupervisorGone(
            f"the supervisor of the cluster in {directory} does not answer: {error}",
            next_step="Clear what is left of it with: grovescale down --all.",
        ) from error
    if answer is None:
        raise SupervisorGone(
            f"the supervisor of the cluster in {directory} ended while it was asked",
            next_step="See grovescale status.",
        )
    if answer.error:
        raise ClusterError(answer.error, next_step=what_to_do(answer.error))
    return answer


def _answer(channel: Channel[Answer], directory: Path, *, pid: int, timeout_s: float) -> Answer | None:
    """Return the supervisor's answer; None if it ended meanwhile. Raises TimeoutError, SupervisorStopped."""
    stopped = processes.StoppedFor(pid)
    now = time.monotonic()
    deadline, next_question = now + timeout_s, now + _ANSWER_S
    while True:
        try:
            return channel.hear(_ANSWER_POLL_S)
        except TimeoutError:
            now = time.monotonic()
        if stopped.too_long():
            raise SupervisorStopped(directory.name, pid)
        if now >= deadline:
            raise TimeoutError(f"timed out after {timeout_s:g} s")
        if now >= next_question:
            ask(directory, StatusWanted(), timeout_s=_STATUS_S)
            next_question = time.monotonic() + _ANSWER_S


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


class Supervision:
    """The supervisor of a cluster's folder; a pidfd shows its end at once.

    Raises ClusterError if none runs.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        owner = state.owner(folder)
        descriptor = processes.open_pidfd(owner.pid, owner.started_ticks) if owner is not None else None
        if owner is None or descriptor is None:
            raise ended_error(folder, f"cluster {folder.name}")
        self.owner = owner
        self._descriptor: int | None = descriptor
        self._stopped = processes.StoppedFor(owner.pid)

    def has_ended(self, within_s: float = 0.0) -> bool:
        """Return whether it has ended, or ends within ``within_s``."""
        return self._descriptor is None or processes.has_ended(self._descriptor, within_s)

    def is_stopped(self) -> bool:
        """Return whether it is currently stopped (SIGSTOP)."""
        return procfs.is_stopped(self.owner.pid)

    def check(self, what: str) -> None:
        """Raise ClusterError if it has ended, SupervisorStopped if it has been stopped for too long.

        ``what``: the consequence for messages: ``cluster run-1 ended while this session used it``.
        """
        if self.has_ended():
            raise ended_error(self.folder, what, pid=self.owner.pid)
        if self._stopped.too_long():
            raise SupervisorStopped(self.folder.name, self.owner.pid)

    def close(self) -> None:
        """Release it. Idempotent; it then counts as ended."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


async def while_running(folder: Path, work: Coroutine[Any, Any, T]) -> T:
    """Return the result of ``work``, unless the supervisor ends, or is stopped for too long, before it.

    In that case ``work`` is cancelled, and an error raised that says how the supervisor ended.
    """
    try:
        supervision = Supervision(folder)
    except ClusterError:
        work.close()
        raise
    task = asyncio.ensure_future(work)
    try:
        while not (await asyncio.wait({task}, timeout=_SUPERVISION_POLL_S))[0]:
            supervision.check(f"cluster {folder.name} ended while it was starting")
        return task.result()
    finally:
        supervision.close()
        if not task.done():
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            # A cancelled watch: its TLS connection needs a few more iterations of the event loop to close.
            await asyncio.sleep(_LET_GO_S)


def how_it_ended(folder: Path, *, pid: int = 0) -> str:
    """Return how an ended supervisor ended, as text, from the files in its folder."""
    pid = pid or _last_pid(folder)
    of = f" (pid {pid})" if pid else ""
    if not folder.parent.exists():
        return f"the state folder {folder.parent} was removed while it ran"
    if not folder.exists() or not (folder / SOCKET).exists():
        return _in_order(_log(folder), of)
    lines = _log(folder)
    if any(line.startswith("Traceback ") for line in lines[-_TRACE_LINES:]):
        return f"its supervisor{of} failed"
    return f"its supervisor was killed{of}"


def ended_error(folder: Path, what: str, *, pid: int = 0) -> ClusterError:
    """Return the error for an ended supervisor, with the end of its log."""
    tail = _log(folder)[-_TAIL_LINES:]
    how = how_it_ended(folder, pid=pid)
    lines = [f"{what}: {how}"]
    # After a stop request, its log only lists the stopped processes.
    if tail and (folder / SOCKET).exists():
        lines += ["last lines of its log:", *(f"  {line}" for line in tail)]
    return ClusterError("\n".join(lines), next_step=log_files.what_to_do(how) or "Run the tests again.")


def _in_order(log: list[str], of: str) -> str:
    said = next((line.partition(ENDING)[2] for line in reversed(log) if ENDING in line), "")
    if said.startswith(FAILED):
        return said.removeprefix(FAILED)
    if said and not said.startswith(DOWN):
        return f"its supervisor{of} was ended by {said}"
    return "it was stopped from outside (grovescale down --force)"


def _last_pid(folder: Path) -> int:
    """Return the pid of the last supervisor, which has ended; 0 if unknown."""
    try:
        return msgspec.json.decode((folder / "supervisor.json").read_bytes(), type=state.Owner).pid
    except FileNotFoundError:
        return 0


def _log(folder: Path) -> list[str]:
    try:
        return (folder / LOG).read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return []
