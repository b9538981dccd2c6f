"""Time attribution: a line for each phase, and the table behind it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ..analysis.bottlenecks.attribution import ACROSS
from ..analysis.result import BottleneckRow, PhaseResult, Suspect
from .document import Block, Heading, Item, Line, Table, Tone
from .format import NONE, percent, seconds
from .tables import Column

NAMES: Mapping[Suspect, str] = {
    "operator-cpu": "operator, CPU used",
    "operator-core-wait": "operator, waiting for a core",
    "operator-api": "operator, waiting for its requests",
    "operator-idle": "operator, idle while it was waited for",
    "operator-rate-limit": "operator, client-side rate limit",
    "api-server-core-wait": "API server, waiting for a core",
    "scheduler": "scheduler",
    "scheduler-core-wait": "scheduler, waiting for a core",
    "kwok": "simulated kubelet (kwok)",
    "kwok-core-wait": "simulated kubelet (kwok), waiting for a core",
    "garbage-collector": "garbage collector",
    "workload-controllers": "workload controllers",
    "controller-manager-core-wait": "controller manager, waiting for a core",
    "unattributed": "unattributed",
    "operator-queue": "work-queue wait (upper bound)",
    "api-server": "API server CPU-bound",
    "machine": "machine saturated",
}
"""Labels of the suspects, in display order."""

_SHOWN = 0.005
"""Rows with less than this share in every phase are left out."""


def answers(phases: Sequence[PhaseResult]) -> Iterator[Block]:
    """Yield one line for each phase that has one."""
    for phase in phases:
        if phase.bottleneck:
            yield Line(f"Where the time of {phase.name} went: {phase.bottleneck}")


def bottlenecks(phases: Sequence[PhaseResult]) -> Iterator[Block]:
    """Yield the attribution rows, which add up to each phase, and below them the contributing factors."""
    with_rows = [phase for phase in phases if phase.bottlenecks]
    if not with_rows:
        return
    rows = _rows(with_rows)
    yield Heading("Where the time went")
    columns = [Column("waited for"), *(Column(phase.name, figures=True) for phase in with_rows)]
    turns = [cells for suspect, cells in rows if suspect not in ACROSS]
    across = [cells for suspect, cells in rows if suspect in ACROSS]
    heading = [["contributing factors (overlapping)", *[""] * len(with_rows)]] if across else []
    tones: list[Tone] = ["" for _ in turns]
    tones += ["quiet" for _ in heading]
    tones += ["" for _ in across]
    yield Table(columns, [*turns, *heading, *across], tones)
    for why, names in _missing(with_rows).items():
        yield Item(f"{', '.join(names)}: {why}", "quiet")


def _rows(phases: Sequence[PhaseResult]) -> list[tuple[Suspect, list[str]]]:
    """Return (suspect, cells) for each suspect with time in some phase."""
    rows: list[tuple[Suspect, list[str]]] = []
    for suspect, name in NAMES.items():
        found = [next((row for row in phase.bottlenecks if row.suspect == suspect), None) for phase in phases]
        if any(row is not None and row.share >= _SHOWN for row in found):
            rows.append((suspect, [name, *map(_cell, found)]))
    return rows


def _cell(row: BottleneckRow | None) -> str:
    return NONE if row is None else f"{seconds(row.seconds)} ({percent(row.share)})"


def _missing(phases: Sequence[PhaseResult]) -> dict[str, list[str]]:
    """Return why → the phases that lack a row for it."""
    found: dict[str, list[str]] = {}
    for phase in phases:
        if why := phase.missing.get("bottlenecks"):
            found.setdefault(why, []).append(phase.name)
    return found
