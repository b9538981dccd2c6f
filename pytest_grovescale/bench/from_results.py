"""Comparisons of finished runs: two folders of results."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from ..analysis.comparability import differences, unlike
from ..analysis.comparison import Comparison, ComparisonPlan, Pair, VariantRun, compare
from ..analysis.contention import MAX_CONTENTION, contention_of_phases
from ..analysis.result import TestResult, last
from ..analysis.run_metrics import default_gates, largest_of, metrics_of, saturated_phases
from ..errors import UsageError
from ..report import result_file
from .measured import LATEST, broken

WEAKER = "these runs were not interleaved: a machine that was slower for a while looks like a slower operator"


class RecordedRun(NamedTuple):
    """A finished run, and the data that a comparison keeps of it."""

    folder: Path
    test: TestResult
    run: VariantRun


class RecordedPair(NamedTuple):
    """Two runs that are compared with each other."""

    a: RecordedRun
    b: RecordedRun


def pairs_in(a: Path, b: Path) -> list[RecordedPair]:
    """Return the pairs of the runs in two folders, each a run's own or one with several runs.

    Pairs runs in the order in which they were made; leaves out surplus runs of one folder, and profiling passes. Raises
    UsageError for a folder without results, or with those of several tests.
    """
    sides = [_runs(a), _runs(b)]
    tests = sorted({test.test for side in sides for _, test in side})
    if len(tests) > 1:
        raise UsageError(
            "the folders hold results of different tests: " + ", ".join(tests), next_step="Compare runs of one test."
        )
    return [RecordedPair(_run(*first), _run(*second)) for first, second in zip(*sides, strict=False)]


def refuse_different(pairs: Sequence[RecordedPair]) -> None:
    """Raise UsageError for runs whose parameters, sizes or machines differ, with all differences."""
    found = differences([pair.a.test for pair in pairs], [pair.b.test for pair in pairs])
    if found:
        raise UsageError(
            "\n".join(["these runs differ in more than the operator:", *(f"  {one}" for one in found)]),
            next_step="Compare runs that were made alike; or, if that is what you compare: --allow-different.",
        )


def compare_recorded(
    a: Path,
    b: Path,
    pairs: Sequence[RecordedPair],
    *,
    gated: Sequence[str] = (),
    max_contention: float = MAX_CONTENTION,
) -> Comparison:
    """Return the comparison of the ``pairs`` in two folders (`pairs_in`).

    Marks pairs as contended in which other programs took more of the cores than ``max_contention``.
    """
    found = [Pair(a=pair.a.run, b=pair.b.run) for pair in pairs]
    keys = {key for pair in found for key in pair.a.metrics.keys() & pair.b.metrics.keys()}
    gates = default_gates(
        {
            key: figure
            for key, figure in largest_of(side.run.metrics for pair in pairs for side in (pair.a, pair.b)).items()
            if key in keys
        }
    )
    plan = ComparisonPlan(
        a=str(a),
        b=str(b),
        gated=tuple(gated) or gates.gated,
        guards=() if gated else gates.guards,
        pairs=len(found),
        warmup=0,
        looks=(len(found),),
        max_contention=max_contention,
    )
    sides = [[pair.a.test for pair in pairs], [pair.b.test for pair in pairs]]
    machines = {test.machine.fingerprint: test.machine for side in sides for test in side}
    machine = next(iter(machines.values())) if len(machines) == 1 else None
    facts = {"test": sides[0][0].test}
    return compare(plan, found, machine=machine, facts=facts, weaker="; ".join([*unlike(*sides), WEAKER]))


def is_folder_of_runs(name: str) -> bool:
    """Return whether an argument names recorded runs."""
    return Path(name).is_dir() and bool(_files(Path(name)))


def _runs(folder: Path) -> list[tuple[Path, TestResult]]:
    every = [(file, test) for file in _files(folder) for test in last(result_file.read(file).tests)]
    if not every:
        raise UsageError(
            f"{folder} has no {result_file.NAME}", next_step="Name a run's folder, or one that holds some."
        )
    found = [(file, test) for file, test in every if not test.profiled]
    if not found:
        raise UsageError(
            f"{folder} holds only passes with a profiler, whose figures hold its cost",
            next_step="Name the folder of a run that was measured too.",
        )
    return sorted(found, key=lambda one: one[1].started)


def _files(folder: Path) -> list[Path]:
    own = folder / result_file.NAME
    if own.is_file():
        return [own]
    return [file for file in sorted(folder.glob(f"*/{result_file.NAME}")) if file.parent.name != LATEST]


def _run(file: Path, test: TestResult) -> RecordedRun:
    run = VariantRun(
        metrics=metrics_of(test),
        broken=broken(test),
        failure=test.failure,
        saturated=saturated_phases(test),
        objects=test.objects,
        recording=str(file.parent / test.recording) if test.recording else "",
        contention=contention_of_phases(test.phases),
    )
    return RecordedRun(file.parent, test, run)
