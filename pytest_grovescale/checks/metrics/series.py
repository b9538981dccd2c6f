"""How many series an endpoint serves, and how many each further object brings."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

from ...analysis.metrics.history import ObjectsSeen, TargetHistory
from ...analysis.metrics.summary import series_by_family
from ...analysis.result import Severity, TestResult
from ...analysis.scaling import line
from ...errors import NotMeasuredError
from ...exposition.families import family_of, parse
from ..check import Outcome, at_most, first, not_negative
from ..run import Run
from .families import Problem, Served, chosen, fits, served, written
from .target import TargetCheck, unread

_REST_NS = 1_000_000_000
"""Time without a new object after which an operator serves the series of all."""

_LAGS_NS = (0, 500_000_000, 1_000_000_000, 2_000_000_000)
"""How far an operator's series may be behind the objects that bring them."""

NAMES = 3
"""Values of a label that are names of objects, from which on it is no coincidence."""


class Point(NamedTuple):
    """Scrapes at one number of objects; the operator may be a while behind them."""

    objects: int
    scrapes: tuple[int, ...]
    settled: bool
    """Whether no object had come for a while before one of them: what their series are, the operator serves by then."""


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
    """Series for each object: between scrapes at rest, where there are two; by all scrapes else."""
    straight: float
    """Share of the variation in its number of series that the line explains."""
    labels: tuple[GrownLabel, ...]
    """The one with most new values first."""
    of_each: int = 1
    """Series for each set of its labels' values: a histogram has one for each bucket, a sum and a count."""

    @property
    def of_objects(self) -> bool:
        return any(label.of_objects for label in self.labels)


def points_of(resource: str, objects: ObjectsSeen, target: TargetHistory, *, lag_ns: int = 0) -> list[Point]:
    """Return a target's scrapes by how many objects of a resource there had been, fewest first.

    ``lag_ns``: how long before each scrape they are counted.
    """
    by_count: dict[int, list[int]] = defaultdict(list)
    settled: set[int] = set()
    for scrape, moment in enumerate(target.moments):
        count = objects.count(resource, moment.at - lag_ns)
        by_count[count].append(scrape)
        if objects.count(resource, moment.at - _REST_NS) == objects.count(resource, moment.at):
            settled.add(count)
    return [Point(count, tuple(scrapes), count in settled) for count, scrapes in sorted(by_count.items())]


def growths(target: TargetHistory, families: Collection[str], resource: str, objects: ObjectsSeen) -> Iterator[Growth]:
    """Yield those of the families that have more series at more objects of a resource."""
    points, *later = (points_of(resource, objects, target, lag_ns=lag) for lag in _LAGS_NS)
    for family, counts in sorted(series_by_family(target).items()):
        if family not in families:
            continue
        fitted = _fit(_heights(counts, points))
        if fitted is None:
            continue
        at_rest = _fit(_heights(counts, [point for point in points if point.settled]))
        # Series that follow their objects after a while are as straight as those that come at once.
        others = (_fit(_heights(counts, shifted)) for shifted in later if len(shifted) >= SURE_COUNTS)
        straight = max([fitted.straight, *(one.straight for one in others if one is not None)])
        slope = (at_rest or fitted).slope
        if slope > 0:
            bounds = len(_values(family, target, points[-1].scrapes)["le"])
            labels = _grown_labels(family, target, points, objects)
            yield Growth(family, slope, straight, labels, bounds + 2 if bounds else 1)


def _heights(counts: Sequence[int], points: Sequence[Point]) -> list[tuple[int, int]]:
    """Return (objects, series) at each point: the most, since the operator catches up."""
    return [(point.objects, max(counts[scrape] for scrape in point.scrapes)) for point in points]


class _Fit(NamedTuple):
    slope: float
    straight: float


