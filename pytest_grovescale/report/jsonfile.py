"""``result.json``: a result on disk, written atomically, and read back."""

from __future__ import annotations

from pathlib import Path

from ..analysis.result import SCHEMA_VERSION, Result
from ..atomic_write import json_document, read_document, replacing
from ..errors import RecordingError

NAME = "result.json"


def encode(result: Result) -> bytes:
    """Return the file's content: JSON, indented, with a newline at its end."""
    return json_document(result)


def write(result: Result, path: Path) -> None:
    """Write a result atomically: a reader finds the old file or the new one. Raises RecordingError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as file:
            file.write(encode(result))
    except OSError as error:
        raise RecordingError(
            f"the result {path} cannot be written: {error.strerror}",
            next_step="Free some space, or put the reports elsewhere; the recording can be analysed again.",
        ) from error


def read(path: Path) -> Result:
    """Return a result. Raises RecordingError for a file that is missing, newer than this version, or no result."""
    return read_document(
        path,
        Result,
        schema_version=SCHEMA_VERSION,
        what="a result",
        next_step=f"Give the path of a {NAME}; one that is damaged or older is written again from its recordings by"
        " grovescale analyse RUN.",
    )
