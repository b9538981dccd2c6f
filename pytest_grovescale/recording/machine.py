"""This machine as far as figures depend on it: its hardware, who uses its cores, and the cgroup's CPU limit.

Sources: Documentation/admin-guide/cgroup-v2.rst (``cpu.max``, ``cpu.stat``), Documentation/scheduler/sched-bwc.rst
(``cpu.cfs_quota_us``, ``cpu.cfs_period_us``), cgroups(7) and proc_pid_mountinfo(5).
"""

from __future__ import annotations

import hashlib
import itertools
import os
import platform
import re
from collections.abc import Collection, Iterator
from pathlib import Path, PurePosixPath

from ..procfs import KeptFiles, Read, read_bytes
from .records import CgroupCpu, CoreTimes, Machine, MachineRead

_OCTAL = re.compile(r"\\([0-7]{3})")


def cpu_of(folders: list[Path], read: Read = read_bytes) -> CgroupCpu | None:
    """Return the lowest limit among a cgroup and its ancestors; None when none can be read. ``read``: what reads files.

    The kernel counts throttling at the cgroup that has the quota; its children do not show it.
    """
    limits = [limit for folder in folders if (limit := _limit(str(folder), read)) is not None]
    return min(limits, key=lambda one: float("inf") if one.quota_cores is None else one.quota_cores, default=None)


def folders_of_self(proc: Path = Path("/proc")) -> list[Path]:
    """Return the cgroup folders of this process that have the CPU controller: its own first, then its ancestors.

    In a container that lacks the cgroup mounts or cannot see the path: only the visible folders.
    """
    try:
        memberships = (proc / "self" / "cgroup").read_text(encoding="utf-8").splitlines()
        mounts = list(_mounts((proc / "self" / "mountinfo").read_text(encoding="utf-8")))
    except OSError:
        return []
    for line in memberships:
        _, controllers, path = line.split(":", 2)
        for kind, options, root, point in mounts:
            v1 = kind == "cgroup" and "cpu" in controllers.split(",") and "cpu" in options
            if v1 or (kind == "cgroup2" and not controllers and _has_cpu(point)):
                return list(_upwards(point, _below(path, root)))
    return []


def _limit(folder: str, read: Read) -> CgroupCpu | None:
    try:
        stat = dict(line.split() for line in read(f"{folder}/cpu.stat").splitlines())
        if quota := read(f"{folder}/cpu.cfs_quota_us").strip():
            period = read(f"{folder}/cpu.cfs_period_us")
            throttled_ns = int(stat[b"throttled_time"])
        else:
            quota, period = read(f"{folder}/cpu.max").split()
            throttled_ns = int(stat[b"throttled_usec"]) * 1000
    except (OSError, KeyError, ValueError):
        # The root cgroup has no limit and no such files; unexpected contents do not come from the kernel.
        return None
    return CgroupCpu(
        quota_cores=None if quota in (b"max", b"-1") else int(quota) / int(period), throttled_ns=throttled_ns
    )


def _has_cpu(point: Path) -> bool:
    """Return whether a v2 hierarchy has the CPU controller; on hybrid hosts the v1 hierarchy has it instead."""
    try:
        return "cpu" in (point / "cgroup.controllers").read_text(encoding="ascii").split()
    except OSError:
        return False


def _mounts(mountinfo: str) -> Iterator[tuple[str, list[str], str, Path]]:
    """Yield (type, file system options, root, mount point) of each cgroup mount."""
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        fields, kind = before.split(), after.split()
        if len(fields) > 4 and len(kind) > 2 and kind[0] in ("cgroup", "cgroup2"):
            yield kind[0], kind[2].split(","), _plain(fields[3]), Path(_plain(fields[4]))


def _plain(field: str) -> str:
    return _OCTAL.sub(lambda found: chr(int(found.group(1), 8)), field)


def _below(path: str, root: str) -> PurePosixPath:
    """Return a cgroup's path below a mount of ``root``; the mount itself for a path outside it (as in containers)."""
    cgroup = PurePosixPath(path)
    return cgroup.relative_to(root) if cgroup.is_relative_to(root) else PurePosixPath()


