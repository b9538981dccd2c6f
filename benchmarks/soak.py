"""What grows while objects come and go for a long time, in the operator and in the processes that measure it.

``python -m benchmarks.soak --duration=30m`` runs the scenario `soak` (20 PodCliqueSets a second, deleted once all are
ready, again and again) and prints what each process held at rest after each cycle as a line with its interval: memory,
threads, open files, connections; of the operator also its heap, tasks, watches and series. What grows without an end
has an interval above zero. ``--markdown`` writes the table, as in reports/sample/soak.md.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from pytest_grovescale import Scale, conditions, scenarios
from pytest_grovescale.analysis.analyse import analyse_run, contents_of
from pytest_grovescale.analysis.recording_index import Contents
from pytest_grovescale.analysis.result import OPERATOR, TestResult
from pytest_grovescale.analysis.scaling import Line, line
from pytest_grovescale.cluster.state import owner as owner_of
from pytest_grovescale.procfs import Identity
from pytest_grovescale.recording.journal import read
from pytest_grovescale.recording.records import CpuRead, cycle_edge

ROOT = Path(__file__).resolve().parent.parent
_OBJECTS, _RATE = 200, 20.0
_ALPHA = 0.05
_TAIL = 4000
_HELD = ("rss_bytes", "threads", "files", "sockets")
_HELD_BY_OPERATOR = ("heap_bytes", "watches", "series")


@pytest.mark.grovescale(cluster="minimal", nodes=100)
def test_soak(scale: Scale, tmp_path: Path) -> None:
    _measure_supervisor(scale, tmp_path / "supervisor.json")
    objects = scale.parameter("objects", _OBJECTS)
    pcs = scale.workload("many-pcs.yaml.j2", objects=objects, pods_per_replica=1)
    scenarios.soak(
        scale,
        pcs,
        duration=scale.parameter("duration", "30m"),
        rate=_RATE,
        ready={
            "pods-ready": conditions.count("pods", objects, ready=True),
            "available": pcs.status(availableReplicas=1),
        },
        gone={"pods-gone": conditions.count("pods", 0), "pcs-gone": conditions.gone(pcs)},
    )


def _measure_supervisor(scale: Scale, file: Path) -> None:
    """Let the recorder measure the process that keeps the cluster, as it does those of the cluster."""
    owner = owner_of(scale.cluster.directory)
    assert owner is not None, "the cluster of this test has a supervisor"
    file.write_bytes(msgspec.json.encode({"supervisor": Identity(owner.pid, owner.started_ticks)}))
    scale._test.recorder.measure_file(file)


class Row(NamedTuple):
    """What one process held of one quantity, after each cycle."""

    process: str
    quantity: str
    values: list[int]
    later: Line
    """Of the second half of the cycles, for each cycle: caches and heaps have settled by then."""


def rows_of(contents: Contents, test: TestResult) -> Iterator[Row]:
    """Yield the rows of a recording with at least six cycles, by process and quantity."""
    for process in sorted(contents.reads):
        reads = {read.edge: read for read in contents.reads[process]}
        cycles = [reads[edge] for number in range(1, len(test.cycles)) if (edge := cycle_edge(number)) in reads]
        for quantity in _HELD:
            yield from _row(process, quantity, [_held(read, quantity) for read in cycles])
    for quantity in _HELD_BY_OPERATOR:
        yield from _row(OPERATOR, quantity, [getattr(cycle, quantity) for cycle in test.cycles[1:]])


def _held(read: CpuRead, quantity: str) -> int | None:
    held: int | None = getattr(read, quantity)
    return held


def _row(process: str, quantity: str, values: Sequence[int | None]) -> Iterator[Row]:
    known = [value for value in values if value is not None]
    later = known[len(known) // 2 :]
    if len(known) == len(values) and len(later) >= 3:
        fitted = line([float(at) for at in range(len(later))], [float(value) for value in later], _ALPHA)
        yield Row(process, quantity, known, fitted)


def markdown(rows: Sequence[Row], test: TestResult) -> str:
    """Return the table, and the findings of the run."""
    cycles = len(test.cycles) - 1
    lines = [
        f"{cycles} cycles of {_OBJECTS} PodCliqueSets, created at {_RATE:g} a second, in "
        f"{sum(phase.seconds for phase in test.phases) / 60:.0f} minutes of phases.",
        "",
        f"| process | held at rest | after the first cycle | in the middle | at the end | slope of the second half, "
        f"each cycle ({1 - _ALPHA:.0%}) |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for row in rows:
        first, middle, last = row.values[0], row.values[len(row.values) // 2], row.values[-1]
        shown = _bytes if row.quantity.endswith("bytes") else _number
        slope = f"{shown(row.later.slope)} ({shown(row.later.low)} to {shown(row.later.high)})"
        name = row.quantity.removesuffix("_bytes")
        lines.append(f"| {row.process} | {name} | {shown(first)} | {shown(middle)} | {shown(last)} | {slope} |")
    lines += ["", *(f"- {finding.severity}: {finding.text}" for finding in test.findings)]
    return "\n".join([*lines, ""])


def _bytes(value: float) -> str:
    return f"{value / 1e6:,.2f} MB"


def _number(value: float) -> str:
    return f"{value:,.3g}"


def main() -> int:
    """Run the soak, print its table, and return 0 unless the test failed."""
    parser = argparse.ArgumentParser(prog="benchmarks.soak", description=__doc__)
    parser.add_argument("--duration", default="30m")
    parser.add_argument("--markdown", type=Path, help="file to write the table to")
    options, others = parser.parse_known_args()
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pytest", "--grovescale", "-q", "-p", "no:cacheprovider"]
        command += [f"{__file__}::test_soak", f"--grovescale-param=duration={options.duration}"]
        done = subprocess.run(
            [*command, f"--grovescale-reports={folder}", *others], cwd=ROOT, check=False, capture_output=True, text=True
        )
        if done.returncode:
            sys.stderr.write(f"{done.stdout[-_TAIL:]}{done.stderr[-_TAIL:]}")
            return 1
        latest = Path(folder) / "latest"
        (test,) = analyse_run(latest).tests
        contents = contents_of(read(latest / test.recording))
        shown = markdown(list(rows_of(contents, test)), test)
    sys.stdout.write(shown)
    if options.markdown is not None:
        options.markdown.write_text(shown, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
