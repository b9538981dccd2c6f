"""When the API server committed what a watch showed: writes of the audit log, matched with watch events.

At level Metadata the log says of a write who made it, to which object, when it was received and when it was answered;
not what it changed. A commit lies between the two. What is certain without more:

*Order statistics.* If each of m commits lies in an interval [r, c] of its own, the j-th of them, in the order in which
they were committed, lies between the j-th smallest r and the j-th smallest c: at most j-1 of them can be committed
before the j-th smallest r, and j of them are by the j-th smallest c. It takes no assumption about the order in which
overlapping requests are processed.

*A named object.* A watch shows each change of an object once, in order. If the log holds as many successful writes to
that name as the watch showed events, each event is one of them, and the j-th event is the j-th commit. If it holds
more, some changed nothing (or were not shown), and which ones is undetermined: no server time. The same if a request
that names no objects (deletecollection), or a create by generateName, may be behind one of the events. And one DELETE
of a pod that has no grace period left (it was not scheduled, or has ended) is two changes: the mark, and the end.

*An object's end.* After the commit that removed it, every further write to that name fails. So all successful writes
were received before that commit, and it lies between the last receipt and the last answer, no-op writes or not.

*A count of created objects* that began at a known number with no deletion in between: its N-th is the N-th successful
create, by order statistics, with or without names.

A watch shows an event only after its commit, so the moment it was observed bounds every interval from above.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ..recording.conditions import WatchSpec
from ..recording.records import WRITES, ObjectSeen, Request
from .recording_index import WallClock, WatchStory

_NAMESPACE = re.compile(r"/namespaces/([^/]+)/[^/]+$")

_NO_CHANGE = frozenset({"log", "exec", "attach", "portforward", "proxy", "token"})
"""Subresources that can be created or updated without changing the object that they belong to."""


class Write(NamedTuple):
    """One successful write, times in ns of the recorder's clock."""

    received: int
    completed: int
    creates: bool
    doubt: int
    """How far both times may be off, because the wall clock was set at about that time."""
    deletes: bool = False


class Interval(NamedTuple):
    """A moment between two, ns of the recorder's clock."""

    low: int
    high: int
    doubt: int = 0


class Unknown(NamedTuple):
    """No server time, with the reason."""

    why: str


Scope = tuple[str, str]
"""(resource with group, namespace)."""


class WriteLog:
    """Successful writes of the audit log by object, and those that name none by resource and namespace."""

    def __init__(self, requests: Iterable[Request], clock: WallClock) -> None:
        self.named: dict[tuple[str, str, str], list[Write]] = defaultdict(list)
        self.creates: dict[Scope, list[Write]] = defaultdict(list)
        self.unnamed_creates: dict[Scope, list[Write]] = defaultdict(list)
        self.collections: dict[Scope, list[Write]] = defaultdict(list)
        self.last = 0
        """When the last of its writes was answered, on the recorder's clock, ns."""
        steady = not clock.steps
        for request in requests:
            if not changes_object(request):
                continue
            offset, doubt = (0, 0) if steady else (clock.offset(request.at), clock.doubt(request.at))
            creates = request.verb == "create" and not request.subresource
            deletes = request.verb == "delete"
            write = Write(request.received_wall - offset, request.completed_wall - offset, creates, doubt, deletes)
            self.last = max(self.last, write.completed)
            self._add(request, write)

    def _add(self, request: Request, write: Write) -> None:
        resource = request.qualified
        scope = (resource, object_of(request)[0])
        if request.verb == "deletecollection":
            self.collections[scope].append(write)
            return
        if write.creates:
            self.creates[scope].append(write)
            if not request.name:
                self.unnamed_creates[scope].append(write)
        if request.name:
            self.named[(*scope, request.name)].append(write)


def object_of(request: Request) -> tuple[str, str]:
    """Return namespace and name of what a request names, as a watch shows it: the log gives a Namespace its own name as
    namespace.
    """
    return "" if request.qualified == "namespaces" else request.namespace, request.name


def changes_object(request: Request) -> bool:
    """Return whether a request is a successful write that may have changed an object."""
    return (
        request.verb in WRITES
        and 200 <= request.code < 300
        and request.stage == "ResponseComplete"
        and not request.dry_run
        and bool(request.resource)
        and request.subresource not in _NO_CHANGE
    )


def order_statistic(writes: Sequence[Write], j: int, *, spare: int = 0) -> Interval:
    """Return where the j-th commit (from 1) of these writes lies, if ``spare`` of them were no commits.

    Dropping any k of them leaves a j-th smallest receipt no smaller than before, and a j-th smallest answer no later
    than the (j+k)-th of all.
    """
    received = sorted(write.received for write in writes)
    completed = sorted(write.completed for write in writes)
    low, high = received[j - 1], completed[min(j + spare, len(completed)) - 1]
    return Interval(low, high, max(write.doubt for write in writes))


class Pairs(NamedTuple):
    """An object's events in one watch and the writes behind them: as many of each, each in its own order."""

    events: list[ObjectSeen]
    writes: list[Write]

    def interval(self, event: ObjectSeen) -> Interval:
        """Return when the write behind one of the events was committed."""
        j = next(index for index, other in enumerate(self.events, start=1) if other is event)
        bounds = order_statistic(self.writes, j)
        return Interval(bounds.low, min(bounds.high, event.at + bounds.doubt), bounds.doubt)


