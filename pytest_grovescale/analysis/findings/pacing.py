"""An operator that waits between two requests although nothing keeps it: pauses, one at a time, deletions that linger.

What an idle operator does not reconcile within seconds waits behind a delay that it chose, as one that grows with each
event. A pause or a private rate limit after each object makes a deployment's time proportional to its size, on any
machine. Deletions one at a time, each waiting for the one before, do the same at the end; and so do steps for one
object that are taken one by one, with a sleep between, and a finalizer that deletes one child and waits for it
(`owner_steps`). A finalizer that is looked at again after a fixed time, instead of when the last child is gone, holds
every object for that long.

No false alarm: a pause shows as a *least* distance between requests, which load only makes longer: nine of ten
distances have to be near the median, and the share of the time in which the operator did not run, or wait for a core,
has to leave a pause of them. Beside other programs that keep it or the API server from the cores, only a tenth of a
second and more counts, and three times what threads of both waited for a core, for each request. What waits for the
object before to become Ready (an ordered start), for any change by others, and ordinals from the last to the first, are
by design, and so is an update in steps, each of which deletes an object and makes another: that is a note; of deletions
for an owner only its own count, while it goes. Answers are slow where each takes a tenth of a second, and five times as
long as those of other kinds, of requests that stood alone, three of them: in a burst, writes that need more work wait
longer. A rate limit that the client's own metrics show is named by `workers`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise, zip_longest
from operator import attrgetter
from statistics import median, quantiles

from ..api_requests import triggers_of
from ..reconciles import is_of
from ..result import OPERATOR, Finding
from .evidence import FOREIGN_FINALIZERS, Life, Sent, Span, Window, of_kubernetes
from .grouping import About, Aspect, Found, of_time
from .observed import AGAIN, Observed
from .owner_steps import SERIAL, descending, is_pause, least_pause_s, moments, paced, serial_deletions, steps_in

ID = "pacing"

_WRITES = frozenset({"create", "update", "patch", "delete"})
_LEAST = 20
_PAUSE_S = 0.008
_LEAST_S = 1.0
_SHARE = 0.2
_WORKING = 0.5
"""Share of a core from which on an operator is busy."""
_SEVERAL = 2.0
"""Workers busy on average from which on one request at a time is none of each worker's own pause."""
_STEP_NS = 2_000_000_000
"""Time in which the last step of an update is done, ns."""
_LATE_S = 0.9
_LATE_BESIDE_OTHERS_S = 2.0
"""The same on a machine that others slow: the recorder's watch, of the same API server, had shown the children gone."""
_LATE_OBJECTS = 5
_UNDER_WAY = 0.5
"""Requests under way on average from which on an operator is at work."""
_ENOUGH_S = 5.0
"""Time after the last trigger within which an idle operator has reconciled what was triggered."""
_SERVED = 0.8
_LEAST_ANSWERS = 10
_SLOW_ANSWER_S = 0.1
_FASTER = 0.2


def findings(seen: Observed) -> Iterator[Finding]:
    """Yield a finding for paced requests, for serial deletions, and for finalizers that are removed late."""
    if not seen.operator or not seen.log_whole:
        return
    written = [(span, groups := _written(seen, span), list(_serial(seen, span, groups))) for span in seen.spans]
    for rule in (_paced, _one_by_one):
        yield from _longest(one for span, groups, serial in written for one in rule(seen, span, groups, serial))
    steps = [(span, steps_in(seen, span)) for span in seen.spans]
    for by_owner in (paced, serial_deletions):
        yield from _longest(one for span, of_span in steps for one in by_owner(seen, span, of_span))
    yield from late(seen)
    yield from _unserved(seen)
    yield from _slow_answers(seen)


def _longest(found: Iterable[tuple[float, Finding]]) -> Iterator[Finding]:
    """Yield the finding with the most seconds, if there is any."""
    yield from filter(None, [max(found, key=lambda one: one[0], default=(0.0, None))[1]])


