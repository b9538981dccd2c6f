"""What the operator holds on to when all objects of the workload are gone: series, descriptors, threads, goroutines.

An operator runs for months. What grows with each object that ever existed ends in a Prometheus without memory, or in
an operator that is killed for its own.

No false alarm: a series counts when a label's value is the name or UID of an object that is gone; descriptors and
threads count from a growth on that no pool of connections explains, and only in proportion to the objects.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from ...exposition.families import LIBRARIES, family_of, parse
from ..metrics.history import TargetHistory
from ..result import Finding
from .observed import Observed

ID = "initial-state"

_PROCESS = {
    "process_open_fds": "open files",
    "go_goroutines": "goroutines",
    "go_threads": "threads",
    "process_threads": "threads",
    "python_threads": "threads",
}
_POOL = 128
"""Growth that pools of connections and workers may have, at any size."""

_PER_OBJECT = 0.5

_SHOWN = 3


def findings(seen: Observed) -> Iterator[Finding]:
    """Yield a finding for each family with series of objects that are gone, and each count that stays up."""
    target, after = seen.target, seen.settled_scrape
    if seen.settled and target is not None and after is not None:
        yield from _series(seen, target, after)
        yield from _process(seen, target, after)


def _series(seen: Observed, target: TargetHistory, after: int) -> Iterator[Finding]:
    gone: set[str] = set()
    there: set[str] = set()
    for lives in seen.lives.values():
        for life in lives:
            (there if life.exists(seen.end) else gone).update((life.name, life.uid))
    gone -= there
    found: dict[str, list[str]] = defaultdict(list)
    for series in target.samples(after):
        parts = parse(series)
        if not parts.name.startswith(LIBRARIES) and any(value in gone for value in parts.labels.values() if value):
            found[family_of(parts.name, target.families)].append(series)
    for family, left in sorted(found.items()):
        yield Finding(
            id=ID,
            severity="defect" if len(left) > 1 else "waste",
            text=f"{len(left):,} series of {family} name objects that are gone",
            evidence=tuple(sorted(left)[:_SHOWN]),
            check=f'series_growth(family="{family}")',
        )


def _process(seen: Observed, target: TargetHistory, after: int) -> Iterator[Finding]:
    before = seen.first_scrape
    if before is None:
        return
    for series, what in _PROCESS.items():
        was, now = target.value(series, before), target.value(series, after)
        if was is None or now is None or now - was < max(_POOL, _PER_OBJECT * seen.objects):
            continue
        yield Finding(
            id=ID,
            severity="defect",
            text=f"{what} grew from {was:,.0f} to {now:,.0f} and stayed after the workload was deleted",
            evidence=(f"{series}, for {seen.objects:,} objects",),
        )
