"""Verdicts in words: a line for each, which starts with the figure, with what it rests on below."""

from __future__ import annotations

from collections.abc import Sequence

from ..analysis.result import CheckResult
from ..errors import CheckFailed, CheckInconclusive


def headline(check: CheckResult) -> str:
    """Return figure and bound in one line: ``operator CPU in deploy 6.84 s > 5 s``."""
    where = f" in {check.phase}" if check.phase else ""
    if check.subject:
        return f"{check.subject}{where}{check.text.removeprefix(check.subject)}"
    return f"{check.check}{where}: {check.text}"


def line(check: CheckResult) -> str:
    """Return a verdict in one line: ``operator CPU in deploy 6.84 s > 5 s (fail; cpu("deploy", max="5s"), marker)``."""
    return f"{headline(check)} ({'; '.join([check.verdict, ', '.join(filter(None, (check.check, check.source)))])})"


def account(results: Sequence[CheckResult]) -> str:
    """Return all verdicts, each followed by its evidence."""
    return "\n".join(text for check in results for text in (line(check), *(f"    {part}" for part in check.evidence)))


def failure(results: Sequence[CheckResult]) -> CheckFailed:
    """Return the error for checks that fail a test; its first line has the figure and bound of the worst of them."""
    ordered = sorted(results, key=lambda check: check.verdict != "fail")
    kind = CheckInconclusive if ordered[0].verdict == "inconclusive" else CheckFailed
    return kind(account(ordered))
