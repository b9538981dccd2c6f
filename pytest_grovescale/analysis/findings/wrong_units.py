"""Durations in another unit than their name says.

Prometheus' base unit of time is the second (https://prometheus.io/docs/practices/naming/#base-units); a histogram of
``…_seconds`` that is observed in milliseconds makes each dashboard and alert wrong by a factor of a thousand, and all
its buckets but the last are empty.

No false alarm: what an operator measures in a run, about objects of that run, lasts no longer than the run; only a mean
that does counts, of three observations and more. Families of its libraries are left out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from ...exposition.families import LIBRARIES, parse
from ..result import Finding
from .observed import Observed

ID = "wrong-unit"

_LEAST = 3
_UNIT = "_seconds"


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
            totals[family][part] += (target.value(series, last) or 0.0) - (target.value(series, first) or 0.0)
    seconds = (target.moments[last].at - target.moments[first].at) / 1e9
    for family, grown in sorted(totals.items()):
        mean = grown["sum"] / grown["count"] if grown["count"] >= _LEAST else 0.0
        if mean > seconds:
            yield Finding(
                id=ID,
                severity="defect",
                text=f"{family} has a mean of {mean:,.0f} s over {grown['count']:,.0f} observations, in a run of"
                f" {seconds:,.0f} s: it is observed in another unit, perhaps milliseconds",
                check=f'histogram_buckets(family="{family}")',
            )
