"""Objects that the operator makes and that are deleted again before anything else has changed.

Whatever made it change its mind was known when it made them: a hash computed from a template without its defaults, a
name that is drawn again at each reconcile, an owner reference that the garbage collector finds to be of no object
(https://kubernetes.io/docs/concepts/architecture/garbage-collection/#owners-dependents). Each costs an etcd write, an
Event, a scheduling and an image pull.

A reconciler that makes children before it looks at its object's deletionTimestamp makes them again while they go, and a
deletion that waits for them (foreground) never ends.

No false alarm: between two changes of the workload by the harness, from its first apply on and never after a deletion;
pods and Jobs that ended by themselves are left out, and so is what only the namespace or a user deleted. Five objects,
and a tenth of the kind, or two that their maker deleted within five seconds while their owner stayed. Children of an
owner that goes count where one of their name had gone since, by the API server's own order of writes, or had been there
before, or one of their kind gone since, a second and a half later. Kinds that are not watched count where the log has
one object made and collected three times. For what is replaced, see `replacements`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from ..result import Finding, Severity
from .evidence import WANTED, Life, ObjectId, changed_paths
from .grouping import About, Aspect, Found
from .observed import AGAIN, Observed
from .replacements import ID as ID
from .replacements import MOMENTS_NS, in_one_step, names, replacements

_LEAST = 5
_SEVERAL = 3
_SHARE = 0.1
_SHARE_OF_SURPLUS = 0.05
_USUAL = 0.8
_FEW = 2

_COLLECTOR = ("generic-garbage-collector", "kube-controller-manager")
"""Ends of the names of who collects garbage."""
_LATER_NS = 1_500_000_000
"""Time after which an operator's cache, on a busy machine too, shows that an object is being deleted, ns."""


def findings(seen: Observed) -> Iterator[Finding]:
    """Yield a finding for each kind of which objects were made for nothing."""
    applied = seen.workload_applied
    if not seen.operator or not seen.log_whole or applied is None:
        return
    deleters = _deleters(seen)
    yield from _not_watched(seen)
    yield from replacements(seen)
    unowned: set[str] = set()
    for resource, lives in sorted(seen.lives.items()):
        own = [life for life in lives if life.events[0].at >= applied and life.made_by_operator]
        gone = [life for life in own if in_one_step(seen, life) and life.ended_at is None]
        who = {life.uid: deleters.get(life.key, deleters.get((resource, (life.namespace, "")), "")) for life in gone}
        collected = [life for life in gone if seen.role(who[life.uid]).endswith(_COLLECTOR)]
        if len(collected) >= max(_LEAST, _SHARE * len(own)):
            unowned.add(resource)
            # An owner that existed was deleted since: its children went with it. One that stays was not found.
            there = [life for life in collected if (of := seen.known.get(life.owner or "")) and of.stays(life.begun)]
            unfound = [life for life in there if _outlived(seen, life)]
            absent = 2 * len(there) < len(collected)
            mistaken = not absent and 2 * len(unfound) >= len(collected)
            does = "does not exist" if absent else "was deleted, too"
            if mistaken:
                does = "is not found by the kind, name and uid of their references, though it is there"
            why = f"the garbage collector removed them, since their owner {does}"
            if mistaken and resource == "secrets" and not any(map(_is_collectors_own, map(seen.role, who.values()))):
                why = (
                    "the controller manager removed them, although their owner stays, as it does with the tokens of"
                    " ServiceAccounts that it does not know yet: make a ServiceAccount before its Secret"
                )
            severity: Severity = "defect" if absent or mistaken else "waste"
            yield _made_for_nothing(seen, collected, of=len(own), why=why, severity=severity)
        by_operator = [life for life in gone if who[life.uid] == seen.operator]
        surplus = [life for life in by_operator if _is_surplus(seen, life)]
        if len(by_operator) >= max(_LEAST, _SHARE_OF_SURPLUS * len(own)):
            why = "it deleted them itself" + _after_own_change(seen, by_operator)
            yield _made_for_nothing(seen, by_operator, of=len(own), why=why, severity="waste")
        elif len(surplus) >= _FEW:
            why = "it deleted them itself, moments after it had made them: it decides by a cache that is behind"
            yield _made_for_nothing(seen, surplus, of=len(own), why=why, severity="waste")

    # What is made again all the time is made for owners that go, too.
    yield from _of_owners_that_go(seen, unowned)


