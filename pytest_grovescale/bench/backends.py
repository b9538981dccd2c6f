"""``grovescale backends``: one table from the results of finished runs of one test. Needs no cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from ..analysis.backends import BackendsTable, backends_table, short
from ..analysis.result import TestResult, last
from ..atomic_write import json_text
from ..errors import ExitCode, UsageError
from ..report import backends_table as report
from ..report import document, result_file

_WIDTH = 120
"""Characters of a line in the terminal."""


class BackendsWanted(NamedTuple):
    """The arguments of ``grovescale backends``."""

    runs: Sequence[str]
    """Folders of runs or their ``result.json``, optionally with a column name: NAME=RUN."""
    floors: Sequence[str] = ()
    """NAME=RUN: for a column, a run on the same cluster without an operator."""
    test: str = ""
    """The test to use, by the end of its id; required when the runs share several."""
    markdown: bool = False
    json: bool = False


def backends(wanted: BackendsWanted, *, write: Callable[[str], None], color: bool) -> int:
    """Write the table; return 1 when counts that must be equal are not. Raises UsageError, RecordingError."""
    named = [_named(text) for text in wanted.runs]
    runs = [result_file.read(path).tests for _, path in named]
    test = _common(wanted.test, runs, [str(path) for _, path in named])
    floors = dict(_floor(text) for text in wanted.floors)
    found = backends_table([_of(tests, test) for tests in runs], [name for name, _ in named], floors=floors)
    write(_rendered(found, wanted, color=color))
    # A table in which too few runs have counts is no failure.
    return ExitCode.FAILED if found.verdict == "unequal" else ExitCode.PASSED


def _rendered(found: BackendsTable, wanted: BackendsWanted, *, color: bool) -> str:
    if wanted.json:
        return json_text(found)
    blocks = report.blocks(found)
    return document.markdown(blocks) if wanted.markdown else document.text(blocks, width=_WIDTH, color=color)


def _named(text: str) -> tuple[str, Path]:
    """Return the column name and the run file of ``RUN`` or ``NAME=RUN``."""
    name, _, rest = text.partition("=")
    # A folder may have any name.
    path = Path(text) if Path(text).exists() or not rest else Path(rest)
    if not path.exists():
        raise UsageError(f"{text}: no such run", next_step="Write it as RUN or NAME=RUN, as kind=reports/latest.")
    return ("" if path == Path(text) else name), path / result_file.NAME if path.is_dir() else path


def _floor(text: str) -> tuple[str, TestResult]:
    """Return the column name and the floor run of ``NAME=RUN``, which has one test."""
    name, path = _named(text)
    if not name:
        raise UsageError(f"--floor {text}: not for any column", next_step="Write it as --floor kind=reports/bare.")
    tests = _usable(result_file.read(path).tests)
    if len(tests) != 1:
        found = ", ".join(short(test.test) for test in tests) or "none"
        raise UsageError(f"{path} has not one test that was measured: {found}", next_step="Run one test alone.")
    return name, tests[0]


def _usable(tests: Sequence[TestResult]) -> list[TestResult]:
    """Return the comparable runs: the last run of each test, without profiling passes, which cost CPU."""
    return [test for test in last(tests) if not test.profiled]


def _common(wanted: str, runs: Sequence[Sequence[TestResult]], files: Sequence[str]) -> str:
    """Return the one test that all runs share, by its id without folders."""
    for tests, file in zip(runs, files, strict=True):
        if not any(short(test.test).endswith(wanted) for test in _usable(tests)):
            raise UsageError(
                f"{file} has no test {wanted}" if wanted else f"{file} has no test that was measured",
                next_step="It has: " + (", ".join(short(test.test) for test in tests) or "none") + ".",
            )
    ids = [{short(test.test) for test in _usable(tests) if short(test.test).endswith(wanted)} for tests in runs]
    shared = sorted(set.intersection(*ids)) if ids else []
    if len(shared) == 1:
        return shared[0]
    found = ", ".join(shared or sorted(set.union(*ids) if ids else set()))
    raise UsageError(
        f"these runs have several tests in common: {found}"
        if shared
        else f"these runs have no test in common: {found}",
        next_step="Name one with --test." if shared else "Compare runs of one test.",
    )


def _of(tests: Sequence[TestResult], test: str) -> TestResult:
    return next(found for found in _usable(tests) if short(found.test) == test)
