"""The defect matrix: which check must say what about which defect, each run judged by every check, and its table.

Checks and defects verify each other: a check that no defect trips proves nothing when it passes, and a defect that no
check detects is a gap.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from textwrap import shorten
from typing import Any, Literal, NamedTuple

import msgspec

from ..analysis.findings import RULES
from ..analysis.metrics.history import MetricsHistory
from ..analysis.result import CheckResult, CheckVerdict, TestResult
from ..analysis.scaling import Sweep
from ..bench.store import named_errors, write_json
from ..checks import Regression, Scales, SimulatedNodesOnly, budgets
from ..checks.check import Check, decode, kinds
from ..checks.judge import judge
from ..checks.run import Run
from ..checks.scaling import SCALES
from ..definitions import load, where
from ..errors import DefinitionError, NotMeasuredError
from ..report import document as report
from ..report.document import Block, Column, Gap, Item, Line, Table
from ..report.findings_table import in_words
from ..report.format import count

EXPECTED = Path(__file__).with_name("defect_matrix.yaml")
FINDINGS = "findings"
"""Column of the rules, beside those of the checks: what is found although nothing is declared."""

CLEAN = "clean"
"""The operator without a defect: every check must pass."""

Expectation = Literal["fires", "undecided", "may", "silent"]
"""``fires``: it must fail. ``undecided``: it must be inconclusive, since the defect removes its input, and nothing
passes in doubt. ``may``: any result is right. ``silent``: it must pass."""

_REST = "*"
_SAYS: Mapping[Expectation, frozenset[CheckVerdict]] = {
    "fires": frozenset({"fail"}),
    "undecided": frozenset({"inconclusive"}),
    "may": frozenset({"pass", "fail", "inconclusive"}),
    "silent": frozenset({"pass"}),
}

KINDS = tuple(
    str(kind.__struct_config__.tag)
    for kind in kinds().values()
    if kind not in (SimulatedNodesOnly, Regression) and not kind.of_sweep
)
"""Names of all checks of an operator in one run. Pod placement belongs to the cluster, and is no defect of the
operator; a regression is one against earlier runs."""


class Defect(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Expectations for one defect: check → reason, by expectation. Checks that are not listed stay silent.

    ``*`` stands for all checks that are not listed elsewhere.
    """

    argument: str = ""
    """Value of the operator's ``--defect``, where it is not the bare name."""
    parameters: dict[str, int | str] = {}
    """Parameters of the scenario, in addition to the common ones."""
    fires: dict[str, str] = {}
    undecided: dict[str, str] = {}
    may: dict[str, str] = {}
    caught_by: str = ""
    """The check that identifies the defect, among those that fire or are undecided."""
    finds: list[str] = []
    """Rules that must find it: a defect or waste each, without a declared check."""
    faults: dict[str, int | float | str] = {}
    """Faults in whose course it shows, as ``scale.faults`` takes them: the scenario is run under these."""
    elsewhere: str = ""
    """What detects it instead, where no check of a single small run can."""

    def expected(self, check: str) -> tuple[Expectation, str]:
        """Return what a check must report, and the reason; silence has none."""
        named: Mapping[Expectation, Mapping[str, str]] = {
            "fires": self.fires,
            "undecided": self.undecided,
            "may": self.may,
        }
        for key in (check, _REST):
            for expectation, reasons in named.items():
                if key in reasons:
                    return expectation, reasons[key]
        return "silent", ""


