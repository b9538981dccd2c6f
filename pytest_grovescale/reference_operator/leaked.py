"""Defect leak: an unbounded history of every object."""

from __future__ import annotations

from typing import Any

import msgspec

from .counts import Counts


class Leaked:
    """Every version of every object that a watch reported, fully decoded, never read."""

    def __init__(self, counts: Counts) -> None:
        self._counts = counts
        self._versions: dict[tuple[str, str], list[Any]] = {}

    def keep(self, kind: str, name: str, line: bytes) -> None:
        """Keep the object of one watch event."""
        self._versions.setdefault((kind, name), []).append(msgspec.json.decode(line))
        self._counts.versions_kept += 1

    def versions(self) -> dict[tuple[str, str], int]:
        """Return (kind, name) → number of versions kept, including those of deleted objects."""
        return {key: len(kept) for key, kept in self._versions.items()}
