"""Requests of the operator that the API server refused, and how it repeats them.

A conflict (409) on a write is normal once in a while: someone else wrote first. A right that is missing (403), an
object that is invalid (422) or exists already is not mended by a retry. Retries whose delay does not grow are a load of
their own on an API server in trouble (client-go's work queues grow theirs from 5 ms to 1000 s:
https://pkg.go.dev/k8s.io/client-go/util/workqueue#DefaultTypedControllerRateLimiter).

No false alarm: an object that is asked for a second time, moments after the operator made it, shows a cache that lags,
as that of any controller with several events for one object: a note, up to half of what was made; a create of what the
operator has made is none that is tried again until it succeeds. What is gone by now (404) is a question, or a race with
its deletion, unless the same is written again a second later, ten times in all; what was under way when the operator
ended is logged as answered 504; what the API server refuses since it has too much to do is its own matter: a note;
conflicts count from a share of the writes on that a correct operator does not reach under load. What follows from an
injected fault (a write whose answer was lost, a watch that was cut) does not count; one that did not reach the API
server is in no log of it. Failed reconciles count from twenty and a tenth of all on, or a quarter of a phase's, where
not half as many requests were refused, or where half as many were updates of what was not there, and never beside
faults.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from http import HTTPStatus
from itertools import pairwise
from statistics import median
from typing import NamedTuple

from ..api_requests import BEING_TERMINATED, overtaken, why_refused
from ..reconciles import objects_of
from ..result import Finding
from .evidence import ObjectId, Sent, listed, number_of, shown
from .grouping import About, Aspect, Found, of_failures
from .observed import Observed
from .observed_requests import is_for_objects

ID = "refused-requests"

_LEAST = 5
_SHARE = 0.1
"""Of the same requests, of refusals that pass: a cache that lags, a server in trouble."""

_WRONG = frozenset({400, 401, 403, 422})
"""Answers that no retry mends."""

_LEAST_ERRORS = 20
_SHARE_OF_PHASE = 0.25
_NOT_GROWING = 30
"""Failures for each object from which on the delay before the next try does not double: that would take hours."""
_OVERLOADED = frozenset({429, 503, 504})
_PASSING = frozenset({409, 500, *_OVERLOADED})
_GIVEN_UP_NS = 5_000_000_000
_FEW = 2
_SHARE_OF_LIKE = 0.2

_RIGHTS = frozenset({401, 403})
_READS = ("get ", "list ", "watch ")
_LEAST_READS = 2
"""Reads without the right to: an informer repeats them with a delay that grows, and its caches never fill."""

_TWICE_NS = 2_000_000_000
"""Time after an object was made within which a cache may not show it, on a busy machine, ns."""
_LATER_NS, _LEAST_GONE = 1_000_000_000, 10
"""Time after a 404 from which on a write to the same object is no race with its deletion, ns; writes that count."""
_MADE_TWICE = 0.5
"""Share of what an operator makes from which on it is built to ask twice."""

_LEAST_CONFLICTS = 10
_CONFLICTS = 0.25
_RETRIES = 6
_GROWS = 1.5
_ON_ONE = 0.9
"""Share of conflicts on one object from which on it is the reason."""
_SHOWN = 3


class _Failed(NamedTuple):
    """The failed reconciles of a controller, in a time."""

    controller: str
    number: int
    done: int
    begin: int
    end: int
    where: str
    """Which phase that was, in words; empty: all of the test."""

    def of(self, sent: Iterable[Sent]) -> Iterator[Sent]:
        """Yield the requests of that time."""
        return (one for one in sent if self.begin <= one.completed <= self.end)


def findings(seen: Observed) -> Iterator[Finding]:
    """Yield a finding for each kind of refusal that repeats, and for retries without a growing delay."""
    sent = [one for one in seen.own if is_for_objects(one) or (one.code in _RIGHTS and one.category != "review")]
    refused = [one for one in sent if one.refused and not _is_a_question(one)]
    refused = [one for one in refused if not seen.follows_fault(one) and not seen.cut_off(one)]
    patches = set(overtaken(seen.own, lambda one: one.received))
    conflicts = [one for one in refused if _is_conflict(one) or one in patches]
    yield from _conflicts(seen, conflicts)
    known = {*conflicts, *(twice := list(_made_twice(seen, refused)))}
    yield from _lagging(twice)
    left = [one for one in refused if one not in known]
    yield from _of_namespaces_that_go([one for one in left if BEING_TERMINATED in one.message])
    left = [one for one in left if BEING_TERMINATED not in one.message]
    others = Counter((one.what, one.code) for one in left)
    reasons: dict[int, Counter[tuple[str, str]]] = defaultdict(Counter)
    for one in left:
        reasons[one.code][meaning(one), one.message] += 1
    asked = Counter(one.what for one in sent)
    by_code: dict[int, Counter[str]] = defaultdict(Counter)
    for (what, code), number in others.items():
        unfilled = code in _RIGHTS and what.startswith(_READS) and number >= _LEAST_READS
        if unfilled or (number >= _LEAST and (code in _WRONG or number >= _SHARE * asked[what])):
            by_code[code][what] = number
    for code, kinds in sorted(by_code.items(), key=lambda one: -one[1].total()):
        (reason, message), _ = reasons[code].most_common(1)[0]
        reason = f" ({reason})" if reason else ""
        shown = kinds.most_common(_SHOWN)
        what = listed([name for name, _ in shown])
        more = f" and {len(kinds) - len(shown)} more" if len(kinds) > len(shown) else ""
        # What the server refuses for the moment is its matter; how that is repeated, the operator's.
        aspect = Aspect.PROCESS if code in _RIGHTS else Aspect.ACTION if code in _WRONG else Aspect.AMOUNT
        those = [one for one in left if one.code == code and one.what in kinds]
        own = sum(_is_there(seen, one) for one in those) > len(those) / 2
        started = all(seen.restart_of(one.received) for one in those)
        tries = "it" if started else "each reconcile"
        looks = "when it starts, before it has read them" if started else "before it looks"
        why = f": they are its own, which {tries} tries to make {looks}" if own else ""
        yield Found(
            id=ID,
            severity="defect" if code in _WRONG else "note" if code in _OVERLOADED else "waste",
            about=About(aspect=aspect, requests=those),
            text=f"the operator's {what}{more} {'was' if len(kinds) == 1 else 'were'} answered {code}{reason}"
            f" {kinds.total():,} times{why}",
            evidence=(f"the API server said: {message}",) if message else (),
            check='error_ratio(kind="persistent")',
        )
    yield from _to_what_is_gone(seen)
    yield from _retries([one for one in refused if not _is_conflict(one) and not _is_there(seen, one)])
    yield from _errors(seen)
    yield from _given_up(seen)


def meaning(one: Sent) -> str:
    """Return why a request was refused, in words; empty where its code does not say."""
    return why_refused(one.code, one.verb, one.message)


def _of_namespaces_that_go(refused: Sequence[Sent]) -> Iterator[Finding]:
    """Yield what was to be made in a namespace that was being deleted: each object may be tried once, or twice."""
    number = len(refused)
    if number >= _LEAST:
        objects = len({one.object for one in refused if one.name}) + sum(not one.name for one in refused)
        yield Found(
            id=ID,
            severity="note" if number <= _FEW * objects else "waste",
            about=About(aspect=Aspect.ACTION, requests=refused),
            text=f"the operator tried {number:,} times to make {objects:,} objects in namespaces that were being"
            f" deleted ({refused[0].what} for instance)",
        )


def _given_up(seen: Observed) -> Iterator[Finding]:
    """Yield writes that were refused for the moment and never sent again, where most of their like were."""
    refused: dict[tuple[str, ObjectId], Sent] = {}
    wrote: dict[tuple[str, ObjectId], int] = {}
    for one in seen.requests if any(one.refused and one.code in _PASSING for one in seen.requests) else ():
        if one.updates and one.name:
            if one.code in _PASSING:
                refused[one.what, one.object] = one
            elif one.changes:
                wrote[one.what, one.object] = one.received
    lost: dict[str, list[Sent]] = defaultdict(list)
    kinds = Counter(what for what, _ in refused)
    for (what, of), one in refused.items():
        lives = seen.of_name.get((one.resource, of), ())
        until = one.completed + _GIVEN_UP_NS
        there = [life for life in lives if life.begun < one.received and life.stays(until)]
        if there and until < seen.end and wrote.get((what, of), 0) < one.received and not seen.follows_fault(one):
            lost[what].append(one)
    for what, found in lost.items():
        found = [one for one in found if not _says_what_its_like_do(seen, one, {each.object for each in found})]
        if _FEW <= len(found) <= _SHARE_OF_LIKE * kinds[what]:
            yield Found(
                id=ID,
                severity="defect",
                about=About(aspect=Aspect.STATE, requests=found),
                text=f"{what} was refused ({found[0].code}) for {len(found):,} objects and not sent again, as it was"
                f" for the other {kinds[what] - len(found):,}: what it was to say is lost",
                evidence=(shown(found[0].object),),
            )


def _says_what_its_like_do(seen: Observed, one: Sent, lost: Collection[ObjectId]) -> bool:
    """Return whether an object has the numbers, phases and conditions of one whose writes went through: it lacks none.

    A conflict may be with a write that says the same, by another worker or before the cache has it.
    """
    at = one.completed + _GIVEN_UP_NS
    alike = [life for life in seen.lives.get(one.resource, ()) if life.exists(at)]
    own = next((life.numbers(at) for life in alike if life.object == one.object), {})
    return bool(own) and any(life.object not in lost and life.numbers(at) == own for life in alike)


def _errors(seen: Observed) -> Iterator[Finding]:
    """Yield the controller most of whose failed reconciles nothing that was refused explains, or what is gone does."""
    most = _most_failed(seen)
    if most is None:
        return
    refused = _failures(seen, most)
    if refused > most.number / 2:
        yield from _for_what_is_gone(seen, most)
        return
    objects = objects_of(seen.contents, most.controller, most.begin, most.end)
    again = "with a delay that grows to minutes"
    if objects and most.number >= _NOT_GROWING * objects:
        again = f"at a fixed delay, {most.number / objects:.0f} times for each of {objects:,} objects"
    yield Found(
        id=ID,
        severity="waste",
        about=of_failures(),
        text=f"{most.number:,} of {most.done:,} reconciles of {most.controller}{most.where} ended with an error, and"
        f" {f'only {refused:,}' if refused else 'none'} of the operator's requests were refused: an error as a way to"
        f" wait, or one that stays, is tried again {again}",
        check='error_ratio(kind="persistent")',
    )


def failing(seen: Observed) -> int:
    """Return how many reconciles failed of the controller with most of them, where no refused request explains them."""
    most = _most_failed(seen)
    return most.number if most is not None and _failures(seen, most) <= most.number / 2 else 0


def _failures(seen: Observed, most: _Failed) -> int:
    """Return how many requests may have failed a reconcile: what is gone already is mostly deleted without a word."""
    sent = most.of(seen.own)
    return sum(one.refused and not (one.verb == "delete" and one.code == HTTPStatus.NOT_FOUND) for one in sent)


def _for_what_is_gone(seen: Observed, most: _Failed) -> Iterator[Finding]:
    """Yield that half of a controller's failed reconciles, or more, wrote to objects that were not there."""
    gone = [one for one in most.of(seen.own) if one.code == HTTPStatus.NOT_FOUND and one.updates]
    if 2 * len(gone) >= most.number:
        kinds = Counter(one.what for one in gone)
        yield Found(
            id=ID,
            severity="waste",
            about=About(aspect=Aspect.ACTION, requests=gone),
            text=f"{most.number:,} of {most.done:,} reconciles of {most.controller}{most.where} ended with an error,"
            f" and {len(gone):,} writes were answered 404"
            f" ({', '.join(what for what, _ in kinds.most_common(_SHOWN))}): what is gone is no failure, and is tried"
            " again all the same, with a delay that grows",
            evidence=(f"{shown(gone[0].object)} for instance",),
            check='error_ratio(kind="persistent")',
        )


