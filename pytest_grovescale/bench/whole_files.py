"""Files that are written whole or not at all, and what is said where they cannot be."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from ..errors import RecordingError


def write_json(path: Path, content: msgspec.Struct) -> None:
    """Write a struct as JSON; a reader finds the old file or the new one. Raises RecordingError."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with told(path):
        try:
            with temporary.open("wb") as file:
                file.write(msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n")
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def told(path: Path) -> Iterator[None]:
    """Turn an OSError on a file into a RecordingError."""
    try:
        yield
    except OSError as error:
        raise RecordingError(
            f"{path} cannot be written: {error.strerror}",
            next_step="Free some space, then go on where it was with --resume.",
        ) from error
