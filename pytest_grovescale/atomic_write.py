"""Atomic file writes: a reader finds the old file or the new one, never a part."""

from __future__ import annotations

import contextlib
import errno
import inspect
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import msgspec

from .errors import MissingFileError, RecordingError

T = TypeVar("T")


class _Header(msgspec.Struct):
    """The fields that a file of any version has, read before the others."""

    schema_version: int


@contextlib.contextmanager
def replacing(path: Path, *, durable: bool = False, mode: int = 0o666) -> Iterator[BinaryIO]:
    """Yield a file that replaces ``path`` when the block ends, and is removed when it fails.

    ``durable``: it is flushed to the disk by then. ``mode`` holds from its creation on. Several processes and threads
    may do so at once. Raises OSError.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}")
    # A file that an ended process of the same pid left could be readable by others.
    temporary.unlink(missing_ok=True)
    try:
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            yield file
            if durable:
                file.flush()
                os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        if error.errno == errno.ENOSPC and _has_no_inode(path.parent):
            # The system's own text for it, "No space left on device", is wrong.
            raise OSError(errno.ENOSPC, "no inode left on its disk: too many files", str(path)) from error
        raise
    finally:
        # A disk that became read-only keeps it.
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def _has_no_inode(folder: Path) -> bool:
    disk = os.statvfs(folder)
    return disk.f_files > 0 and disk.f_favail == 0


def json_document(content: Any) -> bytes:
    """Return JSON for a file: indented, with a newline at its end."""
    return msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n"


def json_text(content: Any) -> str:
    """Return JSON for a command's output: indented."""
    return json_document(content).decode().rstrip("\n")


def json_schema(content: type, *, title: str) -> bytes:
    """Return the JSON Schema (2020-12) of a struct's encoding, for a file."""
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": title}
    encoded = msgspec.json.encode({**head, **_undented(msgspec.json.schema(content))}, order="sorted")
    return msgspec.json.format(encoded, indent=2) + b"\n"


def _undented(schema: Any) -> Any:
    """Return a schema whose descriptions are docstrings without the indent that Python keeps in them before 3.13."""
    match schema:
        case dict():
            return {
                name: inspect.cleandoc(value) if name == "description" and isinstance(value, str) else _undented(value)
                for name, value in schema.items()
            }
        case list():
            return [_undented(value) for value in schema]
        case _:
            return schema


def write_private(path: Path, content: str | bytes) -> None:
    """Write a file that only its owner may read, atomically, as for tokens. Raises OSError."""
    with replacing(path, mode=0o600) as file:
        file.write(content.encode() if isinstance(content, str) else content)


def read_document(path: Path, content: type[T], *, schema_version: int, what: str, next_step: str) -> T:
    """Return the content of a JSON file. ``what`` describes the expected content: ``a result``.

    Raises MissingFileError for a missing file; RecordingError, with ``next_step``, for one that cannot be read or is
    something else, and for one of a newer version than ``schema_version``.
    """
    version = schema_version
    try:
        data = path.read_bytes()
        version = msgspec.json.decode(data, type=_Header).schema_version
        if version <= schema_version:
            return msgspec.json.decode(data, type=content)
    except FileNotFoundError:
        raise MissingFileError(f"{path}: no such file", next_step=next_step) from None
    except OSError as error:
        raise RecordingError(f"{path} cannot be read: {error.strerror}", next_step=next_step) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        older = f" (written with schema version {version} of {schema_version})" if version < schema_version else ""
        raise RecordingError(f"{path} is not {what}{older}: {error}", next_step=next_step) from error
    raise RecordingError(
        f"{path} was written with schema version {version}; this version reads up to {schema_version}",
        next_step="Read it with the pytest-grovescale that wrote it, or a newer one.",
    )