def _slow_answers(seen: Observed) -> Iterator[Finding]:
    """Yield the kinds whose writes the API server takes long to answer, each of them, and others at once."""
    alone: dict[str, list[float]] = defaultdict(list)
    every: dict[str, list[float]] = defaultdict(list)
    sent = sorted((one for one in seen.all_requests if one.verb != "watch"), key=attrgetter("received"))
    free = 0  # when all requests before were answered
    for one, after in zip_longest(sent, sent[1:]):
        received, completed = one.received, one.completed
        by_itself = received >= free and (after is None or after.received >= completed)
        if one.changes and one.verb != "delete" and one.category == "object":
            every[one.what].append((completed - received) / 1e9)
            if by_itself:
                alone[one.what].append((completed - received) / 1e9)
        if completed > free:
            free = completed
    for what, times in sorted(every.items()):
        # A few that were sent while nothing else went on, or many, of which a busy server answers some at once.
        known = alone if len(times) < _LEAST else every
        slow = known[what]
        others = [seconds for other, those in known.items() if other != what for seconds in those]
        if len(slow) < AGAIN or len(others) < _LEAST_ANSWERS:
            continue
        least = min(slow)
        if least >= _SLOW_ANSWER_S and median(others) <= _FASTER * least:
            yield Found(
                id=ID,
                severity="waste",
                about=About(aspect=Aspect.TIME, requests=[one for one in seen.own_of([what]) if one.changes]),
                text=f"the API server took {least * 1e3:,.0f} ms and more to answer each of {len(slow):,} {what}, and"
                f" {median(others) * 1e3:,.0f} ms for other writes (median): a webhook for them is slow",
                evidence=("anyone who writes such an object waits for it",),
            )


def _unserved(seen: Observed) -> Iterator[Finding]:
    """Yield a controller that had not reconciled what was triggered when the phase ended, although nothing kept it."""
    for span in seen.spans:
        triggers = triggers_of(seen.contents, span.recorded)
        if (
            not triggers
            or seen.was_absent(span.start, span.end)
            or _busy(seen, span)
            or (span.end - triggers[-1][0]) / 1e9 < _ENOUGH_S
        ):
            continue
        objects = Counter(
            resource
            for resource, _ in {(one.resource, one.object) for one in seen.by_harness(triggers[0][0], span.end)}
        )
        for controller in {row.controller for row in span.phase.reconciles}:
            count = sum(row.count for row in span.phase.reconciles if row.controller == controller)
            asked = sum(number for resource, number in objects.items() if is_of(controller, resource))
            # None at all: a predicate rightly leaves out what changes nothing.
            if asked >= _LEAST and 0 < count < _SERVED * asked:
                seconds = (span.end - triggers[-1][0]) / 1e9
                yield Found(
                    id=ID,
                    severity="waste",
                    about=of_time(span),
                    text=f"{controller} reconciled {count:,} of {asked:,} triggered objects of {span.phase.name} within"
                    f" {seconds:.0f} s, and was idle meanwhile: the others wait for a delay of the operator's own",
                )
                return


def _busy(seen: Observed, span: Span) -> bool:
    return seen.slowed(span) or _working(span) > _WORKING


def _working(span: Span) -> float:
    """Return the share of a phase in which the operator ran or waited for a core; 1 where it is not known."""
    cpu = span.cpu(OPERATOR)
    return 1.0 if cpu is None else min(1.0, cpu.cores + (cpu.waiting_s or 0.0) / span.phase.seconds)


def _evidence(span: Span, least_s: float) -> str:
    idle = 1 - _working(span)
    return (
        f"nine of ten pauses are longer than {least_s * 1e3:.3g} ms; in {idle:.0%} of the time it neither ran nor"
        " waited for a core"
    )


def _written(seen: Observed, span: Span) -> dict[str, list[Sent]]:
    """Return verb and resource → the operator's writes in a phase, of those that it sent often."""
    found: dict[str, list[Sent]] = defaultdict(list)
    for one in seen.requests_in(span.start, span.end):
        if one.verb in _WRITES and not one.refused:
            found[one.what].append(one)
    return {what: sent for what, sent in found.items() if len(sent) >= _LEAST}


