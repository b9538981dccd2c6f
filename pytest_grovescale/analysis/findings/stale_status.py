"""A status that contradicts what is there, while nothing changes.

Users, autoscalers and other controllers act on a status. ``observedGeneration`` behind ``metadata.generation`` says
that the newest spec was not looked at (Kubernetes' API conventions, "Typical status properties":
https://github.com/kubernetes/community/blob/master/contributors/devel/sig-architecture/api-conventions.md);
``readyReplicas`` that is not the number of Ready pods sends traffic nowhere, or holds a rollout. An event that was
missed stays missed until the next resync.

A status that follows its children by seconds was not asked for by an event: nothing else waits so long in an idle
operator. A status that runs ahead is as bad: what waits for ``Ready`` goes on before anything can answer.

No false alarm: at the end of two idle seconds or more, or of a phase that made no progress, in which its queues were
empty once; of objects that are not being deleted and have not changed in them, and of kinds whose status the operator
itself writes. Numbers of pods are held only against pods that the object owns directly, and only under their usual
names; a number of ready or available things with another name only where all pods below the object are Ready, a number
of its spec is theirs, and it is neither that nor a number of its children. A condition or phase counts where no pod
below an object that is called ready is Ready, or all are of one that is not, as many as a number of its spec; a number
of completed things where as many Jobs have ended as the spec has steps, and it is more. A status is ahead where it was
written before the first pod below the object became Ready by the API server's own order of writes, so that no delay of
a watch can matter, or, of three objects without pods, before the operator made anything for them; so was a number of
ready pods that is more than had been Ready by then, of three objects; under another name one that is theirs in an idle
time. It is late where the median of five changes, each the next one after a child's, is over a second for a kind that
the operator does not watch, and over three for others, on a machine that nothing else slowed down, by an operator that
does not work through a queue. A new generation that a ready object observed before anything was written below it is a
note, by the same order, three times; so is a condition, but Available, that came True after the first pods were Ready,
and stays so until a second and a half after a new generation was observed while all pods of the one before go.
"""

from __future__ import annotations

import functools
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from operator import itemgetter
from statistics import median
from typing import NamedTuple

from ..result import Finding
from .evidence import BUDGETS, PHASE, Life, ObjectId, Window, condition, form, listed, number_of
from .grouping import About, Aspect, Found
from .observed import Observed
from .premature_status import (
    CACHE_LAG_NS,
    GENERATION,
    ID,
    PODS,
    READY_PODS,
    READY_STATES,
    REPLICAS,
    of_field,
    premature,
)

_LONG_S = 5.0
_MOST = 0.8
"""Share of the owners that are wrong with something wrong below them, from which on they follow from it."""

_SHOWN = 3
_ASKED = "asked"
"""Beside kinds: someone else wrote to the object."""
_FOLLOWED = 5
_LATE_S = 3.0
"""Time, s, after which a status follows late what the operator watches; of what it does not watch, sooner."""
_UNWATCHED_S = 1.0
_READY_NAME = re.compile(r"^(ready|available|running)|(?<!not)(?<!un)(Ready|Available|Running)($|[A-Z])")
_DONE_NAME = re.compile(r"^status\.\w*(completed|succeeded|finished)\w*$", re.IGNORECASE)
_ONE_BY_ONE = 5
"""Part of a time up to which an operator that comes to one object after the other is without a request for the next."""
_FAILED = (("ReplicaFailure", "True"), ("Failed", "True"), ("Progressing", "False"), ("Available", "False"))
"""Conditions of Deployments, ReplicaSets and Jobs that say that they cannot do what they are for."""
_DONE = "Progressing"
"""False is a failure of a Deployment alone: of other kinds it mostly means that there is nothing left to do."""
_CAN_FAIL = frozenset(condition(kind) for kind, _ in _FAILED)
_STATUS = "status"
_NOT_READY_PHASES = frozenset(
    {"Pending", "Creating", "Progressing", "Deploying", "Provisioning", "NotReady", "Unknown"}
)