def _fit(heights: Sequence[tuple[int, int]]) -> _Fit | None:
    """Return the slope of series over objects, and the share of the variation that a line explains.

    None where there is one point, or nothing grew beyond the first.
    """
    if len(heights) < 2 or max(up for _, up in heights) <= heights[0][1]:
        return None
    (first, least), (last, most) = heights[0], heights[-1]
    if len(heights) == 2:
        return _Fit((most - least) / (last - first), 1.0)
    across, up = zip(*heights, strict=True)
    fitted = line(across, up, 0.05)
    middle = sum(up) / len(up)
    rest = sum((y - fitted.intercept - fitted.slope * x) ** 2 for x, y in heights)
    return _Fit(fitted.slope, 1 - rest / sum((y - middle) ** 2 for y in up))


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


LEAST_COUNTS = 3
"""Different numbers of objects that a line needs. That nothing grew, two show that are far enough apart."""

MOST_SETS = 1_000
"""Combinations of labels in one family; https://prometheus.io/docs/practices/naming/#labels warns of them, and
#do-not-overuse-labels of the instrumentation page wants fewer than ten for most."""

FAR_APART = 10
"""Objects."""

SURE_COUNTS = 5
"""From so many on, the shape of the line separates growth from series that came late."""

STRAIGHT = 0.9
"""Share of the differences that a straight line explains where series come with the objects."""


class _Positional(TargetCheck, frozen=True):
    max: int


class Series(_Positional, tag="series", frozen=True, kw_only=True):
    """Series that the endpoint serves at once, at most: buckets, sums and counts are series too."""

    one_scrape = "alone"

    family: str = ""
    """Name of a family, or a pattern with ``*`` (``grove_operator_*``; ``*``: all); empty: those that no library
    brought."""
    phase: str = ""
    """At this phase's end; empty: the most of all scrapes."""

    def validate(self) -> None:
        not_negative(self, max=self.max)

    def judge_target(self, run: Run) -> Outcome:
        target = run.metrics().target(self.target)
        surface = target.surface()
        names = {family.name for family in bounded(served(target.whole()), self.family)}
        every = series_by_family(target)
        counts = {name: of for name, of in every.items() if name in names}
        if not any(map(any, (counts if self.family else every).values())) and self.max > 0:
            raise none_served(target, self.family)
        totals = [sum(of[scrape] for of in counts.values()) for scrape in range(len(target.moments))]
        scrape = _end_of(self.phase, target) if self.phase else max(range(len(totals)), key=totals.__getitem__)
        there = bounded(served(target.surface(scrape)), self.family)
        return at_most(
            self.phase,
            f"series of {surface.target} {_where(self.family)}",
            totals[scrape],
            self.max,
            doubts=() if self.phase else unread(target),
            evidence=[
                target.when(scrape) + ("" if self.phase else f", the most of {len(totals)} scrapes"),
                *map(_made_of, _largest(there)),
            ],
        )


_LEAST_FRESH = 4
"""New values of a label from which on they may be without an end."""
_OF_EACH = 0.1
"""Series for each object from which on they are of the objects, although no label names one, all of a histogram's for a
label's value counted once."""