def _is_collectors_own(role: str) -> bool:
    """Return whether a role is the garbage collector's own: where all controllers have one, it may be any of them."""
    return role.endswith(_COLLECTOR[0])


def _made_for_nothing(seen: Observed, lives: list[Life], *, of: int, why: str, severity: Severity) -> Finding:
    resource = lives[0].resource
    return Found(
        id=ID,
        severity=severity,
        about=About(aspect=Aspect.ACTION, requests=seen.own_writes(lives)),
        text=f"{len(lives):,} of {of:,} {resource} that the operator made were deleted again while nothing else"
        f" changed: {why}",
        evidence=(names(lives),),
        check=f'api_requests(phase=…, verb="create", resource="{resource}", max=…)',
    )


def _outlived(seen: Observed, life: Life) -> bool:
    """Return whether an object's owner was still there, and not going, when it had been deleted."""
    owner, gone = seen.known.get(life.owner or ""), life.gone_at
    return owner is not None and gone is not None and owner.stays(gone + _LATER_NS)


def _is_surplus(seen: Observed, life: Life) -> bool:
    """Return whether an object was deleted moments after it was made, by its maker, while its owner stayed."""
    owner, gone = seen.known.get(life.owner or ""), life.leaves_at
    stayed = owner is None or not owner.deleting(gone or 0)
    return stayed and gone is not None and gone - life.begun < MOMENTS_NS


def _after_own_change(seen: Observed, lives: Sequence[Life]) -> str:
    """Return in words what else the operator had changed for the same owner shortly before most deletions."""
    changed: Counter[tuple[str, str]] = Counter()
    for life in lives:
        at = life.leaves_at or 0
        changed.update(
            {
                (other.resource, path)
                for other in seen.children.get(life.owner or "", ())
                if other.resource != life.resource and other.made_by_operator
                for event in other.between(max(life.begun, at - MOMENTS_NS), at)
                for path in changed_paths(event, WANTED)
            }
        )
    (resource, path), number = changed.most_common(1)[0] if changed else (("", ""), 0)
    if number < _USUAL * len(lives):
        return ""
    return f", after it had changed {path} of {resource} of the same owner"


def _of_owners_that_go(seen: Observed, without: set[str]) -> Iterator[Finding]:
    """Yield a finding for each other kind that was made again for owners whose deletion had been asked for."""
    going = (owner for uid in seen.children if (owner := seen.known.get(uid)) is not None)
    asked = {owner.uid: _version_asked(owner) for owner in going if owner.marked_at is not None}
    for resource, lives in sorted(seen.lives.items()):
        if resource in without:
            continue
        again: dict[str, list[Life]] = {}
        known: dict[tuple[ObjectId, str | None], Life] = {}
        late = {life for life in lives if life.made_by_operator and _is_late(seen, life, asked)}
        for life in sorted(lives, key=lambda one: one.begun) if late else ():
            place = life.object, life.owner
            if life in late:
                owner, before = seen.known[life.owner or ""], known.get(place)
                if (before and _is_again(life, before, owner, asked[owner.uid])) or _takes_a_place(seen, life, owner):
                    again.setdefault(owner.resource, []).append(life)
            known[place] = life
        for of, found in again.items():
            # One object again and again is the race of a single owner.
            if len(found) < _LEAST or len({life.object for life in found}) < _SEVERAL:
                continue
            yield Found(
                id=ID,
                severity="defect",
                about=About(aspect=Aspect.ACTION, requests=seen.own_writes(found)),
                text=f"the operator made {len(found):,} {resource} again whose {of} were being deleted: it makes them"
                " before it looks at the deletionTimestamp",
                evidence=(names(found),),
                check=f'api_requests(phase=…, verb="create", resource="{resource}", max=0)',
            )