def findings(seen: Observed) -> Iterator[Finding]:
    """Yield a finding for each kind and field of the status that is wrong in the longest idle window."""
    found: dict[tuple[str, str], tuple[Window, list[_Wrong]]] = {}
    idle: list[tuple[str, Window, list[_Status]]] = []
    for window in [*seen.idle_windows, *seen.stalls]:
        if seen.works_off(window.start, window.end):
            continue
        for resource in sorted(seen.status_written & set(seen.lives)):
            statuses = list(_statuses(seen, resource, window))
            for field, wrong in _wrong(seen, statuses, window).items():
                found.setdefault((resource, field), (window, wrong))
            if window in seen.idle_windows:
                idle.append((resource, window, statuses))
    counting = set(_counting(idle))
    for resource, field, window, wrong in _right_once(idle, counting):
        found.setdefault((resource, field), (window, wrong))
    together = _together(found)
    for (resource, field), others in together.items():
        window, wrong = found[resource, field]
        yield Found(
            id=ID,
            severity="defect" if window.seconds >= _LONG_S else "waste",
            about=_about(seen, found, (resource, field), is_several=bool(others)),
            text=f"{listed([field, *others])} of {number_of(len(wrong), resource)}"
            f" {form(1 + len(others), 'is', 'are')} wrong while nothing changes for"
            f" {window.seconds:.1f} s of"
            f" {window.phase}: {wrong[0].text}{_without_controller(seen, wrong)}",
            evidence=tuple(one.text for one in wrong[1:_SHOWN]),
            check=f"phase.milestone(…, workload.status({field.rpartition('.')[2]}=…))",
        )
    changes = _status_changes(seen)
    yield from _unobserved(seen, {resource for resource, field in found if field == GENERATION[1]}, changes)
    yield from premature(seen, counting)
    yield from _behind(seen, changes)


def _together(found: Mapping[tuple[str, str], tuple[Window, list[_Wrong]]]) -> dict[tuple[str, str], list[str]]:
    """Return (resource, field) → the other fields that are wrong at that time, of the same objects or of some of them.

    A status is written as a whole: what one reconcile would have set is wrong together. How many pods there are says
    most. A generation that was not observed is a cause of its own.
    """
    order = [PODS, *REPLICAS]
    ranked = sorted(
        found, key=lambda key: (-len(found[key][1]), order.index(key[1]) if key[1] in order else len(order))
    )
    together: dict[tuple[str, str], list[str]] = {}
    for resource, field in ranked:
        window, wrong = found[resource, field]
        lives = {one.life for one in wrong}
        lead = next(
            (
                key
                for key in together
                if key[0] == resource and GENERATION[1] not in (key[1], field)
                if found[key][0] is window and lives <= {one.life for one in found[key][1]}
            ),
            None,
        )
        if lead is None:
            together[resource, field] = []
        else:
            together[lead].append(field)
    return together


def _without_controller(seen: Observed, wrong: Sequence[_Wrong]) -> str:
    """Return which children name no controller, in words: by that most libraries find what a child wakes.

    As controller-runtime's ``Owns``: https://pkg.go.dev/sigs.k8s.io/controller-runtime/pkg/handler#OnlyControllerOwner.
    """
    children = [child for one in wrong for child in seen.children.get(one.life.uid, ()) if child.made_by_operator]
    loose = Counter(child.resource for child in children if child.controlled is False)
    kind, number = loose.most_common(1)[0] if loose else ("", 0)
    if number < len(wrong):
        return ""
    return (
        f"; the owner references of their {kind} lack controller: true, by which most libraries find what to reconcile"
    )