def _paced(
    seen: Observed, span: Span, written: Mapping[str, list[Sent]], serial: Sequence[list[Sent]]
) -> Iterator[tuple[float, Finding]]:
    if seen.rate_limited(span):
        return
    updates = [order for order in serial if _replaced(order, written)]
    for what, sent in written.items():
        lasts = (sent[-1].completed - sent[0].received) / 1e9
        if lasts < max(_LEAST_S, _SHARE * span.phase.seconds) or any(_belongs(sent, order) for order in updates):
            continue
        pauses = [(after.received - before.completed) / 1e9 for before, after in pairwise(sent)]
        least, middle = quantiles(pauses, n=10)[0], median(pauses)
        if not is_pause(seen, span, pauses, _PAUSE_S, _working(span)):
            continue
        if not _follows(sent, seen.lives.get(sent[0].resource, ())):
            yield (
                lasts,
                Found(
                    id=ID,
                    severity="waste",
                    about=of_time(span, sent),
                    text=f"in {span.phase.name} the operator sent {len(sent):,} {what} one at a time,"
                    f" {middle * 1e3:.3g} ms after the answer to the one before, for {lasts:.1f} s: {_why_one(span)}",
                    evidence=(_evidence(span, least),),
                ),
            )


def _belongs(sent: Sequence[Sent], order: Sequence[Sent]) -> bool:
    """Return whether most of some requests were sent while objects were replaced one at a time."""
    start, end = order[0].received, order[-1].completed + _STEP_NS
    return sum(start <= one.received <= end for one in sent) >= SERIAL * len(sent)


def _why_one(span: Span) -> str:
    """Return what may let one request through at a time: where several workers are busy, what they share."""
    busy = [row for row in span.phase.workers if row.workers and (row.busy_workers or 0.0) >= _SEVERAL]
    if not busy:
        return "a pause, or a rate limit of its own"
    most = max(busy, key=lambda row: row.busy_workers or 0.0)
    number = min(round(most.busy_workers or 0.0), most.workers or 0)
    return (
        f"{number} of {most.workers} workers of {most.controller} were busy meanwhile, and waited for a lock or a"
        " limit that they share"
    )


def _follows(sent: Sequence[Sent], lives: Iterable[Life]) -> bool:
    """Return whether most of these came right after one of some objects had become Ready, or was gone."""
    at = moments(lives)
    after = sum(bisect_right(at, before.completed) < bisect_right(at, one.received) for before, one in pairwise(sent))
    return after >= SERIAL * (len(sent) - 1)


def _one_by_one(
    seen: Observed, span: Span, written: Mapping[str, list[Sent]], serial: Sequence[list[Sent]]
) -> Iterator[tuple[float, Finding]]:
    """Yield a kind whose objects are deleted one after the other, whatever they are for."""
    for order in serial:
        lasts = (order[-1].completed - order[0].received) / 1e9
        middle = median((after.received - before.completed) / 1e9 for before, after in pairwise(order))
        idle = 1 - min(1.0, seen.working(order[0].received, order[-1].completed))
        if middle * idle >= least_pause_s(seen, span, _PAUSE_S):
            in_steps = _replaced(order, written)
            did, when, then = ("replaced", "done", "updated") if in_steps else ("deleted", "gone", "gone")
            yield (
                lasts,
                Found(
                    id=ID,
                    severity="note" if in_steps else "waste",
                    about=of_time(span, order),
                    text=f"in {span.phase.name} the operator {did} {len(order):,} {order[0].resource} one after the"
                    f" other, each when the one before was {when}: {lasts:.1f} s",
                    check=f'phase.milestone("{then}", …, max=…)',
                ),
            )


