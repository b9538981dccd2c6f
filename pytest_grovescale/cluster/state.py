"""State folders of clusters on disk: which clusters run, which are stale, and the removal of stale ones.

Each cluster has a folder, 0700: ``cluster.json`` (its facts), ``supervisor.json`` (the owner of its processes),
``processes.json``, leases, keys, logs. The supervisor removes it at the end; this module clears the folder of a killed
supervisor.
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

from .. import procfs
from ..atomic_write import write_private
from ..endpoints import Address
from ..errors import ClusterError, UsageError
from ..kube.access import Access
from . import locks, processes, teardown_plan
from .processes import ProcessInfo

T = TypeVar("T")

_NAME = re.compile(r"[a-z0-9]([-a-z0-9_.]{0,61}[a-z0-9])?")
_GONE_S = 30.0
_TMPFS = Path("/dev/shm")
_TMPFS_FREE_BYTES = 2 * 1024**3
_DATA_PREFIX = "grovescale-data-"


SUPERVISOR = "pytest_grovescale.cluster.supervisor"
"""The supervisor's module; its first argument is the cluster's folder."""


class Owner(msgspec.Struct, frozen=True, kw_only=True):
    """The supervisor of a cluster; content of ``supervisor.json``."""

    pid: int
    started_ticks: int
    boot_id: str
    """Start ticks count from a boot, so they identify a process within that boot only."""


CONTAINER_PROCESSES = "container_processes.json"
"""File of a cluster's folder with the processes of its container, in the format of ``processes.json``."""


class Container(msgspec.Struct, frozen=True, kw_only=True):
    """The container on this machine that is the cluster's only real node."""

    engine: str
    """Executable of its engine: ``docker`` or ``podman``."""
    name: str


Flat = dict[str, str | int | float | bool]
"""Facts by name."""


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """Facts about a running cluster; content of ``cluster.json``."""

    name: str
    backend: str
    definition_digest: str
    server: str
    kubernetes: str
    nodes: int
    identities: dict[str, str]
    audit_log: str
    """Empty if there is none."""
    facts: Flat
    binaries: dict[str, str] = {}
    """Binaries of its components, name → path on this machine; empty if unknown."""
    metrics: dict[str, Address] = {}
    """Metrics endpoints of its components that this machine can reach."""
    others_use_it: bool = False
    """Whether others may run tests or other workloads on it: a Lease object in the cluster is the lock then."""
    pools: dict[str, int] = {}
    """Prefix → number of the simulated nodes, ``<prefix>-0`` and so on, of a cluster that has other nodes as well."""
    on_loopback: bool = True
    """Whether its API server is on this machine: only then can it reach listeners on loopback."""
    standing: bool = False
    """Whether ``grovescale up`` created it. Any other cluster belongs to the run that created it."""
    container: Container | None = None
    """Container in which its processes, and those of its real pods, are visible from this machine."""


def root() -> Path:
    """Return the state folder: ``$GROVESCALE_STATE_DIR``, else the user's state folder of grovescale."""
    if folder := os.environ.get("GROVESCALE_STATE_DIR"):
        return Path(folder).absolute()
    # Imported late: the supervisor, which starts with every cluster, never needs it.
    import platformdirs

    return Path(platformdirs.user_state_dir("grovescale"))


def directory(name: str) -> Path:
    """Return a cluster's folder; raises UsageError for an invalid name."""
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} cannot name a cluster",
            next_step="Use up to 63 lower case letters, digits, '-', '_' and '.', with a letter or digit at the ends.",
        )
    return root() / "clusters" / name


def start_lock(folder: Path) -> Path:
    """Return the lock file that serializes starts and clean-ups of a cluster."""
    return folder.parents[1] / "locks" / f"{folder.name}.lock"


def names() -> list[str]:
    """Return the names of all clusters that have a folder, stale ones included."""
    folder = root() / "clusters"
    return sorted(entry.name for entry in folder.iterdir() if entry.is_dir()) if folder.is_dir() else []


def remove_unused_locks() -> None:
    """Remove lock files of killed starts and runs: without a cluster, and held by no process."""
    for path in (*root().glob("locks/*.lock"), *root().glob("runs/*.lock")):
        lock = locks.take(path, wait=False)
        if lock is None:
            continue
        with lock:
            if not (root() / "clusters" / path.stem).exists():
                path.with_suffix(".groups").unlink(missing_ok=True)
                locks.remove(path)


def digest(content: bytes) -> str:
    """Return a short digest of the bytes a cluster was created from, to compare two of them."""
    return hashlib.sha256(content).hexdigest()[:16]


