"""Engines on machines that withhold a capability, as some virtual machines do with CAP_SYS_RESOURCE.

A privileged container asks for all capabilities, and Docker 20.10 cannot start one where the kernel grants fewer
("unable to apply caps"). There, ``oci_runtime.py`` starts containers without that capability.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

_SYS_RESOURCE = 24
"""Number of the capability, from linux/capability.h."""


def withheld(status: str | None = None) -> bool:
    """Return whether CAP_SYS_RESOURCE is outside this process' bounding set. ``status`` is its /proc/self/status."""
    text = Path("/proc/self/status").read_text() if status is None else status
    (bounding,) = (line.split()[1] for line in text.splitlines() if line.startswith("CapBnd:"))
    return not int(bounding, 16) >> _SYS_RESOURCE & 1


def write_runtime(folder: Path) -> Path:
    """Write the OCI runtime that omits the capability, and return its path."""
    program = folder / "oci-runtime"
    source = Path(__file__).with_name("oci_runtime.py").read_text(encoding="utf-8")
    # Isolated and without site: each `docker exec` starts it.
    program.write_text(f"#!{_interpreter()} -IS\n{source}", encoding="utf-8")
    program.chmod(0o755)
    return program


def _interpreter() -> str:
    # The system's Python where there is one: an engine may outlive the virtual environment that started it.
    return shutil.which("python3", path="/usr/bin:/usr/local/bin") or sys.executable