def _to_what_is_gone(seen: Observed) -> Iterator[Finding]:
    """Yield the kinds of writes that are sent again and again to objects that are not there any more."""
    again: dict[str, list[Sent]] = defaultdict(list)
    before: dict[tuple[str, ObjectId], int] = {}
    for one in seen.requests:
        if one.code == HTTPStatus.NOT_FOUND and one.updates and not seen.follows_fault(one):
            answered = before.setdefault((one.resource, one.object), one.completed)
            if one.received > answered + _LATER_NS:
                again[one.what].append(one)
        elif one.changes:
            before.pop((one.resource, one.object), None)
    for what, those in again.items():
        objects, number = Counter(one.object for one in those), len(those)
        if number >= _LEAST_GONE:
            often, most = objects.most_common(1)[0]
            yield Found(
                id=ID,
                severity="waste",
                about=About(aspect=Aspect.ACTION, requests=those),
                text=f"{what} was sent {number:,} times more to {number_of(len(objects), 'objects')}"
                " that the API server had said a second before to be gone (404)",
                evidence=(f"{shown(often)}: {most:,} times more",),
                check='error_ratio(kind="persistent")',
            )


def _most_failed(seen: Observed) -> _Failed | None:
    """Return the controller with most failed reconciles, of all or else of a phase; None where these are few."""
    target, first = seen.target, seen.first_scrape
    if seen.faults.windows or target is None or first is None:
        return None
    all_of_it = (seen.begin, seen.end, "", (first, len(target.moments) - 1))
    phases = [(span.start, span.end, f" in {span.phase.name}", seen.scrapes_of(span)) for span in seen.spans]
    for share, times in ((_SHARE, [all_of_it]), (_SHARE_OF_PHASE, phases)):
        found: list[_Failed] = []
        for begin, end, where, scrapes in times:
            if scrapes is not None:
                failed = seen.reconciles_between(*scrapes, lambda result: result == "error")
                done = seen.reconciles_between(*scrapes)
                found += (_Failed(one, number, done[one], begin, end, where) for one, number in failed.items())
        most = max(found, key=lambda one: one.number, default=None)
        if most is not None and most.number >= max(_LEAST_ERRORS, share * most.done):
            return most
    return None


