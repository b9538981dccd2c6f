"""What the operator does for one object, step by step: pauses between the steps, children that wait for each other.

A stream of all requests hides both where several objects are worked on at once. So requests are put together by the
object that they are for (its children's owner, or the object that their names begin with), and the distances between
those that follow each other are compared over all such objects. What others changed of one of them in between (a pod
that became Ready, a status) may be what the operator waited for, and so may a change of another object that it names: a
pause begins after that. `pacing` yields what is found.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from operator import attrgetter
from statistics import median, quantiles
from typing import NamedTuple

from ...recording.conditions import READY_PATH
from ..result import Finding
from .evidence import Life, ObjectId, Sent, Span, Window, form
from .grouping import Found, of_time
from .observed import AGAIN, Observed

STEADY = 0.6
"""Share of the median distance that nine of ten have to have at least."""

BESIDE_OTHERS_S = 0.1
_AS_WAITS_EXPLAIN = 3.0
"""Pause that counts on a machine that others slow, s, and as a multiple of what a request waits for a core there."""

SERIAL = 0.9
"""Share of requests that have to follow the ones before."""

_PAUSE_S = 0.05
_GAPS = 10
"""Shortest pause on a quiet machine, s, and how many between two kinds of steps are compared."""
_GATHERED_S = 0.15
"""Time after an event within which an operator may wait for more of them, to see to all at once, s."""

_UNDER_WAY = 0.5
"""Requests under way on average, as a share of the most at once, up to which there are workers that could go on."""

_FULL, _ASKING = 0.75, 0.4
"""Share of a controller's workers that are busy from which on what is next waits in its queue; and share of the time of
all that are busy in which requests are under way, by the API server's clock, from which on they wait for its answers.
"""

_AFTER_GONE_S = 0.02
_DELETIONS = 10
"""Time from a deletion's answer to the next one from which on it waited, s, and how many of these there have to be."""
_PAIR, _PAIR_S = 2, 0.3
"""Of two children one may be deleted first, to see whether it can be: that counts from this time on, s."""
_SHOWN = 3


class Step(NamedTuple):
    """Requests of the operator, in a row, for one object, or for one that is part of it; ns of the recorder's clock."""

    request: Sent
    """The one that makes or deletes what it names, if any of them does."""
    life: Life
    """What they name."""
    acts: bool
    """Whether one of them made or deleted something that is part of the object."""
    start: int
    end: int


class _Pause(NamedTuple):
    """The time before a step in which nothing changed of what it is for."""

    owner: str
    start: int
    before: Step

    @property
    def seconds(self) -> float:
        return (self.before.start - self.start) / 1e9

    def after(self, news: Sequence[int]) -> _Pause:
        """Return the part of it after the last of these moments."""
        last = bisect_right(news, self.before.start)
        return self._replace(start=max(self.start, news[last - 1])) if last else self

    def gathers(self, whole: _Pause) -> bool:
        """Return whether this, the part after an event, is as short as a wait for further events."""
        return self.start > whole.start and self.seconds <= _GATHERED_S


Steps = Mapping[str, Sequence[Step]]
"""UID → the steps for one object, in order."""


def steps_in(seen: Observed, span: Span) -> Steps:
    """Return the operator's steps of a phase, by the object that they are for."""
    found: dict[str, list[Step]] = defaultdict(list)
    for one in sorted(seen.requests_in(span.start, span.end), key=attrgetter("received")):
        life = _named(seen, one)
        if life is None:
            continue
        # What goes away each time is no deployment.
        made = one.created and not one.subresource and seen.creations[one.resource, one.object] < AGAIN
        acts = made or (one.verb == "delete" and not one.refused)
        if owner := seen.part_of(life):
            _add(found[owner], Step(one, life, acts, one.received, one.completed))
        _add(found[life.uid], Step(one, life, False, one.received, one.completed))
    return {uid: steps for uid, steps in found.items() if any(step.acts for step in steps)}


