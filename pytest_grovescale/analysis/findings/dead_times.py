"""Times in which nothing happens although there is work to do: a timer where an event should be.

A fixed delay before the first reconcile, a poll for readiness every few seconds, an event that was missed and is made
up for by a resync: each looks the same from outside. Nothing changes, nothing runs, and then the operator goes on by
itself. At any size it adds its length to each deployment, and to each recovery.
(Watches deliver each change: https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes)

No false alarm: only before a phase's last milestone, in phases that passed and that no trigger makes; in that time the
operator neither ran nor waited for a core for more than half of it, nothing else slowed it down, its client's own rate
limit took no part, and no object was written; what ended it was the operator itself. An object's first second counts
where it is the least of five objects or more, so that no queue explains it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise
from statistics import median, quantiles
from typing import NamedTuple

from ..result import Finding
from . import pacing
from .evidence import Life, Sent, Span, changed_paths, is_news
from .grouping import Found, of_time
from .observed import Observed, matters
from .owner_steps import changes_of_named

ID = "dead-time"

_LEAST_S = 1.5
_LEAST_SLOWED_S = 5.0
_FIRST_S = 0.5
_FIRST_SLOWED_S = 2.0
_OBJECTS = 5
_WORKING = 0.25
"""Cores that it uses or waits for from which on an operator may be at work."""


class _Gap(NamedTuple):
    """A time without a write, ns of the recorder's clock."""

    start: int
    ended_by: Sent

    @property
    def seconds(self) -> float:
        return (self.ended_by.received - self.start) / 1e9

    def working(self, seen: Observed) -> float:
        return seen.working(self.start, self.ended_by.received)


def findings(seen: Observed) -> Iterator[Finding]:
    """Yield a finding for objects that wait for their first reconcile, else for the phases that stood still."""
    if not seen.operator or not seen.log_whole:
        return
    first = list(_first_acts(seen))
    yield from first
    if not first:
        yield from _gaps(seen)


def _first_acts(seen: Observed) -> Iterator[Finding]:
    """Yield the kinds of the workload's objects that the operator does nothing for at first, whichever it is."""
    waits: dict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
    number = Counter(one.resource for one in seen.by_harness(seen.begin, seen.end) if one.created)
    several = {resource for resource, count in number.items() if count >= _OBJECTS}
    lives = {life.key: life for of in several for life in seen.lives.get(of, ())}
    for span in seen.spans:
        if seen.rate_limited(span) or span.phase.outcome != "passed":
            continue
        applied = [one for one in seen.by_harness(span.start, span.end) if one.created]
        for one in applied:
            life = lives.get((one.resource, one.object))
            first = _first_act(seen, life, span) if life is not None else None
            if life is None or first is None or seen.was_absent(one.completed, first):
                continue
            # It may wait for another object that it names.
            free = max((at for at in changes_of_named(seen, life) if at <= first), default=0)
            waits[one.resource, span.phase.name].append((max(one.completed, free), first))
    for (resource, phase), found in sorted(waits.items()):
        span = next(one for one in seen.spans if one.phase.name == phase)
        if len(found) < _OBJECTS:
            continue
        seconds = [(first - made) / 1e9 for made, first in found]
        least = quantiles(seconds, n=10)[0]
        working = seen.working(min(made for made, _ in found), min(first for _, first in found))
        if least >= (_FIRST_SLOWED_S if seen.slowed(span) else _FIRST_S) and working < _WORKING:
            yield Found(
                id=ID,
                severity="waste",
                about=of_time(span),
                text=f"the operator writes nothing for {resource} in the first {median(seconds):.2g} s after they are"
                f" made (median of {len(found):,}, nine of ten {least:.2g} s and more): it waits for a timer, or polls",
                evidence=(f"in {phase}, up to the first of these it used {working:.2g} cores",),
                check='phase.milestone("…-created", …, max=…)',
            )
            return


def _first_act(seen: Observed, life: Life, span: Span) -> int | None:
    """Return when the operator first wrote an object, or made a child of it, in a phase."""
    times = [one.received for one in life.writes if one.user == seen.operator and span.start <= one.received < span.end]
    for child in seen.below(life):
        times += [one.received for one in child.writes if one.user == seen.operator and one.verb == "create"]
        times.append(child.begun)
    return min((at for at in times if at >= life.begun - 1_000_000_000), default=None)


def _gaps(seen: Observed) -> Iterator[Finding]:
    worst: tuple[float, Finding] | None = None
    for span in seen.spans:
        if span.phase.outcome != "passed" or span.triggers or not span.phase.milestones or seen.rate_limited(span):
            continue
        least = _LEAST_SLOWED_S if seen.slowed(span) else _LEAST_S
        long = [one for one in _still(seen, span) if one.seconds >= least]
        gaps = [one for one in long if one.working(seen) < _WORKING]
        total = sum(one.seconds for one in gaps)
        if not gaps or (worst is not None and total <= worst[0]):
            continue
        if seen.workload_deleted is not None and span.end > seen.workload_deleted and any(pacing.late(seen)):
            continue  # its finalizers stay: pacing says so
        longest = max(gaps, key=lambda one: one.seconds)
        several = f", {len(gaps):,} times, {total:.1f} s in all" if len(gaps) > 1 else ""
        missed = _changed_before(seen, longest.ended_by)
        worst = (
            total,
            Found(
                id=ID,
                severity="waste",
                about=of_time(span, [one.ended_by for one in gaps]),
                text=f"in {span.phase.name} nothing was written for {longest.seconds:.1f} s until the operator went on"
                f" by itself ({longest.ended_by.what}){several}: it waited for a timer, not for an event{missed}",
                evidence=(f"the phase lasted {span.phase.seconds:.1f} s; meanwhile {longest.working(seen):.2g} cores",),
                check=f'phase.milestone("…", …, max=…)  # of {span.phase.name}',
            ),
        )
    if worst is not None:
        yield worst[1]


def _changed_before(seen: Observed, sent: Sent) -> str:
    """Return what others had last changed below the object of a request, and when: an event to follow."""
    life = next((one for one in seen.of_name.get((sent.resource, sent.object), ()) if one.exists(sent.received)), None)
    changes = [
        (event.at, child.resource, paths)
        for child in (seen.below(life) if life is not None else ())
        if child.resource not in seen.status_written
        for event in child.events
        if event.at < sent.received and is_news(event) and (paths := changed_paths(event, "status"))
    ]
    if life is None or not changes:
        return ""
    at, resource, paths = max(changes)
    watched = "which it watches" if resource in seen.watched_by_operator else "which it does not watch"
    since = f"{(sent.received - at) / 1e9:.1f} s"
    return f"; {resource} below {life.name} had changed {since} before ({paths[0]}), {watched}"


def _still(seen: Observed, span: Span) -> Iterator[_Gap]:
    """Yield the times of a phase, up to its last milestone, without a write, that a write of the operator ended."""
    until = seen.reached(span)
    writes = [one for one in seen.changes.between(span.start, until) if matters(one)]
    last = 0
    for before, after in pairwise(writes):
        last = max(last, before.completed)
        own = after.user == seen.operator and after.received > last
        if own and not seen.was_absent(last, after.received):
            yield _Gap(last, after)
