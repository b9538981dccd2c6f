"""A field that goes back and forth: two writers, each of which puts its own value where the other's was.

Two controllers of one operator, or the operator and something else (an autoscaler, a user's tool), own the same field
and do not know of each other; each write wakes the other one. Server-side apply names such conflicts
(https://kubernetes.io/docs/reference/using-api/server-side-apply/#conflicts); plain updates and merge patches do not.

An operator that writes an object as a whole, from a copy of its cache, takes back what others wrote in between. One
whose queue gives a key to two workers at once is a rival of itself.

No false alarm: fields of labels, annotations and spec count, which say what is wanted; a status may rightly return to
an earlier value, and what changed nothing but the order of a list is another rule's. It returns in one of four changes
or more: what is drawn at random returns by chance. A field has to return to its value before three times on one object,
or twice on each of three, and the operator has to be one of its writers; annotations in which kopf keeps its progress
do not count. What it took back counts from the first time on where it is the annotation by which the harness triggers
or touches, which no other program knows. A spec, or data, that the operator changed is a note, of three objects of the
workload, or all, or one of Kubernetes' own kinds, where no one else can have changed it. A number of replicas that
returns counts from the first time on where an autoscaler names the object as its target, and another one wrote before
the operator. What the test changed in a spec, and the operator alone set back in the same phase, is a note from three
objects on, since a test may want just that, and a defect where the phase failed. Requests at once count from five
objects of a kind on, of one verb and subresource, a millisecond before the other's answer: of 250 recordings of sound
and defective operators, those with such a queue alone have them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from operator import attrgetter
from statistics import median

from ...recording.conditions import is_builtin
from ...recording.records import ObjectSeen
from ..api_requests import SYSTEM_ACCOUNTS
from ..result import Finding
from .evidence import SHOWN_NS, Life, ObjectId, Sent, changed_paths, form, kept_by_kopf, number_of, shown
from .grouping import About, Aspect, Found, of_outcome
from .observed import Observed

ID = "rival-writers"

_ON_ONE = 3
_ON_EACH = 2
_OBJECTS = 3
_SHARE = 0.25
"""Share of a field's changes in which it returns, where two writers take turns, each of which has its own value."""
_WANTED = ("metadata.", "spec.")
_CONTENTS = ("spec", "data")
_OF_HARNESS = "metadata.annotations.grovescale.io/"
_OF_SPEC = ("", "scale")
"""Subresources that write an object's spec."""
_WRITES = frozenset({"create", "update", "patch"})
_AT_ONCE = 5
"""Objects of a kind from which on it is no coincidence of two controllers."""
_SURELY_NS = 1_000_000
"""By how much a request has to come before the answer to another one: the log notes the end of an answer after it."""
_AUTOSCALERS = "horizontalpodautoscalers.autoscaling"
_REPLICAS = "spec.replicas"
_ALL = "metadata.annotations"
"""Path of the annotations of an object that had none."""


def findings(seen: Observed) -> Iterator[Finding]:
    """Yield a finding for each kind and field that goes back and forth."""
    if not seen.operator or not seen.log_whole:
        return
    yield from _taken_back(seen)
    yield from _specs_of_others(seen)
    yield from _deleted_of_others(seen)
    yield from _of_autoscalers(seen)
    yield from _set_back(seen)
    yield from _at_once(seen)
    for resource, lives in sorted(seen.lives.items()):
        fields: dict[str, list[tuple[int, Life]]] = defaultdict(list)
        for life in lives if seen.kinds[resource].returned(_WANTED) else ():
            if life.own_updates < _ON_EACH:
                continue
            for path, times in _returns(seen, life).items():
                fields[path].append((times, life))
        kept = kept_by_kopf(lives) if fields else set()
        for path, found in sorted(fields.items()):
            if path.rpartition("/")[0] in kept:
                continue
            often = sum(times >= _ON_EACH for times, _ in found)
            times, most = max(found, key=lambda one: one[0])
            # A value that is drawn at random is mostly a new one, and seldom returns: `churn` says so.
            changes = sum(path in event.difference.paths for event in most.events if event.difference is not None)
            if (times >= _ON_ONE or often >= _OBJECTS) and times >= _SHARE * changes:
                yield _finding(seen, path, often, times, most, [life for _, life in found])


