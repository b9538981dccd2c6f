"""The journal file: append-only JSON lines, one record each; written by the recorder, read by everything else."""

from __future__ import annotations

import contextlib
import errno
import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from ..cluster import locks
from ..errors import RecordingError
from .records import SCHEMA_VERSION, AnyRecord, Closed, Record

_CLOSED_S = 10.0
_LOOK_S = 0.05
_TAIL_BYTES = 1 << 16
"""How far back `Writer.seal` may look for a line's end; a record is shorter than this but for ``Lines``."""


class JournalFull(RecordingError):
    """The recording cannot be written on: disk full, quota, file size limit, file removed. It holds whole lines."""

    @property
    def reason(self) -> str:
        """Why, in a few words: ``No space left on device``."""
        return (isinstance(self.__cause__, OSError) and self.__cause__.strerror) or self.message


class _Header(msgspec.Struct):
    """What every version's first line can be asked for, before its other fields are looked at."""

    type: str
    schema_version: int = 0


class Writer:
    """Appends records to a new file; never leaves half a record in it.

    Its mode is 0600: only what could be recognised as a secret is redacted in it. Records are encoded when appended (so
    that later changes of a dict they hold don't matter) and written by `flush`. Raises RecordingError when the file
    exists already or cannot be made.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.full = False
        self.sealed = False
        """Whether its last record says that it is full."""
        self._encoder = msgspec.json.Encoder()
        self._pending: list[bytes] = []
        self._size = 0
        try:
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise RecordingError(
                f"the recording {path} cannot be written: {error.strerror}",
                next_step="Give a folder that exists and can be written, and a name that is not taken.",
            ) from error
        _lock(self._fd)

    def append(self, record: Record) -> None:
        """Take one record; it is on disk after the next `flush`."""
        if not self.full:
            self._pending.append(self._encoder.encode(record))

    def flush(self) -> None:
        """Write what was appended. Raises JournalFull once, when it cannot be; then nothing more is taken.

        A file that was removed takes every write, and nobody will ever read it: that is an end, too.
        """
        if self.full or not self._pending:
            return
        data = b"\n".join(self._pending) + b"\n"
        self._pending.clear()
        try:
            self._check_place()
            self._write(data)
        except OSError as error:
            self.full = True
            raise JournalFull(
                f"{error.strerror}: the recording ends early: {self.path}",
                next_step="Free some space, or put the reports on another disk; the run's later figures are missing.",
            ) from error

    def seal(self, record: Closed) -> bool:
        """Write the last record of a full journal, giving up the last records before it where that makes room.

        Returns whether it is in the file. May be called again, when there may be room.
        """
        if self.sealed:
            return True
        line = self._encoder.encode(record) + b"\n"
        if not self._size:
            return False
        for _ in range(64):
            try:
                self._write(line)
            except OSError:
                if not self._drop_last_line():
                    return False
            else:
                self.sealed = True
                return True
        return False

    def close(self) -> None:
        """Write what is left and close the file; may be called again. Raises JournalFull as `flush` does."""
        if self._fd < 0:
            return
        try:
            self.flush()
        finally:
            os.close(self._fd)
            self._fd = -1

    def _check_place(self) -> None:
        """Raise FileNotFoundError where the file, or a folder above it, was removed, renamed or replaced."""
        try:
            there = os.path.samestat(os.stat(self.path), os.fstat(self._fd))  # noqa: PTH116 - beside an fstat
        except FileNotFoundError:
            there = False
        if not there:
            raise FileNotFoundError(errno.ENOENT, "the file was removed or renamed while it was written")

    def _write(self, data: bytes) -> None:
        """Write all of `data`, or the whole lines of it that fit and raise OSError."""
        view, done = memoryview(data), 0
        try:
            while done < len(data):
                done += os.write(self._fd, view[done:])
        except OSError:
            done = data.rfind(b"\n", 0, done) + 1
            raise
        finally:
            self._size += done
            if done < len(data):
                os.ftruncate(self._fd, self._size)

    def _drop_last_line(self) -> bool:
        start = max(0, self._size - _TAIL_BYTES)
        tail = os.pread(self._fd, self._size - start, start)
        cut = tail.rfind(b"\n", 0, len(tail) - 1) + 1
        if start + cut == 0 or (cut == 0 and start > 0):
            # The first line says what this file is: it stays.
            return False
        self._size = start + cut
        os.ftruncate(self._fd, self._size)
        return True


def append(path: Path, record: Record) -> None:
    """Append one record to a recording whose recorder has ended. Raises RecordingError."""
    try:
        with path.open("r+b") as file:
            # A killed recorder may have left part of a line: it is no record, and readers stop before it.
            end = file.seek(0, os.SEEK_END)
            tail = os.pread(file.fileno(), min(end, _TAIL_BYTES), max(0, end - _TAIL_BYTES))
            end -= len(tail) - (tail.rfind(b"\n") + 1)
            file.truncate(end)
            file.seek(end)
            file.write(msgspec.json.encode(record) + b"\n")
    except OSError as error:
        raise RecordingError(
            f"the recording {path} cannot be written: {error.strerror}",
            next_step="Free some space; what is in it can be read as it is.",
        ) from error


def wait_closed(paths: Iterable[Path], timeout: float = _CLOSED_S) -> bool:
    """Return when nobody writes these recordings any more, or False when somebody still does after ``timeout`` s."""
    deadline = time.monotonic() + timeout
    for path in paths:
        while _is_written(path):
            if time.monotonic() > deadline:
                return False
            time.sleep(_LOOK_S)
    return True


def _lock(descriptor: int) -> None:
    """Let others see, as long as the file is open, that it is written."""
    # Imported late: recordings can be read where there is no flock.
    import fcntl

    # A file system without locks has no way to tell.
    with contextlib.suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _is_written(path: Path) -> bool:
    try:
        return locks.is_held(path)
    except OSError:
        return False


def read(path: Path | str) -> Iterator[AnyRecord]:
    """Yield the records of a recording, in file order; a last line without its end is left out.

    An empty file yields nothing: its recorder died before it wrote. Raises RecordingError for a file that is
    not there, is no recording, was written by a newer version, or is damaged (with the number of the line).
    """
    decoder = msgspec.json.Decoder(AnyRecord)
    try:
        with Path(path).open("rb") as file:
            for number, line in enumerate(file, start=1):
                if not line.endswith(b"\n"):
                    return
                if number == 1:
                    _check_header(path, line)
                try:
                    yield decoder.decode(line)
                except (msgspec.DecodeError, UnicodeDecodeError) as error:
                    raise RecordingError(
                        f"{path}:{number}: damaged record: {error}",
                        next_step="The lines before it are sound: copy them to a file of their own to analyse them.",
                    ) from error
    except OSError as error:
        raise RecordingError(
            f"the recording {path} cannot be read: {error.strerror}",
            next_step="Give the path of a recording (recording.jsonl in a run's folder).",
        ) from error


def _check_header(path: Path | str, line: bytes) -> None:
    try:
        header = msgspec.json.decode(line, type=_Header)
    except (msgspec.DecodeError, UnicodeDecodeError):
        header = _Header(type="")
    if header.type != "opened":
        raise RecordingError(
            f"{path} is not a recording: its first line is not an 'opened' record",
            next_step="Give the path of a recording (recording.jsonl in a run's folder).",
        )
    if header.schema_version > SCHEMA_VERSION:
        raise RecordingError(
            f"{path} has schema version {header.schema_version}; this version reads up to {SCHEMA_VERSION}",
            next_step="Read it with the pytest-grovescale that wrote it, or a newer one.",
        )
