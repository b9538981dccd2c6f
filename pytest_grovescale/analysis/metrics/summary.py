"""Summary of each endpoint in a run: number of series and families, and its scrape success."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import accumulate, pairwise

from ...exposition.families import LIBRARIES, family_of, parse
from ..result import OPERATOR, FamilySummary, RetypedFamily, TargetSummary
from ..statistics.quantile import quantile
from .history import MetricsHistory, TargetHistory, TypeChange

MAX_OWN = 40
"""Own families that a summary lists for one target; it has the total number of them, too."""


_FIGURES = ("gauge", "counter", "unknown", "untyped")
"""Types of families whose series are single figures."""

MAX_RETYPED = 20
"""Changes of families' types that a summary lists for one target; it has the total number of them, too."""


def summaries(history: MetricsHistory) -> tuple[TargetSummary, ...]:
    """Return the summary of every target, the operator's first."""
    order = sorted(history.targets, key=lambda name: (name != OPERATOR, name))
    return tuple(summary(history.targets[name]) for name in order)


def summary(target: TargetHistory) -> TargetSummary:
    """Return the summary of one target: what it served, and its scrape success."""
    by_family = series_by_family(target)
    served = [sum(counts) for counts in zip(*by_family.values(), strict=True)] or [0] * len(target.moments)
    took = sorted(moment.took_ns for moment in target.moments)
    own = _own(target, by_family)
    return TargetSummary(
        target=target.target,
        scrapes=len(target.moments),
        failures=len(target.failures),
        failure=target.failures[-1][1] if target.failures else "",
        refused=tuple(target.refused),
        up_share=_up_share(target),
        series_first=served[0] if served else None,
        series_last=served[-1] if served else None,
        series_peak=max(served, default=None),
        families=sum(counts[-1] > 0 for counts in by_family.values()),
        own=tuple(own[:MAX_OWN]),
        own_families=len(own),
        retyped=tuple(retyped(target, change) for change in target.type_changes[:MAX_RETYPED]),
        type_changes=len(target.type_changes),
        took_p50_ms=quantile(took, 0.50) / 1e6 if took else None,
        took_p99_ms=quantile(took, 0.99) / 1e6 if took else None,
    )


def retyped(target: TargetHistory, change: TypeChange) -> RetypedFamily:
    """Return a change of type with its time in words."""
    return RetypedFamily(
        family=change.family, before=change.before, after=change.after, when=target.when(change.scrape)
    )


def series_by_family(target: TargetHistory) -> dict[str, list[int]]:
    """Return family → how many series it had at each scrape. A family without a TYPE line is its series' name."""
    changes: dict[str, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    family_of_name: dict[str, str] = {}
    for series in target.series:
        name = parse(series).name
        if name not in family_of_name:
            family_of_name[name] = family_of(name, target.families)
        for scrape, change in target.comings(series):
            changes[family_of_name[name]][scrape] += change
    scrapes = range(len(target.moments))
    return {
        family: list(accumulate(of_family.get(scrape, 0) for scrape in scrapes))
        for family, of_family in changes.items()
    }


def _own(target: TargetHistory, by_family: Mapping[str, list[int]]) -> list[FamilySummary]:
    """Return the families that no library defines, the one with most series first."""
    values = _values(target)
    own = [
        FamilySummary(
            family=family,
            type=target.families[family].type if family in target.families else "unknown",
            series_first=counts[0],
            series_last=counts[-1],
            series_peak=max(counts),
            **values.get(family, {}),
        )
        for family, counts in by_family.items()
        if not family.startswith(LIBRARIES)
    ]
    return sorted(own, key=lambda family: (-family.series_peak, family.family))


def _values(target: TargetHistory) -> dict[str, dict[str, float]]:
    """Return family → first, last and largest sum of its series, of own families whose series are single figures."""
    sums: dict[str, dict[int, float]] = defaultdict(dict)
    for series in target.series:
        name = parse(series).name
        family = family_of(name, target.families)
        described = target.families.get(family)
        if family.startswith(LIBRARIES) or (described is not None and described.type not in _FIGURES):
            continue
        for scrape, value in enumerate(target.values(series)):
            if value is not None and math.isfinite(value):
                sums[family][scrape] = sums[family].get(scrape, 0.0) + value
    return {
        family: {
            "value_first": served[min(served)],
            "value_last": served[max(served)],
            "value_max": max(served.values()),
        }
        for family, served in sums.items()
    }


def _up_share(target: TargetHistory) -> float:
    """Return the share of time that was up: from each scrape to the next, the result of the first of them.

    So a failure counts for as long as it lasted, however often the recording has it.
    """
    attempts = sorted(_attempts(target))
    if not attempts:
        return 0.0
    lasted = attempts[-1][0] - attempts[0][0]
    if not lasted:
        return float(attempts[-1][1])
    return sum(after - before for (before, up), (after, _) in pairwise(attempts) if up) / lasted


def _attempts(target: TargetHistory) -> Iterator[tuple[int, bool]]:
    yield from ((moment.at, True) for moment in target.moments)
    yield from ((at, False) for at, _ in target.failures)
