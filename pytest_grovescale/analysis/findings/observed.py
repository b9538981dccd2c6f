"""What rules read: a recording's requests, objects and scrapes, cut to the time in which the operator was under test.

That is from the first phase to the harness's clean-up. Where a part of it is not known for certain (a gap in the audit
log, a control plane that broke), rules that need it see nothing of it: no finding rests on it.
"""

from __future__ import annotations

import bisect
import functools
import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from http import HTTPStatus

from ...exposition.families import parse
from ...recording.records import SETTLED, TOUCH, ObjectSeen
from .. import contention
from ..api_faults import ApiFaults
from ..api_requests import HARNESS, counted, open_watches
from ..cpu import API_SERVER
from ..metrics.history import TargetHistory
from ..reconcile_counters import counters_of
from ..reconciles import objects_of
from ..recording_index import Contents, WatchStory
from ..result import OPERATOR, WHOLE_PHASE, TestResult
from ..run_metrics import WINDOW
from .evidence import Life, ObjectId, Received, Sent, Span, Touch, Window, requests_read

CLEAN_UP = "clean-up"
"""Label of the harness's mark around the removal of a test's namespace."""

_WORKLOAD = frozenset({"apply", "scale", "patch", "trigger", "delete"})
"""Labels of the harness's marks that change the workload."""

QUIET_NS = 1_000_000_000
"""Time after the last change by anyone else within which the operator's work may still follow from it, ns."""

LEAST_IDLE_S = 2.0
"""Length from which on an idle window shows something, s."""

AGAIN = 3
"""Times that an object was made, or looked at while nothing changed, from which on that goes on."""

LEAST_STALL_S = 5.0
"""Length from which on a phase without progress has stalled, s."""

_SLOWED = 0.5
"""Threads of operator and API server that were runnable without a core, on average, from which on that slowed them."""


