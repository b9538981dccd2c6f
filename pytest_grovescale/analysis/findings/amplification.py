"""Reconciles out of proportion: to a trigger that changes nothing, to the changes of a phase, to objects that are gone.

Each event that a predicate lets through costs a reconcile of each object that it is mapped to. A mapping from one
object to all of another kind makes that many of each change: reconciles grow with the square of the objects. What is
reconciled for nothing is paid for in the queue: what really changed waits behind it.
(https://pkg.go.dev/sigs.k8s.io/controller-runtime/pkg/predicate)

A reconcile that looks at all objects shows in the CPU time of each change, which grows with them. What each change
costs besides, `reconcile_costs` has.

One object that is written for each of many others, as a count of them in the status of what they share, wakes all who
watch it each time: where that are these others, the reconciles grow with their square.

No false alarm: an object that others share is a note, from two writes for each of ten or more objects of the workload
on, ten times as many as most objects get. A trigger may wake each child once, and once more for half of them; it counts
where nothing had changed in the second before it, and without what the idle twin has. An object that is touched alone
has to do with its owners, theirs, all below it, and what names it; only what wakes ten others and three of ten counts,
and not what the operator does at quiet times as well, or tries again; by reconciles that end with a RequeueAfter it is
a note. In a phase, what an operator asks for itself (``RequeueAfter``, up to once a second for each object) and its
retries are left out, and five reconciles for each change of a kind that it watches, ten beside other programs, are far
beyond the 0.1 to 1.3 of sound operators. After the last object of all kinds is gone, each may be reconciled once more.
CPU time is a note, in seconds with twenty changes in which nothing went, three times as much for each with three times
the objects in each of them.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import median
from typing import NamedTuple

from ...exposition.families import parse
from ..api_requests import triggers_of
from ..reconciles import is_of
from ..result import OPERATOR, Finding
from ..run_metrics import WINDOW
from .evidence import ObjectId, Span, Touch, listed
from .grouping import About, Aspect, Found
from .noop_work import by_controller, caused_by_triggers, triggered_itself
from .observed import QUIET_NS, Observed
from .reconcile_costs import costs

ID = "reconcile-amplification"

_PER_OBJECT = 1.5
"""Reconciles of each object for a trigger from which on something wakes them more than once."""
_OF_TRIGGERED = 5
"""The same of the triggered objects: what they pass on may come back to them."""
_FEWEST = 3

_MANY = 10
"""Objects of a kind from which on one that wakes many of them wakes too many."""
_WOKEN, _OF_ALL = 10, 0.3
"""Others that it wakes, and their share of all, from which on they are too many."""
_OF_TOUCHED = 5
"""Reconciles of each object that has to do with the touched one from which on others must have been woken."""

_ANYWAY = 0.3
"""Share of the reconciles of a touch which there would be at quiet times, too, from which on they are not of it."""

_PER_CHANGE = 5
"""Reconciles for each change of any object from which on they are out of proportion."""
_BESIDE_OTHERS = 2
"""How many times as many count beside other programs."""
_PER_EXISTING = 10
"""The same for each object that there was."""

_GROWN = 3
"""Ratio of the reconciles for each change, with most objects and with few, from which on they grow with the objects."""
_SPREAD = 3
"""Ratio of the numbers of objects that it takes to see that."""
_CHANGES = 20
"""Changes from which on reconciles for each of them mean something."""
_INTERVALS = 4
_CPU_MS = 5.0
"""CPU time for each change from which on its growth matters, ms."""

_AGAIN = 3
"""Reconciles of each object in the second of a touch that are no more of the touch."""

_CONTROLLERS = 2
"""Controllers that all reconcile all their objects from which on no single change is why."""

_WRITES_FOR_EACH = 2
"""Writes of one object for each of the workload's from which on it is written for each of them."""

_RETRIES = ("requeue", "error")
OWN_TIMERS = ("requeue_after", *_RETRIES)
"""Results of reconciles that the operator itself asks to be repeated."""

_SETTLE_NS = 1_000_000_000


def findings(seen: Observed) -> Iterator[Finding]:
    """Yield a finding for what triggers wake, for phases, for growth within the run, and for objects that are gone."""
    if not seen.operator:
        return
    yield from _woken(seen)
    yield from _woken_by_one(seen)
    growing = list(_growing(seen))
    yield from growing
    if not growing:
        yield from _out_of_proportion(seen)
    yield from _after_the_end(seen)
    yield from _one_for_all(seen)
    if not growing:
        yield from _cpu_growing(seen)
    yield from costs(seen)


