"""The cores that an operator's process is pinned to."""

from __future__ import annotations

import os

from ..errors import UsageError


def core_numbers(cores: int | list[int] | None, available: set[int] | None = None) -> list[int]:
    """Return the cores to pin to; empty: no pinning.

    A number means the first that many of ``available`` (default: those that this process may use). Raises UsageError
    for more cores, or others, than available.
    """
    if cores is None:
        return []
    usable = sorted(os.sched_getaffinity(0) if available is None else available)
    wanted = usable[:cores] if isinstance(cores, int) else sorted(set(cores))
    if (isinstance(cores, int) and cores > len(usable)) or not set(wanted) <= set(usable):
        raise UsageError(
            f"limits.cores asks for {cores}, this machine lets us use {usable}",
            next_step="Lower limits.cores in the operator definition.",
        )
    return wanted