class SecondPass(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A check that needs a second run, and doubles the time: only for some defects."""

    check: str
    of: list[str]
    """Defects that it runs for, and ``clean``. For the others the check is undecided."""
    why: str


class Growth(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`Scales`, which judges runs of several sizes: for the clean operator, and where growth is the defect."""

    metric: str
    exponent_max: float
    replicas: list[int]
    """Sizes of the bundled scenario of `grovescale sweep`."""
    parameters: dict[str, int | str] = {}
    """Its other parameters."""
    hold_s: float
    """How long a no-op is observed, s. The idle baseline is subtracted, but its noise stays."""
    repeats: int
    """Runs of each size; further runs until the bound is decided."""
    most_repeats: int
    of: list[str]
    """Defects that it runs for, and ``clean``. For the others the check is undecided."""
    why: str

    @property
    def check(self) -> Scales:
        """The check with its arguments."""
        return Scales(self.metric, exponent_max=self.exponent_max)

    def decided(self, sweep: Sweep) -> bool:
        """Return whether these runs show on which side of the bound the exponent is.

        Evaluated after each round, the interval has less than its 95 % coverage; the cases judged here lie far from it.
        """
        runs = self.repeats * len(self.replicas)
        return len(sweep.runs) >= runs and self.check.judge_sweep(sweep).verdict != "inconclusive"


class Matrix(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All expectations."""

    parameters: dict[str, int | str]
    """Parameters of the scenario."""
    checks: dict[str, list[dict[str, Any]]]
    """Check → its arguments, once per invocation. A bound may be ``{times_clean: 1.5}``: a multiple of the figure of
    the operator without a defect in the same selftest, for figures that depend on the machine."""
    second_pass: SecondPass
    growth: Growth
    defects: dict[str, Defect]

    @property
    def kinds(self) -> list[str]:
        """Names of all columns: the checks, and `FINDINGS`."""
        return [*self.checks, SCALES, FINDINGS]

    def expected(self, defect: str, check: str) -> tuple[Expectation, str]:
        """Return what a check must report for a defect, or for the clean operator, and the reason."""
        if check == FINDINGS:
            rules = [] if defect == CLEAN else self.defects[defect].finds
            return ("silent", "") if defect == CLEAN else ("fires" if rules else "may", ", ".join(rules))
        found: tuple[Expectation, str] = ("silent", "") if defect == CLEAN else self.defects[defect].expected(check)
        for named, more in ((self.second_pass.check, self.second_pass), (SCALES, self.growth)):
            if found[0] == "silent" and check == named and defect not in more.of:
                return "undecided", more.why
        return found

    def arguments(self, defect: str) -> tuple[str, dict[str, int | str]]:
        """Return the operator's ``--defect`` arguments (empty for none), and the scenario's parameters."""
        of = self.defects.get(defect)
        parameters = {**self.parameters, "untracked": int(defect in self.second_pass.of)}
        if of is None:
            return "", parameters
        faults = {"faults": json.dumps(of.faults, sort_keys=True)} if of.faults else {}
        return of.argument or defect, {**parameters, **of.parameters, **faults}


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """The actual and the expected result of one check for one defect."""

    defect: str
    check: str
    expected: Expectation
    why: str = ""
    said: CheckVerdict
    asked: str
    """The check with its arguments."""
    text: str
    """Its message."""
    evidence: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        """Whether the result is as expected."""
        return self.said in _SAYS[self.expected]


def read(path: Path = EXPECTED) -> Matrix:
    """Return the expectations of a file.

    Raises DefinitionError with ``file:line`` for a check that is unknown, missing, or named twice for one defect; for a
    check that no defect trips, and a defect that no check catches.
    """
    matrix = load(path, Matrix)
    for wrong in (*_wrong_checks(matrix), *_wrong_defects(matrix)):
        place, what = wrong
        raise DefinitionError(f"{where(path, place)}: {what}")
    return matrix


def _wrong_checks(matrix: Matrix) -> Iterator[tuple[tuple[str, ...], str]]:
    for kind in matrix.checks:
        if kind not in KINDS:
            yield ("checks", kind), "no such check"
    for kind in KINDS:
        if kind not in matrix.checks:
            yield ("checks",), f"{kind} is missing"
    for kind in matrix.kinds:
        if not any(matrix.expected(defect, kind)[0] == "fires" for defect in matrix.defects):
            yield ("growth",) if kind == SCALES else ("checks", kind), "no defect trips it"


def _wrong_defects(matrix: Matrix) -> Iterator[tuple[tuple[str, ...], str]]:
    rules = [*RULES, *budgets.ids()]
    for name, defect in matrix.defects.items():
        for rule in defect.finds:
            if rule not in rules:
                yield ("defects", name, "finds"), f"no rule {rule!r}"
    for part, of in (("second_pass", matrix.second_pass.of), ("growth", matrix.growth.of)):
        for name in of:
            if name not in matrix.defects and name != CLEAN:
                yield (part, "of"), f"no defect {name!r}"
    for name, defect in matrix.defects.items():
        parts = {"fires": defect.fires, "undecided": defect.undecided, "may": defect.may}
        seen: set[str] = set()
        for expectation, reasons in parts.items():
            for check in reasons:
                if check not in matrix.kinds and check != _REST:
                    yield ("defects", name, expectation, check), "no such check"
                if check in seen:
                    yield ("defects", name, expectation, check), "is expected to do two things"
                seen.add(check)
        caught = {**defect.fires, **defect.undecided}
        if defect.caught_by and defect.caught_by not in caught and not (defect.caught_by == FINDINGS and defect.finds):
            yield ("defects", name, "caught_by"), f"{defect.caught_by} neither fires nor is undecided"
        if not defect.caught_by and not defect.elsewhere:
            yield ("defects", name), "no check catches it, and nothing else is named"


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
    yield findings_cell(matrix, defect, measured.test)


def findings_cell(matrix: Matrix, defect: str, test: TestResult) -> Cell:
    """Return what was found without a declared check: ``fail`` where all rules that must find it did.

    Where none must, ``fail`` is any finding that is a defect or waste.
    """
    expected, why = matrix.expected(defect, FINDINGS)
    severe = [one for one in test.findings if one.severity != "note"]
    wanted = set(matrix.defects[defect].finds) if defect in matrix.defects else set()
    by_rules = {each.id for one in severe for each in one.all if each.severity != "note"}
    found = bool(severe) and wanted <= by_rules
    return Cell(
        defect=defect,
        check=FINDINGS,
        expected=expected,
        why=why,
        said="fail" if found else "pass",
        asked=FINDINGS,
        text="; ".join(map(in_words, severe)) or "nothing was found",
    )


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