def _woken(seen: Observed) -> Iterator[Finding]:
    """Yield the controllers that a no-op trigger woke more often than there are objects."""
    for span in seen.spans:
        triggers = span.triggers
        if not triggers or WINDOW.fullmatch(span.phase.name) or triggered_itself(seen, span) is not None:
            continue
        if not seen.still(triggers_of(seen.contents, span.recorded)[0][0], QUIET_NS / 1e9):
            continue
        changed = {(one.resource, one.object) for one in seen.by_harness(span.start, span.end)}
        triggered = {resource for resource, _ in changed}
        # Of several objects each wakes its own: so often all objects of a kind may have been woken.
        rounds = max(1.0, triggers / max(1, len(changed)))
        objects = {row.controller: row.objects for row in span.phase.reconciles}
        woken: dict[str, tuple[int, float]] = {}
        for controller, count in caused_by_triggers(seen, span).items():
            own = objects[controller]
            if own is None or controller in seen.go_on:
                continue
            itself = any(is_of(controller, resource) for resource in triggered)
            of_kind = sum(is_of(controller, resource) for resource, _ in changed)
            asked = of_kind * rounds if itself else own * rounds
            if count > (_OF_TRIGGERED if itself else _PER_OBJECT) * asked and count >= asked + _FEWEST:
                woken[controller] = count, asked
        if not woken:
            continue
        ordered = sorted(woken.items(), key=lambda one: -one[1][0])
        named = ", ".join(f"{count:,} of {controller}, not {asked:,.0f}" for controller, (count, asked) in ordered)
        controller, (_, asked) = ordered[0]
        yield Found(
            id=ID,
            severity="waste",
            about=About(aspect=Aspect.AMOUNT, times=[(span.start, span.end)]),
            text=f"{triggers:,} no-op trigger{'s' * (triggers != 1)} in {span.phase.name} made more reconciles than one"
            f" for each object: {named}",
            check=f'reconciles("{span.phase.name}", "{controller}", max={asked:.0f})',
        )
        return


def _woken_by_one(seen: Observed) -> Iterator[Finding]:
    """Yield the touched object that woke the most objects which have nothing to do with it."""
    worst: tuple[bool, int, Finding] | None = None
    loops = any(span.triggers and triggered_itself(seen, span) is not None for span in seen.spans)
    for touch in seen.touches:
        family = {life.uid: life for life in (*seen.family(touch.life), *seen.naming(touch.life))}
        # What changes of its own children, as in a rollout, wakes it again.
        again = sum(len(life.between(touch.start, touch.end)) for life in family.values())
        # So does what the operator writes at quiet times as well: a heartbeat in a status.
        again += sum(
            one.changes and (one.what, one.object) in seen.repeated_at_quiet
            for one in seen.requests_in(touch.start, touch.end)
        )
        reconciled = [
            (what, kinds, count - again, done, timers) for what, kinds, count, done, timers in _reconciled(seen, touch)
        ]
        for what, resources, count, done, timers in [*reconciled, *_requested(seen, touch)]:
            there = [life for resource in resources for life in seen.lives[resource] if life.exists(touch.start)]
            own = sum(life.uid in family for life in there)
            if loops and count > _AGAIN * len(there):
                continue  # what each object asks for again and again, `noop_work` reports
            few = len(there) < _MANY or own > len(there) / 2 or count < max(_WOKEN, _OF_ALL * len(there))
            if few or count <= _OF_TOUCHED * own or (worst and (not timers, count) <= worst[:2]):
                continue
            found = Found(
                id=ID,
                severity="note" if timers else "waste",
                about=About(aspect=Aspect.AMOUNT, times=[(touch.start, touch.end)]),
                text=_went_through_all(seen, touch, reconciled)
                or f"a change of an annotation of one of the {touch.life.resource} {done} {count:,} {what}; there"
                f" are {len(there):,} such objects, "
                + (
                    f"and it has to do with {own:,} of them"
                    if touch.life.uid in seen.known
                    else "which each change of such an object wakes: a kubelet writes its node every few minutes"
                ),
                evidence=(
                    f"{touch.life.name}, while nothing else changed",
                    *(["they end with RequeueAfter: timers that all ran out just then would look the same"] * timers),
                ),
            )
            worst = not timers, count, found
    if worst is not None:
        yield worst[2]


