"""Reconciles by controller and result in a phase, and other counters scraped at its edges."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from ..exposition.families import parse
from .controller_result import ReconcileRow, ReconcileSource
from .recording_index import Contents, PhaseSpan, Snapshot
from .result import NO_OPERATOR, OPERATOR

RECONCILES = "controller_runtime_reconcile_total"
WORK_ITEMS = "workqueue_work_duration_seconds_count"
# Best first: an operator built with controller-runtime has both, and only the first has the results of reconciles.
_FAMILIES: tuple[tuple[str, str, ReconcileSource], ...] = (
    (RECONCILES, "controller", "controller-runtime"),
    (WORK_ITEMS, "name", "work-queue"),
)
# Work queues of k8s.io/apiserver (pkg/server/dynamiccertificates, pkg/authentication/request/headerrequest), in every
# operator that serves with its help. They check certificates once a minute: that is no reconcile, and counting it would
# falsely prove that the operator handled a trigger.
LIBRARY_QUEUES = (
    "DynamicCABundle-",
    "DynamicConfigMapCABundle-",
    "DynamicServingCertificateController",
    "RequestHeaderAuthRequestController",
)

_NOT_ALPHANUMERIC = re.compile(r"[^a-z0-9]")
_SUFFIX = re.compile(r"(?<=.)(controller|reconciler)$")


def reconciles_of_phase(contents: Contents, phase: PhaseSpan) -> tuple[tuple[ReconcileRow, ...], str]:
    """Return reconciles between the operator's scrapes at the phase's edges, or nothing and why not.

    An operator that is not built with controller-runtime is counted by its work queues: each item that a worker has
    taken and given back is one reconcile of the controller that the queue is named after.
    """
    start, end = phase.scrape_start.get(OPERATOR), phase.scrape_end.get(OPERATOR)
    if start is None or end is None:
        return (), why_not_scraped(contents, phase, OPERATOR, start, end)
    restarted = _restarted(contents, phase, start, end)
    for family, label, source in _FAMILIES:
        if rows := _rows(start, end, family, label, source, restarted=restarted):
            until = contents.end_of(phase)
            objects = {
                name: objects_of(contents, name, phase.start, until) for name in {row.controller for row in rows}
            }
            rows = [msgspec.structs.replace(row, objects=objects[row.controller]) for row in rows]
            return tuple(sorted(rows, key=lambda row: (row.controller, row.result))), ""
    return (), f"the operator's metrics have no {RECONCILES} and no {WORK_ITEMS}"


def _rows(
    start: Snapshot, end: Snapshot, family: str, label: str, source: ReconcileSource, *, restarted: bool
) -> list[ReconcileRow]:
    rows = []
    for series, value in end.samples.items():
        labels = _labels(series, family, label)
        if labels is None:
            continue
        count, reset = _increase(start.samples.get(series, 0.0), value, restarted=restarted)
        rows.append(
            ReconcileRow(
                controller=labels.get(label, ""),
                result=labels.get("result", ""),
                count=round(count),
                lower_bound=reset,
                source=source,
            )
        )
    return rows


def _labels(series: str, family: str, label: str) -> Mapping[str, str] | None:
    """Return the labels of a series that counts reconciles; None for any other, and for a library's own queue."""
    if not series.startswith(family + "{"):
        return None
    labels = parse(series).labels
    return None if label == "name" and labels.get(label, "").startswith(LIBRARY_QUEUES) else labels


def counters_of(served: Iterable[str]) -> dict[str, str]:
    """Return series → controller, of the series that count reconciles, by the best counter that is served."""
    names = list(served)
    for family, label, _ in _FAMILIES:
        found = {name: labels.get(label, "") for name in names if (labels := _labels(name, family, label)) is not None}
        if found:
            return found
    return {}


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
