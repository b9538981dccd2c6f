"""CPU limit and throttling of the cgroup that a process is in, for cgroup v1 and v2.

Sources: Documentation/admin-guide/cgroup-v2.rst (``cpu.max``, ``cpu.stat``), Documentation/scheduler/sched-bwc.rst
(``cpu.cfs_quota_us``, ``cpu.cfs_period_us``), cgroups(7) and proc_pid_mountinfo(5).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from .records import CgroupCpu

_OCTAL = re.compile(r"\\([0-7]{3})")


def cpu_of(folders: list[Path]) -> CgroupCpu | None:
    """Return the lowest limit among a cgroup and its ancestors; None when none can be read.

    The kernel counts throttling at the cgroup that has the quota; its children do not show it.
    """
    limits = [limit for folder in folders if (limit := _limit(folder)) is not None]
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


def _limit(folder: Path) -> CgroupCpu | None:
    try:
        stat = dict(line.split() for line in (folder / "cpu.stat").read_text(encoding="ascii").splitlines())
        if (folder / "cpu.cfs_quota_us").exists():
            quota = (folder / "cpu.cfs_quota_us").read_text(encoding="ascii").strip()
            period = (folder / "cpu.cfs_period_us").read_text(encoding="ascii").strip()
            throttled_ns = int(stat["throttled_time"])
        else:
            quota, period = (folder / "cpu.max").read_text(encoding="ascii").split()
            throttled_ns = int(stat["throttled_usec"]) * 1000
    except (OSError, KeyError, ValueError):
        # The root cgroup has no limit and no such files; unexpected contents do not come from the kernel.
        return None
    return CgroupCpu(
        quota_cores=None if quota in ("max", "-1") else int(quota) / int(period), throttled_ns=throttled_ns
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
