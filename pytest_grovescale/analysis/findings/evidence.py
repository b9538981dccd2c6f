"""The pieces that rules read a recording in: requests, lives of objects, phases, windows, touches."""

from __future__ import annotations

import bisect
import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from http import HTTPStatus
from operator import attrgetter
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec

from ...recording.conditions import READY_PATH
from ...recording.records import UPDATES, Difference, ObjectSeen, Request
from ..api_requests import category_of, counted
from ..audit_times import changes_object, object_of
from ..phase_result import CpuResult, PhaseResult
from ..recording_index import PhaseSpan

FOREIGN_FINALIZERS = ("foregroundDeletion", "orphan")
"""Finalizers that the garbage collector takes away."""

WANTED = ("spec", "data", "rules", "subjects", "metadata.labels")
"""Parts of an object that say what is wanted; other controllers write its status, and annotations."""

FINALIZERS = "metadata.finalizers"

BUDGETS = "poddisruptionbudgets.policy"

ObjectId = tuple[str, str]
"""Namespace and name."""

ENDED = re.compile(r"^(?:(complete|completed|succeeded|success|done|finished)|failed|failure|error)$", re.IGNORECASE)
"""Phases in which an object's work has ended; the group is one of success."""

LAST_HANDLED = "last-handled-configuration"
"""End of the annotation in which kopf keeps what its handlers have seen of an object, its annotations included
(`AnnotationsDiffBaseStorage`)."""

_OF_KOPF = (f"/{LAST_HANDLED}", "/touch-dummy")
"""Annotations of kopf's own, under its prefix or one that is configured (`AnnotationsProgressStorage`)."""


def shown(of: ObjectId) -> str:
    """Return an object's namespace and name as evidence names it: ``default/web``, ``node-1``."""
    return "/".join(filter(None, of))


def number_of(number: int, resource: str) -> str:
    """Return how many objects of a kind: ``60 services``, ``one of the services``; a plural is all that is known."""
    return f"one of the {resource}" if number == 1 else f"{number:,} {resource}"


def listed(names: Sequence[str]) -> str:
    """Return names as a sentence has them: ``pods, services and secrets``."""
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def form(number: int, one: str, more: str) -> str:
    """Return the form of a word that goes with a number."""
    return one if number == 1 else more


def of_kubernetes(finalizer: str) -> bool:
    """Return whether a finalizer is one that Kubernetes' own controllers take away."""
    domain = finalizer.partition("/")[0]
    return finalizer in FOREIGN_FINALIZERS or domain == "kubernetes.io" or domain.endswith(".kubernetes.io")


def changed_paths(event: ObjectSeen, parts: str | tuple[str, ...]) -> list[str]:
    """Return the fields that an event changed, of those that begin so; none where it was compared with nothing."""
    return [path for path in event.difference.paths if path.startswith(parts)] if event.difference is not None else []


def only_number(event: ObjectSeen) -> tuple[str, int] | None:
    """Return the one number below spec that an event changed, if it changed nothing else that is wanted."""
    wanted = changed_paths(event, WANTED)
    number = event.numbers.get(wanted[0]) if len(wanted) == 1 else None
    return (wanted[0], number) if isinstance(number, int) and wanted[0].startswith("spec.") else None


def is_news(event: ObjectSeen) -> bool:
    """Return whether more changed than times, counters of attempts or orders."""
    return event.difference is None or event.difference.kind not in _STAMPS


def condition(kind: str) -> str:
    """Return the path of a condition's status, as a recording names it."""
    return f"status.conditions[type={kind}].status"


PHASE = "status.phase"
"""Where a pod says that it is pending, runs, or has ended; many custom resources say theirs there."""
_POD_ENDED = ("Succeeded", "Failed")
"""Phases of pods that run no more."""
_JOB_ENDED = tuple(map(condition, ("Complete", "Failed", "SuccessCriteriaMet")))
_LIMITED = 0.05

_CREATED = int(HTTPStatus.CREATED)

_NOTHING: Mapping[str, str | int] = MappingProxyType({})

_STAMPS = frozenset({"time", "counter", "order", "bookkeeping"})

_AT, _RECEIVED, _NUMBER = attrgetter("at"), attrgetter("received"), attrgetter("number")

SHOWN_NS = 300_000_000
"""How much later than its answer, or by the clocks before it, a watch may show a write, ns."""


