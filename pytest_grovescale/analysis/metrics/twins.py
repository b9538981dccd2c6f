"""Families of the program's own that duplicate another of its own.

Two counts of one thing are equal at every scrape, exactly, also while work is in progress: there an attempt and its
success, a start and an end differ. So the comparison is stricter than between a family and a built-in one, which count
the same event at two moments; only whole families are compared, reduced to the labels that they share; and they have to
have changed together several times while work was in progress. That is no proof: attempts and successes of a run
without failures, with short work, look the same.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from .history import TargetHistory
from .projection import Column, Group, Measure, project, query, shared_labels
from .rest import at_rest

LEAST_CHANGES = 3
"""Scrapes during work at which both have changed."""

_Key = tuple[bool, tuple[float | None, ...]]
"""Whether it counts, and its sum at each scrape: two families must share both to be compared at all."""


class Twin(NamedTuple):
    """A family that another of the same program makes superfluous."""

    family: str
    other: str
    """The family that has the same information, or more."""
    query: str
    """PromQL that gives the same from the other."""
    at_work: int
    """Scrapes during work at which both have changed."""


def twins(target: TargetHistory, own: Mapping[str, list[Measure]]) -> Iterator[Twin]:
    """Yield the families that another one duplicates or contains; of two duplicates, the later one by name."""
    rest = at_rest(target)
    alike: dict[_Key, list[list[Measure]]] = defaultdict(list)
    for _, of_family in sorted(own.items()):
        if sum(rest[scrape] is not True for scrape in of_family[0].changed) >= LEAST_CHANGES:
            alike[_key(of_family[0])].append(of_family)
    for families in alike.values():
        for position, family in enumerate(families):
            found = [other for other in families if other is not family and _says_no_more(family, other)]
            # The first of several duplicates is kept.
            kept = [other for other in found if other in families[:position] or not _says_no_more(other, family)]
            if kept:
                at_work = sum(rest[scrape] is not True for scrape in family[0].changed)
                yield Twin(family[0].family, kept[0][0].family, _query(family[0], kept[0][0]), at_work)


def _key(measure: Measure) -> _Key:
    total = project(measure, ())[()]
    return measure.counts, tuple(value or 0.0 for value in total) if measure.counts else tuple(total)


def _says_no_more(family: Sequence[Measure], other: Sequence[Measure]) -> bool:
    """Return whether another family contains all of a family: each of its series, and a histogram's sum too."""
    by_suffix = {one.suffix: one for one in other}
    pairs = [(one, by_suffix.get(one.suffix)) for one in family] if family[0].suffix else [(family[0], other[0])]
    return all(theirs is not None and _equal(ours, theirs) for ours, theirs in pairs)


def _equal(ours: Measure, theirs: Measure) -> bool:
    labels = shared_labels(ours, theirs)
    mine, others = project(ours, tuple(labels)), project(theirs, tuple(labels.values()))
    return len(mine) == len(ours.rows) and _columns(mine, zero=ours.counts) == _columns(others, zero=ours.counts)


def _columns(groups: Mapping[Group, Column], *, zero: bool) -> dict[Group, Column]:
    """Return the columns of groups; ``zero``: missing values count as 0, and columns that are always 0 are left out."""
    if not zero:
        return dict(groups)
    counted = {group: [value or 0.0 for value in column] for group, column in groups.items()}
    return {group: list(column) for group, column in counted.items() if any(column)}


def _query(family: Measure, other: Measure) -> str:
    labels = shared_labels(family, other)
    by = tuple(labels.values())
    return query(other, by, (), project(other, by))
