"""Folded stacks as py-spy writes them (``--format raw``): ``frame;frame;frame 12``, outermost first, one stack a line.

A frame is ``name (file:line)``. With ``--threads`` the first one is ``thread (4711): name``, with ``--subprocesses``
there is ``process 4711:"command"`` before it (py-spy 0.4: stack_trace.rs, flamegraph.rs). Nothing is escaped: a
thread's name may hold a ``;``, and so may a file's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import BinaryIO

from .stacks import Function, StackCounter

MAX_LINE = 1 << 20
"""Bytes of the longest line that is read: 20,000 frames. A longer one counts as damaged."""

_DIGITS = 18
_LINES = 4
"""Lines of a function that are kept, on average."""

_PIECES = 50
"""Maximum number of parts that one frame may have been split into."""

_FRAME = re.compile(r"(.*?) \((.*?)(?::-?\d+)?\)", re.DOTALL)
_LABEL = re.compile(r"thread \((?:0x)?[0-9A-Fa-f]+\)|process \d+:")

WAITS = frozenset(
    {
        ("select", "selectors.py"),
        ("_worker", "concurrent/futures/thread.py"),
        ("wait", "threading.py"),
        ("_wait_for_tstate_lock", "threading.py"),
        ("accept", "socket.py"),
    }
)
"""Innermost functions that only wait: (name, file), the class before the name left out.

py-spy leaves sleeping threads out by their state in /proc, but a thread that has just been woken, and now waits for a
core or for the GIL, is runnable. Measured on an asyncio program that wakes 550 times a second: 13 % of its main
thread's samples were in ``EpollSelector.select``, which used 1 % of its CPU time."""

ROOTS = frozenset(
    {
        ("_bootstrap", "threading.py"),
        ("_shutdown", "threading.py"),
        ("_python_exit", "concurrent/futures/thread.py"),
        ("_exit_function", "multiprocessing/util.py"),
        ("_run_module_as_main", "<frozen runpy>"),
        ("_run_module_as_main", "runpy.py"),
    }
)
"""Outermost functions of a whole stack besides ``<module>``: where the interpreter starts threads and ends."""


def feed(counter: StackCounter, file: BinaryIO) -> None:
    """Add the stacks of a file, read line by line. Lines that are no stack are counted as damaged.

    The last line of a file that was cut has no newline; its number may have lost digits, so it is damaged as well.
    """
    reader = _Reader(counter)
    while line := file.readline(MAX_LINE):
        counter.entries += 1
        whole = line.endswith(b"\n")
        if not whole:
            counter.cut = not _ends_later(file)
        if not whole or not reader.add(line[:-1]):
            counter.damaged += 1


def _ends_later(file: BinaryIO) -> bool:
    """Skip the rest of a line; return whether it has an end."""
    while line := file.readline(MAX_LINE):
        if line.endswith(b"\n"):
            return True
    return False


class _Reader:
    """Parser of lines with a cache of frames: a profile repeats the same few thousand."""

    def __init__(self, counter: StackCounter) -> None:
        self._counter = counter
        self._known: dict[str, int] = {}
        self._waits: set[int] = set()
        self._not_roots: set[int] = set()

    def add(self, line: bytes) -> bool:
        """Add one line; return whether it is a stack."""
        text, _, number = line.rpartition(b" ")
        if not text or not number.isdigit() or len(number) > _DIGITS:
            return False
        stack = self._stack(text.decode("utf-8", "replace"))
        if not stack:
            return False
        weight = int(number)
        if stack[-1] in self._waits:
            self._counter.waiting += weight
            return True
        if stack[0] in self._not_roots:
            self._counter.rootless += weight
        if weight:
            self._counter.add(stack, weight)
        return True

    def _stack(self, text: str) -> tuple[int, ...]:
        parts = text.split(";")
        if _LABEL.match(parts[0]):
            parts = _without_labels(parts)
        known = self._known
        try:
            return tuple([known[part] for part in parts])
        except KeyError:
            return tuple([self._index(frame) for frame in _frames(parts)])

    def _index(self, frame: str) -> int:
        index = self._known.get(frame)
        if index is None:
            index = self._counter.function(_function(frame))
            if len(self._known) < _LINES * self._counter.max_functions:
                self._known[frame] = index
            name, file = _parts(frame)
            bare = name.rpartition(".")[2]
            if (bare, file) in WAITS:
                self._waits.add(index)
            if file and name != "<module>" and (bare, file) not in ROOTS:
                self._not_roots.add(index)
        return index


def _without_labels(parts: list[str]) -> list[str]:
    """Remove the process's and the thread's name, which may consist of several parts."""
    for index, part in enumerate(parts):
        if not _LABEL.match(part) and _FRAME.fullmatch(part):
            return parts[index:]
    return []


def _frames(parts: list[str]) -> Iterator[str]:
    """Yield frames, rejoining parts that a ``;`` in a name has split: a frame ends with its file."""
    if not _FRAME.fullmatch(parts[-1]):
        yield from parts  # not by py-spy: frames without files
        return
    begun: list[str] = []
    for part in parts:
        begun.append(part)
        whole = ";".join(begun)
        if (part.endswith(")") and _FRAME.fullmatch(whole)) or len(begun) == _PIECES:
            yield whole
            begun = []


def _parts(frame: str) -> tuple[str, str]:
    """Return a frame's function and file, without the line number."""
    match = _FRAME.fullmatch(frame)
    return (match[1], match[2]) if match else (frame, "")


def _function(frame: str) -> Function:
    name, file = _parts(frame)
    if not file:
        return Function(name, "", name)
    if file.startswith("/"):
        file = "/".join(file.split("/")[-2:])  # the machine's path prefix means nothing elsewhere
    short = "/".join(file.split("/")[-2:])
    return Function(f"{name} ({short})", file, f"{name} ({file})")
