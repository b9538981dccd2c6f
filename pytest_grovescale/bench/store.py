"""A comparison or sweep on disk: its plan, written once, and a file for every finished run.

Files are written atomically, and a run is finished when its file exists: however and whenever the driver is killed,
the next one reads the existing files and continues.
"""

from __future__ import annotations

import contextlib
import datetime
import math
import random
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, TypeVar

import msgspec

from ..analysis.comparison_plan import ComparisonPlan, Discarded, Pair, VariantRun
from ..analysis.result import Scalar
from ..atomic_write import json_document, read_document, replacing
from ..cluster import locks
from ..errors import RecordingError, UsageError
from ..recording.records import CheckDeclared, Machine
from .target_test import Subject
from .variant import Variant


def write_json(path: Path, content: msgspec.Struct, *, mode: int = 0o666) -> None:
    """Write a struct as JSON; a reader finds the old file or the new one. Raises RecordingError."""
    with named_errors(path), replacing(path, durable=True, mode=mode) as file:
        file.write(json_document(content))


@contextlib.contextmanager
def named_errors(path: Path) -> Iterator[None]:
    """Turn an OSError on a file into a RecordingError."""
    try:
        yield
    except OSError as error:
        raise RecordingError(
            f"{path} cannot be written: {error.strerror}",
            next_step="Free some space, then go on where it was with --resume.",
        ) from error


NOOP, DEPLOY, RUN, PROFILE, BISECT = "noop", "deploy", "run", "profile", "bisect"
"""Parts of a comparison. ``RUN``: whole runs of the test, which a quick comparison makes instead of no-op windows and
deploy runs. ``PROFILE``: one run of each variant, with the machine to itself and a profiling pass; the verdict does not
include it."""
PAIRS: Mapping[str, int] = {NOOP: 10, DEPLOY: 14, RUN: 12}
"""Part of a comparison → number of its pairs, including a warm-up. `grovescale selftest power` shows what they can
detect. Of an operator with itself, nearly all comparisons end at their first analysis, after half of them."""

TYPICAL_S: Mapping[str, float] = {NOOP: 14.0, DEPLOY: 31.5, RUN: 12.0, PROFILE: 120.0, "sweep": 57.0}
"""Part → seconds for one run of it, with set-up and teardown: medians of the comparisons and the sweep of up to 1000
pods on two cores in docs/comparing.md."""

ALPHA = 0.05
"""Of a whole comparison; each part gets its share, so that all parts together raise no more false alarms than one."""

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_.-]")

FIRST_LOOK = 5
"""With fewer pairs than this after the warm-up, an interval is too wide for an interim analysis."""