class Sent(msgspec.Struct, frozen=True, eq=False, gc=False):
    """One request, times in ns of the recorder's clock."""

    received: int
    completed: int
    user: str
    verb: str
    resource: str
    """With its group: ``podcliques.grove.io``."""
    subresource: str
    namespace: str
    name: str
    code: int
    category: str
    created: bool
    """Whether it made an object, by its answer."""
    changes: bool
    """Whether it is a successful write, which may have changed an object."""
    unlimited: bool
    """Whether it is a LIST without a limit."""
    path: str
    """Of a request for no resource."""
    what: str
    """Verb and resource: ``update podcliques.grove.io/status``."""
    object: ObjectId
    message: str
    """Why it was refused, in the API server's words; mostly empty."""
    dry_run: bool
    """Whether it was to change nothing."""
    number: int
    """Its place in the log."""

    @property
    def refused(self) -> bool:
        return self.code >= 400

    @property
    def updates(self) -> bool:
        """Whether it is an update or a patch."""
        return self.verb in UPDATES


def requests_read(requests: Iterable[Request], offset: Callable[[int], int] | None, begin: int, end: int) -> list[Sent]:
    """Return the requests that were received in a time, its end left out, as rules read them.

    ``offset``: of the wall clock at a moment of the recorder's, ns; None: always 0.
    """
    # Few differ in these: what follows from them is worked out once for each.
    kinds: dict[tuple[str, str, str, str], tuple[str, Any, str]] = {}
    found: list[Sent] = []
    for number, one in enumerate(filter(counted, requests)):
        moved = 0 if offset is None else offset(one.at)
        received = one.received_wall - moved
        if not begin <= received < end:
            continue
        key = one.verb, one.group, one.resource, one.subresource
        if (kind := kinds.get(key)) is None:
            resource = one.qualified
            what = f"{one.verb} {resource}" + (f"/{one.subresource}" if one.subresource else "")
            kind = kinds[key] = resource, category_of(one), what
        resource, category, what = kind
        namespace, name = object_of(one)
        found.append(
            Sent(
                received,
                one.completed_wall - moved,
                one.user,
                one.verb,
                resource,
                one.subresource,
                namespace,
                name,
                one.code,
                category,
                one.code == _CREATED and not one.dry_run,
                changes_object(one),
                one.unlimited,
                one.path,
                what,
                (namespace, name),
                one.message,
                one.dry_run,
                number,
            )
        )
    return found


class Received:
    """Requests in the order of the log, found by when they were received without a look at all of them."""

    def __init__(self, sent: Iterable[Sent]) -> None:
        self._sent = sorted(sent, key=_RECEIVED)
        self._times = [one.received for one in self._sent]
        self._known: dict[tuple[int, int], Sequence[Sent]] = {}

    def between(self, start: int, end: int) -> Sequence[Sent]:
        """Return those that were received in a time, its end left out."""
        if (start, end) not in self._known:
            first, last = bisect.bisect_left(self._times, start), bisect.bisect_left(self._times, end)
            self._known[start, end] = sorted(self._sent[first:last], key=_NUMBER)
        return self._known[start, end]

    def count(self, start: int, end: int) -> int:
        """Return how many there are in a time."""
        return max(0, bisect.bisect_left(self._times, end) - bisect.bisect_left(self._times, start))


