"""Folders that a run writes, the options that choose them, and the operating system's errors in words."""

from __future__ import annotations

import errno
import os
import sysconfig
import tempfile
import types
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from .cluster import binaries, state
from .cluster.backend import backend
from .cluster.definition import ClusterDefinition
from .errors import MachineError

MB = 1_000_000

REPORTS_BYTES = 64 * MB
"""A recording takes 3 kB for each pod (docs/large-clusters.md), result and page less: enough for some 10,000 pods."""

STATE_BYTES = 64 * MB
"""The API server's audit log takes as much as the recording, logs and keys less."""

DATA_BYTES = 256 * MB
"""Beside `STATE_BYTES`, where etcd's data cannot be in memory: it allocates two 64 MB segments at its start, and a file
that grows."""

CACHE_BYTES = 600 * MB
"""Five binaries of about 100 MB each, beside the archive that one of them comes in."""

_FULL_BYTES = 1 * MB
"""Free bytes below which most writes to a disk fail."""

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_REFUSED = (errno.EACCES, errno.EPERM, errno.EROFS, errno.EIO, errno.ESTALE, errno.ELOOP, errno.ENAMETOOLONG)
_NO_SUCH_PLACE = (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENOTEMPTY)
"""The machine's errors only in a folder that a run writes; elsewhere they are mistakes of the code that opened the
file."""

_LIMITS = {
    errno.EAGAIN: "Raise the limit of processes: ulimit -u, or that of the container or the unit (pids.max).",
    errno.EMFILE: "Raise the limit of open files: ulimit -n.",
    errno.ENFILE: "Raise the machine's limit of open files: sysctl fs.file-max.",
    errno.ENOMEM: "Free some memory, or raise the limit of the container (memory.max) or of the shell (ulimit -v).",
}
_NO_TEMPORARY = "No usable temporary directory"
_PACKAGE = f"{Path(__file__).resolve().parent}/"
_LIBRARIES = tuple({f"{path}/" for path in sysconfig.get_paths().values()} | {"<frozen "})


class Folder(NamedTuple):
    """A folder that a run writes."""

    what: str
    path: Path
    chosen_by: str
    """The option or variable that chooses it, as given."""
    least_bytes: int = 0
    """Bytes that must be free on its disk at the start."""


def reports_folder(path: Path, least_bytes: int = 0) -> Folder:
    """Return the folder of recordings and results."""
    return Folder("the reports folder", path, "--grovescale-reports=DIR", least_bytes)


def state_folder(least_bytes: int = 0) -> Folder:
    """Return the folder of clusters and locks."""
    return Folder("the state folder", state.root(), "GROVESCALE_STATE_DIR=DIR", least_bytes)


def cache_folder(least_bytes: int = 0) -> Folder:
    """Return the folder of binaries."""
    return Folder("the cache folder", binaries.cache_root(), "GROVESCALE_CACHE_DIR=DIR", least_bytes)


def to_start(definition: ClusterDefinition) -> list[Folder]:
    """Return the folders that the start of a cluster writes, with the space that it needs there.

    A cache that holds all its binaries is only read. Raises UsageError for an invalid version.
    """
    data = DATA_BYTES if backend(definition.backend).data_in_state_folder and not state.data_in_memory() else 0
    found = [state_folder(STATE_BYTES + data)]
    names = [name for name in backend(definition.backend).binaries(definition) if name not in definition.binaries]
    return [*found, *to_make(names, definition.kubernetes)]


def to_make(names: Iterable[str], kubernetes: str) -> list[Folder]:
    """Return the cache folder, with the space it needs, where one of these binaries is missing."""
    there = all(binaries.is_present(name, kubernetes) for name in names)
    return [] if there else [cache_folder(CACHE_BYTES)]


def refuse_unwritable(needed: Sequence[Folder]) -> None:
    """Raise MachineError for the first folder that cannot be written, or has too little space left."""
    for folder in needed:
        if wrong := wrong_with(folder):
            message, _, next_step = wrong.partition("\n  → ")
            raise MachineError(message, next_step=next_step)


def wrong_with(folder: Folder) -> str:
    """Return why a folder cannot be written, or that its disk has too little space left; empty if it is usable.

    Nothing is left there, not even a folder that did not exist before.
    """
    if not _is_text(folder.path):
        # Paths are written into JSON files, and the environment of programs.
        name = os.fsencode(folder.path).decode(errors="backslashreplace")
        return (
            f"{folder.what} {name} cannot be used: its name is not text in UTF-8\n"
            f"  → Rename it, or choose another folder: {folder.chosen_by}"
        )
    try:
        place = next(path for path in (folder.path, *folder.path.parents) if path.exists() or path.is_symlink())
        with tempfile.TemporaryFile(dir=place) as file:
            file.write(bytes(4096))
            file.flush()
        disk = os.statvfs(place)
    except OSError as error:
        return _cannot_be_written(folder, error)
    free = disk.f_bavail * disk.f_frsize
    if free < folder.least_bytes:
        return (
            f"{folder.what} {folder.path}: its disk has {free / MB:,.1f} MB left, and a run needs"
            f" {folder.least_bytes / MB:,.0f} MB\n  → Free some space, or choose another folder: {folder.chosen_by}"
        )
    if disk.f_files and not disk.f_favail:
        return (
            f"{folder.what} {folder.path}: its disk has no inode left\n  → Remove some files, or choose another"
            f" folder: {folder.chosen_by}"
        )
    return ""


