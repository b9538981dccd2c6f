"""Objects that the operator makes and that are deleted again before anything else has changed.

Whatever made it change its mind was known when it made them: a hash computed from a template without its defaults, a
name that is drawn again at each reconcile, an owner reference that the garbage collector finds to be of no object
(https://kubernetes.io/docs/concepts/architecture/garbage-collection/#owners-dependents). Each costs an etcd write, an
Event, a scheduling and an image pull.

A reconciler that makes children before it looks at its object's deletionTimestamp makes them again while they go, and a
deletion that waits for them (foreground) never ends.

No false alarm: between two changes of the workload by the harness, from its first apply on and never after a deletion;
pods that ended by themselves are left out, and so is what only the namespace or a user deleted. Five objects, and a
tenth of the kind, or two that their maker deleted within five seconds while their owner stayed. Children of an owner
that goes count where there was one of their name before, by the API server's own order of writes. Kinds that are not
watched count where the log has one object made and collected three times.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator

from ..result import Finding, Severity
from .evidence import Life, shown
from .observed import AGAIN, Observed

ID = "churn"

_LEAST = 5
_SHARE = 0.1
_SHARE_OF_SURPLUS = 0.05
_SHOWN = 3
_FEW = 2
_MOMENTS_NS = 5_000_000_000
"""Objects that their maker deletes within that time of which few show that it decides on a cache that is behind."""
_COLLECTOR = ("generic-garbage-collector", "kube-controller-manager")
"""Ends of the names of who collects garbage."""
_ENDED = ("Succeeded", "Failed")


def findings(seen: Observed) -> Iterator[Finding]:
    """Yield a finding for each kind of which objects were made for nothing."""
    applied = seen.workload_applied
    if not seen.operator or not seen.log_whole or applied is None:
        return
    deleters = _deleters(seen)
    yield from _not_watched(seen)
    unowned: set[str] = set()
    for resource, lives in sorted(seen.lives.items()):
        own = [life for life in lives if life.events[0].at >= applied and seen.made_by_operator(life)]
        gone = [life for life in own if _in_one_step(seen, life) and not _ended(life)]
        who = {life.uid: deleters.get((resource, life.name), deleters.get((resource, ""), "")) for life in gone}
        collected = [life for life in gone if seen.role(who[life.uid]).endswith(_COLLECTOR)]
        if len(collected) >= max(_LEAST, _SHARE * len(own)):
            unowned.add(resource)
            why = "the garbage collector removed them, since their owner does not exist"
            yield _made_for_nothing(resource, collected, of=len(own), why=why, severity="defect")
        by_operator = [life for life in gone if who[life.uid] == seen.operator]
        surplus = [life for life in by_operator if _is_surplus(seen, life)]
        if len(by_operator) >= max(_LEAST, _SHARE_OF_SURPLUS * len(own)):
            yield _made_for_nothing(resource, by_operator, of=len(own), why="it deleted them itself", severity="waste")
        elif len(surplus) >= _FEW:
            why = "it deleted them itself, moments after it had made them: it decides by a cache that is behind"
            yield _made_for_nothing(resource, surplus, of=len(own), why=why, severity="waste")

    # What is made again all the time is made for owners that go, too.
    yield from _of_owners_that_go(seen, unowned)


def _made_for_nothing(resource: str, lives: list[Life], *, of: int, why: str, severity: Severity) -> Finding:
    return Finding(
        id=ID,
        severity=severity,
        text=f"{len(lives):,} of {of:,} {resource} that the operator made were deleted again while nothing else"
        f" changed: {why}",
        evidence=(_names(lives),),
        check=f'api_requests(phase=…, verb="create", resource="{resource}", max=…)',
    )


def _is_surplus(seen: Observed, life: Life) -> bool:
    """Return whether an object was deleted moments after it was made, by its maker, while its owner stayed."""
    owner, gone = seen.known.get(life.owner or ""), life.leaves_at
    stayed = owner is None or not owner.deleting(gone or 0)
    return stayed and gone is not None and gone - life.begun < _MOMENTS_NS


def _of_owners_that_go(seen: Observed, without: set[str]) -> Iterator[Finding]:
    """Yield a finding for each other kind that was made again for owners whose deletion had been asked for."""
    for resource, lives in sorted(seen.lives.items()):
        if resource in without:
            continue
        again: dict[str, list[Life]] = {}
        known: set[tuple[str, str, str | None]] = set()
        for life in sorted(lives, key=lambda one: one.begun):
            place = *life.object, life.owner
            owner = seen.known.get(life.owner or "")
            if owner is not None and place in known and seen.made_by_operator(life) and _made_after(life, owner):
                again.setdefault(owner.resource, []).append(life)
            known.add(place)
        for of, found in again.items():
            if len(found) < _LEAST:
                continue
            yield Finding(
                id=ID,
                severity="defect",
                text=f"the operator made {len(found):,} {resource} again whose {of} were being deleted: it makes them"
                " before it looks at the deletionTimestamp",
                evidence=(_names(found),),
                check=f'api_requests(phase=…, verb="create", resource="{resource}", max=0)',
            )


def _made_after(life: Life, owner: Life) -> bool:
    """Return whether an object was made after the deletion of its owner had been asked for."""
    asked = next((event for event in owner.events if event.at == owner.marked_at), None)
    return asked is not None and 0 < int(asked.resource_version or 0) < int(life.events[0].resource_version or 0)


def _not_watched(seen: Observed) -> Iterator[Finding]:
    """Yield the kinds that no watch shows of which objects are made and collected again and again."""
    collected = Counter(
        (one.resource, one.object)
        for one in seen.all_requests
        if one.verb == "delete" and one.changes and seen.role(one.user).endswith(_COLLECTOR)
    )
    again = {key: number for key, number in seen.creations.items() if min(number, collected[key]) >= AGAIN}
    for resource in sorted({resource for resource, _ in again} - set(seen.lives)):
        often = [number for (of, _), number in again.items() if of == resource]
        yield Finding(
            id=ID,
            severity="defect",
            text=f"the operator made {len(often):,} {resource} {sum(often):,} times: the garbage collector removed them"
            " each time, since the owner in their ownerReferences does not exist (a wrong uid, kind or namespace)",
            check=f'api_requests(phase=…, verb="create", resource="{resource}", max=…)',
        )


def _deleters(seen: Observed) -> dict[tuple[str, str], str]:
    """Return (resource, name) → who deleted it first; under an empty name, who deleted a whole collection.

    A pod is deleted once more by its node, when its containers have ended.
    """
    deletions = [one for one in seen.all_requests if one.verb in ("delete", "deletecollection") and one.changes]
    return {(one.resource, one.name if one.verb == "delete" else ""): one.user for one in reversed(deletions)}


def _in_one_step(seen: Observed, life: Life) -> bool:
    gone = life.gone_at()
    if gone is None or gone >= seen.end:
        return False
    step = bisect_right(seen.workload_changes, life.events[0].at)
    deleted = seen.workload_deleted
    return step == bisect_right(seen.workload_changes, gone) and (deleted is None or gone < deleted)


def _ended(life: Life) -> bool:
    return any(event.fields.get("status.phase") in _ENDED for event in life.events)


def _names(lives: list[Life]) -> str:
    often, number = Counter(life.object for life in lives).most_common(1)[0]
    if number > 1:
        return f"{shown(often)}: {number:,} times"
    named = ", ".join(shown(life.object) for life in lives[:_SHOWN])
    return named + (f" and {len(lives) - _SHOWN:,} more" if len(lives) > _SHOWN else "")
