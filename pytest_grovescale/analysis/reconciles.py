"""Reconciles by controller and result in a phase, and other counters scraped at its edges."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator

import msgspec

from ..recording.records import ReconcileCounter
from .controller_result import ReconcileRow
from .reconcile_counters import RECONCILES, Counted, counted_by
from .recording_index import Contents, PhaseSpan, Snapshot
from .result import NO_OPERATOR, OPERATOR

_NO_COUNTER = (
    f"the operator's metrics have no {RECONCILES}, and no other counter of reconciles that is known; one of its own is"
    " named in its definition: reconciles: {counter: …}"
)

_NOT_ALPHANUMERIC = re.compile(r"[^a-z0-9]")
_SUFFIX = re.compile(r"(?<=.)(controller|reconciler)$")


def reconciles_of_phase(contents: Contents, phase: PhaseSpan) -> tuple[tuple[ReconcileRow, ...], str]:
    """Return reconciles between the operator's scrapes at the phase's edges, or nothing and why not.

    By the counter that the operator's definition names, or the best of `reconcile_counters`.
    """
    start, end = phase.scrape_start.get(OPERATOR), phase.scrape_end.get(OPERATOR)
    if start is None or end is None:
        return (), why_not_scraped(contents, phase, OPERATOR, start, end)
    restarted = _restarted(contents, phase, start, end)
    declared = contents.opened.reconciles
    rows = _rows(start, end, declared, restarted=restarted)
    if not rows:
        return (), f"the operator's metrics have no {declared.counter}" if declared else _NO_COUNTER
    until = contents.end_of(phase)
    objects = {name: objects_of(contents, name, phase.start, until) for name in {row.controller for row in rows}}
    rows = [msgspec.structs.replace(row, objects=objects[row.controller]) for row in rows]
    return tuple(sorted(rows, key=lambda row: (row.controller, row.result))), ""


def counts_none(contents: Contents, phase: PhaseSpan) -> bool:
    """Return whether the operator counts no reconciles at all: it serves no metrics, or none of the known counters."""
    if contents.opened.reconciles is not None or contents.opened.parameters.get("operator") == NO_OPERATOR:
        return False
    start, end = phase.scrape_start.get(OPERATOR), phase.scrape_end.get(OPERATOR)
    if start is None or end is None:
        scraped = OPERATOR in contents.metrics.targets
        return not scraped and not any(failure.source == f"scrape:{OPERATOR}" for failure in contents.failures)
    return not counted_by(end.samples)


def _rows(start: Snapshot, end: Snapshot, declared: ReconcileCounter | None, *, restarted: bool) -> list[ReconcileRow]:
    """Return the growth of all series of the operator's counter, summed by controller and result."""
    counts: dict[Counted, tuple[float, bool]] = {}
    for series, counted in counted_by(end.samples, declared).items():
        grown, reset = _increase(start.samples.get(series, 0.0), end.samples[series], restarted=restarted)
        before, lower_bound = counts.get(counted, (0.0, False))
        counts[counted] = before + grown, lower_bound or reset
    return [
        ReconcileRow(
            controller=counted.controller,
            result=counted.result,
            count=round(count),
            lower_bound=lower_bound,
            source=counted.source,
        )
        for counted, (count, lower_bound) in counts.items()
    ]


def objects_of(contents: Contents, controller: str, start: int, end: int) -> int | None:
    """Return how many objects of a controller's kind existed at any moment of a time, ns of the recorder's clock.

    None where no watched resource has its name.
    """
    stories = [story for story in contents.watches.values() if is_of(controller, story.opened.spec.resource)]
    if not stories:
        return None
    return len(
        {
            key
            for story in stories
            for key, events in story.objects.items()
            if events[0].at <= end and not (events[-1].change == "deleted" and events[-1].at < start)
        }
    )


@functools.lru_cache(maxsize=1024)
def is_of(controller: str, resource: str) -> bool:
    """Return whether a controller is that of a resource, by its name.

    controller-runtime's default name is the kind in lower case, as are those of Kubernetes' own work queues.
    """
    return _SUFFIX.sub("", _NOT_ALPHANUMERIC.sub("", controller.partition(".")[0].lower())) in singulars(resource)


def singulars(resource: str) -> Iterator[str]:
    """Yield the names that a resource's kind may have in lower case: ``podcliques.grove.io`` is ``podclique``."""
    plural = resource.partition(".")[0]
    yield plural
    for ending, instead in (("ies", "y"), ("es", ""), ("s", "")):
        if plural.endswith(ending):
            yield plural.removesuffix(ending) + instead


def counter_of_phase(phase: PhaseSpan, family: str) -> int | None:
    """Return the total growth of all series of a counter, on all targets; None where no target has it."""
    grown = [
        _increase(start.samples.get(series, 0.0), value, restarted=False)[0]
        for target, end in phase.scrape_end.items()
        if (start := phase.scrape_start.get(target)) is not None
        for series, value in end.samples.items()
        if series.partition("{")[0] == family
    ]
    return round(sum(grown)) if grown else None


def why_not_scraped(
    contents: Contents, phase: PhaseSpan, target: str, start: Snapshot | None, end: Snapshot | None
) -> str:
    """Return in words why a target's counters have no difference over a phase."""
    if target == OPERATOR and contents.opened.parameters.get("operator") == NO_OPERATOR:
        return "the test runs no operator"
    until = contents.end_of(phase)
    failed = [f for f in contents.failures if f.source == f"scrape:{target}" and f.at <= until]
    which = "start" if start is None else "end"
    if failed:
        return f"the scrape at the phase's {which} failed: {failed[-1].message}"
    if end is None and phase.ended is None:
        return "the recording ends before the phase does"
    if target == OPERATOR and target not in contents.metrics.targets:
        return "no metrics of operator were scraped: its definition may name none"
    return f"the metrics of {target} were not scraped at the phase's {which}"


def _restarted(contents: Contents, phase: PhaseSpan, start: Snapshot, end: Snapshot) -> bool:
    """Return whether the operator was restarted between two scrapes, whatever its counters show."""
    born = [name for name in start.samples if name.startswith("process_start_time_seconds")]
    if any(start.samples[name] != end.samples.get(name) for name in born):
        return True
    if any(start.at <= gone.at <= end.at for gone in contents.gone.get(OPERATOR, ())):
        return True
    first, last = phase.cpu_start.get(OPERATOR), phase.cpu_end.get(OPERATOR)
    return first is not None and last is not None and first.pid != last.pid


def _increase(before: float, after: float, *, restarted: bool) -> tuple[float, bool]:
    """Return a counter's growth and whether it was reset, which makes the growth a lower bound."""
    if restarted or after < before:
        return after, True
    return after - before, False
