"""Leases: the users of a cluster. Each is a locked file, so that the kernel releases it when its holder dies.

Its content is lines of JSON, each a whole `Holder`; the last complete line is valid. Lines are appended, since
replacing the file would drop its lock.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import sys
import time
from pathlib import Path
from typing import BinaryIO

import msgspec

from .. import redaction
from . import locks, processes

FOLDER = "leases"


class Holder(msgspec.Struct, frozen=True, kw_only=True):
    """Holder of a lease."""

    pid: int
    user: str = ""
    """Login name."""
    run_id: str = ""
    """Run whose namespaces are removed if the holder dies without a release."""
    command: str = ""
    since: float = 0.0
    """Seconds since the epoch."""
    test: str = ""
    """Id of the test that currently uses the cluster; empty between tests."""


class Lease:
    """A lease that this process holds."""

    def __init__(self, path: Path, file: BinaryIO, holder: Holder) -> None:
        self.id = path.name
        self.path = path
        self._file = file
        self._holder = holder

    def note_test(self, test: str) -> None:
        """Record the test that currently uses the cluster; empty: none. Does nothing on a released lease."""
        if self.released or test == self._holder.test:
            return
        self._holder = msgspec.structs.replace(self._holder, test=test)
        _append(self._file, self._holder)

    def release(self) -> None:
        """Release the lease. Idempotent. Removes the file before the unlock, which distinguishes it from a death."""
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
    holder = Holder(
        pid=os.getpid(),
        user=processes.login(os.getuid()),
        run_id=run_id,
        command=" ".join(redaction.arguments(sys.argv))[:200],
        since=time.time(),
    )
    _append(file, holder)
    # Locked before it gets its final name: an unlocked file under that name means a dead holder.
    path = hidden.rename(folder / name)
    return Lease(path, file, holder)


def names(directory: Path) -> list[str]:
    """Return the ids of all leases, those of dead holders included."""
    try:
        entries = sorted(entry.name for entry in (directory / FOLDER).iterdir())
    except FileNotFoundError:
        return []
    return [name for name in entries if not name.startswith(".")]


def holder(directory: Path, name: str) -> Holder | None:
    """Return the holder of a lease; None if its file is gone or invalid (a full disk, another version's)."""
    try:
        lines = (directory / FOLDER / name).read_bytes().splitlines(keepends=True)
    except FileNotFoundError:
        return None
    # The first line is complete before the file has its name; a later one may be half written.
    whole = [line for line in lines if line.endswith(b"\n")]
    with contextlib.suppress(msgspec.MsgspecError, UnicodeDecodeError):
        return msgspec.json.decode(whole[-1], type=Holder) if whole else None
    return None


def is_held(directory: Path, name: str) -> bool:
    """Return whether the holder lives and has not released the lease."""
    return locks.is_held(directory / FOLDER / name)


def _append(file: BinaryIO, holder: Holder) -> None:
    file.write(msgspec.json.encode(holder) + b"\n")
    file.flush()
