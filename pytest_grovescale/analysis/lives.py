"""Process lifetimes of a target, from its scrapes: a counter's growth is computed within each, never across.

A restarted process begins at zero, and another replica that takes over has its own counts. Counts after the last scrape
of a process are lost, so that growth over several lifetimes is a lower bound.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from .metrics.counters import PROCESS_START
from .metrics.history import TargetHistory

_BORN_EARLY_NS = 1_000_000_000
"""A process's start time may be up to a second early: it counts from the machine's boot, which is known to the second
(``btime`` in /proc/stat, proc(5))."""


class Life(NamedTuple):
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


def lives(target: TargetHistory, scrapes: Sequence[int], marker: str = PROCESS_START) -> list[Life]:
    """Return the lifetimes in some consecutive scrapes of a target, in order.

    Separated by the process's start time; for a process that does not serve it, by a reset of the counter ``marker``.
    """
    found: list[list[int]] = []
    for scrape in scrapes:
        if found and _same(target, found[-1][-1], scrape, marker):
            found[-1].append(scrape)
        else:
            found.append([scrape])
    return [Life(tuple(life), index > 0 and _began_after(target, life[0])) for index, life in enumerate(found)]


def grown(target: TargetHistory, series: str, found: Sequence[Life]) -> float:
    """Return the growth of a counter over some lifetimes; a series that appears in one has grown by its whole value."""
    return sum(_grown(target, series, life) for life in found)


def values(target: TargetHistory, series: str, life: Life) -> Iterator[float]:
    """Yield a series' values in a lifetime, without scrapes that lack it."""
    for scrape in life.scrapes:
        if (value := target.value(series, scrape)) is not None:
            yield value


def _grown(target: TargetHistory, series: str, life: Life) -> float:
    shown = list(values(target, series, life))
    if not shown:
        return 0.0
    came = life.from_zero or target.value(series, life.first) is None
    return shown[-1] - (0.0 if came else shown[0])


def _same(target: TargetHistory, before: int, after: int, marker: str) -> bool:
    born = [target.value(PROCESS_START, scrape) for scrape in (before, after)]
    if None not in born:
        return born[0] == born[1]
    was, now = (target.value(marker, scrape) for scrape in (before, after))
    return was is None or now is None or now >= was


def _began_after(target: TargetHistory, scrape: int) -> bool:
    """Return whether a process started after the scrape before its first one; a counter that fell shows the same."""
    born = target.value(PROCESS_START, scrape)
    return born is None or born * 1e9 + _BORN_EARLY_NS > target.moments[scrape - 1].at
