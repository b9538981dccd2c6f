"""Series against objects: which families grow with the number of objects, and by which labels.

Series are compared with the objects that had been seen by the time of the scrape. A single late series, such as a
label's value that occurs for the first time, is not growth: it does not continue with the objects.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from ...exposition.families import family_of, parse
from ..statistics.slope import line
from .history import ObjectsSeen, TargetHistory
from .summary import series_by_family

NAMES = 3
"""Values of a label that are names of objects, from which on it is no coincidence."""


class Point(NamedTuple):
    """Scrapes at one number of objects; the operator may be a while behind them."""

    objects: int
    scrapes: tuple[int, ...]


class GrownLabel(NamedTuple):
    """A label that gained values while objects were created."""

    label: str
    before: int
    """Number of its values at first."""
    fresh: list[str]
    of_objects: bool
    """Whether the new ones are names of objects."""


class Growth(NamedTuple):
    """A family's number of series as a function of the number of objects."""

    family: str
    slope: float
    """Series for each object."""
    straight: float
    """Share of the variation in its number of series that the line explains."""
    labels: tuple[GrownLabel, ...]
    """The one with most new values first."""

    @property
    def of_objects(self) -> bool:
        return any(label.of_objects for label in self.labels)


def points_of(resource: str, objects: ObjectsSeen, target: TargetHistory) -> list[Point]:
    """Return a target's scrapes by how many objects of a resource there had been, fewest first."""
    by_count: dict[int, list[int]] = defaultdict(list)
    for scrape, moment in enumerate(target.moments):
        by_count[objects.count(resource, moment.at)].append(scrape)
    return [Point(count, tuple(scrapes)) for count, scrapes in sorted(by_count.items())]


def growths(
    target: TargetHistory, families: Collection[str], points: Sequence[Point], objects: ObjectsSeen
) -> Iterator[Growth]:
    """Yield those of the families that have more series at more objects."""
    for family, counts in sorted(series_by_family(target).items()):
        if family not in families:
            continue
        heights = [max(counts[scrape] for scrape in point.scrapes) for point in points]
        if max(heights) > heights[0]:
            slope, straight = _fit([point.objects for point in points], heights)
            if slope > 0:
                yield Growth(family, slope, straight, _grown_labels(family, target, points, objects))


def _fit(across: Sequence[int], up: Sequence[int]) -> tuple[float, float]:
    """Return the slope of series over objects, and the share of the variation that a line explains."""
    if len(across) == 2:
        return (up[-1] - up[0]) / (across[-1] - across[0]), 1.0
    fitted = line(across, up, 0.05)
    middle = sum(up) / len(up)
    rest = sum((y - fitted.intercept - fitted.slope * x) ** 2 for x, y in zip(across, up, strict=True))
    return fitted.slope, 1 - rest / sum((y - middle) ** 2 for y in up)


def _grown_labels(
    family: str, target: TargetHistory, points: Sequence[Point], objects: ObjectsSeen
) -> tuple[GrownLabel, ...]:
    before, after = (_values(family, target, point.scrapes) for point in (points[0], points[-1]))
    labels = []
    for label, values in after.items():
        fresh = sorted(values - before[label])
        labels.append(GrownLabel(label, len(before[label]), fresh, len(objects.named(fresh)) >= NAMES))
    return tuple(sorted((label for label in labels if label.fresh), key=lambda label: -len(label.fresh)))


def _values(family: str, target: TargetHistory, scrapes: Iterable[int]) -> defaultdict[str, set[str]]:
    """Return label → its values in any of the scrapes."""
    by_label: defaultdict[str, set[str]] = defaultdict(set)
    for series in target.series:
        parts = parse(series)
        if family_of(parts.name, target.families) != family:
            continue
        if any(target.value(series, scrape) is not None for scrape in scrapes):
            for label, value in parts.labels.items():
                by_label[label].add(value)
    return by_label
