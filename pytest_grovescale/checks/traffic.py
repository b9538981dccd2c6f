"""API requests of an identity in a phase, by verb and resource, as many or for each object."""

from __future__ import annotations

from collections import Counter

from ..analysis import figures
from ..analysis.result import ApiRow, PhaseResult, TestResult
from ..errors import NotMeasuredError
from .arguments import unknown
from .finding import Finding, at_most
from .own_count import by_own_count
from .phases import named, unfinished
from .resources import each, objects_of
from .shape import ApiRequests

ROWS_SHOWN = 10


def requests(check: ApiRequests, test: TestResult) -> Finding:
    """Judge requests of one verb and resource, or of all. Raises NotMeasuredError, also for an unknown resource."""
    phase = named(test, check.phase)
    asked = " ".join(part for part in (check.verb, check.resource) if part)
    what = f"{asked + ' ' if asked else ''}requests by {check.identity}{each(test, check.per_object)}"
    try:
        traffic = figures.api(phase, check.identity)
    except NotMeasuredError as error:
        verbs = {check.verb} if check.verb else figures.METHODS
        objects = objects_of(test, check.per_object)
        return by_own_count(
            phase, what, check.identity, verbs, check.max, lacking=error, per=objects, doubts=unfinished(phase)
        )
    _refuse_unknown(check, test)
    chosen = [row for row in traffic.rows if _meant(check, row)]
    return at_most(
        phase.name,
        what,
        sum(row.count for row in chosen) / objects_of(test, check.per_object),
        check.max,
        doubts=unfinished(phase),
        evidence=_largest(phase, chosen),
    )


def _meant(check: ApiRequests, row: ApiRow) -> bool:
    if check.verb and row.verb != check.verb:
        return False
    if check.resource:
        return row.resource == check.resource
    return row.category == "object" and not row.dry_run


def _refuse_unknown(check: ApiRequests, test: TestResult) -> None:
    """Raise for a resource that nobody asked for in the whole test: its name is wrong, and its silence no pass."""
    seen = sorted({row.resource for phase in test.phases for row in phase.api})
    if check.resource and check.resource not in seen:
        raise NotMeasuredError(f"in the whole recording there is {unknown('resource', check.resource, seen)}")


def _largest(phase: PhaseResult, rows: list[ApiRow]) -> tuple[str, ...]:
    made: Counter[str] = Counter()
    for row in rows:
        made[f"{row.verb} {row.resource}, {row.code}"] += row.count
    return tuple(f"{phase.name}: {n:,} × {what}" for what, n in made.most_common(ROWS_SHOWN))
