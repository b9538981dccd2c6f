"""Where clusters live on disk, and what can be told from there: which run, which are stale, how to clear those.

Each cluster has a folder, 0700: ``cluster.json`` (what it is), ``supervisor.json`` (who owns its processes),
``processes.json``, leases, keys, logs. The supervisor removes it at the end; what a killed one left is cleared here.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import signal
import tempfile
from pathlib import Path
from typing import TypeVar

import msgspec

from ..endpoints import Address
from ..errors import ClusterError, UsageError
from ..kube.access import Access
from ..whole_files import write_private
from . import at_end, locks, processes
from .protocol import ProcessInfo

T = TypeVar("T")

_NAME = re.compile(r"[a-z0-9]([-a-z0-9_.]{0,61}[a-z0-9])?")
_GONE_S = 30.0
_TMPFS = Path("/dev/shm")
_TMPFS_FREE_BYTES = 2 * 1024**3
_DATA_PREFIX = "grovescale-data-"


class Owner(msgspec.Struct, frozen=True, kw_only=True):
    """The supervisor of a cluster; content of ``supervisor.json``."""

    pid: int
    started_ticks: int
    boot_id: str
    """Start ticks count from a boot, so they name a process within that one only."""


class Container(msgspec.Struct, frozen=True, kw_only=True):
    """The container, on this machine, that is the cluster's one real node."""

    engine: str
    """Executable that speaks to it: ``docker`` or ``podman``."""
    name: str


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster that is ready; content of ``cluster.json``."""

    name: str
    backend: str
    definition_digest: str
    server: str
    kubernetes: str
    nodes: int
    identities: dict[str, str]
    audit_log: str
    """Empty where there is none."""
    facts: dict[str, str | int | float | bool]
    binaries: dict[str, str] = {}
    """What runs it, name → path on this machine; empty where that is not known."""
    metrics: dict[str, Address] = {}
    """Where its components serve their metrics, as far as this machine can reach them."""
    others_use_it: bool = False
    """People other than this user may run tests on it, or anything else: turns are taken with a Lease object there."""
    pools: dict[str, int] = {}
    """Prefix → number of the simulated nodes, ``<prefix>-0`` and so on, of a cluster that has other nodes as well."""
    on_loopback: bool = True
    """Whether its API server is on this machine: only then does it reach what listens on loopback here."""
    standing: bool = False
    """Made by ``grovescale up``. Any other cluster belongs to the run that made it."""
    container: Container | None = None
    """Where its processes, and those of its real pods, can be looked at from outside."""


def root() -> Path:
    """Return the state folder: ``$GROVESCALE_STATE_DIR``, else the user's for this program."""
    if folder := os.environ.get("GROVESCALE_STATE_DIR"):
        return Path(folder).absolute()
    # Imported late: the supervisor, which starts with every cluster, never needs it.
    import platformdirs

    return Path(platformdirs.user_state_dir("grovescale"))


def directory(name: str) -> Path:
    """Return a cluster's folder; raises UsageError for a name that cannot be one."""
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} cannot name a cluster",
            next_step="Use up to 63 lower case letters, digits, '-', '_' and '.', with a letter or digit at the ends.",
        )
    return root() / "clusters" / name


def start_lock(folder: Path) -> Path:
    """Return the lock file that one start or clean-up of a cluster holds at a time."""
    return folder.parents[1] / "locks" / f"{folder.name}.lock"


def names() -> list[str]:
    """Return the names of all clusters there is anything of, stale ones included."""
    folder = root() / "clusters"
    return sorted(entry.name for entry in folder.iterdir() if entry.is_dir()) if folder.is_dir() else []


def remove_unused_locks() -> None:
    """Remove lock files that killed starts and killed runs left: of no cluster that exists, and held by no process."""
    for path in (*root().glob("locks/*.lock"), *root().glob("runs/*.lock")):
        lock = locks.take(path, wait=False)
        if lock is None:
            continue
        with lock:
            if not (root() / "clusters" / path.stem).exists():
                path.with_suffix(".groups").unlink(missing_ok=True)
                locks.remove(path)


def digest(content: bytes) -> str:
    """Return a short name for what a cluster was made from, to tell whether two asked for the same."""
    return hashlib.sha256(content).hexdigest()[:16]


