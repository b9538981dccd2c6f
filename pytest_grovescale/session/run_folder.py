"""A run's folder, which all its xdist workers write into, and the names of the files in it."""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path
from typing import BinaryIO

from ..cluster import locks, state

_LONGEST = 120


class RunFolder:
    """``reports/<run id>``, created with its first file.

    ``concludes``: this process writes the run's result at its end; an xdist worker does not.
    """

    def __init__(self, reports: Path, run_id: str, *, concludes: bool) -> None:
        self.path = reports / run_id
        self._reports = reports
        self._concludes = concludes
        self._open: BinaryIO | None = None

    def part(self, name: str) -> Path:
        """Return one of its folders, created if missing."""
        if self._concludes:
            self.hold_open()
        if not self.path.is_dir():
            self.path.mkdir(parents=True, exist_ok=True)
            _point(self._reports / "latest", self.path.name)
        part = self.path / name
        part.mkdir(exist_ok=True)
        return part

    def claim(self, nodeid: str) -> str:
        """Return a unique name in the folder for the files of one run of a test.

        A rerun of the test gets another one, whichever worker it is on; so do tests whose node ids look alike.
        """
        name, number = file_name(nodeid), 1
        while True:
            claimed = name if number == 1 else f"{name}-{number}"
            try:
                recorder_log(self, claimed).touch(mode=0o600, exist_ok=False)
            except FileExistsError:
                number += 1
            else:
                return claimed

    def hold_open(self) -> None:
        """Mark the folder as open: this process writes the run's result at its end, as long as it lives."""
        self._open = self._open or locks.take(_open_lock(self.path))

    def close(self) -> None:
        """End ``hold_open``. Idempotent."""
        if self._open is not None:
            # What a disk that became read-only keeps, the next run removes.
            with contextlib.suppress(OSError):
                groups_file(self.path).unlink(missing_ok=True)
                locks.remove(_open_lock(self.path))
            self._open.close()
            self._open = None


def recorder_log(folder: RunFolder, name: str) -> Path:
    """Return the file of a recorder's own output, by the name that was claimed for the recording."""
    return folder.part("logs") / f"recorder-{name}.log"


def is_open(folder: Path) -> bool:
    """Return whether the process that writes a run's result lives; removes its files if it was killed."""
    lock = _open_lock(folder)
    if locks.is_held(lock):
        return True
    lock.unlink(missing_ok=True)
    groups_file(folder).unlink(missing_ok=True)
    return False


def groups_file(folder: Path) -> Path:
    """Return the file by which xdist's workers pass their tests' groups to the controller, while the run is open."""
    return _open_lock(folder).with_suffix(".groups")


def file_name(nodeid: str) -> str:
    """Return a short file name that identifies a test."""
    path, parameters, rest = nodeid.partition("[")
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", path.rpartition("/")[2] + parameters + rest).strip("-")[:_LONGEST]


def _open_lock(folder: Path) -> Path:
    return state.root() / "runs" / f"{folder.name}.lock"


def _point(link: Path, target: str) -> None:
    """Point ``reports/latest`` to a run; several runs may do so at once, so the link is replaced, not rewritten."""
    temporary = link.with_name(f".latest-{os.getpid()}")
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(target)
    temporary.replace(link)
