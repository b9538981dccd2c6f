"""What each object of a phase waited for, how each instant of the phase is split among those, and which part of it an
actor was runnable without a core."""

from __future__ import annotations

import functools
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from http import HTTPStatus
from operator import attrgetter
from typing import NamedTuple

from ...recording.conditions import Count, Predicate, WatchSpec
from ...recording.evaluation import count_leaves
from ...recording.records import ObjectSeen, Request
from ..api_requests import HARNESS
from ..audit_times import changes_object, namespace_of
from ..cpu import Demand, Window
from ..recording_index import Contents, Owned, PhaseSpan, WatchStory
from ..result import OPERATOR

_MARKED = "metadata.deletionTimestamp"
_DELETES = frozenset({"delete", "deletecollection"})
_UPDATES = frozenset({"update", "patch"})
_LEVELS = 10
"""Owners above an object that are followed."""
_AFTER_NS = 10_000_000_000
"""Time after a phase in which the writes are looked at that may have released its objects' owners."""

Key = tuple[str, str]
"""(namespace, name)."""

MANAGER = "kube-controller-manager"
"""The controller manager: the process that all its controllers share, and the user where it has one for all of them."""

COLLECTOR, CONTROLLERS = "garbage-collector", "workload-controllers"
"""What such a user is: where it deletes, and where it makes or changes objects."""

SERVER = "api-server"
"""The API server with its etcd, which all requests wait for."""


CONTAINERS = "containers"
"""A pod's containers that run until they end, which the simulated kubelet writes; see the Stage ``pod-complete``."""


class Step(NamedTuple):
    """A write that advanced one object, times in ns of the recorder's clock."""

    received: int
    completed: int
    user: str
    deletes: bool = False
    ran_since: int = 0
    """When the containers began to run whose end it was; 0: it was no such end."""


class Wait(NamedTuple):
    """One object waited for one user from a moment to another, ns of the recorder's clock."""

    user: str
    start: int
    end: int
    deletes: bool = False
    """Whether it waited to be deleted."""


class Waits(NamedTuple):
    """All waits of a phase."""

    counted: list[Wait]
    """Of objects that a milestone counts."""
    named: list[Wait]
    """Of objects that a milestone names: considered while no counted one waits."""


class Turns(NamedTuple):
    """Seconds of one window by actor; all of them add up to the window."""

    in_flight: float
    """The operator's, while at least one of its requests was under way."""
    alone: float
    """The operator's, with none of its requests under way and nothing else waited for."""
    shared: float
    """The operator's, with none of its requests under way, while others were waited for, too."""
    beside: dict[str, float]
    """Actor → its part of `shared`, split among these others."""
    others: dict[str, float]
    """Actor → seconds that were its own."""
    others_in_flight: dict[str, float]
    """The part of `others` in which at least one request of that actor was under way."""
    idle: float
    """Nothing was waited for."""


class Taken(NamedTuple):
    """Time by actor, and the parts removed from it."""

    turns: list[Turns]
    """The rest: requests, and time that no CPU clock accounts for."""
    cpu: float | None
    """Seconds that the operator used a core while it was waited for; None when its clock was not read."""
    waiting: dict[str, float]
    """Process → seconds that it was runnable without a core while it was waited for; the API server's while requests of
    any actor were under way. Processes that were not measured are missing."""


def waits_of_phase(contents: Contents, phase: PhaseSpan) -> Waits | None:
    """Return the waits of the phase's objects; None when none of its milestones depends on objects."""
    counts = [count for declared in phase.declared.values() for count in count_leaves(declared.condition)]
    if not counts:
        return None
    until = _arrived(contents, phase)
    writes = _writes(contents, phase)
    family = _Family(contents, phase, writes)
    counted = {count.watch for count in counts if not count.name}
    beyond = {count.watch for count in counts if not _needs_existence(count)}
    named: dict[WatchSpec, set[str]] = defaultdict(set)
    for count in counts:
        if count.name and count.watch not in counted:
            named[count.watch].update(count.names)
    return Waits(
        [
            wait
            for spec in sorted(counted, key=lambda spec: (spec.resource, spec.path))
            for wait in _Story(contents, phase, spec, until, family, writes).waits(None, created=spec not in beyond)
        ],
        [
            wait
            for spec, names in named.items()
            for wait in _Story(contents, phase, spec, until, family, writes).waits(names)
        ],
    )


def _needs_existence(count: Count) -> bool:
    """Return whether a count needs nothing of an object but that it is there: its later writes are not waited for."""
    return not count.name and count.where == Predicate() and count.n > 0 and count.op != "<="


