"""What a status says before it is so: of a new object, and of a new generation.

Part of the rule `stale_status`, which has its reason and when it is silent.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterator
from itertools import zip_longest
from statistics import median

from ...recording.records import ObjectSeen
from ..result import Finding
from .evidence import WANTED, Life, changed_paths, condition, form, number_of
from .grouping import About, Aspect, Found
from .observed import Observed

ID = "stale-status"

READY_PODS, PODS = "status.readyReplicas", "status.replicas"
REPLICAS = (READY_PODS, PODS, "status.availableReplicas")
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


def premature(seen: Observed, counting: Collection[tuple[str, str]]) -> Iterator[Finding]:
    """Yield what statuses said too soon. ``counting``: (resource, path) of numbers that are those of all Ready pods."""
    yield from _ahead(seen)
    yield from _more_than_were(seen, counting)
    yield from _observed_ahead(seen)
    yield from _rolling_on(seen)


def _ahead(seen: Observed) -> Iterator[Finding]:
    """Yield a finding for each kind that was called ready before any pod below it was, or anything was made for it."""
    for resource in sorted(seen.status_written & set(seen.lives)):
        early: dict[tuple[str, bool], list[tuple[float, str]]] = defaultdict(list)
        for life in seen.lives[resource]:
            # One that is made while the workload goes has the status of the children that its namesake left.
            before = seen.workload_deleted is None or life.events[0].at < seen.workload_deleted
            became = _called_ready(life) if before else {}
            of_pods = bool(seen.pods_below.get(life.uid))
            first = (first_ready if of_pods else _first_made)(seen, life) if became else None
            for path, event in became.items():
                if first is not None and 0 < int(event.resource_version or 0) < int(first.resource_version or 0):
                    acts = bisect_left(seen.workload_changes, first.at) - bisect_left(seen.workload_changes, event.at)
                    if of_pods or not acts:
                        early[path, of_pods].append(((first.at - event.at) / 1e9, life.name))
        for (path, of_pods), found in early.items():
            if not of_pods and len(found) < _SHOWN:
                continue
            seconds = median(before for before, _ in found)
            said = f"{path} said that {number_of(len(found), resource)} {form(len(found), 'is', 'are')} ready before"
            whose, them = form(len(found), "its", "their"), form(len(found), "it", "them")
            what = f"the first of {whose} pods was Ready" if of_pods else f"anything was made for {them}"
            yield Found(
                id=ID,
                severity="defect",
                about=of_field(seen, {resource}, path),
                text=f"{said} {what}, {seconds:.2g} s before (median)",
                evidence=(", ".join(name for _, name in found[:_SHOWN]),),
            )
            break


def _first_made(seen: Observed, life: Life) -> ObjectSeen | None:
    """Return the event with which the first object that the operator made for one came; None where none is known."""
    made = [child.events[0] for child in seen.children.get(life.uid, ()) if child.made_by_operator]
    if any(event.initial for event in made):
        return None
    return min(made, key=lambda event: int(event.resource_version or 0), default=None)


def _more_than_were(seen: Observed, counting: Collection[tuple[str, str]]) -> Iterator[Finding]:
    """Yield the kinds that counted more pods as Ready than had been, by the API server's own order of writes."""
    for resource in sorted(seen.status_written & set(seen.lives)):
        own_names = {path for kind, path in counting if kind == resource}
        found: dict[str, list[str]] = defaultdict(list)
        for life in seen.lives[resource]:
            for path in {READY_PODS, *own_names}:
                said = _counted_too_many(seen, life, path, of_below=path in own_names)
                if said is not None:
                    number, were = said
                    found[path].append(f"{life.name} said {number:,}, and {were:,} of its pods had been Ready")
        for path, texts in sorted(found.items()):
            if len(texts) >= _SHOWN:
                yield Found(
                    id=ID,
                    severity="defect",
                    about=of_field(seen, {resource}, path),
                    text=f"{path} of {len(texts):,} {resource} counted pods that had not been Ready yet: {texts[0]}",
                    evidence=tuple(texts[1:_SHOWN]),
                )


