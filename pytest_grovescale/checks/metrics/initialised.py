"""Series that are there from the first scrape on. A rate over one that comes late misses its first increase.

Those that count have to be 0 there, too, as long as nothing can have been counted: until the operator has taken up
work, by its own count of it. What had counted before anybody looked may have begun with 0 or come with its first count:
that is left open.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ...analysis.metrics.counters import counts
from ...analysis.metrics.history import MetricsHistory, TargetHistory
from ...analysis.metrics.rest import has_worked
from ...errors import NotMeasuredError
from ...exposition.series import family_of, parse, text
from ..arguments import unknown
from ..finding import Finding, at_most
from ..lint.served import RESERVED, fits
from .evidence import first
from .shape import Initialised

_TO_DO = "set it to 0 when the program starts"


class _LabelSet(NamedTuple):
    """One label set of a family; a histogram's buckets, sum and count are one."""

    labels: Mapping[str, str]
    series: list[str]


def judge(check: Initialised, metrics: MetricsHistory) -> Finding:
    """Judge whether all series that were declared, or shown by the run, were there at every scrape from the first on.

    A family that was never there was not initialised either: that is what it looks like where nothing ever failed.
    """
    target = metrics.target(check.target)
    target.surface()
    by_family = _label_sets(target, check.families)
    found = [line for family in check.families for line in _missing(family, check.labels, by_family, target)]
    counted = _counted(by_family, target)
    worked = has_worked(target, 0)
    if worked is False:
        found += [f"{name} began with {value:g}, before anything was reconciled; {_TO_DO}" for name, value in counted]
    if not found and len(target.moments) < 2:
        raise NotMeasuredError(f"{target.target} was scraped only once: what comes later was not seen")
    doubts = [] if worked is False else _doubts([name for name, _ in counted])
    return at_most(
        "",
        f"label sets of {', '.join(check.families)} that were not there, with 0, from the first scrape on",
        len(found),
        0,
        doubts=doubts,
        evidence=first(found) if found else _found(by_family),
    )


def _label_sets(target: TargetHistory, patterns: list[str]) -> dict[str, dict[str, _LabelSet]]:
    """Return family → label set as text → its series."""
    found: dict[str, dict[str, _LabelSet]] = defaultdict(dict)
    for series in target.series:
        parts = parse(series)
        family = family_of(parts.name, target.families)
        if any(fits(family, pattern) for pattern in patterns):
            reserved = RESERVED.get(target.families[family].type) if family in target.families else None
            labels = {label: value for label, value in parts.labels.items() if label != reserved}
            found[family].setdefault(text(family, labels), _LabelSet(labels, [])).series.append(series)
    return found


def _missing(
    pattern: str, demanded: Mapping[str, list[str]], by_family: dict[str, dict[str, _LabelSet]], target: TargetHistory
) -> Iterator[str]:
    """Yield each label set that came late, went, or never came though it was declared."""
    families = [family for family in sorted(by_family) if fits(family, pattern)]
    if not families:
        yield _never(pattern, target)
    for family in families:
        for name, label_set in by_family[family].items():
            yield from _of_label_set(name, label_set.series, target)
        yield from _undelivered(family, demanded, by_family[family])


def _of_label_set(name: str, series: list[str], target: TargetHistory) -> Iterator[str]:
    there = [all(value is not None for value in at) for at in zip(*map(target.values, series), strict=True)]
    if all(there):
        return
    if not there[0]:
        came = target.when(there.index(True)) if any(there) else "in parts only"
        yield f"{name} came {came}; {_TO_DO}"
    else:
        yield f"{name} was not there {target.when(there.index(False))}, though it had been before"


def _undelivered(family: str, demanded: Mapping[str, list[str]], served: Mapping[str, _LabelSet]) -> Iterator[str]:
    """Yield the combinations of declared values that no label set has; it may have other labels beside them."""
    if not demanded:
        return
    there = {tuple(one.labels.get(label) for label in demanded) for one in served.values()}
    for values in itertools.product(*demanded.values()):
        if values not in there:
            yield f"{text(family, dict(zip(demanded, values, strict=True)))} was never served; {_TO_DO}"


def _never(pattern: str, target: TargetHistory) -> str:
    if pattern in target.families:
        return f"{pattern} has no series, only a TYPE line; give it all its label sets when the program starts"
    near = unknown("family", pattern, sorted(target.families)).partition("there are:")[0].rstrip("; ")
    return f"{pattern} was never served: {near}"


def _counted(by_family: dict[str, dict[str, _LabelSet]], target: TargetHistory) -> list[tuple[str, float]]:
    """Return the label sets that count and were not at 0 when they were first seen, each with what it showed."""
    found = []
    for label_sets in by_family.values():
        for name, label_set in label_sets.items():
            counting = [series for series in label_set.series if counts(parse(series).name, target.families)]
            values = [value for series in counting if (value := target.value(series, 0))]
            if values:
                found.append((name, values[0]))
    return found


def _doubts(counted: list[str]) -> list[str]:
    if not counted:
        return []
    more = f" and {len(counted) - 1} more" if len(counted) > 1 else ""
    return [f"{counted[0]}{more} had counted before the first scrape: whether it began with 0 was not seen"]


def _found(by_family: dict[str, dict[str, _LabelSet]]) -> list[str]:
    return [f"{family}: {len(sets)} label sets" for family, sets in sorted(by_family.items())]