def _went_through_all(
    seen: Observed, touch: Touch, reconciled: Sequence[tuple[str, Sequence[str], int, str, bool]]
) -> str:
    """Return in words that all objects of several controllers were reconciled within a touch; empty otherwise.

    One object wakes those of one controller; what goes through all of them just then is a timer of the caches.
    """
    through: dict[str, int] = {}
    for what, resources, count, _, timers in reconciled:
        there = sum(life.exists(touch.start) for resource in resources for life in seen.lives[resource])
        if not timers and _MANY <= there <= count:
            through[what] = count
    if len(through) < _CONTROLLERS:
        return ""
    return (
        f"within a second, in which the test changed no more than an annotation of one of the {touch.life.resource},"
        f" there were {listed([f'{count:,} {what}' for what, count in through.items()])}: the operator goes through all"
        " objects of all its controllers by itself, as with a resync period of its caches"
    )


def _reconciled(seen: Observed, touch: Touch) -> Iterator[tuple[str, Sequence[str], int, str, bool]]:
    """Yield (in words, resources, how many reconciles, …) for each controller after a touch, by the scrapes around it.

    Last whether those that end with a RequeueAfter are among them, as where none came in quiet times.
    """
    target = seen.target
    if target is None:
        return
    before = max((scrape for scrape, one in enumerate(target.moments) if one.at <= touch.start), default=None)
    after = max(
        (scrape for scrape, one in enumerate(target.moments) if touch.start < one.at <= touch.end), default=None
    )
    if before is None or after is None:
        return
    quiet, quiet_s = seen.quiet_reconciles
    lasts_s = (target.moments[after].at - target.moments[before].at) / 1e9
    for timers, counted in ((False, _is_asked), (True, _is_no_retry)):
        for controller, count in seen.reconciles_between(before, after, counted).items():
            anyway = quiet[controller] * lasts_s > _ANYWAY * count * quiet_s > 0
            if not anyway and controller not in seen.go_on and not (timers and quiet[controller]):
                yield f"reconciles of {controller}", seen.reconciled_by(controller), count, "made", timers


def _is_asked(result: str) -> bool:
    return result not in OWN_TIMERS


def _is_no_retry(result: str) -> bool:
    return result not in _RETRIES


def _requested(seen: Observed, touch: Touch) -> Iterator[tuple[str, Sequence[str], int, str, bool]]:
    """Yield (in words, resource, how many objects, …) that the operator read or wrote after a touch, one by one."""
    asked: dict[str, set[ObjectId]] = defaultdict(set)
    for one in seen.requests_in(touch.start, touch.end):
        if one.name and (one.what, one.object) not in seen.repeated_at_quiet:
            asked[one.resource].add(one.object)
    for resource, objects in asked.items():
        if resource in seen.lives:
            yield resource, [resource], len(objects), "made the operator ask for, or write,", False


def _out_of_proportion(seen: Observed) -> Iterator[Finding]:
    """Yield the phase in which most reconciles were made for each change of any object."""
    worst: tuple[float, Finding] | None = None
    for span in seen.spans:
        changes = seen.changes.count(span.start, span.end)
        existing = seen.existing(span.start, span.end)
        # In a phase that changes little, as triggers do, each change may concern all objects.
        if span.phase.outcome != "passed" or changes < max(_CHANGES, existing / 2):
            continue
        watched = _watched(seen, span, changes)
        # What takes longer is looked at more often by one that asks again and again while it waits.
        least = _PER_CHANGE * (_BESIDE_OTHERS if seen.contended(span) else 1)
        for controller, count in by_controller(span.phase).items():
            rows = [row for row in span.phase.reconciles if row.controller == controller]
            of_kind = rows[0].objects or seen.objects_reconciled(controller)
            own = sum(row.count for row in rows if row.result in OWN_TIMERS)
            if rows[0].source == "work-queue":
                own = count
            asked = count - min(own, math.ceil(of_kind * span.phase.seconds))
            per_change = asked / max(_CHANGES, watched)
            if per_change > least and asked > _PER_EXISTING * existing and (not worst or per_change > worst[0]):
                worst = (
                    per_change,
                    Found(
                        id=ID,
                        severity="waste",
                        about=About(aspect=Aspect.AMOUNT, times=[(span.start, span.end)]),
                        text=f"each change that it watches in {span.phase.name} made {per_change:.3g} reconciles of"
                        f" {controller}: {count:,} for {watched:,} changes of {existing:,} objects",
                        check=f'reconciles("{span.phase.name}", "{controller}", max=…, per_object=True)',
                    ),
                )
    if worst is not None:
        yield worst[1]


