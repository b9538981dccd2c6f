"""Owner references that do not do what they are for.

An owner in another namespace counts as absent, and the garbage collector deletes the object
(https://kubernetes.io/docs/concepts/overview/working-with-objects/owners-dependents/). A pod whose owners are no
controller of it counts as unmanaged: `kubectl drain` refuses it, a PodDisruptionBudget does not count it, and the
cluster autoscaler does not remove its node. Names that two owners compute alike give both one child: each takes it from
the other, or one has none. The garbage collector looks an owner up by the kind and
the API version of the reference, and where these are not served, tries again forever (`attemptToDeleteItem` in
https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/controller/garbagecollector/garbagecollector.go): a version
that the CRD has dropped since leaves all children behind.

No false alarm: only pods need a controller; owners are judged where both were watched, without a gap, and an owner that
was never seen only where all objects of its kind were. An owner that was gone counts from some seconds on: until then a
controller's cache may still have it; one or two such owners are a note. Owners share a name where each existed when the
next one took the object. A reference by another version counts where the object stays seconds
after its owner was gone, and none does whose reference names its owner's: the garbage collector is not just behind. The
kind of a reference is another one than the owner's where it is no singular of the owner's plural. What the operator
takes over is a note, since a selector may be meant to do so. Of names, three or more count that are those of objects of
the owner's kind in the same namespace.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from ..audit_times import namespace_of
from ..reconciles import singulars
from ..result import Finding, Severity
from .evidence import Life, form, number_of, shown
from .grouping import About, Aspect, Found
from .observed import Observed

ID = "ownership"

_CACHE_LAG_NS = 5_000_000_000
"""Time for which a controller's cache may be behind on a busy machine, ns."""
_COLLECTED_NS = 2_500_000_000
"""Time within which the garbage collector deletes what has lost its owner, ns; it takes a tenth of it mostly."""
_SEVERAL = 3


def findings(seen: Observed) -> Iterator[Finding]:
    """Yield a finding for pods without a controller, and for each kind with owners in another namespace."""
    if not seen.operator:
        return
    absent: list[Life] = []
    for resource, lives in sorted(seen.lives.items()):
        own = [life for life in lives if life.owner and life.made_by_operator]
        apart = [life for life in own if _is_apart(seen, life)]
        if apart:
            yield _finding(
                seen,
                apart,
                f"{number_of(len(apart), resource)} {form(len(apart), 'has', 'have')} an owner in another namespace,"
                " which counts as absent: the garbage collector deletes such objects",
            )
        mistaken = [life for life in own if _is_mistaken(seen, life)]
        if mistaken:
            first, owner = mistaken[0], seen.known[mistaken[0].owner or ""]
            yield _finding(
                seen,
                mistaken,
                f"the owner references of {number_of(len(mistaken), resource)} name {first.owner_kind} by the uid of"
                f" one of the {owner.resource}: such an owner does not exist, and the garbage collector deletes them",
            )
        absent += [life for life in own if _owner_is_absent(seen, life)]
        yield from _of_another(seen, resource, own)
        passed = [life for life in lives if len(life.owners) > 1]
        yield from _shared(seen, resource, passed)
        yield from _taken_over(seen, resource, passed)
        loose = [life for life in own if life.controlled is False] if resource == "pods" else []
        if loose:
            yield _finding(
                seen,
                loose,
                f"{number_of(len(loose), 'pods')} {form(len(loose), 'has', 'have')} an owner, but"
                " no controller: a drain and a PodDisruptionBudget take them for unmanaged",
            )
    yield from _not_collected(seen)
    if absent:
        kinds = ", ".join(f"{number:,} {of}" for of, number in Counter(life.resource for life in absent).items())
        why = "have an owner that did not exist when they were made: the garbage collector deletes them"
        # An owner that had just gone is a race with its deletion.
        owners = {life.owner for life in absent}
        raced = len(owners) < _SEVERAL and owners <= set(seen.known)
        yield _finding(seen, absent, f"{kinds} {why}", "note" if raced else "defect")


def _is_apart(seen: Observed, life: Life) -> bool:
    """Return whether the owner of an object is in another namespace."""
    owner = seen.known.get(life.owner or "")
    return owner is not None and owner.namespace not in ("", life.namespace)


def _is_mistaken(seen: Observed, life: Life) -> bool:
    """Return whether the UID in an object's owner reference is that of an object of another kind than it names."""
    owner = seen.known.get(life.owner or "")
    return owner is not None and bool(life.owner_kind) and not _is_of(life.owner_kind, owner.resource)


def _of_another(seen: Observed, resource: str, lives: Sequence[Life]) -> Iterator[Finding]:
    """Yield the objects that have the names of several owners, and one and the same other owner."""
    of_owner: dict[str, list[Life]] = defaultdict(list)
    for life in lives:
        owner = seen.known.get(life.owner or "")
        if owner is None or owner.name == life.name:
            continue
        named = seen.of_name.get((owner.resource, (life.namespace, life.name)), ())
        if any(other.exists(life.begun) for other in named):
            of_owner[owner.uid].append(life)
    for uid, those in of_owner.items():
        owner = seen.known[uid]
        if len({life.name for life in those}) >= _SEVERAL:
            yield _finding(
                seen,
                those,
                f"{number_of(len(those), resource)} have the names of other {owner.resource}, and the owner"
                f" {owner.name}: they are deleted with it, and stay when the one is deleted whose name they have",
            )


