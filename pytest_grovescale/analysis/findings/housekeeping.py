"""What an operator sends beside its work: renewals of its Lease, Events, watches it opens again.

client-go's leader election renews every 2 s with a Lease of 15 s
(https://pkg.go.dev/k8s.io/client-go/tools/leaderelection); each renewal is a write to etcd, all day long. Events are
objects, too, an etcd write each. A watch stays open for minutes; one that is opened again costs the initial list.

No false alarm: renewals count from once a second on, and as late from four fifths of the Lease's duration on; Events
in no-op phases and idle windows, in phases in which the operator changes next to nothing, and elsewhere from two for
each object and one for two reconciles on; watches only while nothing changes, when the API server has no reason to
close them. A client asks for the kinds that are served once for each group, and an endpoint of metrics that authorizes
its readers asks twice for each scrape. Several watches on one kind are a note, since the log does not show their
selectors. Connections are those to all servers on the API server's machine: they count where there are as many as
requests of the operator's in each phase with a hundred of these, and few in the others.
"""

from __future__ import annotations

import functools
import operator
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from itertools import pairwise
from statistics import median

from ..cpu import API_SERVER
from ..result import Finding
from .evidence import ObjectId, Sent
from .grouping import About, Aspect, Found
from .observed import Observed

ID = "housekeeping"

_RENEWALS_PER_S = 1.0
_LONG_ENOUGH_S = 5.0
_LEAST = 3
_SHORT_WATCH_S = 10.0
_LEAST_BOTH = 4
"""Lists with a watch after each, of kinds with two of both, from which on no lost connection explains them."""
_DURATION = "spec.leaseDurationSeconds"
_LATE = 0.8
_LONG_LEASE_S = 300
_LEAKED = 5
"""Watches on one kind from which on they are left open, which `initial-state` says."""
_LEAST_OBJECTS = 20
_DISCOVERY = ("/api", "/openapi")
_LEAST_DISCOVERY = 12
_LEAST_REVIEWS = 20
_LEAST_EVENTS = 50
_PER_RECONCILE = 0.5
_NEXT_TO_NOTHING = 0.1
"""Objects changed for each Event up to which the Events are of no change."""
_LEAST_CONNECTIONS = 100
_AS_MANY = (0.8, 1.2)
_LEAST_CONNECTED, _PHASES, _SPREAD, _AS_MANY_OF = 15, 3, 3, (0.8, 1.5)
"""Reconciles of a phase, phases, ratio of the most and the fewest, and of connections to them, by which each opens one.
"""
_OTHERS = 0.3
"""Connections a second in a phase with few requests, of those in one with many, up to which others open hardly any."""


def findings(seen: Observed) -> Iterator[Finding]:
    """Yield a finding for each kind of housekeeping that is out of proportion."""
    yield from _renewals(seen)
    yield from _leases(seen)
    yield from _discovery(seen)
    yield from _reviews(seen)
    yield from _events(seen)
    yield from _watches(seen)
    yield from _watched_twice(seen)
    yield from _connections(seen)


def _renewals(seen: Observed) -> Iterator[Finding]:
    seconds = (seen.end - seen.begin) / 1e9
    renewals = Counter(one.object for one in seen.housekeeping if one.category == "lease" and one.updates)
    for (namespace, name), number in renewals.items():
        if seconds >= _LONG_ENOUGH_S and number / seconds > _RENEWALS_PER_S:
            yield Found(
                id=ID,
                severity="waste",
                about=About(aspect=Aspect.AMOUNT),
                text=f"the operator renews its Lease {namespace}/{name} {number / seconds:.3g} times a second",
                evidence=(f"{number:,} times in {seconds:.0f} s",),
            )


