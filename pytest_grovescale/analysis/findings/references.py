"""Objects that name others which are not there: made later, never, or gone again while they are needed.

A kubelet that does not find a ConfigMap, a Secret or a claim tries again, with a delay that grows to minutes; a
simulated node starts the pod all the same, so that a test passes and a real cluster waits.
(https://kubernetes.io/docs/concepts/configuration/configmap/#using-configmaps: a reference that is not optional has to
exist before the pod starts)

A RoleBinding without its Role, an Ingress without its Service, an autoscaler without its target are accepted by the API
server, and do nothing.

A ConfigMap with a hash in its name that stays when nothing needs it any more is one more with each change.

No false alarm: only references that are not optional, of objects that the operator made itself. What came later counts
for pods and templates, and has to be made by the operator, too, by the API server's own order of writes, where no
object of that name was there before; what is not there at all counts for kinds whose objects a watch without a gap
shows, and of what pods need where a name is made from their owner's: another one is a note, since a user may have given
it. What went too early, and not by the test, counts three seconds later, of pods that are not being deleted, nor any
owner of theirs. What stays, as no pod has needed it for three seconds, is a note.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from statistics import median
from typing import NamedTuple

from ...recording import object_references
from ..result import Finding
from .evidence import Life, ObjectId, form, number_of, shown
from .grouping import About, Aspect, Found
from .observed import Observed

ID = "references"

_LEAST = 3
_STARTED_WITH = frozenset({"configmaps", "secrets", "persistentvolumeclaims", "serviceaccounts"})
"""What has to be there before a pod."""
_REPLACED = frozenset({"configmaps", "secrets"})
"""What operators replace by one of another name when its contents change."""
_LATER_NS = 3_000_000_000


class _Need(NamedTuple):
    """An object of the operator and what it names, which is of a kind."""

    life: Life
    kind: str
    name: str
    those: Sequence[Life]
    """All that ever had this name."""


def findings(seen: Observed) -> Iterator[Finding]:
    """Yield a finding for each kind whose objects were made too early, miss something or lost it; and what stays."""
    if not seen.operator:
        return
    needs = list(_needs(seen))
    late: dict[tuple[str, str], list[_Need]] = defaultdict(list)
    never: dict[tuple[str, str], list[_Need]] = defaultdict(list)
    lost: dict[tuple[str, str], list[_Need]] = defaultdict(list)
    for need in needs:
        life, those = need.life, need.those
        if not those and seen.shows_all(need.kind, life.namespace, life.gone_at or seen.end):
            never[life.resource, need.kind].append(need)
        elif those and need.kind in _STARTED_WITH and all(_came_after(one, life) for one in those):
            if those[0].made_by_operator:
                late[life.resource, need.kind].append(need)
        elif those and life.resource == "pods" and _lost(seen, need):
            lost[life.resource, need.kind].append(need)
    for (resource, kind), found in late.items():
        if len(found) >= _LEAST:
            seconds = median((need.those[0].begun - need.life.begun) / 1e9 for need in found)
            yield Found(
                id=ID,
                severity="defect",
                about=_of(found),
                text=f"the operator made {len(found):,} {resource} before the {kind} that they cannot start without"
                f" ({seconds * 1e3:,.0f} ms before, median): a kubelet that does not find them tries again later",
                evidence=(shown(found[0].life.object),),
            )
    for (resource, kind), found in never.items():
        if len(found) >= _LEAST:
            # A name that is the same for all may be one that its user gave, and forgot to make.
            own = kind not in _STARTED_WITH or any(_is_of_owner(seen, need) for need in found)
            yield Found(
                id=ID,
                severity="defect" if own else "note",
                about=_of(found),
                text=f"{len(found):,} {resource} that the operator made need {kind} that do not exist: {found[0].name}"
                f" for {found[0].life.name}" + ("" if own else ", a name that the workload may have given"),
                evidence=(
                    "simulated nodes start such pods; a kubelet does not"
                    if kind in _STARTED_WITH
                    else "the API server accepts such an object, and it does nothing",
                ),
            )
    for (resource, kind), found in lost.items():
        if len(found) >= _LEAST:
            names = len({need.name for need in found})
            yield Found(
                id=ID,
                severity="defect",
                about=_of(found),
                text=f"{number_of(names, kind)} {form(names, 'was', 'were')} deleted"
                f" that {len(found):,} {resource} of the operator's still need: {found[0].name} for"
                f" {found[0].life.name}",
                evidence=("a pod that is started again, on its node or another one, waits for them",),
            )
    yield from _unneeded(seen)


def _is_of_owner(seen: Observed, need: _Need) -> bool:
    """Return whether a name is made from that of an owner."""
    return any(one.name in need.name for one in seen.line(need.life)[1:])


def _of(needs: Sequence[_Need]) -> About:
    return About(aspect=Aspect.STATE, objects={need.life.key for need in needs}, field=f"spec[{needs[0].kind}]")


def _needs(seen: Observed) -> Iterator[_Need]:
    for _, lives in sorted(seen.lives.items()):
        for life in lives:
            needs = life.events[0].needs
            sure = life.resource in object_references.SURE
            if needs and sure and not life.events[0].initial and life.made_by_operator:
                for need in needs:
                    kind, _, name = need.partition("/")
                    yield _Need(life, kind, name, seen.of_name.get((kind, (life.namespace, name)), ()))


def _came_after(one: Life, life: Life) -> bool:
    first, other = one.events[0], life.events[0]
    return not first.initial and int(first.resource_version or 0) > int(other.resource_version or 0) > 0


def _lost(seen: Observed, need: _Need) -> bool:
    """Return whether a pod went on for seconds after the last object that it needs was gone."""
    deletions = (one for of in need.those for one in of.writes if one.verb == "delete")
    if any(one.user == seen.harness for one in deletions):
        return False
    went = [one.gone_at for one in need.those]
    gone = max(filter(None, went), default=0)
    if None in went or gone < need.life.begun:
        return False
    later = gone + _LATER_NS
    return (
        later <= seen.end and need.life.exists(later) and not any(one.deleting(later) for one in seen.line(need.life))
    )


def _unneeded(seen: Observed) -> Iterator[Finding]:
    """Yield what pods needed before a change, and none needs now, while it has a successor."""
    end = (seen.workload_deleted or seen.end) - 1
    ever: set[tuple[str, ObjectId]] = set()
    now: set[tuple[str, ObjectId]] = set()
    for life in (life for lives in seen.lives.values() for life in lives):
        if not (first := next((event.needs for event in life.events if event.needs), None)):
            continue
        keys = [(kind, (life.namespace, name)) for kind, _, name in (need.partition("/") for need in first)]
        ever.update(keys)
        # What a template named at first may not be what it names now: its pods say that. An old ReplicaSet has none.
        of_pods = life.resource != "pods" and any(one.resource == "pods" for one in seen.below(life))
        if not of_pods and (life.gone_at or end) > end - _LATER_NS:
            now.update(keys)
    stay: dict[str, dict[str, Life]] = defaultdict(dict)
    for key in sorted(ever - now):
        for one in seen.of_name.get(key, ()) if key[0] in _REPLACED else ():
            owner = seen.known.get(one.owner or "")
            followed = owner is not None and any(
                other.key in now and other.resource == one.resource for other in seen.children[owner.uid]
            )
            if followed and one.exists(end) and not one.deleting(end) and one.made_by_operator:
                stay[one.resource][one.uid] = one
    for kind, found in sorted(stay.items()):
        if len(found) >= _LEAST:
            first_name = min(life.name for life in found.values())
            yield Found(
                id=ID,
                severity="note",
                about=About(aspect=Aspect.STATE, objects={life.key for life in found.values()}),
                text=f"{len(found):,} {kind} stay that no pod needs any more: {first_name} for instance; each further"
                " change may leave as many",
            )
