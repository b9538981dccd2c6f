"""What rules read: a recording's requests, objects and scrapes, and the times in which nothing changed."""

from __future__ import annotations

import bisect
import functools
import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus

from ...exposition.families import parse
from ...recording.records import RESTART, SETTLED, WRITES
from ..api_requests import triggers_of
from ..metrics.history import TargetHistory
from ..reconcile_counters import Counted, counted_by, failures_of
from ..reconciles import is_of, singulars
from ..result import OPERATOR
from ..run_metrics import WINDOW
from .evidence import Life, ObjectId, Sent, Span, Window
from .observed_limits import ObservedLimits
from .observed_requests import WORKLOAD, is_for_objects

QUIET_NS = 1_000_000_000
"""Time after the last change by anyone else within which the operator's work may still follow from it, ns."""

_PASS_ENDS_NS = 2_000_000_000
"""Time without a request after which the pass of a new process over all objects has ended, ns."""

_RECONCILE_TIME = re.compile(r"(?:reconcil\w*|(?:^|_)sync)(?:_(?:duration|time|latency))?_seconds$")

_EDGE_NS = 500_000_000
"""Time within which a phase's end is scraped, ns."""

_PILES = 5
"""Objects that are made while nothing is to be done from which on that is no late one."""

_SHORT_NAME = 3
"""Letters of a controller's name from which on the end of one kind's name alone means that kind."""

LEAST_IDLE_S = 2.0
"""Length from which on an idle window shows something, s."""

AGAIN = 3
"""Times that an object was made, or looked at while nothing changed, from which on that goes on."""

_STARTS_NS = 10_000_000_000
"""Time after a restart that a test asked for in which an operator looks at all of its objects, ns."""
_LEAST_WAIT_NS = 5_000_000_000
"""Time from which on the operator waits for a Lease of its own, ns."""

_QUEUES = ("workqueue_depth", "operator_sdk_reconciliations_queue_size")
"""Names of gauges, or their beginnings, of how many keys wait: client-go's, and the Java Operator SDK's, which end in
the name of a controller."""
_NEWS = 0.8
"""Share of writes that changed their objects, from which on they are news."""
_ONE_BY_ONE = 5
"""Requests from which on they show that an operator comes to one object after the other."""

_LEAST_KNOWN_S = 1.0
"""Length of quiet times from which on they show what the operator does anyway, s."""

RESTARTED = frozenset({"container-restart", "process-restart"})
"""Kinds of incidents that are restarts."""

SEEN_GONE_NS = 1_000_000_000
"""Time after a process ended until it is noticed, on a busy machine, ns."""

LEAST_STALL_S = 5.0
"""Length from which on a phase without progress has stalled, s."""


