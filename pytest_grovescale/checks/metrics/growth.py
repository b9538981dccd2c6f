"""How many series each further object brings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...analysis.metrics.growth import Growth, Point, growths, points_of
from ...analysis.metrics.history import MetricsHistory, TargetHistory
from ...analysis.metrics.objects import ObjectsSeen
from ...analysis.result import TestResult
from ...errors import NotMeasuredError
from ..finding import Finding, at_most
from ..lint.served import served
from .evidence import first
from .shape import SeriesGrowth

LEAST_COUNTS = 3
"""Different numbers of objects that a line needs. That nothing grew, two tell that are far enough apart."""

FAR_APART = 10
"""Objects."""

SURE_COUNTS = 5
"""From so many on, the shape of the line tells growth from series that came late."""

STRAIGHT = 0.9
"""Share of the differences that a straight line explains where series come with the objects."""


def judge(check: SeriesGrowth, test: TestResult, metrics: MetricsHistory) -> Finding:
    """Judge series per object: the slopes of all families that grow with the objects, added up.

    Families that a library brought are let off, except where ``family`` names one.
    """
    target = metrics.target(check.target)
    families = [one.name for one in served(target.whole(), pattern=check.family) if check.family or not one.of_library]
    resource = _resource(test, metrics.objects, target)
    points = points_of(resource, metrics.objects, target)
    rows = list(growths(target, families, points, metrics.objects))
    sure = [row for row in rows if row.of_objects or (len(points) >= SURE_COUNTS and row.straight >= STRAIGHT)]
    others = [row for row in rows if row not in sure]
    if not sure:
        _refuse_few(points, others, f"{target.target} was scraped at {_numbers(points)} {resource}")
    told = rows if len(points) < SURE_COUNTS else sure
    return at_most(
        "",
        f"series for each of the {resource}",
        sum(row.slope for row in sure),
        check.slope_max,
        doubts=[_doubt(row) for row in told if row in others],
        evidence=[
            *first([text for row in told for text in _in_words(row, resource)]),
            *_late([row for row in others if row not in told]),
            f"{_numbers(points)} {resource}",
        ],
    )


def _refuse_few(points: Sequence[Point], grown: Sequence[Growth], scraped: str) -> None:
    """Raise NotMeasuredError where too few different numbers of objects tell anything of what grew, or did not."""
    flat = not grown and points[-1].objects - points[0].objects >= FAR_APART
    if len(points) < LEAST_COUNTS and not flat:
        grew = f"; more series between them had {', '.join(row.family for row in grown)}" if grown else ""
        raise NotMeasuredError(
            f"{scraped}, a line needs {LEAST_COUNTS} different numbers{grew}",
            next_step="Deploy in several steps, or scrape more often.",
        )


def _resource(test: TestResult, objects: ObjectsSeen, target: TargetHistory) -> str:
    """Return whose number is meant: the objects that the test's milestones count, or those that became most."""
    if test.objects_resource and objects.count(test.objects_resource, target.moments[-1].at):
        return test.objects_resource
    growing = objects.growing(target.moments[0].at)
    if not growing:
        raise NotMeasuredError(
            "no object came while the endpoint was scraped", next_step="Give a phase a milestone that counts objects."
        )
    return growing


def _in_words(row: Growth, resource: str) -> Iterator[str]:
    yield f"{row.family}: {row.slope:.3g} series for each of the {resource}"
    for label in row.labels:
        values = f"{len(label.fresh):,} new values, {label.before:,} at first: {', '.join(label.fresh[:3])}"
        fix = "; they name objects: take the label away" if label.of_objects else ""
        yield f"    {label.label} has {values}{fix}"


def _doubt(row: Growth) -> str:
    return f"{row.family} has more series than before, at too few numbers of objects to say why"


def _late(rows: Sequence[Growth]) -> list[str]:
    names = [row.family for row in rows]
    return [f"came late, and not with the objects: {', '.join(names)}; see initialised()"] if names else []


def _numbers(points: Sequence[Point]) -> str:
    if len(points) > 6:
        return f"{points[0].objects:,} to {points[-1].objects:,} ({len(points)} different numbers of)"
    return ", ".join(f"{point.objects:,}" for point in points)
