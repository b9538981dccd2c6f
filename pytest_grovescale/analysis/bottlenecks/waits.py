"""The waits of each object of a phase: from one of its steps to the next, for the user who made the next one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from ...recording.conditions import WatchSpec
from ...recording.evaluation import count_leaves
from ...recording.records import ObjectSeen, Request
from ..contents import Contents, PhaseSpan, WatchStory
from ..writes import changes_object, namespace_of, qualified

_MARKED = "metadata.deletionTimestamp"

Key = tuple[str, str]
"""(namespace, name)."""


class Step(NamedTuple):
    """A write that advanced one object, times in ns of the recorder's clock."""

    received: int
    completed: int
    user: str


class Wait(NamedTuple):
    """One object waited for one user from a moment to another, ns of the recorder's clock."""

    user: str
    start: int
    end: int


class Waits(NamedTuple):
    """All waits of a phase."""

    counted: list[Wait]
    """Of objects that a milestone counts."""
    named: list[Wait]
    """Of objects that a milestone names: considered while no counted one waits."""


def waits_of_phase(contents: Contents, phase: PhaseSpan) -> Waits | None:
    """Return the waits of the phase's objects; None when none of its milestones looks at objects."""
    counts = [count for declared in phase.declared.values() for count in count_leaves(declared.condition)]
    if not counts:
        return None
    until = _arrived(contents, phase)
    counted = {count.watch for count in counts if not count.name}
    named: dict[WatchSpec, set[str]] = defaultdict(set)
    for count in counts:
        if count.name and count.watch not in counted:
            named[count.watch].add(count.name)
    return Waits(
        [wait for spec in sorted(counted, key=_order) for wait in _Story(contents, phase, spec, until).waits(None)],
        [wait for spec, names in named.items() for wait in _Story(contents, phase, spec, until).waits(names)],
    )


def _order(spec: WatchSpec) -> tuple[str, str]:
    return spec.resource, spec.path


def _arrived(contents: Contents, phase: PhaseSpan) -> int:
    """Return when all milestones were met, or the phase's end: nothing waits for later events."""
    end = contents.end_of(phase)
    if set(phase.met) >= set(phase.declared):
        return min(end, max((met.at for met in phase.met.values()), default=end))
    return end


class _Story:
    """The objects of one watch in one phase, and the writes behind them."""

    def __init__(self, contents: Contents, phase: PhaseSpan, spec: WatchSpec, until: int) -> None:
        self._start, self._until = phase.start, until
        self._seen = _seen(contents, spec)
        self._steps: dict[Key, list[Step]] = defaultdict(list)
        self._unnamed: dict[str, list[Step]] = defaultdict(list)
        self._collections: dict[str, list[Step]] = defaultdict(list)
        self._deletes: dict[Key, int] = {}
        for request in contents.requests:
            inside = namespace_of(spec) in ("", request.namespace)
            if inside and qualified(request) == spec.resource and changes_object(request):
                self._take(request, contents.clock.offset(request.at))
        self._pair_creates()
        self._mark_collections()

    def waits(self, names: set[str] | None) -> Iterable[Wait]:
        """Yield the waits of all objects, or of those with these names."""
        for (_, name), steps in self._steps.items():
            if names is not None and name not in names:
                continue
            since = self._start
            for step in sorted(steps, key=lambda one: one.completed):
                if step.completed > since:
                    yield Wait(step.user, since, step.completed)
                    since = step.completed

    def _take(self, request: Request, offset: int) -> None:
        step = Step(request.received_wall - offset, request.completed_wall - offset, request.user)
        if step.completed < self._start or step.received > self._until:
            return
        # The log gives a Namespace object its own name as namespace; a watch shows it without one.
        namespace = "" if request.resource == "namespaces" else request.namespace
        key = namespace, request.name
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
                    self._steps[key].append(Step(last.received, moment, last.user))


def _seen(contents: Contents, spec: WatchSpec) -> dict[Key, list[ObjectSeen]]:
    """Return the events of the objects that a watch has shown; of the last such watch, if there were several."""
    stories: list[WatchStory] = [story for story in contents.watches.values() if story.opened.spec == spec]
    return dict(stories[-1].objects) if stories else {}
