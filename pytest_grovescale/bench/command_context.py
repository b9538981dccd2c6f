"""What the commands of many runs share: where they run, which test and operator, the plan shown."""

from __future__ import annotations

import contextlib
import os
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from .. import durations
from ..analysis.result import NO_OPERATOR
from ..errors import RecordingError, UsageError
from . import target_test
from .screen import Screen
from .store import TYPICAL_S, Plan, Slot, Store
from .target_test import Subject

Write = Callable[[str], None]
"""Receives the command's output."""


DEFAULT_OPERATOR = "reference"


class Environment(NamedTuple):
    """Where a command runs its test, and where it stores its output."""

    reports: Path
    cluster: str = ""
    nodes: int | None = None
    kubernetes: str = ""
    allowed_contexts: Sequence[str] = ()
    """Non-local contexts of a kubeconfig that may be used."""

    @property
    def options(self) -> list[str]:
        """The same settings as options of pytest."""
        return target_test.cluster_options(
            self.cluster, kubernetes=self.kubernetes, nodes=self.nodes, allowed_contexts=self.allowed_contexts
        )


def split(names: Sequence[str]) -> tuple[list[str], str]:
    """Return the names of definitions or folders, and the test among them: the name that contains ``.py``."""
    tests = [name for name in names if Path(name.partition("::")[0]).suffix == ".py"]
    others = [name for name in names if name not in tests]
    if len(tests) > 1 or len(others) > 2:
        raise UsageError(
            f"what is meant by {' '.join(names)}?",
            next_step="Name at most two definitions (or folders of runs), then one test.",
        )
    return others, tests[0] if tests else ""


def operator_of(names: Sequence[str], test: str, subject: Callable[[], Subject]) -> str:
    """Return the operator definition: the named one, else that of the test, else the bundled scenario's.

    ``subject`` finds the test; called only where the answer depends on it.
    """
    if names:
        return names[0]
    operator = subject().operator if test else DEFAULT_OPERATOR
    if operator in ("", NO_OPERATOR):
        raise UsageError(
            f"no operator is named, and {test} runs {'without one' if operator else 'with any'}",
            next_step="Name its definition file before the test, or in the ini file: grovescale_operator = FILE.",
        )
    return operator


def found_test(test: str, environment: Environment, parameters: Mapping[str, str]) -> Subject:
    """Return the requested test, which reads these parameters."""
    given = [f"--grovescale-param={name}={value}" for name, value in parameters.items()]
    return target_test.find(test, [*environment.options, *given])


def show_plan(plan: Plan, reports: Path, write: Write, *, other: str, fewest: Sequence[Slot] | None = None) -> int:
    """Show what a command without arguments would run, and its duration; return the exit code for "nothing was run".

    ``other``: how to specify what to run. ``fewest``: the runs that are made in any case; None: all.
    """
    earlier = _earlier(plan, reports)
    parts = dict.fromkeys(slot.part for slot in plan.slots)
    sizes = {
        name: (sum(slot.part == name for slot in (plan.slots if fewest is None else fewest)), len(plan.part(name)))
        for name in parts
    }
    each = {name: earlier.get(name, TYPICAL_S[name]) for name in parts}
    labels = list(dict.fromkeys(arm.label for arm in plan.arms.values()))
    subject = plan.subject
    where = f"cluster {subject.cluster}" + (f", {subject.nodes} nodes" if subject.nodes else "")
    basis = "earlier runs of this test here" if earlier else "1000 pods on two cores; other machines differ"
    write(
        "\n".join(
            [
                f"plan of grovescale {plan.command}: {', '.join(labels)}",
                f"  test: {_shown(Path(subject.path))}::{subject.name} ({where})",
                *(
                    f"  {name}: {_from_to(low, high)} runs, about {_time(low * each[name], high * each[name])}"
                    for name, (low, high) in sizes.items()
                ),
                f"about {_time(*(sum(sizes[name][end] * each[name] for name in parts) for end in (0, 1)))} in all,"
                f" by {basis}",
                f"Nothing was started. Run this plan: grovescale {plan.command} --yes; or say what to run: {other}",
            ]
        )
    )
    return 2


def _from_to(low: object, high: object) -> str:
    return f"{low}" if low == high else f"{low} to {high}"


def _time(low: float, high: float) -> str:
    return _from_to(durations.text(_rounded(low)), durations.text(_rounded(high)))


def _earlier(plan: Plan, reports: Path) -> dict[str, float]:
    """Return part → median seconds of earlier runs of this test here; empty for none."""
    took: dict[str, list[float]] = {}
    for folder in sorted(reports.glob(f"{plan.command}-*")):
        # Ignore runs of another version of grovescale.
        with contextlib.suppress(RecordingError):
            store = Store(folder)
            if store.plan().subject.argument == plan.subject.argument:
                for slot, sample in store.samples().items():
                    took.setdefault(slot.part, []).append(sample.seconds)
    return {part: statistics.median(seconds) for part, seconds in took.items()}


def _shown(path: Path) -> str:
    return os.path.relpath(path) if path.is_relative_to(Path.cwd()) else str(path)


def _rounded(seconds: float) -> float:
    return max(60.0, round(seconds / 60) * 60.0)


def say_files(screen: Screen, files: Sequence[Path]) -> None:
    screen.say("wrote " + ", ".join(os.path.relpath(file) for file in files))
