"""Workers of the busy controllers as a table: working or waiting; and the places of their stacks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..analysis.result import Evidence, PhaseResult, StackGroup, WorkerRow
from .document import Block, Heading, Line, Table, Tone
from .format import NONE, count, percent, seconds, three
from .tables import Column

_BUSY_SHARE = 0.5
"""Rows with less are on the page only."""

_GROUPS_SHOWN = 5
"""Groups of equal stacks that are named; result.json has all."""

_HEADINGS = ("workers", "active", "ended", "cores each", "waiting", "longest", "blocked")


def workers(phases: Sequence[PhaseResult]) -> Iterator[Block]:
    """Yield the controllers whose workers were busy half of the time or more, or blocked; nothing without any."""
    rows: list[list[str]] = []
    tones: list[Tone] = []
    for phase in phases:
        for row in phase.workers:
            if row.blocked or (row.active_share or 0.0) >= _BUSY_SHARE:
                rows.append([phase.name, row.controller, *_cells(row)])
                tones.append("bad" if row.blocked else "")
    if not rows:
        return
    yield Heading("Workers, where most were busy")
    columns = [Column("phase"), Column("controller"), *(Column(name, figures=True) for name in _HEADINGS)]
    yield Table(columns, rows, tones=tones)
    yield Line("cores each: CPU for each second that a worker was busy; waiting: keys, at most", "quiet")


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


def heading(evidence: Evidence) -> str:
    """Return the heading of lines or stacks: ``Stacks of operator in deploy``, ``log:operator in deploy``."""
    process = evidence.source.removeprefix("stacks:")
    what = f"Stacks of {process}" if process != evidence.source else evidence.source
    return what + (f" in {evidence.phase}" if evidence.phase else "")


def stack_lines(stacks: Sequence[StackGroup]) -> Iterator[str]:
    """Yield the places of most stacks of a dump: ``11 of 21 reconcile workers in recorder.RecordErrors (…)``."""
    for group in stacks[:_GROUPS_SHOWN]:
        several = "s" if group.of > 1 else ""
        where = "waiting for a key" if group.waits_for_key else f"in {group.function} ({group.place})"
        state = f", {group.state}" if group.state and not group.waits_for_key else ""
        yield f"{count(group.count)} of {count(group.of)} {group.kind}{several} {where}{state}"
    if rest := stacks[_GROUPS_SHOWN:]:
        number = sum(group.count for group in rest)
        yield f"{count(number)} more in {count(len(rest))} other {'place' if len(rest) == 1 else 'places'}"
