"""``result.json``: a result on disk, written whole or not at all, and read back."""

from __future__ import annotations

from pathlib import Path

import msgspec

from ..analysis.result import SCHEMA_VERSION, Result
from ..errors import RecordingError
from ..whole_files import json_document, replacing

NAME = "result.json"


class _Header(msgspec.Struct):
    """What the file of any version can be asked for, before its other fields are looked at."""

    schema_version: int


def encode(result: Result) -> bytes:
    """Return the file's content: JSON, indented, with a newline at its end."""
    return json_document(result)


def write(result: Result, path: Path) -> None:
    """Write a result; a reader finds the old file or the new one, never a part. Raises RecordingError."""
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
    try:
        data = path.read_bytes()
    except OSError as error:
        raise RecordingError(
            f"the result {path} cannot be read: {error.strerror}", next_step=f"Give the path of a {NAME}."
        ) from error
    try:
        version = msgspec.json.decode(data, type=_Header).schema_version
        if version > SCHEMA_VERSION:
            raise RecordingError(
                f"{path} was written with schema version {version}; this version reads up to {SCHEMA_VERSION}",
                next_step="Read it with the pytest-grovescale that wrote it, or a newer one.",
            )
        return msgspec.json.decode(data, type=Result)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RecordingError(
            f"{path} is not a result: {error}", next_step="Make it again from its recordings."
        ) from error