def _add(steps: list[Step], step: Step) -> None:
    """Add a request to the steps before: to the last one where it names the same, as a look before a write does."""
    last = steps[-1] if steps else None
    if last is None or last.life is not step.life or (last.acts and step.acts):
        steps.append(step)
        return
    request = step.request if step.acts else last.request
    steps[-1] = Step(request, last.life, last.acts or step.acts, last.start, max(last.end, step.end))


def _named(seen: Observed, one: Sent) -> Life | None:
    """Return the object that a request names, of those that had the name in turn."""
    lives = seen.of_name.get((one.resource, one.object), ()) if one.name else ()
    after = bisect_right(lives, one.completed, key=attrgetter("begun"))
    near = lives[max(0, after - 1) : after + 1]
    if one.created:
        return min(near, key=lambda life: abs(life.begun - one.completed), default=None)
    return near[0] if near else None


def least_pause_s(seen: Observed, span: Span, quiet_s: float) -> float:
    """Return the length from which on a distance between requests is a pause that the operator makes itself, s.

    ``quiet_s``: on a quiet machine. Else it has to be far from what waiting for a core explains.
    """
    return max(quiet_s, BESIDE_OTHERS_S, as_waits_explain_s(seen, span)) if seen.slowed(span) else quiet_s


def as_waits_explain_s(seen: Observed, span: Span) -> float:
    """Return the length up to which a distance between requests may be a wait for a core, s."""
    return _AS_WAITS_EXPLAIN * seen.held_up_each(span)


def is_pause(seen: Observed, span: Span, seconds: Sequence[float], quiet_s: float, working: float) -> bool:
    """Return whether distances are a pause: nearly all near the median, and long also without the operator's work.

    ``quiet_s``: as of `least_pause_s`; ``working``: cores that the operator used or waited for meanwhile.
    """
    least = quantiles(seconds, n=10)[0]
    far = least >= least_pause_s(seen, span, quiet_s) and least * (1 - min(1.0, working)) >= quiet_s
    return far and least >= STEADY * median(seconds)


def paced(seen: Observed, span: Span, steps: Steps) -> Iterator[tuple[float, Finding]]:
    """Yield the pauses that the operator makes between its steps for each of several objects, with their seconds."""
    if seen.rate_limited(span):
        return
    pairs: dict[tuple[str, str], list[_Pause]] = defaultdict(list)
    for uid, of_one in steps.items():
        for before, step in pairwise(of_one):
            # From an object's own creation to its first step it waits for an event, and in a queue.
            if step.acts and not (before.life.uid == uid and before.request.created):
                pairs[before.request.what, step.request.what].append(_Pause(uid, before.end, step))
    found: dict[tuple[str, str], list[_Pause]] = {}
    news: dict[str, Sequence[int]] = {}
    for pair, those in pairs.items():
        if _are_pauses(seen, span, those):
            for owner in {one.owner for one in those} - news.keys():
                news[owner] = _news(seen, owner)
            since = [later for one in those if not (later := one.after(news[one.owner])).gathers(one)]
            if _are_pauses(seen, span, since):
                found[pair] = since
    if not found:
        return
    each = Counter(one.owner for those in found.values() for one in those)
    total: dict[str, float] = defaultdict(float)
    for those in found.values():
        for one in those:
            total[one.owner] += one.seconds
    lasts = median(total.values())
    longest = sorted(found.items(), key=lambda one: -sum(pause.seconds for pause in one[1]))
    where = ", ".join(
        f"{median(one.seconds for one in those):.2g} s before {what}" for (_, what), those in longest[:_SHOWN]
    )
    kinds = Counter(life.resource for uid in each if (life := seen.known.get(uid)) is not None)
    kind = kinds.most_common(1)[0][0] if kinds else "objects"
    start = min(one.start for those in found.values() for one in those)
    end = max(one.before.start for those in found.values() for one in those)
    yield (
        lasts,
        Found(
            id="pacing",
            severity="waste",
            about=of_time(span, [one.before.request for those in found.values() for one in those]),
            text=f"in {span.phase.name} the operator works for each of {len(each):,} {kind} one step at a time, with"
            f" pauses: {where}; {lasts:.2g} s for each of them, in which nothing else of it changed",
            evidence=(
                f"{sum(map(len, found.values())):,} pauses, as of a sleep, a look after a fixed time, or a rate limit;"
                f" {_idle(seen.working(start, end))}",
                *explained(seen, span),
            ),
        ),
    )


