"""How long do five workers take for a hundred resources when they wait inside the reconcile, and when they do not?

``python -m benchmarks.blocked_workers --repeats 5`` runs tests/scale/test_blocked_workers.py that many times, each time
both operators in sequence, and prints the table of docs/evidence.md.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from pytest_grovescale.analysis.analyse import analyse_run
from pytest_grovescale.analysis.blocked_workers import workers_of_phase
from pytest_grovescale.analysis.controller_result import WorkerRow
from pytest_grovescale.analysis.metrics.history import histories_in
from pytest_grovescale.analysis.phase_result import PhaseResult
from pytest_grovescale.errors import NotMeasuredError

from .rows import Row, reported

ROOT = Path(__file__).resolve().parent.parent
TEST = ROOT / "tests" / "scale" / "test_blocked_workers.py"
PHASE = "handle"
CONTROLLER = "podcliqueset"
LONGEST_S = 2.0
REPEATS = 5
WAITS, LOOKS = "test_waiting_inside", "test_looking_and_returning"
_TAIL = 4000

Handled = tuple[PhaseResult, WorkerRow]
"""The phase in which all resources were handled, and the activity of the workers in it."""

_LINES: dict[str, Callable[[Handled], float]] = {
    "all resources available after, s": lambda one: _reached(one[0], "all"),
    "the first one after, s": lambda one: _reached(one[0], "first"),
    "active workers (S)": lambda one: _known(one[1].active_share),
    "busy workers (W)": lambda one: _known(one[1].busy_workers),
    "reconciles ended a second (μ)": lambda one: _known(one[1].finished_per_s),
    "cores per busy worker (κ)": lambda one: _known(one[1].cores_per_worker),
    "longest reconcile seen, s": lambda one: _known(one[1].longest_s),
    "keys waiting, at most": lambda one: _known(one[1].depth_max),
    "workers blocked for, s": lambda one: one[1].blocked_s,
}


def run(*options: str) -> dict[str, Handled]:
    """Run both operators once and return the figures of each, by test. Raises RuntimeError if a test fails."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pytest", "--grovescale", "-q", "-p", "no:cacheprovider", str(TEST)]
        done = subprocess.run(
            [*command, f"--grovescale-reports={folder}", *options],
            cwd=ROOT,
            check=False,
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout[-_TAIL:]}{done.stderr[-_TAIL:]}")
        latest = Path(folder) / "latest"
        history = histories_in(latest)
        found = {}
        for test in analyse_run(latest).tests:
            (phase,) = test.phases
            rows, _ = workers_of_phase(history(test).workers, PHASE, longest=LONGEST_S)
            (row,) = (row for row in rows if row.controller == CONTROLLER)
            found[test.test.rpartition("::")[2]] = phase, row
        return found


def measure(*, quick: bool = False) -> list[Row]:
    """Return the time until all resources were handled by each operator, and their ratio."""
    runs = [run() for _ in range(1 if quick else REPEATS)]
    times = {test: [_reached(one[test][0], "all") for one in runs] for test in (WAITS, LOOKS)}
    factors = [waits / looks for waits, looks in zip(times[WAITS], times[LOOKS], strict=True)]
    how = "100 resources, 5 workers, 3 s each"
    return [
        reported("blocked_workers_waiting_inside", statistics.median(times[WAITS]), "s", spread=times[WAITS], how=how),
        reported("blocked_workers_looking", statistics.median(times[LOOKS]), "s", spread=times[LOOKS], how=how),
        reported("blocked_workers_factor", statistics.median(factors), "×", spread=factors),
    ]


def table(runs: Sequence[dict[str, Handled]]) -> str:
    """Return all figures of both operators side by side, as Markdown: the median, and the range of the repeats."""
    lines = ["| | waits inside the reconcile | looks and returns |", "|---|---|---|"]
    for name, figure in _LINES.items():
        cells = [_cell([figure(one[test]) for one in runs]) for test in (WAITS, LOOKS)]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(values: Sequence[float]) -> str:
    median = f"{statistics.median(values):.3g}"
    low, high = f"{min(values):.3g}", f"{max(values):.3g}"
    return median if low == high else f"{median} ({low}–{high})"


def _reached(phase: PhaseResult, name: str) -> float:
    return _known(next(milestone.seconds for milestone in phase.milestones if milestone.name == name))


def _known(value: float | None) -> float:
    if value is None:
        raise NotMeasuredError("a figure of the table was not measured", next_step="See the run's report for why.")
    return value


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=REPEATS)
    options = parser.parse_args()
    print(table([run() for _ in range(options.repeats)]))  # noqa: T201 - the bench's result


if __name__ == "__main__":
    main()
