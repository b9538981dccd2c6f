"""What the keeper of an operator's pods is told, and what it tells: two files in the operator's folder.

Both sides may outlive each other: the keeper goes on when the test process is killed, and a second test process finds
out from the same files.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from ...cluster.handle import ProcessInfo
from ...cluster.state import Container
from ...whole_files import write_private
from ..manifests import Object
from .replicas import Replica

_TASK = "keeper.json"
_STATE = "pods.json"
PROCESSES = "processes.json"
"""Of the same form as the supervisor's list; for the recorder."""


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """What the keeper keeps."""

    operator: str
    cluster: str
    """Folder of the cluster, which holds the credentials."""
    namespace: str
    deployment: str
    selector: str
    container: str
    log: str
    lease: str | None = None
    """``namespace/name``; empty: the one in the pods' namespace that one of them holds; None: there is none."""
    node: Container | None = None
    """The container on this host that the pods run in, where that is so: their processes are processes of this host."""
    forwards: list[int] = []
    """Ports of the container that ports of this host are to lead to."""
    configurations: list[Object] = []
    """Webhook configurations: they go before those who answer them."""


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """The pods as the keeper last saw them."""

    replicas: dict[str, Replica] = {}
    """By the pod's name."""
    leader: str = ""
    """Pod; empty: none works now."""
    lease: str = ""
    """``namespace/name`` of the Lease that says so; empty: none does."""
    live: bool = False
    """Whether all that was there has been seen."""
    forwards: dict[int, int] = {}
    """Port of the container → port of this host that leads there."""
    problem: str = ""
    """Why the pods cannot be followed."""

    @property
    def stuck(self) -> str:
        """Why the operator does not work and will not by itself; empty: it works, or may still."""
        if any(replica.running and not replica.stuck for replica in self.replicas.values()):
            return ""
        return "; ".join(f"{name}: {replica.stuck}" for name, replica in self.replicas.items() if replica.stuck)


def write_task(folder: Path, task: Task) -> None:
    """Tell the keeper what to keep."""
    write_private(folder / _TASK, msgspec.json.encode(task))


def task(folder: Path) -> Task:
    """Return what a keeper is to keep."""
    return msgspec.json.decode((folder / _TASK).read_bytes(), type=Task)


def write(folder: Path, kept: Kept) -> None:
    """Tell how the pods are."""
    write_private(folder / _STATE, msgspec.json.encode(kept))


def read(folder: Path) -> Kept:
    """Return how the pods are; of a keeper that has not said anything yet, nothing."""
    try:
        return msgspec.json.decode((folder / _STATE).read_bytes(), type=Kept)
    except FileNotFoundError:
        return Kept()


def write_processes(folder: Path, found: dict[str, ProcessInfo]) -> None:
    """Tell which processes of this host are the operator's."""
    write_private(folder / PROCESSES, msgspec.json.encode(found))


def processes(folder: Path) -> dict[str, ProcessInfo]:
    """Return the operator's processes on this host by name: ``operator``, the one that works, and ``replica/<pod>``."""
    try:
        return msgspec.json.decode((folder / PROCESSES).read_bytes(), type=dict[str, ProcessInfo])
    except FileNotFoundError:
        return {}
