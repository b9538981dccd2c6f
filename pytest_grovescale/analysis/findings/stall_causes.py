"""Why a phase stalls: the request that failed, the object that is missing, what the operator has not looked at.

That pods do not come is the consequence; what came before it in the recording is the cause. In the order of how much
they explain: a write that was refused and not sent again; an object that was asked for, came later, and was not asked
for again; one that is not there; objects of the workload that the operator has done nothing for; work that ended, and
that it has done nothing about; the same of what has no owner; some objects that are behind others with the same below
them; tries that failed and ended; pods that do not become Ready.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from http import HTTPStatus
from operator import itemgetter
from typing import NamedTuple

from ...recording.conditions import READY_PATH
from ...recording.records import LateObject
from ..api_requests import BEING_TERMINATED
from ..reconciles import is_of
from ..result import SEVERITIES, Severity
from .evidence import Life, ObjectId, Sent, Window, is_news, shown
from .observed import LEAST_STALL_S, Observed
from .refusals import meaning

_GATES = re.compile(r"scheduling gates ([^;]+)")
"""In the reason of a late object; see `recording.timeout_diagnosis`."""
_WRONG = frozenset({400, 403, 413, 422})
_SHOWN = 3
_TRIES = 5
"""Creations of what exists already from which on the operator does not take it for its own."""
_LEAST, _FEW = 5, 0.2
"""Objects of a kind, and the share of them with nothing done, from which and up to which they are the odd ones."""


_State = tuple[tuple[str, str], ...]
"""Path → phase or condition, in order."""


class Cause(NamedTuple):
    """Why a phase stalls."""

    text: str
    severity: Severity
    evidence: Sequence[str] = ()


def cause(seen: Observed, window: Window, *, of_requests: bool = False) -> Cause | None:
    """Return what explains most why nothing goes on in a time; None where the recording does not show it.

    ``of_requests``: only requests that failed, and objects that they asked for.
    """
    start = next((span.start for span in seen.spans if span.phase.name == window.phase), window.start)
    sent = seen.requests_in(start, window.end)
    rules = [_asked_for, _lost] if of_requests else [_asked_for, _not_looked_at, _lost]
    if not of_requests and all(one.received < window.start for one in sent):
        # It sends nothing any more: what it did last says what it has missed, but where its watches were lost.
        rules += [*([] if seen.lost_watches else [_ended, _unowned, _missed]), _gave_up]
    found = [one for rule in rules for one in rule(seen, window, sent)]
    if not of_requests:
        found += _not_ready(seen, window)
    return min(found, key=lambda one: SEVERITIES.index(one.severity), default=None)


def _lost(seen: Observed, window: Window, sent: Sequence[Sent]) -> Iterator[Cause]:
    """Yield the writes that were refused and had not succeeded by the end, most objects first.

    Not of an object that the operator went on to write and that no milestone waits for: it was no hindrance.
    """
    open_: dict[tuple[str, str, ObjectId], list[Sent]] = {}
    written: dict[tuple[str, ObjectId], int] = {}
    for one in sent:
        if one.verb not in ("create", "update", "patch", "delete"):
            continue
        # What an update did not do, a patch may.
        key = "create" if one.verb == "create" else one.subresource, one.resource, one.object
        if one.changes:
            open_.pop(key, None)
            written[one.resource, one.object] = one.received
        elif one.refused and one.code != HTTPStatus.NOT_FOUND and not _has_it(seen, one):
            open_.setdefault(key, []).append(one)
    kinds: dict[tuple[str, int], list[list[Sent]]] = defaultdict(list)
    late = {(one.object.resource, (one.object.namespace, one.object.name)) for one in _late(seen, window)}
    for (_, resource, name), tries in open_.items():
        if (resource, name) in late or written.get((resource, name), 0) < tries[-1].completed:
            kinds[tries[-1].what, tries[-1].code].append(tries)
    for (what, code), found in sorted(kinds.items(), key=lambda one: (one[0][1] == HTTPStatus.CONFLICT, -len(one[1]))):
        last = max((tries[-1] for tries in found), key=lambda one: one.completed)
        why = f" ({said})" if (said := meaning(last)) else ""
        number = sum(map(len, found))
        quiet_s = (window.end - last.completed) / 1e9
        again = quiet_s < LEAST_STALL_S
        of = shown(last.object) if len(found) == 1 else f"for {len(found):,} objects, {shown(last.object)} for instance"
        exists = code == HTTPStatus.CONFLICT and last.verb == "create"
        maker = f", made by {by}," if exists and (by := _maker(seen, last)) else ""
        # What the test injects, `fault_recovery` judges. After a conflict there may be nothing left to write, and what
        # exists already may be as it should be; a few tries that nothing mends, or none after a failure, are no matter
        # of taste.
        excused = bool(seen.faults.windows) or BEING_TERMINATED in last.message
        excused |= code == HTTPStatus.CONFLICT and (last.verb != "create" or max(map(len, found)) < _TRIES)
        yield Cause(
            f"{what} {of}".rstrip() + f" was answered {code}{why}{maker} {number:,} time{'s' * (number != 1)}, and "
            + ("never went through" if again else f"not sent again for {quiet_s:.0f} s"),
            "note" if excused or (again and code not in _WRONG) else "defect",
            (f"the API server said: {last.message}",) if last.message else (),
        )  # fmt: skip


def _has_it(seen: Observed, one: Sent) -> bool:
    """Return whether the operator was refused to make what it had made itself."""
    return one.verb == "create" and one.code == HTTPStatus.CONFLICT and one.object in seen.made.get(one.resource, ())


def _maker(seen: Observed, one: Sent) -> str:
    """Return who made the object that a request names; empty where the log does not show it."""
    writes = seen.writes_by_object.get((one.resource, one.object), ())
    return next((seen.role(other.user) for other in writes if other.created), "")


def _asked_for(seen: Observed, window: Window, sent: Sequence[Sent]) -> Iterator[Cause]:
    """Yield objects that the operator asked for and that were not there: those that came later first."""
    asks: dict[tuple[str, ObjectId], list[Sent]] = defaultdict(list)
    for one in sent:
        if one.verb == "get" and not one.subresource and one.name:
            asks[one.resource, one.object].append(one)
    came: list[tuple[Sent, float]] = []
    absent: Counter[tuple[str, ObjectId]] = Counter()
    for (resource, of), tries in asks.items():
        last = tries[-1]
        if last.code != HTTPStatus.NOT_FOUND or of in seen.made.get(resource, ()):
            continue
        watched = resource in seen.watched_by_operator  # its cache has it then
        lives = seen.of_name.get((resource, of), ())
        made = [life.begun for life in lives]
        made += [
            one.completed
            for one in seen.writes_by_object.get((resource, of), ())
            if one.created and not one.subresource
        ]
        if later := [at for at in made if last.completed < at < window.end - LEAST_STALL_S * 1e9]:
            came += [] if watched else [(last, (min(later) - last.completed) / 1e9)]
        elif not made:
            absent[resource, of] = len(tries)
    if came:
        (last, seconds), number = came[0], len(came)
        more = f" and {number - 1:,} more" if number > 1 else ""
        yield Cause(
            f"the operator asked for {last.resource} {shown(last.object)}{more}, which came {seconds:.1f} s later, and"
            " did not look again, nor does it watch them",
            "defect",
        )
    if absent:
        (resource, of), tries_ = absent.most_common(1)[0]
        number = len(absent)
        more = f" and {number - 1:,} more" if number > 1 else ""
        yield Cause(
            f"the operator waits for {resource} {shown(of)}{more}, which does not exist (asked for {tries_:,}"
            f" time{'s' * (tries_ != 1)})",
            "note",
        )


def _not_looked_at(seen: Observed, window: Window, sent: Sequence[Sent]) -> Iterator[Cause]:
    """Yield the kind of the workload of whose objects the operator has done nothing for some, or for all."""
    applied: dict[str, list[Life]] = defaultdict(list)
    for one in seen.by_harness(seen.begin, window.end):
        if one.created:
            for life in seen.of_name.get((one.resource, one.object), ()):
                if life.stays(window.end):
                    applied[one.resource].append(life)
    watches = seen.watched_by_operator
    if watches and applied and not watches.intersection(applied):
        resource = max(applied, key=lambda of: len(applied[of]))
        if not any(one.resource in applied for one in seen.requests):
            yield Cause(
                f"the operator does not watch {' or '.join(sorted(applied))}, of which the test made"
                f" {len(applied[resource]):,}, and has not asked for any",
                "defect",
            )
        return
    named = {(one.resource, one.object) for one in seen.requests}
    for resource, lives in sorted(applied.items(), key=lambda one: -len(one[1])):
        if resource not in watches and resource not in seen.status_written:
            continue
        left = [
            life
            for life in lives
            if (resource, life.object) not in named and not any(one.made_by_operator for one in seen.below(life))
        ]
        if left and (len(left) < len(lives) or not sent):
            odd = len(lives) >= _LEAST and len(left) <= _FEW * len(lives)
            names = ", ".join(life.name for life in left[:_SHOWN])
            yield Cause(
                f"for {len(left):,} of {len(lives):,} {resource} the operator has sent no request, {names} for"
                " instance: it has missed them, or their reconciles end without a word",
                "defect" if odd else "note",
            )
            return


def _ended(seen: Observed, window: Window, sent: Sequence[Sent]) -> Iterator[Cause]:
    """Yield the kind whose objects own Jobs, or pods, that have ended, of which it has sent nothing since."""
    asked = _last_asked(sent)
    for resource in sorted(seen.status_written & set(seen.lives)):
        lives = [life for life in seen.lives[resource] if life.stays(window.end)]
        unseen: list[tuple[Life, Life]] = []
        for life in lives:
            family = [life, *seen.below(life)]
            ended = [(at, one) for one in family[1:] if one.made_by_operator and (at := one.ended_at) is not None]
            at, last = max(ended, key=itemgetter(0), default=(0, life))
            if ended and at < window.end and max(asked.get(one.key, 0) for one in family) < at:
                unseen.append((life, last))
        if len(unseen) >= max(_LEAST, (1 - _FEW) * len(lives)):
            (life, child), number = unseen[0], len(unseen)
            yield Cause(
                f"{child.resource} of {number:,} of {len(lives):,} {resource} have ended, and the operator has sent"
                " nothing for these since: it has missed that, or does not take it for their end",
                "defect",
                (f"{life.name}: {child.name}",),
            )


def _last_asked(sent: Sequence[Sent]) -> Mapping[tuple[str, ObjectId], int]:
    """Return resource and object → when the operator last asked for it, or wrote it, of requests in order."""
    return {(one.resource, one.object): one.received for one in sent}


def _unowned(seen: Observed, window: Window, sent: Sequence[Sent]) -> Iterator[Cause]:
    """Yield the kind of which all that the operator made has done its work, belongs to nothing, and woke nothing."""
    asked = _last_asked(sent)
    for resource, lives in sorted(seen.lives.items()):
        made = [life for life in lives if life.made_by_operator and life.stays(window.end)]
        done = [one for one in made if one.ended(window.end) or one.field(READY_PATH, window.end) == "True"]
        late = [one for one in done if asked.get(one.key, 0) < one.until(window.end)[-1].at < window.start]
        if len(made) < _LEAST or len(late) < len(made) or any(one.owner != "" for one in made):
            continue
        yield Cause(
            f"{len(made):,} {resource} that the operator made have no owner reference, by which most libraries find"
            " what to reconcile: they have done their work, and the operator has sent nothing since",
            "defect",
            (f"{made[0].name} for instance; an owner reference, or a watch that maps them, lets them wake it",),
        )


def _missed(seen: Observed, window: Window, sent: Sequence[Sent]) -> Iterator[Cause]:
    """Yield the kind of which some objects have another state than most, though what is below them is alike.

    Where the operator sends nothing any more. That it sent nothing since others changed what is below them shows that
    it has missed that; else it was something that is not below.
    """
    asked = _last_asked(sent)
    found: list[tuple[bool, int, Cause]] = []
    for resource in sorted(seen.status_written & set(seen.lives)):
        most, done, left = _odd_ones(seen, resource, window.end)
        if not left or len(done) < _LEAST:
            continue
        path, value = _differing(dict(most), dict(_state(left[0], window.end)))
        what = f"{len(left):,} of {len(left) + len(done):,} {resource} have {path} {value}, and the others, with the"
        what += f" same below them, {dict(most).get(path, 'none')}"
        since = [one for life in left if (one := _changed_since(seen, life, asked.get(life.key), window)) is not None]
        if 2 * len(since) >= len(left):
            life, child, after_s = since[0]
            why = f"{child.resource} below them changed, and the operator has sent nothing for them since: it lost that"
            evidence = f"{life.name}: {child.name} changed {after_s:.2g} s after the operator's last request for it"
            found.append((True, len(left), Cause(f"{what}: {why}", "defect", (evidence,))))
            continue
        only = len(left) <= _FEW * len(done) and all(
            len({_state(one, window.end) for one in lives if one.stays(window.end)}) == 1
            for other, lives in seen.lives.items()
            if other != resource and other not in {one.resource for one in seen.line(left[0])}
        )
        why = "it missed what they wait for, or looked at it in a cache that was behind"
        cause = Cause(f"{what}: {why}", "defect" if only else "note", (f"{left[0].name} for instance",))
        found.append((only, len(left), cause))
    if found:
        yield max(found, key=lambda one: one[:2])[2]


def _gave_up(seen: Observed, window: Window, sent: Sequence[Sent]) -> Iterator[Cause]:
    """Yield the controller whose reconciles had ended with an error before, and that has made none since."""
    moments = seen.target.moments if seen.target is not None else []
    inside = [number for number, one in enumerate(moments) if window.start <= one.at <= window.end]
    start = seen.scrape_at(f"start:{window.phase}")
    if len(inside) < 2 or start is None:
        return
    failed = seen.reconciles_between(start, inside[0], lambda result: result == "error")
    since = seen.reconciles_between(inside[0], inside[-1])
    for controller, number in failed.most_common():
        late = Counter(one.object.resource for one in _late(seen, window) if is_of(controller, one.object.resource))
        if number >= _TRIES and not since[controller] and late:
            yield Cause(
                f"{number:,} reconciles of {controller} had ended with an error, and it has not tried again since for"
                f" the {late.most_common(1)[0][0]} that the phase waits for: it gives up after some tries, and misses"
                " the event that they wait for",
                "defect",
            )
            return


def _odd_ones(seen: Observed, resource: str, at: int) -> tuple[_State, list[Life], list[Life]]:
    """Return the state of most objects of a kind that have the same below them, those, and the others of these."""
    alike: dict[object, dict[_State, list[Life]]] = defaultdict(lambda: defaultdict(list))
    for life in seen.lives[resource]:
        if life.stays(at):
            below = frozenset((child.resource, _state(child, at)) for child in seen.below(life))
            alike[below][_state(life, at)].append(life)
    by_state = max(alike.values(), key=lambda states: sum(map(len, states.values())), default={})
    ranked = sorted(by_state.items(), key=lambda one: -len(one[1]))
    most, done = ranked[0] if ranked else ((), [])
    return most, done, [life for _, lives in ranked[1:] for life in lives]


def _state(life: Life, at: int) -> _State:
    """Return the phases and conditions of an object at a moment; of a pod whether it is Ready, too."""
    words = {path: value for path, value in life.numbers(at).items() if isinstance(value, str)}
    ready = life.field(READY_PATH, at) if life.resource == "pods" else None
    return tuple(sorted({**words, **({READY_PATH: str(ready)} if ready is not None else {})}.items()))


def _differing(most: Mapping[str, str], other: Mapping[str, str]) -> tuple[str, str]:
    """Return a path at which a state differs from that of most, and its value there."""
    path = next(path for path in sorted({*most, *other}) if most.get(path) != other.get(path))
    return path, other.get(path, "none")


def _changed_since(seen: Observed, life: Life, asked: int | None, window: Window) -> tuple[Life, Life, float] | None:
    """Return an object, what others changed below it after the operator's last request for it, and how long after."""
    changed = [
        (event.at, child)
        for child in seen.below(life)
        if child.resource not in seen.status_written and not child.own_updates
        for event in child.events
        if event.difference is not None and is_news(event) and event.at < window.start
    ]
    at, child = max(changed, key=lambda one: one[0], default=(0, life))
    return (life, child, (at - asked) / 1e9) if asked is not None and at > asked else None