def _is_text(path: Path) -> bool:
    try:
        str(path).encode()
    except UnicodeEncodeError:
        return False
    return True


def _cannot_be_written(folder: Folder, error: OSError) -> str:
    home = " By default it is in the home folder (HOME)." if folder.path.is_relative_to(_home()) else ""
    why, do = _space(folder.path, error) if error.errno in _FULL else (error.strerror or error, "Make it writable")
    return (
        f"{folder.what} {folder.path} cannot be written: {why}\n"
        f"  → {do}, or choose another folder: {folder.chosen_by}.{home}"
    )


def _space(folder: Path, error: OSError) -> tuple[str, str]:
    """Return why nothing more can be stored in a folder, and what to do: its disk lacks space, or inodes."""
    place = next(path for path in (folder, *folder.parents) if path.exists())
    disk = os.statvfs(place)
    if error.errno == errno.ENOSPC and disk.f_files and not disk.f_favail:
        return "its disk has no inode left", "Remove some files there"
    return error.strerror or str(error), "Free some space there"


def _home() -> Path:
    return Path(os.path.expanduser("~"))  # noqa: PTH111 - `Path.home` raises where there is none


def explained(error: BaseException, reports: Path | None = None) -> MachineError | None:
    """Return the operating system's error, with path and option; None for any other error, a defect of ours.

    ``reports``: the run's folder of reports.
    """
    if isinstance(error, RuntimeError) and "can't start new thread" in str(error):
        return MachineError("no further thread can be started", next_step=_LIMITS[errno.EAGAIN])
    if not isinstance(error, OSError) or error.errno is None:
        return None
    # A bare name may be that of a file in an open folder, which is unknown here.
    path = Path(os.fsdecode(error.filename)) if isinstance(error.filename, str | bytes) else None
    if error.errno in _LIMITS:
        what = "no further process can be started" if error.errno == errno.EAGAIN else path or "the machine refuses"
        return MachineError(f"{what}: {error.strerror}", next_step=_LIMITS[error.errno])
    known = [state_folder(), cache_folder()]
    if reports is not None:
        known.insert(0, reports_folder(reports))
    folder = _holding(path, known) if path is not None and path.is_absolute() else None
    if folder is None and error.errno in _FULL:
        folder = _full(known)
    if folder is not None and error.errno in (*_FULL, *_REFUSED, *_NO_SUCH_PLACE):
        why, do = _space(folder.path, error) if error.errno in _FULL else (error.strerror, "See what became of it")
        return MachineError(
            f"{path or folder.path}: {why}", next_step=f"{do}, or choose another folder: {folder.chosen_by}"
        )
    if _NO_TEMPORARY in str(error):
        return MachineError(str(error.strerror), next_step="Make one of them writable, or choose another: TMPDIR=DIR.")
    if error.errno in (*_FULL, *_REFUSED):
        do = "Free some space" if error.errno in _FULL else "Let this user use it"
        return MachineError(f"{path}: {error.strerror}" if path else str(error.strerror), next_step=f"{do}.")
    return None


def _holding(path: Path, known: Sequence[Folder]) -> Folder | None:
    """Return the innermost folder that a path is in, or leads to."""
    holding = [folder for folder in known if path.is_relative_to(folder.path) or folder.path.is_relative_to(path)]
    return max(holding, key=lambda folder: len(folder.path.parts), default=None)


def _full(known: Sequence[Folder]) -> Folder | None:
    """Return the first folder whose disk is full: the error of a full disk does not name its file."""
    for folder in known:
        if folder.path.exists():
            disk = os.statvfs(folder.path)
            if disk.f_bavail * disk.f_frsize < _FULL_BYTES or (disk.f_files and not disk.f_favail):
                return folder
    return None


def raised_here(error: BaseException) -> bool:
    """Return whether an error came from this package or from code that it called, not from a user's code."""
    for file in reversed(list(_files(error.__traceback__))):
        if file.startswith(_PACKAGE):
            return True
        if not file.startswith(_LIBRARIES):
            return False
    return False


def _files(trace: types.TracebackType | None) -> Iterator[str]:
    while trace is not None:
        yield trace.tb_frame.f_code.co_filename
        trace = trace.tb_next
