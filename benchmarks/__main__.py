"""``make bench``: measure all figures, print them, write reports/bench.json.

``--only NAME`` (repeatable) selects parts: plugin-start, cluster-start, profile-shares, injections, exposition,
promql, report-page, blocked-workers, scraping, or a file of benchmarks/scale such as floors. ``--quick`` is for trying
the bench itself: a tenth of the pods or of the repeats; its figures are not written.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import msgspec

from pytest_grovescale.recording.machine import machine

from . import (
    blocked_workers,
    cluster_start,
    exposition,
    injections,
    plugin_start,
    profile_shares,
    promql,
    report_page,
    scraping,
)
from .rows import Bench, Row, line, write

ROOT = Path(__file__).resolve().parent.parent
SCALE = ROOT / "benchmarks" / "scale"
MEASURES: dict[str, Callable[[bool], list[Row]]] = {
    "plugin-start": lambda quick: plugin_start.measure(),
    "cluster-start": lambda quick: cluster_start.measure(),
    "profile-shares": lambda quick: profile_shares.measure(quick=quick),
    "injections": lambda quick: injections.measure(quick=quick),
    "exposition": lambda quick: exposition.measure(quick=quick),
    "promql": lambda quick: promql.measure(quick=quick),
    "report-page": lambda quick: report_page.measure(quick=quick),
    "blocked-workers": lambda quick: blocked_workers.measure(quick=quick),
    "scraping": lambda quick: scraping.measure(quick=quick),
}
"""Part → its measuring function, which takes whether to be quick."""


def main() -> int:
    """Run the bench; return 1 when a bound is missed or a part failed, else 0."""
    scale = {path.stem.removeprefix("test_"): path for path in sorted(SCALE.glob("test_*.py"))}
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--only", action="append", choices=[*MEASURES, *scale], help="a part; several times")
    parser.add_argument("--quick", action="store_true", help="a tenth of the pods, nothing written")
    options = parser.parse_args()
    chosen = options.only or [*MEASURES, *scale]

    rows: list[Row] = []
    for name, measure in MEASURES.items():
        if name in chosen:
            rows += _shown(measure(options.quick))
    files = [path for name, path in scale.items() if name in chosen]
    failed = False
    if files:
        more, failed = _pytest(files, quick=options.quick)
        rows += _shown(more)
    here = machine()
    if not options.quick:
        text = f"{here.cores} × {here.cpu}, {here.memory_bytes / 2**30:.0f} GiB, Linux {here.kernel}"
        bench = Bench(schema_version=1, fingerprint=here.fingerprint, machine=text, rows=rows)
        write(bench, ROOT / "reports" / "bench.json")
    return int(failed or any(row.holds is False for row in rows))


def _shown(rows: list[Row]) -> list[Row]:
    """Print rows as soon as they are measured: of a bench that is stopped, they are what is left."""
    for row in rows:
        print(line(row), flush=True)  # noqa: T201 - the bench's result
        if row.how:
            print(f"    {row.how}", flush=True)  # noqa: T201
    return rows


def _pytest(files: list[Path], *, quick: bool) -> tuple[list[Row], bool]:
    with tempfile.TemporaryDirectory() as folder:
        found = Path(folder) / "rows.jsonl"
        found.touch()
        command = [sys.executable, "-m", "pytest", "--grovescale", "-p", "no:randomly", f"--bench-rows={found}"]
        if quick:
            command.append("--grovescale-param=replicas=50")
        done = subprocess.run([*command, *map(str, files)], cwd=ROOT, check=False)
        rows = [msgspec.json.decode(text, type=Row) for text in found.read_bytes().splitlines()]
    return rows, done.returncode != 0


if __name__ == "__main__":
    sys.exit(main())