def _about(
    seen: Observed,
    found: Mapping[tuple[str, str], tuple[Window, list[_Wrong]]],
    cause: tuple[str, str],
    *,
    is_several: bool,
) -> About:
    """Return what a finding of a field is about; with the status of the owners that are wrong by it at that time.

    An owner's numbers and conditions are computed from what is below it, so that they are wrong where that is.
    """
    resource, field = cause
    window, wrong = found[cause]
    lives = {one.life for one in wrong}
    owners = {
        above
        for (above, _), (when, others) in found.items()
        if when is window and above != resource
        if sum(not lives.isdisjoint(seen.below(one.life)) for one in others) >= _MOST * len(others)
    }
    return of_field(seen, {resource, *owners}, _STATUS if is_several or owners else field)


def _unobserved(seen: Observed, known: set[str], changes: Mapping[Life, Sequence[int]]) -> Iterator[Finding]:
    """Yield the kinds whose status was written after a new generation, and never observed it, up to their end."""
    for resource in sorted(seen.status_written & set(seen.lives) - known):
        behind: list[str] = []
        for life in seen.lives[resource]:
            end = life.stays_until(seen.end)
            numbers = life.numbers(end)
            wanted, observed = (numbers.get(path) for path in GENERATION)
            if not (isinstance(wanted, int) and isinstance(observed, int) and 0 < observed < wanted):
                continue
            changed = max(event.at for event in life.until(end) if GENERATION[0] in event.numbers)
            if any(changed + CACHE_LAG_NS <= at < end for at in changes.get(life, ())):
                behind.append(f"{life.name} has {observed}, and generation {wanted}")
        if len(behind) >= _SHOWN:
            yield Found(
                id=ID,
                severity="defect",
                about=of_field(seen, {resource}, GENERATION[1]),
                text=f"{GENERATION[1]} of {len(behind):,} {resource} stays behind, although their status was written"
                f" seconds after the generation: {behind[0]}",
                evidence=tuple(behind[1:_SHOWN]),
                check="phase.milestone(…, workload.status(observedGeneration=…))",
            )


class _Said(NamedTuple):
    """What numbers, phases and conditions say, worked out once for all objects that have the same."""

    behind: tuple[int, int] | None
    """Observed generation and generation, where the first is behind."""
    exceeded: Sequence[tuple[str, int, str, int]]
    """Each number of a status that a part of it exceeds: readyStacks of stacks. Path, number, name of the part, its."""
    ready: Mapping[str, int]
    """The numbers of ready things of the status."""
    wanted: frozenset[int]
    """The numbers of the spec."""
    states: Mapping[str, str | int]
    """Path → value of the conditions and phases that say whether it is ready."""
    failing: bool
    """Whether a condition says no."""

    @property
    def says_ready(self) -> Sequence[str]:
        return [path for path, value in self.states.items() if value == READY_STATES[path]]


@functools.lru_cache(maxsize=1024)
def _said(numbers: Sequence[tuple[str, str | int]]) -> _Said:
    by_path = dict(numbers)
    wanted, observed = (by_path.get(path) for path in GENERATION)
    behind = isinstance(wanted, int) and isinstance(observed, int) and 0 < observed < wanted
    counts = {path: number for path, number in numbers if isinstance(number, int)}
    return _Said(
        behind=(int(observed), int(wanted)) if behind and observed is not None and wanted is not None else None,
        exceeded=list(_more_than_all(counts)),
        ready={
            path: number
            for path, number in counts.items()
            if path.startswith("status.") and _READY_NAME.search(path.removeprefix("status."))
        },
        wanted=frozenset(number for path, number in counts.items() if path.startswith("spec.")),
        states={path: by_path[path] for path in READY_STATES if path in by_path},
        failing=any(value == "False" for path, value in numbers if path.startswith("status.conditions")),
    )


