"""Log files of other programs: made for their owner's eyes only, and read without what must not be shown."""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

from . import redaction

TAIL_BYTES = 256 * 1024
"""Of a log's end that is looked at: more than its last lines, since a secret may begin before them."""


def appending(path: Path) -> BinaryIO:
    """Open a log to be appended to; made anew it has mode 0600, for a program may write any secret into it."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600), "ab")


def end_of(path: Path, *, from_byte: int = 0) -> str:
    """Return the end of a log, redacted; nothing of a log that is not there. Of bytes before ``from_byte`` nothing."""
    try:
        with path.open("rb") as file:
            file.seek(max(from_byte, file.seek(0, os.SEEK_END) - TAIL_BYTES))
            return redaction.text(file.read().decode(errors="replace"))
    except FileNotFoundError:
        return ""


def last_lines(path: Path, count: int, *, from_byte: int = 0) -> list[str]:
    """Return the last lines of a log as `end_of` does."""
    return end_of(path, from_byte=from_byte).rstrip("\n").splitlines()[-count:]
