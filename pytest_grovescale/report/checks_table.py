"""The verdicts of a test's checks: a table, and the evidence of those that did not pass."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from ..analysis.result import CheckResult, CheckVerdict, TestResult
from ..checks import scaling
from .document import Block, Column, Heading, Item, Table, Tone
from .format import NONE

_TONE: dict[CheckVerdict, Tone] = {"pass": "", "fail": "bad", "inconclusive": "doubt", "not enforced": "quiet"}
_SUMMED: dict[CheckVerdict, str] = {
    "fail": "failed",
    "inconclusive": "inconclusive",
    "not enforced": "not enforced",
    "pass": "passed",
}
_EVIDENCE_SHOWN = 12


def checks(test: TestResult) -> Iterator[Block]:
    """Yield the verdicts, the failed ones first; nothing where no check was declared."""
    if test.checks:
        yield from _verdicts(test.checks)
    for text in left_to_sweep(test):
        yield Item(text, "quiet")


def _verdicts(checks: Sequence[CheckResult]) -> Iterator[Block]:
    ordered = by_verdict(checks)
    yield Heading(f"Checks: {sums(checks)}")
    columns = [
        Column("verdict", verdict=True),
        Column("phase"),
        Column("figure and bound", wraps=True),
        Column("source"),
    ]
    rows = [[check.verdict, check.phase or NONE, check.text, check.source] for check in ordered]
    yield Table(columns, rows, tones=[_TONE[check.verdict] for check in ordered])
    for check in ordered:
        if check.verdict != "pass" and check.evidence:
            yield Item(check.check, _TONE[check.verdict])
            for part in check.evidence[:_EVIDENCE_SHOWN]:
                yield Item(part, level=1)
            if len(check.evidence) > _EVIDENCE_SHOWN:
                yield Item(f"and {len(check.evidence) - _EVIDENCE_SHOWN} more in result.json", "quiet", level=1)


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
