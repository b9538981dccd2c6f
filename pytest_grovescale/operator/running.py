"""The one operator that runs on a cluster: what is known of it, kept in the cluster's folder, and who holds it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec

from ..cluster import locks
from ..cluster.handle import Cluster, ProcessSpec
from ..whole_files import write_private
from .command import Launch
from .manifests import Object
from .shape import OperatorDefinition

PROCESS = "operator"
"""Name of the process at the supervisor and in recordings. One operator per cluster at a time."""


class Running(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of the operator that runs on a cluster; kept there so that other processes can share it."""

    definition: OperatorDefinition
    spec: ProcessSpec
    launch: Launch
    provided: dict[str, str]
    log: str
    folder: str
    """Holds its kubeconfig, token and certificates: 0700, gone when it has stopped."""
    ours: list[Object]
    """Objects that its start put into the cluster, in order."""
    configurations: list[Object]
    """Its webhook configurations; they must not outlive it."""
    pid: int
    """Of the process that started it."""


class Hold:
    """A share in the running operator, dropped by the kernel when this process dies."""

    def __init__(self, cluster: Cluster) -> None:
        self._path = cluster.directory / f"{PROCESS}.users"
        self._file: BinaryIO | None = locks.take(self._path, shared=True)

    @property
    def released(self) -> bool:
        return self._file is None

    def release(self) -> bool:
        """Give the share back; return whether it was the last one."""
        if self._file is None:
            return False
        self._file.close()
        self._file = None
        last = locks.take(self._path, wait=False)
        if last is None:
            return False
        last.close()
        return True


@contextlib.contextmanager
def transition(cluster: Cluster) -> Iterator[None]:
    """One start or stop at a time on a cluster."""
    with locks.held(cluster.directory / f"{PROCESS}.lock"):
        yield


def state_file(cluster: Cluster) -> Path:
    """Return where that is kept."""
    return cluster.directory / f"{PROCESS}.json"


def write(cluster: Cluster, running: Running) -> None:
    """Keep what is known of the operator that is started."""
    write_private(state_file(cluster), msgspec.json.encode(running).decode())


def known(cluster: Cluster) -> Running | None:
    """Return the operator that was started last and not stopped since; it may be dead."""
    try:
        return msgspec.json.decode(state_file(cluster).read_bytes(), type=Running)
    except FileNotFoundError:
        return None
