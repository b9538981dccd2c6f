"""The defect matrix as text, Markdown and JSON; ``grovescale selftest defects``."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from textwrap import shorten
from typing import TextIO

import msgspec

from .. import resources
from ..atomic_write import json_text
from ..bench import target_test
from ..bench.screen import Screen
from ..bench.stored_files import named_errors, write_json
from ..errors import ExitCode, UsageError
from ..report import document as report
from ..report.document import Block, Gap, Item, Line, Table
from ..report.format import count
from ..report.tables import Column
from . import matrix, matrix_runs
from . import matrix as matrix_checks
from .matrix import CLEAN, FINDINGS, Asked, Cell, Expectation, Matrix
from .matrix_runs import REFERENCE, SCENARIO, Runs

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


Write = Callable[[str], None]


def selftest_defects(
    reports: Path,
    *,
    only: Sequence[str],
    resume: str | None,
    again: bool,
    json: bool = False,
    stream: TextIO,
    write: Write,
    color: bool,
) -> int:
    """Run the bundled operator clean and with each defect, and judge every run by every check.

    ``again``: a defect with an unexpected cell is measured a second time, and that result counts. Returns PASSED when
    all cells match the matrix, else FAILED. Raises UsageError for an unknown defect in ``only``.
    """
    expected = matrix.read()
    if unknown := sorted({*only} - {*expected.defects, CLEAN}):
        raise UsageError(f"no defect {', '.join(unknown)}", next_step=f"There are: {', '.join(expected.defects)}.")
    asked = matrix_checks.asked(expected)
    folder = matrix_runs.folder_of(reports, resume)
    scenario = target_test.find(str(resources.find(target_test.SCENARIOS, SCENARIO)))
    screen = Screen(stream)
    screen.say(f"selftest in {os.path.relpath(folder)}; after an interruption: grovescale selftest defects --resume")
    runs = Runs(folder, expected, scenario)
    names = [name for name in (CLEAN, *expected.defects) if not only or name in only]
    try:
        cells = _cells(runs, asked, names, screen)
        wrong = [name for name in names if any(cell.defect == name and not cell.holds for cell in cells)]
        if again and wrong:
            screen.say(f"measured a second time, which counts: {', '.join(wrong)}")
            for name in wrong:
                runs.forget(name)
            found = [cell for cell in cells if cell.defect not in wrong] + _cells(runs, asked, wrong, screen)
            cells = sorted(found, key=lambda cell: names.index(cell.defect))
    finally:
        screen.close()
    shown = report.text(blocks(expected, cells), width=WIDTH, color=color).rstrip("\n")
    write(json_text(document(cells)) if json else shown)
    screen.say("wrote " + ", ".join(os.path.relpath(file) for file in write_files(folder, expected, cells)))
    return ExitCode.PASSED if all(cell.holds for cell in cells) else ExitCode.FAILED


def _cells(runs: Runs, asked: Mapping[str, Sequence[Asked]], names: Sequence[str], screen: Screen) -> list[Cell]:
    """Return the results of all checks for these defects."""
    cells: list[Cell] = []
    with contextlib.closing(matrix_runs.make(runs, [REFERENCE, *names], screen)) as made:
        _, clean = next(made)
        checks = matrix_checks.bounded(asked, clean)
        for name, measured in made:
            cells += matrix_checks.cells(runs.matrix, checks, name, measured)
            screen.say(_line(name, cells, names))
    return cells + [matrix_runs.growth_cell(runs, name, screen) for name in names]


def _line(name: str, cells: Sequence[Cell], names: Sequence[str]) -> str:
    wrong = [cell.check for cell in cells if cell.defect == name and not cell.holds]
    said = f"differs in {', '.join(wrong)}" if wrong else "as expected"
    return f"{names.index(name) + 1} of {len(names)}, {name}: {said}"
