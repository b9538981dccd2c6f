"""The journal file: append-only JSON lines, one record each; written by the recorder, read by everything else.

It is compressed as it is written: a Zstandard frame (https://www.rfc-editor.org/rfc/rfc8878) of which each flush ends a
block, so that what was flushed can be read wherever the file is cut behind it. A record that is added later is a frame
of its own. ``zstd -dc`` shows the lines; of a killed recorder's frame, whose end is missing, all that was flushed.
Journals of earlier versions are plain lines, and are read as they are.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import time
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from ..atomic_write import replacing
from ..cluster import locks
from ..errors import RecordingError
from .records import SCHEMA_VERSION, AnyRecord, Closed, Record

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

SUFFIX = ".jsonl.zst"
_PLAIN = ".jsonl"

_CLOSED_S = 10.0
_LOOK_S = 0.05
_CHUNK_BYTES = 1 << 16
_MOST_DROPPED = 64
"""Flushes that `Writer.seal` drops to make room."""
_MAGIC = b"\x28\xb5\x2f\xfd"
_END_OF_FRAME = b"\x01\x00\x00"
"""A last block without content."""
_LEVEL = 1
"""Journals are lines that are much alike: higher levels save a twentieth and take twice the time."""


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
    """Appends records to a new file; never leaves in it what cannot be read.

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
        self._compressor = zstd.ZstdCompressor(level=_LEVEL)
        self._pending: list[bytes] = []
        self._ends = array("Q")
        """The file's size after each flush: at these it can be cut."""
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
        lines = b"\n".join(self._pending) + b"\n"
        self._pending.clear()
        try:
            self._check_place()
            self._write(self._compressor.compress(lines, zstd.ZstdCompressor.FLUSH_BLOCK))
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
        """Write the last record of a full journal, dropping the flushes before it where that makes room.

        Returns whether it was written. May be called again when there may be room.
        """
        if self.sealed:
            return True
        end = _END_OF_FRAME + _frame(self._encoder.encode(record) + b"\n")
        # The first flush holds the line that identifies the file: it stays.
        for _ in range(min(_MOST_DROPPED, len(self._ends))):
            try:
                self._write(end)
            except OSError:
                if len(self._ends) == 1:
                    return False
                self._cut(len(self._ends) - 1)
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
            if self._ends and not self.full:
                # Where it finds no room, nothing is lost: the frame is readable without its end.
                with contextlib.suppress(OSError):
                    self._write(_END_OF_FRAME)
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
            self._cut(bisect_right(self._ends, ours.st_size))
            raise _Changed(errno.EIO, "the file was changed by another program while it was written")

    @property
    def _size(self) -> int:
        return self._ends[-1] if self._ends else 0

    def _write(self, data: bytes) -> None:
        """Write all of `data`; on failure none of it, and raise OSError."""
        view, done = memoryview(data), 0
        try:
            while done < len(data):
                done += os.write(self._fd, view[done:])
        except OSError:
            os.ftruncate(self._fd, self._size)
            raise
        self._ends.append(self._size + done)

    def _cut(self, flushes: int) -> None:
        """Leave so many flushes in the file."""
        del self._ends[flushes:]
        os.ftruncate(self._fd, self._size)


def _frame(lines: bytes) -> bytes:
    return zstd.compress(lines, level=_LEVEL)


def append(path: Path, record: Record) -> None:
    """Append one record to a recording whose recorder has ended. Raises RecordingError."""
    line = msgspec.json.encode(record) + b"\n"
    try:
        before = Reader(path)
        for _ in before.lines():
            pass
        if before.whole:
            with path.open("ab") as file:
                file.write(_frame(line))
            return
        # A killed recorder leaves a frame without an end, and maybe a part of a line, behind which nothing can stand.
        with replacing(path, mode=0o600) as file:
            compressor = zstd.ZstdCompressor(level=_LEVEL)
            for known in Reader(path).lines():
                file.write(compressor.compress(known))
            file.write(compressor.compress(line) + compressor.flush())
    except zstd.ZstdError as error:
        raise RecordingError(
            f"the recording {path} is damaged, nothing can be added to it: {error}",
            next_step="What is before the damage can be read as it is.",
        ) from error
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


def recordings_in(folder: Path) -> list[Path]:
    """Return the recordings in a folder, those of earlier versions too, by name."""
    return sorted([*folder.glob(f"*{SUFFIX}"), *folder.glob(f"*{_PLAIN}")])


def name_of(path: Path) -> str:
    """Return a recording's file name without its suffix."""
    return path.name.removesuffix(SUFFIX).removesuffix(_PLAIN)


