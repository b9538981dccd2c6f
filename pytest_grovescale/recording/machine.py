"""Properties of this machine that figures depend on, and the use of its cores."""

from __future__ import annotations

import hashlib
import itertools
import os
import platform
from collections.abc import Collection
from pathlib import Path

from . import cgroup
from .records import CoreTimes, Machine, MachineRead

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
        self._stat = proc / "stat"
        self._pressure = proc / "pressure" / "cpu"
        self._cgroups = cgroup.folders_of_self(proc)
        self._cores = {f"cpu{core}" for core in os.sched_getaffinity(0)}

    def read(self, at: int, edge: str = "") -> MachineRead:
        """Return the current counters; None for each that cannot be read here. ``at``: the recorder's time."""
        return MachineRead(
            at=at,
            times=_core_times(self._stat, self._cores),
            pressure_ns=_pressure_ns(self._pressure),
            cgroup=cgroup.cpu_of(self._cgroups),
            edge=edge,
        )


def _core_times(path: Path, cores: Collection[str]) -> CoreTimes | None:
    """Return the sums over these cores, proc_stat(5); None for a file that is missing, masked or filled with zeros."""
    seen, busy, idle, iowait, steal = 0, 0, 0, 0, 0
    try:
        with path.open("rb") as file:
            # The lines of the cores come first; thousands of interrupt counters may follow.
            for line in itertools.takewhile(lambda text: text.startswith(b"cpu"), file):
                name, *fields = line.decode("ascii").split()
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


def _pressure_ns(path: Path) -> int | None:
    """Return ``total`` of the line ``some``, Documentation/accounting/psi.rst; None for a kernel without PSI."""
    try:
        lines = path.read_text(encoding="ascii").splitlines()
    except OSError:
        # Missing, or present but switched off (psi=0), when reading it fails.
        return None
    found = (line.rpartition("total=")[2] for line in lines if line.startswith("some "))
    return next((int(total) * 1000 for total in found if total.isdigit()), None)
