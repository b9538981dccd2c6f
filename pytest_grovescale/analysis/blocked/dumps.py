"""Stack dumps as text, read into stacks.

Four forms: py-spy's (``py-spy dump``), Go's (``/debug/pprof/goroutine?debug=2``, a panic), and Python's own two, by
`faulthandler` and by `traceback`, in which operators print the stacks of their threads and asyncio tasks. A dump may
hold several; lines of no known form are passed over.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

import msgspec

_PARTS = 3


class Frame(NamedTuple):
    """One call."""

    function: str
    file: str = ""
    line: int = 0
    source: str = ""
    """The line's text, where the dump has it."""

    @property
    def place(self) -> str:
        """Return where it is, ``podcliqueset/waiting.py:23``: of a whole file name the last parts."""
        parts = self.file.split("/")
        file = "/".join(parts[-_PARTS:]) if self.file.startswith("/") else self.file
        return f"{file}:{self.line}"


class Stack(msgspec.Struct, frozen=True, kw_only=True):
    """What one thread, task or goroutine is doing."""

    name: str
    state: str = ""
    """As the dump has it: ``sleep``, ``chan receive, 2 minutes``, ``idle``."""
    frames: tuple[Frame, ...] = ()
    """Innermost first."""


_GOROUTINE = re.compile(r"goroutine (\d+)(?: gp=\S+ m=\S+(?: mp=\S+)?)? \[([^\]]*)\]:")
_PYSPY_THREAD = re.compile(r'Thread (\S+) \(([\w+]+)\)(?:: "(.*)")?$')
_PYTHON = re.compile(r"(.*?) ?\(most recent call (first|last)\):")
_PYTHON_FRAME = re.compile(r'\s+File "(.*)", line (\d+),? in (.*)')
_PYSPY_FRAME = re.compile(r"    (\S.*) \((.*?)(?::(\d+))?\)")
_GO_FILE = re.compile(r"\t(.*):(\d+)(?: \+0x[0-9a-f]+)?")
_GO_ARGUMENTS = re.compile(r"\([^()]*\)$")
_GO_CREATED = "created by "


def read_dump(lines: Iterable[str]) -> list[Stack]:
    """Return the stacks of a dump, in its order, without those that have no frame."""
    found: list[_Draft] = []
    for line in lines:
        draft = _begun(line)
        if draft is not None:
            found.append(draft)
        elif not line.strip():
            if found:
                found[-1].ended = True
        elif found and not found[-1].ended:
            found[-1].take(line)
    return [draft.stack() for draft in found if draft.frames]


class _Draft:
    """A stack whose lines are being read."""

    def __init__(self, name: str, state: str, *, form: str, innermost_first: bool) -> None:
        self.name = name
        self.state = state
        self.frames: list[Frame] = []
        self.ended = False
        self._form = form
        self._innermost_first = innermost_first

    def take(self, line: str) -> None:
        """Take in a line of the stack."""
        match self._form:
            case "go":
                self._go(line)
            case "py-spy":
                if found := _PYSPY_FRAME.fullmatch(line):
                    self.frames.append(Frame(found[1], found[2], int(found[3] or 0)))
            case _:
                self._python(line)

    def _go(self, line: str) -> None:
        if found := _GO_FILE.fullmatch(line):
            if self.frames and not self.frames[-1].file:
                self.frames[-1] = self.frames[-1]._replace(file=found[1], line=int(found[2]))
        elif line.startswith(_GO_CREATED):
            # "created by" names the function that started the goroutine: it is no call of the stack.
            self.ended = True
        elif not line.startswith(("\t", "...")):
            self.frames.append(Frame(_GO_ARGUMENTS.sub("", line)))

    def _python(self, line: str) -> None:
        if found := _PYTHON_FRAME.fullmatch(line):
            self.frames.append(Frame(found[3], found[1], int(found[2])))
        elif self.frames and not self.frames[-1].source and line.strip("~^ "):
            self.frames[-1] = self.frames[-1]._replace(source=line.strip())

    def stack(self) -> Stack:
        """Return the stack read so far."""
        frames = self.frames if self._innermost_first else self.frames[::-1]
        return Stack(name=self.name, state=self.state, frames=tuple(frames))


def _begun(line: str) -> _Draft | None:
    if found := _GOROUTINE.fullmatch(line):
        return _Draft(f"goroutine {found[1]}", found[2], form="go", innermost_first=True)
    if found := _PYSPY_THREAD.fullmatch(line):
        return _Draft(found[3] or f"thread {found[1]}", found[2], form="py-spy", innermost_first=True)
    if found := _PYTHON.fullmatch(line):
        return _Draft(found[1], "", form="python", innermost_first=found[2] == "first")
    return None
