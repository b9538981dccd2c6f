"""Log files of other programs: readable by their owner only, and shown without secrets.

Messages show their last lines; for a failed Go program, the reason without the stacks of all its goroutines.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import msgspec

from . import redaction

TAIL_BYTES = 256 * 1024
"""Bytes of a log's end that are redacted: more than its last lines, since a secret may begin before them."""


CREDENTIALS_BYTES = 4 << 20
"""Bytes of a log's end that are searched for credentials, 0.1 s of CPU for each million."""

_LAST_BYTES = 8 << 20
"""Bytes of a log's end that are read: a failing Go program writes the stacks of all its goroutines."""

_REASON = re.compile(r"(fatal error: |panic: |runtime: (?!goroutine)|SIG[A-Z]+: |F\d{4} |unexpected fault address)")
"""Beginning of the line with which a Go program, or one that logs with klog, gives the reason of its end."""

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_USAGE = re.compile(r"(Usage|Flags|Global Flags|Options)( of [^:]+)?:\s*$")
_OF_USAGE = re.compile(r"\s|$")
_STACK = re.compile(r"(runtime stack:|goroutine \d+[ ,\[]|\t|created by |[\w./@*()-]+\(.*\)$|[a-z]\w+ +0x|$)")
"""Beginnings of the lines of stacks that a Go program writes after the reason."""

_FRAME = re.compile(
    r"\s+at (?:async |new )?(?:[\w.$<>/@`\[\]-]+ ?\(.*\)|(?:file://)?/\S+:\d+:\d+)"
    r"|\s*\.\.\. \d+ (?:more|common frames omitted)"
)
"""A line of the stack of an exception, as runtimes of Java, .NET and JavaScript write it, from its beginning."""
_CHAINED = re.compile(r"\s*(?:Caused by: |Suppressed: |Wrapped by: |--- End of )")
"""A line between two stacks of one exception."""

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
    return redaction.text(_text(_end(path, TAIL_BYTES, from_byte)))


def lines_with_credentials(path: Path, *, from_byte: int = 0) -> list[int]:
    """Return the numbers of the lines with credentials, of the last `CREDENTIALS_BYTES` after ``from_byte``.

    Empty for a missing log.
    """
    found = _end(path, CREDENTIALS_BYTES, from_byte)
    if not found:
        return []
    first = 1 + _lines_before(path, path.stat().st_size - len(found))
    lines = found.decode(errors="replace").split("\n")
    return [
        first + number for number, line in enumerate(lines) if redaction.has_credentials(_NAMED.sub("object", line))
    ]


_NAMED = re.compile(r"(?<![\w./:-])(?:[a-z0-9][a-z0-9-]*/[a-z0-9][a-z0-9.-]*(?=: )|secrets(?=: [A-Za-z]\w+ [a-z]))")
"""What a line is about, a kind or an object, as in `secret shop/token-1: conflict` or `secrets: the watch ended`: what
follows is no value of it."""


_PANIC = re.compile(r"Observed a panic|^panic: |panicked at |runtime error: ")
_OUT_OF_MEMORY = re.compile(
    r"\bOutOfMemory(?:Error|Exception)\b|heap out of memory|fatal error: runtime: out of memory|^MemoryError\b"
    r"|memory allocation of \d+ bytes failed"
)
"""As the runtimes of Java, .NET, JavaScript, Go, Python and Rust say it; not options as ``ExitOnOutOfMemoryError``."""
_TRACEBACK = "Traceback (most recent call last)"
_STACK_TRACE = re.compile(rf"{re.escape(_TRACEBACK)}|Exception in thread |Unhandled exception")
_LINES_OF_ONE = 4
"""Lines of what an exception of Python says that are looked at: of an API's answer, status, reason and body."""
_ERROR = re.compile(
    r"\blevel=(error|fatal)\b|\"(level|severity)\": ?\"(error|fatal)\"|^E\d{4} |\b(ERROR|FATAL|CRITICAL)\b"
    r"|(?-i:\b[A-Z]\w*(Error|Exception)\b[:(])",
    re.IGNORECASE,
)
_PASSING = re.compile(
    r"the object has been modified|context canceled|AlreadyExists|already exists|not found|NotFound|is not as new as"
)
"""Errors that a sound controller logs under load, and mends by its next try; the last, as Kubernetes' own controllers
say that their cache is behind what they wrote."""

