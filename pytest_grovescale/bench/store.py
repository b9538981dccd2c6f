"""A comparison or sweep on disk: its plan, written once, and a file for every finished run.

Every file is written whole or not at all, and a run counts as finished when its file is there: whatever kills the
driver, and whenever, the next one reads what is there and goes on.
"""

from __future__ import annotations

import contextlib
import datetime
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, TypeVar

import msgspec

from ..analysis.comparison import ComparisonPlan, Discarded, Pair, VariantRun
from ..analysis.result import Scalar
from ..cluster import locks
from ..errors import UsageError
from ..recording.records import CheckDeclared, Machine
from ..whole_files import read_document
from .schedule import Slot, complete_rounds
from .subject import Subject
from .variant import Variant
from .whole_files import told, write_json

SCHEMA_VERSION = 1

PLAN = "plan.json"
SAMPLES = "samples"
DISCARDED = "discarded"
RUNS = "runs"


class WindowPlan(msgspec.Struct, frozen=True, kw_only=True):
    """How no-op windows are measured, both variants' at the same time."""

    seconds: float = 10.0
    """Length of the idle twin; each variant's triggers take so long at most."""
    triggers: int = 100
    """At most so many of each variant. What a window's figure varies by is the machine's speed within it, not the
    process: with 20 triggers a pair's log ratio had a standard deviation of 6 to 9 %, in one process as in fresh
    ones, with 100 one of 3 %."""
    fresh: bool = True
    """A fresh operator process for each window."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """All that decides what is run; a run that is resumed asks nothing else."""

    schema_version: int = SCHEMA_VERSION
    command: Literal["compare", "sweep"]
    started: str
    """ISO 8601, UTC."""
    subject: Subject
    arms: dict[str, Variant]
    """Arm of a slot → what it runs."""
    slots: tuple[Slot, ...]
    """Every run, in order."""
    comparisons: dict[str, ComparisonPlan] = {}
    """Part → what is gated, and how; for a comparison."""
    windows: WindowPlan = WindowPlan()
    repository: str = ""
    """Top folder of the git repository that the arms are revisions of."""
    hold_s: float = 1.0
    """Longest hold in a phase of a run."""
    parameter: str = ""
    """For a sweep: the parameter, or value of the definition, that the arms are values of."""

    def part(self, name: str) -> tuple[Slot, ...]:
        """Return the runs of one part."""
        return tuple(slot for slot in self.slots if slot.part == name)


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """What came out of one slot."""

    schema_version: int = SCHEMA_VERSION
    slot: Slot
    run: VariantRun
    seconds: float
    """How long the slot took, with everything around the measurement."""
    machine: Machine
    facts: dict[str, Scalar] = {}
    """The cluster's."""
    held_to: tuple[CheckDeclared, ...] = ()
    """Checks of the test that runs of several sizes are judged by."""
    parameters: dict[str, Scalar] = {}
    """The test's, and the values of its operator's definition."""

    @property
    def in_force(self) -> dict[str, Scalar]:
        """All that is known of what it ran with."""
        return self.parameters | self.facts


class DiscardedSamples(msgspec.Struct, frozen=True, kw_only=True):
    """The runs of a contended pair, which are made again."""

    schema_version: int = SCHEMA_VERSION
    a: Sample
    b: Sample


T = TypeVar("T", Plan, Sample, DiscardedSamples)


class Store:
    """The folder of one comparison or sweep."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @classmethod
    def create(cls, reports: Path, plan: Plan) -> Store:
        """Make a folder of its own in ``reports`` and write the plan into it."""
        now = datetime.datetime.now(datetime.UTC)
        store = cls(reports / f"{plan.command}-{now:%Y%m%d-%H%M%S}-{secrets.token_hex(2)}")
        with told(store.folder):
            (store.folder / SAMPLES).mkdir(parents=True)
            (store.folder / RUNS).mkdir()
        # With the values and parameters as they were given, secret ones too: its runs need them.
        write_json(store.folder / PLAN, plan, mode=0o600)
        return store

    @classmethod
    def latest(cls, reports: Path, command: str) -> Store:
        """Return the one that was begun last; raises UsageError where there is none."""
        plans = sorted(reports.glob(f"{command}-*/{PLAN}"))
        if not plans:
            raise UsageError(
                f"{reports} holds nothing of grovescale {command} to go on with",
                next_step="Name its folder: --resume FOLDER, or start one.",
            )
        return cls(plans[-1].parent)

    def plan(self) -> Plan:
        """Return the plan; raises RecordingError for a folder without one."""
        return _read(self.folder / PLAN, Plan)

    def keep(self, sample: Sample) -> None:
        """Write the sample of a finished run."""
        write_json(self.folder / SAMPLES / f"{sample.slot.name}.json", sample)

    def samples(self) -> dict[Slot, Sample]:
        """Return the finished runs, without those of discarded pairs that are still to be made again."""
        found = [_read(path, Sample) for path in sorted((self.folder / SAMPLES).glob("*.json"))]
        out = [sample for one in self._discarded() for sample in (one.a, one.b)]
        return {sample.slot: sample for sample in found if sample not in out}

    def discard(self, a: Sample, b: Sample) -> None:
        """Discard a pair: its runs are to be made again, and their files are overwritten then.

        One file decides it for both: a driver that is killed leaves no half of a discarded pair.
        """
        folder = self.folder / DISCARDED
        with told(folder):
            folder.mkdir(exist_ok=True)
        stem = f"{a.slot.part}-{a.slot.round:02d}"
        number = 1 + len(list(folder.glob(f"{stem}-*.json")))
        write_json(folder / f"{stem}-{number:02d}.json", DiscardedSamples(a=a, b=b))

    def discarded(self, planned: tuple[Slot, ...], part: str) -> list[Discarded]:
        """Return the discarded pairs of a part, by their numbers, each number's in the order they were made."""
        first = _first_arms(planned, part)
        return [
            Discarded(round=one.a.slot.round, pair=_pair(one.a, one.b, first[one.a.slot.round]))
            for one in self._discarded()
            if one.a.slot.part == part
        ]

    def _discarded(self) -> list[DiscardedSamples]:
        return [_read(path, DiscardedSamples) for path in sorted((self.folder / DISCARDED).glob("*.json"))]

    def run_folder(self, name: str) -> Path:
        """Return the folder for the reports and the output of one pytest process, made if need be."""
        folder = self.folder / RUNS / name
        with told(folder):
            folder.mkdir(parents=True, exist_ok=True)
        return folder

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Hold the folder; raises UsageError when another process works on it."""
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
        what="of a comparison or sweep",
        next_step="Is it the right folder? A damaged file can be removed: that run is made again.",
    )