def _watched(seen: Observed, span: Span, changes: int) -> int:
    """Return how many of a phase's changes were of kinds that the operator watches; all where that is not known.

    Watches that were opened before the recording are in no log of it, but those that end and are opened again.
    """
    watches = seen.watched_by_operator if seen.open_watches(seen.begin) else ()
    return sum(one.resource in watches for one in seen.changes.between(span.start, span.end)) if watches else changes


class _Interval(NamedTuple):
    """The time between two scrapes, or two reads of the CPU clock."""

    amount: float
    """Reconciles, or ms."""
    changes: int
    objects: int

    @property
    def per_change(self) -> float:
        return self.amount / self.changes


def _growing(seen: Observed) -> Iterator[Finding]:
    """Yield the controller whose reconciles for each change grow with the number of objects, within the run."""
    if seen.target is None:
        return
    completed = sorted(one.completed for one in seen.all_requests if one.changes)
    for controller in sorted(set(seen.reconcile_counters.values())):
        intervals = [
            one
            for one in _intervals(seen, controller, completed)
            if one.changes >= _CHANGES and one.objects and one.amount
        ]
        if len(intervals) < _INTERVALS:
            continue
        first, last = _thirds(intervals)
        few, many = _together(first), _together(last)
        if _grows(first, last, least=_PER_CHANGE):
            yield Found(
                id=ID,
                severity="waste",
                about=About(aspect=Aspect.AMOUNT),
                text=f"reconciles of {controller} grow faster than the objects: {few:.3g} for each change with up to"
                f" {first[-1].objects:,} objects, {many:.3g} with {last[0].objects:,} and more",
                check=f'scales("reconciles:{_phase(seen)}")',
            )
            return


def _phase(seen: Observed) -> str:
    return max(seen.spans, key=lambda span: sum(row.count for row in span.phase.reconciles)).phase.name


def _together(intervals: Sequence[_Interval]) -> float:
    return sum(one.amount for one in intervals) / sum(one.changes for one in intervals)


def _intervals(seen: Observed, controller: str, completed: Sequence[int]) -> Iterator[_Interval]:
    """Yield the times between scrapes within a phase in which objects became no fewer.

    ``completed``: when all writes were answered, in order.
    """
    target = seen.target
    if target is None:
        return
    series = [name for name, of in seen.reconcile_counters.items() if of == controller]
    came, went = seen.came, seen.went
    kind = seen.objects_reconciled(controller)
    phases = {span.phase.name for span in seen.spans if not span.phase.triggers}
    for scrape in range(1, len(target.moments)):
        before, now = target.moments[scrape - 1], target.moments[scrape]
        if (
            before.phase != now.phase
            or now.phase not in phases
            or bisect_left(went, now.at) > bisect_left(went, before.at)
        ):
            continue
        grown = own = 0.0
        for name in series:
            by = target.grown(name, scrape - 1, scrape)
            grown += by
            own += by if parse(name).labels.get("result", "requeue_after") in OWN_TIMERS else 0.0
        asked = grown - min(own, kind * (now.at - before.at) / 1e9)
        if grown >= 0:
            yield _Interval(
                max(0.0, asked),
                bisect_left(completed, now.at) - bisect_left(completed, before.at),
                bisect_left(came, now.at) - bisect_left(went, now.at),
            )


def _cpu_growing(seen: Observed) -> Iterator[Finding]:
    """Yield that the CPU time for each change grows with the objects: each reconcile looks at all of them."""
    times = sorted(one.completed for one in seen.all_requests if one.changes)
    spans = [span for span in seen.spans if not span.triggers and not seen.slowed(span)]
    intervals = []
    for before, now in pairwise(seen.contents.reads.get(OPERATOR, [])):
        inside = any(span.start <= before.at and now.at <= span.end for span in spans)
        fewer = bisect_left(seen.went, now.at) > bisect_left(seen.went, before.at)
        changes = bisect_left(times, now.at) - bisect_left(times, before.at)
        objects = bisect_left(seen.came, now.at) - bisect_left(seen.went, now.at)
        if inside and not fewer and before.pid == now.pid and changes >= _CHANGES and objects:
            intervals.append(_Interval((now.cpu_ns - before.cpu_ns) / 1e6, changes, objects))
    if len(intervals) < _INTERVALS:
        return
    first, last = _thirds(intervals)
    few, many = _together(first), _together(last)
    if _grows(first, last, least=_CPU_MS):
        yield Found(
            id=ID,
            severity="note",
            about=About(aspect=Aspect.AMOUNT),
            text=f"the operator's CPU time for each change grows with the objects: {few:.2g} ms with up to"
            f" {first[-1].objects:,} of them, {many:.2g} ms with {last[0].objects:,} and more",
            evidence=("a reconcile that looks at all objects of a kind costs as many times as much as there are more",),
            check=f'scales("cpu:{_phase(seen)}")',
        )