def _made_twice(seen: Observed, refused: list[Sent]) -> Iterator[Sent]:
    """Yield refused creations of what the operator itself had made just before, where it is a part of what it makes."""
    made: dict[tuple[str, ObjectId], list[int]] = defaultdict(list)
    for one in seen.requests if refused else ():
        if one.verb == "create" and one.created and one.name:
            made[one.what, one.object].append(one.completed)
    number = Counter({what: 0 for what, _ in made})
    for (what, _), times in made.items():
        number[what] += len(times)
    again = [
        one
        for one in refused
        if one.verb == "create"
        and one.code == HTTPStatus.CONFLICT
        and any(one.received - _TWICE_NS <= at <= one.completed for at in made.get((one.what, one.object), ()))
    ]
    kinds, all_of_it = (
        Counter(one.what for one in ones if one.code == HTTPStatus.CONFLICT) for ones in (again, refused)
    )
    few = {what for what, often in kinds.items() if often < _MADE_TWICE * number[what] and often == all_of_it[what]}
    yield from (one for one in again if one.what in few)


def _lagging(twice: list[Sent]) -> Iterator[Finding]:
    for what, number in Counter(one.what for one in twice).most_common(_SHOWN):
        if number >= _LEAST:
            yield Found(
                id=ID,
                severity="note",
                about=About(aspect=Aspect.ACTION, requests=[one for one in twice if one.what == what]),
                text=f"{what} was answered 409 {number:,} times, for objects that the operator had made just before:"
                " its cache did not show them yet",
                check='error_ratio(kind="persistent")',
            )


