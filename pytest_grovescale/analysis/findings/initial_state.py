"""What the operator holds on to when all objects of the workload are gone: series, descriptors, threads, goroutines.

What looks at each object once in a while (a poller, a monitor's task) has to end with it; else the requests of an
operator grow with all objects that ever were.

An operator runs for months. What grows with each object that ever existed ends in a Prometheus without memory, or in
an operator that is killed for its own.

No false alarm: lists count from a second after the last object was gone on, ten, and three for ten objects: no poll for
all of them is so frequent. Requests for one object count from a second after it was gone on, and of those only what
came again and again while nothing changed. A series counts when a label's value is the name or UID of an object that is
gone. Goroutines count where a line through all scrapes, of three numbers of objects and more, shows them grow with the
objects of one kind, one to four for each (`one_for_each`), and so do threads from as many on as no pool has by itself;
what goes with its object is a note, and so are few of them that were counted at rest alone while sockets came. Else
descriptors and threads count from a growth on that no pool of connections explains, and only in proportion to the
objects; or where no-op triggers, which bring no object, made them grow by one for each object of a kind and the whole
run by twice that: a pool grows by as many as are under way at once. So do two phases in which the test only changes
objects, each of which made them grow by one for each of ten objects or more, for good. Watches are those that the audit
log shows to begin and not to end, and an operator has a few for each kind, not for each object. Of memory only what
Go's collector found in use counts (its next goal, by GOGC), after a collection while the workload was being deleted,
and only where it is twice that of the start and never was more: caches shrink with their objects. RSS counts where it
grew in each of three phases, without the first, by about as much for each reconcile, and the language frees what is not
used: a JVM takes new memory until its first collection. Of four phases one may be another controller's; where no metric
says the language, it has to have doubled since the first, or to have grown by more than half and by the same for each
reconcile of all phases.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from statistics import median

from ...exposition.families import LIBRARIES, family_of, parse
from ...recording.records import SETTLED, CpuRead
from ..metrics.history import TargetHistory
from ..result import OPERATOR, Finding
from . import one_for_each
from .evidence import ObjectId, form, shown
from .grouping import About, Aspect, Found
from .observed import QUIET_NS, Observed

ID = "initial-state"

_PROCESS = {
    "go_goroutines": "goroutines",
    "process_open_fds": "open files",
    "go_threads": "threads",
    "process_threads": "threads",
    "python_threads": "threads",
}
_POOL = 128
"""Growth that pools of connections and workers may have, at any size."""

_PER_OBJECT = 0.5

_LEAST_TRIGGERED = 10
_PER_TRIGGER = 0.9
"""Growth for each triggered object of some kind, and in all, from which on each reconcile leaves something behind."""
_IN_ALL = 2.0
"""Ratio of the run's growth to that: it deployed each of these objects, too."""

_LEAST_ASKED = 3

_LEAST_POLLS = 10
_POLLS_PER_OBJECT = 0.3

_LEAST_WATCHES = 5
_WATCHES_PER_OBJECT = 0.1

_STAYED = 0.9
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

_LEAST_ZOMBIES = 5

_NAMES = {"threads": "threads", "files": "open files", "sockets": "connections"}

_SHOWN = 3

_WORDS = re.compile(r"[/:?&=,;\s]")
"""What separates an object's name from the rest of a label's value: a path, a URL, a pair."""


def findings(seen: Observed) -> Iterator[Finding]:
    """Yield a finding for series of objects that are gone, and one for each count that stays up."""
    target, after = seen.target, seen.settled_scrape
    for_each = dict(one_for_each.findings(seen))
    yield from for_each.values()
    yield from one_for_each.tasks_left(seen)
    of_process: list[Finding] = []
    if seen.settled and target is not None and after is not None:
        yield from _series(seen, target, after)
        of_process = list(_process(seen, target, after, said=for_each.keys()))
        yield from of_process
        yield from _heap(seen, target, after)
    if not for_each and not of_process:
        yield from one_for_each.left_by_reconciles(seen)
    yield from one_for_each.series_left_by_reconciles(seen)
    yield from _grown_by_changes(seen)
    yield from _zombies(seen)
    if seen.settled:
        yield from _asked(seen)
        yield from _polls(seen)
        yield from _watches(seen)
        yield from _held(seen)
        resident = list(_resident(seen))
        yield from resident or _kept_by_reconciles(seen)


