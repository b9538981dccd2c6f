"""Defect leak: what is kept of every object for ever, because nobody says when it may go."""

from __future__ import annotations

from typing import Any

import msgspec

from .counts import Counts


class Leaked:
    """Every version of every object that a watch told of, decoded whole, as history that nobody reads."""

    def __init__(self, counts: Counts) -> None:
        self._counts = counts
        self._versions: dict[tuple[str, str], list[Any]] = {}

    def keep(self, kind: str, name: str, line: bytes) -> None:
        """Keep one event of a watch."""
        self._versions.setdefault((kind, name), []).append(msgspec.json.decode(line))
        self._counts.versions_kept += 1

    def versions(self) -> dict[tuple[str, str], int]:
        """Return (kind, name) → how many versions are kept, of those that are gone too."""
        return {key: len(kept) for key, kept in self._versions.items()}
