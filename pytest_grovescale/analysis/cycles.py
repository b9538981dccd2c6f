"""What the operator held after each cycle of `Scale.cycles`: deployed, deleted, at rest.

An operator that is sound comes back to where it was, once its caches are filled. One cycle does not show that: pools,
caches and a garbage collector that has not run are there after the first one too. Several show a slope.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..exposition.families import parse
from ..recording.records import CYCLES, cycle_edge
from .api_requests import open_watches
from .metrics.history import TargetHistory
from .reconcile_counters import RECONCILES
from .recording_index import Contents
from .result import OPERATOR, CycleResult

_HEAP = (
    "go_memstats_heap_inuse_bytes",
    "go_memory_classes_heap_objects_bytes",
    "jvm_memory_used_bytes",
    "process_heap_bytes",
)


def cycles_of(contents: Contents) -> tuple[CycleResult, ...]:
    """Return what was held before the first cycle and after each, in order; empty for a test without cycles."""
    return tuple(_cycles(contents))


def warm_up_of(contents: Contents) -> int:
    """Return how many cycles fill the caches, as the test says."""
    return next((mark.count for mark in contents.marks if mark.label == CYCLES), 0)


def _cycles(contents: Contents) -> Iterator[CycleResult]:
    target = contents.metrics.targets.get(OPERATOR)
    reads = {read.edge: read for read in contents.reads.get(OPERATOR, [])}
    scrapes = {} if target is None else {moment.edge: index for index, moment in enumerate(target.moments)}
    number = 0
    while (edge := cycle_edge(number)) in reads or edge in scrapes:
        read, scrape = reads.get(edge), scrapes.get(edge)
        held = {} if target is None or scrape is None else _served(target, scrape)
        yield CycleResult(
            cycle=number,
            pid=read.pid if read is not None else None,
            rss_bytes=read.rss_bytes if read is not None else None,
            threads=read.threads if read is not None else None,
            files=read.files if read is not None else None,
            sockets=read.sockets if read is not None else None,
            watches=_open_watches(contents, edge),
            **held,
        )
        number += 1


def _served(target: TargetHistory, scrape: int) -> dict[str, int | None]:
    samples = target.samples(scrape)
    total: dict[str, float] = {}
    for series, value in samples.items():
        name = parse(series).name
        total[name] = total.get(name, 0.0) + value
    heap = next((total[name] for name in _HEAP if name in total), None)
    goroutines, reconciles = total.get("go_goroutines"), total.get(RECONCILES)
    return {
        "heap_bytes": None if heap is None else round(heap),
        "goroutines": None if goroutines is None else round(goroutines),
        "series": len(samples),
        "reconciles": None if reconciles is None else round(reconciles),
    }


def _open_watches(contents: Contents, edge: str) -> int | None:
    """Return how many watches that the operator began in the recording were open at an edge; None without a log."""
    at = next((mark.at for mark in contents.marks if mark.label == edge), None)
    operator = contents.opened.identities.get(OPERATOR)
    if at is None or not contents.opened.audited or not operator:
        return None
    return open_watches(contents.requests, operator, at).total()