def _thirds(intervals: Sequence[_Interval]) -> tuple[list[_Interval], list[_Interval]]:
    """Return the times with the fewest objects, and those with the most."""
    ordered = sorted(intervals, key=lambda one: one.objects)
    third = max(1, len(ordered) // 3)
    return ordered[:third], ordered[-third:]


def _grows(first: Sequence[_Interval], last: Sequence[_Interval], *, least: float) -> bool:
    """Return whether each change takes more with more objects. ``least``: of those with most, from which it matters."""
    many = _together(last)
    # Not one interval of many: each of them.
    always = min(one.per_change for one in last) > max(one.per_change for one in first)
    spread = last[-1].objects >= _SPREAD * first[0].objects
    return spread and many >= max(least, _GROWN * _together(first)) and always


def _one_for_all(seen: Observed) -> Iterator[Finding]:
    """Yield the object without children that was written for each of the workload's, in the phase that applied them."""
    applied: dict[str, set[ObjectId]] = defaultdict(set)
    for span in seen.spans:
        for one in seen.by_harness(span.start, span.end):
            if one.created:
                applied[one.resource].add(one.object)
        resource = max(applied, key=lambda of: len(applied[of]), default="")
        writes = Counter(
            (one.resource, one.object)
            for one in seen.requests_in(span.start, span.end)
            if one.changes and one.name and one.updates
        )
        if not writes or span.triggers or len(applied.get(resource, ())) < _MANY:
            continue
        ((of, which), often), each = writes.most_common(1)[0], median(writes.values())
        shared = not any(seen.children.get(life.uid) for life in seen.of_name.get((of, which), ()))
        number = len(applied[resource])
        if shared and often >= max(_WRITES_FOR_EACH * number, _MANY * each) and which not in applied[of]:
            wrote = [one for one in seen.requests_in(span.start, span.end) if one.changes and one.object == which]
            yield Found(
                id=ID,
                severity="note",
                about=About(aspect=Aspect.ACTION, requests=[one for one in wrote if one.resource == of]),
                text=f"in {span.phase.name} the operator wrote one of the {of}, {which[1]}, {often:,} times,"
                f" {often / number:.2g} for each of {number:,} {resource}: all who watch it are woken each time",
                evidence=(f"most objects that it wrote were written {each:.3g} times",),
                check=f'api_requests(phase="{span.phase.name}", resource="{of}", max=…)',
            )
            return


def _after_the_end(seen: Observed) -> Iterator[Finding]:
    """Yield the controllers that went on reconciling objects of their kind after the last of them was gone."""
    target = seen.target
    if target is None or not seen.workload_gone:
        return
    # Each object that goes may wake its owner, and children go after it: the last of all kinds counts.
    before = bisect_left(seen.went, seen.end)
    if not before:
        return
    gone = seen.went[before - 1]
    for controller in sorted(set(seen.reconcile_counters.values())):
        lives = [life for resource, of in seen.lives.items() for life in of if is_of(controller, resource)]
        if not lives or any(life.exists(seen.end) for life in lives):
            continue
        scrapes = [index for index, one in enumerate(target.moments) if gone + _SETTLE_NS <= one.at < seen.end]
        if len(scrapes) < 2:
            continue
        more = sum(
            target.grown(name, scrapes[0], scrapes[-1])
            for name, of in seen.reconcile_counters.items()
            if of == controller
        )
        if more >= _FEWEST and more > len(lives):
            seconds = (target.moments[scrapes[-1]].at - target.moments[scrapes[0]].at) / 1e9
            yield Found(
                id=ID,
                severity="waste",
                about=About(aspect=Aspect.AMOUNT, requests=seen.requests_in(gone, seen.end), times=[(gone, seen.end)]),
                text=f"{controller} went on reconciling after the last of its {len(lives):,} objects was gone:"
                f" {more:,.0f} times in {seconds:.1f} s",
                check="hot_loop()",
            )
