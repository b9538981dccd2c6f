"""Lint results of a metrics endpoint, as text and as JSON: a line for each fault, and a summary."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from ..atomic_write import json_document
from ..checks.metrics.difference import Difference, FamilyDifference
from ..checks.metrics.families import line
from ..checks.metrics.lint import Lint
from ..checks.snapshot_checks import OneScrape
from .checks_table import by_verdict, sums
from .format import count, plain

SCHEMA_VERSION = 1


_NAMED = 3
"""Series, values and lines of evidence that are shown of each kind; JSON has all."""


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """All results for an endpoint."""

    lint: Lint
    against: Difference | None = None
    budgets: OneScrape | None = None

    @property
    def faults(self) -> bool:
        """Whether anything is wrong, or a check could not be decided."""
        verdicts = [check.verdict for check in self.budgets.checks] if self.budgets else []
        return bool(self.lint.problems) or any(verdict != "pass" for verdict in verdicts)


class LintDocument(Found, frozen=True, kw_only=True):
    """``grovescale lint-metrics --json``."""

    schema_version: int = SCHEMA_VERSION


def text(found: Found, *, hints: bool = False) -> str:
    """Return faults, ``hints`` on request, the checks' results, what changed where it is compared, and the summary."""
    parts = [
        [line(problem) for problem in found.lint.problems],
        [f"hint: {line(problem)}" for problem in found.lint.hints] if hints else [],
        list(_checks(found.budgets)) if found.budgets is not None else [],
        list(_difference(found.against)) if found.against is not None else [],
        [summary(found) + ("" if hints else _hidden(found))],
    ]
    return "\n\n".join("\n".join(map(plain, lines)) for lines in parts if lines)


def json(found: Found) -> str:
    """Return the same as a JSON document."""
    return json_document(LintDocument(**msgspec.structs.asdict(found))).decode().rstrip("\n")


def summary(found: Found) -> str:
    """Return in one line the number of faults, of judged items, and of items that were not judged."""
    lint = found.lint
    faults = len(lint.problems)
    families = len({problem.family for problem in lint.problems} - {""})
    wrong = _many(faults, "fault") + (f" in {_many(families, 'family', 'families')}" if families else "")
    ignored = f", {count(lint.ignored)} ignored" if lint.ignored else ""
    checks = f"; checks: {sums(found.budgets.checks)}" if found.budgets and found.budgets.checks else ""
    return f"{lint.target}: {wrong if faults else 'no faults'}{ignored}{checks}; {_judged(lint)}"


def _hidden(found: Found) -> str:
    return f"; {_many(len(found.lint.hints), 'hint')}, with --hints" if found.lint.hints else ""


def _judged(lint: Lint) -> str:
    """Return how much the rules were applied to: without any input, no fault means nothing."""
    own, others = _amount(lint.own_families, lint.own_series), lint.families - lint.own_families
    judged = f"judged {own}" if lint.own_families else "it has no family of its own to judge"
    if not others:
        return judged
    return f"{judged}; of {_amount(others, lint.series - lint.own_series)} of libraries only added labels are judged"


def _amount(families: int, series: int) -> str:
    return f"{_many(families, 'family', 'families')} ({_many(series, 'series', 'series')})"


def _checks(found: OneScrape) -> Iterator[str]:
    for check in by_verdict(found.checks):
        yield f"{check.source} {check.check}: {check.verdict}: {check.text}"
        if check.verdict != "pass":
            yield from _some(check.evidence, "  ")
    for left in found.unjudged:
        yield f"{left.source} {left.check}: {left.why}"


def _difference(against: Difference) -> Iterator[str]:
    now, before = count(against.series), count(against.series_before)
    change = f"+{count(against.series_added)} -{count(against.series_removed)} series"
    yield f"against {against.before}: {change}, {now} instead of {before}"
    for family in against.families:
        yield f"{_SIGNS[family.change]} {family.family}{_what(family)}"
        if family.change == "changed":
            yield from _some(family.series_added, "    + ")
            yield from _some(family.series_removed, "    - ")


_SIGNS = {"added": "+", "removed": "-", "changed": "~"}


def _what(family: FamilyDifference) -> str:
    if family.change != "changed":
        labels = f" by {', '.join(family.labels_added)}" if family.labels_added else ""
        return f": {family.type}, {_many(family.series, 'series', 'series')}{labels}"
    parts = [f"{family.type_before} is now a {family.type}"] if family.type_before else []
    if family.labels_added:
        parts.append(f"new labels {', '.join(family.labels_added)}")
    if family.labels_removed:
        parts.append(f"without labels {', '.join(family.labels_removed)}")
    parts += [f"new values of {label}: {_first(values)}" for label, values in family.values_added.items()]
    if family.series != family.series_before:
        parts.append(f"{count(family.series)} series instead of {count(family.series_before)}")
    return f": {'; '.join(parts)}" if parts else ""


def _some(lines: Sequence[str], mark: str) -> Iterator[str]:
    yield from (f"{mark}{one}" for one in lines[:_NAMED])
    if more := len(lines[_NAMED:]):
        yield f"{' ' * len(mark)}and {count(more)} more"


def _first(values: Sequence[str]) -> str:
    more = len(values[_NAMED:])
    return ", ".join(values[:_NAMED]) + (f" and {count(more)} more" if more else "")


def _many(number: int, one: str, several: str = "") -> str:
    return f"{count(number)} {one if number == 1 else several or one + 's'}"
