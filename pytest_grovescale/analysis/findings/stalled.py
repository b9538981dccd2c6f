"""What the operator does in a phase that does not end, while nothing else changes.

A write that wakes its own controller, a retry without a delay and a lost event look alike from outside: pods do not
come. What the operator sent in that time shows which it is: the same objects over and over, questions, or nothing. A
controller that watches what it writes reconciles after each write; a value that differs at each reconcile (a time, a
random name, the order of a map) never lets it come to rest.
(https://kubernetes.io/docs/concepts/architecture/controller/#controller-pattern)

A finalizer that the operator does not take away ends no deletion; its objects are counted, by finalizer. Where the
operator does next to nothing, `stall_causes` looks for what came before.

No false alarm: only phases with a milestone that was not reached, and in them five seconds or more without any change
by anyone else, or any object that the operator makes or deletes. Asking over and over counts in the second half, when
earlier work is done. A cause is a defect where a write was refused and not sent again within the stall, where an
object that was asked for came and was not asked for again, and where some objects of a kind had nothing done for them;
what is merely not there, or not Ready, is a note, since the test may have left it out. A rule of its own names a
controller that is missing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import median

from ..result import Finding
from . import operator_log
from .evidence import FINALIZERS, ObjectId, Sent, Window, form, number_of, of_kubernetes
from .grouping import About, Aspect, Found, of_failures, of_outcome
from .left_behind import kept_by_owners
from .observed import Observed
from .observed_requests import is_for_objects
from .stall_causes import cause

ID = "stalled"

_TIMER_S = 0.9
"""Time between two writes of one object from which on a timer makes them, not the write before, s."""
_AGAIN = 5
"""Writes to one object in a stall from which on the operator goes round in circles."""
_FAILED = 5
"""Reconciles with an error from which on these are why nothing goes on, if they are half of all."""
_RATE = 1.0
"""Requests, or reconciles, a second from which on it asks over and over."""


def findings(seen: Observed) -> Iterator[Finding]:
    """Yield a finding for each phase that stalled."""
    if not seen.operator:
        return
    kept = bool(seen.stalls) and any(kept_by_owners(seen))
    for window in seen.stalls:
        one = _finding(seen, window)
        # What an owner keeps that stays is no matter of the operator's any more: `left-behind` names it.
        if not (kept and one.severity == "note"):
            yield one


def _finding(seen: Observed, window: Window) -> Finding:
    sent = [one for one in seen.within(window) if is_for_objects(one)]
    written = Counter((one.resource, one.object) for one in sent if one.changes)
    again = {key for key, number in written.items() if number >= _AGAIN}
    reconciled = _reconciles(seen, window)
    stall = f"{window.phase} made no progress for {window.seconds:.0f} s, in which nothing else changed"
    often = ", ".join(f"{number:,} of {controller}" for controller, number in reconciled.most_common(3))
    evidence = [f"reconciles in that time: {often}"] if often else []
    if failed := _reconciles(seen, window, result="error"):
        evidence.append(
            "ended in an error: " + ", ".join(f"{number:,} of {name}" for name, number in failed.most_common(3))
        )
    if again:
        wrote = Counter(one.what for one in sent if one.changes and (one.resource, one.object) in again).most_common(3)
        resource, (namespace, name) = max(sorted(again), key=lambda key: written[key])
        most = written[resource, (namespace, name)]
        times = [
            one.received for one in sent if one.changes and (one.resource, one.object) == (resource, (namespace, name))
        ]
        every_s = median(after - before for before, after in pairwise(times)) / 1e9
        driver = "its own writes wake it" if every_s < _TIMER_S else f"each every {every_s:.2g} s, as by a timer"
        return Found(
            id=ID,
            severity="defect",
            about=About(
                aspect=Aspect.ACTION,
                requests=[one for one in sent if one.changes and (one.resource, one.object) in again],
            ),
            text=f"{stall}: the operator wrote the same {len(again):,} object{'s' * (len(again) != 1)} over and over"
            f" ({', '.join(f'{number:,} {what}' for what, number in wrote)}): {driver}",
            evidence=(
                f"{resource} {namespace}/{name}: {most:,} times".replace(" /", " "),
                *([f"what changes in them: {changes}"] if (changes := _changes(seen, window, again)) else []),
                *evidence,
            ),
            check="hot_loop()",
        )
    held = Counter(
        (life.resource, name)
        for lives in seen.lives.values()
        for life in lives
        if life.exists(window.end) and life.deleting(window.start)
        if life.own_updates or (life.made_by_operator and life.events[0].finalizers)
        # It may rightly wait for children that are being deleted; the garbage collector deletes them after it.
        if not any(one.exists(window.end) and one.deleting(window.end) for one in seen.children.get(life.uid, ()))
        for name in life.finalizers_at(window.end)
        if not of_kubernetes(name)
    )
    if held:
        (resource, name), number = held.most_common(1)[0]
        let_go = sum((life.gone_at or window.end) < window.end for life in seen.lives[resource])
        if let_go:
            evidence.append(f"{let_go:,} others were let go")
        if len(held) > 1:
            evidence.append("where the clean-up of one kind waits for the other's, neither ends")
        stay = Counter(
            child.resource
            for life in seen.lives[resource]
            if life.exists(window.end) and life.deleting(window.start)
            for child in seen.below(life)
            if child.stays(window.end)
        )
        if stay:
            below = ", ".join(f"{children:,} {of}" for of, children in stay.most_common(3))
            evidence.append(f"below them {below} were not deleted")
        return Found(
            id=ID,
            severity="defect",
            about=About(
                aspect=Aspect.STATE,
                objects={life.key for life in seen.lives[resource] if name in life.finalizers_at(window.end)},
                field=FINALIZERS,
            ),
            text=f"{stall}: {number_of(number, resource)} {form(number, 'waits for its', 'wait for their')} finalizer"
            f" {name}"
            + _and_others(held)
            + ", which the operator does not take away"
            + (
                f": {logged}"
                if (logged := _logged(seen)) and failed.total() >= max(_FAILED, reconciled.total() / 2)
                else ""
            ),
            evidence=tuple(evidence) or (f"it sent {len(sent):,} requests in that time",),
            check='phase.milestone("gone", …)',
        )
    if failed.total() >= _FAILED and failed.total() >= reconciled.total() / 2:
        asked = f" ({len(sent):,} requests)" if sent else ", before any request"
        why = list(_why_failed(seen, window, asked=bool(sent)))
        return Found(
            id=ID,
            severity="defect",
            about=About(aspect=Aspect.ACTION, requests=sent) if sent else of_failures(Aspect.ACTION),
            text=f"{stall}: {failed.total():,} of {reconciled.total():,} reconciles ended in an error{asked}"
            + (f": {why[0]}" if why else ""),
            evidence=(
                *evidence,
                *(why[1:] if why else ["the operator's log says which: grovescale show -v has its last lines"]),
            ),
            check='error_ratio(kind="persistent")',
        )
    half = window._replace(start=(window.start + window.end) // 2)
    asks = sum(window.half(one.received) for one in sent), _reconciles(seen, half).total()
    if max(asks) >= _RATE * half.seconds:
        asked = ", ".join(
            f"{number:,} {what}" + f" (answered {code})" * (code >= 400)
            for (what, code), number in Counter((one.what, one.code if one.refused else 0) for one in sent).most_common(
                3
            )
        )
        known = cause(seen, window)
        aspect = Aspect.AMOUNT if known is None else Aspect.ACTION
        return Found(
            id=ID,
            severity="defect" if known is not None and known.severity == "defect" else "waste",
            about=About(aspect=aspect, requests=sent, times=[(window.start, window.end)]),
            text=f"{stall}: the operator went on and changed nothing: {asked or often}"
            + (f"; {known.text}" if known is not None else ""),
            evidence=(*(evidence if asked or failed else ()), *(known.evidence if known is not None else ())),
            check="hot_loop()",
        )
    if (known := cause(seen, window)) is not None:
        return Found(
            id=ID,
            severity=known.severity,
            about=of_outcome(Aspect.STATE, [window.phase]),
            text=f"{stall}: {known.text}",
            evidence=(
                *known.evidence,
                f"what the operator did in that time: {_did(seen, sent, reconciled)}",
            ),
        )
    return Found(
        id=ID,
        severity="note",
        about=of_outcome(Aspect.TIME, [window.phase]),
        text=f"{stall}: the operator did next to nothing ({_did(seen, sent, reconciled)}):"
        " it waits for something, or has missed an event",
        evidence=tuple(evidence),
    )


def _and_others(held: Counter[tuple[str, str]]) -> str:
    """Return what else waits for finalizers beside the most frequent: kinds that wait for each other go together."""
    others = held.most_common(3)[1:]
    return "".join(f", and {number_of(number, resource)} for {name}" for (resource, name), number in others)


def _did(seen: Observed, sent: Sequence[Sent], reconciled: Counter[str]) -> str:
    """Return how much the operator did; of reconciles only where it counts them."""
    requests = f"{len(sent):,} request{'s' * (len(sent) != 1)}"
    total = reconciled.total()
    return f"{requests}, {total:,} reconcile{'s' * (total != 1)}" if seen.reconcile_counters else requests


def _why_failed(seen: Observed, window: Window, *, asked: bool) -> Iterator[str]:
    """Yield what the recording has of why reconciles fail: a cause that requests show, and the most frequent error.

    Where they fail before any request, the error stands before what else is odd, which may well follow from it.
    """
    logged = _logged(seen)
    if (known := cause(seen, window, of_requests=bool(logged) and not asked)) is not None:
        yield known.text
        yield from known.evidence
    if logged:
        yield logged


def _logged(seen: Observed) -> str:
    """Return in words the error that the operator's log has most often; empty where there are few."""
    error = next((mark for mark in seen.contents.marks if mark.label == operator_log.ERRORS), None)
    if error is None or error.count < _FAILED:
        return ""
    return f"the operator logged most often, {error.count:,} times: {operator_log.message(error.detail)}"


def _changes(seen: Observed, window: Window, objects: set[tuple[str, ObjectId]]) -> str:
    """Return the fields of objects that change most often in a time."""
    paths = Counter(
        path
        for resource in {resource for resource, _ in objects}
        for life in seen.lives.get(resource, ())
        if (resource, life.object) in objects
        for event in life.events
        if event.difference is not None and window.start <= event.at < window.end
        for path in event.difference.paths
    )
    return ", ".join(path for path, _ in paths.most_common(3))


def _reconciles(seen: Observed, window: Window, *, result: str = "") -> Counter[str]:
    """Return controller → reconciles between the first and the last scrape of a time; ``result``: only those."""
    moments = seen.target.moments if seen.target is not None else []
    inside = [index for index, one in enumerate(moments) if window.start <= one.at <= window.end]
    if len(inside) < 2:
        return Counter()
    return +seen.reconciles_between(inside[0], inside[-1], lambda one: not result or one == result)