def _at_once(seen: Observed) -> Iterator[Finding]:
    """Yield the kind of which most objects were written by two of the operator's requests that were under way at once.

    A queue gives a key to one worker at a time (https://pkg.go.dev/k8s.io/client-go/util/workqueue); what keeps keys
    otherwise, or calls Done too early, gives one to two.
    """
    of_object: dict[tuple[str, str, ObjectId], list[Sent]] = defaultdict(list)
    for one in seen.calm.requests:
        if one.verb in _WRITES and one.name and one.category not in ("lease", "event"):
            of_object[one.resource, one.what, one.object].append(one)
    found: dict[str, list[Sent]] = defaultdict(list)
    for (resource, _, _), sent in of_object.items():
        sent.sort(key=attrgetter("received"))
        found[resource] += [after for before, after in pairwise(sent) if before.completed - after.received > _SURELY_NS]
    resource = max(found, key=lambda of: len({one.object for one in found[of]}), default="")
    those = found.get(resource, [])
    objects = sorted({one.object for one in those})
    if len(objects) >= _AT_ONCE:
        what, _ = Counter(one.what for one in those).most_common(1)[0]
        yield Found(
            id=ID,
            severity="defect",
            about=About(aspect=Aspect.ACTION, requests=those),
            text=f"for {len(objects):,} {resource} two of the operator's requests were under way at once (mostly"
            f" {what}): two workers, or two controllers, work on one object, and each on what the other changes",
            evidence=(f"{shown(objects[0])}", f"{len(those):,} times"),
        )


def _taken_back(seen: Observed) -> Iterator[Finding]:
    """Yield the kinds of which the operator took back annotations of the harness."""
    for resource, lives in sorted(seen.lives.items()):
        undone = [
            life
            for life in (lives if seen.kinds[resource].returned(_ALL) else ())
            if life.updates > life.own_updates > 0
            and any(path.startswith(_OF_HARNESS) or path == _ALL for path in _returns(seen, life))
        ]
        if undone:
            yield Found(
                id=ID,
                severity="defect",
                about=About(aspect=Aspect.STATE, objects={life.key for life in undone}, field="metadata.annotations"),
                text=f"the operator took back an annotation that someone else had written, of"
                f" {number_of(len(undone), resource)}: it writes objects as a whole, from an older copy, or removes"
                f" what it does not know",
                evidence=(shown(undone[0].object),),
            )


def _specs_of_others(seen: Observed) -> Iterator[Finding]:
    """Yield the kinds of the workload whose spec, which says what its user wants, the operator changed."""
    applied = {(one.resource, one.object) for one in seen.by_harness(seen.begin, seen.end) if one.created}
    for resource in sorted({resource for resource, _ in applied} & set(seen.lives)):
        changed: Counter[str] = Counter()
        objects = 0
        for life in seen.lives[resource]:
            if (resource, life.object) not in applied or not life.own_updates:
                continue
            specs = {
                path
                for event in life.events[1:]
                if (paths := changed_paths(event, _CONTENTS)) and _alone(seen, life, event)
                for path in paths
            }
            if specs:
                objects += 1
                # In one order: of several that are as frequent the first is named.
                changed.update(sorted(specs))
        # Of its own kinds an operator may set what was left out.
        number = sum(of == resource for of, _ in applied)
        if objects >= (1 if is_builtin(resource) else min(_OBJECTS, number)):
            path = changed.most_common(1)[0][0]
            yield Found(
                id=ID,
                severity="note",
                about=About(aspect=Aspect.STATE),
                text=f"the operator changed {path} of {number_of(objects, resource)} that the test had made: that is"
                " its user's, who applies it again from where it is kept",
                check="noop_writes(max=0)",
            )