def pair(
    log: WriteLog, story: WatchStory, events: Sequence[ObjectSeen], *, until: int | None = None
) -> Pairs | Unknown:
    """Pair an object's events in one watch with the writes to it; Unknown where the numbers disagree.

    ``events``: the object's, from its first on. ``until`` leaves out writes received later (ns).
    """
    if story.gaps or story.live is None:
        return Unknown("its watch has a gap")
    resource, first, last = story.opened.spec.resource, events[0], events[-1]
    scope = (resource, first.namespace)
    writes = [w for w in log.named.get((*scope, first.name), ()) if until is None or w.received <= until]
    shown = _distinct(events)
    if first.initial:
        writes = [write for write in writes if write.completed > story.opened.at]
        if any(write.received <= story.live.at for write in writes):
            return Unknown("it was written while its watch opened")
    elif first.change == "added" and log.unnamed_creates.get(scope) and not any(write.creates for write in writes):
        shown = shown[1:]  # made by generateName: its create is in the log without a name
    if any(write.received <= last.at for write in _collections(log, scope)):
        return Unknown("a deletecollection may be behind it, which names no objects")
    if resource == "pods" and sum(write.deletes for write in writes) < sum(map(_of_deletion, shown)):
        return Unknown("one DELETE of a pod may be two changes in the watch")
    if len(shown) != len(writes):
        return Unknown(f"{len(writes)} writes to it in the audit log, {len(shown)} changes in the watch")
    return Pairs(shown, writes)


def pair_what_can_be(log: WriteLog, story: WatchStory, events: Sequence[ObjectSeen]) -> Pairs | Unknown:
    """Pair all of an object's events, or those seen before the first ambiguous request.

    Ambiguous is a request that names no objects, or a DELETE.
    """
    whole = pair(log, story, events)
    scope = (story.opened.spec.resource, events[0].namespace)
    deletions = [write for write in log.named.get((*scope, events[0].name), ()) if write.deletes]
    spoiling = [*_collections(log, scope), *deletions]
    if isinstance(whole, Pairs) or not spoiling:
        return whole
    until = min(write.received for write in spoiling) - 1
    early = [event for event in events if event.at <= until]
    return pair(log, story, early, until=until) if early else whole


def time_of_event(log: WriteLog, story: WatchStory, event: ObjectSeen) -> Interval | Unknown:
    """Return when the write behind one event of a watch was committed."""
    events = story.objects[event.namespace, event.name]
    upto = events[: next(index for index, other in enumerate(events, start=1) if other is event)]
    why = Unknown("")
    # With the complete recording, all events and all writes match; those up to this event match when nothing else was
    # under way. Either is proof.
    for pairs in (pair(log, story, events), pair(log, story, upto, until=event.at)):
        if isinstance(pairs, Unknown):
            why = pairs
        elif any(other is event for other in pairs.events):
            return pairs.interval(event)
        else:
            why = Unknown("its create has no name in the audit log (generateName)")
    if event.change == "deleted" and not _selective(story) and not story.gaps:
        end = _time_of_end(log, story.opened.spec.resource, event)
        return why if end is None else end
    return why


def time_of_nth_create(log: WriteLog, story: WatchStory, n: int, observed: int) -> Interval | Unknown:
    """Return when the number of objects in a watch became ``n`` by creations alone; ``observed``: when it was seen."""
    spec, live = story.opened.spec, story.live
    if live is None or story.gaps:
        return Unknown("its watch has a gap")
    if _selective(story):
        return Unknown("the audit log does not say which creates a selector matches")
    if any(at <= observed for at in story.deletions):
        return Unknown("objects were deleted before it was reached")
    creates = [
        write
        for (resource, namespace), writes in log.creates.items()
        if resource == spec.resource and namespace_of(spec) in ("", namespace)
        for write in writes
        if write.completed > story.opened.at
    ]
    if any(write.received <= live.at for write in creates):
        return Unknown("objects were created while its watch opened")
    missing = n - live.objects
    if missing < 1 or sum(write.received <= observed for write in creates) < missing:
        return Unknown("fewer creates in the audit log than objects in the watch")
    bounds = order_statistic(creates, missing)
    return Interval(bounds.low, min(bounds.high, observed + bounds.doubt), bounds.doubt)


def namespace_of(spec: WatchSpec) -> str:
    """Return the namespace of a watch's collection path; empty for all namespaces and for kinds without one."""
    match = _NAMESPACE.search(spec.path)
    return match.group(1) if match else ""


def _time_of_end(log: WriteLog, resource: str, event: ObjectSeen) -> Interval | None:
    scope = (resource, event.namespace)
    writes = [write for write in log.named.get((*scope, event.name), ()) if write.received <= event.at]
    if not writes or sum(write.creates for write in writes) > 1:
        return None  # made again under the same name: which of its ends is meant?
    low = max(write.received for write in writes)
    if any(low <= other.completed and other.received <= event.at for other in _collections(log, scope)):
        return None  # the last write to its name may not be what ended it
    doubt = max(write.doubt for write in writes)
    return Interval(low, min(max(write.completed for write in writes), event.at + doubt), doubt)


def _distinct(events: Sequence[ObjectSeen]) -> list[ObjectSeen]:
    """Leave out initial events and those that a resumed watch showed twice."""
    shown: list[ObjectSeen] = []
    before = ""
    for event in events:
        if not event.initial and (not event.resource_version or event.resource_version != before):
            shown.append(event)
        before = event.resource_version
    return shown


def _of_deletion(event: ObjectSeen) -> bool:
    return event.change == "deleted" or bool(event.fields.get("metadata.deletionTimestamp"))


def _collections(log: WriteLog, scope: Scope) -> Sequence[Write]:
    return log.collections.get(scope, ())


def _selective(story: WatchStory) -> bool:
    return bool(story.opened.spec.label_selector or story.opened.spec.field_selector)
