"""Files that are written whole or not at all: a reader finds the old one or the new one, never a part."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import msgspec


@contextlib.contextmanager
def replacing(path: Path, *, durable: bool = False) -> Iterator[BinaryIO]:
    """Yield a file that takes the place of ``path`` when the block ends, and leaves nothing when it fails.

    ``durable``: it is on the disk by then. Several processes may do so at once. Raises OSError.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with temporary.open("wb") as file:
            yield file
            if durable:
                file.flush()
                os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def json_document(content: Any) -> bytes:
    """Return JSON as it stands in a file: indented, with a newline at its end."""
    return msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n"