def _is_a_question(one: Sent) -> bool:
    return one.code == 404 and one.verb in ("get", "delete", "update", "patch")


def _is_conflict(one: Sent) -> bool:
    return one.code == 409 and one.updates


def _is_there(seen: Observed, one: Sent) -> bool:
    """Return whether a create was refused since the operator itself had made the object: nothing is left to try."""
    return one.code == HTTPStatus.CONFLICT and one.verb == "create" and seen.creations[one.resource, one.object] > 0


def _conflicts(seen: Observed, conflicts: list[Sent]) -> Iterator[Finding]:
    writes = Counter(one.what for one in seen.requests if conflicts and one.updates)
    for what, number in Counter(one.what for one in conflicts).most_common():
        if number >= _LEAST_CONFLICTS and number >= _CONFLICTS * writes[what]:
            objects = Counter(one.object for one in conflicts if one.what == what)
            (_, name), most = objects.most_common(1)[0]
            why = "the operator writes from a stale copy"
            if most > _ON_ONE * number:
                why = f"{most:,} times it was {name}, which several of its workers write"
            codes = "/".join(str(code) for code in sorted({one.code for one in conflicts if one.what == what}))
            yield Found(
                id=ID,
                severity="waste",
                about=About(aspect=Aspect.ACTION, requests=[one for one in conflicts if one.what == what]),
                text=f"{number:,} of {writes[what]:,} {what} conflicted ({codes}): {why}",
                check="conflict_rate(phase=…, max=0.05)",
            )


def _retries(refused: list[Sent]) -> Iterator[Finding]:
    by_request: dict[tuple[str, str, str], list[Sent]] = defaultdict(list)
    for one in refused:
        # An object that is created by a generated name has none here.
        by_request[one.what, one.namespace, one.name].append(one)
    flat = []
    repeated: list[Sent] = []
    for (what, namespace, name), tries in by_request.items():
        gaps = [(after.received - before.received) / 1e9 for before, after in pairwise(tries)]
        half = len(gaps) // 2
        if name and len(tries) >= _RETRIES and median(gaps[half:]) < _GROWS * median(gaps[:half]):
            flat.append((len(tries), median(gaps), f"{what} {namespace}/{name}"))
            repeated += tries
    if flat:
        number, gap, example = max(flat)
        (code, why, message), _ = Counter((one.code, meaning(one), one.message) for one in repeated).most_common(1)[0]
        yield Found(
            id=ID,
            severity="defect",
            about=About(aspect=Aspect.ACTION, requests=repeated),
            text=f"refused requests are repeated without a growing delay: {example}, {number:,} times, every"
            f" {gap * 1e3:,.3g} ms, answered {code}{f' ({why})' if why else ''}",
            evidence=(
                *([f"the API server said: {message}"] if message else []),
                *([f"{len(flat):,} objects were tried so"] if len(flat) > 1 else []),
            ),
            check='error_ratio(kind="persistent")',
        )
