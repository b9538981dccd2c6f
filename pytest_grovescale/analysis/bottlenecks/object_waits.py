"""What each object of a phase waited for: the writes that ended its waits, to itself, its owners and what it owns."""

from __future__ import annotations

import functools
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from http import HTTPStatus
from itertools import accumulate
from operator import attrgetter
from typing import NamedTuple

from ...recording.conditions import Count, Predicate, WatchSpec
from ...recording.evaluation import count_leaves
from ...recording.records import UPDATES, ObjectSeen, Request
from ..api_requests import HARNESS
from ..audit_times import changes_object, namespace_of, object_of
from ..recording_index import Contents, Owned, PhaseSpan, WatchStory

_MARKED = "metadata.deletionTimestamp"
_DELETES = frozenset({"delete", "deletecollection"})
_LEVELS = 10
"""Owners above an object that are followed."""
_AFTER_NS = 10_000_000_000
"""Time after a phase in which the writes are looked at that may have released its objects' owners."""

Key = tuple[str, str]
"""(namespace, name)."""

CONTAINERS = "containers"
"""A pod's containers that run until they end, which the simulated kubelet writes; see the Stage ``pod-complete``."""


class Step(NamedTuple):
    """A write that advanced one object, times in ns of the recorder's clock."""

    received: int
    completed: int
    user: str
    deletes: bool = False
    ran_since: int = 0
    """When the containers began to run whose end it was; 0: it was no such end."""


class Wait(NamedTuple):
    """One object waited for one user from a moment to another, ns of the recorder's clock."""

    user: str
    start: int
    end: int
    deletes: bool = False
    """Whether it waited to be deleted."""


class Waits(NamedTuple):
    """All waits of a phase."""

    counted: list[Wait]
    """Of objects that a milestone counts."""
    named: list[Wait]
    """Of objects that a milestone names: considered while no counted one waits."""


def waits_of_phase(contents: Contents, phase: PhaseSpan) -> Waits | None:
    """Return the waits of the phase's objects; None when none of its milestones depends on objects."""
    counts = [count for declared in phase.declared.values() for count in count_leaves(declared.condition)]
    if not counts:
        return None
    until = arrived(contents, phase)
    writes = _writes(contents, phase)
    family = _Family(contents, phase, writes)
    counted = {count.watch for count in counts if not count.name}
    beyond = {count.watch for count in counts if not _needs_existence(count)}
    named: dict[WatchSpec, set[str]] = defaultdict(set)
    for count in counts:
        if count.name and count.watch not in counted:
            named[count.watch].update(count.names)
    return Waits(
        [
            wait
            for spec in sorted(counted, key=lambda spec: (spec.resource, spec.path))
            for wait in _Story(contents, phase, spec, until, family, writes).waits(None, created=spec not in beyond)
        ],
        [
            wait
            for spec, names in named.items()
            for wait in _Story(contents, phase, spec, until, family, writes).waits(names)
        ],
    )


def _needs_existence(count: Count) -> bool:
    """Return whether a count needs nothing of an object but that it is there: its later writes are not waited for."""
    return not count.name and count.where == Predicate() and count.n > 0 and count.op != "<="


def arrived(contents: Contents, phase: PhaseSpan) -> int:
    """Return when all milestones were met, or the phase's end: nothing waits for later events."""
    end = contents.end_of(phase)
    if set(phase.met) >= set(phase.declared):
        return min(end, max((met.at for met in phase.met.values()), default=end))
    return end


def _writes(contents: Contents, phase: PhaseSpan) -> dict[str, list[tuple[Request, Step]]]:
    """Return resource → the writes that were answered after a phase had begun, in the order of the log.

    Up to ten seconds after its end: a later one ended no wait in it. Of a test with many phases each looks at its own.
    """
    found: dict[str, list[tuple[Request, Step]]] = defaultdict(list)
    kubelet = contents.opened.identities.get("kwok")
    running: dict[Key, int] = {}
    # A line is read after its request was answered.
    first = bisect_left(contents.requests, phase.start, key=attrgetter("at"))
    last = bisect_left(contents.requests, contents.end_of(phase) + _AFTER_NS, key=attrgetter("at"))
    for request in contents.requests[first:last]:
        offset = contents.clock.offset(request.at)
        completed = request.completed_wall - offset
        if completed >= phase.start and changes_object(request):
            step = Step(request.received_wall - offset, completed, request.user, request.verb in _DELETES)
            key = object_of(request)
            if request.resource == "pods" and not request.subresource and request.verb in ("create", "delete"):
                running.pop(key, None)  # another of that name
            elif request.user == kubelet and (request.resource, request.subresource) == ("pods", "status"):
                if since := running.get(key):
                    step = step._replace(user=CONTAINERS, ran_since=since)
                running[key] = completed
            found[request.qualified].append((request, step))
    return found