def _is_again(life: Life, before: Life, owner: Life, asked: int) -> bool:
    """Return whether an object was made for an owner that goes (``asked``: since this version) in place of another one.

    What went earlier, for a reason of its own, may be wanted again just when the deletion comes: the cache lags.
    """
    last, marked = before.events[-1], owner.marked_at or 0
    version = int(last.resource_version or 0)
    went_with_it = version > asked if version else last.at >= marked
    return _made_after(life, asked) and (went_with_it or life.begun >= marked + _LATER_NS)


def _takes_a_place(seen: Observed, life: Life, owner: Life) -> bool:
    """Return whether an object was made for one of its kind, of another name, that went while their owner does."""
    asked = owner.marked_at
    if asked is None or life.begun < asked + _LATER_NS:
        return False
    like = (other for other in seen.children.get(owner.uid, ()) if other.resource == life.resource)
    # What cleans up may come in several steps, none of which was there before.
    gone = [other.gone_at for other in like if other.begun < asked]
    return any(at is not None and asked <= at <= life.begun for at in gone)


def _is_late(seen: Observed, life: Life, asked: Mapping[str, int]) -> bool:
    """Return whether an object may have been made for an owner that goes; ``asked``: UID → version; see below."""
    version = asked.get(life.owner or "")
    return version is not None and (
        _made_after(life, version) or life.begun >= (seen.known[life.owner or ""].marked_at or 0) + _LATER_NS
    )


def _version_asked(owner: Life) -> int:
    """Return the version with which the deletion of an object had been asked for; 0: unknown."""
    asked = next((event for event in owner.events if event.at == owner.marked_at), None)
    return int(asked.resource_version or 0) if asked is not None else 0


def _made_after(life: Life, version: int) -> bool:
    """Return whether an object was made after some version, where that is known."""
    return 0 < version < int(life.events[0].resource_version or 0)


def _not_watched(seen: Observed) -> Iterator[Finding]:
    """Yield the kinds that no watch shows of which objects are made and collected again and again."""
    if max(seen.creations.values(), default=0) < AGAIN:
        return
    collected = Counter(
        (one.resource, one.object)
        for one in seen.all_requests
        if one.verb == "delete" and one.changes and seen.role(one.user).endswith(_COLLECTOR)
    )
    again = {key: number for key, number in seen.creations.items() if min(number, collected[key]) >= AGAIN}
    for resource in sorted({resource for resource, _ in again} - set(seen.lives)):
        often = [number for (of, _), number in again.items() if of == resource]
        creations = [one for one in seen.requests if one.verb == "create" and (one.resource, one.object) in again]
        yield Found(
            id=ID,
            severity="defect",
            about=About(aspect=Aspect.ACTION, requests=[one for one in creations if one.resource == resource]),
            text=f"the operator made {len(often):,} {resource} {sum(often):,} times: the garbage collector removed them"
            " each time, since the owner in their ownerReferences does not exist (a wrong uid, kind or namespace)",
            check=f'api_requests(phase=…, verb="create", resource="{resource}", max=…)',
        )


def _deleters(seen: Observed) -> dict[tuple[str, ObjectId], str]:
    """Return (resource, object) → who deleted it first; under an empty name, who deleted all of a namespace's.

    A pod is deleted once more by its node, when its containers have ended.
    """
    deletions = [one for one in seen.all_requests if one.verb in ("delete", "deletecollection") and one.changes]
    return {
        (one.resource, (one.namespace, one.name if one.verb == "delete" else "")): one.user
        for one in reversed(deletions)
    }
