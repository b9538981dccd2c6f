"""Core waits: time that each actor was runnable without a core, as other programs or the run itself used them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from .clocks import Demand
from .turns import OPERATOR, Turns

SERVER = "api-server"
"""The API server with its etcd, which all requests wait for."""


class Taken(NamedTuple):
    """Time by actor, and the parts removed from it."""

    turns: list[Turns]
    """The rest: requests, and time that no CPU clock accounts for."""
    cpu: float | None
    """Seconds that the operator used a core while it was waited for; None when its clock was not read."""
    waiting: dict[str, float]
    """Actor → seconds that it was runnable without a core while it was waited for; the API server's while requests of
    any actor were under way. Actors that were not measured are missing."""


def take_out(turns: Sequence[Turns], demands: Mapping[str, Sequence[Demand]]) -> Taken:
    """Remove the operator's CPU time and every actor's wait for a core from the time of each window.

    ``demands``: actor → its demand in each window; `SERVER`'s is that of the API server and etcd together. A process
    that is waited for uses the cores for that work: its demand counts as far as it fits into its time, used and waiting
    in proportion, as many threads may run or wait at a time.
    """
    waiting: defaultdict[str, float] = defaultdict(float)
    for actor, asked in demands.items():
        if any(demand.waiting_s is not None for demand in asked):
            waiting[actor] = 0.0
    left: list[Turns] = []
    cpu = 0.0
    for index, turn in enumerate(turns):
        here = {actor: asked[index] for actor, asked in demands.items()}
        used, rest = _of_operator(turn, here.get(OPERATOR), waiting)
        cpu += used
        left.append(_of_others(rest, here, waiting))
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


def _of_others(turn: Turns, demands: Mapping[str, Demand], waiting: defaultdict[str, float]) -> Turns:
    """Remove the other actors' wait for a core, then the API server's during any actor's requests."""
    own = {actor: seconds + turn.beside.get(actor, 0.0) for actor, seconds in turn.others.items()}
    in_flight: dict[str, float] = {}
    lost: dict[str, float] = {}
    for actor, seconds in own.items():
        demand = demands.get(actor)
        used, lost[actor] = _fit(demand, seconds)
        if demand is not None and demand.waiting_s is not None:
            waiting[actor] += lost[actor]
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
