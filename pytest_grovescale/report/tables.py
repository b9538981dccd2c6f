"""Plain tables: a heading, a head, aligned columns, no frame; readable by screen readers and in a pull request."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import NamedTuple

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from .format import plain


class Column(NamedTuple):
    """A column's heading, whether it holds figures (right-aligned), and whether its text may take several lines."""

    heading: str
    figures: bool = False
    wraps: bool = False
    cut: bool = False
    """Whether its text may be truncated, as function names longer than any terminal is wide."""
    verdict: bool = False
    """Whether it names the verdict of its row, which is then bold where there are no colours."""
    code: bool = False
    """Whether it holds names of code."""


_LEAST_GIVING = 24
"""Minimum width of a column whose text wraps or may be truncated, unless its text is narrower."""


NARROWEST, WIDEST = 40, 200


def terminal_width(columns: int) -> int:
    """Return the width of a report for a terminal of so many columns."""
    return min(max(columns, NARROWEST), WIDEST)


class Sheet:
    """Lines and tables, written one after the other at a fixed width."""

    def __init__(self, *, width: int, color: bool) -> None:
        self._out = io.StringIO()
        self._color = color
        self._console = Console(
            file=self._out,
            width=width,
            color_system="standard" if color else None,
            force_terminal=color,
            force_jupyter=False,
            force_interactive=False,
            legacy_windows=False,
            highlight=False,
            markup=False,
            emoji=False,
            _environ={},
        )

    def line(self, text: str = "", style: str = "") -> None:
        """Write text, wrapped at the width; continuation lines are not indented."""
        self._console.print(Text(plain(text), style=style))

    def item(self, text: str, style: str = "", mark: str = "- ") -> None:
        """Write one entry of a list, its continuation lines indented."""
        grid = Table.grid(padding=0)
        grid.add_column(width=len(mark))
        grid.add_column(overflow="fold")
        grid.add_row(Text(mark, style=style), Text(plain(text), style=style))
        self._console.print(grid)

    def file(self, what: str, path: str) -> None:
        """Write the path of a file, in one line however long, so that it can be copied."""
        self._console.print(
            Text(f"- {plain(what)}: {plain(path)}", style="dim"), no_wrap=True, overflow="ignore", crop=False
        )

    def verbatim(self, text: str) -> None:
        """Write a line of a log, indented, truncated at the width."""
        self._console.print(Text("    " + plain(text)), overflow="ellipsis", no_wrap=True)

    def table(self, columns: Sequence[Column], rows: Sequence[Sequence[str]], *, styles: Sequence[str] = ()) -> None:
        """Write a table; ``styles`` has one for each row, or is empty. Columns move closer where they must.

        Where it still does not fit, each row is written as a paragraph: no cell is cut or broken.
        """
        widths = _widths(columns, rows)
        if _least(columns, widths) > self._console.width:
            self._stacked(columns, rows, styles)
            return
        gap = 2 if sum(widths) + 2 * (len(widths) - 1) <= self._console.width else 1
        beyond = max(0, sum(widths) + gap * (len(widths) - 1) - self._console.width)
        cut = [width - beyond if column.cut else None for column, width in zip(columns, widths, strict=True)]
        self._console.print(_table(columns, rows, styles, gap=gap, widths=cut))

    def _stacked(self, columns: Sequence[Column], rows: Sequence[Sequence[str]], styles: Sequence[str]) -> None:
        """Write a table that does not fit: each row as its first cell, and its figures with their headings."""
        for index, row in enumerate(rows):
            style = styles[index] if styles else ""
            if row[0]:
                self.line(row[0], style)
            named = [f"{column.heading} {cell}" for column, cell in zip(columns[1:], row[1:], strict=True) if cell]
            if named:
                self.item(", ".join(named), style, mark="  ")

    def text(self) -> str:
        """Return everything written, each line without trailing spaces, with one newline at the end."""
        lines = self._out.getvalue().split("\n")
        kept = lines if self._color else [line.rstrip() for line in lines]
        return "\n".join(kept).strip("\n") + "\n"


def _widths(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> list[int]:
    """Return each column's widest cell."""
    cells = zip([column.heading for column in columns], *rows, strict=True)
    return [max(cell_len(plain(cell)) for cell in column) for column in cells]


def _least(columns: Sequence[Column], widths: Sequence[int]) -> int:
    """Return the width below which a cell would break. Text that wraps shrinks, down to a readable width."""
    kept = (
        min(width, _LEAST_GIVING) if column.wraps or column.cut else width
        for column, width in zip(columns, widths, strict=True)
    )
    return sum(kept) + len(widths) - 1


def _table(
    columns: Sequence[Column],
    rows: Sequence[Sequence[str]],
    styles: Sequence[str],
    *,
    gap: int,
    widths: Sequence[int | None],
) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, gap, 0, 0), header_style="dim", show_edge=False)
    for column, width in zip(columns, widths, strict=True):
        table.add_column(
            Text(plain(column.heading)),
            justify="right" if column.figures else "left",
            width=width,
            no_wrap=not column.wraps,
            overflow="ellipsis" if column.cut else "fold",
        )
    for index, row in enumerate(rows):
        table.add_row(*(Text(plain(cell)) for cell in row), style=styles[index] if styles else "")
    return table