class _Family:
    """The objects above and below others, as far as watches have shown them, and who wrote each in a phase.

    An owner that is marked for deletion and has a finalizer is there until someone takes that away: its last writer
    released it. The harness is not waited for: what it makes or deletes is the workload itself.
    """

    def __init__(
        self, contents: Contents, phase: PhaseSpan, writes: Mapping[str, Sequence[tuple[Request, Step]]]
    ) -> None:
        self._owned = contents.owned
        self._end = contents.end_of(phase) + _AFTER_NS
        self._steps: dict[tuple[str, Key], list[Step]] = defaultdict(list)
        self._updates: dict[tuple[str, Key], list[Step]] = defaultdict(list)
        self._writes: dict[tuple[str, Key], list[Step]] = defaultdict(list)
        """All writes to each object, also those to its status."""
        if not any(one.owner for one in self._owned.values()):
            return
        harness = contents.opened.identities.get(HARNESS)
        for resource, of_kind in writes.items():
            for request, step in of_kind:
                if request.user == harness or step.completed <= phase.start:
                    continue
                key = resource, object_of(request)
                self._writes[key].append(step)
                deletes = request.verb == "delete"
                makes = request.code == HTTPStatus.CREATED and not request.subresource
                updates = request.verb in UPDATES and not request.subresource and not makes
                if deletes or makes or updates:
                    (self._updates if updates else self._steps)[key].append(step)

    def below(self, uid: str, *, until: int) -> list[Step]:
        """Return who wrote the objects that one owns, directly or not, and when, until a moment, in order."""
        found: list[Step] = []
        owners = [uid]
        for _ in range(_LEVELS):
            owned = [one for owner in owners for one in self._children.get(owner, ())]
            for _, one in owned:
                steps = self._writes.get((one.resource, (one.namespace, one.name)), ())
                found += [step for step in steps if step.completed < until]
            owners = [below for below, _ in owned]
            if not owners:
                break
        return sorted(found, key=attrgetter("completed"))

    @functools.cached_property
    def _children(self) -> Mapping[str, Sequence[tuple[str, Owned]]]:
        """UID → the objects that it owns, each with its own UID."""
        found: dict[str, list[tuple[str, Owned]]] = defaultdict(list)
        for uid, one in self._owned.items():
            if one.owner:
                found[one.owner].append((uid, one))
        return found

    def steps(self, uid: str, *, until: int) -> list[Step]:
        """Return who made, deleted or released the owners above an object, and when, until a moment, in order."""
        found: list[Step] = []
        below = self._owned.get(uid)
        for _ in range(_LEVELS):
            above = self._owned.get(below.owner) if below is not None else None
            if above is None:
                break
            steps = [*self._steps.get((above.resource, (above.namespace, above.name)), []), *self._release(above)]
            found += [step for step in steps if step.completed < until]
            below = above
        return sorted(found, key=lambda step: step.completed)

    def _release(self, owner: Owned) -> list[Step]:
        if not owner.marked or not owner.gone or owner.gone > self._end:
            return []
        updates = self._updates.get((owner.resource, (owner.namespace, owner.name)), [])
        last = max((one for one in updates if one.received < owner.gone), default=None, key=lambda one: one.completed)
        return [last._replace(deletes=True)] if last is not None and last.completed > owner.marked else []