class Observed(ObservedLimits):
    """One test, as rules read it."""

    @functools.cached_property
    def calm(self) -> Observed:
        """The same without the phases in which faults were in force, and what was requested then."""
        return Observed(self.contents, self.test, self.faults, calm=True) if self.faults.windows else self

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

    def scrapes_of(self, span: Span) -> tuple[int, int] | None:
        """Return the scrapes at a phase's start and at its end; None without one of them."""
        start, end = (self.scrape_at(f"{edge}:{span.phase.name}") for edge in ("start", "end"))
        return None if start is None or end is None else (start, end)

    def reconcile_times(self, span: Span) -> Mapping[str, Mapping[str, tuple[float, float]]]:
        """Return family → controller → (seconds, number) of a phase's reconciles, by histograms of the operator's own.

        Of a family without a label with the controller's name that name is empty.
        """
        target, edges = self.target, self.scrapes_of(span)
        if target is None or edges is None:
            return {}
        controllers = {row.controller for row in span.phase.reconciles}
        grown: dict[str, dict[str, tuple[float, float]]] = defaultdict(dict)
        for series in target.series:
            parts = parse(series)
            family, _, part = parts.name.rpartition("_")
            if part in ("sum", "count") and _RECONCILE_TIME.search(family):
                controller = next((value for value in parts.labels.values() if value in controllers), "")
                seconds, number = grown[family].get(controller, (0.0, 0.0))
                more = target.grown(series, *edges)
                grown[family][controller] = (seconds + more, number) if part == "sum" else (seconds, number + more)
        return grown

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
        Nor is one that waits for its Lease.
        """
        if self.target is None:
            return []
        ends = {SETTLED, *(f"end:{span.phase.name}" for span in self.spans if span.phase.outcome == "passed")}
        at_rest = [scrape for scrape, edge in enumerate(self._edges) if edge in ends or scrape == self.first_scrape]
        still = [scrape for scrape in at_rest if self.still(self.target.moments[scrape].at, QUIET_NS / 1e9)]
        times = [(asked.received, taken.completed) for asked, taken in self.lease_waits]
        return [one for one in still if not any(start <= self.target.moments[one].at <= end for start, end in times)]

    @functools.cached_property
    def reconcile_counters(self) -> dict[str, str]:
        """The operator's series that count reconciles → controller; empty without any."""
        return {series: one.controller for series, one in self._counted.items()}

    @functools.cached_property
    def _counted(self) -> dict[str, Counted]:
        return counted_by(self.target.series, self.contents.opened.reconciles) if self.target is not None else {}

    @functools.cached_property
    def _failures(self) -> dict[str, str]:
        """The operator's series that count failed reconciles, where those of all reconciles do not say → controller."""
        return failures_of(self.target.series, self._counted) if self.target is not None else {}

    def reconciles_between(
        self, first: int, last: int, counted: Callable[[str], bool] = lambda _: True
    ) -> Counter[str]:
        """Return controller → reconciles between two scrapes; ``counted``: whether those with a result are."""
        series_of = {series: one.controller for series, one in self._counted.items() if counted(one.result)}
        if counted("error") and not counted(""):
            series_of |= self._failures
        found: Counter[str] = Counter()
        if self.target is not None:
            for series, controller in series_of.items():
                found[controller] += max(0, round(self.target.grown(series, first, last)))
        return found

    def begins_any(self, start: int, end: int) -> bool:
        """Return whether an object that is followed begins in a time."""
        return bisect.bisect_right(self.came, end) > bisect.bisect_right(self.came, start)

    @functools.cached_property
    def reconciled(self) -> int:
        """Number of reconciles from the first scrape to the last, by the operator's own count; 0 without one."""
        if self.target is None or self.first_scrape is None:
            return 0
        first, last = self.first_scrape, len(self.target.moments) - 1
        return max(0, round(sum(self.target.grown(series, first, last) for series in self.reconcile_counters)))

    @functools.cached_property
    def changes_by_others(self) -> list[int]:
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
                and matters(one)
                and not (one.verb == "delete" and self.creations[one.resource, one.object] >= AGAIN)
            ]
            + [mark.at for mark in self.contents.marks if mark.label in WORKLOAD]
            + self._passes_after_restarts
        )

    @functools.cached_property
    def _passes_after_restarts(self) -> list[int]:
        """The times of restarts that the test asked for, and of what the new process looks at before it first rests."""
        found: list[int] = []
        for mark in self.contents.marks:
            if mark.label == RESTART:
                last = mark.at
                found.append(last)
                for one in self.requests_in(mark.at, self.end):
                    if one.received - last >= _PASS_ENDS_NS:
                        break
                    last = max(last, one.completed)
                    found.append(last)
        return found

    @functools.cached_property
    def quiet_times(self) -> list[tuple[int, int]]:
        """Times without a change by anyone else, nor in the second before, in order; also those between phases.

        Not before the last milestone of a phase, and to the first deletion of the workload: what goes on after that is
        another matter.
        """
        if not self.log_whole:
            return []
        end = self.workload_deleted or self.end
        moments = [at for at in self.changes_by_others if self.begin <= at < end]
        moments += [at for touch in self.touches for at in (touch.start, touch.end) if at < end]
        busy = [(span.start, self.reached(span)) for span in self.spans if span.phase.milestones]
        edges = sorted([self.begin, *moments, *(at for pair in busy for at in pair if at < end), end])
        pairs = ((before + QUIET_NS, after) for before, after in itertools.pairwise(edges))
        inside = [pair for pair in pairs if pair[0] < pair[1]]
        return [pair for pair in inside if not any(start <= pair[0] < until for start, until in busy)]

    @functools.cached_property
    def repeated_at_quiet(self) -> frozenset[tuple[str, ObjectId]]:
        """What the operator asked or wrote at quiet times, with its object: polls, retries, loops."""
        quiet = (one for start, end in self.quiet_times for one in self.requests_in(start, end))
        return frozenset((one.what, one.object) for one in quiet if one.name)

    @functools.cached_property
    def _undisturbed(self) -> list[tuple[int, int]]:
        """The quiet times before the first trigger or touch: nothing in them can follow from one."""
        acts = [touch.start for touch in self.touches]
        acts += [at for span in self.spans for at, _ in triggers_of(self.contents, span.recorded)]
        first = min(acts, default=self.end)
        return [(start, min(end, first)) for start, end in self.quiet_times if start < first]

    def anyway(self, what: str, seconds: float) -> float:
        """Return how many requests of a kind the operator sends in so many seconds, whether anything changes or not.

        By the quiet time with most of them: what comes in bursts is in few of these.
        """
        known = ((start, end) for start, end in self._undisturbed if end - start >= _LEAST_KNOWN_S * 1e9)
        rates = (sum(one.what == what for one in self.requests_in(*time)) / (time[1] - time[0]) for time in known)
        return max(rates, default=0.0) * seconds * 1e9

    @functools.cached_property
    def restarts(self) -> list[tuple[int, int]]:
        """The times from each restart that the test asked for to when the operator was ready again."""
        marks = [mark for mark in self.contents.marks if mark.label == RESTART]
        return [
            (begin.at, done.at)
            for begin, done in itertools.pairwise(marks)
            if (begin.state, done.state) == ("begin", "end")
        ]

    def restart_of(self, at: int) -> int:
        """Return when the test restarted the operator, where a moment is of that start; 0 otherwise.

        A new process looks at all of its objects: what came long before is no reason for what it makes of them.
        """
        return next((begin for begin, done in self.restarts if begin <= at <= done + _STARTS_NS), 0)

    @functools.cached_property
    def lease_waits(self) -> list[tuple[Sent, Sent]]:
        """The first request for its own Lease after each restart that the test asked for, and the one that took it.

        Where it asked three times, for five seconds or more.
        """
        found = []
        for begin, _ in self.restarts:
            leases = [one for one in self.housekeeping if one.category == "lease" and one.received > begin]
            number, taken = next(((number, one) for number, one in enumerate(leases) if one.changes), (0, None))
            if taken is not None and number >= AGAIN and taken.completed - leases[0].received >= _LEAST_WAIT_NS:
                found.append((leases[0], taken))
        return found

    @functools.cached_property
    def absences(self) -> list[tuple[int, int]]:
        """The times from the end of each process of the operator to the first request of the next one."""
        found = self.restarts
        ends = [done for _, done in found]
        ends += [gone.at for gone in self.contents.gone.get(OPERATOR, [])]
        ends += [
            one.at
            for one in self.contents.incidents
            if one.kind in RESTARTED and one.subject.partition("/")[0] == OPERATOR
        ]
        return found + [
            (at, min((one.received for one in self.requests_in(at, self.end)), default=self.end)) for at in ends
        ]

    def was_absent(self, start: int, end: int) -> bool:
        """Return whether the operator was not there in a part of a time: what waits then does not wait for its work."""
        return any(begin < end and start < until for begin, until in self.absences)

    def cut_off(self, one: Sent) -> bool:
        """Return whether the operator ended while a request was under way.

        The API server logs that as answered 504: its answer went to no one.
        """
        return one.code == HTTPStatus.GATEWAY_TIMEOUT and self.was_absent(one.received, one.completed + SEEN_GONE_NS)

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

    def works_off(self, start: int, end: int) -> bool:
        """Return whether the operator came to no end of its work in a time.

        Keys waited in its queues at each scrape, just after its end, too: a phase in which nothing has to be counted is
        scraped at its edges alone. Or it changed one object after the other, up to the end.
        """
        target = self.target
        scrapes = enumerate(target.moments) if target is not None else ()
        inside = [scrape for scrape, moment in scrapes if start <= moment.at <= end + _EDGE_NS]
        if target is not None and inside:
            waiting = [sum(target.value(series, scrape) or 0 for series in self.queues) for scrape in inside]
            if min(waiting) >= 1:
                return True
        times = [one.received for one in self.requests_in(start, end) if is_for_objects(one)]
        longest = max((after - before for before, after in itertools.pairwise(times)), default=0)
        return len(times) >= _ONE_BY_ONE and end - times[-1] <= 2 * longest and self.catches_up(start, end)

    def catches_up(self, start: int, end: int) -> bool:
        """Return whether all its requests were news, one for each object: what is left of work, as under a limit."""
        sent = [one for one in self.requests_in(start, end) if is_for_objects(one)]
        if not sent or len({(one.resource, one.object) for one in sent}) < len(sent):
            return False
        lives = [
            next((life for life in self.of_name.get((one.resource, one.object), ()) if life.exists(one.received)), None)
            for one in sent
            if one.verb in WRITES
        ]
        changed = [life for life in lives if life is not None and life.changed_in(start, end)]
        return len(lives) == len(sent) and len(changed) >= _NEWS * len(sent)

    @functools.cached_property
    def queues(self) -> list[str]:
        """The series of how many keys wait in the operator's queues."""
        return [one for one in self.target.series if parse(one).name.startswith(_QUEUES)] if self.target else []

    @functools.cached_property
    def go_on(self) -> Mapping[str, float]:
        """Controller → its reconciles a second in quiet times, of those that do not come to rest there."""
        counts, seconds = self.quiet_reconciles
        if seconds < LEAST_IDLE_S:
            return {}
        return {
            one: number / seconds for one, number in counts.items() if number >= AGAIN * self.objects_reconciled(one)
        }

    def reconciled_by(self, controller: str) -> list[str]:
        """Return the resources whose objects a controller reconciles, of those that were watched.

        By its name: the kind, or its end, as ``pool`` of RunnerPools where there is one such. A program with a counter
        of its own may not say what it reconciles: what it writes the status of, or else what it changes of the test's.
        """
        found = [resource for resource in self.lives if is_of(controller, resource)]
        if not found and len(controller) >= _SHORT_NAME:
            found = [one for one in self.lives if any(name.endswith(controller.lower()) for name in singulars(one))]
            found = found if len(found) == 1 else []
        return found or sorted(self.status_written & set(self.lives)) or sorted(self._changes_of_the_test)

    @functools.cached_property
    def _changes_of_the_test(self) -> set[str]:
        """The kinds of which the operator changes objects that the test made."""
        changed = {(one.resource, one.object) for one in self.own if one.changes and one.updates}
        return {resource for resource, _ in self.workload & changed if resource in self.lives}

    def objects_reconciled(self, controller: str) -> int:
        """Return how many objects a controller had to do with in the test: of its kinds, else of any."""
        return sum(len(self.lives[resource]) for resource in self.reconciled_by(controller)) or self.objects

    @functools.cached_property
    def stalls(self) -> list[Window]:
        """The longest time of each phase with a milestone that was not reached in which nothing was made or deleted and
        only the operator changed anything; of at least `LEAST_STALL_S`.
        """
        if not self.log_whole:
            return []
        found = []
        own = (one for one in self.requests if one.changes and (one.verb == "delete" or one.created))
        steps = sorted([*self.changes_by_others, *(one.completed for one in own)])
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
    def nothing_to_do(self) -> list[tuple[int, int]]:
        """The times after triggers and touches that change nothing, where all was still before, and idle windows."""
        times = [(touch.start, touch.end) for touch in self.touches]
        times += [(window.start, window.end) for window in self.idle_windows]
        for span in self.spans:
            triggers = triggers_of(self.contents, span.recorded)
            if triggers and self.still(triggers[0][0], QUIET_NS / 1e9):
                times.append((triggers[0][0], span.end))
        return times

    @functools.cached_property
    def piling_up(self) -> frozenset[str]:
        """The kinds of which the operator makes more while nothing is to be done: no number of them is right."""
        return frozenset(
            resource
            for resource, lives in self.lives.items()
            if sum(self._more(lives, start, end) for start, end in self.nothing_to_do) >= _PILES
        )

    def _more(self, lives: Sequence[Life], start: int, end: int) -> int:
        """Return how many more objects of the operator's there are at the end of a time than at its start."""
        made = sum(start <= life.begun < end and life.made_by_operator for life in lives)
        return made - sum(start <= (life.gone_at or 0) < end for life in lives) if made else 0

    @functools.cached_property
    def idle_windows(self) -> list[Window]:
        """Times of at least `LEAST_IDLE_S` in which nothing changed but by the operator, the longest first.

        Not those in which the test restarts it.
        """
        if not self.log_whole:
            return []
        others = sorted([*self.changes_by_others, *itertools.chain.from_iterable(self.restarts)])
        windows = []
        for span in self.spans:
            if WINDOW.fullmatch(span.phase.name) or not all(one.met for one in span.phase.milestones):
                continue
            if self.rate_limited(span):
                continue  # it works off what it was asked for before
            # Before the last milestone there is work to do, if others write or not; the first second may hold what the
            # phase before has left to be done.
            met = [milestone.observed_s or 0.0 for milestone in span.phase.milestones]
            begin = span.start + (round(max(met) * 1e9) if met else 0)
            moments = others[bisect.bisect_left(others, begin) : bisect.bisect_left(others, span.end)]
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
        long = [
            window
            for window in windows
            if window.seconds >= LEAST_IDLE_S and not any(begin < window.start < done for begin, done in self.restarts)
        ]
        return sorted(long, key=lambda window: window.start - window.end)


def matters(one: Sent) -> bool:
    """Return whether a change by someone else can give the operator work: heartbeats of nodes and leaders do not."""
    return one.category == "object" and one.resource not in ("nodes", "namespaces", "serviceaccounts")
