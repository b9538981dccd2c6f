"""Memory quantities in users' notation: ``200Mi``."""

from __future__ import annotations

import re

from .errors import UsageError

_UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
_QUANTITY = re.compile(r"(\d+(?:\.\d+)?)(k|M|G|T|Ki|Mi|Gi|Ti)?")


def memory_bytes(quantity: str | int) -> int:
    """Return bytes for a Kubernetes quantity (``512Mi``, ``2Gi``, ``1e``-forms excepted); 0 means no limit."""
    match = _QUANTITY.fullmatch(str(quantity).strip()) if not isinstance(quantity, bool) else None
    if match is None:
        raise UsageError(f"{quantity!r}: invalid memory quantity", next_step="Write it as 512Mi, 2Gi or bytes.")
    return int(float(match[1]) * _UNITS[match[2] or ""])
