"""Memory that the operator keeps: what its collector finds in use, and what the kernel counts (RSS).

Part of the rule `initial_state`. What each reconcile keeps ends, after days, with an operator that is killed for it.

No false alarm: what Go's collector found in use counts (its next goal, by GOGC), after a collection while the workload
was being deleted, and only where it is twice that of the start and never was more: caches shrink with their objects.
RSS counts where it grew in each of three phases by about as much for each reconcile, the first phase only where that is
as even, and the language frees what is not used: a JVM takes new memory until its first collection. Of four phases one
may be another controller's; where no metric says the language, it has to have doubled since the first, or to have grown
by more than half and by the same for each reconcile of all phases.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median

from ...recording.records import SETTLED, CpuRead
from ..metrics.history import TargetHistory
from ..result import OPERATOR, Finding
from .grouping import About, Aspect, Found
from .observed import Observed

ID = "initial-state"

STAYED = 0.9
"""Share of a growth that is left after the workload was deleted, from which on it stayed."""
_LEAST_RSS = 8 << 20
_RSS_EACH = 64 << 10
_RSS_IN_ALL = 3.0
"""Growth of RSS in a phase of triggers, at least and for each of them, and that of the run as its multiple, from which
on memory is kept that nothing needs: allocators keep what the deployment took, and use it again."""

_LEAST_RECONCILES, _PHASES = 15, 3
_RSS_OF_EACH = 20 << 10
"""Growth of RSS with each reconcile, bytes, in each of so many phases with so many reconciles."""
_EVEN, _EVENLY, _FEW_THREADS = 1.4, 0.6, 16
"""Ratio of the most and the least for each reconcile that is even, growth of memory that suffices then, and threads of
which a JVM has more."""
_SEVERAL_COLLECTIONS = 3
_LAZY = ("jvm_", "nodejs_")
_LEAST_LAZY = 32 << 20
"""Growth of a runtime that gives memory back late and takes new memory before it collects, bytes."""

_LIVE = "go_memstats_next_gc_bytes"
"""The heap's size at which the next collection begins: what the last one found in use, and GOGC percent more.
(https://tip.golang.org/doc/gc-guide#GOGC)"""
_GOGC = "go_gc_gogc_percent"
_RUNTIMES = ("go_", "python_", "jvm_", "nodejs_", "dotnet_", "process_runtime_", "system_runtime_")
_COLLECTIONS = (
    ("go_gc_duration_seconds_count", ""),
    ("nodejs_gc_duration_seconds_count", 'kind="major"'),
    ("jvm_gc_pause_seconds_count", 'action="end of major GC"'),
)
"""Families, and labels of their series, that count collections of the whole heap: Go's own, prom-client's for Node.js,
Micrometer's for a JVM."""
_LEAST_HEAP = 4 << 20
_HEAP_GROWTH = 2.0
_SAME_HEAP = 0.98


def heap(seen: Observed, target: TargetHistory, after: int) -> Iterator[Finding]:
    """Yield that what Go's collector finds in use has grown, and did not shrink with the workload."""
    before, deleted = seen.first_scrape, seen.workload_deleted
    if before is None or deleted is None:
        return
    live = [_live(target, scrape) for scrape in range(before, after + 1)]
    was, now = live[0], live[-1]
    # The last scrape before the deletion began.
    since = max(
        scrape for scrape in range(before, after + 1) if scrape == before or target.moments[scrape].at < deleted
    )
    if was is None or now is None or not _collections(target, since, after):
        return
    if now - was < _LEAST_HEAP or now < _HEAP_GROWTH * was:
        return
    if now < _SAME_HEAP * max(filter(None, live)):
        return
    reconciled = seen.reconciled
    done = f": {(now - was) / reconciled:,.0f} bytes for each of {reconciled:,} reconciles" if reconciled else ""
    yield Found(
        id=ID,
        severity="waste",
        about=of_process(seen),
        text=f"the heap in use grew from {was / 1e6:.3g} MB to {now / 1e6:.3g} MB and stayed after the workload was"
        f" deleted{done}",
        evidence=(f"{_LIVE}: what the last collection left; scale.cycles(n) shows whether it goes on growing",),
    )


def _live(target: TargetHistory, scrape: int) -> float | None:
    """Return what Go's last collection found in use, bytes; None where it is not served."""
    goal, percent = target.value(_LIVE, scrape), target.value(_GOGC, scrape)
    return None if goal is None else goal / (1 + (percent if percent is not None and percent > 0 else 100) / 100)


def resident(seen: Observed) -> Iterator[Finding]:
    """Yield that resident memory grew with triggers that change nothing, and never fell: by /proc, in any language."""
    reads = [read for read in seen.contents.reads.get(OPERATOR, []) if read.at >= seen.begin]
    by_edge = {read.edge: read for read in reads if read.edge}
    first = next((read for read in reads if read.edge.startswith("start:")), None)
    last = by_edge.get(SETTLED)
    if first is None or last is None or len({read.pid for read in reads}) > 1:
        return
    for span in seen.spans:
        start, end = (by_edge.get(f"{edge}:{span.phase.name}") for edge in ("start", "end"))
        if not span.triggers or start is None or end is None:
            continue
        grown, total = end.rss_bytes - start.rss_bytes, last.rss_bytes - first.rss_bytes
        peak = max(read.rss_bytes for read in reads)
        if grown < max(_LEAST_RSS, _RSS_EACH * span.triggers) or total < _RSS_IN_ALL * grown:
            continue
        if last.rss_bytes < STAYED * peak or last.rss_bytes < _HEAP_GROWTH * first.rss_bytes:
            continue
        reconciled = f", {total / seen.reconciled / 1e3:,.0f} kB for each of {seen.reconciled:,} reconciles in all"
        yield Found(
            id=ID,
            severity="defect",
            about=of_process(seen),
            text=f"memory (RSS) grew by {grown / 1e6:.3g} MB with {span.triggers:,} no-op triggers, from"
            f" {first.rss_bytes / 1e6:,.0f} to {last.rss_bytes / 1e6:,.0f} MB in the run, and stayed after the workload"
            f" was deleted{reconciled if seen.reconciled else ''}",
            evidence=("by /proc; scale.cycles(n) shows whether it goes on growing",),
        )
        return


def kept_by_reconciles(seen: Observed) -> Iterator[Finding]:
    """Yield that resident memory grew in each phase by as much for each reconcile, in one process of the operator."""
    target = seen.target
    if target is None or not seen.spans:
        return
    scrapes = {moment.edge: scrape for scrape, moment in enumerate(target.moments) if moment.edge}
    reads = {read.edge: read for read in seen.contents.reads.get(OPERATOR, []) if read.edge}
    grown: list[tuple[str, int, int]] = []
    calm = False
    for span in seen.spans:
        edges = [f"{edge}:{span.phase.name}" for edge in ("start", "end")]
        # What goes with a workload makes room for what is kept.
        deleted = any(one.verb == "delete" for one in seen.by_harness(span.start, span.end))
        if deleted or not all(edge in scrapes and edge in reads for edge in edges):
            continue
        (start, end), (first, last) = [reads[edge] for edge in edges], [scrapes[edge] for edge in edges]
        reconciles = sum(seen.reconciles_between(first, last).values())
        if start.pid == end.pid and reconciles >= _LEAST_RECONCILES:
            grown.append((span.phase.name, reconciles, end.rss_bytes - start.rss_bytes))
            # Caches fill with each object, so that in one phase none may come.
            calm = calm or not seen.begins_any(start.at, end.at)
    # At the first phase they fill at once, but where it is as even as the others.
    if (
        grown[:1]
        and grown[0][0] == seen.spans[0].phase.name
        and not (len(grown) == _PHASES and _are_even(_each(grown)))
    ):
        del grown[0]
    # One phase may be another controller's, which keeps nothing.
    if len(grown) > _PHASES:
        grown.remove(min(grown, key=lambda one: one[2] / one[1]))
    each = _each(grown)
    total = sum(added for _, _, added in grown)
    filled = reads.get(f"end:{seen.spans[0].phase.name}")
    if filled is None or not _frees_soon(target, most=total >= filled.rss_bytes * _needed(each, filled)):
        return
    if total < _LEAST_LAZY and any(series.startswith(_LAZY) for series in target.series):
        return
    if not calm or len(each) < _PHASES or total < _LEAST_RSS or min(each) < max(_RSS_OF_EACH, median(each) / 2):
        return
    yield Found(
        id=ID,
        severity="defect",
        about=of_process(seen),
        text=f"memory (RSS) grew by {median(each) / 1e3:,.0f} kB with each reconcile in {len(each):,} phases, by"
        f" {total / 1e6:,.3g} MB in all, also where no object came",
        evidence=tuple(f"{name}: {added / 1e6:,.3g} MB, {number:,} reconciles" for name, number, added in grown),
    )


def _each(grown: Sequence[tuple[str, int, int]]) -> list[float]:
    """Return growth by reconcile of each phase, from (phase, reconciles, growth)."""
    return [added / reconciles for _, reconciles, added in grown]


def _are_even(each: Sequence[float]) -> bool:
    return 0 < max(each) <= _EVEN * min(each)


def _needed(each: Sequence[float], filled: CpuRead) -> float:
    """Return by how much of what was in use after the first phase memory has to grow where nothing says the language.

    By as much again: the heap of a program in Go is collected before. That shows as a growth which is not the same for
    each reconcile of all phases; where it is, less says enough, but of a JVM, which has many threads.
    """
    even = len(each) > _PHASES and _are_even(each) and (filled.threads or 0) <= _FEW_THREADS
    return _EVENLY if even else 1.0


def _frees_soon(target: TargetHistory, *, most: bool) -> bool:
    """Return whether what a reconcile took is free at its end, or collections have run: a JVM's heap may grow first.

    ``most``: it grew by so much (`_needed`) that one must have; that counts where nothing says the language.
    """
    if not any(series.startswith(_RUNTIMES) for series in target.series):
        return most
    several = _collections(target, 0, len(target.moments) - 1) >= _SEVERAL_COLLECTIONS
    return several or any(series.startswith("python_info") for series in target.series)


def _collections(target: TargetHistory, first: int, last: int) -> float:
    """Return how often the whole heap was collected between two scrapes."""
    return sum(
        target.grown(series, first, last)
        for series in target.series
        if any(series.startswith(name) and label in series for name, label in _COLLECTIONS)
    )


def of_process(seen: Observed) -> About:
    """Return what a growth of the process is about: what it holds of one kind, it mostly holds others of, too."""
    return About(aspect=Aspect.STATE, times=[(seen.begin, seen.end)])
