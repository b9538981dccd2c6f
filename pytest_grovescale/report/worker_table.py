"""Workers of the controllers that were busy, as a table: whether they worked or waited."""

from __future__ import annotations

from collections.abc import Sequence

from ..analysis.result import PhaseResult, WorkerRow
from .tables import Column, Sheet
from .wording import NONE, count, percent, seconds, three

_BUSY_SHARE = 0.5
"""Rows with less are on the page only."""

_HEADINGS = ("workers", "active", "ended", "cores each", "waiting", "longest", "blocked")


def write_workers(sheet: Sheet, phases: Sequence[PhaseResult]) -> None:
    """Write the controllers whose workers were busy half of the time or more, or blocked; nothing without any."""
    rows: list[list[str]] = []
    styles: list[str] = []
    for phase in phases:
        for row in phase.workers:
            if row.blocked or (row.active_share or 0.0) >= _BUSY_SHARE:
                rows.append([phase.name, row.controller, *_cells(row)])
                styles.append("bold red" if row.blocked else "")
    if not rows:
        return
    sheet.line()
    sheet.line("Workers, where most were busy", "bold")
    columns = [Column("phase"), Column("controller"), *(Column(name, figures=True) for name in _HEADINGS)]
    sheet.table(columns, rows, styles=styles)
    sheet.line("cores each: CPU for each second that a worker was busy; waiting: keys, at most", "dim")


def _cells(row: WorkerRow) -> list[str]:
    blocked = NONE if row.problem else seconds(row.blocked_s)
    return [
        NONE if row.workers is None else count(row.workers),
        NONE if row.active_share is None else percent(row.active_share),
        NONE if row.finished_per_s is None else f"{three(row.finished_per_s)}/s",
        NONE if row.cores_per_worker is None else three(row.cores_per_worker),
        NONE if row.depth_max is None else count(row.depth_max),
        NONE if row.longest_s is None else seconds(row.longest_s),
        blocked,
    ]