class Life(msgspec.Struct, frozen=True, eq=False, dict=True, kw_only=True):
    """One object from its first event to its last, as the watch showed it, and the log's requests that name it."""

    resource: str
    object: ObjectId
    uid: str
    events: Sequence[ObjectSeen]
    complete: bool
    """Whether the watch has shown its beginning."""
    begun: int
    """When it was first seen."""
    gone_at: int | None
    """When it was seen to be gone; None while it exists."""
    marked_at: int | None
    """When its deletion was first seen to be asked for; None: never."""
    owner: str | None
    """UID of its owner; empty without one, None where the recording does not say."""
    owners: Sequence[str]
    """All that it had in turn, as far as the recording says."""
    writes: Sequence[Sent]
    """The successful writes of anyone that name it, in order, of several of its name each from its creation on."""
    updates: int
    """How often anyone changed it, its create and its deletion left out."""
    own_updates: int
    """How often the operator did."""
    made_by_operator: bool
    """Whether the operator made it while it was under test, as far as log and watch show."""
    deleted_at: int | None
    """When the operator last deleted it, by its name or with its collection; None: never."""

    @property
    def namespace(self) -> str:
        return self.object[0]

    @property
    def name(self) -> str:
        return self.object[1]

    @property
    def key(self) -> tuple[str, ObjectId]:
        """Its resource and itself, as requests name it."""
        return self.resource, self.object

    @property
    def finalizers(self) -> list[str]:
        return next((event.finalizers for event in reversed(self.events) if event.finalizers is not None), [])

    @functools.cached_property
    def ready(self) -> ObjectSeen | None:
        """The event with which it became Ready, as far as the watch shows its condition; None: never."""
        return next((event for event in self.events if event.fields.get(READY_PATH) == "True"), None)

    @functools.cached_property
    def ended_at(self) -> int | None:
        """When a pod or a Job was first seen to have ended by itself; None: never, or it is neither."""
        return next(
            (
                event.at
                for event in self.events
                if event.fields.get(PHASE) in _POD_ENDED
                or any(event.numbers.get(path) == "True" for path in _JOB_ENDED)
            ),
            None,
        )

    def ended(self, at: int) -> bool:
        """Return whether it is a pod or a Job that has ended by itself by a moment."""
        return self.ended_at is not None and self.ended_at <= at

    @property
    def owner_kind(self) -> str:
        """The kind of its owner in lower case, with its group; empty where the recording does not say."""
        return next((event.owner_kind for event in reversed(self.events) if event.owner_kind), "")

    @property
    def owner_version(self) -> str:
        """The API version that its reference to its owner names, as ``v1``; empty where the recording does not say."""
        return next((event.owner_version for event in reversed(self.events) if event.owner_version), "")

    @property
    def controlled(self) -> bool | None:
        """Whether one of its owners is its controller; None where the recording does not say."""
        return next((event.controlled for event in reversed(self.events) if event.controlled is not None), None)

    def until(self, at: int) -> Sequence[ObjectSeen]:
        """Return its events up to a moment, itself included."""
        return self.events[: bisect.bisect_right(self.events, at, key=_AT)]

    def between(self, start: int, end: int) -> Sequence[ObjectSeen]:
        """Return its events in a time, its end left out."""
        if self.events[-1].at < start or self.begun >= end:
            return ()
        first, last = (bisect.bisect_left(self.events, at, key=_AT) for at in (start, end))
        return self.events[first:last]

    def finalizers_at(self, at: int) -> list[str]:
        """Return its finalizers at a moment."""
        before = (event.finalizers for event in reversed(self.until(at)))
        return next((names for names in before if names is not None), [])

    def deleting(self, at: int) -> bool:
        """Return whether its deletion had been asked for by a moment."""
        return self.marked_at is not None and self.marked_at <= at

    def changed_in(self, start: int, end: int) -> bool:
        """Return whether it changed in a time: an operator that stamps its objects each second hides nothing by it."""
        if self.events[-1].at < start or self.begun > end:
            return False
        return any(start <= event.at <= end and is_news(event) for event in self.events)

    def event_at(self, at: int) -> ObjectSeen | None:
        """Return its last event up to a moment, itself included; None before its first."""
        if self.events[-1].at <= at:
            return self.events[-1]
        before = bisect.bisect_right(self.events, at, key=_AT)
        return self.events[before - 1] if before else None

    def field(self, path: str, at: int) -> Any:
        """Return the value of a kept field at a moment; None without one."""
        event = self.event_at(at)
        return event.fields.get(path) if event is not None else None

    @functools.cached_property
    def _numbers(self) -> tuple[list[int], list[Mapping[str, str | int]]]:
        """The moments of its events with numbers, and what it had from then on."""
        times: list[int] = []
        known: list[Mapping[str, str | int]] = []
        for event in self.events:
            if event.numbers:
                times.append(event.at)
                known.append({**known[-1], **event.numbers} if known else event.numbers)
        return times, known

    def numbers(self, at: int) -> Mapping[str, str | int]:
        """Return its numbers, phases and conditions at a moment."""
        times, known = self._numbers
        before = bisect.bisect_right(times, at)
        return known[before - 1] if before else _NOTHING

    @functools.cached_property
    def _versions(self) -> list[int]:
        return [int(event.resource_version or 0) for event in self.events]

    def generation_by(self, event: ObjectSeen) -> str | int:
        """Return its generation when another object was written, by the API server's own order of writes; 0 without."""
        before = bisect.bisect_right(self._versions, int(event.resource_version or 0))
        return self.numbers(self.events[before - 1].at).get("metadata.generation", 0) if before else 0

    @property
    def leaves_at(self) -> int | None:
        """When it began to go: its deletion was asked for, or it was gone at once; None: it stayed."""
        return self.gone_at if self.marked_at is None else self.marked_at

    def stays_until(self, end: int) -> int:
        """Return the last moment before an end at which it had not begun to go."""
        leaves = self.leaves_at
        return (end if leaves is None else min(leaves, end)) - 1

    def stays(self, at: int) -> bool:
        """Return whether it existed at a moment, and its deletion had not been asked for."""
        marked, gone = self.marked_at, self.gone_at
        return self.begun <= at and (marked is None or marked > at) and (gone is None or gone > at)

    def exists(self, at: int) -> bool:
        """Return whether it existed at a moment."""
        return self.begun <= at and (self.gone_at is None or self.gone_at > at)