def _more_than_all(counts: Mapping[str, int]) -> Iterator[tuple[str, int, str, int]]:
    totals = {path.lower(): (path, number) for path, number in counts.items() if path.startswith("status.")}
    for path, number in counts.items():
        part = path.removeprefix("status.ready").lower()
        name, total = totals.get(f"status.{part}", ("", 0)) if path.startswith("status.ready") else ("", 0)
        if name and number > total:
            yield name, total, path.removeprefix("status."), number


class _Wrong(NamedTuple):
    """One object whose status is wrong, and how, in words."""

    life: Life
    text: str


class _Status(NamedTuple):
    """One object that rests, what its status says, and the pods below it at that time."""

    life: Life
    numbers: Mapping[str, str | int]
    said: _Said
    pods: Collection[Life]
    ready: int
    """How many of these are Ready."""
    settled: bool
    """Whether none of these changed."""


def _statuses(seen: Observed, resource: str, window: Window) -> Iterator[_Status]:
    """Yield the objects of a kind that rest in a time, and whose recording has a number, phase or condition."""
    rest = seen.at_rest(window)
    for life in rest.lives[resource]:
        if numbers := life.numbers(window.end):
            said = _said(tuple(numbers.items()))
            of_pods = said.ready or said.states
            pods = rest.pods.intersection(seen.pods_below.get(life.uid, ()) if of_pods else ())
            yield _Status(life, numbers, said, pods, len(rest.ready & pods), rest.changed.isdisjoint(pods))


def _wrong(seen: Observed, statuses: Sequence[_Status], window: Window) -> dict[str, list[_Wrong]]:
    wrong: dict[str, list[_Wrong]] = defaultdict(list)
    rest = seen.at_rest(window)
    for status in statuses:
        life, numbers, said = status.life, status.numbers, status.said
        if said.behind is not None:
            wrong[GENERATION[1]].append(
                _Wrong(life, f"{life.name} has {said.behind[0]}, and generation {said.behind[1]}")
            )
        for path, total, part, number in said.exceeded:
            wrong[path].append(_Wrong(life, f"{life.name} has {total:,}, of which {number:,} are {part}"))
        for path, text in _failing_children(seen, status, window):
            wrong[path].append(_Wrong(life, text))
        of_numbers = [*_of_its_own_name(seen, status, window), *_more_than_ended(seen, status, window)]
        for path, text in [*of_numbers, *_contradicts(status, window)]:
            if path not in REPLICAS:
                wrong[path].append(_Wrong(life, text))
        if READY_PODS not in numbers and PODS not in numbers:
            continue
        own = [
            child for child in seen.children.get(life.uid, ()) if child.resource == "pods" and child.stays(window.end)
        ]
        if not own or not rest.changed.isdisjoint(own):
            continue
        if READY_PODS in numbers:
            ready = len(rest.ready.intersection(own))
            if numbers[READY_PODS] != ready:
                wrong[READY_PODS].append(_Wrong(life, f"{life.name} has {numbers[READY_PODS]}, and {ready} Ready pods"))
        if numbers.get(PODS, len(own)) == len(own):
            continue
        # Those that ended may be left out, as a ReplicaSet does.
        ended = sum(pod.ended(window.end) for pod in own)
        if numbers[PODS] != len(own) - ended:
            surplus = numbers[PODS] == numbers.get("spec.replicas") and len(own) - ended > int(numbers[PODS])
            wanted_so, too_many = (", as its spec wants,", ": the others are too many") if surplus else (",", "")
            wrong[PODS].append(
                _Wrong(life, f"{life.name} has {numbers[PODS]}{wanted_so} and {len(own)} pods{too_many}")
            )
    return wrong


def _of_its_own_name(seen: Observed, status: _Status, window: Window) -> Iterator[tuple[str, str]]:
    """Yield (path, in words) for each number of ready things that is not that of the pods below an object."""
    said, pods = status.said, len(status.pods)
    fields = {path: number for path, number in said.ready.items() if number not in said.wanted}
    if not fields or not pods or pods not in said.wanted or not status.settled or status.ready != pods:
        return
    below = Counter(one.resource for one in seen.below(status.life) if one.exists(window.end))
    plausible = {pods, *said.wanted, *below.values()}
    for path, number in fields.items():
        if number not in plausible:
            yield path, f"{status.life.name} has {number}, and {pods} pods, all of them Ready"


