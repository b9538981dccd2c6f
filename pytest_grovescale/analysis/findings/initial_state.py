"""What the operator holds on to when all objects of the workload are gone: series, descriptors, threads, goroutines.

What looks at each object once in a while (a poller, a monitor's task) has to end with it; else the requests of an
operator grow with all objects that ever were.

An operator runs for months. What grows with each object that ever existed ends in a Prometheus without memory, or in
an operator that is killed for its own (`kept_memory`).

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
log shows to begin and not to end, and an operator has a few for each kind, not for each object.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator

from ...exposition.families import LIBRARIES, family_of, parse
from ...recording.records import SETTLED, CpuRead
from ..metrics.history import TargetHistory
from ..result import OPERATOR, Finding
from . import one_for_each
from .evidence import ObjectId, form, shown
from .grouping import About, Aspect, Found
from .kept_memory import STAYED, heap, kept_by_reconciles, of_process, resident
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
    counted: list[Finding] = []
    if seen.settled and target is not None and after is not None:
        yield from _series(seen, target, after)
        counted = list(_process(seen, target, after, said=for_each.keys()))
        yield from counted
        yield from heap(seen, target, after)
    if not for_each and not counted:
        yield from one_for_each.left_by_reconciles(seen)
    yield from one_for_each.series_left_by_reconciles(seen)
    yield from _grown_by_changes(seen)
    yield from _zombies(seen)
    if seen.settled:
        yield from _asked(seen)
        yield from _polls(seen)
        yield from _watches(seen)
        yield from _held(seen)
        in_all = list(resident(seen))
        yield from in_all or kept_by_reconciles(seen)


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
            stays = all(getattr(read, what) >= STAYED * now for read in after)
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
                about=of_process(seen),
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
            about=of_process(seen),
            text=f"{counts[-1]:,} processes that the operator started have ended, and it has not waited for them:"
            " they stay as zombies, each with its pid, until no process can start any more",
            evidence=(f"at the edges of phases, by /proc: {', '.join(f'{count:,}' for count in counts)}",),
        )


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
                about=of_process(seen),
                text=f"reconciles leave {what} behind: {grown:,.0f} more after no-op triggers of {triggers:,} objects,"
                f" {was:,.0f} at first and {now:,.0f} after the workload was deleted",
                evidence=(series,),
            )
            continue
        yield from _stayed(seen, what, was, now, series)


def _stayed(seen: Observed, what: str, was: float, now: float, source: str) -> Iterator[Finding]:
    """Yield a finding where a count grew by more than pools do, in proportion to the objects."""
    if now - was >= max(_POOL, _PER_OBJECT * seen.objects):
        yield Found(
            id=ID,
            severity="defect",
            about=of_process(seen),
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
