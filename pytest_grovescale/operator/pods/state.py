"""Files between the keeper of an operator's pods and test processes: its task, and its output.

Both sides may outlive each other: the keeper continues when the test process is killed, and a second test process reads
the same files.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from ...atomic_write import write_private
from ...cluster.handle import ProcessInfo
from ...cluster.state import Container
from ..manifests import Object
from .replicas import Replica

_TASK = "keeper.json"
_STATE = "pods.json"
PROCESSES = "processes.json"
"""Same format as the supervisor's list; for the recorder."""


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """Input of the keeper."""

    operator: str
    cluster: str
    """Folder of the cluster, which contains the credentials."""
    namespace: str
    deployment: str
    selector: str
    container: str
    log: str
    lease: str | None = None
    """``namespace/name``; empty: the one in the pods' namespace that one of them holds; None: there is none."""
    node: Container | None = None
    """The container on this host that the pods run in, if any: their processes are then processes of this host."""
    forwards: list[int] = []
    """Ports of the container that need a local forward."""
    configurations: list[Object] = []
    """Webhook configurations: removed before the pods that serve them."""


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """The pods' state at the last update of the keeper."""

    replicas: dict[str, Replica] = {}
    """Replicas by pod name."""
    leader: str = ""
    """Leader pod; empty: none."""
    lease: str = ""
    """``namespace/name`` of the Lease that determines the leader; empty: none does."""
    live: bool = False
    """Whether the initial state is complete."""
    forwards: dict[int, int] = {}
    """Port of the container → local port that forwards to it."""
    problem: str = ""
    """Why the pods cannot be followed."""

    @property
    def stuck(self) -> str:
        """Why the operator does not work and will not recover; empty: it works, or may recover."""
        if any(replica.running and not replica.stuck for replica in self.replicas.values()):
            return ""
        return "; ".join(f"{name}: {replica.stuck}" for name, replica in self.replicas.items() if replica.stuck)


def write_task(folder: Path, task: Task) -> None:
    """Write the keeper's task."""
    write_private(folder / _TASK, msgspec.json.encode(task))


def task(folder: Path) -> Task:
    """Return the keeper's task."""
    return msgspec.json.decode((folder / _TASK).read_bytes(), type=Task)


def write(folder: Path, kept: Kept) -> None:
    """Write the state of the pods."""
    write_private(folder / _STATE, msgspec.json.encode(kept))


def read(folder: Path) -> Kept:
    """Return the state of the pods; empty before the keeper's first update."""
    try:
        return msgspec.json.decode((folder / _STATE).read_bytes(), type=Kept)
    except FileNotFoundError:
        return Kept()


def write_processes(folder: Path, found: dict[str, ProcessInfo]) -> None:
    """Write the operator's processes on this host."""
    write_private(folder / PROCESSES, msgspec.json.encode(found))


def processes(folder: Path) -> dict[str, ProcessInfo]:
    """Return the operator's processes on this host by name: ``operator``, the leader's, and ``replica/<pod>``."""
    try:
        return msgspec.json.decode((folder / PROCESSES).read_bytes(), type=dict[str, ProcessInfo])
    except FileNotFoundError:
        return {}