def _serial(seen: Observed, span: Span, written: Mapping[str, list[Sent]]) -> Iterator[list[Sent]]:
    """Yield the deletions of a kind of which each was sent when the object of the one before was gone."""
    for sent in written.values():
        if sent[0].verb != "delete":
            continue
        first: dict[tuple[str, str], Sent] = {}
        for one in sent:
            first.setdefault(one.object, one)
        order = list(first.values())
        if len(order) < _LEAST or descending(order):
            continue
        gone = {life.object: life.gone_at for life in seen.lives.get(sent[0].resource, ())}
        waits = sum((gone.get(before.object) or 2**63) <= after.received for before, after in pairwise(order))
        lasts = (order[-1].completed - order[0].received) / 1e9
        if waits >= SERIAL * (len(order) - 1) and lasts >= max(_LEAST_S, _SHARE * span.phase.seconds):
            yield order


def _replaced(order: Sequence[Sent], written: Mapping[str, list[Sent]]) -> bool:
    """Return whether most deletions were followed by a creation of the kind before the next one: an update in steps."""
    made = [one.received for one in written.get(f"create {order[0].resource}", ())]
    after = sum(
        bisect_right(made, before.received) < bisect_right(made, one.received) for before, one in pairwise(order)
    )
    return after >= SERIAL * (len(order) - 1)


def late(seen: Observed) -> Iterator[Finding]:
    """Yield the kinds whose objects a finalizer held for nothing."""
    # A client's limit holds in all phases, whichever shows it.
    if any(seen.rate_limited(span) for span in seen.spans):
        return
    calm = [span for span in seen.spans if _working(span) <= _WORKING]
    for resource, lives in sorted(seen.lives.items()) if calm else ():
        if all(map(of_kubernetes, seen.kinds[resource].finalizers)):
            continue
        held = [one for life in lives if (one := _held(seen, life, calm)) is not None]
        if len(held) < _LATE_OBJECTS:
            continue
        waits = [one.seconds for one in held]
        least = quantiles(waits, n=4)[0]
        all_of_them = Window(held[0].phase, min(one.start for one in held), max(one.end for one in held))
        slowed = any(seen.slowed(span) for span in seen.spans if span.phase.name == held[0].phase)
        # With requests under way it may work through them one after the other.
        if least >= (_LATE_BESIDE_OTHERS_S if slowed else _LATE_S) and seen.under_way(all_of_them) < _UNDER_WAY:
            yield Found(
                id=ID,
                severity="waste",
                about=About(
                    aspect=Aspect.TIME,
                    requests=seen.own_writes(life for life in lives if life.marked_at is not None),
                    times=[(all_of_them.start, all_of_them.end)],
                ),
                text=f"{len(waits):,} {resource} were held by a finalizer for {median(waits):.1f} s after there was"
                " nothing more to do or to wait for",
                evidence=(
                    f"three of four for more than {least:.1f} s, after the last of their children was gone that went"
                    " before them, and the last that the operator wrote to",
                ),
                check='phase.milestone("gone", …, max=…)',
            )


def _held(seen: Observed, life: Life, calm: Sequence[Span]) -> Window | None:
    """Return how long the operator's finalizer held an object with nothing left to do for it, in one of some phases.

    Children that outlive their owner are left to the garbage collector: it did not wait for them.
    """
    asked, gone = life.marked_at, life.gone_at
    if asked is None or gone is None or gone > seen.end:
        return None
    span = next((span for span in calm if span.start <= asked < span.end), None)
    if span is None:
        return None
    finalizers = life.finalizers_at(asked)
    if all(map(of_kubernetes, finalizers)) or any(one in FOREIGN_FINALIZERS for one in finalizers):
        return None
    writes = life.writes
    # Who took the last one away is who held it: another controller's finalizer is not the operator's.
    if not any(one.user == seen.operator and one.verb != "delete" and one.completed >= asked for one in writes):
        return None
    children = seen.parts.get(life.uid, ())
    went = [at for child in children if (at := child.gone_at) is not None and at < gone]
    wrote = [
        one.completed
        for child in children
        for one in child.writes
        if one.user == seen.operator and asked <= one.completed < gone
    ]
    free = max([asked, *went, *wrote])
    return None if seen.was_absent(free, gone) else Window(span.phase.name, free, gone)
