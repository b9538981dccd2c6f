"""All rules on one answer of an endpoint."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase

import msgspec

from ...analysis.metrics.surface import Surface
from . import buckets, builtins, functions, labels, names, size, values
from .problem import Problem
from .served import Served, served


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What an endpoint is held to, beside the rules that hold for all."""

    max_series: int | None = None
    """In all families that fit `max_series_family`."""
    max_series_family: str = ""
    """A family, or several with ``*``; empty: all that no library brought."""
    forbidden: tuple[str, ...] = labels.UNBOUNDED
    """Labels that no family of its own may have."""
    ignore: tuple[str, ...] = ()
    """Rules, and families (with ``*``), that are let off."""


class Lint(msgspec.Struct, frozen=True, kw_only=True):
    """What the rules say of an endpoint."""

    target: str
    families: int
    own_families: int
    """Of `families`, those that no known library brought."""
    series: int
    own_series: int
    problems: tuple[Problem, ...]
    """By family; those of the endpoint as a whole first."""
    ignored: int = 0
    """Faults that were let off because somebody asked for it."""


def lint(surface: Surface, wanted: Wanted, *, syntax: Sequence[Problem] = ()) -> Lint:
    """Return what is wrong with an endpoint; ``syntax`` are faults that reading it brought up.

    Families that a library brought are counted, and judged only by what was added to them.
    """
    every = served(surface)
    theirs = [family for family in every if not family.of_library]
    found = [*syntax, *_problems(surface, every, theirs, wanted)]
    kept = [problem for problem in found if not _let_off(problem, wanted.ignore)]
    return Lint(
        target=surface.target,
        families=len(every),
        own_families=len(theirs),
        series=len(surface.samples),
        own_series=sum(len(family.series) for family in theirs),
        problems=tuple(sorted(kept, key=lambda problem: problem.family)),
        ignored=len(found) - len(kept),
    )


def _problems(surface: Surface, every: list[Served], theirs: list[Served], wanted: Wanted) -> Iterator[Problem]:
    known = {family.name for family in every}
    yield from size.problems(every, wanted.max_series, wanted.max_series_family)
    yield from names.problems(theirs, known)
    yield from labels.problems(every, forbidden=wanted.forbidden)
    verdicts = values.verdicts_of(surface.target, every, surface.samples)
    yield from values.problems(verdicts)
    told = {verdict.family for verdict in verdicts if verdict.kind in ("collision", "duplicate", "refinement")}
    yield from builtins.problems((family for family in theirs if family.name not in told), known)
    yield from functions.problems(theirs)
    yield from buckets.problems(theirs, surface.samples, surface.native)


def _let_off(problem: Problem, ignore: Iterable[str]) -> bool:
    return any(pattern == problem.rule or fnmatchcase(problem.family, pattern) for pattern in ignore)