_CONFLICT = "the object has been modified"

_TIMES_OF_ONE = 5
"""The same of them, word for word, from which on no next try mends it."""

_OF_LINE = re.compile(r"^\S+ [\d:., ]+\S*|\d{4}-\d\d-\d\d\S*|\w*[iI][dD]\"?[=:] ?\"[0-9a-f-]{8,}\"")
"""What differs from line to line: times, and the id of a reconcile."""

_VARYING = re.compile(r"[\w./:-]*\d[\w./:+-]*|\"[^\"]*\"|'[^']*'")


_SPANS = re.compile(r"\S+ +([A-Z]+) (?:[^{}]*\{[^{}]*\}:)+ *(.*)")
"""A line of Rust's tracing: time, level, the spans with their fields, what it says."""


class LogFacts(NamedTuple):
    """What of a log speaks of the program that wrote it."""

    lines: int
    size: int
    """Bytes."""
    panics: list[int]
    """Numbers of the lines with which a panic is reported."""
    out_of_memory: list[int]
    """Numbers of the lines with which its runtime says that there was no memory left."""
    traces: list[int]
    """Numbers of the lines with which an exception and its stack begin, but for those that pass by themselves."""
    exception: str
    """What the most frequent of these says, redacted; empty without any."""
    errors: int
    """Lines of the most frequent error, without those that pass by themselves."""
    error: str
    """The first of them, redacted."""


def facts(path: Path, *, from_byte: int = 0) -> LogFacts:
    """Return what stands in a log after ``from_byte``, of the last `CREDENTIALS_BYTES`; its size is the whole."""
    found = _end(path, CREDENTIALS_BYTES, from_byte)
    if not found:
        return LogFacts(0, 0, [], [], [], "", 0, "")
    size = path.stat().st_size
    before = size - len(found)
    first = 1 + _lines_before(path, before)
    lines = _text(found).splitlines()
    panics: list[int] = []
    memory: list[int] = []
    traces: list[int] = []
    errors: dict[str, list[str]] = defaultdict(list)
    passing: dict[str, list[str]] = defaultdict(list)
    exceptions = dict(_exceptions(lines))
    raised: dict[str, list[str]] = defaultdict(list)
    for number, line in enumerate(lines):
        if _OUT_OF_MEMORY.search(line[:400]):
            memory.append(first + number)
            continue
        if number in exceptions and not _PASSING.search(exceptions[number]):
            traces.append(first + number)
            said = exceptions[number].partition("\n")[0].strip()
            raised[_VARYING.sub("", said)].append(said)
        if _PANIC.search(line):
            panics.append(first + number)
        elif _STACK_TRACE.search(line) or _FRAME.match(line) or _CHAINED.match(line):
            continue
        elif _ERROR.search(line[:400]):
            # What is logged with an exception is followed by that.
            of_one = line + exceptions.get(number, "") + exceptions.get(number + 1, "")
            if not _PASSING.search(of_one):
                errors[_VARYING.sub("", _said(line))].append(line)
            elif _CONFLICT not in of_one:
                passing[_OF_LINE.sub("", line[:400])].append(line)
    for same in passing.values():
        if len(same) >= _TIMES_OF_ONE:
            errors[_VARYING.sub("", _said(same[0]))] += same
    most = max(errors.values(), key=len, default=[])
    # What was not read had lines as long.
    count = round(len(lines) * (size - from_byte) / len(found))
    error = redaction.text(_said(most[0])[:200]) if most else ""
    exception = redaction.text(max(raised.values(), key=len, default=[""])[0][:200])
    return LogFacts(count, size - from_byte, panics, memory, traces, exception, len(most), error)