def owner(folder: Path) -> Owner | None:
    """Return the supervisor of a cluster if it lives."""
    found = _read(folder / "supervisor.json", Owner)
    if found is None or found.boot_id != processes.boot_id():
        return None
    return found if processes.alive(found.pid, found.started_ticks) else None


def facts(folder: Path) -> Facts | None:
    """Return what a cluster is, once it is ready."""
    return _read(folder / "cluster.json", Facts)


def write_access(folder: Path, role: str, access: Access) -> None:
    """Keep the credentials of a role with the cluster. 0600: they are secrets."""
    (folder / "access").mkdir(mode=0o700, exist_ok=True)
    write(folder / "access" / f"{role}.json", access)


def access(folder: Path, role: str) -> Access:
    """Return the credentials of ``harness`` or ``recorder``, whatever the backend made them from."""
    return msgspec.json.decode((folder / "access" / f"{role}.json").read_bytes(), type=Access)


def access_files(folder: Path) -> Path:
    """Return where the harness' credentials are kept as files of their own (``kube/access_files.py``)."""
    return folder / "access" / "files"


def process_list(folder: Path) -> dict[str, ProcessInfo]:
    """Return the processes of a cluster by name, as the supervisor wrote them last."""
    try:
        return msgspec.json.decode((folder / "processes.json").read_bytes(), type=dict[str, ProcessInfo])
    except FileNotFoundError:
        return {}


def write(path: Path, content: object) -> None:
    """Write JSON that was never readable by others, whole or not at all."""
    write_private(path, msgspec.json.encode(content))


def data_in_memory() -> bool:
    """Return whether the API's data has room on tmpfs."""
    return _TMPFS.is_dir() and shutil.disk_usage(_TMPFS).free >= _TMPFS_FREE_BYTES


def make_data_folder(folder: Path) -> int | None:
    """Make the folder of the API's data, ``data`` in the cluster's own: on tmpfs when there is room.

    Returns the locked descriptor of one on tmpfs, which the supervisor holds as long as it lives (``orphaned_data``).
    """
    link = folder / "data"
    if not data_in_memory():
        link.mkdir(mode=0o700)
        return None
    while True:
        made = Path(tempfile.mkdtemp(prefix=_DATA_PREFIX, dir=_TMPFS))
        if (lock := locks.take_folder(made)) is not None:
            link.symlink_to(made)
            return lock


def data_folder(folder: Path) -> Path | None:
    """Return the folder of the API's data if it lies outside the cluster's own (on tmpfs)."""
    link = folder / "data"
    return link.readlink() if link.is_symlink() else None


def orphaned_data() -> list[Path]:
    """Remove this user's data on tmpfs that no supervisor holds, and return what was removed.

    The lock alone tells: a path means something else in another mount namespace, as that of a container.
    """
    removed = []
    for entry in _TMPFS.glob(f"{_DATA_PREFIX}*"):
        lock = locks.take_folder(entry)
        if lock is None:
            continue
        try:
            # What is left for whatever reason, as files of another user's in it, must not keep a run from starting.
            shutil.rmtree(entry, ignore_errors=True)
        finally:
            os.close(lock)
        if not entry.exists():
            removed.append(entry)
    return removed


def remove(folder: Path) -> None:
    """Remove a cluster's files. Its processes must be gone."""
    if (data := data_folder(folder)) is not None:
        shutil.rmtree(data, ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)
    if folder.exists():
        # A process that had just ended may have written once more.
        shutil.rmtree(folder)


def clear_stale(folder: Path) -> list[str]:
    """Kill and remove all that a killed supervisor left; return what was found, in words. Never touches others.

    Call with the start lock held and no supervisor alive.
    """
    found = []
    listed = {info.name: (info.pid, info.started_ticks) for info in process_list(folder).values() if info.running}
    left = {*listed.values(), *processes.marked(folder)}
    for pid, ticks in sorted(left):
        if processes.kill(pid, ticks, signal.SIGKILL):
            found.append(f"killed process {pid}")
            if not processes.wait_gone(pid, ticks, _GONE_S):
                raise ClusterError(
                    f"process {pid} of a former cluster cannot be killed", next_step="Restart the machine."
                )
    if at_end.planned(folder):
        at_end.run(folder)
        found.append("cleared up after it")
    if folder.exists():
        found.append(f"removed {folder}")
        remove(folder)
    return found


def _read(path: Path, kind: type[T]) -> T | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except FileNotFoundError:
        return None
