"""The table of one test on several backends. The second line is the verdict."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from ..analysis.backends import BackendRow, BackendsTable, BackendsVerdict, Figure
from .document import Answer, Block, Column, Gap, Heading, Item, Table, Tone
from .format import NONE, count, figure, three

_VERDICT: dict[BackendsVerdict, Tone] = {"equal": "good", "unequal": "bad", "undetermined": "doubt"}
_DIFFERENT = "≠"


def blocks(found: BackendsTable) -> Iterator[Block]:
    """Yield the table, grouped, with what must be equal and is not first."""
    yield Answer(found.test)
    yield Answer(verdict(found), _VERDICT[found.verdict])
    for line in _differences(found):
        yield Item(line, "bad")
    columns = [Column("", wraps=True), *(Column(run.name, figures=True) for run in found.runs)]
    for group, rows in groupby(found.rows, key=lambda row: row.group):
        of_group = list(rows)
        yield Heading(group)
        cells = [[row.what, *_cells(row)] for row in of_group]
        yield Table(columns, cells, ["bad" if row.differs else "" for row in of_group])
    notes = list(_notes(found))
    if notes:
        yield Gap()
    for note in notes:
        yield Item(note, "quiet")
    for warning in found.warnings:
        yield Item(warning, "doubt")


def verdict(found: BackendsTable) -> str:
    """Return in a sentence whether the figures that must be equal are."""
    what = "creates, deletes and gate removals"
    counting = [run.name for run in found.runs if run.name not in found.silent]
    if found.verdict == "unequal":
        differing = len(found.differing)
        line = f"Not equal: {differing} of {sum(row.exact for row in found.rows)} counts of {what} differ"
    elif found.verdict == "equal":
        line = f"Equal: {what} are the same on {_listed(counting)}"
    else:
        line = f"Undetermined: {what} are known of {_listed(counting) or 'no run'} only"
    uncounted = ", ".join(found.silent)
    return f"{line}; not counted by {uncounted}" if uncounted and found.verdict != "undetermined" else line


def _listed(names: Sequence[str]) -> str:
    """Return names as a list in a sentence: ``local, kind and kind (pod)``."""
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def _differences(found: BackendsTable) -> Iterator[str]:
    for row in found.differing:
        counts = (
            f"{run.name} {count(round(figure.value))}"
            for run, figure in zip(found.runs, row.figures, strict=True)
            if figure.value is not None
        )
        yield f"{row.what}: {', '.join(counts)} (by {count(round(max(row.known) - min(row.known)))})"


def _cells(row: BackendRow) -> list[str]:
    """Return a row's figures; those that need not be equal with their ratio to the first one's."""
    first = row.figures[0].value
    return [_cell(row, figure, first if index else None) for index, figure in enumerate(row.figures)]


def _cell(row: BackendRow, found: Figure, first: float | None) -> str:
    if found.value is None:
        return f"{NONE} ({found.note})" if found.note else NONE
    notes = [found.note] if found.note else []
    if row.exact:
        notes += [_DIFFERENT] if row.differs and first is not None and first != found.value else []
    elif first and row.unit != "times":
        notes.insert(0, f"{three(found.value / first)}×")
    return figure(found.value, row.unit) + (f" ({', '.join(notes)})" if notes else "")


def _notes(found: BackendsTable) -> Iterator[str]:
    if any("clock" in figure.note for figure in _figures(found.rows)):
        yield "watch's clock: when the recorder heard of it, which is later than the API server's own clock says"
    if any("scraped" in figure.note for figure in _figures(found.rows)):
        yield "scraped: no clock of the process could be read; it is what it served of itself at the phases' edges"
    yield f"times, CPU and the rest of the traffic may differ; {_ratio(found)}"


def _ratio(found: BackendsTable) -> str:
    return f"× is the ratio to {found.runs[0].name}"


def _figures(rows: Sequence[BackendRow]) -> Iterator[Figure]:
    for row in rows:
        yield from row.figures
