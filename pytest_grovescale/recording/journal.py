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
"""How far back `Writer.seal` looks for a line's end; every record but ``Lines`` is shorter."""


class JournalFull(RecordingError):
    """The recording cannot be continued: disk full, quota, size limit, file removed or cut. It holds whole lines."""

    @property
    def reason(self) -> str:
        """Return the cause in a few words: ``No space left on device``."""
        return (isinstance(self.__cause__, OSError) and self.__cause__.strerror) or self.message


class _Changed(OSError):
    """Another program has written the journal, or cut it."""


class _Header(msgspec.Struct):
    """The fields of the first line that every version has; read before the others."""

    type: str
    schema_version: int = 0


class Writer:
    """Appends records to a new file; never leaves a partial record in it.

    The file mode is 0600: only recognisable secrets are redacted in it. Records are encoded when appended (so later
    changes of a dict that they hold have no effect) and written by `flush`. Raises RecordingError when the file exists
    already or cannot be created.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.full = False
        self.sealed = False
        """Whether the last record marks the journal as full."""
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
        """Add one record; it is on disk after the next `flush`."""
        if not self.full:
            self._pending.append(self._encoder.encode(record))

    def flush(self) -> None:
        """Write the appended records. Raises JournalFull once when that fails; later records are dropped.

        A removed file still accepts writes that no reader will ever see, and a file that another program has cut has
        lost records: both count as full, too.
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
            do = "Free some space, or put the reports on another disk"
            if isinstance(error, FileNotFoundError | _Changed):
                do = "Keep other programs away from it"
            raise JournalFull(
                f"{error.strerror}: the recording ends early: {self.path}",
                next_step=f"{do}; the run's later figures are missing.",
            ) from error

    def seal(self, record: Closed) -> bool:
        """Write the last record of a full journal, dropping the records before it where that makes room.

        Returns whether it was written. May be called again when there may be room.
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
        """Write the remaining records and close the file; may be called again. Raises JournalFull as `flush` does."""
        if self._fd < 0:
            return
        try:
            self.flush()
        finally:
            os.close(self._fd)
            self._fd = -1

    def _check_place(self) -> None:
        """Raise OSError when the file, or a folder above it, was removed, renamed or replaced, or the file changed."""
        ours = os.fstat(self._fd)
        try:
            there = os.path.samestat(os.stat(self.path), ours)  # noqa: PTH116 - beside an fstat
        except FileNotFoundError:
            there = False
        if not there:
            raise FileNotFoundError(errno.ENOENT, "the file was removed or renamed while it was written")
        if ours.st_size != self._size:
            self._size = min(ours.st_size, self._size)
            os.ftruncate(self._fd, self._size)
            if self._size and os.pread(self._fd, 1, self._size - 1) != b"\n" and not self._drop_last_line():
                self._size = 0
            raise _Changed(errno.EIO, "the file was changed by another program while it was written")

    def _write(self, data: bytes) -> None:
        """Write all of `data`; on failure keep the whole lines that fit and raise OSError."""
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
            # The first line identifies the file: it stays.
            return False
        self._size = start + cut
        os.ftruncate(self._fd, self._size)
        return True


def append(path: Path, record: Record) -> None:
    """Append one record to a recording whose recorder has ended. Raises RecordingError."""
    try:
        with path.open("r+b") as file:
            # A killed recorder may leave a partial line, which is no record and ends the reading.
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
    """Return True once no process writes these recordings, or False when one still does after ``timeout`` s."""
    deadline = time.monotonic() + timeout
    for path in paths:
        while _is_written(path):
            if time.monotonic() > deadline:
                return False
            time.sleep(_LOOK_S)
    return True


def _lock(descriptor: int) -> None:
    """Lock the file, so that others see that it is being written as long as it is open."""
    # Imported late: recordings can also be read on platforms without flock.
    import fcntl

    # A file system without locks cannot show it.
    with contextlib.suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _is_written(path: Path) -> bool:
    try:
        return locks.is_held(path)
    except OSError:
        return False


def read(path: Path | str) -> Iterator[AnyRecord]:
    """Yield the records of a recording, in file order, without a last line that lacks its end.

    An empty file yields nothing: its recorder died before it wrote. Raises RecordingError for a file that does not
    exist, is no recording, was written by a newer version, or is damaged (with the line number).
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