def _upwards(point: Path, below: PurePosixPath) -> Iterator[Path]:
    for part in (below, *below.parents):
        if (folder := point / part).is_dir():
            yield folder


_TICK_NS = 10**9 // os.sysconf("SC_CLK_TCK")


def machine(proc: Path = Path("/proc")) -> Machine:
    """Return the machine's properties; absolute figures are comparable only where the fingerprint is equal.

    The fingerprint holds CPU model, usable cores, memory in GiB, architecture, kernel and Python minor version.
    """
    cpu = _cpu_model(proc / "cpuinfo")
    cores = len(os.sched_getaffinity(0))
    memory = _memory(proc / "meminfo")
    kernel, python = platform.release(), platform.python_version()
    parts = (cpu, cores, round(memory / 2**30), platform.machine(), _minor(kernel), _minor(python))
    fingerprint = hashlib.sha256("|".join(map(str, parts)).encode()).hexdigest()[:12]
    return Machine(fingerprint=fingerprint, cpu=cpu, cores=cores, memory_bytes=memory, kernel=kernel, python=python)


def _cpu_model(path: Path) -> str:
    # ARM has no "model name"; implementer and part numbers name the core.
    wanted = ("model name", "Model", "CPU part")
    found: dict[str, str] = {}
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        key, _, value = line.partition(":")
        found.setdefault(key.strip(), value.strip())
    return next((found[key] for key in wanted if found.get(key)), platform.machine())


def _memory(path: Path) -> int:
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("MemTotal:"):
            return int(line.split()[1]) * 1024
    raise ValueError(f"{path} has no MemTotal")


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


class MachineReader:
    """Reads how the cores of this machine were used."""

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._kept = KeptFiles()
        self._stat = f"{proc}/stat"
        self._pressure = f"{proc}/pressure/cpu"
        self._cgroups = folders_of_self(proc)
        self._cores = {f"cpu{core}".encode() for core in os.sched_getaffinity(0)}

    def read(self, at: int, edge: str = "") -> MachineRead:
        """Return the current counters; None for each that cannot be read here. ``at``: the recorder's time."""
        return MachineRead(
            at=at,
            times=_core_times(self._kept.read, self._stat, self._cores),
            pressure_ns=_pressure_ns(self._kept.read, self._pressure),
            cgroup=cpu_of(self._cgroups, self._kept.read),
            edge=edge,
        )


def _core_times(read: Read, path: str, cores: Collection[bytes]) -> CoreTimes | None:
    """Return the sums over these cores, proc_stat(5); None for a file that is missing, masked or filled with zeros."""
    seen, busy, idle, iowait, steal = 0, 0, 0, 0, 0
    try:
        # The lines of the cores come first; thousands of interrupt counters may follow.
        for line in itertools.takewhile(lambda text: text.startswith(b"cpu"), read(path).splitlines()):
            name, *fields = line.split()
            if name in cores:
                # Guest time is part of user and nice already.
                user, nice, system, idling, waiting, irq, softirq, stolen = map(int, fields[:8])
                seen, busy = seen + 1, busy + user + nice + system + irq + softirq
                idle, iowait, steal = idle + idling, iowait + waiting, steal + stolen
    except (OSError, ValueError):
        return None
    if busy + idle == 0:
        return None
    return CoreTimes(
        cores=seen,
        busy_ns=busy * _TICK_NS,
        idle_ns=idle * _TICK_NS,
        iowait_ns=iowait * _TICK_NS,
        steal_ns=steal * _TICK_NS,
    )


def _pressure_ns(read: Read, path: str) -> int | None:
    """Return ``total`` of the line ``some``, Documentation/accounting/psi.rst; None for a kernel without PSI."""
    try:
        lines = read(path).splitlines()
    except OSError:
        # Present but switched off (psi=0): reading it fails.
        return None
    found = (line.rpartition(b"total=")[2] for line in lines if line.startswith(b"some "))
    return next((int(total) * 1000 for total in found if total.isdigit()), None)
