"""Judges one run by every check of the matrix; some bounds are multiples of the clean operator's figures."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from ..analysis.metrics.history import MetricsHistory
from ..analysis.result import CheckResult, TestResult
from ..checks.check import Check, decode
from ..checks.judge import judge
from ..checks.run import Run
from ..errors import DefinitionError, NotMeasuredError
from .matrix import Cell, Matrix

_BEYOND_ALL = 10**15
"""A bound that no figure exceeds; used to obtain the figure."""

OPERATOR_SOURCE = Path(__file__).parents[1] / "reference_operator"

_WORST_FIRST = ("fail", "inconclusive", "pass")


class Measured(NamedTuple):
    """One finished run."""

    test: TestResult
    metrics: Callable[[], MetricsHistory]


class _Relative(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    times_clean: float


class Asked(NamedTuple):
    """A check as the matrix invokes it."""

    kind: str
    arguments: Mapping[str, Any]
    relative: Mapping[str, float] = {}
    """Argument → multiple of the clean operator's figure."""

    def bounded(self, clean: Measured) -> Check:
        """Return the check with all its bounds. Raises NotMeasuredError where the clean run lacks the figure."""
        if not self.relative:
            return decode({"check": self.kind, **self.arguments})
        beyond = decode({"check": self.kind, **self.arguments, **dict.fromkeys(self.relative, _BEYOND_ALL)})
        found = judge(beyond, Run(clean.test, metrics=clean.metrics))
        if found.figure is None:
            raise NotMeasuredError(
                f"{found.check}: the operator without a defect was not measured: {found.text}",
                next_step="Run the selftest again on a machine with less else to do.",
            )
        bounds = {name: _rounded(found.figure * factor) for name, factor in self.relative.items()}
        return decode({"check": self.kind, **self.arguments, **bounds})


def asked(matrix: Matrix) -> dict[str, list[Asked]]:
    """Return check → all of its invocations. Raises DefinitionError for invalid arguments."""
    return {kind: [_asked(kind, arguments) for arguments in times] for kind, times in matrix.checks.items()}


def _asked(kind: str, arguments: Mapping[str, Any]) -> Asked:
    relative = {}
    for name, value in arguments.items():
        if isinstance(value, dict) and "times_clean" in value:
            try:
                relative[name] = msgspec.convert(value, _Relative).times_clean
            except msgspec.ValidationError as error:
                raise DefinitionError(f"defect matrix: {kind}({name}): {error}") from None
    plain = {name: _placed(value) for name, value in arguments.items() if name not in relative}
    found = Asked(kind, plain, relative)
    decode({"check": kind, **found.arguments, **dict.fromkeys(relative, _BEYOND_ALL)})
    return found


def _placed(value: Any) -> Any:
    return str(OPERATOR_SOURCE) if value == "{operator_source}" else value


def bounded(wanted: Mapping[str, Sequence[Asked]], clean: Measured) -> dict[str, list[Check]]:
    """Return check → all of its invocations, with bounds."""
    return {kind: [one.bounded(clean) for one in times] for kind, times in wanted.items()}


def cells(matrix: Matrix, checks: Mapping[str, Sequence[Check]], defect: str, measured: Measured) -> Iterator[Cell]:
    """Yield a cell for each check; of several invocations the worst result counts."""
    for kind, times in checks.items():
        answers = [judge(check, Run(measured.test, metrics=measured.metrics)) for check in times]
        yield cell(matrix, defect, kind, min(answers, key=lambda answer: _WORST_FIRST.index(answer.verdict)))


def cell(matrix: Matrix, defect: str, kind: str, said: CheckResult) -> Cell:
    """Return the actual and the expected result of a check for a defect."""
    expected, why = matrix.expected(defect, kind)
    return Cell(
        defect=defect,
        check=kind,
        expected=expected,
        why=why,
        said=said.verdict,
        asked=said.check,
        text=f"in {said.phase}: {said.text}" if said.phase else said.text,
        evidence=said.evidence,
    )


def _rounded(bound: float) -> float:
    """Return a bound rounded to three significant digits, or whole bytes."""
    digits = 2 - math.floor(math.log10(bound)) if bound > 0 else 0
    return round(bound, digits) if digits > 0 else int(round(bound, digits))