def _leases(seen: Observed) -> Iterator[Finding]:
    """Yield a finding for a Lease that is renewed less often than it expires."""
    renewed: dict[ObjectId, list[int]] = defaultdict(list)
    for one in seen.housekeeping:
        if one.category == "lease" and one.updates and not one.refused:
            renewed[one.object].append(one.received)
    for story in seen.contents.watches.values():
        for key, events in ((key, story.objects[key]) for key in story.objects if key in renewed):
            lasts = next((e.fields[_DURATION] for e in reversed(events) if e.fields.get(_DURATION)), None)
            every = [(after - before) / 1e9 for before, after in pairwise(renewed[key])]
            if lasts is None or len(every) < _LEAST - 1:
                continue
            longest = max(every)
            if median(every) >= _LATE * lasts:
                yield Found(
                    id=ID,
                    severity="defect",
                    about=About(aspect=Aspect.PROCESS),
                    text=f"the operator renews its Lease {'/'.join(key)} every {median(every):.3g} s, and it lasts"
                    f" {lasts} s: one late renewal loses it",
                    evidence=(f"{longest:.3g} s at most between two renewals",),
                )
            elif lasts >= _LONG_LEASE_S:
                yield Found(
                    id=ID,
                    severity="note",
                    about=About(aspect=Aspect.PROCESS),
                    text=f"the operator's Lease {'/'.join(key)} lasts {lasts} s: after a crash, no other replica takes"
                    " over for so long",
                )


def _discovery(seen: Observed) -> Iterator[Finding]:
    asked = Counter(one.path for one in seen.housekeeping if one.path.startswith(_DISCOVERY) and one.verb == "get")
    if asked.total() >= _LEAST_DISCOVERY:
        paths = ", ".join(f"{path} {number:,} times" for path, number in asked.most_common(3))
        yield Found(
            id=ID,
            severity="waste",
            about=About(aspect=Aspect.AMOUNT),
            text=f"the operator asked the API server {asked.total():,} times for the kinds that it serves",
            evidence=(f"{paths}; a client keeps them, and asks again for a kind that it does not know",),
        )


def _reviews(seen: Observed) -> Iterator[Finding]:
    reviews = Counter(one.what for one in seen.housekeeping if one.category == "review" and one.verb == "create")
    scrapes = len(seen.target.moments) if seen.target is not None else 0
    # An endpoint of metrics that authorizes its readers asks twice for each scrape.
    if reviews.total() >= max(_LEAST_REVIEWS, 3 * scrapes, _PER_RECONCILE * seen.reconciled):
        yield Found(
            id=ID,
            severity="waste",
            about=About(aspect=Aspect.AMOUNT),
            text=f"the operator asked {reviews.total():,} times for a token or a right"
            f" ({reviews.most_common(1)[0][0]}): answers can be kept for minutes",
        )


def _events(seen: Observed) -> Iterator[Finding]:
    made = [one for one in seen.housekeeping if _makes_event(one)]
    for span in seen.spans:
        if not (span.phase.triggers or span.phase.name.endswith("(idle)")):
            continue
        inside = [one for one in seen.within(span) if _makes_event(one)]
        if len(inside) >= _LEAST:
            what = "no-op triggers" if span.phase.triggers else "nothing"
            yield Found(
                id=ID,
                severity="waste",
                about=About(aspect=Aspect.AMOUNT),
                text=f"the operator wrote {len(inside):,} Events in {span.phase.name}, for {what}",
                evidence=(
                    f"{len(made):,} in the run, {sum(one.verb == 'create' for one in made):,} of them new objects"
                    + (f"; {seen.reconciled:,} reconciles" if seen.reconciled else ""),
                ),
            )
            return
    yield from _events_of_work(made, seen)


def _makes_event(one: Sent) -> bool:
    return one.category == "event" and one.verb in ("create", "patch", "update")


def _events_of_work(made: list[Sent], seen: Observed) -> Iterator[Finding]:
    """Yield a finding for an Event for each reconcile: of objects that are made, one or two are usual."""
    written = [one for one in made if not one.refused]
    fresh = sum(one.verb == "create" for one in written)
    again = len(written) - fresh
    if again >= _LEAST_EVENTS and again >= _PER_RECONCILE * seen.reconciled and again > 2 * seen.objects:
        yield Found(
            id=ID,
            severity="waste",
            about=About(aspect=Aspect.AMOUNT),
            text=f"the operator wrote {len(written):,} Events for {seen.objects:,} objects, {again:,} of them the same"
            " one once more: each repetition is a write to etcd",
        )
    elif fresh >= _LEAST_EVENTS and fresh >= _PER_RECONCILE * seen.reconciled and fresh > 2 * seen.objects:
        each = f", {fresh / seen.reconciled:.2g} for each reconcile" if seen.reconciled else ""
        yield Found(
            id=ID,
            severity="waste",
            about=About(aspect=Aspect.AMOUNT),
            text=f"the operator made {fresh:,} Events for {seen.objects:,} objects{each}, each a new one",
        )
    else:
        yield from _events_of_nothing(seen)


