"""Durations in another unit than their name says.

Prometheus' base unit of time is the second (https://prometheus.io/docs/practices/naming/#base-units); a histogram of
``…_seconds`` that is observed in milliseconds makes each dashboard and alert wrong by a factor of a thousand, and all
its buckets but the last are empty.

No false alarm: what an operator measures in a run, about objects of that run, lasts no longer than the run; only a mean
that does counts, of three observations and more. Families of its libraries are left out. A sum counts from ten times
the run and all reconciles by controller-runtime's own count on, where the name does not speak of waiting; without that
count, of reconciles, from twice on what they would take if each object had one under way all the time.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

from ...exposition.families import LIBRARIES, parse
from ..metrics.history import TargetHistory
from ..result import Finding
from .observed import Observed

ID = "wrong-unit"

_LEAST = 3
_UNIT = "_seconds"
_RECONCILES = "controller_runtime_reconcile_time_seconds_sum"
_MANY = 20
_TIMES = 10
"""Times all reconciles, and the run, from which on a sum of durations is not of what reconciles did."""
_AT_ONCE = 2
"""Reconciles under way for each object, on average over a run, that there cannot be: of one there is one at a time."""
_OF_RECONCILES = re.compile(r"reconcil|_sync_|_handler_")
_WAITS = re.compile(
    r"wait|queue|ready|age|pending|latency|lag|delay|since|until|life|sched|start|avail|converge|total_time"
)
"""Parts of names of times that objects wait for something, each of many at once."""


def findings(seen: Observed) -> Iterator[Finding]:
    """Yield a finding for each family of durations whose mean is longer than the run."""
    target, first = seen.target, seen.first_scrape
    if target is None or first is None:
        return
    last = len(target.moments) - 1
    totals: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for series in target.series:
        family, _, part = parse(series).name.rpartition("_")
        if part in ("sum", "count") and family.endswith(_UNIT) and not family.startswith(LIBRARIES):
            totals[family][part] += target.grown(series, first, last)
    seconds = (target.moments[last].at - target.moments[first].at) / 1e9
    reconciled = _reconciled_s(target, first, last)
    at_once = _AT_ONCE * sum(len(seen.lives.get(resource, ())) for resource in seen.status_written)

    def too_much(family: str, number: float, total: float) -> str:
        """Return what a sum of durations is too large for; empty: nothing."""
        if number < _MANY:
            return ""
        if reconciled:
            waits = _WAITS.search(family) is not None
            too_large = not waits and total > _TIMES * max(reconciled, seconds)
            return f"and all reconciles took {reconciled:,.3g} s" if too_large else ""
        # Without a status that it writes, nothing says of how many objects these reconciles are.
        too_large = at_once > 0 and _OF_RECONCILES.search(family) is not None and total > at_once * seconds
        return f"as if {total / seconds:,.0f} reconciles were under way all the time" if too_large else ""

    for family, grown in sorted(totals.items()):
        number, total = grown["count"], grown["sum"]
        if number < _LEAST:
            continue
        mean = total / number
        if mean > seconds:
            yield Finding(
                id=ID,
                severity="defect",
                text=f"{family} has a mean of {mean:,.0f} s over {number:,.0f} observations, in a run of"
                f" {seconds:,.0f} s: it is observed in another unit, perhaps milliseconds",
                check=f'histogram_buckets(family="{family}")',
            )
        elif against := too_much(family, number, total):
            yield Finding(
                id=ID,
                severity="defect",
                text=f"{family} sums to {total:,.0f} s in a run of {seconds:,.0f} s, {against}: it is observed in"
                " another unit, perhaps milliseconds",
                evidence=(f"{number:,.0f} observations, {mean:,.3g} s each",),
                check=f'histogram_buckets(family="{family}")',
            )


def _reconciled_s(target: TargetHistory, first: int, last: int) -> float:
    """Return how long all reconciles took between two scrapes, s; 0 where that is not served."""
    return sum(target.grown(one, first, last) for one in target.series if parse(one).name == _RECONCILES)
