"""A fault, what is expected of the run that meets it, what was seen of that run, and the answers.

``catalogue`` makes the faults, ``worker`` turns one into an observation, ``judging`` turns that into answers.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

Point = Literal["start", "nodes", "operator", "deploy", "steady-state", "delete", "teardown", "failure"]
"""A line of a run's progress; ``start``: etcd and API server run, ``teardown``: the last phase has passed, ``failure``:
the first one has failed."""

Victim = Literal["harness", "recorder", "supervisor", "operator", "etcd", "kube-apiserver", "kwok"]
Place = Literal["reports", "state", "data", "tmp", "cache", "home"]
"""``data``: /dev/shm."""
CachedBinary = Literal["etcd", "kube-apiserver", "kwok"]
Damage = Literal["flipped", "half", "script", "missing", "origin-half", "not-executable"]
Resource = Literal["NPROC", "NOFILE", "FSIZE", "AS"]
OccupiedPath = Literal["lock-folder", "lock-gate", "lock-main", "data-folder"]
OccupiedBy = Literal["symlink", "fifo", "file", "private folder"]


class Moment(msgspec.Struct, frozen=True, kw_only=True):
    """When a fault strikes a run that is under way."""

    after: Point
    delay_s: float = 0.0

    def __str__(self) -> str:
        return f"{self.delay_s:.2f} s after {self.after}"


# ---- what is done to a run


class Kill(msgspec.Struct, frozen=True, tag=True):
    victim: Victim


class Freeze(msgspec.Struct, frozen=True, tag=True):
    """SIGSTOP; ``seconds`` later SIGCONT, or, where that is None, when the run has ended."""

    victim: Victim
    seconds: float | None


class Interrupt(msgspec.Struct, frozen=True, tag=True):
    """Ctrl-C, which the whole process group gets, or SIGTERM, which pytest alone gets."""

    signal: Literal["SIGINT", "SIGTERM"]
    times: int
    apart_s: float


class FillDisk(msgspec.Struct, frozen=True, tag=True):
    """A disk has ``left_bytes`` of room, from the fault's moment (or the start) until ``until`` (or the run's end)."""

    place: Place
    left_bytes: int
    until: Point | None = None


class DamageCache(msgspec.Struct, frozen=True, tag=True):
    binary: CachedBinary
    how: Damage
    elsewhere: bool
    """Whether sound binaries are on PATH. Nothing can be downloaded or built in any case."""


class Limit(msgspec.Struct, frozen=True, tag=True):
    """A resource limit (setrlimit) of the whole run."""

    resource: Resource
    value: int


class Beside(msgspec.Struct, frozen=True, tag=True):
    """A second run starts at the fault's moment: in another mount namespace, or of another user."""

    where: Literal["mount namespace", "other user"]


class OtherUser(msgspec.Struct, frozen=True, tag=True):
    """A user without a login name, after root has used this machine."""


class Occupied(msgspec.Struct, frozen=True, tag=True):
    """Another user has made something of a name that the run uses; a symbolic link leads to files of root's."""

    path: OccupiedPath
    how: OccupiedBy


class LockHeld(msgspec.Struct, frozen=True, tag=True):
    """Another user holds the machine until the run has named them."""


class Paths(msgspec.Struct, frozen=True, tag=True):
    """All folders lie in one of this name."""

    name: str


class Several(msgspec.Struct, frozen=True, tag=True):
    """So many runs at once, with the same folders."""

    count: int


class ClosePipe(msgspec.Struct, frozen=True, tag=True):
    """The output goes to a pipe whose reader ends after so many lines, as `head` does."""

    lines: int


class ReadOnly(msgspec.Struct, frozen=True, tag=True):
    place: Place


class Remove(msgspec.Struct, frozen=True, tag=True):
    place: Place


class AsciiLocale(msgspec.Struct, frozen=True, tag=True):
    """The output can hold ASCII only."""