class Slot(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """One run: its part of the work, its round and its arm."""

    part: str
    """``noop`` or ``deploy`` of a comparison, ``sweep`` of a sweep."""
    round: int
    """From 0. In a comparison, the pair."""
    arm: str
    """``a`` or ``b``; in a sweep the value."""

    @property
    def name(self) -> str:
        """Name of its files: ``deploy-03-b``."""
        return f"{self.part}-{self.round:02d}-{_NOT_IN_NAMES.sub('_', self.arm)}"


def interleaved(part: str, pairs: int) -> tuple[Slot, ...]:
    """Return A B, B A, A B …, so that a steady slowdown of the machine favours neither."""
    orders = ("ab", "ba")
    return tuple(Slot(part=part, round=pair, arm=arm) for pair in range(pairs) for arm in orders[pair % 2])


def shuffled(part: str, values: Sequence[str], repeats: int, *, seed: int = 0) -> tuple[Slot, ...]:
    """Return every value once in each round, each round in a random order determined by ``seed``."""
    chance = random.Random(seed)
    return tuple(
        Slot(part=part, round=repeat, arm=value)
        for repeat in range(repeats)
        for value in chance.sample(list(values), len(values))
    )


def looks(pairs: int, *, warmup: int = 0) -> tuple[int, ...]:
    """Return the numbers of pairs at which the figures are analysed: halfway if there are enough, and at the end.

    ``pairs`` include the ``warmup``.
    """
    early = warmup + max(FIRST_LOOK, math.ceil((pairs - warmup) / 2))
    return (early, pairs) if early < pairs else (pairs,)


def quick_looks(pairs: int) -> tuple[int, ...]:
    """Return the same of a quick comparison, which has no warm-up, and whose counts often are the same in all runs."""
    return (*(look for look in (5, 8) if look < pairs), pairs)


def left(planned: Sequence[Slot], done: Iterable[Slot]) -> tuple[Slot, ...]:
    """Return the remaining runs, in their order."""
    finished = set(done)
    return tuple(slot for slot in planned if slot not in finished)


def complete_rounds(done: Iterable[Slot], part: str, arms: Sequence[str]) -> int:
    """Return the number of rounds, from the first on without a gap, that have a run of every arm."""
    have = {(slot.round, slot.arm) for slot in done if slot.part == part}
    rounds = 0
    while all((rounds, arm) in have for arm in arms):
        rounds += 1
    return rounds


SCHEMA_VERSION = 1

PLAN = "plan.json"
SAMPLES = "samples"
DISCARDED = "discarded"
STOPPED = "stopped"
SKIPPED = "skipped"
RUNS = "runs"


class WindowPlan(msgspec.Struct, frozen=True, kw_only=True):
    """How no-op windows are measured, for both variants at the same time."""

    seconds: float = 6.0
    """Length of the idle twin; upper limit for the time of each variant's triggers."""
    triggers: int = 100
    """Maximum number for each variant. A window's figure varies with the machine's speed within it, not with the
    process: with 20 triggers a pair's log ratio had a standard deviation of 6 to 9 %, in one process as in fresh
    ones, with the 40 that 12 s have room for, closer together, one of 2 %."""
    fresh: bool = True
    """A fresh operator process for each window."""
    offset_s: float = 5.0
    """The idle twin begins up to so many seconds late, by a chance that the comparison's start determines: work at
    intervals from the process' start on is neither always in it nor never."""


class BisectPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What a bisection looks for."""

    metric: str
    most: int
    """Measurements after which it gives up."""
    error: float
    """Probability of a wrong answer over the whole search."""
    max_contention: float | None
    """As in `ComparisonPlan`: a pair above it is left out."""
    pairs: int
    """Of the comparison of the guilty commit with the one before it; 0: none."""
    profiles: bool
    """Whether that comparison has a profiling pass."""


class Skipped(msgspec.Struct, frozen=True, kw_only=True):
    """A commit that cannot be measured."""

    schema_version: int = 1
    commit: str
    why: str


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that determines the runs; a resumed run uses nothing else."""

    schema_version: int = SCHEMA_VERSION
    command: Literal["compare", "sweep", "bisect"]
    started: str
    """ISO 8601, UTC."""
    subject: Subject
    arms: dict[str, Variant]
    """Arm of a slot → its variant."""
    slots: tuple[Slot, ...]
    """Every run, in order."""
    comparisons: dict[str, ComparisonPlan] = {}
    """Part → the gated metrics and their rule; for a comparison."""
    windows: WindowPlan = WindowPlan()
    repository: str = ""
    """Top folder of the git repository of the arms' revisions."""
    hold_s: float = 1.0
    """Longest hold in a phase of a run."""
    time_limit_s: float | None = None
    """Time for the pairs of a comparison's parts, s; None: no limit."""
    bisect: BisectPlan | None = None
    """For a bisection."""
    parameter: str = ""
    """For a sweep: the parameter, or value of the definition, that the arms vary."""

    def part(self, name: str) -> tuple[Slot, ...]:
        """Return the runs of one part."""
        return tuple(slot for slot in self.slots if slot.part == name)


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one slot."""

    schema_version: int = SCHEMA_VERSION
    slot: Slot
    run: VariantRun
    seconds: float
    """Duration of the slot, including set-up and teardown."""
    machine: Machine
    facts: dict[str, Scalar] = {}
    """Facts about the cluster."""
    held_to: tuple[CheckDeclared, ...] = ()
    """Checks of the test that judge runs of several sizes."""
    parameters: dict[str, Scalar] = {}
    """The test's parameters, and the values of its operator's definition."""

    @property
    def in_force(self) -> dict[str, Scalar]:
        """All known settings of the run."""
        return self.parameters | self.facts


class Stopped(msgspec.Struct, frozen=True, kw_only=True):
    """A part that was ended before its planned pairs, for a reason that has nothing to do with its figures."""

    schema_version: int = SCHEMA_VERSION
    why: str


class DiscardedSamples(msgspec.Struct, frozen=True, kw_only=True):
    """The runs of a contended pair, which are repeated."""

    schema_version: int = SCHEMA_VERSION
    a: Sample
    b: Sample


T = TypeVar("T", Plan, Sample, DiscardedSamples, Skipped, Stopped)


class Store:
    """The folder of one comparison or sweep."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @classmethod
    def create(cls, reports: Path, plan: Plan) -> Store:
        """Create a folder in ``reports`` and write the plan into it."""
        now = datetime.datetime.now(datetime.UTC)
        store = cls(reports / f"{plan.command}-{now:%Y%m%d-%H%M%S}-{secrets.token_hex(2)}")
        with named_errors(store.folder):
            (store.folder / SAMPLES).mkdir(parents=True)
            (store.folder / RUNS).mkdir()
        # With the original values and parameters, including secret ones: its runs need them.
        write_json(store.folder / PLAN, plan, mode=0o600)
        return store

    @classmethod
    def within(cls, folder: Path, plan: Plan) -> Store:
        """Return the store in a folder of another one; created with this plan where there is none yet."""
        store = cls(folder)
        if not (folder / PLAN).is_file():
            with named_errors(folder):
                (folder / SAMPLES).mkdir(parents=True, exist_ok=True)
                (folder / RUNS).mkdir(exist_ok=True)
            write_json(folder / PLAN, plan, mode=0o600)
        return store

    @classmethod
    def latest(cls, reports: Path, command: str) -> Store:
        """Return the most recently started one. Raises UsageError where there is none."""
        plans = sorted(reports.glob(f"{command}-*/{PLAN}"))
        if not plans:
            raise UsageError(
                f"{reports} holds nothing of grovescale {command} to go on with",
                next_step="Name its folder: --resume FOLDER, or start one.",
            )
        return cls(plans[-1].parent)

    def plan(self) -> Plan:
        """Return the plan. Raises RecordingError for a folder without one."""
        return _read(self.folder / PLAN, Plan)

    def keep(self, sample: Sample) -> None:
        """Write the sample of a finished run."""
        write_json(self.folder / SAMPLES / f"{sample.slot.name}.json", sample)

    def samples(self) -> dict[Slot, Sample]:
        """Return the finished runs, without those of discarded pairs that are still to be repeated."""
        found = [_read(path, Sample) for path in sorted((self.folder / SAMPLES).glob("*.json"))]
        out = [sample for one in self._discarded() for sample in (one.a, one.b)]
        return {sample.slot: sample for sample in found if sample not in out}

    def discard(self, a: Sample, b: Sample) -> None:
        """Discard a pair: its runs are to be repeated, and then overwrite their files.

        A single file discards both: a killed driver leaves no half-discarded pair.
        """
        folder = self.folder / DISCARDED
        with named_errors(folder):
            folder.mkdir(exist_ok=True)
        stem = f"{a.slot.part}-{a.slot.round:02d}"
        number = 1 + len(list(folder.glob(f"{stem}-*.json")))
        write_json(folder / f"{stem}-{number:02d}.json", DiscardedSamples(a=a, b=b))

    def discarded(self, planned: tuple[Slot, ...], part: str) -> list[Discarded]:
        """Return the discarded pairs of a part by number; those of one number in the order in which they were made."""
        first = _first_arms(planned, part)
        return [
            Discarded(round=one.a.slot.round, pair=_pair(one.a, one.b, first[one.a.slot.round]))
            for one in self._discarded()
            if one.a.slot.part == part
        ]

    def _discarded(self) -> list[DiscardedSamples]:
        return [_read(path, DiscardedSamples) for path in sorted((self.folder / DISCARDED).glob("*.json"))]

    def stop(self, part: str, why: str) -> None:
        """Note that a part is over: no more pairs of it are made, with ``--resume`` neither."""
        with named_errors(self.folder):
            (self.folder / STOPPED).mkdir(exist_ok=True)
        write_json(self.folder / STOPPED / f"{part}.json", Stopped(why=why))

    def stopped(self, part: str) -> str:
        """Return why a part is over although its pairs are not complete; empty where it is not."""
        path = self.folder / STOPPED / f"{part}.json"
        return _read(path, Stopped).why if path.is_file() else ""

    def skip(self, commit: str, why: str) -> None:
        """Note that a commit cannot be measured."""
        with named_errors(self.folder):
            (self.folder / SKIPPED).mkdir(exist_ok=True)
        write_json(self.folder / SKIPPED / f"{commit}.json", Skipped(commit=commit, why=why))

    def skipped(self) -> dict[str, str]:
        """Return the commits that cannot be measured, with the reasons."""
        found = [_read(path, Skipped) for path in sorted((self.folder / SKIPPED).glob("*.json"))]
        return {one.commit: one.why for one in found}

    def next_run(self, start: str) -> str:
        """Return the name of the next process whose name begins so: ``noop-a-2``."""
        return f"{start}-{1 + len(list((self.folder / RUNS).glob(f'{start}-*')))}"

    def run_folder(self, name: str) -> Path:
        """Return the folder for the reports and the output of one pytest process, created if necessary."""
        folder = self.folder / RUNS / name
        with named_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
        return folder

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Lock the folder. Raises UsageError when another process uses it."""
        lock = locks.take(self.folder / ".lock", wait=False)
        if lock is None:
            raise UsageError(f"{self.folder} is being worked on", next_step="Wait for that one, or start another.")
        with lock:
            yield


def pairs(samples: dict[Slot, Sample], planned: tuple[Slot, ...], part: str) -> list[Pair]:
    """Return the finished pairs of a part, in order."""
    rounds = complete_rounds(samples, part, ("a", "b"))
    first = _first_arms(planned, part)
    return [
        _pair(
            samples[Slot(part=part, round=number, arm="a")],
            samples[Slot(part=part, round=number, arm="b")],
            first[number],
        )
        for number in range(rounds)
    ]


def _pair(a: Sample, b: Sample, first: str) -> Pair:
    return Pair(a=a.run, b=b.run, first="a" if first == "a" else "b")


def _first_arms(planned: tuple[Slot, ...], part: str) -> dict[int, str]:
    """Return round → the arm that is first in it."""
    return {slot.round: slot.arm for slot in reversed(planned) if slot.part == part}


def _read(path: Path, type: type[T]) -> T:
    return read_document(
        path,
        type,
        schema_version=SCHEMA_VERSION,
        what="of a comparison, sweep or bisection",
        next_step="Is it the right folder? A damaged file can be removed: that run is made again.",
    )
