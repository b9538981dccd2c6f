"""Annotations of a pull request: what a run says of it, at the line that declares the bound.

GitHub reads them from a job's output, as workflow commands:
https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-commands
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..analysis.comparison_plan import ComparisonVerdict
from ..analysis.result import Result, TestResult
from ..checks.check import headline

_LEVELS = {"fail": "error", "inconclusive": "warning"}
_OF_COMPARISON = {"regression": "error", "broken": "error", "inconclusive": "warning"}
_DECLARED = re.compile(r"(?P<file>.+):(?P<line>\d+)")


def annotations_of(result: Result, folder: str = "") -> Iterator[str]:
    """Yield a workflow command, one line each, for tests that failed, checks without a verdict or bound kept, findings.

    ``folder``: pytest's root as seen from the repository's; empty where they are the same.
    """
    for test in result.tests:
        of_test = {"file": _path(folder, test.test.partition("::")[0])}
        ended = test.error or test.failure
        if ended and not any(check.verdict == "fail" for check in test.checks):
            yield _command("error", ended.partition("\n")[0], **of_test, title=test.test)
        for check in test.checks:
            if level := _LEVELS.get(check.verdict):
                declared = _DECLARED.fullmatch(check.source)
                place = {"file": _path(folder, declared["file"]), "line": declared["line"]} if declared else of_test
                yield _command(level, headline(check), **place, title=_title(test, check.check))
        for finding in test.findings:
            if finding.severity != "note":
                yield _command(
                    "warning", f"{finding.severity}: {finding.text}", **of_test, title=_title(test, finding.id)
                )


def of_comparison(verdict: ComparisonVerdict, answer: str) -> Iterator[str]:
    """Yield a workflow command for a comparison that is not ok; ``answer``: its first line."""
    if level := _OF_COMPARISON.get(verdict):
        yield _command(level, answer, title="grovescale compare")


def _title(test: TestResult, what: str) -> str:
    return f"{test.test.rpartition('::')[2]}: {what}"


def _path(folder: str, file: str) -> str:
    return f"{folder}/{file}" if folder not in ("", ".") else file


def _command(level: str, text: str, **properties: str) -> str:
    """Return one workflow command; what would end it, or a property, is escaped."""
    given = ",".join(f"{name}={_escaped(value, ':,')}" for name, value in properties.items())
    return f"::{level} {given}::{_escaped(text, '')}"


def _escaped(text: str, more: str) -> str:
    return "".join(f"%{ord(one):02X}" if one in f"%\r\n{more}" else one for one in text)
