"""Series that are there from the first scrape on. A rate over one that comes late misses its first increase."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from ...analysis.metrics.history import MetricsHistory, TargetHistory
from ...errors import NotMeasuredError
from ...exposition.series import family_of, parse, text
from ..arguments import unknown
from ..finding import Finding, at_most
from ..lint.served import RESERVED, fits
from .evidence import first
from .shape import Initialised


def judge(check: Initialised, metrics: MetricsHistory) -> Finding:
    """Judge whether all series that a run showed of these families were there at every scrape, the first included.

    A family that was never there was not initialised either: that is what it looks like where nothing ever failed.
    """
    target = metrics.target(check.target)
    target.surface()
    by_family = _label_sets(target, check.families)
    late = [line for family in check.families for line in _late(family, by_family, target)]
    if not late and len(target.moments) < 2:
        raise NotMeasuredError(f"{target.target} was scraped only once: what comes later was not seen")
    return at_most(
        "",
        f"label sets of {', '.join(check.families)} that were not there from the first scrape on",
        len(late),
        0,
        evidence=first(late) if late else _found(by_family),
    )


def _label_sets(target: TargetHistory, patterns: list[str]) -> dict[str, dict[str, list[str]]]:
    """Return family → label set as text → its series: a histogram's buckets, sum and count are one label set."""
    found: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for series in target.series:
        parts = parse(series)
        family = family_of(parts.name, target.families)
        if any(fits(family, pattern) for pattern in patterns):
            reserved = RESERVED.get(target.families[family].type) if family in target.families else None
            labels = {label: value for label, value in parts.labels.items() if label != reserved}
            found[family][text(family, labels)].append(series)
    return found


def _late(pattern: str, by_family: dict[str, dict[str, list[str]]], target: TargetHistory) -> Iterator[str]:
    families = [family for family in sorted(by_family) if fits(family, pattern)]
    if not families:
        yield _never(pattern, target)
    for family in families:
        for name, series in by_family[family].items():
            yield from _of_label_set(name, series, target)


def _of_label_set(name: str, series: list[str], target: TargetHistory) -> Iterator[str]:
    there = [all(value is not None for value in at) for at in zip(*map(target.values, series), strict=True)]
    if all(there):
        return
    if not there[0]:
        came = target.when(there.index(True)) if any(there) else "in parts only"
        yield f"{name} came {came}; set it to 0 when the program starts"
    else:
        yield f"{name} was not there {target.when(there.index(False))}, though it had been before"


def _never(pattern: str, target: TargetHistory) -> str:
    if pattern in target.families:
        return f"{pattern} has no series, only a TYPE line; give it all its label sets when the program starts"
    near = unknown("family", pattern, sorted(target.families)).partition("there are:")[0].rstrip("; ")
    return f"{pattern} was never served: {near}"


def _found(by_family: dict[str, dict[str, list[str]]]) -> list[str]:
    return [f"{family}: {len(sets)} label sets" for family, sets in sorted(by_family.items())]
