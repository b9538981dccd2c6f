"""State of a cluster's supervisor for its users: it runs, it is stopped, or it has ended, and how."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from .. import log_files
from ..errors import ClusterError
from . import processes, protocol, state
from .protocol import SupervisorStopped

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
_LOOK_S = 0.1
_LET_GO_S = 0.3


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
        return processes.is_stopped(self.owner.pid)

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
        while not (await asyncio.wait({task}, timeout=_LOOK_S))[0]:
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
    if not folder.exists() or not (folder / protocol.SOCKET).exists():
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
    if tail and (folder / protocol.SOCKET).exists():
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