class SeriesGrowth(TargetCheck, tag="series_growth", frozen=True, kw_only=True):
    """How many series each further object brings: the slopes of all families that grow with the objects, added up.

    Families that a library brought do not count, unless ``family`` names one.
    """

    vs: Literal["objects"] = "objects"
    slope_max: float = 0.0
    """Series for each object, at most."""
    family: str = ""

    def validate(self) -> None:
        not_negative(self, slope_max=self.slope_max)

    def severity(self, run: Run) -> Severity | None:
        """Return ``note`` for a series of each of the user's own objects that goes with it: of those there are few.

        One of each object that is made for them, as of each pod, is one too many also while the object is there. Few
        series for many objects, none of which a label names, are a note, too: a label had another value meanwhile.
        """
        metrics = run.metrics()
        grown = self._growth(run).sure
        if all(not row.of_objects and row.slope / row.of_each < _OF_EACH for row in grown):
            return "note"
        counts = series_by_family(metrics.target(self.target))
        bounded_by_owners = all(
            counts[row.family][-1] <= counts[row.family][0]
            and not any(metrics.objects.owned(label.fresh) for label in row.labels)
            for row in grown
        )
        return "note" if bounded_by_owners else None

    def judge_target(self, run: Run) -> Outcome:
        resource, points, sure, others = self._growth(run)
        if not sure:
            _refuse_few(points, others, f"{self.target} was scraped at {_numbers(points)} {resource}")
        reported = sorted([*sure, *others], key=lambda row: row.family) if len(points) < SURE_COUNTS else sure
        # Those that name objects first: what others bring beside them is no reader's first concern.
        reported = sorted(reported, key=lambda row: not row.of_objects)
        late = ", ".join(row.family for row in others if row not in reported)
        return at_most(
            "",
            f"growth of {_family_of(sure)} in series per object ({resource})",
            sum(row.slope for row in sure),
            self.slope_max,
            doubts=[
                f"{row.family} has more series than before, at too few numbers of objects to say why"
                for row in reported
                if row in others
            ],
            evidence=[
                *first([text for row in reported for text in _growth_lines(row, resource)]),
                *([f"came late, and not with the objects: {late}; see preinitialized_series()"] * bool(late)),
                f"{_numbers(points)} {resource}",
            ],
        )

    def _growth(self, run: Run) -> _Grown:
        metrics = run.metrics()
        target = metrics.target(self.target)
        families = [family.name for family in chosen(target.whole(), self.family)]
        resource = _resource(run.test, metrics.objects, target)
        points = points_of(resource, metrics.objects, target)
        rows = list(growths(target, families, resource, metrics.objects))
        on_a_line = [row for row in rows if len(points) >= SURE_COUNTS and row.straight >= STRAIGHT and _is_open(row)]
        sure = [row for row in rows if row.of_objects or row in on_a_line]
        return _Grown(resource, points, sure, [row for row in rows if row not in sure])


class _Grown(NamedTuple):
    """The families of a target that have more series at more objects."""

    resource: str
    """Of the objects."""
    points: list[Point]
    sure: list[Growth]
    """Those that grow with the objects."""
    others: list[Growth]
    """Those that came late, or of which too little is known."""


def _is_open(row: Growth) -> bool:
    """Return whether a label has had values enough to be no short list, as of the kinds that a test makes in turn."""
    return any(len(label.fresh) >= _LEAST_FRESH for label in row.labels if label.label not in ("le", "quantile"))


def _family_of(rows: Sequence[Growth]) -> str:
    if not rows:
        return "all families"
    more = f" and {len(rows) - 1} more" if len(rows) > 1 else ""
    return f"{max(rows, key=lambda row: row.slope).family}{more}"


def problems(
    families: Sequence[Served], most: int | None, pattern: str = "", *, most_sets: int = MOST_SETS
) -> Iterator[Problem]:
    """Yield that there are more series than ``most`` in the families that count; None: no limit.

    And that one of the operator's own has more than ``most_sets`` combinations of labels, buckets among them; as a
    hint, that it may have, by all values of its labels.
    """
    counted = bounded(families, pattern)
    count = sum(len(family.series) for family in counted)
    if most is not None and count > most:
        where = "; ".join(_made_of(family) for family in _largest(counted, 3))
        yield Problem(
            family="",
            rule="series",
            says=f"{count:,} series {_where(pattern)}, at most {most:,} ({where})",
            fix="take labels away, or buckets, from the largest families",
        )
    for family in families:
        counts = {label: len(values) for label, values in family.labels().items()}
        may_be, series = math.prod(counts.values()), len(family.series)
        if family.of_library or max(may_be, series) <= most_sets:
            continue
        many = series > most_sets
        if many and (bounds := {one.labels["le"] for one in family.series if "le" in one.labels}):
            counts["le"] = len(bounds)
        sizes = " × ".join(f"{count} {label}" for label, count in counts.items())
        says = f"{series:,} combinations of labels: {sizes}"
        if not many:
            says = f"{series:,} series; its labels have up to {may_be:,} combinations: {sizes}"
        fix = "take away the label with the most values, or two that multiply"
        one = written(family.series[0])
        yield Problem(family=family.name, rule="series", says=says, series=one, fix=fix, hint=not many)


