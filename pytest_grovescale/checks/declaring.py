"""Which checks a test is held to: those of its marker, and those of the ``budgets.yaml`` beside it."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path

from .budgets import FILE, Declared, fitting, marked, read


def declared_for(
    folder: Path, names: Sequence[str], arguments: Sequence[object], *, root: Path
) -> tuple[Declared, ...]:
    """Return the checks for a test in ``folder`` that goes by ``names``; ``arguments`` are its marker's.

    Raises UsageError for an argument that is no check, DefinitionError for a wrong file.
    """
    path = folder / FILE
    written = fitting(_read(path, root, path.stat().st_mtime_ns), names) if path.is_file() else []
    return (*marked(arguments), *written)


@functools.lru_cache(maxsize=32)
def _read(path: Path, root: Path, changed_ns: int) -> dict[str, list[Declared]]:
    """Return a file's checks; a folder of many tests reads it once."""
    return read(path, root)
