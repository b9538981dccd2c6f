"""A digest of the inputs of a build, which is repeated only when that changes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path


def digest(sources: Sequence[Path], *words: str) -> str:
    """Return 16 hexadecimal digits for the files of these folders (or files), their names, and the words."""
    found = hashlib.sha256("\0".join(words).encode())
    for source in sources:
        for path in _files(source):
            found.update(f"\0{path.relative_to(source)}\0{path.stat().st_size}\0".encode() + path.read_bytes())
    return found.hexdigest()[:16]


def _files(source: Path) -> Iterator[Path]:
    if source.is_file():
        yield source
        return
    yield from sorted(path for path in source.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
