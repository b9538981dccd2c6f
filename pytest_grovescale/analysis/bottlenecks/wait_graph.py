"""How each instant of a phase is split among those that its objects waited for, and which part of it an actor was
runnable without a core."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import NamedTuple

from ..cpu import Demand, Window
from ..result import OPERATOR
from .object_waits import Wait, Waits

MANAGER = "kube-controller-manager"
"""The controller manager: the process that all its controllers share, and the user where it has one for all of them."""

COLLECTOR, CONTROLLERS = "garbage-collector", "workload-controllers"
"""What such a user is: where it deletes, and where it makes or changes objects."""

SERVER = "api-server"
"""The API server with its etcd, which all requests wait for."""


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
