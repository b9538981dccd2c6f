"""Where workers wait: the stacks inside a reconcile, equal ones grouped, each with the line that waits.

That line is the innermost one of the operator's own code: below it are Python's or Go's standard library and the
libraries that the operator was built with.
"""

from __future__ import annotations

import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

from ..libraries import GO_LIBRARIES, GO_STANDARD
from ..result import StackGroup
from .dumps import Frame, Stack


class WaitingGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Workers with the same stack."""

    count: int
    line: Frame
    """The line of the operator's own code that waits."""
    state: str
    """State of the first one; empty where the dump has none."""
    frames: tuple[Frame, ...]
    """The whole stack, innermost first."""


Kind = Literal["reconcile worker", "goroutine", "task", "thread"]

_RECONCILE = re.compile(
    r"reconcile|sync_?handler|process_?next_?work_?item|(?:^|[._])(?:_work|_?(?:run_?)?worker)$", re.I
)
"""Functions that identify a stack as a worker's: those of controller-runtime, of client-go's examples and of
Kubernetes' own controllers, and common names in Python operators."""

_WORKS = ("running", "runnable", "active")
"""States of goroutines and threads that compute; ``syscall`` may be either."""

_QUEUE_GET = re.compile(r"(?:^|[.)])_?get(?:WithPriority)?$", re.I)
_QUEUE = re.compile(r"queue", re.I)

_PYTHON_STANDARD = re.compile(r"/lib(?:64)?/python3[^/]*/(?!(?:site|dist)-packages/)|^<frozen")
_INSTALLED = re.compile(r"(?:site|dist)-packages/")


def waiting_workers(stacks: Iterable[Stack]) -> tuple[WaitingGroup, ...]:
    """Return the workers that wait inside a reconcile, grouped by stack; the largest group first.

    Workers that wait for a key and workers that compute are left out. Empty where no stack is known to be a worker's.
    """
    groups: dict[tuple[tuple[str, str, int], ...], list[Stack]] = defaultdict(list)
    for stack in stacks:
        if _waits_inside(stack):
            groups[tuple(frame[:3] for frame in stack.frames)].append(stack)
    found = [
        WaitingGroup(count=len(group), line=waiting_line(group[0].frames), state=group[0].state, frames=group[0].frames)
        for group in groups.values()
    ]
    return tuple(sorted(found, key=lambda group: -group.count))


def stack_groups(stacks: Iterable[Stack]) -> tuple[StackGroup, ...]:
    """Return all stacks of a dump, equal ones grouped: those of reconcile workers first, then the largest groups."""
    groups: dict[tuple[Kind, tuple[tuple[str, str, int], ...]], list[Stack]] = defaultdict(list)
    for stack in stacks:
        groups[_kind(stack), tuple(frame[:3] for frame in stack.frames)].append(stack)
    total: Counter[Kind] = Counter()
    for (kind, _), group in groups.items():
        total[kind] += len(group)
    found = (_stack_group(kind, group, total[kind]) for (kind, _), group in groups.items())
    return tuple(sorted(found, key=lambda one: (one.kind != "reconcile worker", one.waits_for_key, -one.count)))


def _stack_group(kind: Kind, group: Sequence[Stack], of: int) -> StackGroup:
    frames = group[0].frames
    line = waiting_line(frames)
    return StackGroup(
        kind=kind,
        count=len(group),
        of=of,
        waits_for_key=kind == "reconcile worker" and any(_takes_key(frame) for frame in frames),
        function=_short(line),
        place=line.place,
        state=group[0].state.partition(",")[0],
        frames=tuple(f"{frame.function} ({frame.place})" for frame in frames),
    )


def _kind(stack: Stack) -> Kind:
    if _is_worker(stack):
        return "reconcile worker"
    name = stack.name.partition(" ")[0].lower()
    return "goroutine" if name == "goroutine" else "task" if name == "task" else "thread"


def _short(frame: Frame) -> str:
    """Return a function with its package or module only: ``recorder.(*Recorder).RecordErrors``, ``waiting.ensure``."""
    if frame.file.endswith(".go"):
        return frame.function.rpartition("/")[2]
    module = frame.file.rpartition("/")[2].removesuffix(".py")
    return f"{module}.{frame.function}" if module else frame.function


def _is_worker(stack: Stack) -> bool:
    return any(_RECONCILE.search(frame.function) for frame in stack.frames)


def waiting_line(frames: Sequence[Frame]) -> Frame:
    """Return the innermost frame of the operator's own code; the innermost of all where none is."""
    own = [frame for frame in frames if _own(frame)]
    return (own or _same_program(frames) or frames)[0]


def _waits_inside(stack: Stack) -> bool:
    if stack.state.startswith(_WORKS) or not _is_worker(stack):
        return False
    return not any(_takes_key(frame) for frame in stack.frames)


def _takes_key(frame: Frame) -> bool:
    return bool(_QUEUE_GET.search(frame.function) and _QUEUE.search(frame.function + frame.file))


def _own(frame: Frame) -> bool:
    if frame.file.endswith(".go"):
        return not _go_library(frame)
    # A shortened name does not show where the file is.
    whole = frame.file.startswith("/")
    return whole and not _python_standard(frame) and not _INSTALLED.search(frame.file)


def _go_library(frame: Frame) -> bool:
    """Return whether a Go frame belongs to another module than the main one; their places: go.dev/ref/mod."""
    elsewhere = "@v" in frame.file or "/vendor/" in frame.file
    return elsewhere or frame.function.startswith(GO_LIBRARIES) or bool(GO_STANDARD.match(frame.function))


def _python_standard(frame: Frame) -> bool:
    # The first part of a shortened name; empty for an absolute one.
    package = frame.file.partition("/")[0].removesuffix(".py")
    return bool(_PYTHON_STANDARD.search(frame.file)) or package in sys.stdlib_module_names


def _same_program(frames: Sequence[Frame]) -> list[Frame]:
    """Return the frames of the package that the outermost frame is of.

    For an operator that is itself installed as a package, or whose frames have no absolute file names.
    """
    foreign = [frame for frame in frames if not frame.file.endswith(".go") and not _python_standard(frame)]
    if not foreign:
        return []
    package = _package(foreign[-1])
    return [frame for frame in foreign if _package(frame) == package]


def _package(frame: Frame) -> str:
    return _INSTALLED.split(frame.file)[-1].partition("/")[0]
