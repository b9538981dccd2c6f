"""Gauges of the operator's own that contradict what they count.

A gauge that equals a number of objects at one time and differs at another is what dashboards and alerts are built on,
and a plausible number is not looked at twice. Typical causes: it is set on create only, or counted up and down beside
the cache.

No false alarm: a gauge is held against a count only if it was 0 when there was no such object and equal to their
number, at least three, after a phase that passed; gauges whose names speak of a maximum or a limit are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from ...exposition.families import LIBRARIES, family_of, parse
from ..metrics.history import TargetHistory
from ..result import Finding
from .observed import READY, Life, Observed

ID = "gauge"

_LEAST = 3
"""A number that a gauge has by chance is mostly a small one."""

_FEW = 20
"""Series of a family that are looked at one by one."""

Counts = Mapping[str, Mapping[int, int]]
"""What is counted, in words → scrape at rest → its number then."""

_OTHER = re.compile(r"max|peak|limit|capacity|seconds|timestamp|bytes|ratio|info|desired|version|generation")
"""Parts of names of gauges that need not follow a number of objects."""

_SIGNED = re.compile(r"delta|diff|offset|change|skew|drift|balance|temperature|celsius|seconds|rate|score")
"""Parts of names of gauges that may be below zero."""


def findings(seen: Observed) -> Iterator[Finding]:
    """Yield a finding for each gauge below zero, and each that lost track of the objects that it counts."""
    target = seen.target
    if target is None:
        return
    counts = _counts(seen, target)
    for family, series in sorted(_own_gauges(target).items()):
        below = [] if _SIGNED.search(family) else [one for one in series if _is_below_zero(target, one)]
        if below:
            yield Finding(
                id=ID,
                severity="defect",
                text=f"{family} counts something and is below zero",
                evidence=tuple(_below(target, one) for one in below[:3]),
                check=f'invariant("{family} >= 0")',
            )
        elif not _OTHER.search(family):
            columns = _columns(target, family, series, seen.rests).items()
            found = (_contradiction(target, name, values, counts, seen.rests) for name, values in columns)
            yield from islice(filter(None, found), 1)


def _own_gauges(target: TargetHistory) -> dict[str, list[str]]:
    """Return family → its series, of gauges that none of the program's libraries defines."""
    found: dict[str, list[str]] = {}
    for series in target.series:
        name = family_of(parse(series).name, target.families)
        family = target.families.get(name)
        if family is not None and family.type == "gauge" and not name.startswith(LIBRARIES):
            found.setdefault(name, []).append(series)
    return found


def _is_below_zero(target: TargetHistory, series: str) -> bool:
    values = [value for value in target.values(series) if value is not None]
    return min(values, default=0) < 0 and all(value == int(value) for value in values)


def _below(target: TargetHistory, series: str) -> str:
    scrape, value = next((scrape, value) for scrape, value in enumerate(target.values(series)) if (value or 0) < 0)
    return f"{series} was {value:g} {target.when(scrape)}"


def _columns(
    target: TargetHistory, family: str, series: Sequence[str], rests: Sequence[int]
) -> dict[str, dict[int, float]]:
    """Return what is held against numbers of objects: a family's sum, and each series where there are few."""
    chosen = {family if len(series) == 1 else f"sum({family})": series}
    if 1 < len(series) <= _FEW:
        chosen |= {one: [one] for one in series}
    return {
        name: {scrape: sum(target.value(one, scrape) or 0.0 for one in added) for scrape in rests}
        for name, added in chosen.items()
    }


def _contradiction(
    target: TargetHistory, name: str, values: Mapping[int, float], counts: Counts, rests: Sequence[int]
) -> Finding | None:
    equal: dict[str, list[int]] = {}
    for what, numbers in counts.items():
        same = [scrape for scrape in rests if values[scrape] == numbers[scrape]]
        none = [scrape for scrape in rests if numbers[scrape] == 0]
        from_zero = bool(none) and values[none[0]] == 0
        if from_zero and any(numbers[scrape] >= _LEAST for scrape in same):
            equal[what] = same
    if not equal or any(len(same) == len(rests) for same in equal.values()):
        return None
    # Of several candidates, the one that it agrees with most.
    what, same = max(equal.items(), key=lambda one: len(one[1]))
    agreed = next(scrape for scrape in same if counts[what][scrape] >= _LEAST)
    worst = [scrape for scrape in rests if scrape not in same][-1]
    return Finding(
        id=ID,
        severity="defect",
        text=f"{name} is {values[worst]:,.0f} {target.when(worst)}, when there are {counts[what][worst]:,} {what}",
        evidence=(f"it was equal to their number {target.when(agreed)}: {counts[what][agreed]:,}",),
    )


def _counts(seen: Observed, target: TargetHistory) -> Counts:
    moments = {scrape: target.moments[scrape].at for scrape in seen.rests}
    found: dict[str, dict[int, int]] = {}
    for resource, lives in seen.lives.items():
        found[resource] = {scrape: sum(life.exists(at) for life in lives) for scrape, at in moments.items()}
        if any(READY in life.events[-1].fields for life in lives):
            found[f"ready {resource}"] = {
                scrape: sum(_is_ready(life, at) for life in lives if life.exists(at)) for scrape, at in moments.items()
            }
    return found


def _is_ready(life: Life, at: int) -> bool:
    before = next((event for event in reversed(life.events) if event.at <= at), None)
    return before is not None and before.fields.get(READY) == "True"
