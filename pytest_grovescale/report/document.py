"""A report as data: a sequence of blocks, which `text` writes for a terminal and `markdown` for a pull request.

A section of a report is a function that yields blocks. It says what a line means (`Tone`), not how it looks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Literal, NamedTuple

from .format import escape
from .tables import Column, Sheet

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
    """1: below the entry before it."""
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
                sheet.item(block.text, _STYLES[block.tone], mark=block.mark or ("    " if block.level else "- "))
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