class _Story:
    """The objects of one watch in one phase, and the writes behind them."""

    def __init__(
        self,
        contents: Contents,
        phase: PhaseSpan,
        spec: WatchSpec,
        until: int,
        family: _Family,
        writes: Mapping[str, Sequence[tuple[Request, Step]]],
    ) -> None:
        self._start, self._family = phase.start, family
        self._seen = _seen(contents, spec)
        self._steps: dict[Key, list[Step]] = defaultdict(list)
        self._unnamed: dict[str, list[Step]] = defaultdict(list)
        self._collections: dict[str, list[Step]] = defaultdict(list)
        self._deletes: dict[Key, int] = {}
        place = namespace_of(spec)
        for request, step in writes.get(spec.resource, ()):
            if place in ("", request.namespace) and step.received <= until:
                self._take(request, step)
        self._pair_creates()
        self._mark_collections()

    def waits(self, names: set[str] | None, *, created: bool = False) -> Iterable[Wait]:
        """Yield the waits of all objects, or of those with these names; ``created``: only until each was created.

        Until an object's owner was made, deleted or released, it waited for the user who did that: a pod of a Job that
        an operator makes waits for the operator first, and only then for the Job controller. And until what it owns was
        written for the last time before its own next step, it waited for those who wrote that: a custom resource whose
        status counts pods waits for the scheduler before it waits for the operator.
        """
        for key, steps in self._steps.items():
            if names is not None and key[1] not in names:
                continue
            own = sorted(steps, key=lambda one: one.completed)
            events = self._seen.get(key, [])
            if created:
                own = own[:1] if events and not events[0].initial and events[0].at >= self._start else []
                if not own:
                    continue
            before = self._family.steps(events[0].uid, until=own[0].completed) if events else []
            below = self._family.below(events[0].uid, until=own[-1].completed) if events else []
            since = self._start
            for step in _while_nothing_ran(sorted([*before, *below, *own], key=attrgetter("completed"))):
                if step.completed > since:
                    yield Wait(step.user, since, step.completed, step.deletes)
                    since = step.completed

    def _take(self, request: Request, step: Step) -> None:
        namespace, _ = key = object_of(request)
        if request.verb == "deletecollection":
            self._collections[namespace].append(step)
        elif not request.name:
            self._unnamed[namespace].append(step)
        elif not self._seen or key in self._seen:
            self._steps[key].append(step)
            if request.verb == "delete":
                self._deletes.setdefault(key, step.received)

    def _pair_creates(self) -> None:
        """Assign a create without a name in the audit log to each object that was made by generateName.

        The first to be answered goes to the first that was seen: which of them it was does not change how many had been
        made at any moment.
        """
        made: dict[str, list[Key]] = defaultdict(list)
        for key, events in self._seen.items():
            if events[0].change == "added" and not events[0].initial and events[0].at >= self._start:
                made[key[0]].append(key)
        for namespace, creates in self._unnamed.items():
            creates.sort(key=lambda step: step.completed)
            keys = sorted(made[namespace], key=lambda key: self._seen[key][0].at)
            for key, step in zip(keys, creates, strict=False):
                self._steps[key].append(step)

    def _mark_collections(self) -> None:
        """Add the step that a deletecollection was to each of its objects, which the log does not name.

        It was when the watch showed the object's deletionTimestamp, or earlier: when the object's own delete came.
        """
        for namespace, collections in self._collections.items():
            for key, events in self._seen.items():
                if key[0] != namespace:
                    continue
                marked = next((event.at for event in events if event.fields.get(_MARKED)), None)
                moment = min((at for at in (marked, self._deletes.get(key)) if at is not None), default=None)
                behind = [step for step in collections if moment is not None and step.received <= moment]
                if moment is not None and behind and moment >= self._start:
                    last = max(behind)
                    self._steps[key].append(Step(last.received, moment, last.user, deletes=True))


def _while_nothing_ran(steps: Sequence[Step]) -> Iterable[Step]:
    """Return the steps without those that others made while a pod's containers ran: that is what was waited for."""
    runs = sorted((step.ran_since, step.completed) for step in steps if step.ran_since)
    # One object may own thousands of pods that ran: of those that had begun, the last end is enough.
    begun, ends = [since for since, _ in runs], list(accumulate((end for _, end in runs), max, initial=0))
    return [step for step in steps if step.ran_since or ends[bisect_left(begun, step.completed)] <= step.completed]


def _seen(contents: Contents, spec: WatchSpec) -> dict[Key, list[ObjectSeen]]:
    """Return the events of the objects that a watch has shown; of the last such watch, if there were several."""
    stories: list[WatchStory] = [story for story in contents.watches.values() if story.opened.spec == spec]
    return dict(stories[-1].objects) if stories else {}
