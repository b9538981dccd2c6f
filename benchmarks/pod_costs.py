"""The cost of one more pod for the harness, its recorder, kwok and the control plane.

``python -m benchmarks.pod_costs`` runs the main job with 250, 500 and 1000 pods, twice each, on a new control plane
each time, fits a line through each figure and prints its slope as a table, which docs/large-clusters.md uses.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from pytest_grovescale.analysis.analyse import analyse_run
from pytest_grovescale.analysis.metrics.history import MetricsHistory, histories_in
from pytest_grovescale.analysis.phase_result import PhaseResult
from pytest_grovescale.analysis.result import TestResult
from pytest_grovescale.analysis.scaling import line
from pytest_grovescale.recording.journal import Reader

ROOT = Path(__file__).resolve().parent.parent
TEST = ROOT / "tests" / "scale" / "test_thousand_pods.py"
SIZES = (250, 500, 1000)
REPEATS = 2
LEAST_SIZES = 3
PODS_PER_REPLICA = 2
DEPLOY, DELETE = "deploy", "delete"
_ALPHA = 0.05
_TAIL = 4000

Figures = dict[str, float]
"""Name with its unit → value, of one run."""

_ETCD_IN_USE = "etcd_mvcc_db_total_size_in_use_in_bytes"
_API_SERVER_RESIDENT = "process_resident_memory_bytes"


class Sized(msgspec.Struct, frozen=True):
    """One run."""

    pods: int
    figures: Figures


class _Tag(msgspec.Struct):
    type: str


def run(pods: int, *, components: bool = False) -> Figures:
    """Return the figures of one run. ``components``: only those from the control plane's own metrics.

    In separate runs, since reading them costs the recorder time and journal space. Raises RuntimeError if the test
    fails.
    """
    options = [f"--grovescale-param=replicas={pods // PODS_PER_REPLICA}", "--grovescale-hold=5s"]
    if components:
        options += ["--grovescale-scrape=components", "--grovescale-scrape-interval=0"]
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pytest", "--grovescale", "-q", "-p", "no:cacheprovider", str(TEST), *options]
        done = subprocess.run(
            [*command, f"--grovescale-reports={folder}"], cwd=ROOT, check=False, capture_output=True, text=True
        )
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout[-_TAIL:]}{done.stderr[-_TAIL:]}")
        latest = Path(folder) / "latest"
        (test,) = analyse_run(latest).tests
        if components:
            return _stored(histories_in(latest)(test))
        return _of_journal(latest / test.recording) | _of_result(test)


def _of_journal(path: Path) -> Figures:
    """Return records and bytes of a recording, as it is stored and as lines by their subject."""
    counts, size = Counter[str](), Counter[str]()
    for text in Reader(path).lines():
        tag = msgspec.json.decode(text, type=_Tag).type
        counts[tag] += 1
        size[tag] += len(text)
    watched, audited = size["object"], size["request"]
    return {
        "watch events recorded": counts["object"],
        "journal, B": path.stat().st_size,
        "journal, lines of watch events, B": watched,
        "journal, lines of the audit log, B": audited,
        "journal, all other lines, B": sum(size.values()) - watched - audited,
    }


def _of_result(test: TestResult) -> Figures:
    phases = {phase.name: phase for phase in test.phases}
    cpu: dict[str, float] = {}
    peak: dict[str, int] = {}
    for phase in phases.values():
        for row in phase.cpu:
            cpu[row.process] = cpu.get(row.process, 0.0) + row.seconds
            peak[row.process] = max(peak.get(row.process, 0), row.peak_rss_bytes)
    found: Figures = {f"CPU of {name}, s": seconds for name, seconds in cpu.items()}
    found |= {f"memory of {name}, B": bytes_ for name, bytes_ in peak.items()}
    for name in (DEPLOY, DELETE):
        found |= {f"{what}, {name}": count for what, count in _requests(phases[name]).items()}
    return found


def _requests(phase: PhaseResult) -> Counter[str]:
    """Return the requests of a phase: all of each identity, and Events created, by any identity."""
    found = Counter[str]()
    for row in phase.api:
        found[f"requests by {row.identity}"] += row.count
        found["requests by all"] += row.count
        if row.category == "event" and row.verb == "create":
            found["Events created"] += row.count
    return found


def _stored(history: MetricsHistory) -> Figures:
    """Return the growth of the stored data from the deployment's start to its end, and the API server's memory."""
    return {
        "etcd, all revisions, B": _growth(history, "etcd", _ETCD_IN_USE),
        "API server's memory, B": _growth(history, "kube-apiserver", _API_SERVER_RESIDENT),
    }


def _growth(history: MetricsHistory, target: str, series: str) -> float:
    of = history.target(target)
    first, *_, last = of.of_phase(DEPLOY)
    before, after = of.value(series, first) or 0.0, of.value(series, last)
    if after is None:
        raise RuntimeError(f"{target} does not serve {series}")
    return after - before


def table(sizes: Sequence[int], runs: Sequence[Mapping[str, float]]) -> list[str]:
    """Return a Markdown table of every figure that all runs have: per pod, with its interval, and at each size."""
    names = [name for name in runs[0] if all(name in one for one in runs)]
    found = sorted(set(sizes))
    lines = [
        "| figure | per pod | 95 % interval | " + " | ".join(f"{size} pods" for size in found) + " |",
        "|---|---:|---:|" + "---:|" * len(found),
    ]
    for name in names:
        fit = line(sizes, [one[name] for one in runs], _ALPHA)
        at = [_mean([one[name] for size, one in zip(sizes, runs, strict=True) if size == wanted]) for wanted in found]
        cells = [f"{fit.slope:.4g}", f"{fit.low:.3g} to {fit.high:.3g}", *(f"{value:.4g}" for value in at)]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def main() -> int:
    """Run all sizes and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pod_costs", description=__doc__)
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)), help="numbers of pods; of three, a table is made")
    parser.add_argument("--repeats", type=int, default=REPEATS, help="runs of each size")
    parser.add_argument("--rows", type=Path, help="file to append each run's figures to; those in it count, too")
    options = parser.parse_args()
    rows = _rows(options.rows)
    for size in [int(size) for _ in range(options.repeats) for size in options.sizes.split(",")]:
        rows.append(Sized(pods=size, figures=run(size) | run(size, components=True)))
        print(f"{size} pods", file=sys.stderr)  # noqa: T201 - progress
        if options.rows:
            with options.rows.open("ab") as out:
                out.write(msgspec.json.encode(rows[-1]) + b"\n")
    if len({row.pods for row in rows}) >= LEAST_SIZES:
        print("\n".join(table([row.pods for row in rows], [row.figures for row in rows])))  # noqa: T201 - the result
    return 0


def _rows(file: Path | None) -> list[Sized]:
    if file is None or not file.exists():
        return []
    return [msgspec.json.decode(text, type=Sized) for text in file.read_bytes().splitlines()]


if __name__ == "__main__":
    sys.exit(main())