def _arrived(contents: Contents, phase: PhaseSpan) -> int:
    """Return when all milestones were met, or the phase's end: nothing waits for later events."""
    end = contents.end_of(phase)
    if set(phase.met) >= set(phase.declared):
        return min(end, max((met.at for met in phase.met.values()), default=end))
    return end


def _writes(contents: Contents, phase: PhaseSpan) -> dict[str, list[tuple[Request, Step]]]:
    """Return resource → the writes that were answered after a phase had begun, in the order of the log.

    Up to ten seconds after its end: a later one ended no wait in it. Of a test with many phases each looks at its own.
    """
    found: dict[str, list[tuple[Request, Step]]] = defaultdict(list)
    kubelet = contents.opened.identities.get("kwok")
    running: dict[Key, int] = {}
    # A line is read after its request was answered.
    first = bisect_left(contents.requests, phase.start, key=attrgetter("at"))
    last = bisect_left(contents.requests, contents.end_of(phase) + _AFTER_NS, key=attrgetter("at"))
    for request in contents.requests[first:last]:
        offset = contents.clock.offset(request.at)
        completed = request.completed_wall - offset
        if completed >= phase.start and changes_object(request):
            step = Step(request.received_wall - offset, completed, request.user, request.verb in _DELETES)
            key = request.namespace, request.name
            if request.resource == "pods" and not request.subresource and request.verb in ("create", "delete"):
                running.pop(key, None)  # another of that name
            elif request.user == kubelet and (request.resource, request.subresource) == ("pods", "status"):
                if since := running.get(key):
                    step = step._replace(user=CONTAINERS, ran_since=since)
                running[key] = completed
            found[request.qualified].append((request, step))
    return found


class _Family:
    """The objects above and below others, as far as watches have shown them, and who wrote each in a phase.

    An owner that is marked for deletion and has a finalizer is there until someone takes that away: its last writer
    released it. The harness is not waited for: what it makes or deletes is the workload itself.
    """

    def __init__(
        self, contents: Contents, phase: PhaseSpan, writes: Mapping[str, Sequence[tuple[Request, Step]]]
    ) -> None:
        self._owned = contents.owned
        self._writes, self._harness = writes, contents.opened.identities.get(HARNESS)
        self._end = contents.end_of(phase) + _AFTER_NS
        self._steps: dict[tuple[str, Key], list[Step]] = defaultdict(list)
        self._updates: dict[tuple[str, Key], list[Step]] = defaultdict(list)
        if not any(one.owner for one in self._owned.values()):
            return
        for resource, of_kind in writes.items():
            for request, step in of_kind:
                deletes = request.verb == "delete"
                makes = request.code == HTTPStatus.CREATED and not request.subresource
                updates = request.verb in _UPDATES and not request.subresource and not makes
                if request.user != self._harness and (deletes or makes or updates) and step.completed > phase.start:
                    kept = self._updates if updates else self._steps
                    kept[resource, (request.namespace, request.name)].append(step)

    def below(self, uid: str, since: int, until: int) -> list[Step]:
        """Return who wrote the objects that one owns, directly or not, and when, between two moments, in order."""
        found: list[Step] = []
        owners = [uid]
        for _ in range(_LEVELS):
            owned = [one for owner in owners for one in self._children.get(owner, ())]
            for _, one in owned:
                steps = self._steps_of.get((one.resource, (one.namespace, one.name)), ())
                found += [step for step in steps if since < step.completed < until]
            owners = [below for below, _ in owned]
            if not owners:
                break
        return sorted(found, key=attrgetter("completed"))

    @functools.cached_property
    def _children(self) -> Mapping[str, Sequence[tuple[str, Owned]]]:
        """UID → the objects that it owns, each with its own UID."""
        found: dict[str, list[tuple[str, Owned]]] = defaultdict(list)
        for uid, one in self._owned.items():
            if one.owner:
                found[one.owner].append((uid, one))
        return found

    @functools.cached_property
    def _steps_of(self) -> Mapping[tuple[str, Key], Sequence[Step]]:
        """(resource, object) → the writes to it, the harness's left out."""
        found: dict[tuple[str, Key], list[Step]] = defaultdict(list)
        for resource, of_kind in self._writes.items():
            for request, step in of_kind:
                if request.user != self._harness:
                    found[resource, (request.namespace, request.name)].append(step)
        return found

    def steps(self, uid: str, *, until: int) -> list[Step]:
        """Return who made, deleted or released the owners above an object, and when, until a moment, in order."""
        found: list[Step] = []
        below = self._owned.get(uid)
        for _ in range(_LEVELS):
            above = self._owned.get(below.owner) if below is not None else None
            if above is None:
                break
            steps = [*self._steps.get((above.resource, (above.namespace, above.name)), []), *self._release(above)]
            found += [step for step in steps if step.completed < until]
            below = above
        return sorted(found, key=lambda step: step.completed)

    def _release(self, owner: Owned) -> list[Step]:
        if not owner.marked or not owner.gone or owner.gone > self._end:
            return []
        updates = self._updates.get((owner.resource, (owner.namespace, owner.name)), [])
        last = max((one for one in updates if one.received < owner.gone), default=None, key=lambda one: one.completed)
        return [last._replace(deletes=True)] if last is not None and last.completed > owner.marked else []


