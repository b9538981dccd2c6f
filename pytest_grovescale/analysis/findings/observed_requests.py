"""A recording's requests, marks and phases as rules read them, cut to the time in which the operator was under test.

That is from the first phase to the harness's clean-up. Where a part of it is not known for certain (a gap in the audit
log, a control plane that broke), rules that need it see nothing of it: no finding rests on it.
"""

from __future__ import annotations

import functools
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from http import HTTPStatus

from ...recording.records import Request
from .. import contention
from ..api_faults import ApiFaults
from ..api_requests import HARNESS, open_watches
from ..cpu import API_SERVER
from ..recording_index import Contents
from ..result import OPERATOR, WHOLE_PHASE, TestResult
from .evidence import ObjectId, Received, Sent, Span, Touch, Window, requests_read

CLEAN_UP = "clean-up"
"""Label of the harness's mark around the removal of a test's namespace."""

WORKLOAD = frozenset({"apply", "scale", "patch", "trigger", "delete"})
"""Labels of the harness's marks that change the workload."""

_SLOWED = 0.5
"""Threads of operator and API server that were runnable without a core, on average, from which on that slowed them."""


_AT_WORK = 20.0
"""Requests a second of an operator that works through a queue."""


class ObservedRequests:
    """The requests to the API server in one test, with users and times. Everything is computed at first use, once."""

    def __init__(self, contents: Contents, test: TestResult, faults: ApiFaults, *, calm: bool = False) -> None:
        """``faults``: between operator and API server; ``calm``: see only the time in which none were in force."""
        self.contents = contents
        self.test = test
        self.faults = faults
        self._calm = calm
        self.operator = test.identities.get(OPERATOR, "")
        """Its user name in the audit log; empty without one of its own."""
        self.harness = test.identities.get(HARNESS, "")
        if self.operator == self.harness:
            self.operator = ""

    @functools.cached_property
    def spans(self) -> list[Span]:
        """The phases that ended, in order, without those in which the control plane broke."""
        found = [
            # One that was interrupted is open until its objects are removed.
            Span(result, span, min(self.contents.end_of(span), self.end))
            for span, result in zip(self.contents.phases, self.test.phases, strict=True)
            if span.ended is not None and not any(one.kind in WHOLE_PHASE for one in result.disruptions)
        ]
        return [one for one in found if not (self._calm and one.phase.faults is not None)]

    def _faulted(self) -> list[tuple[int, int]]:
        """Return the times in which faults were in force, to the end of the phase that they were in."""
        phases = [(one.start, self.contents.end_of(one)) for one in self.contents.phases]
        whole = [pair for pair in phases if self.faults.in_force(*pair)]
        return [*((one.start, one.end) for one in self.faults.windows), *whole]

    def follows_fault(self, one: Sent) -> bool:
        """Return whether a refusal can be the consequence of a fault: of a lost answer, or of a watch that was cut."""
        before = self.faults.within(self.begin, one.completed)
        lost = [fault.record for fault in before if fault.record.applied]
        if any(record.qualified == one.resource and (record.namespace, record.name) == one.object for record in lost):
            return True
        stale = one.code == HTTPStatus.CONFLICT and self.faults.in_force(one.received, one.completed + 1)
        return bool(stale) and any(fault.is_watch for fault in before)

    def twin(self, span: Span) -> Span | None:
        """Return the idle twin of a steady-state phase."""
        return next((one for one in self.spans if one.phase.name == span.phase.idle_twin), None)

    @functools.cached_property
    def begin(self) -> int:
        """The first phase's start."""
        return self.contents.phases[0].start if self.contents.phases else self.contents.last_at

    @functools.cached_property
    def end(self) -> int:
        """The beginning of the harness's clean-up, or the recording's end."""
        marks = (mark.at for mark in self.contents.marks if mark.label == CLEAN_UP and mark.state == "begin")
        return next(marks, self.contents.last_at)

    @functools.cached_property
    def log_whole(self) -> bool:
        """Whether the audit log was read without a gap, in all phases."""
        return bool(self.test.phases) and all(phase.audit_complete for phase in self.test.phases)

    @functools.cached_property
    def all_requests(self) -> list[Sent]:
        """All requests of anyone from the first phase on to the clean-up, in order; empty without a whole log."""
        if not self.log_whole:
            return []
        clock = self.contents.clock
        offset = clock.offset if clock.steps else None
        inside = requests_read(self.contents.requests, offset, self.begin, self.end)
        times = self._faulted() if self._calm else []
        return (
            [one for one in inside if not any(start <= one.received < end for start, end in times)] if times else inside
        )

    @functools.cached_property
    def requests(self) -> list[Sent]:
        """The operator's requests for objects: no Leases, Events or reviews, which `housekeeping` has."""
        return [one for one in self.own if is_for_objects(one)]

    @functools.cached_property
    def housekeeping(self) -> list[Sent]:
        """The operator's other requests: Leases, Events, reviews, and watches it opens."""
        return [one for one in self.own if not is_for_objects(one)]

    @functools.cached_property
    def own(self) -> list[Sent]:
        """All of the operator's requests, in order."""
        return [one for one in self.all_requests if self.operator and one.user == self.operator]

    @functools.cached_property
    def _own_received(self) -> Received:
        return Received(self.own)

    @functools.cached_property
    def _all_received(self) -> Received:
        return Received(self.all_requests)

    @functools.cached_property
    def _for_objects_received(self) -> Received:
        return Received(self.requests)

    @functools.cached_property
    def changes(self) -> Received:
        """The successful writes of anyone."""
        return Received([one for one in self.all_requests if one.changes])

    @functools.cached_property
    def _by_harness(self) -> Received:
        return Received([one for one in self.all_requests if one.changes and one.user == self.harness])

    def by_harness(self, start: int, end: int) -> Sequence[Sent]:
        """Return the harness's successful writes in a time."""
        return self._by_harness.between(start, end)

    def within(self, time: Span | Window | Touch) -> Sequence[Sent]:
        """Return the operator's requests in a time, of all categories, in order."""
        return self._own_received.between(time.start, time.end)

    def requests_in(self, start: int, end: int) -> Sequence[Sent]:
        """Return the operator's requests for objects in a time, in order; see `requests`."""
        return self._for_objects_received.between(start, end)

    def own_rate(self, start: int, end: int) -> float:
        """Return how many requests a second the operator sent in a time, of all categories."""
        return self._own_received.count(start, end) * 1e9 / max(1, end - start)

    def is_at_work(self, start: int, end: int) -> bool:
        """Return whether the operator sent so much in a time as one that works through a queue."""
        return self.own_rate(start, end) > _AT_WORK

    def own_of(self, whats: Collection[str]) -> list[Sent]:
        """Return the operator's requests of some kinds: ``get pods``."""
        return [one for one in self.own if one.what in whats]

    @functools.cached_property
    def watched_by_operator(self) -> frozenset[str]:
        """The resources that the operator itself watches."""
        return frozenset(one.qualified for one in self._watch_lines if one.code < 400)

    @functools.cached_property
    def _watch_lines(self) -> list[Request]:
        return [one for one in self.contents.requests if one.verb == "watch" and one.user == self.operator]

    def open_watches(self, at: int) -> Counter[str]:
        """Return resource → how many watches of the operator were open at a moment."""
        return open_watches(self._watch_lines, self.operator, at)

    def alike_watches(self, at: int) -> Counter[tuple[str, str, str, bool]]:
        """Return (resource, namespace, name, whether it has no selector) → the operator's open watches at a moment."""
        found: Counter[tuple[str, str, str, bool]] = Counter()
        for one in self._watch_lines:
            if one.code < HTTPStatus.BAD_REQUEST and one.at <= at:
                key = one.qualified, one.namespace, one.name, one.unselected
                found[key] += 1 if one.stage == "ResponseStarted" else -1
        return found

    @functools.cached_property
    def late_watches(self) -> frozenset[str]:
        """The resources of which the operator opened its first watch after the first phase had begun."""
        before = self.open_watches(self.begin)
        opened = (one for one in self.housekeeping if one.verb == "watch" and one.received > self.begin)
        return frozenset(one.resource for one in opened if not before[one.resource])

    @functools.cached_property
    def lost_watches(self) -> Mapping[str, int]:
        """Resource → when the operator's last watch of it ended, of those that were open when the first phase began."""
        kept, open_ = self.open_watches(self.begin), self.open_watches(self.end)
        ended = {one.qualified: one.at for one in self._watch_lines if one.stage != "ResponseStarted"}
        return {resource: ended[resource] for resource in kept if kept[resource] > 0 >= open_[resource]}

    @functools.cached_property
    def made(self) -> Mapping[str, frozenset[ObjectId]]:
        """Resource → objects that the operator made while it was under test, of those that the log names."""
        found: dict[str, set[ObjectId]] = defaultdict(set)
        for one in self.requests:
            if one.created and not one.subresource and one.name:
                found[one.resource].add(one.object)
        return {resource: frozenset(names) for resource, names in found.items()}

    @functools.cached_property
    def made_unnamed(self) -> frozenset[str]:
        """Resources of which only the operator made objects, with generated names, which the log does not have."""
        makers: dict[str, set[str]] = defaultdict(set)
        for one in self.all_requests:
            if one.verb == "create" and one.created and not one.subresource and not one.name:
                makers[one.resource].add(one.user)
        return frozenset(resource for resource, users in makers.items() if users == {self.operator})

    @functools.cached_property
    def with_status(self) -> frozenset[str]:
        """The resources with a subresource for their status, as far as anyone asked for it."""
        return frozenset(one.resource for one in self.all_requests if one.subresource == "status")

    @functools.cached_property
    def status_written(self) -> frozenset[str]:
        """The resources whose status the operator writes, more often than any other writer.

        By itself; or with the whole object, of kinds whose status no one writes by itself: where it is a part of its
        own, an update of the whole leaves it as it is.
        """
        writers: dict[str, Counter[str]] = defaultdict(Counter)
        for one in self.all_requests:
            whole = one.verb == "update" and not one.subresource and one.resource not in self.with_status
            if one.changes and one.user != self.harness and (one.subresource == "status" or whole):
                writers[one.resource][one.user] += 1
        return frozenset(resource for resource, users in writers.items() if users[self.operator] == max(users.values()))

    @functools.cached_property
    def writes_by_object(self) -> Mapping[tuple[str, ObjectId], Sequence[Sent]]:
        """(resource, object) → the successful writes of anyone that name it, in order."""
        found: dict[tuple[str, ObjectId], list[Sent]] = defaultdict(list)
        for one in self.all_requests:
            if one.changes and one.name:
                found[one.resource, one.object].append(one)
        return found

    @functools.cached_property
    def creations(self) -> Counter[tuple[str, ObjectId]]:
        """(resource, object) → how often the operator made it, of those that the log names."""
        created = (one for one in self.requests if one.created and not one.subresource and one.name)
        return Counter((one.resource, one.object) for one in created)

    def role(self, user: str) -> str:
        """Return the role of a user name, as ``kube-scheduler``; itself without one."""
        return next((role for role, name in self.test.identities.items() if name == user), user)

    @functools.cached_property
    def workload_acts(self) -> list[int]:
        """When the harness began to change the workload, in order."""
        return sorted(mark.at for mark in self.contents.marks if mark.label in WORKLOAD and mark.state != "end")

    @functools.cached_property
    def workload_changes(self) -> list[int]:
        """When the harness began to change the workload, in order, and when phases began."""
        return sorted([*self.workload_acts, *(span.start for span in self.spans)])

    @functools.cached_property
    def workload_applied(self) -> int | None:
        """When the harness first began to apply its workload; None: never."""
        return next((mark.at for mark in self.contents.marks if mark.label == "apply" and mark.state != "end"), None)

    @functools.cached_property
    def workload_deleted(self) -> int | None:
        """When the harness first asked for a deletion of its workload; None: never."""
        marks = (mark.at for mark in self.contents.marks if mark.label == "delete" and mark.state != "end")
        return next(marks, None)

    def contended(self, span: Span) -> bool:
        """Return whether other programs took so much of the machine in a phase that its times mean little."""
        return contention.contended(span.phase.contention, limit=self.test.contention_limit)

    def slowed(self, span: Span) -> bool:
        """Return whether other programs can be why things took long in a phase.

        Not where the kernel says that operator and API server got their cores all the same: what waited then did not
        wait for the machine.
        """
        kept = [self.kept_from_cores(span, process) for process in (OPERATOR, API_SERVER)]
        return self.contended(span) and (None in kept or sum(filter(None, kept)) > _SLOWED)

    def kept_from_cores(self, span: Span, process: str) -> float | None:
        """Return how many threads of a process were runnable without a core in a phase, on average; None: unknown."""
        row = span.cpu(process)
        return None if row is None or row.waiting_s is None else row.waiting_s / span.phase.seconds

    def held_up_each(self, span: Span) -> float:
        """Return the seconds for which threads of operator and API server waited for a core in a phase, for each
        request of anyone; 0 where that was not measured.

        So much later than it could be is a request on average because others have the cores.
        """
        waits = [self.kept_from_cores(span, process) or 0.0 for process in (OPERATOR, API_SERVER)]
        return sum(waits) * span.phase.seconds / max(1, self._all_received.count(span.start, span.end))

    def working(self, start: int, end: int) -> float:
        """Return how many cores the operator used, or waited for, in a time, by the nearest reads; 1: unknown."""
        reads = self.contents.reads.get(OPERATOR, [])
        inside = [read for read in reads if start <= read.at <= end]
        if len(inside) < 2 or inside[-1].at - inside[0].at < (end - start) / 2:
            before = [read for read in reads if read.at <= start][-1:]
            inside = [*before, *inside, *[read for read in reads if read.at >= end][:1]]
        if len(inside) < 2 or inside[0].pid != inside[-1].pid or inside[0].at == inside[-1].at:
            return 1.0
        first, last = inside[0], inside[-1]
        used = last.cpu_ns - first.cpu_ns + (last.waiting_ns or 0) - (first.waiting_ns or 0)
        return used / (last.at - first.at)

    def under_way(self, span: Span | Window) -> float:
        """Return how many of the operator's requests were under way in a time, on average; watches left out."""
        times = (one.completed - one.received for one in self.within(span) if one.verb != "watch")
        return sum(times) / max(1, span.end - span.start)


def is_for_objects(one: Sent) -> bool:
    """Return whether a request is for objects, and no watch: the others are `ObservedRequests.housekeeping`."""
    return one.category == "object" and one.verb != "watch"