Action: TypeAlias = (
    Kill
    | Freeze
    | Interrupt
    | FillDisk
    | DamageCache
    | Limit
    | Beside
    | OtherUser
    | Occupied
    | LockHeld
    | Paths
    | Several
    | ClosePipe
    | ReadOnly
    | Remove
    | AsciiLocale
)


# ---- what is expected


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """One way in which a run may end."""

    exits: tuple[int, ...]
    """Exit codes; negative: killed by that signal."""
    shown: tuple[str, ...] = ()
    """First word of what ``grovescale show`` prints, one of these; none: there need be no recording."""
    says: tuple[str, ...] = ()
    """Regular expressions, each found in the output, whatever its case."""
    next_step: bool = False
    """Whether the output says what to do."""


class Expectation(msgspec.Struct, frozen=True, kw_only=True):
    outcomes: tuple[Outcome, ...]
    """Any of these is right."""
    until_next_run: tuple[str, ...] = ()
    """Regular expressions of files that may be left until the next run, since who removes them was killed. Processes
    may never be left."""
    result: bool = True
    """Whether each run with a recording has a result.json."""
    limit_s: float = 180.0
    """The run has ended by then, counted from its start, on a machine that does nothing else."""


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    number: int
    kind: str
    what: str
    """The fault in words, without its moment."""
    action: Action
    expect: Expectation
    moment: Moment | None = None
    """None: before the run starts."""

    @property
    def text(self) -> str:
        return f"{self.what}, {self.moment}" if self.moment is not None else self.what


class Size(msgspec.Struct, frozen=True, kw_only=True):
    """How big the runs are."""

    nodes: int
    replicas: int
    """Two pods each."""
    hold_s: float


# ---- what was seen


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """A program that was run."""

    exit: int | None
    """None: it had not ended when its time was over, and was killed."""
    seconds: float
    output: str


class Journal(msgspec.Struct, frozen=True, kw_only=True):
    path: str
    lines: int
    broken: tuple[str, ...] = ()
    """What is wrong with a line, each with its number."""


class Observation(msgspec.Struct, frozen=True, kw_only=True):
    """All that was seen of one fault. Paths are below the fault's own folders."""

    skipped: str = ""
    """Why this fault is not possible here."""
    missed: str = ""
    """Why the fault did not strike."""
    runs: tuple[Ended, ...] = ()
    processes_left: tuple[str, ...] = ()
    """Command lines of what still ran some time after the runs' end."""
    left_after_run: tuple[str, ...] = ()
    """Files that were not there before, neither a run's output nor files that stay on purpose."""
    left_after_next: tuple[str, ...] = ()
    journals: tuple[Journal, ...] = ()
    unfinished: tuple[str, ...] = ()
    """Folders of runs that have a recording and no result.json that can be read."""
    shown: Ended | None = None
    """``grovescale show`` of the run; None: it has no recording."""
    disturbed: tuple[str, ...] = ()
    """What the run did to files that are none of its business."""
    next_run: Ended | None = None
    seconds: float = 0.0


# ---- the answers


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to one of the four questions; without a reason all is well."""

    reasons: tuple[str, ...] = ()

    @property
    def good(self) -> bool:
        return not self.reasons


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One fault in the table."""

    fault: Fault
    left_over: Answer = Answer()
    lost: Answer = Answer()
    message: Answer = Answer()
    next_run: Answer = Answer()
    skipped: str = ""
    missed: str = ""
    seconds: float = 0.0

    @property
    def answers(self) -> tuple[Answer, ...]:
        return (self.left_over, self.lost, self.message, self.next_run)

    @property
    def perfect(self) -> bool:
        return not self.skipped and not self.missed and all(answer.good for answer in self.answers)

    @property
    def reasons(self) -> tuple[str, ...]:
        """Return what is not perfect, each with its question."""
        if self.skipped or self.missed:
            return (f"skipped: {self.skipped}" if self.skipped else f"did not strike: {self.missed}",)
        names = ("left over", "lost", "message", "next run")
        return tuple(
            f"{name}: {why}" for name, answer in zip(names, self.answers, strict=True) for why in answer.reasons
        )