class Reader:
    """Reads a recording, also one that is still written: each call of `new` yields what was added since the last.

    A last line that lacks its end waits for it. The file is open only while it is read.
    """

    def __init__(self, path: Path | str) -> None:
        self._path = path
        self._decoder = msgspec.json.Decoder(AnyRecord)
        self._lines = _Lines()
        self._read = 0
        """Bytes of the file that were taken in."""
        self._number = 0
        self._damage: RecordingError | None = None

    def new(self) -> Iterator[AnyRecord]:
        """Yield the records that were added since the last call, in file order; take all of them.

        An empty file yields nothing: its recorder died before it wrote. Raises RecordingError for a file that does not
        exist, is no recording, was written by a newer version, or is damaged (with the line number); and again each
        time.
        """
        if self._damage is not None:
            raise self._damage
        try:
            for line in self.lines():
                self._number += 1
                if self._number == 1:
                    _check_header(self._path, line)
                yield self._decoder.decode(line)
        except RecordingError as error:
            self._damage = error
            raise
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            self._damage = _damaged(self._path, self._number, error)
            raise self._damage from error
        except zstd.ZstdError as error:
            self._damage = _damaged(self._path, self._number + 1, error)
            raise self._damage from error
        except OSError as error:
            raise RecordingError(
                f"the recording {self._path} cannot be read: {error.strerror}",
                next_step="Give the path of a recording (recordings/*.jsonl.zst in a run's folder).",
            ) from error

    @property
    def whole(self) -> bool:
        """Whether what was read ends with the end of a frame, and that with the end of a line."""
        return self._lines.whole

    @property
    def rest(self) -> bytes:
        """The last line's begin, where it lacks its end."""
        return self._lines.rest

    def lines(self) -> Iterator[bytes]:
        """Yield the whole lines that were added since the last call, decompressed. Raises OSError, and zstd.ZstdError
        for bytes that are none of a frame, after the lines before them.
        """
        with Path(self._path).open("rb") as file:
            file.seek(self._read)
            while chunk := file.read(_CHUNK_BYTES):
                self._read += len(chunk)
                yield from self._lines.of(chunk)


def read(path: Path | str) -> Iterator[AnyRecord]:
    """Yield the records of a recording, as `Reader.new` does."""
    return Reader(path).new()


def _damaged(path: Path | str, number: int, error: Exception) -> RecordingError:
    return RecordingError(
        f"{path}:{number}: damaged record: {error}",
        next_step=f"The {number - 1:,} lines before it are sound: copy them to a file of their own to analyse them.",
    )


class _Lines:
    """A journal's bytes as lines."""

    def __init__(self) -> None:
        self.whole = False
        """Whether the bytes so far end with the end of a frame, and that with the end of a line."""
        self._begin = b""
        """The first bytes, until there are enough of them to tell a frame from plain lines."""
        self._plain: bool | None = None
        """None: not yet known."""
        self._frame = zstd.ZstdDecompressor()
        self.rest = b""
        """What is read of a line whose end is not."""

    def of(self, chunk: bytes) -> Iterator[bytes]:
        """Yield the lines that end in the next bytes of a file. Raises zstd.ZstdError, after the lines before."""
        if self._plain is None:
            chunk = self._begin + chunk
            if len(chunk) < len(_MAGIC) and _MAGIC.startswith(chunk):
                self._begin = chunk
                return
            self._plain = not chunk.startswith(_MAGIC)
        if self._plain:
            yield from self._split(chunk)
            return
        while chunk:
            if self._frame.eof:
                self._frame = zstd.ZstdDecompressor()
            text = self._frame.decompress(chunk)
            chunk = self._frame.unused_data if self._frame.eof else b""
            yield from self._split(text)
        self.whole = self._frame.eof and not self.rest

    def _split(self, text: bytes) -> Iterator[bytes]:
        *whole, rest = text.split(b"\n")
        if not whole:
            self.rest += rest
            return
        whole[0] = self.rest + whole[0]
        self.rest = rest
        for line in whole:
            yield line + b"\n"


def _check_header(path: Path | str, line: bytes) -> None:
    try:
        header = msgspec.json.decode(line, type=_Header)
    except (msgspec.DecodeError, UnicodeDecodeError):
        header = _Header(type="")
    if header.type != "opened":
        raise RecordingError(
            f"{path} is not a recording: its first line is not an 'opened' record",
            next_step="Give the path of a recording (recordings/*.jsonl.zst in a run's folder).",
        )
    if header.schema_version > SCHEMA_VERSION:
        raise RecordingError(
            f"{path} has schema version {header.schema_version}; this version reads up to {SCHEMA_VERSION}",
            next_step="Read it with the pytest-grovescale that wrote it, or a newer one.",
        )
