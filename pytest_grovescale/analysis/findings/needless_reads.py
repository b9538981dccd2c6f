"""Reads of kinds that the operator watches: its cache has them, and the API server answers each again.

A LIST reads all objects of a kind from the API server, and without resourceVersion from etcd, once for every call; in a
reconcile this is quadratic in the number of objects; in a collector of metrics it comes with each scrape, of each
Prometheus there is.

A watch of all Secrets, ConfigMaps or Events keeps each of a cluster in memory: a test has few of them, its users many
(https://pkg.go.dev/sigs.k8s.io/controller-runtime/pkg/cache#Options, `ByObject`).

No false alarm: a list without a limit counts from the third on, of kinds with many objects; informers list once for
each watch and again after each gap, and some operators read an object directly right before they write it; a few, and a
small share of the objects, are left alone. Twenty objects that are looked up and are not there, half of those that it
makes of their kinds, are more than a look where a cache may lag. Of kinds that are not watched three reads for each
object are a note, and waste where it is mostly one object. Watches of everyone's objects are a note: they may be what
it is for; waste, where most of what they brought, 200 objects and more, has nothing to do with the operator's, and it
makes or writes the rest.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Container, Iterator
from operator import attrgetter

from ..result import Finding, Severity
from .evidence import ObjectId, Received, Sent
from .grouping import About, Aspect, Found
from .observed import Observed

ID = "needless-reads"

_LEAST_LISTS = 8
_LEAST_WHOLE = 3
"""Lists of everything, without a limit: each is as large as the collection."""
_MANY = 20
_LEAST_GETS = 20
_PER_OBJECT = 0.3
_NOT_FOUND = 404
_SHOWN = 3
_READS_OF_EACH = 3
"""Reads of a kind that is not watched for each object from which on they are repeated."""

_OF_EVERYONE = frozenset({"secrets", "configmaps", "events", "events.events.k8s.io"})
"""Kinds that everyone makes objects of, many and large."""

_OF_OTHERS, _MOSTLY = 20, 0.5
"""Objects that a watch brings for nothing, and their share, from which on a selector would spare most of it."""
_MANY_OF_OTHERS = 200
"""As many are waste."""

_SCRAPE_NS, _BESIDE_NS = 200_000_000, 50_000_000
"""Times before the end of a scrape, and after it, in which what it asks for was received, ns."""
_AT_SCRAPES = 0.75
"""Share of the lists that come with a scrape, and of the scrapes with a list, from which on they belong together."""


def findings(seen: Observed) -> Iterator[Finding]:
    """Yield a finding for each kind that is listed or read again and again."""
    reads: dict[tuple[str, str], list[Sent]] = defaultdict(list)
    for one in seen.requests:
        if one.verb in ("get", "list") and one.subresource in ("", "status"):
            reads[one.verb, one.resource].append(one)
    each: list[Sent] = []
    for (verb, resource), sent in sorted(reads.items(), key=lambda one: (one[0][0] != "list", -len(one[1]))):
        if verb == "list":
            yield from _lists(seen, resource, sent)
        elif resource not in seen.watched_by_operator:
            if len(sent) >= max(_LEAST_GETS, _READS_OF_EACH * seen.objects):
                yield _not_watched(seen, resource, sent)
        elif len(sent) >= max(_LEAST_GETS, _PER_OBJECT * seen.objects):
            (_, name), most = Counter(one.object for one in sent).most_common(1)[0]
            if most > len(sent) / 2:
                did = f"read one of the {resource}, {name}, {most:,} times, although it watches {resource}"
                yield _finding(seen, sent, did)
            else:
                each += sent
    if each:
        kinds = ", ".join(f"{of} {number:,}" for of, number in Counter(one.resource for one in each).items())
        yield _finding(seen, each, f"read {kinds} times one by one, although it watches them")
    if seen.operator:
        absent = (one for sent in reads.values() for one in sent if one.code == _NOT_FOUND)
        yield from _before_making(seen, sorted(absent, key=attrgetter("received")))
        yield from _of_everyone(seen)


def _lists(seen: Observed, resource: str, sent: list[Sent]) -> Iterator[Finding]:
    """Yield that a kind is listed again and again, or as a whole."""
    by_itself = len(sent) - sum(one.verb == "watch" and one.resource == resource for one in seen.housekeeping)
    watched = ", although it watches them" if resource in seen.watched_by_operator else ""
    watched += _at_scrapes(seen, sent)
    whole = sum(one.unlimited for one in sent)
    if by_itself >= _LEAST_LISTS:
        limit = f", {whole:,} time{'s' * (whole != 1)} without a limit" if whole else ""
        yield _finding(seen, sent, f"listed {resource} {len(sent):,} times{watched}{limit}")
    elif min(by_itself, whole) >= _LEAST_WHOLE and len(seen.lives.get(resource, ())) >= _MANY:
        everywhere = "" if any(one.namespace for one in sent) else " in all namespaces"
        yield _finding(seen, sent, f"listed all {resource}{everywhere} {len(sent):,} times without a limit{watched}")


def _not_watched(seen: Observed, resource: str, gets: list[Sent]) -> Finding:
    """Return that objects of a kind that is not watched are read again and again."""
    objects = Counter(one.object for one in gets)
    (_, name), most = objects.most_common(1)[0]
    if most > len(gets) / 2:
        did = f"read one of the {resource}, {name}, {most:,} times: a watch, or a copy for a while, would do"
        return _finding(seen, gets, did)
    did = f"read {len(objects):,} {resource} {len(gets):,} times one by one: a watch shows it each change"
    return _finding(seen, gets, did, "note")


def _before_making(seen: Observed, absent: list[Sent]) -> Iterator[Finding]:
    """Yield that objects are looked up at the API server before they are made, of kinds that the operator watches."""
    asked = [one for one in absent if one.resource in seen.watched_by_operator]
    kinds = [resource for resource, _ in Counter(one.resource for one in asked).most_common()]
    made = {(one.resource, one.object): one.received for one in seen.own_of([f"create {kind}" for kind in kinds])}
    before = {key for one in asked if one.received < made.get(key := (one.resource, one.object), 0)}
    if len(before) >= max(_LEAST_GETS, _MOSTLY * len(made)):
        yield Found(
            id=ID,
            severity="waste",
            about=About(aspect=Aspect.ACTION, requests=seen.own_of([f"get {resource}" for resource in kinds])),
            text=f"the operator asked the API server for {len(before):,} {', '.join(kinds[:_SHOWN])} right before it"
            " made them: its watches say that they are not there, and a create of what is there is answered 409",
            check='api_requests(phase=…, verb="get", max=0)',
        )


def _of_everyone(seen: Observed) -> Iterator[Finding]:
    """Yield the kinds that others fill, and that the operator's cache holds of all namespaces."""
    watched = {
        one.qualified
        for one in seen.contents.requests
        if one.verb == "watch" and one.unselected and not one.namespace and one.user == seen.operator and one.code < 400
    }
    named = {(one.resource, one.object) for one in seen.requests}
    sent = {resource: _of_others(seen, resource, named) for resource in sorted(watched & seen.lives.keys())}
    found = {resource: number for resource, number in sent.items() if number}
    for resource, number in found.items():
        yield Found(
            id=ID,
            severity="waste" if number >= _MANY_OF_OTHERS else "note",
            about=About(aspect=Aspect.STATE),
            text=f"the operator watches all {resource} of all namespaces, without a selector: {number:,} of the"
            f" {len(seen.lives[resource]):,} that there were are neither its own nor of its objects",
            evidence=("a label on its own, and a selector in its cache, would spare it the others",),
        )
    if kinds := sorted((watched & _OF_EVERYONE) - found.keys()):
        yield Found(
            id=ID,
            severity="note",
            about=About(aspect=Aspect.STATE),
            text=f"the operator watches all {' and '.join(kinds)} of all namespaces, without a selector: its memory"
            " grows with everyone's, its own or not",
        )