def _are_pauses(seen: Observed, span: Span, those: Sequence[_Pause]) -> bool:
    """Return whether the operator pauses between two kinds of steps."""
    if len(those) < _GAPS:
        return False
    window = Window(span.phase.name, min(one.start for one in those), max(one.before.start for one in those))
    seconds, working = [one.seconds for one in those], seen.working(window.start, window.end)
    far = quantiles(seconds, n=10)[0] >= as_waits_explain_s(seen, span)
    if not far or not is_pause(seen, span, seconds, _PAUSE_S, working):
        return False
    # Where all workers wait for the API server, what is next waits in a queue.
    under_way = seen.under_way(window)
    return under_way <= _UNDER_WAY * _most_at_once(seen, window) and not all_ask(span, window, under_way)


def all_ask(span: Span, window: Window, under_way: float) -> bool:
    """Return whether all workers of a controller were at work in a time, by its own metrics, and mostly asked.

    ``under_way``: how many of the operator's requests were, on average.
    """
    rows = [row for row in span.phase.workers if row.workers and row.busy_workers is not None]
    per_window = span.phase.seconds / window.seconds
    busy = [(row.workers or 0, (row.busy_workers or 0.0) * per_window) for row in rows]
    full = any(at_work >= _FULL * workers for workers, at_work in busy)
    return full and under_way >= _ASKING * sum(min(*each) for each in busy)


def _most_at_once(seen: Observed, window: Window) -> int:
    """Return how many of the operator's requests were under way at once in a time, at most."""
    ends: list[int] = []
    most = 0
    for one in sorted(seen.within(window), key=attrgetter("received")):
        if one.verb != "watch":
            while ends and ends[0] <= one.received:
                heapq.heappop(ends)
            heapq.heappush(ends, one.completed)
            most = max(most, len(ends))
    return most


def _news(seen: Observed, uid: str) -> Sequence[int]:
    """Return when something happened to an object, or below it, that the operator may have waited for, in order.

    Of what it names that is no part of it also when the operator wrote to that, as the status of another kind of its.
    """
    owner = seen.known.get(uid)
    if owner is None:
        return ()
    lives = [owner, *seen.below(owner)]
    return sorted([*_changes(seen, lives), *changes_of_named(seen, owner)])


def _changes(seen: Observed, lives: Sequence[Life]) -> Iterator[int]:
    """Yield when others wrote to some objects, and when these became Ready or went."""
    yield from (one.completed for life in lives for one in life.writes if one.user != seen.operator)
    yield from moments(lives)


def changes_of_named(seen: Observed, life: Life) -> Iterator[int]:
    """Yield when something happened to an object that another one names, and is no part of, or below it."""
    family = {one.uid for one in seen.family(life)}
    for named in seen.named_by(life):
        if named.uid not in family:
            yield from (one.completed for one in named.writes)
            yield from _changes(seen, [named, *seen.below(named)])


def moments(lives: Iterable[Life]) -> list[int]:
    """Return when objects became Ready, or were gone, in order: what a next step may wait for by design."""
    return sorted(
        event.at
        for life in lives
        for before, event in pairwise(life.events)
        if event.change == "deleted" or before.fields.get(READY_PATH) != event.fields.get(READY_PATH) == "True"
    )


