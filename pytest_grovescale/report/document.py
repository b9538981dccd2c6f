"""A report as data: a sequence of blocks, which `text` writes for a terminal, `markdown` for a pull request, and `html`
for a page.

A section of a report is a function that yields blocks. It says what a line means (`Tone`), not how it looks.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Literal, NamedTuple, Self, TypeVar

from markupsafe import Markup
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from .format import NONE, escape, plain

Number = TypeVar("Number", int, float)


class Cell(str):
    """A figure in words, as a cell of a table, with its value, by which a page sorts the column."""

    value: float | None

    def __new__(cls, words: str, value: float | None) -> Self:
        made = super().__new__(cls, words)
        made.value = value
        return made


def cell(value: Number | None, words: Callable[[Number], str]) -> Cell:
    """Return a figure as a cell; a dash where it was not measured."""
    return Cell(NONE if value is None else words(value), value)


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
        grid = RichTable.grid(padding=0)
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
        """Write a table that does not fit: each row as its first cell, and its figures with their headings.

        Cells without a figure are left out: between others they would hide those that have one.
        """
        for index, row in enumerate(rows):
            style = styles[index] if styles else ""
            if row[0]:
                self.line(row[0], style)
            named = [
                f"{column.heading} {cell}"
                for column, cell in zip(columns[1:], row[1:], strict=True)
                if cell not in ("", NONE)
            ]
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
) -> RichTable:
    table = RichTable(box=None, pad_edge=False, padding=(0, gap, 0, 0), header_style="dim", show_edge=False)
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


Tone = Literal["", "strong", "good", "bad", "doubt", "quiet"]
"""``good``, ``bad`` and ``doubt`` (undecided, or a caveat) are verdicts; ``quiet`` is context."""

_STYLES: dict[Tone, str] = {
    "": "",
    "strong": "bold",
    "good": "green",
    "bad": "bold red",
    "doubt": "yellow",
    "quiet": "dim",
}
_OPENS = re.compile(r"^(\d*)([-+=.)])")
"""What makes a list, a line or a heading at the start of a line, where `escape` has not seen to it."""

_NAME = re.compile(r"[\w.:/-]+")
_MARKED = ("good", "bad")
"""Tones of a row whose marked cells are bold in Markdown, which has no colours."""


class Answer(NamedTuple):
    """The first line: the verdict."""

    text: str
    tone: Tone = "strong"


class Heading(NamedTuple):
    """The title of a section; a gap stands before it."""

    text: str
    facts: str = ""
    """What its figures rest on, after the title."""


class Line(NamedTuple):
    text: str
    tone: Tone = ""


class Gap(NamedTuple):
    """An empty line, where no heading makes one."""


class Item(NamedTuple):
    """One entry of a list."""

    text: str
    tone: Tone = ""
    level: int = 0
    """1: below the entry before it; 2: below such a one."""
    mark: str = ""
    """What stands before it in a terminal; empty: a dash, or nothing on level 1."""


class File(NamedTuple):
    what: str
    path: str


class Verbatim(NamedTuple):
    """One line of a log."""

    text: str


class Table(NamedTuple):
    columns: Sequence[Column]
    rows: Sequence[Sequence[str]]
    tones: Sequence[Tone] = ()
    """One for each row; empty: none has any."""


Block = Answer | Heading | Line | Gap | Item | File | Verbatim | Table


def text(blocks: Iterable[Block], *, width: int = 100, color: bool = False) -> str:
    """Return a report for a terminal, each line at most ``width`` wide; empty without blocks."""
    sheet = Sheet(width=width, color=color)
    written = False
    for block in blocks:
        written = True
        match block:
            case Answer() | Line():
                sheet.line(block.text, _STYLES[block.tone])
            case Heading():
                sheet.line()
                sheet.line(f"{block.text}{block.facts}", "bold")
            case Gap():
                sheet.line()
            case Item():
                sheet.item(block.text, _STYLES[block.tone], mark=block.mark or "    " * block.level or "- ")
            case File():
                sheet.file(block.what, block.path)
            case Verbatim():
                sheet.verbatim(block.text)
            case Table():
                sheet.table(block.columns, block.rows, styles=[_STYLES[tone] for tone in block.tones])
    return sheet.text() if written else ""


def markdown(blocks: Iterable[Block], *, level: int = 3) -> str:
    """Return a report as Markdown that GitHub shows. ``level``: of its headings. Empty without blocks."""
    parts = [
        "\n".join(line for block in run for line in _markdown(block, level))
        for _, run in groupby(blocks, key=_neighbours)
    ]
    return "\n\n".join(filter(None, parts)) + "\n" if any(parts) else ""


def _neighbours(block: Block) -> object:
    """Return a key that blocks share which stand together, without an empty line between them."""
    if isinstance(block, Item | File):
        return "list"
    return type(block).__name__ if isinstance(block, Line | Verbatim) else id(block)


def _markdown(block: Block, level: int) -> Iterator[str]:
    match block:
        case Answer():
            yield f"**{escape(block.text)}**"
        case Heading():
            yield f"{'#' * level} {escape(block.text)}"
            if block.facts:
                yield f"\n{_paragraph(block.facts.removeprefix(': '))}"
        case Line():
            # The two spaces break the line: another one may follow.
            yield f"{_paragraph(block.text)}  "
        case Item():
            yield f"{'  ' * block.level}- {_paragraph(block.text)}"
        case File():
            yield f"- {escape(block.what)}: {escape(block.path)}"
        case Verbatim():
            # Indented code: shown as it stands.
            yield f"    {block.text}"
        case Table():
            yield from _markdown_table(block)
        case Gap():
            pass


def _paragraph(text: str) -> str:
    """Return text that stays text at the start of a line: ``- a``, ``1. a`` and ``===`` are something else there."""
    return _OPENS.sub(r"\1\\\2", escape(text))


def _markdown_table(table: Table) -> Iterator[str]:
    yield "| " + " | ".join(escape(column.heading) for column in table.columns) + " |"
    yield "|" + "|".join("---:" if column.figures else "---" for column in table.columns) + "|"
    tones = table.tones or [""] * len(table.rows)
    for row, tone in zip(table.rows, tones, strict=True):
        cells = (_markdown_cell(column, cell, tone) for column, cell in zip(table.columns, row, strict=True))
        yield "| " + " | ".join(cells) + " |"


def _markdown_cell(column: Column, cell: str, tone: str) -> str:
    if column.code and _NAME.fullmatch(cell):
        return f"`{cell}`"
    shown = escape(cell)
    return f"**{shown}**" if shown and (tone == "strong" or (column.verdict and tone in _MARKED)) else shown


_NOTES: dict[Tone, str] = {"good": "note good", "bad": "note bad", "doubt": "note warn", "quiet": "muted hint"}
_ROWS: dict[Tone, str] = {"good": "good-text", "bad": "bad-text", "doubt": "warn-text", "quiet": "muted"}
"""Classes of a line or an entry, and of a row of a table."""


def html(blocks: Iterable[Block], *, level: int = 2) -> Markup:
    """Return a report as part of a page. ``level``: of its headings. A click on a heading of a table sorts it."""
    written: list[Markup] = []
    title = ""
    for _, run in groupby(blocks, key=_neighbours):
        together = list(run)
        match together[0]:
            case Heading() as block:
                title = block.text
                facts = _tag("span", block.facts, "muted") if block.facts else ""
                written.append(Markup("<h{0}>{1}{2}</h{0}>").format(level, plain(block.text), facts))
            case Item() | File():
                entries = Markup("\n").join(_html_item(block) for block in together if isinstance(block, Item | File))
                written.append(Markup("<ul>\n{}\n</ul>").format(entries))
            case Verbatim():
                logged = "\n".join(block.text for block in together if isinstance(block, Verbatim))
                written.append(_tag("pre", logged))
            case Answer() | Line():
                lines = (block for block in together if isinstance(block, Answer | Line))
                written += (_tag("p", block.text, _NOTES.get(block.tone, "")) for block in lines)
            case Table() as block:
                written.append(_html_table(block, title))
            case Gap():
                pass
    return Markup("\n").join(written)


def _tag(name: str, text: str, classes: str = "") -> Markup:
    return Markup("<{0}{1}>{2}</{0}>").format(name, _class(classes), plain(text))


def _class(names: str) -> Markup:
    return Markup(' class="{}"').format(names) if names else Markup("")


def _html_item(block: Item | File) -> Markup:
    if isinstance(block, File):
        return _tag("li", f"{block.what}: {block.path}", "muted anywhere")
    return _tag("li", block.text, _NOTES.get(block.tone, ""))


def _html_table(table: Table, title: str) -> Markup:
    """Return a table in a frame of its own, which scrolls where it is wider than the page."""
    head = Markup("").join(_html_heading(column) for column in table.columns)
    tones = table.tones or [""] * len(table.rows)
    body = Markup("\n").join(_html_row(table.columns, row, tone) for row, tone in zip(table.rows, tones, strict=True))
    label = ": ".join(filter(None, (title, *(column.heading for column in table.columns[1:2]))))
    return Markup(
        '<div class="scroll" tabindex="0" role="region" aria-label="{}">\n<table class="sortable">\n'
        "<thead><tr>{}</tr></thead>\n<tbody>\n{}\n</tbody>\n</table>\n</div>"
    ).format(plain(label), head, body)


def _html_heading(column: Column) -> Markup:
    return Markup('<th scope="col"{}>{}</th>').format(_class("n" * column.figures), plain(column.heading))


def _html_row(columns: Sequence[Column], row: Sequence[str], tone: Tone) -> Markup:
    named = enumerate(zip(columns, row, strict=True))
    cells = Markup("").join(_html_cell(column, words, first=index == 0) for index, (column, words) in named)
    return Markup("<tr{}>{}</tr>").format(_class(_ROWS.get(tone, "")), cells)


def _html_cell(column: Column, words: str, *, first: bool) -> Markup:
    sorts = Markup("")
    if isinstance(words, Cell):
        sorts = Markup(' data-value="{}"').format("" if words.value is None else words.value)
    shown = _tag("code", words) if column.code and _NAME.fullmatch(words) else plain(words)
    name = Markup('th scope="row"') if first else Markup("td")
    return Markup("<{}{}{}>{}</{}>").format(name, _class("n" * column.figures), sorts, shown, name[:2])