def _asked(seen: Observed) -> Iterator[Finding]:
    """Yield a finding for each kind of request that went on for objects that were gone."""
    late: dict[str, list[ObjectId]] = defaultdict(list)
    after = seen.requests_in(seen.workload_deleted or seen.end, seen.end)
    for one in (one for one in after if (one.what, one.object) in seen.repeated_at_quiet):
        lives = reversed(seen.of_name.get((one.resource, one.object), ()))
        gone = next((life for life in lives if life.gone_at is not None), None)
        if gone is None or one.received < (gone.gone_at or 0) + QUIET_NS:
            continue
        # What still goes of it wakes its controller, which may well ask the API server whether it is there.
        below = (event.at for child in seen.below(gone) for event in child.events)
        if not any(one.received - QUIET_NS <= at <= one.received + QUIET_NS for at in below):
            late[one.what].append(one.object)
    for what, objects in sorted(late.items()):
        if len(set(objects)) >= _LEAST_ASKED:
            those = set(objects)
            asked = [one for one in seen.own_of([what]) if one.object in those]
            yield Found(
                id=ID,
                severity="defect",
                about=About(aspect=Aspect.STATE, requests=asked, times=[(seen.begin, seen.end)]),
                text=f"the operator goes on to {what} that are gone: {len(objects):,} times for"
                f" {len(set(objects)):,} objects, a second or more after their end; what asks for each of them, also"
                " while nothing changes, does not end with it",
                evidence=(shown(objects[0]),),
                check="noop_reads(max=0)",
            )


def _polls(seen: Observed) -> Iterator[Finding]:
    """Yield the lists that went on in proportion to the objects after the last of them was gone."""
    gone = [at for at in seen.went if at < seen.end]
    if not gone:
        return
    begin = gone[-1] + QUIET_NS
    lists = Counter(
        one.what for one in seen.requests_in(begin, seen.end) if one.verb in ("list", "get") and not one.name
    )
    what, number = max(lists.items(), key=lambda one: one[1], default=("", 0))
    if number >= max(_LEAST_POLLS, _POLLS_PER_OBJECT * seen.objects):
        yield Found(
            id=ID,
            severity="defect",
            about=About(aspect=Aspect.STATE, requests=seen.own_of([what]), times=[(seen.begin, seen.end)]),
            text=f"the operator goes on to {what} after all objects of the workload are gone: {number:,} times in"
            f" {(seen.end - begin) / 1e9:.1f} s, for {seen.objects:,} objects that were: what polls for each of them"
            " does not end with it",
            check="idle_requests(max=0)",
        )


def _series(seen: Observed, target: TargetHistory, after: int) -> Iterator[Finding]:
    gone: set[str] = set()
    there: set[str] = set()
    for lives in seen.lives.values():
        for life in lives:
            (there if life.exists(seen.end) else gone).update((life.name, life.uid))
    gone -= there
    found: dict[str, list[str]] = defaultdict(list)
    labels: set[str] = set()
    for series in target.samples(after):
        parts = parse(series)
        named = {label for label, value in parts.labels.items() if not gone.isdisjoint(_WORDS.split(value))}
        if not parts.name.startswith(LIBRARIES) and named:
            found[family_of(parts.name, target.families)].append(series)
            labels |= named
    if found:
        # One cause, as a rule: the labels of a library, or one place that deletes no series.
        families = sorted(found, key=lambda family: (-len(found[family]), family))
        count = sum(map(len, found.values()))
        others = len(families) - 1
        more = f" and of {families[1] if others == 1 else f'{others} more metrics'}" if others else ""
        each = 1 if others else _SHOWN
        by = f"{form(len(labels), 'label', 'labels')} {', '.join(sorted(labels))}"
        yield Found(
            id=ID,
            severity="defect" if count > 1 else "waste",
            about=About(aspect=Aspect.STATE),
            text=f"{count:,} series of {families[0]}{more} name objects that are gone ({by})",
            evidence=tuple(series for family in families for series in sorted(found[family])[:each]),
            check="series_growth()" if others else f'series_growth(family="{families[0]}")',
        )


def _watches(seen: Observed) -> Iterator[Finding]:
    """Yield a finding for watches that were opened for objects and are still open."""
    before, after = (seen.open_watches(at) for at in (seen.begin, seen.end))
    more = after - before
    resource, number = max(more.items(), key=lambda one: one[1], default=("", 0))
    if number >= max(_LEAST_WATCHES, _WATCHES_PER_OBJECT * seen.objects):
        opened = [one for one in seen.own if one.verb == "watch" and one.resource == resource]
        yield Found(
            id=ID,
            severity="defect",
            about=About(aspect=Aspect.STATE, requests=opened, times=[(seen.begin, seen.end)]),
            text=f"the operator has {after[resource]:,} watches on {resource} open after the workload was deleted,"
            f" {before[resource]:,} before",
            evidence=(
                f"for {seen.objects:,} objects" + (f" and {seen.reconciled:,} reconciles" if seen.reconciled else ""),
            ),
        )