def _shared(seen: Observed, resource: str, lives: Sequence[Life]) -> Iterator[Finding]:
    """Yield the objects that went from one owner to another of its kind, while both existed."""
    passed = [life for life in lives if len(_owners(seen, life)) > 1]
    if passed:
        first, second = _owners(seen, passed[0])[:2]
        yield _finding(
            seen,
            passed,
            f"{len(passed):,} {resource} went from one owner to another while both existed: {passed[0].name} from"
            f" {first.name} to {second.name}; their names for it are the same",
        )


def _taken_over(seen: Observed, resource: str, lives: Sequence[Life]) -> Iterator[Finding]:
    """Yield the objects that the test had made without an owner, and to which the operator gave one."""
    taken = [
        life
        for life in lives
        if life.events[0].owner == ""
        and any(event.owner for event in life.events)
        and life.own_updates
        and any(one.user == seen.harness and one.created for one in life.writes)
    ]
    if taken:
        yield _finding(
            seen,
            taken,
            f"the operator made {number_of(len(taken), resource)} that the test had made a child of its own:"
            f" {form(len(taken), 'it goes with its', 'they go with their')} new owner, {taken[0].name} for instance",
            "note",
        )


def _not_collected(seen: Observed) -> Iterator[Finding]:
    """Yield what outlives its owner since its reference names an API version, or a group, that is not the owner's."""
    kept: list[Life] = []
    for life in seen.known.values() if seen.settled else ():
        owner = seen.known.get(life.owner or "")
        gone = owner.gone_at if owner is not None else None
        if owner is None or gone is None or gone + _COLLECTED_NS > seen.end or not life.stays(seen.end):
            continue
        if not life.owner_version or _names(seen, life, owner):
            return
        if life.made_by_operator:
            kept.append(life)
    if kept:
        first, owner = kept[0], seen.known[kept[0].owner or ""]
        kinds = ", ".join(number_of(number, of) for of, number in Counter(life.resource for life in kept).items())
        gone_first = form(len(kept), "exists after its owner is gone", "exist after their owners are gone")
        yield _finding(
            seen,
            kept,
            f"{kinds} still {gone_first}: the owner reference names {first.owner_kind} of version"
            f" {first.owner_version}, and {owner.resource} are of {_version(seen, owner)}: the garbage collector cannot"
            " look that up",
        )


def _names(seen: Observed, life: Life, owner: Life) -> bool:
    """Return whether an object's reference names its owner's group and version."""
    same_group = life.owner_kind.partition(".")[2] == owner.resource.partition(".")[2]
    return same_group and life.owner_version == _version(seen, owner)


def _version(seen: Observed, life: Life) -> str:
    """Return the API version by which an object was watched: ``v1`` of ``/apis/grove.io/v1/podcliques``."""
    _, prefix, *parts = seen.contents.watches[life.events[0].watch].opened.spec.path.split("/")
    return parts[prefix == "apis"]


def _owners(seen: Observed, life: Life) -> list[Life]:
    """Return the owners that an object had in turn, of one kind, each of which existed when the next one took it."""
    found: list[Life] = []
    for event in life.events:
        owner = seen.known.get(event.owner) if event.owner else None
        if owner is None or (found and owner is found[-1]):
            continue
        if found and not (found[-1].resource == owner.resource and found[-1].exists(event.at)):
            return found[:1]
        found.append(owner)
    return found


def _owner_is_absent(seen: Observed, life: Life) -> bool:
    """Return whether the UID of an object's owner was that of no object when the object was made."""
    first, owner = life.events[0], seen.known.get(life.owner or "")
    if first.initial or first.at < seen.begin:
        return False
    if owner is not None:
        gone = owner.gone_at
        return gone is not None and gone < first.at - _CACHE_LAG_NS
    return any(
        story.complete_since(first.at) and _is_of(life.owner_kind, story.opened.spec.resource)
        for story in seen.stories
        if namespace_of(story.opened.spec) in ("", life.namespace)
    )


def _is_of(kind: str, resource: str) -> bool:
    """Return whether a kind is that of a resource: ``podclique.grove.io`` of ``podcliques.grove.io``."""
    singular, _, group = kind.partition(".")
    return group == resource.partition(".")[2] and singular in singulars(resource)


def _finding(seen: Observed, lives: list[Life], text: str, severity: Severity = "defect") -> Finding:
    about = About(
        aspect=Aspect.STATE,
        requests=seen.own_writes(lives),
        objects={life.key for life in lives},
        field="metadata.ownerReferences",
    )
    return Found(id=ID, severity=severity, about=about, text=text, evidence=(shown(lives[0].object),))
