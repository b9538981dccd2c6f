"""What the operator held after each cycle of deployment and deletion, as a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..analysis.result import CycleResult
from .document import Block, Cell, Column, Heading, Table, cell
from .format import bytes_, count

_COLUMNS = {
    "memory (RSS)": "rss_bytes",
    "heap in use": "heap_bytes",
    "goroutines": "goroutines",
    "threads": "threads",
    "open files": "files",
    "connections": "sockets",
    "watches": "watches",
    "series": "series",
    "reconciles": "reconciles",
}


def cycles(found: Sequence[CycleResult]) -> Iterator[Block]:
    """Yield a row for each cycle, and the state before the first; nothing for a test without cycles."""
    if not found:
        return
    shown = {
        heading: field for heading, field in _COLUMNS.items() if any(getattr(one, field) is not None for one in found)
    }
    yield Heading("After each cycle, at rest")
    columns = [Column("cycle"), *(Column(heading, figures=True) for heading in shown)]
    yield Table(columns, [[_name(one), *(_cell(one, field) for field in shown.values())] for one in found])


def _name(one: CycleResult) -> str:
    return str(one.cycle) if one.cycle else "before the first"


def _cell(one: CycleResult, field: str) -> Cell:
    return cell(getattr(one, field), bytes_ if field.endswith("_bytes") else count)
