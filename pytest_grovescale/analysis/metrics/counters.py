"""Counters over a run: their growth, their resets, and the lifetimes of the processes that serve them.

A restarted process begins at zero, and another replica that takes over has its own counts. Counts after the last scrape
of a process are lost, so that growth over several lifetimes is a lower bound.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from ...exposition.families import Family, family_of, parse, text
from .history import TargetHistory

PROCESS_START = "process_start_time_seconds"

_COUNTING = {"counter": ("",), "histogram": ("_bucket", "_count", "_sum"), "summary": ("_count", "_sum")}
"""Type of a family → suffixes of its samples that only ever grow."""

_BORN_EARLY_NS = 1_000_000_000
"""A process's start time may be up to a second early: it counts from the machine's boot, which is known to the second
(``btime`` in /proc/stat, proc(5))."""


class Reset(NamedTuple):
    """A counter that is lower than it was when last served, or has a new creation time."""

    series: str
    family: str
    since: int
    """The last scrape with the series before the reset: it may be missing in between."""
    scrape: int
    """The first scrape with it after the reset."""
    before: float
    after: float


class Lifetime(NamedTuple):
    """Consecutive scrapes of one process, by their index."""

    scrapes: tuple[int, ...]
    from_zero: bool
    """Whether it started after the scrape before, so that all of its counts are since then."""

    @property
    def first(self) -> int:
        return self.scrapes[0]

    @property
    def last(self) -> int:
        return self.scrapes[-1]


def counts(name: str, families: Mapping[str, Family]) -> bool:
    """Return whether a sample's value only grows: a counter's, or a histogram's or summary's count and buckets.

    A ``_sum`` too, as in Prometheus; it falls where negative values are observed. Without a type, the name decides.
    """
    family = families.get(family_of(name, families))
    if family is None or family.type == "unknown":
        return name.endswith("_total")
    return name.removeprefix(family.name) in _COUNTING.get(family.type, ())


def counting(target: TargetHistory, name: str) -> list[bool]:
    """Return for each scrape whether a sample's value only grows, by the type that its family had then."""
    if not target.type_changes:
        return [counts(name, target.families)] * len(target.moments)
    return [counts(name, target.families_at(scrape)) for scrape in range(len(target.moments))]


def increases(target: TargetHistory, series: str) -> list[float | None]:
    """Return a counter's growth since the first scrape, at each scrape; None where it is missing or not counting.

    A series that appears later has grown by its whole value: it came with its first count. One that was reset has grown
    by its value before and its value now. A series that becomes a counter begins with its value.
    """
    restarted = {*_recreated(target, series), *_process_starts(target)}
    counted = counting(target, parse(series).name)
    grown: list[float | None] = []
    total, last, since = 0.0, None, 0
    for scrape, value in enumerate(target.values(series)):
        if value is None or not counted[scrape]:
            grown.append(None)
        else:
            if last is None:
                total += value if scrape else 0.0
            elif counted[scrape - 1]:
                # A series may be missing for a while after a restart: until it has something to count.
                began = value < last or any(since < at <= scrape for at in restarted)
                total += value if began else value - last
            grown.append(total)
        last, since = (last, since) if value is None else (value, scrape)
    return grown


def resets(target: TargetHistory) -> Iterator[Reset]:
    """Yield each reset of each counter, by series and time."""
    for series in target.series:
        name = parse(series).name
        counted = counting(target, name)
        if not any(counted):
            continue
        recreated = set(_recreated(target, series))
        last, since = None, 0
        for scrape, value in enumerate(target.values(series)):
            if value is None or not counted[scrape]:
                last = None if not counted[scrape] else last
                continue
            if last is not None and (scrape in recreated or value < last):
                yield Reset(series, family_of(name, target.families_at(scrape)), since, scrape, last, value)
            last, since = value, scrape


def restarts(target: TargetHistory) -> set[int]:
    """Return the scrapes that were the first of another process.

    By the process's start time where it is served, else by the end of the process, or where that is not measured by
    counters: a new process resets all of them.
    """
    known = set(_process_starts(target))
    if known or target.changes(PROCESS_START):
        return known
    return {scrape for scrape in {reset.scrape for reset in resets(target)} if _all_began(target, scrape)}