def _alone(seen: Observed, life: Life, event: ObjectSeen) -> bool:
    """Return whether it is the operator's write that an event shows: no one else wrote the object just then."""
    return {one.user for one in _just_then(life, event) if not one.created} == {seen.operator}


def _deleted_of_others(seen: Observed) -> Iterator[Finding]:
    """Yield the kinds of which the operator deleted what others had made, and had not deleted."""
    deleted = [one for one in seen.requests if one.verb == "delete" and one.changes]
    names = {one.name for one in deleted}
    made = {
        (one.resource, one.object): one.user
        for one in (seen.all_requests if deleted else ())
        if one.name in names and one.created and not one.subresource and one.name
    }
    asked = {
        (one.resource, one.object) for one in seen.all_requests if one.verb == "delete" and one.user == seen.harness
    }
    found: dict[str, list[Sent]] = defaultdict(list)
    for one in deleted:
        key = one.resource, one.object
        before = seen.workload_deleted is None or one.received < seen.workload_deleted
        if before and made.get(key) == seen.harness and key not in asked:
            found[one.resource].append(one)
    for resource, deletions in found.items():
        own = resource.partition(".")[2].count(".") and resource in seen.with_status
        yield Found(
            id=ID,
            severity="note" if own else "defect",
            about=About(aspect=Aspect.STATE, requests=deletions),
            text=f"the operator deleted {number_of(len(deletions), resource)} that it had not made:"
            f" {deletions[0].name} for"
            " instance, which its user had applied and not deleted",
        )


def _of_autoscalers(seen: Observed) -> Iterator[Finding]:
    """Yield the kinds of which the operator takes back the number of replicas that an autoscaler is there for."""
    targets = {
        (kind, (scaler.namespace, name)): scaler
        for scaler in seen.lives.get(_AUTOSCALERS, ())
        for kind, _, name in (need.partition("/") for need in scaler.events[0].needs)
    }
    undone: dict[str, list[tuple[Life, Life, str]]] = defaultdict(list)
    for (resource, of), scaler in targets.items():
        for life in seen.of_name.get((resource, of), ()):
            if (other := _scaled_back(seen, life, scaler)) is not None:
                undone[resource].append((life, scaler, other))
    for resource, found in undone.items():
        life, scaler, other = found[0]
        yield Found(
            id=ID,
            severity="defect",
            about=About(aspect=Aspect.STATE, objects={life.key for life, _, _ in found}, field=_REPLICAS),
            text=f"the operator set {_REPLICAS} of {number_of(len(found), resource)} back to its own value after"
            f" {other} had changed it, although {_AUTOSCALERS} {shown(scaler.object)} scales"
            f" {form(len(found), 'it', 'them')}",
            evidence=(shown(life.object), "a field that another writer owns is left out of what is written"),
        )


def _scaled_back(seen: Observed, life: Life, scaler: Life) -> str | None:
    """Return whose number of replicas the operator took back while an autoscaler was there; None: of no one."""
    writes = [one for one in life.writes if one.updates and one.subresource in _OF_SPEC]
    for event in life.between(scaler.begun, seen.end):
        if event.difference is None or _REPLICAS not in event.difference.back or not scaler.exists(event.at):
            continue
        before = [one for one in writes if one.received <= event.at]
        others = [one for one in before if one.user != seen.operator and one.completed >= scaler.begun]
        if before and before[-1].user == seen.operator and others:
            return seen.role(others[-1].user)
    return None


