"""Workers that wait inside reconciles: when, by the operator's metrics; where, by its stack dumps.

*Stack dumps.* Four forms: py-spy's (``py-spy dump``), Go's (``/debug/pprof/goroutine?debug=2``, a panic), and Python's
own two, by `faulthandler` and by `traceback`, in which operators print the stacks of their threads and asyncio tasks. A
dump may hold several; lines of no known form are passed over.

*The line that waits* is the innermost one of the operator's own code: below it are Python's or Go's standard library
and the libraries that the operator was built with.
"""

from __future__ import annotations

import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Literal, NamedTuple

import msgspec

from ..recording.worker_history import MIN_SCRAPES, Reading, WorkerHistory, spells, window
from .controller_result import BlockedSpell, WorkerRow
from .profiles.functions import GO_LIBRARIES, GO_STANDARD
from .reconcile_counters import LIBRARY_QUEUES
from .result import StackGroup

_PARTS = 3

_GOROUTINE = re.compile(r"goroutine (\d+)(?: gp=\S+ m=\S+(?: mp=\S+)?)? \[([^\]]*)\]:")

_PYSPY_THREAD = re.compile(r'Thread (\S+) \(([\w+]+)\)(?:: "(.*)")?$')

_PYTHON = re.compile(r"(.*?) ?\(most recent call (first|last)\):")

_PYTHON_FRAME = re.compile(r'\s+File "(.*)", line (\d+),? in (.*)')

_PYSPY_FRAME = re.compile(r"    (\S.*) \((.*?)(?::(\d+))?\)")

_GO_FILE = re.compile(r"\t(.*):(\d+)(?: \+0x[0-9a-f]+)?")

_GO_ARGUMENTS = re.compile(r"\([^()]*\)$")

_GO_CREATED = "created by "

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

LONGEST_S = 10.0
"""Default duration from which a reconcile counts as one that waits, s."""

_FAR_APART = 1.5
"""Scrapes no more than this factor × `longest` apart show a wait. A phase's first scrape after its start is up to two
intervals away, so that an interval of five seconds suffices for the default of ten."""

NO_CPU = "the operator's CPU time is unknown, so that a wait looks like work: serve process_cpu_seconds_total"


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


class WaitingGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Workers with the same stack."""

    count: int
    line: Frame
    """The line of the operator's own code that waits."""
    state: str
    """State of the first one; empty where the dump has none."""
    frames: tuple[Frame, ...]
    """The whole stack, innermost first."""


def workers_of_phase(
    history: WorkerHistory, phase: str, *, longest: float = LONGEST_S
) -> tuple[tuple[WorkerRow, ...], str]:
    """Return the controllers' rows in a phase, or nothing and why not.

    ``longest``: seconds that a reconcile may take. Controllers that had nothing to do have no row.
    """
    if not any(of == phase for _, of in history.scrapes):
        return (), "the operator's metrics were not scraped"
    by_controller = {
        controller: readings
        for controller in sorted(history.readings)
        if not controller.startswith(LIBRARY_QUEUES)
        if (readings := history.of_phase(controller, phase))
    }
    if not by_controller:
        return (), "the operator's metrics have no workqueue_* families: what its workers do is unknown"
    rows = (
        worker_row(history, name, readings, longest) for name, readings in by_controller.items() if _had_work(readings)
    )
    return tuple(rows), ""


def worker_row(history: WorkerHistory, controller: str, readings: Sequence[Reading], longest: float) -> WorkerRow:
    """Return one controller's row, from its readings in a phase."""
    start = history.started.get(readings[0].phase, readings[0].at)
    whole = window(readings, history.cpu)
    blocked = spells(readings, history.cpu, longest)
    workers = readings[-1].workers
    return WorkerRow(
        controller=controller,
        workers=None if workers is None else round(workers),
        active_share=whole.active_share if whole else None,
        unfinished_growth=whole.unfinished_growth if whole else None,
        busy_workers=whole.busy_workers if whole else None,
        finished_per_s=whole.finished_per_s if whole else None,
        cores_per_worker=whole.cores_per_worker if whole else None,
        depth_max=round(max(reading.depth for reading in readings)),
        longest_s=max(reading.longest_s for reading in readings),
        scrapes=len(readings),
        blocked=tuple(
            BlockedSpell(start_s=(one.start - start) / 1e9, end_s=(one.end - start) / 1e9, starved=one.starved)
            for one in blocked
        ),
        problem="" if blocked else doubt(history, readings, longest),
    )