def _events_of_nothing(seen: Observed) -> Iterator[Finding]:
    """Yield the phase with most Events of the operator among those in which it changed next to nothing."""
    worst: tuple[int, int, str] | None = None
    for span in seen.spans:
        written = [one for one in seen.requests_in(span.start, span.end) if not one.refused]
        events = sum(map(_makes_event, seen.within(span)))
        changed = sum(one.changes for one in written)
        if events >= _LEAST_OBJECTS and changed <= _NEXT_TO_NOTHING * events and events > (worst or (0,))[0]:
            worst = events, changed, span.phase.name
    if worst is not None:
        events, changed, phase = worst
        yield Found(
            id=ID,
            severity="waste",
            about=About(aspect=Aspect.AMOUNT),
            text=f"in {phase} the operator wrote {events:,} Events and changed {changed:,} objects: an Event for each"
            " reconcile, whatever it did, and each is a write to etcd",
        )


def _watches(seen: Observed) -> Iterator[Finding]:
    for window in seen.idle_windows:
        sent = seen.within(window)
        opened = Counter(one.resource for one in sent if one.verb == "watch")
        listed = Counter(one.resource for one in sent if one.verb == "list")
        # Those that are still open at the end, as one for each object, have not ended.
        ended = opened - seen.open_watches(window.end)
        both = {resource: number for resource in ended if (number := min(opened[resource], listed[resource])) > 1}
        if sum(both.values()) >= _LEAST_BOTH:
            yield Found(
                id=ID,
                severity="waste",
                about=About(
                    aspect=Aspect.ACTION,
                    requests=[one for one in sent if one.resource in both and one.verb in ("list", "watch")],
                ),
                text=f"in {window.seconds:.1f} s of {window.phase}, while nothing changed, the operator listed all"
                f" {' and '.join(sorted(both))} {max(both.values()):,} times, and opened its watches on them as often:"
                " they end within seconds, and are not resumed where they ended",
            )
            return
        often = {resource: number for resource, number in opened.items() if number >= _LEAST}
        if often:
            resource, number = max(often.items(), key=lambda one: one[1])
            together = seen.open_watches(window.end)[resource]
            if together < _LEAST and (several := list(_short_watches(seen))):
                # One kind among those of which that is true says less than all of them.
                yield from several
                return
            yield Found(
                id=ID,
                severity="waste",
                about=About(aspect=Aspect.AMOUNT),
                text=f"the operator opened its watch on {resource} {number:,} times in {window.seconds:.1f} s of"
                f" {window.phase}, while nothing changed"
                + (f"; {together:,} of them are open at the same time" if together >= _LEAST else ""),
            )
            return
    yield from _short_watches(seen)


def _short_watches(seen: Observed) -> Iterator[Finding]:
    """Yield that watches on several kinds end within seconds in idle windows, in too few of which each shows twice."""
    windows = [window for window in seen.idle_windows if not seen.was_absent(window.start, window.end)]
    sent = [one for window in windows for one in seen.within(window) if one.verb == "watch"]
    seconds = sum(window.seconds for window in windows)
    opened = Counter(one.resource for one in sent)
    short = [resource for resource, number in opened.items() if number > 1 and seconds / number < _SHORT_WATCH_S]
    if len(short) >= _LEAST:
        yield Found(
            id=ID,
            severity="waste",
            about=About(aspect=Aspect.ACTION, requests=[one for one in sent if one.resource in short]),
            text=f"in {seconds:.1f} s in which nothing changed the operator opened its watches on {len(short):,} kinds"
            f" {sum(opened[resource] for resource in short):,} times: each ends within seconds, where client-go's"
            " last five to ten minutes",
        )


