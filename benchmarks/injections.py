"""Verifies the bottleneck table by fault injection: each fault must increase the row of the component it slows.

Each injection runs next to a run without it, several times. Of the wall time that it adds to its phase, at least
80 % must appear in its own row or rows; the median of the repeats counts.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec

from pytest_grovescale.analysis.analyse import analyse_run
from pytest_grovescale.analysis.phase_result import PhaseResult, Suspect

from .rows import Row, at_least

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "tests" / "data" / "injections"
REPEATS = 3
REPLICAS = 60
BOUND = 0.8
_TAIL = 4000

_PLAIN = (f"--grovescale-cluster={DATA / 'plain.yaml'}",)
CORE_WAITS: tuple[Suspect, ...] = (
    "operator-core-wait",
    "api-server-core-wait",
    "scheduler-core-wait",
    "kwok-core-wait",
    "controller-manager-core-wait",
)

_FAR = (*_PLAIN, f"--grovescale-operator={DATA / 'far-away.yaml'}")


def slow_owner_of(kind: str) -> tuple[str, ...]:
    """Return the options of a run whose pods are the operator's grandchildren: of an object of this kind."""
    return (
        f"--grovescale-cluster={DATA / 'plain.yaml'}",
        f"--grovescale-operator={DATA / 'slow-owner.yaml'}",
        f"--grovescale-set=script={DATA / 'slow_owner.py'}",
        f"--grovescale-set=kind={kind}",
    )


class Injection(msgspec.Struct, frozen=True, kw_only=True):
    """A fault, and the rows that it must increase."""

    name: str
    suspects: tuple[Suspect, ...]
    """The slowed components; the sum of their rows counts."""
    phase: str
    options: tuple[str, ...]
    """Options of a run with the fault."""
    without: tuple[str, ...] = _PLAIN
    """Options of a run without it."""
    test: str = "test_pods"


INJECTIONS = (
    Injection(
        name="scheduler at 20 qps",
        suspects=("scheduler",),
        phase="deploy",
        options=(f"--grovescale-cluster={DATA / 'slow-scheduler.yaml'}",),
    ),
    Injection(
        name="pods ready 3 s later",
        suspects=("kwok",),
        phase="deploy",
        options=(f"--grovescale-cluster={DATA / 'slow-start.yaml'}",),
    ),
    Injection(
        name="pods gone 3 s later",
        suspects=("kwok",),
        phase="delete",
        options=(f"--grovescale-cluster={DATA / 'slow-end.yaml'}",),
    ),
    Injection(
        name="garbage collector at 20 qps",
        suspects=("garbage-collector",),
        phase="delete",
        options=(f"--grovescale-cluster={DATA / 'slow-collector.yaml'}", "--grovescale-operator=none"),
        without=(*_PLAIN, "--grovescale-operator=none"),
        test="test_collection",
    ),
    Injection(
        # Twenty workers hide 20 ms behind each other; two have to wait for them.
        name="20 ms to the API server",
        suspects=("operator-api",),
        phase="deploy",
        options=(*_FAR, "--grovescale-set=concurrency=2"),
        without=(*_PLAIN, "--grovescale-set=concurrency=2"),
    ),
    Injection(
        name="operator at 50 qps",
        suspects=("operator-rate-limit",),
        phase="deploy",
        options=(*_PLAIN, "--grovescale-set=qps=50"),
    ),
    Injection(
        name="operator's allocations traced",
        suspects=("operator-cpu",),
        phase="deploy",
        options=(*_PLAIN, f"--grovescale-operator={DATA / 'slow-code.yaml'}"),
    ),
    Injection(
        name="operator with one worker",
        suspects=("operator-queue",),
        phase="deploy",
        options=(*_FAR, "--grovescale-set=concurrency=1"),
        without=_FAR,
    ),
    *(
        Injection(
            name=f"operator makes a {kind} 6 s late",
            suspects=("operator-idle",),
            phase="deploy",
            options=slow_owner_of(kind),
            without=(*slow_owner_of(kind), "--grovescale-set=delay=0"),
            test="test_grandchildren",
        )
        for kind in ("Deployment", "StatefulSet", "Job")
    ),
    Injection(
        name="CPU hog on all cores",
        suspects=CORE_WAITS,
        phase="deploy",
        options=(*_PLAIN, "--grovescale-param=hogs=1"),
    ),
)


class Move(msgspec.Struct, frozen=True, kw_only=True):
    """The effect of an injection on its phase, in one pair of runs."""

    added_s: float
    """Wall time of the phase, with it - without."""
    moved_s: float
    """The same difference for its suspects' rows."""


def phases_of(test: str, options: Sequence[str], *, replicas: int = REPLICAS) -> dict[str, PhaseResult]:
    """Run a workload with these options and return its phases by name. Raises RuntimeError if it fails."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pytest", "--grovescale", "-q", "-p", "no:cacheprovider"]
        command += [f"{DATA / 'injected.py'}::{test}", f"--grovescale-reports={folder}", *options]
        command.append(f"--grovescale-param=replicas={replicas}")
        done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout[-_TAIL:]}{done.stderr[-_TAIL:]}")
        (found,) = analyse_run(Path(folder) / "latest").tests
    return {phase.name: phase for phase in found.phases}


def seconds_of(phase: PhaseResult, suspects: Sequence[Suspect]) -> float:
    """Return the sum of the seconds of rows that must exist."""
    found = {row.suspect: row.seconds for row in phase.bottlenecks}
    return sum(found[suspect] for suspect in suspects)


def move(injection: Injection, without: PhaseResult, with_it: PhaseResult) -> Move:
    """Return the effect of an injection."""
    return Move(
        added_s=with_it.seconds - without.seconds,
        moved_s=seconds_of(with_it, injection.suspects) - seconds_of(without, injection.suspects),
    )


def measure(injections: Sequence[Injection] = INJECTIONS, *, quick: bool = False) -> list[Row]:
    """Return a row per injection: the share of the added time that appears in its suspects' rows."""
    moves: dict[str, list[Move]] = {injection.name: [] for injection in injections}
    for _ in range(1 if quick else REPEATS):
        plain: dict[tuple[str, tuple[str, ...]], dict[str, PhaseResult]] = {}
        for injection in injections:
            key = injection.test, injection.without
            if key not in plain:
                plain[key] = phases_of(*key)
            slowed = phases_of(injection.test, injection.options)
            moves[injection.name].append(move(injection, plain[key][injection.phase], slowed[injection.phase]))
    return [_row(injection, moves[injection.name]) for injection in injections]


def _row(injection: Injection, moves: Sequence[Move]) -> Row:
    # A pair that the injection did not slow proves nothing; without any slowed pair, nothing is proved.
    shares = [one.moved_s / one.added_s for one in moves if one.added_s > 0] or [0.0]
    rows = injection.suspects[0] if len(injection.suspects) == 1 else "…-core-wait"
    added = statistics.median(one.added_s for one in moves)
    how = f"{injection.name}: {injection.phase} {added:+.2f} s (median of {len(moves)}), row {rows}"
    name = "moved_" + injection.name.replace("'", "").replace(" ", "_")
    return at_least(name, statistics.median(shares), "×", BOUND, spread=shares, how=how)
