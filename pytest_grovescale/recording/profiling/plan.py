"""The choice of a profiler for a process: by the user's option, its definition, or the kind of process."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

from ...endpoints import Address
from ..protocol import ProfileTarget
from ..scrape_targets import OfFollowed

Profiler = Literal["auto", "pyspy", "pprof", "off"]

_INTERPRETER = re.compile(r"(^|/)(python\d?(\.\d+)?|libpython\d+\.\d+\.so[.\d]*)$")


def plan(
    wanted: Profiler,
    *,
    process: str,
    pid: int | None,
    pprof: Address | OfFollowed | None,
    stacks: Address | OfFollowed | None = None,
) -> ProfileTarget | str:
    """Return how to profile a process, or why it cannot be. ``stacks``: its own stacks endpoint.

    ``auto`` selects pprof where the definition names its endpoint, py-spy where the process runs a Python interpreter.
    """
    if wanted == "off":
        return f"profiling {process} is off in its definition"
    if wanted in ("auto", "pprof") and pprof is not None:
        return _target(process, "pprof", pprof, stacks)
    if wanted == "pprof":
        return f"{process} has no pprof endpoint: name it in its definition (pprof: {{url: …}})"
    if wanted == "pyspy" or (pid is not None and is_python(pid)):
        return _target(process, "pyspy", None, stacks)
    return f"{process} is no Python process, and its definition names no pprof endpoint: there is no profiler for it"


def _target(
    process: str,
    profiler: Literal["pyspy", "pprof"],
    pprof: Address | OfFollowed | None,
    stacks: Address | OfFollowed | None,
) -> ProfileTarget:
    return ProfileTarget(
        process=process,
        profiler=profiler,
        address=pprof if isinstance(pprof, Address) else None,
        stacks=stacks if isinstance(stacks, Address) else None,
        pprof_at=pprof if isinstance(pprof, OfFollowed) else None,
        stacks_at=stacks if isinstance(stacks, OfFollowed) else None,
    )


def is_python(pid: int, proc: Path = Path("/proc")) -> bool:
    """Return whether a process runs a Python interpreter, as its program or as a loaded library."""
    try:
        if _INTERPRETER.search(str((proc / str(pid) / "exe").readlink())):
            return True
        mapped = (proc / str(pid) / "maps").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return any(_INTERPRETER.search(line.rpartition(" ")[2]) for line in mapped.splitlines() if "python" in line)