class Observed:
    """One test, as rules read it. Everything is computed at first use, once."""

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

    def calm(self) -> Observed:
        """Return the same without the phases in which faults were in force, and what was requested then."""
        return Observed(self.contents, self.test, self.faults, calm=True) if self.faults.windows else self

    @functools.cached_property
    def spans(self) -> list[Span]:
        """The phases that ended, in order, without those in which the control plane broke."""
        found = [
            Span(result, span, self.contents.end_of(span))
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
        counts = [one for one in self.contents.requests if counted(one)]
        found = requests_read(counts, clock.offset if clock.steps else lambda _: 0)
        begin, end = self.begin, self.end
        inside = [one for one in found if begin <= one.received < end]
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
    def changes(self) -> Received:
        """The successful writes of anyone."""
        return Received([one for one in self.all_requests if one.changes])

    @functools.cached_property
    def _by_harness(self) -> Received:
        return Received([one for one in self.all_requests if one.changes and one.user == self.harness])

    def by_harness(self, start: int, end: int) -> list[Sent]:
        """Return the harness's successful writes in a time."""
        return self._by_harness.between(start, end)

    def within(self, time: Span | Window | Touch) -> list[Sent]:
        """Return the operator's requests in a time, of all categories, in order."""
        return self._own_received.between(time.start, time.end)

    def requests_in(self, start: int, end: int) -> list[Sent]:
        """Return the operator's requests for objects in a time, in order; see `requests`."""
        return [one for one in self._own_received.between(start, end) if is_for_objects(one)]

    @functools.cached_property
    def watched_by_operator(self) -> frozenset[str]:
        """The resources that the operator itself watches."""
        return frozenset(
            one.qualified
            for one in self.contents.requests
            if one.verb == "watch" and one.user == self.operator and one.code < 400
        )

    def open_watches(self, at: int) -> Counter[str]:
        """Return resource → how many watches of the operator were open at a moment."""
        return open_watches(self.contents.requests, self.operator, at)

    @functools.cached_property
    def lives(self) -> dict[str, list[Life]]:
        """Resource → the objects that were in a watched collection, by each watch's first event of them."""
        found: dict[str, list[Life]] = defaultdict(list)
        for story in self.stories:
            for events in story.objects.values():
                by_uid: dict[str, list[ObjectSeen]] = {}
                for event in events:
                    by_uid.setdefault(event.uid, []).append(event)
                for uid, own in by_uid.items():
                    first = own[0]
                    resource = story.opened.spec.resource
                    whole = not first.initial and not story.gaps
                    found[resource].append(Life(resource, first.namespace, first.name, uid, own, whole))
        return found

    @functools.cached_property
    def compared(self) -> frozenset[str]:
        """The resources whose watch compares each event with the one before."""
        return frozenset(
            resource
            for resource, lives in self.lives.items()
            if any(event.difference is not None for life in lives for event in life.events)
        )

    @functools.cached_property
    def came(self) -> list[int]:
        """When objects of any watched kind were first seen, in order."""
        return sorted(life.begun for lives in self.lives.values() for life in lives)

    @functools.cached_property
    def went(self) -> list[int]:
        """When objects of any watched kind were seen to be gone, in order."""
        return sorted(gone for lives in self.lives.values() for life in lives if (gone := life.gone_at()) is not None)

    def existing(self, start: int, end: int) -> int:
        """Return how many objects of all watched kinds existed in a time."""
        return bisect.bisect_right(self.came, end) - bisect.bisect_left(self.went, start)

    @functools.cached_property
    def known(self) -> Mapping[str, Life]:
        """UID → object, of all that watches showed."""
        return {life.uid: life for lives in self.lives.values() for life in lives}

    @functools.cached_property
    def children(self) -> Mapping[str, Sequence[Life]]:
        """UID → the objects that it owns."""
        found: dict[str, list[Life]] = defaultdict(list)
        for life in self.known.values():
            if life.owner:
                found[life.owner].append(life)
        return found

    def family(self, life: Life) -> list[Life]:
        """Return an object with its owners, their owners, and all that it owns, directly or not."""
        found = [life]
        while found[-1].owner and (owner := self.known.get(found[-1].owner)) is not None:
            found.append(owner)
        return [*found, *self.below(life)]

    def below(self, life: Life) -> Iterator[Life]:
        """Yield all that an object owns, directly or not, nearest first."""
        generation: Sequence[Life] = [life]
        while generation:
            generation = [child for one in generation for child in self.children.get(one.uid, ())]
            yield from generation

    @functools.cached_property
    def touches(self) -> list[Touch]:
        """The objects that the harness touched, in order; see ``Scale.touch_each_kind``."""
        found = []
        marks = [mark for mark in self.contents.marks if mark.label == TOUCH]
        for begin, end in itertools.pairwise(marks):
            if begin.state != "begin" or end.state != "end":
                continue
            resource, _, where = begin.detail.partition(" ")
            namespace, _, name = where.partition("/")
            touched = (life for life in self.lives.get(resource, ()) if life.object == (namespace, name))
            life = next((life for life in touched if life.exists(begin.at)), None)
            if life is not None and any(one.object == (namespace, name) for one in self.by_harness(begin.at, end.at)):
                found.append(Touch(life, begin.at, end.at))
        return found

    @functools.cached_property
    def stories(self) -> list[WatchStory]:
        """One watch for each collection that is watched as a whole: of several, the one with the most events."""
        whole: dict[str, WatchStory] = {}
        for story in self.contents.watches.values():
            spec = story.opened.spec
            if not spec.label_selector and not spec.field_selector:
                other = whole.get(spec.path)
                whole[spec.path] = story if other is None or story.events > other.events else other
        return list(whole.values())

    @functools.cached_property
    def made(self) -> Mapping[str, frozenset[ObjectId]]:
        """Resource → objects that the operator made while it was under test, of those that the log names."""
        found: dict[str, set[ObjectId]] = defaultdict(set)
        for one in self.requests:
            if one.code == HTTPStatus.CREATED and not one.subresource and one.name:
                found[one.resource].add(one.object)
        return {resource: frozenset(names) for resource, names in found.items()}

    def made_by_operator(self, life: Life) -> bool:
        """Return whether the operator made an object while it was under test, as far as log and watch show."""
        if life.object in self.made.get(life.resource, ()):
            return True
        return life.complete and life.resource in self.made_unnamed and life.begun >= self.begin

    @functools.cached_property
    def with_status(self) -> frozenset[str]:
        """The resources with a subresource for their status, as far as anyone asked for it."""
        return frozenset(one.resource for one in self.all_requests if one.subresource == "status")

    @functools.cached_property
    def writes_by_object(self) -> Mapping[tuple[str, ObjectId], Sequence[Sent]]:
        """(resource, object) → the successful writes of anyone that name it, in order."""
        found: dict[tuple[str, ObjectId], list[Sent]] = defaultdict(list)
        for one in self.all_requests:
            if one.changes and one.name:
                found[one.resource, one.object].append(one)
        return found

    @functools.cached_property
    def _updates(self) -> tuple[Counter[tuple[str, ObjectId]], Counter[tuple[str, ObjectId]]]:
        """Object → how often anyone changed it, its create and its deletion left out, and how often the operator."""
        found = [
            one
            for one in self.all_requests
            if one.changes and one.name and one.verb in ("update", "patch") and one.code != HTTPStatus.CREATED
        ]
        own = Counter((one.resource, one.object) for one in found if one.user == self.operator)
        return Counter((one.resource, one.object) for one in found), own

    def updates(self, life: Life) -> int:
        """Return how often anyone changed an object, its create and its deletion left out."""
        return self._updates[0][life.resource, life.object]

    def own_updates(self, life: Life) -> int:
        """Return how often the operator changed an object, its create and its deletion left out."""
        return self._updates[1][life.resource, life.object]

    def role(self, user: str) -> str:
        """Return the role of a user name, as ``kube-scheduler``; itself without one."""
        return next((role for role, name in self.test.identities.items() if name == user), user)

    @functools.cached_property
    def workload_changes(self) -> list[int]:
        """When the harness began to change the workload, in order, and when phases began."""
        marks = [mark.at for mark in self.contents.marks if mark.label in _WORKLOAD and mark.state != "end"]
        return sorted([*marks, *(span.start for span in self.spans)])

    @functools.cached_property
    def workload_applied(self) -> int | None:
        """When the harness first began to apply its workload; None: never."""
        return next((mark.at for mark in self.contents.marks if mark.label == "apply" and mark.state != "end"), None)

    @functools.cached_property
    def workload_deleted(self) -> int | None:
        """When the harness first asked for a deletion of its workload; None: never."""
        marks = (mark.at for mark in self.contents.marks if mark.label == "delete" and mark.state != "end")
        return next(marks, None)

    @functools.cached_property
    def made_unnamed(self) -> frozenset[str]:
        """Resources of which only the operator made objects, with generated names, which the log does not have."""
        makers: dict[str, set[str]] = defaultdict(set)
        for one in self.all_requests:
            if one.verb == "create" and one.code == HTTPStatus.CREATED and not one.subresource and not one.name:
                makers[one.resource].add(one.user)
        return frozenset(resource for resource, users in makers.items() if users == {self.operator})

    @functools.cached_property
    def workload_gone(self) -> bool:
        """Whether the harness deleted its workload at last, in a phase that passed, and none of it is left."""
        acts = [mark for mark in self.contents.marks if mark.label in _WORKLOAD and mark.state == "end"]
        last = self.test.phases[-1] if self.test.phases else None
        asked = bool(acts) and acts[-1].label == "delete" and last is not None and last.outcome == "passed"
        workload = {
            (one.resource, one.object)
            for one in self.all_requests
            if one.user == self.harness and one.code == HTTPStatus.CREATED
        }
        return asked and not any(
            (resource, life.object) in workload and life.exists(self.end)
            for resource, lives in self.lives.items()
            for life in lives
        )

    @functools.cached_property
    def settled(self) -> bool:
        """Whether the operator had time to react after the workload was gone."""
        return self.workload_gone and any(mark.label == SETTLED for mark in self.contents.marks)

    @functools.cached_property
    def target(self) -> TargetHistory | None:
        """The operator's scrapes; None where it was not scraped."""
        target = self.contents.metrics.targets.get(OPERATOR)
        return target if target is not None and target.moments else None

    @functools.cached_property
    def _edges(self) -> list[str]:
        """The edge of each of the operator's scrapes."""
        return [moment.edge for moment in self.target.moments] if self.target is not None else []

    def scrape_at(self, edge: str) -> int | None:
        """Return the first scrape at an edge: `SETTLED`, ``start:deploy``; None without one."""
        return self._edges.index(edge) if edge in self._edges else None

    @property
    def settled_scrape(self) -> int | None:
        """The scrape after the workload was gone."""
        return self.scrape_at(SETTLED)

    @functools.cached_property
    def first_scrape(self) -> int | None:
        """The scrape before the first phase."""
        return next((scrape for scrape, edge in enumerate(self._edges) if edge.startswith("start:")), None)

    @functools.cached_property
    def rests(self) -> list[int]:
        """Scrapes at edges where all work was done: before the first phase, after phases that passed, at the end.

        Not those that an object's change came shortly before: an operator that is about to take it in is not wrong.
        """
        if self.target is None:
            return []
        ends = {SETTLED, *(f"end:{span.phase.name}" for span in self.spans if span.phase.outcome == "passed")}
        at_rest = [scrape for scrape, edge in enumerate(self._edges) if edge in ends or scrape == self.first_scrape]
        return [scrape for scrape in at_rest if self.still(self.target.moments[scrape].at, QUIET_NS / 1e9)]

    def still(self, at: int, seconds: float) -> bool:
        """Return whether no watched object changed in the seconds before a moment."""
        before = bisect.bisect_right(self._changes, at)
        return before == 0 or at - self._changes[before - 1] >= seconds * 1e9

    @functools.cached_property
    def _changes(self) -> list[int]:
        """When any watched object changed, in order."""
        lives = (life for lives in self.lives.values() for life in lives)
        return sorted(event.at for life in lives for event in life.events if not event.initial)

    @functools.cached_property
    def reconcile_counters(self) -> dict[str, str]:
        """The operator's series that count reconciles → controller; empty without any."""
        return counters_of(self.target.series, self.contents.opened.reconciles) if self.target is not None else {}

    def reconciles_between(self, first: int, last: int, counted: Callable[[str], bool]) -> Counter[str]:
        """Return controller → reconciles between two scrapes; ``counted``: whether those with a result are."""
        found: Counter[str] = Counter()
        if self.target is not None:
            for series, controller in self.reconcile_counters.items():
                if counted(parse(series).labels.get("result", "")):
                    grown = (self.target.value(series, last) or 0.0) - (self.target.value(series, first) or 0.0)
                    found[controller] += max(0, round(grown))
        return found

    @functools.cached_property
    def reconciled(self) -> int:
        """Number of reconciles from the first scrape to the last, by the operator's own count; 0 without one."""
        if self.target is None or self.first_scrape is None:
            return 0
        own = self.reconcile_counters
        first, last = self.first_scrape, len(self.target.moments) - 1
        grown = ((self.target.value(one, last) or 0) - (self.target.value(one, first) or 0) for one in own)
        return max(0, round(sum(grown)))

    @functools.cached_property
    def objects(self) -> int:
        """Number of objects that figures are related to: the largest count of a milestone, or of one resource."""
        return max(self.test.objects or 0, *(len(lives) for lives in self.lives.values()), 1)

    @functools.cached_property
    def _changes_by_others(self) -> list[int]:
        """When anyone but the operator changed something that can give it work, in order.

        A deletion of what the operator makes again and again is its own doing: the garbage collector's, for an owner
        that does not exist.
        """
        return sorted(
            [
                one.completed
                for one in self.all_requests
                if one.changes
                and one.user != self.operator
                and _matters(one)
                and not (one.verb == "delete" and self.creations[one.resource, one.object] >= AGAIN)
            ]
            + [mark.at for mark in self.contents.marks if mark.label in _WORKLOAD]
        )

    @functools.cached_property
    def creations(self) -> Counter[tuple[str, ObjectId]]:
        """(resource, object) → how often the operator made it, of those that the log names."""
        created = (one for one in self.requests if one.code == HTTPStatus.CREATED and not one.subresource and one.name)
        return Counter((one.resource, one.object) for one in created)

    @functools.cached_property
    def quiet_times(self) -> list[tuple[int, int]]:
        """Times without a change by anyone else, nor in the second before, in order; also those between phases.

        Not before the last milestone of a phase, and to the first deletion of the workload: what goes on after that is
        another matter.
        """
        if not self.log_whole:
            return []
        end = self.workload_deleted or self.end
        moments = [at for at in self._changes_by_others if self.begin <= at < end]
        moments += [at for touch in self.touches for at in (touch.start, touch.end) if at < end]
        busy = [(span.start, self._reached(span)) for span in self.spans if span.phase.milestones]
        edges = sorted([self.begin, *moments, *(at for pair in busy for at in pair if at < end), end])
        pairs = ((before + QUIET_NS, after) for before, after in itertools.pairwise(edges))
        inside = [pair for pair in pairs if pair[0] < pair[1]]
        return [pair for pair in inside if not any(start <= pair[0] < until for start, until in busy)]

    @staticmethod
    def _reached(span: Span) -> int:
        """Return when the last milestone of a phase was reached; its end, where one was not."""
        met = [one.observed_s for one in span.phase.milestones if one.met and one.observed_s is not None]
        return span.start + round(max(met) * 1e9) if len(met) == len(span.phase.milestones) else span.end

    @functools.cached_property
    def repeated_at_quiet(self) -> frozenset[tuple[str, ObjectId]]:
        """What the operator asked or wrote at quiet times, with its object: polls, retries, loops."""
        quiet = (one for start, end in self.quiet_times for one in self.requests_in(start, end))
        return frozenset((one.what, one.object) for one in quiet if one.name)

    @functools.cached_property
    def quiet_reconciles(self) -> tuple[Counter[str], float]:
        """Controller → reconciles in quiet times, and the seconds of these times that scrapes show.

        The harness waits for an idle operator between phases, and scrapes it meanwhile: work that never ends is seen
        there first.
        """
        found: Counter[str] = Counter()
        seconds = 0.0
        if (target := self.target) is None:
            return found, seconds
        for start, end in self.quiet_times:
            inside = [scrape for scrape, one in enumerate(target.moments) if start <= one.at <= end]
            if len(inside) < 2:
                continue
            seconds += (target.moments[inside[-1]].at - target.moments[inside[0]].at) / 1e9
            for series, controller in self.reconcile_counters.items():
                first, last = target.value(series, inside[0]), target.value(series, inside[-1])
                # A series that is born in between may have missed scrapes only.
                if first is not None and last is not None:
                    found[controller] += max(0, round(last - first))
        return found, seconds

    @functools.cached_property
    def go_on(self) -> Mapping[str, float]:
        """Controller → its reconciles a second in quiet times, of those that do not come to rest there."""
        counts, seconds = self.quiet_reconciles
        if seconds < LEAST_IDLE_S:
            return {}
        passes = {one: objects_of(self.contents, one, self.begin, self.end) or self.objects for one in counts}
        return {one: number / seconds for one, number in counts.items() if number >= AGAIN * max(1, passes[one])}

    @functools.cached_property
    def stalls(self) -> list[Window]:
        """The longest time of each phase with a milestone that was not reached in which nothing was made or deleted and
        only the operator changed anything; of at least `LEAST_STALL_S`.
        """
        if not self.log_whole:
            return []
        found = []
        own = (one for one in self.requests if one.changes and (one.verb == "delete" or one.code == HTTPStatus.CREATED))
        steps = sorted([*self._changes_by_others, *(one.completed for one in own)])
        for span in self.spans:
            if span.phase.outcome == "passed" or all(one.met for one in span.phase.milestones):
                continue
            moments = [span.start, *(at for at in steps if span.start <= at < span.end), span.end]
            start, end = max(itertools.pairwise(moments), key=lambda pair: pair[1] - pair[0])
            window = Window(span.phase.name, start + QUIET_NS, end)
            if window.seconds >= LEAST_STALL_S:
                found.append(window)
        return found

    @functools.cached_property
    def idle_windows(self) -> list[Window]:
        """Times of at least `LEAST_IDLE_S` in which nothing changed but by the operator, the longest first."""
        if not self.log_whole:
            return []
        others = self._changes_by_others
        windows = []
        for span in self.spans:
            if WINDOW.fullmatch(span.phase.name) or not all(one.met for one in span.phase.milestones):
                continue
            # Before the last milestone there is work to do, if others write or not; the first second may hold what the
            # phase before has left to be done.
            met = [milestone.observed_s or 0.0 for milestone in span.phase.milestones]
            begin = span.start + (round(max(met) * 1e9) if met else 0)
            moments = [at for at in others if begin <= at < span.end]
            starts = [begin, *(at + QUIET_NS for at in moments)]
            ends = [*moments, span.end]
            # A change is a moment of another phase, too: of the deployment that this phase follows.
            before = bisect.bisect_left(others, begin)
            quiet = not met and before > 0 and others[before - 1] + QUIET_NS <= begin
            rested = quiet or span.phase.name.endswith("(idle)")
            starts[0] += 0 if rested else QUIET_NS
            windows += [
                Window(span.phase.name, *pair, rested=rested and not number)
                for number, pair in enumerate(zip(starts, ends, strict=True))
            ]
        long = [window for window in windows if window.seconds >= LEAST_IDLE_S]
        return sorted(long, key=lambda window: window.start - window.end)

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

    def under_way(self, span: Span | Window) -> float:
        """Return how many of the operator's requests were under way in a time, on average; watches left out."""
        times = (one.completed - one.received for one in self.within(span) if one.verb != "watch")
        return sum(times) / max(1, span.end - span.start)


def is_for_objects(one: Sent) -> bool:
    """Return whether a request is for objects, and no watch: the others are `Observed.housekeeping`."""
    return one.category == "object" and one.verb != "watch"


def _matters(one: Sent) -> bool:
    """Return whether a change by someone else can give the operator work: heartbeats of nodes and leaders do not."""
    return one.category == "object" and one.resource not in ("nodes", "namespaces", "serviceaccounts")
