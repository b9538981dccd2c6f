"""What an operator's process may use: memory in bytes, and the cores that it is pinned to."""

from __future__ import annotations

import os
import re

from ..errors import UsageError

_UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}
_QUANTITY = re.compile(r"(\d+(?:\.\d+)?)(k|M|G|Ki|Mi|Gi)?")


def memory_bytes(quantity: str | int) -> int:
    """Return bytes for a Kubernetes quantity (``512Mi``, ``2Gi``, ``1e``-forms excepted); 0 means no limit."""
    match = _QUANTITY.fullmatch(str(quantity).strip()) if not isinstance(quantity, bool) else None
    if match is None:
        raise UsageError(f"{quantity!r} is no amount of memory", next_step="Write it as 512Mi, 2Gi or bytes.")
    return int(float(match[1]) * _UNITS[match[2] or ""])


def core_numbers(cores: int | list[int] | None, available: set[int] | None = None) -> list[int]:
    """Return the cores to pin to; empty: no pinning.

    A number means the first that many of ``available`` (default: those that this process may use). Raises UsageError
    for more, or others, than there are.
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