def bounded(families: Iterable[Served], pattern: str) -> list[Served]:
    """Return the families whose series a bound is for: those that match a pattern, without one all its own."""
    return [family for family in families if (fits(family.name, pattern) if pattern else not family.of_library)]


def none_served(target: TargetHistory, family: str) -> NotMeasuredError:
    """Return the error for a target that serves no series of a family, or none at all, with its families."""
    names = sorted(target.families)
    return NotMeasuredError(
        f"{target.target} serves no series{f' in {family}' if family else ''}",
        next_step=f"Its families are: {', '.join(names[:12])}{', …' if len(names) > 12 else ''}." if names else "",
    )


def _where(pattern: str) -> str:
    return f"in {pattern}" if pattern else "in its own families"


def _largest(families: Iterable[Served], top: int = 5) -> list[Served]:
    """Return the families with most series, most first."""
    there = [family for family in families if family.series]
    return sorted(there, key=lambda family: (-len(family.series), family.name))[:top]


def _made_of(family: Served) -> str:
    """Return what a family's series are made of: ``my_seconds: 312 series with 12 buckets, by verb (8), code (3)``."""
    values = {label: len(values) for label, values in family.labels().items()}
    buckets = len({series.labels.get("le", "") for series in family.series} - {""})
    parts = [f"{label} ({count})" for label, count in sorted(values.items(), key=lambda item: (-item[1], item[0]))]
    by = f", by {', '.join(parts)}" if parts else ""
    return f"{family.name}: {len(family.series):,} series{f' with {buckets} buckets' if buckets else ''}{by}"


def _end_of(phase: str, target: TargetHistory) -> int:
    for scrape in reversed(target.of_phase(phase)):
        if target.moments[scrape].edge == f"end:{phase}":
            return scrape
    raise NotMeasuredError(f"{target.target} was not scraped at the end of {phase!r}")


def _refuse_few(points: Sequence[Point], grown: Sequence[Growth], scraped: str) -> None:
    """Raise NotMeasuredError where there are too few different numbers of objects to see what grew."""
    flat = not grown and points[-1].objects - points[0].objects >= FAR_APART
    if len(points) < LEAST_COUNTS and not flat:
        grew = f"; more series between them had {', '.join(row.family for row in grown)}" if grown else ""
        raise NotMeasuredError(
            f"{scraped}, a line needs {LEAST_COUNTS} different numbers{grew}",
            next_step="Deploy in several steps, or scrape more often.",
        )


def _resource(test: TestResult, objects: ObjectsSeen, target: TargetHistory) -> str:
    """Return which objects are counted: those that the test's milestones count, or those that became most."""
    if test.objects_resource and objects.count(test.objects_resource, target.moments[-1].at):
        return test.objects_resource
    growing = objects.growing(target.moments[0].at)
    if not growing:
        raise NotMeasuredError(
            "no object came while the endpoint was scraped", next_step="Give a phase a milestone that counts objects."
        )
    return growing


def _growth_lines(row: Growth, resource: str) -> Iterator[str]:
    yield f"{row.family}: {row.slope:.3g} series per object ({resource})"
    most = max((len(label.fresh) for label in row.labels if label.of_objects), default=0)
    for label in row.labels:
        values = f"{len(label.fresh):,} new values, {label.before:,} at first: {', '.join(label.fresh[:3])}"
        fix = ""
        if label.of_objects:
            fix = "; they name objects: leave the label out where no reader needs each, else delete the series with it"
        elif most and len(label.fresh) > most:
            fix = "; more than there are objects: what comes and goes more often than these belongs in a log or a trace"
        yield f"    {label.label} has {values}{fix}"


def _numbers(points: Sequence[Point]) -> str:
    if len(points) > 6:
        return f"{points[0].objects:,} to {points[-1].objects:,} ({len(points)} different numbers of)"
    return ", ".join(f"{point.objects:,}" for point in points)
