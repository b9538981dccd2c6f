"""The time that the plugin adds to ``pytest --help`` and ``pytest --collect-only`` of a project that does not use it.

Alternating pairs, with and without it, so that a drift of the machine's speed affects both.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from .rows import Row, at_most

PAIRS = 15
BOUND_MS = 50.0


def measure() -> list[Row]:
    """Return the median difference of both commands, the larger one as the row that is bounded."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "test_one.py").write_text("def test_one(): pass\n", encoding="utf-8")
        differences = {what: _differences(what, folder) for what in ("--help", "--collect-only")}
    medians = {what: statistics.median(found) for what, found in differences.items()}
    worst = max(medians, key=lambda what: medians[what])
    how = ", ".join(f"{what} {median:.1f} ms" for what, median in medians.items())
    return [
        at_most(
            "plugin_start_ms",
            medians[worst],
            "ms",
            BOUND_MS,
            spread=differences[worst],
            how=f"median of {PAIRS} pairs: {how}",
        )
    ]


def _differences(what: str, folder: str) -> list[float]:
    with_plugin = [sys.executable, "-m", "pytest", what]
    without = [*with_plugin, "-p", "no:grovescale"]
    _milliseconds(with_plugin, folder)
    return [_milliseconds(with_plugin, folder) - _milliseconds(without, folder) for _ in range(PAIRS)]


def _milliseconds(command: Sequence[str], folder: str) -> float:
    started = time.perf_counter()
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return (time.perf_counter() - started) * 1000