def serial_deletions(seen: Observed, span: Span, steps: Steps) -> Iterator[tuple[float, Finding]]:
    """Yield children of one kind that the operator deletes one after the other for each owner that goes, with seconds.

    Each waits until the one before is gone; all at once would take as long as one.
    """
    if seen.rate_limited(span):
        return
    kinds: dict[str, list[list[Step]]] = defaultdict(list)
    for uid, of_one in steps.items():
        owner = seen.known.get(uid)
        deleted: dict[str, dict[ObjectId, Step]] = defaultdict(dict)
        for step in of_one:
            if step.acts and step.request.verb == "delete":
                deleted[step.life.resource].setdefault(step.life.object, step)
        for resource, firsts in deleted.items():
            order = list(firsts.values())
            goes = owner is not None and owner.leaves_at is not None and owner.leaves_at <= order[-1].start
            if len(order) > 1 and goes:
                kinds[resource].append(order)
    for resource, orders in kinds.items():
        if sum(descending([step.request for step in order]) for order in orders) >= SERIAL * len(orders):
            continue
        serial = [order for order in orders if waits_until_gone(order)]
        gaps = [(after.start - before.request.completed) / 1e9 for order in serial for before, after in pairwise(order)]
        if len(gaps) < _DELETIONS or len(serial) < SERIAL * len(orders):
            continue
        start, end = min(order[0].start for order in serial), max(order[-1].end for order in serial)
        working = seen.working(start, end)
        # That the one before went in each of these times, contention does not bring about.
        middle = median(gaps)
        if middle < seen.held_up_each(span) or middle * (1 - min(1.0, working)) < _AFTER_GONE_S:
            continue
        lasts = median((order[-1].end - order[0].start) / 1e9 for order in serial)
        number = round(median(map(len, serial)))
        if number == _PAIR and lasts < _PAIR_S:
            continue
        of = f"{number:,} {resource} of each of {len(serial):,} owners" if len(serial) > 1 else f"{number:,} {resource}"
        yield (
            lasts,
            Found(
                id="pacing",
                severity="waste",
                about=of_time(span, [step.request for order in serial for step in order]),
                text=f"in {span.phase.name} the operator deleted the {of} that {form(len(serial), 'goes', 'go')} one"
                f" after the other, each when the one before was gone: {lasts:.2g} s for each, and"
                f" {middle:.2g} s from an answer to the next deletion",
                evidence=(
                    f"{len(gaps):,} deletions waited; {_idle(working)}",
                    *explained(seen, span),
                ),
                check='phase.milestone("gone", …, max=…)',
            ),
        )


def waits_until_gone(order: Sequence[Step]) -> bool:
    """Return whether deletions follow each other, each right after the object before went, and not before.

    What is gone when its deletion is answered is waited for by no one.
    """
    waits = 0
    for before, after in pairwise(order):
        gone = before.life.gone_at
        # Its last write took it away: a watch shows that later.
        last = max(before.life.writes, key=attrgetter("completed"), default=None)
        seen = [] if gone is None else [(gone, gone)]
        took = [(last.received, last.completed)] if gone is not None and last is not None else []
        answered = before.request.completed
        waits += any(answered < latest and at <= after.start for at, latest in (*seen, *took))
    return waits >= SERIAL * (len(order) - 1)


def descending(order: Sequence[Sent]) -> bool:
    """Return whether objects with ordinals are taken from the last to the first, as by design."""
    numbers = [int(tail) for one in order if (tail := one.name.rpartition("-")[2]).isdecimal()]
    return len(numbers) == len(order) and numbers == sorted(numbers, reverse=True)


def _idle(working: float) -> str:
    return f"in {1 - min(1.0, working):.0%} of the time the operator neither ran nor waited for a core"


def explained(seen: Observed, span: Span) -> Iterator[str]:
    """Yield how long other programs held a request up, on a machine that they slow."""
    if seen.slowed(span):
        yield f"other programs held each request up by {seen.held_up_each(span) * 1e3:.3g} ms on average"