class _Story:
    """The objects of one watch in one phase, and the writes behind them."""

    def __init__(
        self,
        contents: Contents,
        phase: PhaseSpan,
        spec: WatchSpec,
        until: int,
        family: _Family,
        writes: Mapping[str, Sequence[tuple[Request, Step]]],
    ) -> None:
        self._start, self._family = phase.start, family
        self._seen = _seen(contents, spec)
        self._steps: dict[Key, list[Step]] = defaultdict(list)
        self._unnamed: dict[str, list[Step]] = defaultdict(list)
        self._collections: dict[str, list[Step]] = defaultdict(list)
        self._deletes: dict[Key, int] = {}
        place = namespace_of(spec)
        for request, step in writes.get(spec.resource, ()):
            if place in ("", request.namespace) and step.received <= until:
                self._take(request, step)
        self._pair_creates()
        self._mark_collections()

    def waits(self, names: set[str] | None, *, created: bool = False) -> Iterable[Wait]:
        """Yield the waits of all objects, or of those with these names; ``created``: only until each was created.

        Until an object's owner was made, deleted or released, it waited for the user who did that: a pod of a Job that
        an operator makes waits for the operator first, and only then for the Job controller. And until what it owns was
        written for the last time before its own next step, it waited for those who wrote that: a custom resource whose
        status counts pods waits for the scheduler before it waits for the operator.
        """
        for key, steps in self._steps.items():
            if names is not None and key[1] not in names:
                continue
            own = sorted(steps, key=lambda one: one.completed)
            events = self._seen.get(key, [])
            if created:
                own = own[:1] if events and not events[0].initial and events[0].at >= self._start else []
                if not own:
                    continue
            before = self._family.steps(events[0].uid, until=own[0].completed) if events else []
            below = self._family.below(events[0].uid, self._start, own[-1].completed) if events else []
            since = self._start
            for step in _while_nothing_ran(sorted([*before, *below, *own], key=attrgetter("completed"))):
                if step.completed > since:
                    yield Wait(step.user, since, step.completed, step.deletes)
                    since = step.completed

    def _take(self, request: Request, step: Step) -> None:
        # The log gives a Namespace object its own name as namespace; a watch shows it without one.
        namespace = "" if request.resource == "namespaces" else request.namespace
        key = namespace, request.name
        if request.verb == "deletecollection":
            self._collections[namespace].append(step)
        elif not request.name:
            self._unnamed[namespace].append(step)
        elif not self._seen or key in self._seen:
            self._steps[key].append(step)
            if request.verb == "delete":
                self._deletes.setdefault(key, step.received)

    def _pair_creates(self) -> None:
        """Assign a create without a name in the audit log to each object that was made by generateName.

        The first to be answered goes to the first that was seen: which of them it was does not change how many had been
        made at any moment.
        """
        made: dict[str, list[Key]] = defaultdict(list)
        for key, events in self._seen.items():
            if events[0].change == "added" and not events[0].initial and events[0].at >= self._start:
                made[key[0]].append(key)
        for namespace, creates in self._unnamed.items():
            creates.sort(key=lambda step: step.completed)
            keys = sorted(made[namespace], key=lambda key: self._seen[key][0].at)
            for key, step in zip(keys, creates, strict=False):
                self._steps[key].append(step)

    def _mark_collections(self) -> None:
        """Add the step that a deletecollection was to each of its objects, which the log does not name.

        It was when the watch showed the object's deletionTimestamp, or earlier: when the object's own delete came.
        """
        for namespace, collections in self._collections.items():
            for key, events in self._seen.items():
                if key[0] != namespace:
                    continue
                marked = next((event.at for event in events if event.fields.get(_MARKED)), None)
                moment = min((at for at in (marked, self._deletes.get(key)) if at is not None), default=None)
                behind = [step for step in collections if moment is not None and step.received <= moment]
                if moment is not None and behind and moment >= self._start:
                    last = max(behind)
                    self._steps[key].append(Step(last.received, moment, last.user, deletes=True))


