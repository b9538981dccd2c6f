"""What a rule says of a family: the fault, a series that shows it, and what to do about it."""

from __future__ import annotations

from typing import Literal

import msgspec

Rule = Literal[
    "help",
    "unit",
    "counter-total",
    "reserved-suffix",
    "type-in-name",
    "reserved-character",
    "camel-case",
    "unit-abbreviation",
    "duplicate",
    "unbounded-label",
    "unbounded-values",
    "function-name",
    "builtin-collision",
    "builtin-duplicate",
    "buckets",
    "series",
    "syntax",
]
"""The first nine are those of Prometheus' own linter, promlint."""


class Problem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One fault of one family."""

    family: str
    """Empty where it is of the endpoint as a whole."""
    rule: Rule
    says: str
    """What is wrong, as half a sentence."""
    series: str = ""
    """One that shows it; empty where the family's name does."""
    fix: str = ""


_LONGEST = 160
"""Characters of an example in a line; some write whole messages into labels."""


def line(problem: Problem) -> str:
    """Return a fault in one line: family, rule, what is wrong, an example, and the fix."""
    subject = f"{problem.family} [{problem.rule}]" if problem.family else f"[{problem.rule}]"
    example = f", as in {_cut(problem.series)}" if problem.series else ""
    fix = f". Fix: {problem.fix}" if problem.fix else ""
    return f"{subject} {problem.says}{example}{fix}"


def _cut(series: str) -> str:
    return series if len(series) <= _LONGEST else f"{series[:_LONGEST]}…"
