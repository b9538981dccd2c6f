"""The defect matrix as text, Markdown and JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from textwrap import shorten

import msgspec

from ..bench.store import named_errors, write_json
from ..report import document as report
from ..report.document import Block, Column, Gap, Item, Line, Table
from ..report.format import count
from .matrix import FINDINGS, Cell, Expectation, Matrix

SCHEMA_VERSION = 1
JSON, MARKDOWN = "defects.json", "defects.md"

WIDTH = 110
"""Characters of a line in the terminal: 25 checks have a column each."""

_LONG_ENOUGH, _EVIDENCE = 90, 200
"""Characters."""

_HELD: dict[Expectation, str] = {"fires": "✓", "undecided": "?", "silent": "·"}
_MAY = {"fail": "f", "inconclusive": "u", "pass": "p"}
_DIFFERS = {"fail": "✗f", "inconclusive": "✗u", "pass": "✗p"}
_EXPECTED: dict[Expectation, str] = {
    "fires": "had to fire",
    "undecided": "had to be inconclusive",
    "silent": "had to stay silent",
    "may": "may say anything",
}
_LEGEND = (
    "✓ fires as it must   ? inconclusive as it must be   · silent as it must be"
    "   f, u, p: may do either, and fires, is inconclusive, passes   ✗ differs"
)


class MatrixFile(msgspec.Struct, frozen=True, kw_only=True):
    """``defects.json``."""

    schema_version: int = SCHEMA_VERSION
    holds: bool
    """Whether every cell is as expected."""
    cells: tuple[Cell, ...]


def blocks(matrix: Matrix, cells: Sequence[Cell]) -> Iterator[Block]:
    """Yield the matrix, the unexpected cells, and which check catches each defect."""
    checks = matrix.kinds
    for start in range(0, len(checks), 4):
        part = enumerate(checks[start : start + 4], start + 1)
        yield Line("  ".join(f"{number:>2} {name:<22}" for number, name in part))
    yield Gap()
    yield Table(
        [Column("defect", code=True), *(Column(str(n + 1), figures=True) for n in range(len(checks)))],
        [[defect, *(_symbol(found[check]) for check in checks)] for defect, found in _rows(cells).items()],
    )
    yield Line(_LEGEND, "quiet")
    yield Gap()
    yield Table(
        [Column("defect", code=True), Column("caught by"), Column("which says", wraps=True)],
        [list(row) for row in caught(matrix, cells)],
    )
    yield Gap()
    yield Table(
        [Column("defect", code=True), Column("found although no check is declared", wraps=True)],
        [[cell.defect, cell.text] for cell in cells if cell.check == FINDINGS],
    )
    wrong = [cell for cell in cells if not cell.holds]
    yield Gap()
    for cell in wrong:
        yield Item(f"{cell.defect}: {cell.asked} {_EXPECTED[cell.expected]}: {cell.text}", "bad", mark="✗ ")
    held = f"{count(len(cells) - len(wrong))} of {count(len(cells))} cells are as expected"
    yield Line(held if not wrong else f"{held}; {count(len(wrong))} differ")


def caught(matrix: Matrix, cells: Sequence[Cell]) -> list[tuple[str, str, str]]:
    """Return (defect, check, the check's message) for each defect that was run."""
    found = []
    for defect, by_check in _rows(cells).items():
        expected = matrix.defects.get(defect)
        if expected is None:
            continue
        check = expected.caught_by
        found.append((defect, check, _says(by_check[check])) if check else (defect, "–", expected.elsewhere))
    return found


def _says(cell: Cell) -> str:
    """Return a check's message; a bare figure is followed by the first line of its evidence."""
    if len(cell.text) > _LONG_ENOUGH or not cell.evidence:
        return cell.text
    return f"{cell.text} ({shorten(cell.evidence[0], _EVIDENCE, placeholder=' …')})"


def document(cells: Sequence[Cell]) -> MatrixFile:
    """Return the cells in their file format."""
    return MatrixFile(holds=all(cell.holds for cell in cells), cells=tuple(cells))


def write_files(folder: Path, matrix: Matrix, cells: Sequence[Cell]) -> list[Path]:
    """Write the cells as JSON and the tables as Markdown; return the files. Raises RecordingError."""
    plain, page = folder / JSON, folder / MARKDOWN
    write_json(plain, document(cells))
    with named_errors(page):
        page.write_text(report.markdown(blocks(matrix, cells)), encoding="utf-8")
    return [plain, page]


def _rows(cells: Sequence[Cell]) -> dict[str, dict[str, Cell]]:
    found: dict[str, dict[str, Cell]] = {}
    for cell in cells:
        found.setdefault(cell.defect, {})[cell.check] = cell
    return found


def _symbol(cell: Cell) -> str:
    if not cell.holds:
        return _DIFFERS[cell.said]
    return _MAY[cell.said] if cell.expected == "may" else _HELD[cell.expected]
