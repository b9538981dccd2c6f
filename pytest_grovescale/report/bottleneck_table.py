"""Time attribution: a line for each phase, and the table behind it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..analysis.bottlenecks.attribution import ACROSS
from ..analysis.result import BottleneckRow, PhaseResult, Suspect
from .format import NONE, escape, percent, seconds
from .tables import Column, Sheet

NAMES: Mapping[Suspect, str] = {
    "operator-cpu": "operator, CPU used",
    "operator-core-wait": "operator, waiting for a core",
    "operator-api": "operator, waiting for its requests",
    "operator-rate-limit": "operator, client-side rate limit",
    "api-server-core-wait": "API server, waiting for a core",
    "scheduler": "scheduler",
    "scheduler-core-wait": "scheduler, waiting for a core",
    "kwok": "simulated kubelet (kwok)",
    "kwok-core-wait": "simulated kubelet (kwok), waiting for a core",
    "garbage-collector": "garbage collector",
    "controller-manager-core-wait": "controller manager, waiting for a core",
    "unattributed": "unattributed",
    "operator-queue": "work-queue wait (upper bound)",
    "api-server": "API server CPU-bound",
    "machine": "machine saturated",
}
"""Labels of the suspects, in display order."""

_SHOWN = 0.005
"""Rows with less than this share in every phase are left out."""


def write_answers(sheet: Sheet, phases: Sequence[PhaseResult]) -> None:
    """Write one line for each phase that has one."""
    for phase in phases:
        if phase.bottleneck:
            sheet.line(f"Where the time of {phase.name} went: {phase.bottleneck}")


def write_bottlenecks(sheet: Sheet, phases: Sequence[PhaseResult]) -> None:
    """Write the attribution rows, which add up to each phase, and below them the contributing factors."""
    with_rows = [phase for phase in phases if phase.bottlenecks]
    if not with_rows:
        return
    rows = _rows(with_rows)
    sheet.line()
    sheet.line("Where the time went", "bold")
    columns = [Column("waited for"), *(Column(phase.name, figures=True) for phase in with_rows)]
    turns = [cells for suspect, cells in rows if suspect not in ACROSS]
    across = [cells for suspect, cells in rows if suspect in ACROSS]
    heading = [["contributing factors (overlapping)", *[""] * len(with_rows)]] if across else []
    sheet.table(columns, [*turns, *heading, *across], styles=_styles(len(turns), len(heading), len(across)))
    for why, names in _missing(with_rows).items():
        sheet.item(f"{', '.join(names)}: {why}", "dim")


def bottlenecks_markdown(phases: Sequence[PhaseResult]) -> list[str]:
    """Return the lines and the table for Markdown; empty where no phase has any."""
    with_rows = [phase for phase in phases if phase.bottlenecks]
    if not with_rows:
        return []
    lines = [f"- **{escape(phase.name)}**: {escape(phase.bottleneck)}" for phase in with_rows if phase.bottleneck]
    heads = " | ".join(escape(phase.name) for phase in with_rows)
    table = [f"| where the time went | {heads} |", "|---|" + "--:|" * len(with_rows)]
    table += [f"| {' | '.join(map(escape, cells))} |" for _, cells in _rows(with_rows)]
    return [*lines, "", *table, ""]


def _rows(phases: Sequence[PhaseResult]) -> list[tuple[Suspect, list[str]]]:
    """Return (suspect, cells) for each suspect with time in some phase."""
    rows: list[tuple[Suspect, list[str]]] = []
    for suspect, name in NAMES.items():
        found = [next((row for row in phase.bottlenecks if row.suspect == suspect), None) for phase in phases]
        if any(row is not None and row.share >= _SHOWN for row in found):
            rows.append((suspect, [name, *map(_cell, found)]))
    return rows


def _styles(turns: int, headings: int, across: int) -> list[str]:
    return [*[""] * turns, *["dim"] * headings, *[""] * across]


def _cell(row: BottleneckRow | None) -> str:
    return NONE if row is None else f"{seconds(row.seconds)} ({percent(row.share)})"


def _missing(phases: Sequence[PhaseResult]) -> dict[str, list[str]]:
    """Return why → the phases that lack a row for it."""
    found: dict[str, list[str]] = {}
    for phase in phases:
        if why := phase.missing.get("bottlenecks"):
            found.setdefault(why, []).append(phase.name)
    return found
