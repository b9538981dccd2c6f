"""No-op writes and reads: what a reconcile that finds nothing to do asks of the API server.

"No writes" is proved by more than silence: an audit log without a hole, that knows the identity; the trigger's own
write in it; and a reconcile since. Without one of them the verdict is inconclusive, never a pass. On a cluster without
an audit log the operator's own count of its requests can prove that there were none; see `own_count`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from ..analysis import figures
from ..analysis.api import OBJECT_WRITES, READS
from ..analysis.result import PhaseResult, TestResult
from ..errors import NotMeasuredError
from .finding import Finding, at_most
from .own_count import by_own_count
from .phases import steady, unfinished
from .reconciles import by_controller
from .shape import NoopReads, NoopWrites

ROWS_SHOWN = 10
"""Rows of evidence: the largest ones."""


def writes(check: NoopWrites, test: TestResult) -> Finding:
    """Judge object writes in a steady-state phase, refused ones included."""
    phase = steady(test, check.phase)
    what = f"object writes by {check.identity}"
    try:
        traffic = figures.api(phase, check.identity)
    except NotMeasuredError as error:
        return by_own_count(phase, what, check.identity, OBJECT_WRITES, check.max, lacking=error, doubts=_doubts(phase))
    return at_most(
        phase.name,
        what,
        traffic.object_writes,
        check.max,
        doubts=_doubts(phase),
        evidence=[*rows_of(traffic, OBJECT_WRITES), *_written(phase, check.identity), *by_controller(phase)],
    )


def reads(check: NoopReads, test: TestResult) -> Finding:
    """Judge object reads in a steady-state phase."""
    phase = steady(test, check.phase)
    what = f"object reads by {check.identity}"
    try:
        traffic = figures.api(phase, check.identity)
    except NotMeasuredError as error:
        return by_own_count(phase, what, check.identity, READS, check.max, lacking=error, doubts=_doubts(phase))
    return at_most(
        phase.name,
        what,
        traffic.object_reads,
        check.max,
        doubts=_doubts(phase),
        evidence=[*rows_of(traffic, READS), *by_controller(phase)],
    )


def rows_of(traffic: figures.ApiFigures, verbs: Iterable[str]) -> list[str]:
    """Return the requests for objects by verb and resource, most first: ``500 × patch podcliques.grove.io``."""
    made: Counter[str] = Counter()
    for row in traffic.rows:
        if row.verb in verbs and row.category == "object" and not row.dry_run:
            made[f"{row.verb} {row.resource}"] += row.count
    return [f"{n:,} × {what}" for what, n in made.most_common(ROWS_SHOWN)]


def _doubts(phase: PhaseResult) -> list[str]:
    return [*figures.trigger_doubts(phase), *unfinished(phase)]


def _written(phase: PhaseResult, identity: str) -> list[str]:
    if identity != "operator":
        return []
    return [f"wrote {ref.resource} {'/'.join(filter(None, (ref.namespace, ref.name)))}" for ref in phase.written]
