"""Functions of a program, from its source: where each is defined."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from .identifiers import words

_DEFINITIONS = {
    ".py": re.compile(r"^[ \t]*(?:async[ \t]+)?def[ \t]+([A-Za-z_]\w*)[ \t]*[\[(]", re.MULTILINE),
    ".go": re.compile(r"^func[ \t]+(?:\([^)\n]*\)[ \t]*)?([A-Za-z_]\w*)[ \t]*[\[(]", re.MULTILINE),
}
"""Suffix → a definition of a function or method, at the start of a line as formatters of both languages put it."""

NOT_THEIRS = frozenset({".git", ".venv", "venv", "node_modules", "vendor", "site-packages", "__pycache__", "testdata"})
"""Folders with other people's source, or none."""

MAX_BYTES = 4 << 20
"""Of a file; larger ones are made by programs."""


def functions_in(folder: Path) -> dict[tuple[str, ...], str]:
    """Return functions' names in words → ``file:line`` of one that bears it. Raises OSError."""
    found: dict[tuple[str, ...], str] = {}
    for path in sorted(_files(folder)):
        text = path.read_text(encoding="utf-8", errors="replace")
        for match in _DEFINITIONS[path.suffix].finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            found.setdefault(words(match[1]), f"{path.relative_to(folder)}:{line}")
    return found


def _files(folder: Path) -> Iterator[Path]:
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink() and path.name not in NOT_THEIRS:
            yield from _files(path)
        elif path.suffix in _DEFINITIONS and path.is_file() and path.stat().st_size <= MAX_BYTES:
            yield path