def owner(folder: Path) -> Owner | None:
    """Return the supervisor of a cluster if it is alive; where its file is damaged or lost, by its command line.

    A live cluster is never taken for a dead one, whose remains are cleared.
    """
    recorded = _read(folder / "supervisor.json", Owner)
    if recorded is None and any((folder / name).exists() for name in ("supervisor.json", "cluster.json")):
        return _by_command_line(folder)
    if recorded is None or recorded.boot_id != processes.boot_id():
        return None
    return recorded if processes.alive(recorded.pid, recorded.started_ticks) else None


def _by_command_line(folder: Path) -> Owner | None:
    for entry in Path("/proc").glob("[0-9]*"):
        arguments = procfs.read_bytes(f"{entry}/cmdline").split(b"\0")
        if SUPERVISOR.encode() in arguments and os.fsencode(folder) in arguments:
            pid = int(entry.name)
            if ticks := procfs.started_ticks(pid):
                return Owner(pid=pid, started_ticks=ticks, boot_id=processes.boot_id())
    return None


def facts(folder: Path) -> Facts | None:
    """Return the facts about a cluster; None until it is ready, and where its file is damaged."""
    return _read(folder / "cluster.json", Facts)


def refuse_damaged(folder: Path) -> None:
    """Raise ClusterError where the facts about a cluster are there and cannot be read."""
    if facts(folder) is None and (file := folder / "cluster.json").exists():
        raise ClusterError(f"{file} is damaged", next_step=f"Make the cluster again: grovescale down {folder.name}")


def write_access(folder: Path, role: str, access: Access) -> None:
    """Store the credentials of a role with the cluster. 0600: they are secrets."""
    (folder / "access").mkdir(mode=0o700, exist_ok=True)
    write(folder / "access" / f"{role}.json", access)


def access(folder: Path, role: str) -> Access:
    """Return the credentials of ``harness`` or ``recorder``."""
    return msgspec.json.decode((folder / "access" / f"{role}.json").read_bytes(), type=Access)


def access_files(folder: Path) -> Path:
    """Return the folder of the harness' credential files (``kube/access.py``)."""
    return folder / "access" / "files"


def process_list(folder: Path) -> dict[str, ProcessInfo]:
    """Return the processes of a cluster by name, as last written by the supervisor; none where that is damaged."""
    return _read(folder / "processes.json", dict[str, ProcessInfo]) or {}


def write(path: Path, content: object) -> None:
    """Write JSON atomically, never readable by others."""
    write_private(path, msgspec.json.encode(content))


def data_in_memory() -> bool:
    """Return whether tmpfs has space for etcd's data."""
    return _TMPFS.is_dir() and shutil.disk_usage(_TMPFS).free >= _TMPFS_FREE_BYTES


def make_data_folder(folder: Path) -> int | None:
    """Create the folder of etcd's data, ``data`` in the cluster's own: on tmpfs if there is space.

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
    """Return the folder of etcd's data if it lies outside the cluster's own (on tmpfs)."""
    link = folder / "data"
    return link.readlink() if link.is_symlink() else None


def orphaned_data() -> list[Path]:
    """Remove this user's data on tmpfs that no supervisor holds, and return the removed folders.

    Only the lock counts: a path differs in another mount namespace, as that of a container.
    """
    removed = []
    for entry in _TMPFS.glob(f"{_DATA_PREFIX}*"):
        lock = locks.take_folder(entry)
        if lock is None:
            continue
        try:
            # A failed removal, as of another user's files, must not block a run's start.
            shutil.rmtree(entry, ignore_errors=True)
        finally:
            os.close(lock)
        if not entry.exists():
            removed.append(entry)
    return removed


def remove(folder: Path) -> None:
    """Remove a cluster's files. Its processes must have ended."""
    if (data := data_folder(folder)) is not None:
        shutil.rmtree(data, ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)
    if folder.exists():
        # A process may have written once more before its end.
        shutil.rmtree(folder)


def clear_stale(folder: Path) -> list[str]:
    """Kill and remove all that a killed supervisor left; return what was done, as text. Never touches others.

    Requires the start lock, and a supervisor that has ended.
    """
    actions = []
    listed = {info.name: (info.pid, info.started_ticks) for info in process_list(folder).values() if info.running}
    left = {*listed.values(), *processes.marked(folder)}
    for pid, ticks in sorted(left):
        if processes.kill(pid, ticks, signal.SIGKILL):
            actions.append(f"killed process {pid}")
            if not processes.wait_gone(pid, ticks, _GONE_S):
                raise ClusterError(
                    f"process {pid} of a former cluster cannot be killed", next_step="Restart the machine."
                )
    if teardown_plan.planned(folder):
        teardown_plan.run(folder)
        actions.append("cleared up after it")
    if folder.exists():
        actions.append(f"removed {folder}")
        remove(folder)
    return actions


def _read(path: Path, kind: type[T]) -> T | None:
    """Return the content of a file; None where it is missing or damaged, as after a power cut."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (FileNotFoundError, msgspec.MsgspecError, UnicodeDecodeError):
        return None