def _more_than_ended(seen: Observed, status: _Status, window: Window) -> Iterator[tuple[str, str]]:
    """Yield (path, in words) for each number of done things that exceeds those that have ended, where none is left."""
    if not (done := {path: number for path, number in status.numbers.items() if _DONE_NAME.search(path)}):
        return
    ended = Counter(one.resource for one in seen.below(status.life) if one.made_by_operator and one.ended(window.end))
    kind, most = max(ended.items(), key=itemgetter(1), default=("", 0))
    for path, number in done.items() if most in status.said.wanted else ():
        if isinstance(number, int) and number > most and number not in status.said.wanted:
            yield path, f"{status.life.name} has {number}, and {most} {kind} that have ended, as many as its spec wants"


def _contradicts(status: _Status, window: Window) -> Iterator[tuple[str, str]]:
    """Yield (path, in words) for each condition and phase that the pods below an object contradict, all of them."""
    name, said, pods = status.life.name, status.said, len(status.pods)
    if not said.states or not pods or not status.settled or any(pod.deleting(window.end) for pod in status.pods):
        return
    for path, value in said.states.items():
        says_ready = value == READY_STATES[path]
        says_not = value in (_NOT_READY_PHASES if path == PHASE else ("False", "Unknown"))
        if says_ready and not status.ready:
            yield path, f"{name} says {value}, and none of its {pods:,} pods is Ready"
        elif says_not and status.ready == pods and pods in said.wanted:
            yield path, f"{name} says {value}, and its {pods:,} pods are Ready, as many as its spec wants"


def _failing_children(seen: Observed, status: _Status, window: Window) -> Iterator[tuple[str, str]]:
    """Yield (path, in words) for each state of an object that says ready while a child of it has failed."""
    said = status.said.says_ready
    if not said or status.said.failing:
        return
    for child in seen.children.get(status.life.uid, ()):
        if _CAN_FAIL.isdisjoint(seen.kinds[child.resource].numbers):
            continue
        states = child.numbers(window.end)
        failed = [(kind, value) for kind, value in _FAILED if states.get(condition(kind)) == value]
        failed = [one for one in failed if one[0] != _DONE or child.resource == "deployments.apps"]
        if failed and child.exists(window.end) and not child.changed_in(window.start, window.end):
            kind, value = failed[0]
            yield (
                said[0],
                f"{status.life.name} says {status.numbers[said[0]]}, and {kind} of its {child.resource} {child.name}"
                f" is {value}",
            )
            return


def _right_once(
    idle: Sequence[tuple[str, Window, Sequence[_Status]]], counting: Collection[tuple[str, str]]
) -> Iterator[tuple[str, str, Window, list[_Wrong]]]:
    """Yield numbers of ready things that were those of all Ready pods at one time, and are not at another.

    Each with resource, path, the time at which it is wrong, and in words how. ``idle``: what rests, kind by kind.
    """
    wrong: dict[tuple[str, str], tuple[Window, list[_Wrong]]] = {}
    for resource, window, statuses in idle:
        for path, those in _ready_numbers(statuses).items():
            off = [
                _Wrong(one.life, f"{one.life.name} has {one.said.ready[path]}, and {one.ready} Ready pods")
                for one in those
                if one.said.ready[path] != one.ready
            ]
            if off:
                wrong.setdefault((resource, path), (window, off))
    for (resource, path), (window, texts) in wrong.items():
        if (resource, path) in counting:
            yield resource, path, window, texts