def _exceptions(lines: list[str]) -> Iterator[tuple[int, str]]:
    """Yield the number of the line that each exception with a stack begins with, and what it and its causes say."""
    number = 0
    while number < len(lines):
        begin = number
        number += 1
        if _TRACEBACK in lines[begin]:
            while number < len(lines) and lines[number].startswith((" ", "\t")):
                number += 1
            yield begin, "\n".join(lines[number : number + _LINES_OF_ONE])
        elif number < len(lines) and _FRAME.match(lines[number]):
            said = [lines[begin]]
            while number < len(lines) and (_FRAME.match(lines[number]) or _CHAINED.match(lines[number])):
                said += [] if _FRAME.match(lines[number]) else [lines[number]]
                number += 1
            yield begin, "\n".join(said)
        elif _STACK_TRACE.search(lines[begin]):
            yield begin, lines[begin]


def _said(line: str) -> str:
    """Return the beginning of a line, without names that come before what it says.

    Of one in JSON, as zap writes them, its message and error; of one of Rust's tracing what follows its spans.
    """
    if line.startswith("{"):
        with contextlib.suppress(msgspec.DecodeError):
            fields = msgspec.json.decode(line, type=dict[str, Any])
            said = [str(fields[name]) for name in ("msg", "message", "error", "err") if fields.get(name)]
            return ": ".join(said)[:400] or line[:400]
    if spans := _SPANS.match(line):
        return f"{spans[1]} {spans[2]}"[:400]
    return line[:400]


def _lines_before(path: Path, size: int) -> int:
    with path.open("rb") as file:
        return file.read(size).count(b"\n")


def last_lines(path: Path, count: int, *, from_byte: int = 0) -> list[str]:
    """Return the last lines of a log as `end_of` does, without the stacks that a Go program writes when it fails.

    Nor with the list of its flags that a program writes behind what is wrong with one.
    """
    lines = _without_usage(_text(_end(path, _LAST_BYTES, from_byte)).splitlines())
    return redaction.text("\n".join(lines)[-TAIL_BYTES:]).rstrip("\n").splitlines()[-count:]


def _end(path: Path, size: int, from_byte: int) -> bytes:
    try:
        with path.open("rb") as file:
            file.seek(max(from_byte, file.seek(0, os.SEEK_END) - size))
            return file.read()
    except FileNotFoundError:
        return b""


def _text(found: bytes) -> str:
    """Return the text of a log without colours, which Rust's tracing and others write also where no one sees them."""
    return _COLOUR.sub("", found.decode(errors="replace"))


def _without_stacks(lines: list[str]) -> list[str]:
    """Return lines without the stacks of goroutines after a reason, and of exceptions: a reader needs the reason.

    The first line of an exception's stack stays: it is where it was raised.
    """
    kept: list[str] = []
    left_out, after_reason = 0, False
    for number, line in enumerate(lines):
        in_exception = number > 0 and _FRAME.match(line) and _FRAME.match(lines[number - 1])
        if in_exception or (after_reason and _STACK.match(line)):
            left_out += 1
            continue
        if left_out:
            kept.append(f"… {left_out} lines of stacks")
            left_out = 0
        after_reason = bool(_REASON.match(line)) or (after_reason and line.startswith("["))
        kept.append(line)
    return [*kept, f"… {left_out} lines of stacks"] if left_out else kept


def _without_usage(lines: list[str]) -> list[str]:
    """Return lines without the flags that a program lists, as Go's `flag` and `cobra` do."""
    kept: list[str] = []
    left_out, in_usage = 0, False
    for line in [*_without_stacks(lines), "end"]:
        in_usage = bool(_USAGE.match(line)) or (in_usage and bool(_OF_USAGE.match(line)))
        left_out += in_usage
        if not in_usage:
            kept += [f"… {left_out} lines of usage"] if left_out else []
            kept.append(line)
            left_out = 0
    return kept[:-1]


def what_to_do(log: str) -> str:
    """Return the next step for a resource that the machine denied a program, by its log; empty without one."""
    return next((step for words, step in _MACHINE.items() if words in log.lower()), "")