def doubt(history: WorkerHistory, readings: Sequence[Reading], longest: float) -> str:
    """Return why workers may have been blocked undetected; empty where they were not blocked.

    In a phase no longer than ``longest`` in which no scrape shows a reconcile that took longer, none did.
    """
    seconds = (readings[-1].at - readings[0].at) / 1e9
    if seconds <= longest and all(reading.longest_s <= longest for reading in readings):
        return ""
    if not history.cpu.known():
        return NO_CPU
    widest = max(((after.at - before.at) / 1e9 for before, after in pairwise(readings)), default=seconds)
    if len(readings) >= MIN_SCRAPES and widest <= _FAR_APART * longest:
        return ""
    return (
        f"{len(readings)} scrapes in {seconds:.3g} s, up to {widest:.3g} s apart: too few to see waits of {longest:g} s"
    )


def _had_work(readings: Sequence[Reading]) -> bool:
    first, last = readings[0], readings[-1]
    return last.worked != first.worked or any(reading.depth or reading.unfinished_s for reading in readings)


def waiting_workers(stacks: Iterable[Stack]) -> tuple[WaitingGroup, ...]:
    """Return the workers that wait inside a reconcile, grouped by stack; the largest group first.

    Workers that wait for a key and workers that compute are left out. Empty where no stack is known to be a worker's.
    """
    groups: dict[tuple[tuple[str, str, int], ...], list[Stack]] = defaultdict(list)
    for stack in stacks:
        if _waits_inside(stack):
            groups[tuple(frame[:3] for frame in stack.frames)].append(stack)
    waiting = [
        WaitingGroup(count=len(group), line=waiting_line(group[0].frames), state=group[0].state, frames=group[0].frames)
        for group in groups.values()
    ]
    return tuple(sorted(waiting, key=lambda group: -group.count))


def stack_groups(stacks: Iterable[Stack]) -> tuple[StackGroup, ...]:
    """Return all stacks of a dump, equal ones grouped: those of reconcile workers first, then the largest groups."""
    groups: dict[tuple[Kind, tuple[tuple[str, str, int], ...]], list[Stack]] = defaultdict(list)
    for stack in stacks:
        groups[_kind(stack), tuple(frame[:3] for frame in stack.frames)].append(stack)
    total: Counter[Kind] = Counter()
    for (kind, _), group in groups.items():
        total[kind] += len(group)
    rows = (_stack_group(kind, group, total[kind]) for (kind, _), group in groups.items())
    return tuple(sorted(rows, key=lambda one: (one.kind != "reconcile worker", one.waits_for_key, -one.count)))


def read_dump(lines: Iterable[str]) -> list[Stack]:
    """Return the stacks of a dump, in its order, without those that have no frame."""
    drafts: list[_Draft] = []
    for line in lines:
        draft = _begun(line)
        if draft is not None:
            drafts.append(draft)
        elif not line.strip():
            if drafts:
                drafts[-1].ended = True
        elif drafts and not drafts[-1].ended:
            drafts[-1].take(line)
    return [draft.stack() for draft in drafts if draft.frames]


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
                if match := _PYSPY_FRAME.fullmatch(line):
                    self.frames.append(Frame(match[1], match[2], int(match[3] or 0)))
            case _:
                self._python(line)

    def _go(self, line: str) -> None:
        if match := _GO_FILE.fullmatch(line):
            if self.frames and not self.frames[-1].file:
                self.frames[-1] = self.frames[-1]._replace(file=match[1], line=int(match[2]))
        elif line.startswith(_GO_CREATED):
            # "created by" names the function that started the goroutine: it is no call of the stack.
            self.ended = True
        elif not line.startswith(("\t", "...")):
            self.frames.append(Frame(_GO_ARGUMENTS.sub("", line)))

    def _python(self, line: str) -> None:
        if match := _PYTHON_FRAME.fullmatch(line):
            self.frames.append(Frame(match[3], match[1], int(match[2])))
        elif self.frames and not self.frames[-1].source and line.strip("~^ "):
            self.frames[-1] = self.frames[-1]._replace(source=line.strip())

    def stack(self) -> Stack:
        """Return the stack read so far."""
        frames = self.frames if self._innermost_first else self.frames[::-1]
        return Stack(name=self.name, state=self.state, frames=tuple(frames))


def _begun(line: str) -> _Draft | None:
    if match := _GOROUTINE.fullmatch(line):
        return _Draft(f"goroutine {match[1]}", match[2], form="go", innermost_first=True)
    if match := _PYSPY_THREAD.fullmatch(line):
        return _Draft(match[3] or f"thread {match[1]}", match[2], form="py-spy", innermost_first=True)
    if match := _PYTHON.fullmatch(line):
        return _Draft(match[1], "", form="python", innermost_first=match[2] == "first")
    return None


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
