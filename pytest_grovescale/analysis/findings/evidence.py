"""The pieces that rules read a recording in: requests, lives of objects, phases, windows, touches."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

from ...recording.records import ObjectSeen, Request
from ..api_requests import category_of
from ..audit_times import changes_object
from ..phase_result import CpuResult, PhaseResult
from ..recording_index import PhaseSpan

FOREIGN_FINALIZERS = ("foregroundDeletion", "orphan")
"""Finalizers that the garbage collector takes away."""

ObjectId = tuple[str, str]
"""Namespace and name."""

_LIMITED = 0.05


class Sent(NamedTuple):
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
    changes: bool
    """Whether it is a successful write, which may have changed an object."""
    unlimited: bool
    """Whether it is a LIST without a limit."""
    path: str
    """Of a request for no resource."""

    @property
    def object(self) -> ObjectId:
        return self.namespace, self.name

    @property
    def what(self) -> str:
        """Verb and resource: ``update podcliques.grove.io/status``."""
        return f"{self.verb} {self.resource}" + (f"/{self.subresource}" if self.subresource else "")

    @property
    def refused(self) -> bool:
        return self.code >= 400


def sent(one: Request, offset: int) -> Sent:
    return Sent(
        received=one.received_wall - offset,
        completed=one.completed_wall - offset,
        user=one.user,
        verb=one.verb,
        resource=one.qualified,
        subresource=one.subresource,
        namespace=one.namespace,
        name=one.name,
        code=one.code,
        category=category_of(one),
        changes=changes_object(one),
        unlimited=one.unlimited,
        path=one.path,
    )


@dataclasses.dataclass(frozen=True, eq=False)
class Life:
    """One object from its first event to its last, as the watch showed it."""

    resource: str
    namespace: str
    name: str
    uid: str
    events: Sequence[ObjectSeen]
    complete: bool
    """Whether the watch has shown its beginning."""

    @functools.cached_property
    def owner(self) -> str | None:
        """UID of its owner; empty without one, None where the recording does not say."""
        return next((event.owner for event in reversed(self.events) if event.owner is not None), None)

    @property
    def finalizers(self) -> list[str]:
        return next((event.finalizers for event in reversed(self.events) if event.finalizers is not None), [])

    @property
    def deletion_asked(self) -> bool:
        return any("metadata.deletionTimestamp" in event.fields for event in self.events)

    @property
    def owner_kind(self) -> str:
        """The kind of its owner in lower case, with its group; empty where the recording does not say."""
        return next((event.owner_kind for event in reversed(self.events) if event.owner_kind), "")

    @property
    def controlled(self) -> bool | None:
        """Whether one of its owners is its controller; None where the recording does not say."""
        return next((event.controlled for event in reversed(self.events) if event.controlled is not None), None)

    def finalizers_at(self, at: int) -> list[str]:
        """Return its finalizers at a moment."""
        before = (event.finalizers for event in reversed(self.events) if event.at <= at)
        return next((names for names in before if names is not None), [])

    def deleting(self, at: int) -> bool:
        """Return whether its deletion had been asked for by a moment."""
        return any("metadata.deletionTimestamp" in event.fields for event in self.events if event.at <= at)

    def changed_in(self, start: int, end: int) -> bool:
        """Return whether it changed in a time."""
        return any(start <= event.at <= end for event in self.events)

    def field(self, path: str, at: int) -> Any:
        """Return the value of a kept field at a moment; None without one."""
        before = next((event for event in reversed(self.events) if event.at <= at), None)
        return None if before is None else before.fields.get(path)

    def numbers(self, at: int) -> dict[str, str | int]:
        """Return its numbers, phases and conditions at a moment."""
        found: dict[str, str | int] = {}
        for event in self.events:
            if event.at <= at:
                found |= event.numbers
        return found

    def gone_at(self) -> int | None:
        """Return when it was seen to be gone; None while it exists."""
        last = self.events[-1]
        return last.at if last.change == "deleted" else None

    def exists(self, at: int) -> bool:
        """Return whether it existed at a moment."""
        gone = self.gone_at()
        return self.events[0].at <= at and (gone is None or gone > at)


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


def during(one: Sent, time: Span | Window) -> bool:
    """Return whether a request was received in a phase or a window."""
    return time.start <= one.received < time.end


def rate_limited(span: Span) -> bool:
    """Return whether the operator's own rate limit took so much of a phase that it explains pauses and waits."""
    return any(row.suspect == "operator-rate-limit" and row.share > _LIMITED for row in span.phase.bottlenecks)
