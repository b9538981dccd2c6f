"""What this machine is, as far as figures depend on it."""

from __future__ import annotations

import hashlib
import os
import platform
from pathlib import Path

from .records import Machine


def machine(proc: Path = Path("/proc")) -> Machine:
    """Return the machine's facts; absolute figures compare only where the fingerprint is equal.

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
    # ARM has no "model name"; the implementer and part numbers name the core there.
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