def _watched_twice(seen: Observed) -> Iterator[Finding]:
    """Yield the kinds of which the operator has the same watch open twice, or a few times, whenever nothing changes."""
    counts = [seen.alike_watches(window.end) for window in seen.idle_windows]
    always = functools.reduce(operator.and_, counts) if counts else Counter()
    twice = {
        resource: number
        for (resource, _, name, _), number in always.items()
        if 1 < number < _LEAKED and not name and len(seen.lives.get(resource, ())) >= _LEAST_OBJECTS
    }
    if twice:
        named = ", ".join(f"{resource} ({number:,})" for resource, number in sorted(twice.items()))
        yield Found(
            id=ID,
            severity="note",
            about=About(aspect=Aspect.AMOUNT),
            text=f"the operator has several watches at once on the same kinds: {named}",
            evidence=(
                "where their selectors are the same, each event is sent, decoded and kept as often; one cache can serve"
                " all controllers",
            ),
        )


def _connected_by_reconciles(seen: Observed, made: Mapping[str, int]) -> Iterator[Finding]:
    """Yield that each reconcile opens a connection, as with a client of its own, by phase → connections.

    Not the first phase: what starts opens some. That they go with the reconciles where these are few and where they are
    many shows that they are theirs.
    """
    counts = {span.phase.name: sum(row.count for row in span.phase.reconciles) for span in seen.spans[1:]}
    busy = {name: count for name, count in counts.items() if name in made and count >= _LEAST_CONNECTED}
    least, most = (of(busy.values(), default=0) for of in (min, max))
    if len(busy) < _PHASES or most < _SPREAD * least:
        return
    if not all(_AS_MANY_OF[0] * count <= made[name] <= _AS_MANY_OF[1] * count for name, count in busy.items()):
        return
    opened, reconciles = sum(made[name] for name in busy), sum(busy.values())
    yield Found(
        id=ID,
        severity="waste",
        about=About(aspect=Aspect.AMOUNT),
        text=f"the operator opens a connection to the API server in nearly each reconcile: {opened:,} in"
        f" {reconciles:,} reconciles, each with a TLS handshake on both sides",
        evidence=(
            "one client for all reconciles keeps its connections open",
            ", ".join(f"{made[name]:,} connections, {count:,} reconciles in {name}" for name, count in busy.items()),
        ),
    )


def _connections(seen: Observed) -> Iterator[Finding]:
    """Yield a finding where the operator opens a connection for each of its requests."""
    made = [
        (span, after.accepted - before.accepted, len(seen.within(span)))
        for span in seen.spans
        if (before := span.recorded.cpu_start.get(API_SERVER)) is not None
        and (after := span.recorded.cpu_end.get(API_SERVER)) is not None
        and before.accepted is not None
        and after.accepted is not None
        and before.pid == after.pid
    ]
    busy = [(span, opened, asked) for span, opened, asked in made if asked >= _LEAST_CONNECTIONS]
    by_others = [
        max(0, opened - asked) / span.phase.seconds
        for span, opened, asked in made
        if asked < _LEAST_CONNECTIONS and span.phase.seconds >= 1
    ]
    if not busy or not all(_AS_MANY[0] * asked <= opened <= _AS_MANY[1] * asked for _, opened, asked in busy):
        yield from _connected_by_reconciles(seen, {span.phase.name: opened for span, opened, _ in made})
        return
    per_s = [opened / span.phase.seconds for span, opened, _ in busy]
    if len(busy) + len(by_others) > 1 and max(by_others, default=0.0) <= _OTHERS * min(per_s):
        opened, asked = sum(number for _, number, _ in busy), sum(number for _, _, number in busy)
        yield Found(
            id=ID,
            severity="waste",
            about=About(aspect=Aspect.AMOUNT),
            text=f"the operator opens a connection to the API server for nearly each request: {opened:,} beside"
            f" {asked:,} requests, each with a TLS handshake on both sides",
            evidence=(
                "one client for all reconciles keeps its connections open",
                ", ".join(
                    f"{opened:,} connections, {asked:,} requests in {span.phase.name}" for span, opened, asked in busy
                ),
            ),
        )