class Kind:
    """All objects of one kind, with what their events ever showed: few values, which rules ask before each object.

    Equal parts of records are one object in `Contents`, so that they are found by their identity.
    """

    def __init__(self, lives: Sequence[Life]) -> None:
        self._lives = lives

    @functools.cached_property
    def differences(self) -> Sequence[Difference]:
        """How an event of it differed from the one before, each once."""
        found = {id(event.difference): event.difference for life in self._lives for event in life.events}
        return [one for one in found.values() if one is not None]

    @functools.cached_property
    def numbers(self) -> frozenset[str]:
        """The paths of its numbers, phases and conditions."""
        found = {id(event.numbers): event.numbers for life in self._lives for event in life.events}
        return frozenset(path for numbers in found.values() for path in numbers)

    @functools.cached_property
    def finalizers(self) -> frozenset[str]:
        """All finalizers that any of it had."""
        held = (event.finalizers for life in self._lives for event in life.events if event.finalizers)
        return frozenset(name for names in held for name in names)

    def changed(self, parts: str | tuple[str, ...]) -> Iterator[tuple[Life, list[ObjectSeen]]]:
        """Yield each object of which fields that begin so changed, with the events that changed them."""
        those = {id(one) for one in self.differences if any(path.startswith(parts) for path in one.paths)}
        for life in self._lives if those else ():
            if events := [event for event in life.events if id(event.difference) in those]:
                yield life, events

    def returned(self, parts: str | tuple[str, ...]) -> bool:
        """Return whether any field that begins so had the value again that it had before."""
        return any(path.startswith(parts) for one in self.differences for path in one.back)


class Span(NamedTuple):
    """One phase with its time, ns of the recorder's clock."""

    phase: PhaseResult
    recorded: PhaseSpan
    end: int

    @property
    def start(self) -> int:
        return self.recorded.start

    @property
    def triggers(self) -> int:
        """How many reconciles its triggers ask for: the writes to single objects, where the log shows them."""
        return self.phase.trigger_writes or self.phase.triggers

    def cpu(self, process: str) -> CpuResult | None:
        """Return what a process used in it; None: not measured."""
        return next((row for row in self.phase.cpu if row.process == process), None)


class Window(NamedTuple):
    """A time in which nothing changed but by the operator itself, ns of the recorder's clock."""

    phase: str
    start: int
    end: int
    rested: bool = False
    """Whether it begins with the phase: an idle twin, or a phase before which nothing had changed for a second."""

    @property
    def seconds(self) -> float:
        return (self.end - self.start) / 1e9

    def half(self, at: int) -> int:
        """Return 0 for a moment in its first half, 1 for one in its second."""
        return int(at > (self.start + self.end) // 2)


class Touch(NamedTuple):
    """One object whose annotation the harness changed, and the time until the operator was done with it, ns."""

    life: Life
    start: int
    end: int


def rate_limited(span: Span) -> bool:
    """Return whether the operator's own rate limit took so much of a phase that it explains pauses and waits."""
    return any(row.suspect == "operator-rate-limit" and row.share > _LIMITED for row in span.phase.bottlenecks)


def kept_by_kopf(lives: Iterable[Life]) -> set[str]:
    """Return the prefixes of the annotations in which kopf keeps its progress: set, and taken away when it is done."""
    paths = (path for life in lives for event in life.events for path in changed_paths(event, "metadata.annotations"))
    return {path.rpartition("/")[0] for path in paths if path.endswith(_OF_KOPF)}
