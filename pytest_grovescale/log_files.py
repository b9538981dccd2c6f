"""Log files of other programs: readable by their owner only, and shown without secrets.

Messages show their last lines; for a failed Go program, the reason without the stacks of all its goroutines.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import BinaryIO

from . import redaction

TAIL_BYTES = 256 * 1024
"""Bytes of a log's end that are redacted: more than its last lines, since a secret may begin before them."""


CREDENTIALS_BYTES = 4 << 20
"""Bytes of a log's end that are searched for credentials, 0.1 s of CPU for each million."""

_LAST_BYTES = 8 << 20
"""Bytes of a log's end that are read: a failing Go program writes the stacks of all its goroutines."""

_REASON = re.compile(r"(fatal error: |panic: |runtime: (?!goroutine)|SIG[A-Z]+: |F\d{4} |unexpected fault address)")
"""Beginning of the line with which a Go program, or one that logs with klog, gives the reason of its end."""

_STACK = re.compile(r"(runtime stack:|goroutine \d+[ ,\[]|\t|created by |[\w./@*()-]+\(.*\)$|[a-z]\w+ +0x|$)")
"""Beginnings of the lines of stacks that a Go program writes after the reason."""

_MACHINE = {
    "max user processes": "Raise the limit of processes: ulimit -u, or that of the container or the unit (pids.max).",
    "resource temporarily unavailable": "Raise the limit of processes: ulimit -u, or that of the container (pids.max).",
    "no space left on device": "Free some space, or choose another folder for clusters: GROVESCALE_STATE_DIR=DIR.",
    "cannot allocate memory": "Free some memory, or raise the limit of the container (memory.max; ulimit -v).",
    "out of memory": "Free some memory, or raise the limit of the container (memory.max; ulimit -v).",
    "file too large": "Raise the limit of a file's size: ulimit -f.",
    "file descriptor limit": "Raise the limit of open files: ulimit -n.",
    "too many open files": "Raise the limit of open files: ulimit -n.",
}
"""Message of a program that the machine denied a resource → next step."""


def appending(path: Path) -> BinaryIO:
    """Open a log for appending; a new one has mode 0600, since a program may write any secret into it."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600), "ab")


def end_of(path: Path, *, from_byte: int = 0) -> str:
    """Return the end of a log, redacted; empty for a missing log. Bytes before ``from_byte`` are left out."""
    return redaction.text(_end(path, TAIL_BYTES, from_byte).decode(errors="replace"))


def lines_with_credentials(path: Path, *, from_byte: int = 0) -> list[int]:
    """Return the numbers of the lines with credentials, of the last `CREDENTIALS_BYTES` after ``from_byte``.

    Empty for a missing log.
    """
    found = _end(path, CREDENTIALS_BYTES, from_byte)
    if not found:
        return []
    before = path.stat().st_size - len(found)
    with path.open("rb") as file:
        first = 1 + file.read(before).count(b"\n")
    lines = found.decode(errors="replace").split("\n")
    return [first + number for number, line in enumerate(lines) if redaction.has_credentials(line)]


def last_lines(path: Path, count: int, *, from_byte: int = 0) -> list[str]:
    """Return the last lines of a log as `end_of` does, without the stacks that a Go program writes when it fails."""
    lines = _without_stacks(_end(path, _LAST_BYTES, from_byte).decode(errors="replace").splitlines())
    return redaction.text("\n".join(lines)[-TAIL_BYTES:]).rstrip("\n").splitlines()[-count:]


def _end(path: Path, size: int, from_byte: int) -> bytes:
    try:
        with path.open("rb") as file:
            file.seek(max(from_byte, file.seek(0, os.SEEK_END) - size))
            return file.read()
    except FileNotFoundError:
        return b""


def _without_stacks(lines: list[str]) -> list[str]:
    """Return lines without the stacks of goroutines after a reason: a reader needs the reason."""
    kept: list[str] = []
    left_out, after_reason = 0, False
    for line in lines:
        if after_reason and _STACK.match(line):
            left_out += 1
            continue
        if left_out:
            kept.append(f"… {left_out} lines of stacks")
            left_out = 0
        after_reason = bool(_REASON.match(line)) or (after_reason and line.startswith("["))
        kept.append(line)
    return [*kept, f"… {left_out} lines of stacks"] if left_out else kept


def what_to_do(log: str) -> str:
    """Return the next step for a resource that the machine denied a program, by its log; empty without one."""
    return next((step for words, step in _MACHINE.items() if words in log.lower()), "")
