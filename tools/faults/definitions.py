"""A fault, its expected outcome, the observation of its run, and the answers.

``catalogue`` creates the faults, ``worker`` turns one into an observation, ``judging`` turns that into answers.
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
RunFile = Literal["journal", "cluster-state", "processes", "audit-log"]
"""Files of a running test or cluster."""
FileDamage = Literal["truncated", "removed", "garbage"]
OccupiedPath = Literal["lock-folder", "lock-gate", "lock-main", "data-folder"]
OccupiedBy = Literal["symlink", "fifo", "file", "private folder"]


class Moment(msgspec.Struct, frozen=True, kw_only=True):
    """When a fault strikes during a run."""

    after: Point
    delay_s: float = 0.0

    def __str__(self) -> str:
        return f"{self.delay_s:.2f} s after {self.after}"


# ---- faults


class Kill(msgspec.Struct, frozen=True, tag=True):
    victim: Victim


class Freeze(msgspec.Struct, frozen=True, tag=True):
    """SIGSTOP; SIGCONT after ``seconds`` or, for None, at the end of the run."""

    victim: Victim
    seconds: float | None


class Interrupt(msgspec.Struct, frozen=True, tag=True):
    """Ctrl-C, Ctrl-\\ or the end of the terminal, sent to the whole process group, or SIGTERM, sent to pytest alone."""

    signal: Literal["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT"]
    times: int
    apart_s: float


class FillDisk(msgspec.Struct, frozen=True, tag=True):
    """A disk has ``left_bytes`` free, from the fault's moment (or the start) until ``until`` (or the run's end)."""

    place: Place
    left_bytes: int
    until: Point | None = None


class NoInodes(msgspec.Struct, frozen=True, tag=True):
    """A disk with free space, but without an inode for another file."""

    place: Place


class DamageFile(msgspec.Struct, frozen=True, tag=True):
    """A file of the running test or its cluster is damaged by another program."""

    file: RunFile
    how: FileDamage


class Surroundings(msgspec.Struct, frozen=True, tag=True):
    """Changed environment variables, an empty value for none, and closed standard streams (0, 1, 2)."""

    variables: dict[str, str] = {}
    closed: tuple[int, ...] = ()


class DamageCache(msgspec.Struct, frozen=True, tag=True):
    binary: CachedBinary
    how: Damage
    elsewhere: bool
    """Whether intact binaries are on PATH. Downloads and builds are impossible in any case."""


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
    """Another user has created a name that the run uses; a symbolic link leads to files of root."""

    path: OccupiedPath
    how: OccupiedBy


class LockHeld(msgspec.Struct, frozen=True, tag=True):
    """Another user holds the machine lock until the run has named that user."""


class Paths(msgspec.Struct, frozen=True, tag=True):
    """All folders are below one of this name."""

    name: str


class Several(msgspec.Struct, frozen=True, tag=True):
    """This many runs at once, with the same folders."""

    count: int


class ClosePipe(msgspec.Struct, frozen=True, tag=True):
    """The output goes to a pipe whose reader ends after this many lines, like `head`."""

    lines: int


class ReadOnly(msgspec.Struct, frozen=True, tag=True):
    place: Place


class Remove(msgspec.Struct, frozen=True, tag=True):
    place: Place


class AsciiLocale(msgspec.Struct, frozen=True, tag=True):
    """The output accepts ASCII only."""


Action: TypeAlias = (
    Kill
    | Freeze
    | Interrupt
    | FillDisk
    | NoInodes
    | DamageFile
    | Surroundings
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


# ---- expected outcomes


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """One way in which a run may end."""

    exits: tuple[int, ...]
    """Exit codes; negative: killed by that signal."""
    shown: tuple[str, ...] = ()
    """First word of the output of ``grovescale show``, one of these; empty: a recording is optional."""
    says: tuple[str, ...] = ()
    """Regular expressions, each found in the output, case-insensitively."""
    next_step: bool = False
    """Whether the output says what to do."""


class Expectation(msgspec.Struct, frozen=True, kw_only=True):
    outcomes: tuple[Outcome, ...]
    """Any of these is correct."""
    until_next_run: tuple[str, ...] = ()
    """Regular expressions of files that may stay until the next run, since the process that removes them was killed.
    Processes may never stay."""
    result: bool = True
    """Whether each run with a recording has a result.json."""
    limit_s: float = 180.0
    """Time limit of the run, counted from its start, on an otherwise idle machine."""


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    number: int
    kind: str
    what: str
    """The fault as text, without its moment."""
    action: Action
    expect: Expectation
    moment: Moment | None = None
    """None: before the run starts."""

    @property
    def text(self) -> str:
        return f"{self.what}, {self.moment}" if self.moment is not None else self.what


class Size(msgspec.Struct, frozen=True, kw_only=True):
    """The size of the runs."""

    nodes: int
    replicas: int
    """Number of replicas, of two pods each."""
    hold_s: float


# ---- observations


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """A program that has been run."""

    exit: int | None
    """None: it exceeded its time limit and was killed."""
    seconds: float
    output: str


class Journal(msgspec.Struct, frozen=True, kw_only=True):
    path: str
    lines: int
    broken: tuple[str, ...] = ()
    """Faults of a line, each with its line number."""


class Observation(msgspec.Struct, frozen=True, kw_only=True):
    """The observation of one fault. Paths are relative to the fault's own folders."""

    skipped: str = ""
    """Why this fault is not possible here; empty: it is."""
    missed: str = ""
    """Why the fault did not strike; empty: it did."""
    runs: tuple[Ended, ...] = ()
    processes_left: tuple[str, ...] = ()
    """Command lines of processes that still ran some time after the end of the runs."""
    left_after_run: tuple[str, ...] = ()
    """New files that are neither run output nor meant to stay."""
    left_after_next: tuple[str, ...] = ()
    journals: tuple[Journal, ...] = ()
    unfinished: tuple[str, ...] = ()
    """Folders of runs with a recording but without a readable result.json."""
    shown: Ended | None = None
    """Output of ``grovescale show`` for the run; None: it has no recording."""
    disturbed: tuple[str, ...] = ()
    """Changes by the run to files that it must not touch."""
    next_run: Ended | None = None
    seconds: float = 0.0


# ---- the answers


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to one of the four questions; an empty reason means success."""

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
        """Return the failed answers, each with its question."""
        if self.skipped or self.missed:
            return (f"skipped: {self.skipped}" if self.skipped else f"did not strike: {self.missed}",)
        names = ("left over", "lost", "message", "next run")
        return tuple(
            f"{name}: {why}" for name, answer in zip(names, self.answers, strict=True) for why in answer.reasons
        )