def _while_nothing_ran(steps: Sequence[Step]) -> Iterable[Step]:
    """Return the steps without those that others made while a pod's containers ran: that is what was waited for."""
    runs = [(step.ran_since, step.completed) for step in steps if step.ran_since]
    return (
        [step for step in steps if step.ran_since or not any(since < step.completed < end for since, end in runs)]
        if runs
        else steps
    )


def _seen(contents: Contents, spec: WatchSpec) -> dict[Key, list[ObjectSeen]]:
    """Return the events of the objects that a watch has shown; of the last such watch, if there were several."""
    stories: list[WatchStory] = [story for story in contents.watches.values() if story.opened.spec == spec]
    return dict(stories[-1].objects) if stories else {}


class _Event(NamedTuple):
    at: int
    kind: int
    """0: counted objects, 1: named objects, 2: requests under way."""
    actor: str
    change: int


def turns(
    waits: Waits,
    actors: Mapping[str, str],
    in_flight: Mapping[str, Iterable[tuple[int, int]]],
    windows: Sequence[Window],
) -> list[Turns]:
    """Return the turns of each window. ``actors``: user → actor; any other user is its own actor.

    ``in_flight``: actor → its requests, (start, end) in ns. ``windows`` follow each other without gaps.
    """
    events = sorted(
        [*_events(waits.counted, 0, actors), *_events(waits.named, 1, actors), *_spans(in_flight)],
        key=attrgetter("at"),
    )
    # Of each kind of events: how many by actor, and how many in all.
    counts: tuple[dict[str, int], dict[str, int], dict[str, int]] = ({}, {}, {})
    totals = [0, 0, 0]
    position, split = 0, []
    for window in windows:
        tally = _Tally()
        now = window.low
        while True:
            while position < len(events) and events[position].at <= now:
                _, kind, actor, change = events[position]
                counts[kind][actor] = counts[kind].get(actor, 0) + change
                totals[kind] += change
                position += 1
            until = min(window.high, events[position].at if position < len(events) else window.high)
            waited = 0 if totals[0] else 1
            tally.add(until - now, counts[waited], totals[waited], counts[2])
            now = until
            if now >= window.high:
                break
        split.append(tally.turns())
    return split


class _Tally:
    """Adds up one window."""

    def __init__(self) -> None:
        self._in_flight = self._alone = self._shared = self._idle = 0.0
        self._beside: defaultdict[str, float] = defaultdict(float)
        self._others: defaultdict[str, float] = defaultdict(float)
        self._others_in_flight: defaultdict[str, float] = defaultdict(float)

    def add(self, ns: int, waiting: Mapping[str, int], total: int, under_way: Mapping[str, int]) -> None:
        """Add a time in which nothing changed; ``total``: of `waiting`."""
        seconds = ns / 1e9
        if not total:
            self._idle += seconds
            return
        for actor, count in waiting.items():
            if count and actor != OPERATOR:
                part = seconds * count / total
                self._others[actor] += part
                if under_way.get(actor):
                    self._others_in_flight[actor] += part
        of_operator = waiting.get(OPERATOR, 0)
        if not of_operator:
            return
        own, of_others = seconds * of_operator / total, total - of_operator
        if under_way.get(OPERATOR):
            self._in_flight += own
        elif not of_others:
            self._alone += own
        else:
            self._shared += own
            for actor, count in waiting.items():
                if count and actor != OPERATOR:
                    self._beside[actor] += own * count / of_others

    def turns(self) -> Turns:
        return Turns(
            self._in_flight,
            self._alone,
            self._shared,
            dict(self._beside),
            dict(self._others),
            dict(self._others_in_flight),
            self._idle,
        )


def _events(waits: Iterable[Wait], kind: int, actors: Mapping[str, str]) -> Iterable[_Event]:
    for wait in waits:
        actor = actors.get(wait.user, wait.user)
        if actor == MANAGER:
            actor = COLLECTOR if wait.deletes else CONTROLLERS
        yield _Event(wait.start, kind, actor, 1)
        yield _Event(wait.end, kind, actor, -1)


