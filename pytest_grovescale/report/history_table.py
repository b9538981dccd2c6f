"""A history as tables: each figure's trend, and the commits between which it changed."""

from __future__ import annotations

from collections.abc import Iterator

from ..analysis.history import History, HistoryChange, HistoryFigure, HistoryGroup, level
from ..analysis.run_metrics import describe
from .document import Answer, Block, Column, Heading, Item, Line, Table, Tone
from .format import NONE, figure, percent

_BARS = "▁▂▃▄▅▆▇█"
_WIDTH = 20
"""Runs of a trend that are drawn: the last ones."""


def blocks(history: History) -> Iterator[Block]:
    """Yield a history's report; the first line is the summary."""
    yield Answer(answer(history))
    for group in history.groups:
        yield Heading(group.test, facts(group))
        for one in group.figures:
            for change in reversed(one.changes):
                yield Item(f"{describe(one.metric)}: {sentence(one, change)}", tone(change))
        columns = (
            Column("metric", wraps=True),
            Column("runs", figures=True),
            Column("now", figures=True),
            Column("trend"),
            Column("last change", wraps=True),
        )
        yield Table(columns, [_cells(one) for one in group.figures])
    if not history.groups:
        yield Line("No run of it has such a test and metric.")


def answer(history: History) -> str:
    """Return the summary in one line."""
    changes = [(one, change) for group in history.groups for one in group.figures for change in one.changes]
    runs = f"{history.runs:,} run{'s' * (history.runs != 1)}"
    if not changes:
        return f"No figure changed its level in {runs}"
    worse = sum(change.after > change.before for _, change in changes)
    return f"{len(changes):,} changes of level in {runs}: {worse:,} up, {len(changes) - worse:,} down"


def facts(group: HistoryGroup) -> str:
    """Return what the runs of a group have in common."""
    machine = group.machine
    cores = f"{machine.cores} × " if machine.cores else ""
    parameters = [f"{name} {value}" for name, value in group.parameters.items()]
    return ", ".join(filter(None, [f"{cores}{machine.cpu}", group.backend, *parameters]))


def sentence(one: HistoryFigure, change: HistoryChange) -> str:
    """Return a change in words: ``+8.2 %, 4.31 s to 4.66 s, in 0123456789ab..ba9876543210 (2026-11-02)``."""
    where = f"in {change.commits}" if change.commits else f"at run {one.points[change.index].run}"
    day = one.points[change.index].saved[:10]
    levels = f"{figure(change.before, one.unit)} to {figure(change.after, one.unit)}"
    return f"{by(change)}, {levels}, {where} ({day})"


def by(change: HistoryChange) -> str:
    """Return by how much a level changed: ``+8.2 %``, ``−31 %``, ``new``."""
    if change.ratio is None:
        return "from 0"
    sign = "+" if change.ratio >= 1 else "−"
    return f"{sign}{percent(abs(change.ratio - 1))}"


def tone(change: HistoryChange) -> Tone:
    """Return the tone of a change: less is better for every figure."""
    return "bad" if change.after > change.before else "good"


def _cells(one: HistoryFigure) -> tuple[str, ...]:
    last = sentence(one, one.changes[-1]) if one.changes else NONE
    return describe(one.metric), str(len(one.points)), figure(level(one), one.unit), _trend(one), last


def _trend(one: HistoryFigure) -> str:
    values = [point.value for point in one.points[-_WIDTH:]]
    low, high = min(values), max(values)
    # What varies by a thousandth is drawn flat.
    scale = (len(_BARS) - 1) / (high - low) if high - low > abs(high) / 1000 else 0.0
    return "".join(_BARS[round((value - low) * scale)] for value in values)
