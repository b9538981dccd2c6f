"""Gauges of the operator's own that contradict what they count.

A gauge that equals a number of objects at one time and differs at another is what dashboards and alerts are built on,
and a plausible number is not looked at twice. Typical causes: it is set on create only, or counted up and down beside
the cache.

No false alarm: a gauge is held against a count only if it was 0 when there was no such object and equal to their
number, at least three, after a phase that passed; gauges whose names speak of a maximum or a limit are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from ...exposition.families import LIBRARIES, family_of, parse
from ...recording.records import ObjectSeen
from ..result import Finding
from .observed import Life, Observed

ID = "gauge"

_LEAST = 3
"""A number that a gauge has by chance is mostly a small one."""

_OTHER = re.compile(r"max|peak|limit|capacity|seconds|timestamp|bytes|ratio|info|desired|version|generation")
"""Parts of names of gauges that need not follow a number of objects."""

_SIGNED = re.compile(r"delta|diff|offset|change|skew|drift|balance|temperature|celsius|seconds|rate|score")
"""Parts of names of gauges that may be below zero."""


def findings(seen: Observed) -> Iterator[Finding]:
    """Yield a finding for each gauge below zero, and each that lost track of the objects that it counts."""
    if seen.target is None:
        return
    for family, series in sorted(_own_gauges(seen).items()):
        below = [one for one in series if _is_below_zero(seen, family, one)]
        if below:
            yield Finding(
                id=ID,
                severity="defect",
                text=f"{family} counts something and is below zero",
                evidence=tuple(_below(seen, one) for one in below[:3]),
                check=f'invariant("{family} >= 0")',
            )
            continue
        if not _OTHER.search(family):
            yield from _against_objects(seen, family, series)


def _own_gauges(seen: Observed) -> dict[str, list[str]]:
    """Return family → its series, of gauges that none of the program's libraries defines."""
    assert seen.target is not None  # the caller looks
    found: dict[str, list[str]] = {}
    for series in seen.target.series:
        name = family_of(parse(series).name, seen.target.families)
        family = seen.target.families.get(name)
        if family is not None and family.type == "gauge" and not name.startswith(LIBRARIES):
            found.setdefault(name, []).append(series)
    return found


def _values(seen: Observed, series: str) -> list[float]:
    assert seen.target is not None  # the caller looks
    found = (seen.target.value(series, scrape) for scrape in range(len(seen.target.moments)))
    return [value for value in found if value is not None]


def _is_below_zero(seen: Observed, family: str, series: str) -> bool:
    values = _values(seen, series)
    return not _SIGNED.search(family) and min(values, default=0) < 0 and all(value == int(value) for value in values)


def _below(seen: Observed, series: str) -> str:
    assert seen.target is not None  # the caller looks
    scrape = next(n for n in range(len(seen.target.moments)) if (seen.target.value(series, n) or 0) < 0)
    return f"{series} was {seen.target.value(series, scrape):g} {seen.target.when(scrape)}"


def _against_objects(seen: Observed, family: str, series: list[str]) -> Iterator[Finding]:
    """Compare the family's sum, and each series where there are few, with each number of objects."""
    sums = {scrape: _sum(seen, series, scrape) for scrape in seen.rests}
    columns: dict[str, Mapping[int, float]] = {family if len(series) == 1 else f"sum({family})": sums}
    if 1 < len(series) <= 20:
        columns |= {one: {scrape: _sum(seen, [one], scrape) for scrape in seen.rests} for one in series}
    for name, values in columns.items():
        found = _contradiction(seen, name, values)
        if found is not None:
            yield found
            return


def _contradiction(seen: Observed, name: str, values: Mapping[int, float]) -> Finding | None:
    assert seen.target is not None  # the caller looks
    counts = _counts(seen)
    equal: dict[str, list[int]] = {}
    for what, numbers in counts.items():
        same = [scrape for scrape in seen.rests if values[scrape] == numbers[scrape]]
        none = [scrape for scrape in seen.rests if numbers[scrape] == 0]
        from_zero = bool(none) and values[none[0]] == 0
        if from_zero and any(numbers[scrape] >= _LEAST for scrape in same):
            equal[what] = same
    if not equal or any(len(same) == len(seen.rests) for same in equal.values()):
        return None
    # Of several candidates, the one that it agrees with most.
    what, same = max(equal.items(), key=lambda one: len(one[1]))
    wrong = [scrape for scrape in seen.rests if scrape not in same]
    agreed = next(scrape for scrape in same if counts[what][scrape] >= _LEAST)
    worst = wrong[-1]
    return Finding(
        id=ID,
        severity="defect",
        text=f"{name} is {values[worst]:,.0f} {seen.target.when(worst)}, when there are {counts[what][worst]:,} {what}",
        evidence=(f"it was equal to their number {seen.target.when(agreed)}: {counts[what][agreed]:,}",),
    )


def _counts(seen: Observed) -> dict[str, dict[int, int]]:
    """Return what is counted, in words → scrape at rest → its number then."""
    assert seen.target is not None  # the caller looks
    moments = {scrape: seen.target.moments[scrape].at for scrape in seen.rests}
    found: dict[str, dict[int, int]] = {}
    for resource, lives in seen.lives.items():
        found[resource] = {scrape: sum(life.exists(at) for life in lives) for scrape, at in moments.items()}
        for path, word in (("status.conditions[type=Ready].status", "ready"),):
            if any(path in event.fields for life in lives for event in life.events[-1:]):
                found[f"{word} {resource}"] = {
                    scrape: sum(_field(life, path, at) == "True" for life in lives if life.exists(at))
                    for scrape, at in moments.items()
                }
    return found


def _field(life: Life, path: str, at: int) -> object:
    before: ObjectSeen | None = None
    for event in life.events:
        if event.at > at:
            break
        before = event
    return before.fields.get(path) if before is not None else None


def _sum(seen: Observed, series: list[str], scrape: int) -> float:
    assert seen.target is not None  # the caller looks
    return sum(seen.target.value(one, scrape) or 0.0 for one in series)