def _of_others(seen: Observed, resource: str, named: Container[tuple[str, ObjectId]]) -> int:
    """Return how many objects of a kind the operator has nothing to do with, where these are most of it; 0 else.

    Of kinds that it makes or writes some of, so that it can tell its own; not of those that it makes others for, which
    it is there for.
    """
    lives = seen.lives[resource]
    own = sum(any(one.made_by_operator or one.key in named for one in seen.line(life)) for life in lives)
    others = len(lives) - own
    there_for = any(child.made_by_operator for life in lives for child in seen.children.get(life.uid, ()))
    if there_for or resource in seen.status_written:
        return 0
    return others if own and others >= max(_OF_OTHERS, _MOSTLY * len(lives)) else 0


def _at_scrapes(seen: Observed, lists: list[Sent]) -> str:
    """Return in words that lists come with the scrapes of the operator's metrics; empty where they do not."""
    scrapes = [one.at for one in seen.target.moments if one.at >= seen.begin] if seen.target is not None else []
    times = [(at - _SCRAPE_NS, at + _BESIDE_NS) for at in scrapes]
    at_one = sum(any(start <= one.received <= end for start, end in times) for one in lists)
    with_one = sum(any(start <= one.received <= end for one in lists) for start, end in times)
    alike = min(at_one / max(1, len(lists)), with_one / max(1, len(scrapes)))
    return ", at each scrape of its metrics" if len(lists) >= _LEAST_LISTS and alike >= _AT_SCRAPES else ""


def _finding(seen: Observed, sent: list[Sent], did: str, severity: Severity = "waste") -> Finding:
    return Found(
        id=ID,
        severity=severity,
        about=About(aspect=Aspect.ACTION, requests=sent),
        text=f"the operator {did}",
        evidence=tuple(_by_phase(seen, sent)),
        check="noop_reads(max=0)",
    )


def _by_phase(seen: Observed, sent: list[Sent]) -> Iterator[str]:
    left, received = len(sent), Received(sent)
    for span in seen.spans:
        if number := received.count(span.start, span.end):
            left -= number
            yield f"{number:,} in {span.phase.name}"
    if left:
        yield f"{left:,} between phases"
