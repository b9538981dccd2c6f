"""Verdicts in words: a line for each, with what it rests on below."""

from __future__ import annotations

from collections.abc import Sequence

from ..analysis.result import CheckResult
from ..errors import CheckFailed

_WORD = {"pass": "passed", "fail": "FAILED", "inconclusive": "INCONCLUSIVE"}


def line(found: CheckResult) -> str:
    """Return a verdict in one line, with figure and bound: ``noop_writes(max=0) FAILED in steady-state: …``."""
    where = f" in {found.phase}" if found.phase else ""
    source = f" [{found.source}]" if found.source else ""
    return f"{found.check} {_WORD[found.verdict]}{where}: {found.text}{source}"


def account(results: Sequence[CheckResult]) -> str:
    """Return all verdicts, each followed by its evidence."""
    return "\n".join(text for found in results for text in (line(found), *(f"    {part}" for part in found.evidence)))


def failure(found: CheckResult) -> CheckFailed:
    """Return the error that says what a check found; its first line has figure and bound."""
    return CheckFailed(account([found]))
