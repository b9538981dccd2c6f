"""A run against a baseline: figures of both, and the validity of the comparison."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..analysis.baseline import Baseline, BaselineRow
from .document import Answer, Block, Line, Table
from .format import NONE, figure
from .tables import Column

SINGLE = "One run each: no interval, so small differences mean nothing. `grovescale compare` separates them from noise."


def blocks(
    baseline: Baseline, found: Sequence[BaselineRow], *, same_machine: bool, other_backend: str = ""
) -> Iterator[Block]:
    """Yield the table of one test. ``other_backend``: the baseline's, where it is not the test's."""
    yield Answer(f"Compared with baseline {baseline.name} of {baseline.saved}, run {baseline.run}")
    if not same_machine:
        machine = baseline.machine
        yield Line(
            f"It is from another machine ({machine.cores} × {machine.cpu}): only counts and ratios compare.", "doubt"
        )
    if other_backend:
        yield Line(f"It is of a cluster of backend {other_backend}: only counts and ratios compare.", "doubt")
    columns = [Column("metric", wraps=True), Column("before", True), Column("now", True), Column("Δ", True)]
    yield Table(columns, [_cells(row) for row in found])
    yield Line(SINGLE, "quiet")


def _cells(row: BaselineRow) -> list[str]:
    change = f"{100 * (row.now / row.before - 1):+.1f} %" if row.before else ("0 %" if row.now == 0 else NONE)
    return [row.what, figure(row.before, row.unit), figure(row.now, row.unit), change]