def _counted_too_many(seen: Observed, life: Life, path: str, *, of_below: bool) -> tuple[int, int] | None:
    """Return (said, were) of the first number of ready pods that is more than had been Ready; None where none is.

    ``of_below``: whether it counts all pods below the object, not only those that it owns itself.
    """
    pods = seen.pods_below.get(life.uid, ()) if of_below else seen.children.get(life.uid, ())
    became = [pod.ready for pod in pods if pod.resource == "pods" and pod.ready]
    if not became or any(event.initial for event in (life.events[0], *became)):
        return None
    versions = sorted(int(event.resource_version or 0) for event in became)
    for event in life.events if versions[0] else ():
        number = event.numbers.get(path)
        were = bisect_left(versions, int(event.resource_version or 0))
        if isinstance(number, int) and number > were and (were or of_below):
            return number, were
    return None


def _called_ready(life: Life) -> dict[str, ObjectSeen]:
    """Return path → the first event with which an object's status said that it is ready."""
    found: dict[str, ObjectSeen] = {}
    for event in life.events:
        if event.initial:
            return {}
        for path, value in event.numbers.items():
            counted = path in REPLICAS and path != PODS and isinstance(value, int) and value > 0
            if READY_STATES.get(path) == value or counted:
                found.setdefault(path, event)
    return found


def of_field(seen: Observed, resources: Collection[str], field: str) -> About:
    """Return what a finding of a field of some kinds' objects is about: most of these it mostly is wrong in."""
    objects = {life.key for resource in resources for life in seen.lives[resource]}
    return About(aspect=Aspect.STATE, objects=objects, field=field)


def _observed_ahead(seen: Observed) -> Iterator[Finding]:
    """Yield the kinds that were ready for a new generation before the operator had begun, or seen, its rollout."""
    for resource in sorted(seen.status_written & set(seen.lives)):
        early: dict[bool, list[tuple[str, float]]] = defaultdict(list)
        for life in seen.lives[resource]:
            for seconds, taken_back in _ready_too_soon(seen, life) if life.own_updates else ():
                early[taken_back].append((life.name, seconds))
        for taken_back, found in sorted(early.items()):
            if len(found) < _SHOWN:
                continue
            before = "before the operator wrote the first of what it changed below"
            if taken_back:
                before = "before they were not, while their pods were replaced"
            yield Found(
                id=ID,
                severity="note",
                about=About(aspect=Aspect.STATE),
                text=f"{GENERATION[1]} of {resource} said {len(found):,} times that a new spec was observed, of"
                f" objects that were ready, {median(seconds for _, seconds in found):.2g} s (median) {before}: who"
                " waits for both goes on with what was before",
                evidence=(", ".join(name for name, _ in found[:_SHOWN]),),
            )


def _ready_too_soon(seen: Observed, life: Life) -> Iterator[tuple[float, bool]]:
    """Yield how long an object was ready for a generation before the first write below it, s, by the server's order.

    Where that write was before, and it was ready until pods below it went for it: for how long, and True.
    """
    for event, until, said in _observations(seen, life):
        state = life.numbers(said.at)
        ready = {path: value for path, value in READY_STATES.items() if state.get(path) == value}
        if not ready:
            continue
        below = [
            one
            for child in seen.below(life)
            if child.made_by_operator
            for one in child.between(event.at, until)
            if one.change == "added" or changed_paths(one, WANTED)
        ]
        first = min(below, key=lambda one: int(one.resource_version or 0), default=None)
        if first is None:
            continue
        if 0 < int(said.resource_version or 0) < int(first.resource_version or 0):
            yield (first.at - said.at) / 1e9, False
            continue
        later = life.between(said.at + 1, until)
        back = next((one for one in later for path in ready if one.numbers.get(path, ready[path]) != ready[path]), None)
        pods = seen.pods_below.get(life.uid, ())
        if back is not None and any(said.at < (pod.deleted_at or 0) <= back.at for pod in pods):
            yield (back.at - said.at) / 1e9, True


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
