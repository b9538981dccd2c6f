"""Metrics aggregated to the labels that two families share."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from ...exposition.families import MetricType, family_of, parse
from .history import TargetHistory
from .selectors import Matcher, Selector

Suffix = Literal["", "_count", "_sum"]
Group = tuple[str, ...]
Column = list[float | None]
"""One value for each scrape; None where it was not served."""
Groups = Mapping[Group, Column]
Slice = tuple[tuple[str, frozenset[str]], ...]
"""Labels, each with its selected values; none: all series."""

_SUFFIXES: dict[MetricType, tuple[Suffix, ...]] = {"histogram": ("_count", "_sum"), "summary": ("_count", "_sum")}
_ALL_SUBSETS = 5
"""Labels with more values are split only into single values and common prefixes (``4..``)."""
_LABELS_SLICED = 2


@dataclass(frozen=True, eq=False)
class Measure:
    """One kind of number of a family at all scrapes: its value, or a histogram's count or sum."""

    family: str
    type: MetricType
    suffix: Suffix
    rows: tuple[tuple[Mapping[str, str], Column], ...]
    """Labels and values of each series."""

    @property
    def name(self) -> str:
        return self.family + self.suffix

    @property
    def counts(self) -> bool:
        """Whether a missing series means 0: it appears with its first count."""
        return self.type in ("counter", "histogram", "summary")

    @cached_property
    def real(self) -> bool:
        """Whether it measures seconds or the like, on which two clocks never agree exactly."""
        known = (value for _, column in self.rows for value in column if value is not None)
        return any(math.isfinite(value) and value != int(value) for value in known)

    @cached_property
    def values(self) -> Mapping[str, set[str]]:
        """Label → the values that it has."""
        values: dict[str, set[str]] = defaultdict(set)
        for labels, _ in self.rows:
            for label, value in labels.items():
                values[label].add(value)
        return dict(values)

    @cached_property
    def changed(self) -> frozenset[int]:
        """The scrapes at which any of its series changed its value, appeared or disappeared."""
        return frozenset(
            scrape
            for _, column in self.rows
            for scrape, (before, after) in enumerate(itertools.pairwise(column), start=1)
            if before != after
        )

    @cached_property
    def moved(self) -> bool:
        """Whether any of its series ever changed, or appeared with a value after the first scrape."""
        return any(_moved(column, since_zero=self.counts) for _, column in self.rows)


def measures(target: TargetHistory) -> dict[str, list[Measure]]:
    """Return family → its measures: one, or the count and the sum of a histogram or summary."""
    rows: dict[tuple[str, str], list[tuple[Mapping[str, str], Column]]] = defaultdict(list)
    for series in target.series:
        name, labels = parse(series)
        rows[family_of(name, target.families), name].append((labels, list(target.values(series))))
    by_family: dict[str, list[Measure]] = defaultdict(list)
    for family, name in rows:
        kind = target.families[family].type if family in target.families else "unknown"
        for suffix in _SUFFIXES.get(kind, ("",)):
            if name == family + suffix and not any("quantile" in labels for labels, _ in rows[family, name]):
                by_family[family].append(Measure(family, kind, suffix, tuple(rows[family, name])))
    return {family: sorted(of_family, key=lambda one: one.suffix) for family, of_family in by_family.items()}


def shared_labels(own: Measure, other: Measure) -> dict[str, str]:
    """Return the labels of one measure that another has too, by whatever name → the other's name for it.

    Labels of the same name must share a value at least; of different names, all values of ``own`` must be among the
    other's, and there must be two of them.
    """
    ours, theirs = own.values, other.values
    shared = {label: label for label in sorted(ours) if ours[label] & theirs.get(label, set())}
    for label in sorted(ours.keys() - shared.keys()):
        free = sorted(theirs.keys() - set(shared.values()))
        same = next((name for name in free if len(ours[label]) > 1 and ours[label] <= theirs[name]), None)
        if same is not None:
            shared[label] = same
    return shared


def project(measure: Measure, by: Sequence[str], taken: Slice = ()) -> Groups:
    """Return the sums of a slice's series by the values of some labels, at each scrape."""
    sums: dict[Group, Column] = {}
    for labels, column in measure.rows:
        if all(labels.get(label, "") in values for label, values in taken):
            group = tuple(labels.get(label, "") for label in by)
            sums[group] = _added(sums[group], column) if group in sums else column
    return sums


def slices(measure: Measure, shared: Collection[str]) -> Iterator[Slice]:
    """Yield the slices of a measure over the labels that are not shared, all series first.

    Only all series where no label is shared: a count of bound pods equals the POSTs that were answered with 201, as
    long as nothing else is created, and yet has another meaning.
    """
    cuts = {
        label: list(_subsets(sorted(values)))
        for label, values in sorted(measure.values.items())
        if label not in shared and len(values) > 1
    }
    yield ()
    for number in range(1, _LABELS_SLICED + 1 if shared else 1):
        for labels in itertools.combinations(cuts, number):
            for chosen in itertools.product(*(cuts[label] for label in labels)):
                yield tuple(zip(labels, chosen, strict=True))


def query(measure: Measure, by: Sequence[str], taken: Slice, groups: Iterable[Group]) -> str:
    """Return the PromQL expression of a projection onto some groups: the query to use instead."""
    values = measure.values
    kept = list(groups)
    matchers = [_matcher(label, chosen, values[label]) for label, chosen in taken]
    for position, label in enumerate(by):
        of_groups = frozenset(group[position] for group in kept)
        if of_groups < values[label]:
            matchers.append(_matcher(label, of_groups, values[label]))
    selected = str(Selector(measure.name, tuple(matchers)))
    if set(by) == set(values):
        return selected
    return f"sum by ({', '.join(by)}) ({selected})" if by else f"sum({selected})"


def _matcher(label: str, chosen: frozenset[str], known: Iterable[str]) -> Matcher:
    if len(chosen) == 1:
        return Matcher(label, "=", next(iter(chosen)))
    start = _common_start(sorted(chosen))
    if len(start) > 1 and {value for value in known if value.startswith(start)} == chosen:
        return Matcher(label, "=~", f"{start}.*")
    return Matcher(label, "=~", "|".join(sorted(chosen)))


def _common_start(values: Sequence[str]) -> str:
    first, last = values[0], values[-1]
    return first[: next((n for n, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))]


def _subsets(values: Sequence[str]) -> Iterator[frozenset[str]]:
    if len(values) <= _ALL_SUBSETS:
        for size in range(1, len(values)):
            yield from map(frozenset, itertools.combinations(values, size))
        return
    yield from (frozenset({value}) for value in values)
    for _, group in itertools.groupby(values, key=lambda value: value[:1]):
        alike = frozenset(group)
        if 1 < len(alike) < len(values):
            yield alike


def _added(left: Column, right: Column) -> Column:
    return [b if a is None else a if b is None else a + b for a, b in zip(left, right, strict=True)]


def _moved(column: Column, *, since_zero: bool) -> bool:
    known = [value for value in column if value is not None]
    if since_zero and column and column[0] is None:
        known.insert(0, 0.0)
    return any(value != known[0] for value in known)