def _held(seen: Observed) -> Iterator[Finding]:
    """Yield what the process holds by the kernel's count, where it does not serve that itself."""
    target = seen.target
    served = {what for series, what in _PROCESS.items() if target is not None and series in target.series}
    reads = [read for read in seen.contents.reads.get(OPERATOR, []) if read.files is not None]
    first = next((read for read in reads if read.edge.startswith("start:")), None)
    last = next((read for read in reversed(reads) if read.edge == SETTLED), None)
    if first is None or last is None or first.pid != last.pid:
        return
    for what in ("threads", "files", "sockets"):
        was, now = getattr(first, what), getattr(last, what)
        if _NAMES[what] not in served:
            yield from _stayed(seen, _NAMES[what], was, now, "by /proc")


def _grown_by_changes(seen: Observed) -> Iterator[Finding]:
    """Yield what a process holds more of after each change of objects whose number stays, between its restarts."""
    reads = [read for read in seen.contents.reads.get(OPERATOR, []) if read.files is not None]
    by_edge = {read.edge: read for read in reads}
    pairs = []
    for span in seen.spans:
        start, end = (by_edge.get(f"{edge}:{span.phase.name}") for edge in ("start", "end"))
        acts = seen.by_harness(span.start, span.end)
        only_changed = bool(acts) and all(one.updates and not one.created for one in acts)
        if only_changed and start is not None and end is not None and start.pid == end.pid:
            after = [read for read in reads if read.at >= end.at and read.pid == end.pid]
            pairs.append((span.phase.name, start, end, after, len({one.object for one in acts})))
    for what in ("threads", "files", "sockets"):
        grown: list[tuple[str, int, int]] = []
        by_one: list[tuple[str, int, int]] = []
        for phase, start, end, after, objects in pairs:
            was, now = getattr(start, what), getattr(end, what)
            stays = all(getattr(read, what) >= _STAYED * now for read in after)
            if stays and now - was >= max(_POOL, seen.objects):
                grown.append((phase, was, now))
            if stays and objects >= _LEAST_TRIGGERED and now - was >= _PER_TRIGGER * objects:
                by_one.append((phase, was, now))
        # A pool grows to what is under way at once, and not again.
        grown = grown or (by_one if len(by_one) > 1 else [])
        if grown:
            phase, was, now = max(grown, key=lambda one: one[2] - one[1])
            yield Found(
                id=ID,
                severity="defect",
                about=_of_process(seen),
                text=f"{_NAMES[what]} grew from {was:,} to {now:,} in {phase}, in which the test changed objects and"
                " made no more of them, and stayed: each change leaves some behind",
                evidence=tuple(f"{name}: {before:,} to {then:,}" for name, before, then in grown if name != phase),
            )


def _zombies(seen: Observed) -> Iterator[Finding]:
    """Yield that child processes ended and are not waited for, of the process of the operator that had most of them."""
    looks: dict[int, list[CpuRead]] = defaultdict(list)
    for read in seen.contents.reads.get(OPERATOR, []):
        if read.edge and read.zombies is not None and seen.begin <= read.at <= seen.end:
            looks[read.pid].append(read)
    counts = max(([one.zombies or 0 for one in of_one] for of_one in looks.values()), key=max, default=[])
    # A child may end just before it is looked at.
    if len(counts) > 1 and min(counts[-2:]) >= _LEAST_ZOMBIES:
        yield Found(
            id=ID,
            severity="defect",
            about=_of_process(seen),
            text=f"{counts[-1]:,} processes that the operator started have ended, and it has not waited for them:"
            " they stay as zombies, each with its pid, until no process can start any more",
            evidence=(f"at the edges of phases, by /proc: {', '.join(f'{count:,}' for count in counts)}",),
        )


def _resident(seen: Observed) -> Iterator[Finding]:
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
        if last.rss_bytes < _STAYED * peak or last.rss_bytes < _HEAP_GROWTH * first.rss_bytes:
            continue
        reconciled = f", {total / seen.reconciled / 1e3:,.0f} kB for each of {seen.reconciled:,} reconciles in all"
        yield Found(
            id=ID,
            severity="defect",
            about=_of_process(seen),
            text=f"memory (RSS) grew by {grown / 1e6:.3g} MB with {span.triggers:,} no-op triggers, from"
            f" {first.rss_bytes / 1e6:,.0f} to {last.rss_bytes / 1e6:,.0f} MB in the run, and stayed after the workload"
            f" was deleted{reconciled if seen.reconciled else ''}",
            evidence=("by /proc; scale.cycles(n) shows whether it goes on growing",),
        )
        return


