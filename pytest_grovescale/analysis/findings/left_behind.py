"""Objects that the operator made and that still exist when the workload is gone.

Kubernetes removes what has an owner (garbage collection of dependents:
https://kubernetes.io/docs/concepts/architecture/garbage-collection/); anything else its maker must delete. What is left
fills etcd and, as a name that is taken, stands in the way of the next workload.

No false alarm: objects with an owner are left out, however long the garbage collector takes, unless the owner was there
before the workload and stays: then nothing removes them, and a deletion that waits for them never ends. So is what the
operator made before the first phase, as part of itself, and what is in a namespace that it made, which goes with that.
It had some seconds to delete the rest, or nothing went on any more. A finalizer that comes late is a note, by the API
server's own order of writes, of half of the kind and five; so is one that was taken away before the operator had
deleted what has no owner and carries its object's name, three of them. What is named for something that its owner's
spec lost counts where the operator had at least three seconds for it before the test went on, was not working through a
queue, and made others of that kind, owner and pattern of names; not claims, whose data may be meant to stay. Claims for
volumes of its StatefulSets, which Kubernetes keeps for their data
(https://kubernetes.io/docs/concepts/workloads/controllers/statefulset/#persistentvolumeclaim-retention), are a note
where it deletes none: they may be meant to stay.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

import msgspec

from ...recording.object_references import any_kind
from ..result import Finding
from .evidence import FINALIZERS, Life, ObjectId, changed_paths, form, listed, number_of, of_kubernetes, shown
from .grouping import About, Aspect, Found
from .observed import Observed

ID = "left-behind"

_SHOWN = 3
_SEVERAL = 5
_LAG_NS = 100_000_000
_ORPHANED_NS = 5_000_000_000
_OWNERS = "metadata.ownerReferences"
_CLAIMS = "persistentvolumeclaims"
_NOTICED_NS = 3_000_000_000
"""Time for an operator to take back what a change of a spec leaves without a reason, ns."""


def findings(seen: Observed) -> Iterator[Finding]:
    """Yield a finding for each kind of which objects are left."""
    if not seen.operator:
        return
    for resource, owner, kept in kept_by_owners(seen):
        below = Counter(life.resource for one in kept for life in seen.below(one) if life.exists(seen.end))
        why = f"{form(len(kept), 'its', 'their')} owner is {owner.resource} {shown(owner.object)}"
        more = (f"with them {', '.join(f'{number:,} {of}' for of, number in below.most_common())}",) if below else ()
        one = _finding(seen, resource, kept, f"{why}, which was there before and stays")
        yield msgspec.structs.replace(one, evidence=(*one.evidence, *more))
    yield from _of_what_was_dropped(seen)
    yield from _late_finalizers(seen)
    let_go = _LetGo(seen)
    yield from _let_go_early(seen, let_go)
    yield from _orphaned(seen)
    if not (seen.settled or (_is_stuck(seen) and not seen.workload_stays)):
        return
    yield from _claims(seen)
    own_namespaces = {life.name for life in seen.lives.get("namespaces", ()) if life.made_by_operator}
    for resource, lives in sorted(seen.lives.items()):
        left = [life for life in lives if life.exists(seen.end) and life.made_by_operator]
        own = {life.uid: [name for name in life.finalizers if not of_kubernetes(name)] for life in left}
        # The harness' clean-up comes later, and a finalizer of Kubernetes, as that of claims, then keeps what it marks.
        stuck = [life for life in left if life.deleting(seen.end) and own[life.uid]]
        unowned = [
            life
            for life in left
            if life.owner == "" and not life.deleting(seen.end) and life.namespace not in own_namespaces
        ]
        if unowned:
            have, them = form(len(unowned), "it has", "they have"), form(len(unowned), "it", "them")
            why = f"{have} no owner, and the operator did not delete {them}"
            of = [let_go.for_which(life) for life in unowned]
            if of[0] is not None and None not in of:
                why += f", though it took the finalizer of {form(len(of), 'its', 'their')} {of[0].resource} away"
            yield _finding(seen, resource, unowned, why)
        if stuck:
            names = sorted({name for life in stuck for name in own[life.uid]})
            their = form(len(stuck), "its", "their")
            yield _finding(seen, resource, stuck, f"{their} deletion waits for {', '.join(names)}", field=FINALIZERS)


def _is_stuck(seen: Observed) -> bool:
    """Return whether nothing went on any more after the workload had been deleted."""
    deleted = seen.workload_deleted
    return deleted is not None and any(window.start >= deleted for window in seen.stalls)


def _claims(seen: Observed) -> Iterator[Finding]:
    """Yield the claims that Kubernetes made for StatefulSets, and that no one deleted, by the log alone."""
    if not any(life.made_by_operator for life in seen.lives.get("statefulsets.apps", ())):
        return
    made: set[ObjectId] = set()
    deletes = Counter[str]()
    for one in (one for one in seen.all_requests if one.resource == _CLAIMS and not one.refused):
        if one.created and one.name and one.user not in (seen.operator, seen.harness):
            made.add(one.object)
        elif one.verb in ("delete", "deletecollection"):
            deletes[one.user] += 1
            gone = {one.object} if one.verb == "delete" else {each for each in made if each[0] == one.namespace}
            made -= gone
    if not made:
        return
    why = "Kubernetes keeps what volumeClaimTemplates made, unless persistentVolumeClaimRetentionPolicy says Delete"
    if some := deletes[seen.operator]:
        why = f"it deleted others ({some:,} deletions)"
    yield Found(
        id=ID,
        severity="defect" if some else "note",
        about=About(aspect=Aspect.STATE, objects={(_CLAIMS, each) for each in made}, field=_OWNERS),
        text=f"{number_of(len(made), _CLAIMS)} of the operator's StatefulSets still"
        f" {form(len(made), 'exists', 'exist')} after the workload was deleted: {why}",
        evidence=(_some(sorted(made)),),
        check=f'phase.milestone("claims-gone", conditions.count("{_CLAIMS}", 0))',
    )


def _orphaned(seen: Observed) -> Iterator[Finding]:
    """Yield the kinds whose objects lost their owner when the operator deleted that, and stayed."""
    orphans: dict[tuple[str, str], list[Life]] = defaultdict(list)
    for resource, lives in sorted(seen.lives.items()):
        for life in (one for one in lives if one.owner == ""):
            owner = seen.known.get(next(filter(None, reversed(life.owners)), ""))
            gone = owner.gone_at if owner is not None else None
            if owner is None or gone is None or owner.deleted_at is None:
                continue
            later = gone + _ORPHANED_NS
            if later <= seen.end and life.stays(later):
                orphans[resource, owner.resource].append(life)
    for (resource, owners), found in orphans.items():
        yield Found(
            id=ID,
            severity="defect",
            about=About(aspect=Aspect.STATE, objects={life.key for life in found}, field=_OWNERS),
            text=f"{number_of(len(found), resource)} stayed without an owner when the operator deleted"
            f" {form(len(found), 'its', 'their')} {owners}: it deletes these with the propagation policy Orphan, or an"
            f" API whose default that is",
            evidence=(shown(found[0].object),),
            check=f'phase.milestone(…, conditions.count("{resource}", …))',
        )


def _of_what_was_dropped(seen: Observed) -> Iterator[Finding]:
    """Yield the kinds whose objects stay when the spec of their owner loses what they are named for."""
    stayed: dict[tuple[str, str], list[tuple[Life, str]]] = defaultdict(list)
    changed: dict[str, dict[Life, str]] = defaultdict(dict)
    """Kind → owners, and the field that lost it."""
    for lives in seen.lives.values():
        for life, event in ((one, event) for one in lives for event in one.events if event.dropped):
            until = next((other.at for other in life.events if other.at > event.at and other.dropped), seen.end)
            until = min(until, life.stays_until(seen.end), seen.workload_deleted or seen.end)
            if until - event.at < _NOTICED_NS or seen.is_at_work(until - _NOTICED_NS, until):
                continue
            children = [one for one in seen.children.get(life.uid, ()) if one.made_by_operator]
            for child in (one for one in children if one.resource != _CLAIMS and one.begun < event.at):
                part = next((part for part in _parts(child.name) if any_kind(part) in event.dropped), "")
                if part and child.stays(until) and part != life.name and _has_a_sibling(child, part, children):
                    stayed[child.resource, life.resource].append((child, part))
                    changed[life.resource][life] = next(iter(changed_paths(event, "spec")), "spec")
    kinds: dict[str, dict[str, list[tuple[Life, str]]]] = defaultdict(dict)
    for (resource, of), found in sorted(stayed.items()):
        if len({child.owner for child, _ in found}) >= _SHOWN:
            kinds[of][resource] = found
    for of, by_resource in kinds.items():
        every = [one for found in by_resource.values() for one in found]
        child, part = every[0]
        those = listed([number_of(len(found), resource) for resource, found in by_resource.items()])
        yield Found(
            id=ID,
            severity="defect",
            # That the change had no effect is the same, where nothing else of it had one.
            about=About(
                aspect=Aspect.STATE,
                objects={one.key for one in [*changed[of], *(child for child, _ in every)]},
                field=Counter(changed[of].values()).most_common(1)[0][0],
            ),
            text=f"{those} stay that are named for what the spec of their {of} had, and has no more:"
            f" {shown(child.object)} for {part}",
            evidence=("others of that pattern were made for what it has: the operator makes, and does not take back",),
            check=f'phase.milestone(…, conditions.count("{next(iter(by_resource))}", …))',
        )


def _has_a_sibling(child: Life, part: str, children: Sequence[Life]) -> bool:
    """Return whether another child has the same name but for a part, as ``owner-bob`` and ``owner-alice``."""
    before, _, after = child.name.partition(part)
    return any(
        other.resource == child.resource
        and other.namespace == child.namespace
        and other.name != child.name
        and len(other.name) > len(before) + len(after)
        and other.name.startswith(before)
        and other.name.endswith(after)
        for other in children
    )


def _late_finalizers(seen: Observed) -> Iterator[Finding]:
    """Yield the kinds that get their finalizer only after the first of their children was made."""
    for resource, lives in sorted(seen.lives.items()):
        late: list[Life] = []
        number = 0
        for life in lives if seen.kinds[resource].finalizers else ():
            # Those of Kubernetes' own come with a deletion.
            held = next((one for one in life.events if not all(map(of_kubernetes, one.finalizers or ()))), None)
            if held is None or held is life.events[0] or not life.own_updates:
                continue
            number += 1
            first = min((_version(child) for child in seen.children.get(life.uid, ())), default=0)
            if 0 < first < int(held.resource_version or 0):
                late.append(life)
        if len(late) >= max(_SEVERAL, number / 2):
            yield Found(
                id=ID,
                severity="note",
                about=About(aspect=Aspect.ACTION, objects={life.key for life in late}, field=FINALIZERS),
                text=f"{len(late):,} {resource} got their finalizer only after the first of their children was made: of"
                " one that is deleted in between, nothing is cleaned up",
                evidence=(shown(late[0].object),),
            )


class _LetGo:
    """Objects whose finalizer the operator took away when they were deleted, found by what is named for them."""

    def __init__(self, seen: Observed) -> None:
        self._of_place: dict[ObjectId, Life] = {}
        self._of_name: dict[str, list[Life]] = defaultdict(list)
        for resource, lives in seen.lives.items():
            for life in lives if not all(map(of_kubernetes, seen.kinds[resource].finalizers)) else ():
                if not life.own_updates or life.marked_at is None or life.gone_at is None:
                    continue
                if not all(map(of_kubernetes, life.finalizers_at(life.marked_at))):
                    self._of_place[life.object] = life
                    self._of_name[life.name].append(life)

    def for_which(self, life: Life) -> Life | None:
        """Return the one that an object is named for, web of web-config; in its namespace, or one that it names too."""
        parts = list(_parts(life.name)) if self._of_place else []
        for name in parts:
            found = [self._of_place.get((life.namespace, name)), self._of_place.get(("", name))]
            if not life.namespace:
                found += [one for one in self._of_name.get(name, ()) if one.namespace in parts]
            if of := next((one for one in found if one is not None and one is not life), None):
                return of
        return None


def _let_go_early(seen: Observed, let_go: _LetGo) -> Iterator[Finding]:
    """Yield the kinds whose finalizer was taken away before the operator had deleted what it was there for."""
    early: dict[tuple[str, str], list[tuple[Life, Life]]] = defaultdict(list)
    for lives in seen.lives.values():
        for life in lives:
            at = life.deleted_at
            if at is None or life.owner != "" or not life.made_by_operator:
                continue
            of = let_go.for_which(life)
            if of is not None and life.begun < (of.gone_at or 0) < at - _LAG_NS:
                early[life.resource, of.resource].append((life, of))
    for (resource, of_kind), found in early.items():
        if len(found) >= _SHOWN:
            yield Found(
                id=ID,
                severity="note",
                about=About(aspect=Aspect.STATE),
                text=f"the operator deleted {len(found):,} {resource} only after their {of_kind} were gone, whose"
                " finalizer it had taken away before: if it ends in between, they stay",
                evidence=(f"{shown(found[0][0].object)} of {shown(found[0][1].object)}",),
            )


def _parts(name: str) -> Iterator[str]:
    """Yield the names that a name has within it, at its dashes, the longest first: web-a, web and a of web-a."""
    words = name.split("-")
    for length in range(len(words), 0, -1):
        for start in range(len(words) - length + 1):
            yield "-".join(words[start : start + length])


def _version(life: Life) -> int:
    """Return the version with which an object came; a large one where that is not known."""
    first = life.events[0]
    return 2**63 if first.initial else int(first.resource_version or 0)


def kept_by_owners(seen: Observed) -> Iterator[tuple[str, Life, list[Life]]]:
    """Yield (resource, owner, objects) of what the operator made for the workload and an owner keeps that stays.

    Only when the workload is gone, or its deletion made no progress.
    """
    applied = seen.workload_applied
    if applied is None or not (seen.settled or _is_stuck(seen)):
        return
    stay = {
        owner.uid
        for owner in seen.known.values()
        if owner.begun < applied and owner.owner == "" and not owner.deleting(seen.end) and owner.exists(seen.end)
        if not any(one.user == seen.harness for one in owner.writes if one.verb == "create")
    }
    kept: dict[tuple[str, str], list[Life]] = defaultdict(list)
    for resource, lives in sorted(seen.lives.items()) if stay else ():
        for life in lives:
            own = life.owner in stay and life.made_by_operator
            if own and life.owner and not life.deleting(seen.end) and life.exists(seen.end):
                kept[resource, life.owner].append(life)
    for (resource, uid), found in kept.items():
        yield resource, seen.known[uid], found


def _finding(seen: Observed, resource: str, left: list[Life], why: str, *, field: str = _OWNERS) -> Finding:
    # One object may be meant to stay, as a cache or a certificate; one for each object of the workload is not.
    gone = {life.name for lives in seen.lives.values() for life in lives if not life.exists(seen.end)}
    of_workload = len(left) > 1 or any(name and name in left[0].name for name in gone)
    return Found(
        id=ID,
        severity="defect" if of_workload else "note",
        about=About(aspect=Aspect.STATE, objects={life.key for life in left}, field=field),
        text=f"{number_of(len(left), resource)} that the operator made still {form(len(left), 'exists', 'exist')} after"
        f" the workload was deleted: {why}",
        evidence=(_some([life.object for life in left]),),
        check=f'phase.milestone("{resource.partition(".")[0]}-gone", conditions.count("{resource}", 0))',
    )


def _some(objects: Sequence[ObjectId]) -> str:
    more = f" and {len(objects) - _SHOWN:,} more" if len(objects) > _SHOWN else ""
    return ", ".join(map(shown, objects[:_SHOWN])) + more
