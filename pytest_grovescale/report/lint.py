"""What the rules say of a metrics endpoint, as text and as JSON: a line for each fault, and one that sums up."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from ..checks.lint.difference import Difference, FamilyDifference
from ..checks.lint.lint import Lint
from ..checks.lint.problem import line
from ..whole_files import json_document
from .wording import count, plain

SCHEMA_VERSION = 1


class LintDocument(msgspec.Struct, frozen=True, kw_only=True):
    """``grovescale lint-metrics --json``."""

    schema_version: int = SCHEMA_VERSION
    lint: Lint
    against: Difference | None = None


def text(lint: Lint, against: Difference | None = None) -> str:
    """Return all faults, what changed where something is compared with, and the summary."""
    lines = [line(problem) for problem in lint.problems]
    if against is not None:
        lines += [*([""] if lines else []), *_difference(against)]
    return "\n".join(plain(part) for part in [*lines, *([""] if lines else []), summary(lint)])


def json(lint: Lint, against: Difference | None = None) -> str:
    """Return the same as a JSON document."""
    return json_document(LintDocument(lint=lint, against=against)).decode().rstrip("\n")


def summary(lint: Lint) -> str:
    """Return how much there is, whose it is, and what is wrong with it, in one line."""
    faults = len(lint.problems)
    families = len({problem.family for problem in lint.problems} - {""})
    found = _many(faults, "fault") + (f" in {_many(families, 'family', 'families')}" if families else "")
    ignored = f", {count(lint.ignored)} ignored" if lint.ignored else ""
    return (
        f"{lint.target}: {found if faults else 'no faults'}{ignored}; {_many(lint.series, 'series', 'series')} in"
        f" {_many(lint.families, 'family', 'families')}, {count(lint.own_series)} in {count(lint.own_families)} its own"
    )


def _difference(against: Difference) -> Iterator[str]:
    change = against.series - against.series_before
    now, before = count(against.series), count(against.series_before)
    yield f"against {against.before}: {change:+,} series, {now} instead of {before}"
    for family in against.families:
        yield f"{_SIGNS[family.change]} {family.family}{_what(family)}"


_SIGNS = {"added": "+", "removed": "-", "changed": "~"}


def _what(family: FamilyDifference) -> str:
    parts = [f"{family.type_before} is now a {family.type}"] if family.type_before else []
    if family.change != "changed":
        labels = f" by {', '.join(family.labels_added)}" if family.labels_added else ""
        return f": {family.type}, {_many(family.series, 'series', 'series')}{labels}"
    if family.labels_added:
        parts.append(f"new labels {', '.join(family.labels_added)}")
    if family.labels_removed:
        parts.append(f"without labels {', '.join(family.labels_removed)}")
    if family.series != family.series_before:
        parts.append(f"{count(family.series)} series instead of {count(family.series_before)}")
    return f": {'; '.join(parts)}"


def _many(number: int, one: str, several: str = "") -> str:
    return f"{count(number)} {one if number == 1 else several or one + 's'}"