def _all_began(target: TargetHistory, scrape: int) -> bool:
    """Return whether all counters that had counted were reset: several fell, and none kept its value."""
    fell = 0
    for series in target.series:
        counted = counts(parse(series).name, target.families_at(scrape))
        if counted and (before := target.value(series, scrape - 1)):
            after = target.value(series, scrape)
            if after is not None and after >= before:
                return False
            fell += 1
    return fell > 1


def _process_starts(target: TargetHistory) -> Iterator[int]:
    """Yield the scrapes of another process than the one before: by its start time where it is served, else its end."""
    if not target.changes(PROCESS_START):
        yield from (scrape for scrape in target.process_changes if scrape < len(target.moments))
        return
    last: float | None = None
    for scrape, value in enumerate(target.values(PROCESS_START)):
        if value is not None:
            if last is not None and value != last:
                yield scrape
            last = value


def _recreated(target: TargetHistory, series: str) -> Iterator[int]:
    """Yield the scrapes at which a series' creation time differs from the one before."""
    known = target.created.get(series) or target.created.get(_bare(target, series), [])
    yield from (scrape for (_, before), (scrape, now) in itertools.pairwise(known) if now != before)


def _bare(target: TargetHistory, series: str) -> str:
    """Return the name under which a histogram or summary serves its creation time: without suffix, ``le``, quantile."""
    name, labels = parse(series)
    family = family_of(name, target.families)
    return text(family, {label: value for label, value in labels.items() if label not in ("le", "quantile")})


def growth(target: TargetHistory, series: str, phase: str = "") -> float | None:
    """Return a counter's growth from a phase's first scrape to its last, or over all scrapes; None without two."""
    scrapes = target.of_phase(phase) if phase else list(range(len(target.moments)))
    if len(scrapes) < 2:
        return None
    grown = increases(target, series)
    before, after = grown[scrapes[0]], [grown[scrape] for scrape in scrapes if grown[scrape] is not None]
    last = after[-1] if after else None
    return 0.0 if last is None else last - (before or 0.0)


def process_lifetimes(target: TargetHistory, scrapes: Sequence[int], marker: str = PROCESS_START) -> list[Lifetime]:
    """Return the lifetimes in some consecutive scrapes of a target, in order.

    Separated by the process's start time; for a process that does not serve it, by its end, or a reset of the counter
    ``marker``.
    """
    lifetimes: list[list[int]] = []
    for scrape in scrapes:
        if lifetimes and _same(target, lifetimes[-1][-1], scrape, marker):
            lifetimes[-1].append(scrape)
        else:
            lifetimes.append([scrape])
    return [Lifetime(tuple(life), index > 0 and _began_after(target, life[0])) for index, life in enumerate(lifetimes)]


def growth_within(target: TargetHistory, series: str, lifetimes: Sequence[Lifetime]) -> float:
    """Return the growth of a counter over some lifetimes; a series that appears in one has grown by its whole value."""
    return sum(_grown(target, series, life) for life in lifetimes)


def values_within(target: TargetHistory, series: str, life: Lifetime) -> Iterator[float]:
    """Yield a series' values in a lifetime, without scrapes that lack it."""
    for scrape in life.scrapes:
        if (value := target.value(series, scrape)) is not None:
            yield value


def _grown(target: TargetHistory, series: str, life: Lifetime) -> float:
    shown = list(values_within(target, series, life))
    if not shown:
        return 0.0
    came = life.from_zero or target.value(series, life.first) is None
    return shown[-1] - (0.0 if came else shown[0])


def _same(target: TargetHistory, before: int, after: int, marker: str) -> bool:
    born = [target.value(PROCESS_START, scrape) for scrape in (before, after)]
    if None not in born:
        return born[0] == born[1]
    if any(before < scrape <= after for scrape in target.process_changes):
        return False
    was, now = (target.value(marker, scrape) for scrape in (before, after))
    return was is None or now is None or now >= was


def _began_after(target: TargetHistory, scrape: int) -> bool:
    """Return whether a process started after the scrape before its first one; a counter that fell shows the same."""
    born = target.value(PROCESS_START, scrape)
    return born is None or born * 1e9 + _BORN_EARLY_NS > target.moments[scrape - 1].at