def _set_back(seen: Observed) -> Iterator[Finding]:
    """Yield the fields of specs, or data, that the test changed in a phase and that the operator set back in it."""
    for span in seen.spans:
        passed = span.phase.outcome == "passed"
        changed = {
            (one.resource, one.object): one.received
            for one in seen.by_harness(span.start, span.end)
            if one.updates and one.subresource in _OF_SPEC and one.resource in seen.lives
        }
        fields: dict[tuple[str, str], list[tuple[Life, int]]] = defaultdict(list)
        for (resource, of), at in changed.items():
            for life in seen.of_name.get((resource, of), ()):
                # What the operator makes of its own kinds' specs is another finding.
                if life.own_updates and (life.made_by_operator or not passed):
                    for path, after in _reverted(seen, life, at, span.end):
                        fields[resource, path].append((life, after))
        for (resource, path), found in fields.items():
            if len(found) < (_OBJECTS if passed else 1):
                continue
            lives = [life for life, _ in found]
            later = median(after for _, after in found) / 1e9
            if passed:
                then = "as it does for an autoscaler or a user"
                about = About(aspect=Aspect.STATE, objects={life.key for life in lives}, field=path)
            else:
                then = "which then did not reach its milestones"
                about = of_outcome(Aspect.STATE, [span.phase.name])
            yield Found(
                id=ID,
                severity="note" if passed else "defect",
                about=about,
                text=f"the operator set {path} of {number_of(len(lives), resource)} back {later:.2g} s after the test"
                f" had changed it in {span.phase.name}, {then}",
                evidence=(shown(lives[0].object),),
            )


def _reverted(seen: Observed, life: Life, start: int, end: int) -> Iterator[tuple[str, int]]:
    """Yield path and time, ns, of what the operator set back after a change by the harness."""
    by_harness: dict[str, int] = {}
    # Moments after its change, either may be behind an event; what the test changed once it has not set back itself.
    once = sum(one.user == seen.harness and start <= one.received < end for one in life.writes) == 1
    for event in life.between(start - SHOWN_NS, end):
        paths = changed_paths(event, _CONTENTS)
        users = {one.user for one in _just_then(life, event)} if paths else set()
        if (users == {seen.operator} or (once and seen.operator in users)) and event.difference is not None:
            yield from ((path, event.at - by_harness[path]) for path in event.difference.back if path in by_harness)
        by_harness.update(dict.fromkeys(paths, event.at) if seen.harness in users else {})


def _returns(seen: Observed, life: Life) -> Counter[str]:
    back: Counter[str] = Counter()
    for event in life.events:
        if event.difference is not None and event.difference.kind != "order" and seen.begin <= event.at < seen.end:
            back.update(path for path in event.difference.back if path.startswith(_WANTED))
    return back


def _writers(life: Life, path: str) -> set[str]:
    """Return who changed a field of an object, at times at which no one else wrote the object."""
    found: set[str] = set()
    for event in life.events:
        if event.difference is not None and path in event.difference.paths:
            users = {one.user for one in _just_then(life, event, statuses=path.startswith("metadata."))}
            found |= users if len(users) == 1 else set()
    return found


def _just_then(life: Life, event: ObjectSeen, *, statuses: bool = False) -> Iterator[Sent]:
    """Yield the writes to an object that an event may show; ``statuses``: whether those to its status count."""
    for one in life.writes:
        if (
            statuses or one.subresource in _OF_SPEC
        ) and one.received - SHOWN_NS <= event.at <= one.completed + SHOWN_NS:
            yield one


def _finding(seen: Observed, path: str, objects: int, times: int, most: Life, lives: Sequence[Life]) -> Finding:
    # A status has a subresource, whose writer cannot change a spec, but annotations and labels; Kubernetes' own
    # controllers change none by it but their own.
    wrote = Counter(
        one.user
        for one in most.writes
        if one.updates
        and (not one.subresource or (path.startswith("metadata.") and not one.user.startswith(SYSTEM_ACCOUNTS)))
    )
    # Who writes the object for something else is no rival.
    alone = _writers(most, path)
    others = sorted(
        user for user, number in wrote.items() if user != seen.operator and number > 1 and (user in alone or not alone)
    )
    who = (
        f"the operator and {seen.role(others[0])} overwrite each other"
        if others
        else "the operator alone writes one and then the other"
    )
    return Found(
        id=ID,
        severity="defect",
        about=About(
            aspect=Aspect.STATE, requests=seen.own_writes(lives), objects={life.key for life in lives}, field=path
        ),
        text=f"{path} of {number_of(objects, most.resource)} goes back and forth between values: {who}",
        evidence=(f"{shown(most.object)}: back to the value before {times:,} times",),
        check="noop_writes(max=0)",
    )
