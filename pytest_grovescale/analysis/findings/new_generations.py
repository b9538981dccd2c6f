"""What a status says of a new generation while what was below it for the one before still is.

Part of the rule `stale_status`, which has its reason and when it is silent.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import zip_longest
from statistics import median

from ...recording.records import ObjectSeen
from ..result import Finding
from .evidence import WANTED, Life, changed_paths, condition, number_of
from .grouping import About, Aspect, Found
from .observed import Observed

ID = "stale-status"

GENERATION = ("metadata.generation", "status.observedGeneration")
CACHE_LAG_NS = 1_500_000_000
"""Time within which a status may be written by an older generation, from a cache that is behind, ns."""
_SHOWN = 3
READY_STATES = {
    "status.conditions[type=Ready].status": "True",
    "status.conditions[type=Available].status": "True",
    "status.phase": "Ready",
}
_CONDITION = "status.conditions["
_AVAILABLE = condition("Available")
"""True while enough pods are Ready, of whatever generation, as that of a Deployment."""


def of_new_generations(seen: Observed) -> Iterator[Finding]:
    """Yield what statuses said too soon of new generations."""
    yield from _observed_ahead(seen)
    yield from _rolling_on(seen)


def _observed_ahead(seen: Observed) -> Iterator[Finding]:
    """Yield the kinds that were ready for a new generation before the operator wrote anything below for it."""
    for resource in sorted(seen.status_written & set(seen.lives)):
        early = [
            (life.name, seconds)
            for life in seen.lives[resource]
            if life.own_updates
            for seconds in _ready_too_soon(seen, life)
        ]
        if len(early) >= _SHOWN:
            yield Found(
                id=ID,
                severity="note",
                about=About(aspect=Aspect.STATE),
                text=f"{GENERATION[1]} of {resource} said {len(early):,} times that a new spec was observed, of"
                f" objects that were ready, {median(seconds for _, seconds in early):.2g} s (median) before the"
                " operator wrote the first of what it changed below: who waits for both goes on with what was before",
                evidence=(", ".join(name for name, _ in early[:_SHOWN]),),
            )


def _ready_too_soon(seen: Observed, life: Life) -> Iterator[float]:
    """Yield how long before the first write below an object it was ready for a generation, s, by the server's order."""
    for event, until, said in _observations(seen, life):
        state = life.numbers(said.at)
        if not any(state.get(path) == value for path, value in READY_STATES.items()):
            continue
        below = [
            one
            for child in seen.below(life)
            if child.made_by_operator
            for one in child.between(event.at, until)
            if one.change == "added" or changed_paths(one, WANTED)
        ]
        first = min(below, key=lambda one: int(one.resource_version or 0), default=None)
        if first is not None and 0 < int(said.resource_version or 0) < int(first.resource_version or 0):
            yield (first.at - said.at) / 1e9


def _observations(seen: Observed, life: Life) -> Iterator[tuple[ObjectSeen, int, ObjectSeen]]:
    """Yield (its change, the time of the next one, when its status had it) for each new generation that it observed."""
    end = seen.workload_deleted or seen.end
    changes = [event for event in life.events if GENERATION[0] in event.numbers and event.at <= end][1:]
    for event, after in zip_longest(changes, changes[1:]):
        until = after.at if after is not None else life.stays_until(end)
        wanted = event.numbers[GENERATION[0]]
        said = (one for one in life.between(event.at, until) if one.numbers.get(GENERATION[1]) == wanted)
        if (first := next(said, None)) is not None:
            yield event, until, first


def _rolling_on(seen: Observed) -> Iterator[Finding]:
    """Yield the conditions that hold for a new generation while pods of the one before still run."""
    for resource in sorted(seen.status_written & set(seen.lives)):
        early: dict[str, list[tuple[str, float]]] = defaultdict(list)
        for life in seen.lives[resource]:
            for path, seconds in _held_on(seen, life) if life.own_updates else ():
                early[path].append((life.name, seconds))
        for path, found in early.items():
            if len(found) >= _SHOWN:
                yield Found(
                    id=ID,
                    severity="note",
                    about=About(aspect=Aspect.STATE),
                    text=f"{path} of {number_of(len(found), resource)} stayed True for a new generation while pods of"
                    f" the one before were still being replaced, for {median(seconds for _, seconds in found):.2g} s"
                    " (median): who waits for it goes on before the rollout ends",
                    evidence=(", ".join(name for name, _ in found[:_SHOWN]),),
                )


def _held_on(seen: Observed, life: Life) -> Iterator[tuple[str, float]]:
    """Yield (condition, seconds) for each rollout in which a condition that waited for the first pods stayed True."""
    first = first_ready(seen, life)
    waited = life.numbers(first.at - 1).items() if first is not None else ()
    paths = [path for path, value in waited if path.startswith(_CONDITION) and value == "False"]
    for event, until, said in _observations(seen, life) if paths else ():
        pods = seen.pods_below.get(life.uid, ())
        old = [at for pod in pods if pod.stays(event.at) and (at := pod.leaves_at) is not None and at < until]
        new = sum(event.at < pod.begun < until for pod in pods)
        if not old or new < len(old) or (last := max(old)) < said.at + CACHE_LAG_NS:
            continue
        state = life.numbers(said.at)
        for path in paths:
            if path != _AVAILABLE and state.get(path) == "True":
                left = any(one.numbers.get(path, "True") != "True" for one in life.between(said.at, last))
                if not left:
                    yield path, (last - said.at) / 1e9


def first_ready(seen: Observed, life: Life) -> ObjectSeen | None:
    """Return the event with which the first pod below an object became Ready; None where that is not known."""
    found: list[ObjectSeen] = []
    for pod in seen.pods_below.get(life.uid, ()):
        if (ready := pod.ready) is None:
            continue
        if ready.initial:
            return None
        found.append(ready)
    return min(found, key=lambda event: int(event.resource_version or 0), default=None)
