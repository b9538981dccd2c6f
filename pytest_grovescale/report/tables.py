"""Plain tables: a heading, a head, aligned columns, no frame; so that they read well aloud and in a pull request."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import NamedTuple

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from .wording import plain


class Column(NamedTuple):
    """A column's heading, whether it holds figures (right-aligned), and whether its text may take several lines."""

    heading: str
    figures: bool = False
    wraps: bool = False


_LEAST_TEXT = 12
"""A text column is not cut to less than this."""


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
        """Write where a file is, in one line however long: a path is there to be copied."""
        self._console.print(
            Text(f"- {plain(what)}: {plain(path)}", style="dim"), no_wrap=True, overflow="ignore", crop=False
        )

    def verbatim(self, text: str) -> None:
        """Write a line of somebody's log, indented, cut at the width."""
        self._console.print(Text("    " + plain(text)), overflow="ellipsis", no_wrap=True)

    def table(self, columns: Sequence[Column], rows: Sequence[Sequence[str]], *, styles: Sequence[str] = ()) -> None:
        """Write a table; ``styles`` has one for each row, or is empty. Columns move closer where they must."""
        widths = _widths(columns, rows)
        for gap in (2, 1):
            beyond = sum(widths) + gap * len(widths) - self._console.width
            if beyond < 0:
                break
        self._console.print(_table(columns, rows, styles, gap=gap, widths=_cut(columns, widths, beyond)))

    def text(self) -> str:
        """Return everything written, each line without trailing spaces, with one newline at the end."""
        lines = self._out.getvalue().split("\n")
        kept = lines if self._color else [line.rstrip() for line in lines]
        return "\n".join(kept).strip("\n") + "\n"


def _widths(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> list[int]:
    """Return each column's widest cell."""
    cells = zip([column.heading for column in columns], *rows, strict=True)
    return [max(cell_len(plain(cell)) for cell in column) for column in cells]


def _cut(columns: Sequence[Column], widths: Sequence[int], beyond: int) -> list[int | None]:
    """Return the widths that columns are held to, None: as it comes, in a table that is ``beyond`` too wide.

    A text may be cut; a figure that is cut says nothing. Where a column wraps, it gives way by itself.
    """
    held: list[int | None] = [None] * len(columns)
    texts = [index for index, column in enumerate(columns) if not column.figures]
    if beyond >= 0 and texts and not any(column.wraps for column in columns):
        longest = max(texts, key=lambda index: widths[index])
        held[longest] = max(_LEAST_TEXT, widths[longest] - beyond - 1)
    return held


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
            overflow="fold" if column.wraps else "ellipsis",
        )
    for index, row in enumerate(rows):
        table.add_row(*(Text(plain(cell)) for cell in row), style=styles[index] if styles else "")
    return table
