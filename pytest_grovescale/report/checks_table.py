"""The verdicts of a test's checks: a table, and the evidence of those that did not pass."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from ..analysis.result import CheckResult, CheckVerdict, TestResult
from ..checks import scaling
from .format import NONE
from .tables import Column, Sheet

_STYLE: dict[CheckVerdict, str] = {"pass": "", "fail": "bold red", "inconclusive": "yellow", "not enforced": "dim"}
_SUMMED: dict[CheckVerdict, str] = {
    "fail": "failed",
    "inconclusive": "inconclusive",
    "not enforced": "not enforced",
    "pass": "passed",
}
_EVIDENCE_SHOWN = 12


def write_checks(sheet: Sheet, test: TestResult) -> None:
    """Write the verdicts, the failed ones first; nothing where no check was declared."""
    if test.checks:
        _write_verdicts(sheet, test.checks)
    for text in left_to_sweep(test):
        sheet.item(text, "dim")


def _write_verdicts(sheet: Sheet, checks: Sequence[CheckResult]) -> None:
    ordered = by_verdict(checks)
    sheet.line()
    sheet.line(f"Checks: {sums(checks)}", "bold")
    columns = [Column("verdict"), Column("phase"), Column("figure and bound", wraps=True), Column("source")]
    rows = [[check.verdict, check.phase or NONE, check.text, check.source] for check in ordered]
    sheet.table(columns, rows, styles=[_STYLE[check.verdict] for check in ordered])
    for check in ordered:
        if check.verdict != "pass" and check.evidence:
            sheet.item(check.check, _STYLE[check.verdict])
            for part in check.evidence[:_EVIDENCE_SHOWN]:
                sheet.item(part, mark="    ")
            if len(check.evidence) > _EVIDENCE_SHOWN:
                sheet.item(f"and {len(check.evidence) - _EVIDENCE_SHOWN} more in result.json", "dim", mark="    ")


def left_to_sweep(test: TestResult) -> list[str]:
    """Return a sentence for each check of a test that one run cannot judge."""
    return [f"judged by grovescale sweep: {scaling.with_source(one)}" for one in scaling.left_to_sweep(test.declared)]


def sums(checks: Iterable[CheckResult]) -> str:
    """Return the number of checks by verdict: ``1 failed, 4 passed``."""
    found = Counter(check.verdict for check in checks)
    return ", ".join(f"{found[verdict]} {word}" for verdict, word in _SUMMED.items() if found[verdict])


def by_verdict(checks: Iterable[CheckResult]) -> list[CheckResult]:
    """Return the checks, failed ones first, then inconclusive ones, each in the order in which they were declared."""
    order = list(_SUMMED)
    return sorted(checks, key=lambda check: order.index(check.verdict))