def _counting(idle: Sequence[tuple[str, Window, Sequence[_Status]]]) -> Iterator[tuple[str, str]]:
    """Yield (resource, path) of the numbers that are those of all Ready pods below an object, in one time at least."""
    for resource, _, statuses in idle:
        for path, those in _ready_numbers(statuses).items():
            right = all(one.said.ready[path] == one.ready for one in those)
            if right and len(those) >= _SHOWN and max(one.ready for one in those) >= _SHOWN:
                yield resource, path


def _ready_numbers(statuses: Sequence[_Status]) -> Mapping[str, Sequence[_Status]]:
    """Return path → the statuses that say a number of ready things there, of objects whose pods did not change."""
    by_path: dict[str, list[_Status]] = defaultdict(list)
    for status in statuses:
        for path in status.said.ready if status.settled else ():
            by_path[path].append(status)
    return by_path


def _behind(seen: Observed, changes: Mapping[Life, Sequence[int]]) -> Iterator[Finding]:
    """Yield a finding for each kind whose status follows changes of its children late, by a kind not watched."""
    for resource in sorted(seen.status_written & set(seen.lives)):
        waits: dict[str, list[float]] = defaultdict(list)
        for life in seen.lives[resource]:
            for kind, seconds in _followed(seen, life, changes):
                waits[kind].append(seconds)
        for kind, found in sorted(waits.items()):
            watched = kind in seen.watched_by_operator
            late = median(found)
            if len(found) < _FOLLOWED or late < (_LATE_S if watched else _UNWATCHED_S):
                continue
            if watched and any(seen.slowed(span) for span in seen.spans):
                continue
            why = "looks at them at times" if watched else "does not watch them"
            late_writes = [one for one in seen.own_writes(seen.lives[resource]) if one.updates]
            yield Found(
                id=ID,
                severity="waste",
                about=About(aspect=Aspect.TIME, requests=late_writes),
                text=f"the status of {resource} follows changes of their {kind} {late:.2g} s later (median of"
                f" {len(found):,}): the operator {why}",
                evidence=(f"up to {max(found):.2g} s",),
            )


def _status_changes(seen: Observed) -> Mapping[Life, Sequence[int]]:
    """Return object → when its status changed in more than times and counters."""
    return {
        life: [event.at for event in events if event.difference is not None and event.difference.kind == "content"]
        for kind in seen.kinds.values()
        for life, events in kind.changed("status")
    }


def _is_busy(seen: Observed, start: int, end: int) -> bool:
    """Return whether the operator worked through a queue in a time: it sent much, or came to object after object."""
    first: dict[tuple[str, ObjectId], int] = {}
    for one in seen.requests_in(start, end):
        first.setdefault((one.resource, one.object), one.received)
    times = [start, *first.values(), end]
    longest = max(after - before for before, after in pairwise(times))
    return seen.is_at_work(start, end) or longest * _ONE_BY_ONE <= end - start


def _followed(seen: Observed, life: Life, changes: Mapping[Life, Sequence[int]]) -> Iterator[tuple[str, float]]:
    """Yield (kind, s) for each change of an object's status that came after one of a child's status, and no other.

    Nor after the test, or another program, wrote to the object itself: it may be what that asked for.
    """
    moments = [(at, "") for at in changes.get(life, ())]
    if not moments or not life.own_updates:
        return
    for child in seen.children.get(life.uid, ()):
        # A budget's status follows the pods, as this one may.
        if child.resource != BUDGETS:
            moments += [(at, child.resource) for at in changes.get(child, ())]
    moments += [(one.completed, _ASKED) for one in life.writes if one.user != seen.operator]
    end = seen.workload_deleted or seen.end
    for (before, kind), (after, own) in pairwise(sorted(one for one in moments if seen.begin <= one[0] < end)):
        # One that works through a queue comes to each object late.
        if (
            kind not in ("", _ASKED)
            and not own
            and not (kind in seen.watched_by_operator and _is_busy(seen, before, after))
        ):
            yield kind, (after - before) / 1e9