def _spans(in_flight: Mapping[str, Iterable[tuple[int, int]]]) -> Iterable[_Event]:
    for actor, spans in in_flight.items():
        for start, end in spans:
            yield _Event(start, 2, actor, 1)
            yield _Event(end, 2, actor, -1)


def take_out(
    turns: Sequence[Turns], demands: Mapping[str, Sequence[Demand]], process_of: Mapping[str, str] = {}
) -> Taken:
    """Remove the operator's CPU time and every actor's wait for a core from the time of each window.

    ``demands``: process → its demand in each window; `SERVER`'s is that of the API server and etcd together.
    ``process_of``: actor → process; missing ones are their own. A process that is waited for uses the cores for that
    work: its demand counts as far as it fits into the time of its actors, used and waiting in proportion, as many
    threads may run or wait at a time.
    """
    waiting: defaultdict[str, float] = defaultdict(float)
    for process, by_window in demands.items():
        if any(demand.waiting_s is not None for demand in by_window):
            waiting[process] = 0.0
    left: list[Turns] = []
    cpu = 0.0
    for index, turn in enumerate(turns):
        here = {process: by_window[index] for process, by_window in demands.items()}
        used, rest = _of_operator(turn, here.get(OPERATOR), waiting)
        cpu += used
        left.append(_of_others(rest, here, process_of, waiting))
    return Taken(left, cpu if OPERATOR in demands else None, dict(waiting))


def _fit(demand: Demand | None, seconds: float) -> tuple[float, float]:
    """Return how long, within some seconds, a process had a core and how long it waited for one."""
    if demand is None:
        return 0.0, 0.0
    waited = demand.waiting_s or 0.0
    total = demand.used_s + waited
    scale = min(1.0, seconds / total) if total > 0 else 0.0
    return demand.used_s * scale, waited * scale


def _of_operator(turn: Turns, demand: Demand | None, waiting: defaultdict[str, float]) -> tuple[float, Turns]:
    """Return the operator's CPU time in its turns, and the turns without it: first from time without requests."""
    gaps = turn.alone + turn.shared
    used, waited = _fit(demand, gaps + turn.in_flight)
    if demand is not None and demand.waiting_s is not None:
        waiting[OPERATOR] += waited
    in_gaps = min(used + waited, gaps)
    left = 1 - in_gaps / gaps if gaps > 0 else 0.0
    return used, turn._replace(
        in_flight=max(0.0, turn.in_flight - (used + waited - in_gaps)),
        alone=turn.alone * left,
        shared=turn.shared * left,
        beside={actor: seconds * left for actor, seconds in turn.beside.items()},
    )


def _of_others(
    turn: Turns, demands: Mapping[str, Demand], process_of: Mapping[str, str], waiting: defaultdict[str, float]
) -> Turns:
    """Remove the other actors' wait for a core, then the API server's during any actor's requests."""
    own = {actor: seconds + turn.beside.get(actor, 0.0) for actor, seconds in turn.others.items()}
    in_flight: dict[str, float] = {}
    lost: dict[str, float] = {}
    together: defaultdict[str, float] = defaultdict(float)
    for actor, seconds in own.items():
        together[process_of.get(actor, actor)] += seconds
    for actor, seconds in own.items():
        process = process_of.get(actor, actor)
        demand = demands.get(process)
        share = seconds / together[process] if together[process] else 0.0
        used, lost[actor] = (part * share for part in _fit(demand, together[process]))
        if demand is not None and demand.waiting_s is not None:
            waiting[process] += lost[actor]
        requests = turn.others_in_flight.get(actor, 0.0) / turn.others[actor] * seconds if turn.others[actor] else 0.0
        in_flight[actor] = max(0.0, min(requests, seconds - used - lost[actor]))
    under_way = turn.in_flight + sum(in_flight.values())
    _, held = _fit(demands.get(SERVER), under_way)
    if (server := demands.get(SERVER)) is not None and server.waiting_s is not None:
        waiting[SERVER] += held
    share = held / under_way if under_way > 0 else 0.0
    keep = {
        actor: max(0.0, 1 - (lost[actor] + in_flight[actor] * share) / seconds) if seconds > 0 else 1.0
        for actor, seconds in own.items()
    }
    beside = {actor: seconds * keep.get(actor, 1.0) for actor, seconds in turn.beside.items()}
    return turn._replace(
        in_flight=turn.in_flight * (1 - share),
        shared=sum(beside.values()),
        beside=beside,
        others={actor: seconds * keep[actor] for actor, seconds in turn.others.items()},
        others_in_flight={actor: seconds * keep[actor] for actor, seconds in turn.others_in_flight.items()},
    )
