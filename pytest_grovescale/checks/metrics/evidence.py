"""Evidence in lines: the first ones, and how many there are beyond."""

from __future__ import annotations

from collections.abc import Sequence

MOST = 10
"""Lines of a kind in a report; the rest is counted."""


def first(lines: Sequence[str], most: int = MOST) -> list[str]:
    """Return the first lines, and how many more there are."""
    rest = len(lines) - most
    return [*lines[:most], f"and {rest:,} more"] if rest > 0 else list(lines)