def _kept_by_reconciles(seen: Observed) -> Iterator[Finding]:
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
    if grown[:1] and grown[0][0] == seen.spans[0].phase.name and not (len(grown) == _PHASES and _are_even(grown)):
        del grown[0]
    # One phase may be another controller's, which keeps nothing.
    if len(grown) > _PHASES:
        grown.remove(min(grown, key=lambda one: one[2] / one[1]))
    each = [added / reconciles for _, reconciles, added in grown]
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
        about=_of_process(seen),
        text=f"memory (RSS) grew by {median(each) / 1e3:,.0f} kB with each reconcile in {len(each):,} phases, by"
        f" {total / 1e6:,.3g} MB in all, also where no object came",
        evidence=tuple(f"{name}: {added / 1e6:,.3g} MB, {number:,} reconciles" for name, number, added in grown),
    )


def _are_even(grown: Sequence[tuple[str, int, int]]) -> bool:
    each = [added / reconciles for _, reconciles, added in grown]
    return 0 < max(each) <= _EVEN * min(each)


def _needed(each: Sequence[float], filled: CpuRead) -> float:
    """Return by how much of what was in use after the first phase memory has to grow where nothing says the language.

    By as much again: the heap of a program in Go is collected before. That shows as a growth which is not the same for
    each reconcile of all phases; where it is, less says enough, but of a JVM, which has many threads.
    """
    even = len(each) > _PHASES and max(each) <= _EVEN * min(each) and (filled.threads or 0) <= _FEW_THREADS
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


def _of_process(seen: Observed) -> About:
    """Return what a growth of the process is about: what it holds of one kind, it mostly holds others of, too."""
    return About(aspect=Aspect.STATE, times=[(seen.begin, seen.end)])


def _process(seen: Observed, target: TargetHistory, after: int, *, said: Collection[str]) -> Iterator[Finding]:
    """Yield what the process serves of itself and stayed. ``said``: what is known of it already, as ``threads``."""
    before = seen.first_scrape
    if before is None:
        return
    for series, what in _PROCESS.items():
        was, now = target.value(series, before), target.value(series, after)
        if was is None or now is None:
            continue
        if what in said:
            continue
        grown, triggers = _grown_by_triggers(seen, target, series)
        if grown >= max(_LEAST_TRIGGERED, _PER_TRIGGER * triggers) and now - was >= _IN_ALL * grown:
            yield Found(
                id=ID,
                severity="defect",
                about=_of_process(seen),
                text=f"reconciles leave {what} behind: {grown:,.0f} more after no-op triggers of {triggers:,} objects,"
                f" {was:,.0f} at first and {now:,.0f} after the workload was deleted",
                evidence=(series,),
            )
            continue
        yield from _stayed(seen, what, was, now, series)


def _heap(seen: Observed, target: TargetHistory, after: int) -> Iterator[Finding]:
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
        about=_of_process(seen),
        text=f"the heap in use grew from {was / 1e6:.3g} MB to {now / 1e6:.3g} MB and stayed after the workload was"
        f" deleted{done}",
        evidence=(f"{_LIVE}: what the last collection left; scale.cycles(n) shows whether it goes on growing",),
    )


def _live(target: TargetHistory, scrape: int) -> float | None:
    """Return what Go's last collection found in use, bytes; None where it is not served."""
    goal, percent = target.value(_LIVE, scrape), target.value(_GOGC, scrape)
    return None if goal is None else goal / (1 + (percent if percent is not None and percent > 0 else 100) / 100)


def _stayed(seen: Observed, what: str, was: float, now: float, source: str) -> Iterator[Finding]:
    """Yield a finding where a count grew by more than pools do, in proportion to the objects."""
    if now - was >= max(_POOL, _PER_OBJECT * seen.objects):
        yield Found(
            id=ID,
            severity="defect",
            about=_of_process(seen),
            text=f"{what} grew from {was:,.0f} to {now:,.0f} and stayed after the workload was deleted",
            evidence=(f"{source}, for {seen.objects:,} objects",),
        )


def _grown_by_triggers(seen: Observed, target: TargetHistory, series: str) -> tuple[float, int]:
    """Return by how much a count grew in phases that only triggered reconciles, and the triggers of the rarest kind."""
    grown, triggers = 0.0, 0
    for span in seen.spans:
        edges = seen.scrapes_of(span)
        if not span.phase.triggers or edges is None:
            continue
        before, after = (target.value(series, scrape) for scrape in edges)
        if before is not None and after is not None:
            grown += after - before
            kinds = Counter(one.resource for one in seen.by_harness(span.start, span.end))
            triggers += min(kinds.values(), default=span.triggers)
    return grown, triggers
