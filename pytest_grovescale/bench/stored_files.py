"""Files of a comparison: written atomically, with errors that name the folder."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import msgspec

from ..atomic_write import json_document, replacing
from ..errors import RecordingError


def write_json(path: Path, content: msgspec.Struct, *, mode: int = 0o666) -> None:
    """Write a struct as JSON; a reader finds the old file or the new one. Raises RecordingError."""
    with named_errors(path), replacing(path, durable=True, mode=mode) as file:
        file.write(json_document(content))


@contextlib.contextmanager
def named_errors(path: Path) -> Iterator[None]:
    """Turn an OSError on a file into a RecordingError."""
    try:
        yield
    except OSError as error:
        raise RecordingError(
            f"{path} cannot be written: {error.strerror}",
            next_step="Free some space, then go on where it was with --resume.",
        ) from error
