"""``grovescale selftest defects``: every check against every defect of the bundled operator, and the clean one."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TextIO

from .. import resources
from ..atomic_write import json_text
from ..errors import ExitCode, UsageError
from . import matrix, matrix_checks, matrix_runs, matrix_sweeps, matrix_table, subject
from .matrix import CLEAN, Cell
from .matrix_checks import Asked
from .matrix_runs import REFERENCE, SCENARIO, Runs
from .screen import Screen

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
    scenario = subject.find(str(resources.find(subject.SCENARIOS, SCENARIO)))
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
    shown = matrix_table.render(expected, cells, color=color).rstrip("\n")
    write(json_text(matrix_table.document(cells)) if json else shown)
    screen.say("wrote " + ", ".join(os.path.relpath(file) for file in matrix_table.write(folder, expected, cells)))
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
    return cells + [matrix_sweeps.cell(runs, name, screen) for name in names]


def _line(name: str, cells: Sequence[Cell], names: Sequence[str]) -> str:
    wrong = [cell.check for cell in cells if cell.defect == name and not cell.holds]
    said = f"differs in {', '.join(wrong)}" if wrong else "as expected"
    return f"{names.index(name) + 1} of {len(names)}, {name}: {said}"