def _not_ready(seen: Observed, window: Window) -> Iterator[Cause]:
    """Yield the pods that the operator made and that are not Ready: what it waits for comes from others."""
    pods = [pod for pod in seen.lives.get("pods", ()) if pod.stays(window.end) and pod.made_by_operator]
    waiting = [pod for pod in pods if pod.field(READY_PATH, window.end) != "True"]
    if waiting and any(pod.ready is not None for pod in pods):
        phases = Counter(str(pod.field("status.phase", window.end) or "no phase") for pod in waiting)
        states = ", ".join(f"{number:,} {phase}" for phase, number in phases.most_common())
        text = f"it waits for {len(waiting):,} of {len(pods):,} pods that are not Ready ({states})"
        gates = _gates(seen, window)
        # Where the others were written by the operator, it is the one that lets go.
        ready = [pod for pod in pods if pod not in waiting]
        own = bool(ready) and all(pod.own_updates for pod in ready)
        gated = f": held by the scheduling gate {' and '.join(gates)}" if gates else ""
        gated += ", which the operator took away from the others" if gates and own else ""
        yield Cause(f"{text}, {waiting[0].name} for instance{gated}", "defect" if gates and own else "note")


def _gates(seen: Observed, window: Window) -> list[str]:
    """Return the scheduling gates that all pods have for which a phase's milestones waited at its end; often none."""
    pods = [one.reason for one in _late(seen, window) if one.object.resource == "pods"]
    gates = [set(found[1].split(", ")) for reason in pods if (found := _GATES.search(reason)) is not None]
    return sorted(set.intersection(*gates)) if gates and len(gates) == len(pods) else []


def _late(seen: Observed, window: Window) -> list[LateObject]:
    """Return the objects that a phase's milestones waited for at its end, as far as they were looked at."""
    return [one for span in seen.spans if span.phase.name == window.phase for one in span.recorded.late]
