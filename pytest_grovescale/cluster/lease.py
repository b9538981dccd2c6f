"""Leases: who uses a cluster. A locked file each, so that the kernel gives it back when its holder dies."""

from __future__ import annotations

import os
import secrets
import sys
import time
from pathlib import Path
from typing import BinaryIO

import msgspec

from . import locks

FOLDER = "leases"


class Holder(msgspec.Struct, frozen=True, kw_only=True):
    """Who took a lease; the content of its file."""

    pid: int
    run_id: str = ""
    """Run whose namespaces are removed when the holder dies without giving the lease back."""
    command: str = ""
    since: float = 0.0
    """Seconds since the epoch."""


class Lease:
    """A lease that this process holds."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self.id = path.name
        self.path = path
        self._file = file

    def release(self) -> None:
        """Give it back. Idempotent. Gone before it is unlocked: that tells a release from a death."""
        self.path.unlink(missing_ok=True)
        self._file.close()

    @property
    def released(self) -> bool:
        return self._file.closed


def take(directory: Path, *, run_id: str = "") -> Lease:
    """Take a lease on the cluster in ``directory``."""
    name = f"{os.getpid()}-{secrets.token_hex(4)}"
    folder = directory / FOLDER
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    hidden = folder / f".{name}"
    file = locks.take(hidden)
    assert file is not None
    holder = Holder(pid=os.getpid(), run_id=run_id, command=" ".join(sys.argv)[:200], since=time.time())
    file.write(msgspec.json.encode(holder))
    file.flush()
    # Under its final name it is locked from the first moment on: unlocked there means dead.
    path = hidden.rename(folder / name)
    return Lease(path, file)


def names(directory: Path) -> list[str]:
    """Return the ids of all leases, held or left by the dead."""
    try:
        entries = sorted(entry.name for entry in (directory / FOLDER).iterdir())
    except FileNotFoundError:
        return []
    return [name for name in entries if not name.startswith(".")]


def holder(directory: Path, name: str) -> Holder | None:
    """Return who took a lease; None when its file is gone."""
    try:
        return msgspec.json.decode((directory / FOLDER / name).read_bytes(), type=Holder)
    except FileNotFoundError:
        return None


def is_held(directory: Path, name: str) -> bool:
    """Return whether the holder lives and has not given the lease back."""
    return locks.is_held(directory / FOLDER / name)
