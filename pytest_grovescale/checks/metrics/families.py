"""The metric families of an endpoint, each with its series, who brought it, and what a rule finds wrong with it.

`builtins.yaml` beside this file lists the families that come with a library, whose names and labels an operator's
author cannot change: those of controller-runtime managers, from its sources and a running one, and those that client
libraries add by themselves.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec
import yaml

from ...analysis.metrics.snapshot import Surface
from ...exposition.families import LIBRARIES, Family, MetricType, Series, text

FILE = Path(__file__).with_name("builtins.yaml")

RESERVED = {"histogram": "le", "gaugehistogram": "le", "summary": "quantile"}
"""Type → the label by which the format splits such a metric into series; it is not the author's."""

When = Literal["always", "initialised", "lazy", "opt-in", "never"]
"""``always``: registered and exposed; ``initialised``: when the controller or queue starts; ``lazy``: neither TYPE line
nor series until its first use, so that absent does not mean not built in; ``opt-in``: a manager asks for it; ``never``:
defined, and not registered."""

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
    "inconsistent",
    "value",
    "series",
    "transport",
    "syntax",
    "format",
    "type",
    "order",
    "timestamp",
    "exemplar",
    "reserved-label",
    "label-sets",
    "label-variants",
    "label-in-name",
    "prefix",
    "derived",
    "credential",
]
"""The first nine are those of Prometheus' own linter, promlint."""

_WHEN: dict[str, When] = {"a": "always", "i": "initialised", "l": "lazy", "o": "opt-in", "x": "never"}

_LONGEST = 160
"""Characters of an example in a line; some endpoints have whole messages in labels."""


class Builtin(msgspec.Struct, frozen=True, kw_only=True):
    """One family as its library declares it."""

    name: str
    type: MetricType
    labels: tuple[str, ...]
    when: When
    origin: str
    """Group in the catalogue: ``controller_runtime``, ``workqueue``, ``client_go``, ``runtime``, ``libraries``."""
    values: dict[str, tuple[str, ...]] = {}
    """Label → all the values that it takes, where these are few and known."""
    buckets: int | None = None
    """Of a histogram, without the last (+Inf)."""
    native: bool = False
    """Whether it has exponential buckets too, where the scraper asks for them."""
    since: str = ""
    """First version of the library that has it; empty: older than any in use."""
    max_priorities: int | None = None


@functools.cache
def builtins() -> Mapping[str, Builtin]:
    """Return name → built-in family, of the whole catalogue. The mapping is shared: do not change it."""
    plain = yaml.load(FILE.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
    rows = [{**row, "when": _WHEN[row["when"]], "origin": origin} for origin, group in plain.items() for row in group]
    return {row.name: row for row in msgspec.convert(rows, list[Builtin])}


def builtin(name: str) -> Builtin | None:
    """Return the built-in family of this name; None where no known library brings it."""
    return builtins().get(name)


class Served(NamedTuple):
    """One family, and all that the endpoint serves of it."""

    family: Family
    series: list[Series]
    """Empty where it has a TYPE line and no samples."""
    builtin: Builtin | None
    """What the catalogue has under its name."""
    creation_times: bool = False
    """Whether a client library added it, in the text format, for the creation times of another family's series."""

    @property
    def name(self) -> str:
        return self.family.name

    @property
    def of_library(self) -> bool:
        """Whether a library brought it, so that the operator's author cannot change its name and labels.

        A family with a built-in's name and another type is not the built-in.
        """
        if self.collides:
            return False
        return self.creation_times or self.builtin is not None or self.name.startswith(LIBRARIES)

    @property
    def collides(self) -> bool:
        """Whether it has the name of a built-in family without being that family."""
        return self.builtin is not None and self.family.type not in (self.builtin.type, "unknown")

    def labels(self) -> dict[str, dict[str, Series]]:
        """Return label → value → a series that has it; without those that the format needs."""
        reserved = RESERVED.get(self.family.type)
        labels: dict[str, dict[str, Series]] = {}
        for series in self.series:
            for label, value in series.labels.items():
                if label != reserved:
                    labels.setdefault(label, {}).setdefault(value, series)
        return labels

    def own_labels(self) -> dict[str, dict[str, Series]]:
        """Return `labels`; of a built-in family only those that were added to it, of a library's other ones none."""
        if not self.of_library:
            return self.labels()
        theirs = self.builtin.labels if self.builtin is not None else tuple(self.labels())
        return {label: values for label, values in self.labels().items() if label not in theirs}


class Problem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One fault of one family."""

    family: str
    """Empty where it is of the endpoint as a whole."""
    rule: Rule
    says: str
    """What is wrong, as half a sentence."""
    series: str = ""
    """An example; empty where the family's name is one."""
    fix: str = ""
    hint: bool = False
    """Whether it is worth a look, and no fault."""


def served(surface: Surface, *, pattern: str = "") -> list[Served]:
    """Return all families by name, also those without a sample; ``pattern``: only those whose name matches."""
    series = surface.by_family()
    names = {*surface.families, *series}
    return [
        Served(
            surface.families.get(name, Family(name=name)),
            series.get(name, []),
            builtin(name),
            name.endswith("_created") and not names.isdisjoint(_created_for(name)),
        )
        for name in sorted(names)
        if fits(name, pattern)
    ]


def served_by_name(surface: Surface) -> Mapping[str, Served]:
    """Return name → family, of all that are served."""
    return {family.name: family for family in served(surface)}


def own(surface: Surface, *, ignore: tuple[str, ...] | list[str] = ()) -> list[Served]:
    """Return the families that no known library brought, except those whose names match a pattern of ``ignore``."""
    return [
        family
        for family in served(surface)
        if not family.of_library and not any(fnmatchcase(family.name, pattern) for pattern in ignore)
    ]


def chosen(surface: Surface, family: str) -> list[Served]:
    """Return the families that match a name or pattern; of an empty one, those that no known library brought."""
    return served(surface, pattern=family) if family else own(surface)


def fits(name: str, pattern: str) -> bool:
    """Return whether a family's name matches a pattern with ``*``; an empty one matches all."""
    return not pattern or fnmatchcase(name, pattern)


def number(label: str) -> float:
    """Return the number that a label's value is, as of ``le`` or ``quantile``; NaN for what is none."""
    try:
        return float(label)
    except ValueError:
        return math.nan


def written(series: Series) -> str:
    """Return a series as text."""
    return text(series.name, series.labels)


def line(problem: Problem) -> str:
    """Return a fault in one line: family, rule, what is wrong, an example, and the fix."""
    subject = f"{problem.family} [{problem.rule}]" if problem.family else f"[{problem.rule}]"
    series = problem.series if len(problem.series) <= _LONGEST else f"{problem.series[:_LONGEST]}…"
    example = f", as in {series}" if series else ""
    fix = f". Fix: {problem.fix}" if problem.fix else ""
    return f"{subject} {problem.says}{example}{fix}"


def _created_for(name: str) -> tuple[str, str]:
    stem = name.removesuffix("_created")
    return stem, f"{stem}_total"
