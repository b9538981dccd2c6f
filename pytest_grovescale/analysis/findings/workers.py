"""Workers that are blocked, or never done; and the operator's own rate limit.

A worker inside a reconcile waits for the API server, or for a core, or works. The audit log has the first (the time of
the operator's requests: how many are under way on average), its CPU clock the other two. Workers that are busy beyond
that wait for something of the operator's own: a lock, a sleep, a poll for a condition that should be an event. Each
keeps its key and its place. An operator without metrics of its workers shows one thing in the audit log: with a lock
around all of a reconcile, or a single worker, no two of its requests are ever under way at once. (Little's law: the
number under way on average is the sum of their times over the time.) And a sleep, or a call that blocks, in the only
worker or in the event loop shows as times in which nothing goes on although objects of the test wait for the operator's
first act, which come one after the other.

No false alarm: while the operator runs or waits for a core, all of its workers may wait for its one event loop, and
none counts. The surplus counts from three workers and four tenths of the busy ones on, in phases of a second and more,
and of fewer workers from seven tenths on, where keys waited for them; beside other programs without as many as the API
server had threads that waited for a core, and where these and the operator's were many, only where all of a
controller's are busy, beyond three times the average wait for a core for each request and reconcile; requests one at a
time are a note, in a phase that mostly waited for their answers, since a single worker may be meant. Nothing goes on
where objects wait, with no request under way, for half of the time and more, of
which the operator worked in less than half; objects have to be served in between, five times, since all that wait for
one thing are served at once, or a scrape has to be held up by half a second, as by no timer; and beside other programs
each of these times has to be far longer than what they explain (as of `pacing`). A client-side rate limit, which is
such a wait, is named as what it is, also where no metric shows it: a hundred requests of several workers at one
distance, mostly with none under way. A queue counts at rest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from heapq import heappop, heappush
from itertools import pairwise
from operator import attrgetter
from typing import NamedTuple

from ...exposition.families import parse
from ..cpu import API_SERVER
from ..phase_result import CpuResult, PhaseResult
from ..result import OPERATOR, Finding
from .evidence import Sent, Span, rate_limited
from .grouping import About, Aspect, Found, of_time
from .observed import Observed
from .owner_steps import as_waits_explain_s, explained
from .silences import nothing_went_on

ID = "workers"

_RATE_LIMITED = 0.2
_QUEUE = 5
_WAITING = 3.0
_WAITING_SHARE = 0.4
_ALL_BUT_ALL = 0.7
"""Share of few busy workers that wait from which on they do little else."""
_FULL, _SHARE_BESIDE, _LONG_BESIDE_S = 0.9, 0.35, 5.0
"""Beside other programs: share of a controller's workers that are busy, share of them that nothing explains, and for
how long all together, s, from which on they wait."""
_NOOPS = 5
_HELD_S = 0.05
"""Reconciles without anything to do, and seconds of each that nothing explains, from which on these are a wait."""
_HELD_AT_WORK_S, _SHARE_AT_WORK, _LONG_AT_WORK_S, _RECONCILES_AT_WORK = 0.08, 0.3, 4.0, 10
"""The same of reconciles with something to do: of each, s, of their time, of all together, s, and how many."""
_MOST_AT_ONCE = 100
"""Reconciles at once on average from which on a sum of seconds is not one of seconds."""
_LONG_ENOUGH_S = 1.0
_REQUESTS, _OBJECTS = 50, 10
_ANSWERS = 0.5
"""Requests of a phase, their objects, and share of it with one under way, from which on it waited for one at a time."""
_LONG_S = 2.0

_AT_ONCE = 100
"""Requests under way at once from which on no pool of workers is meant."""

_SOME_KINDS = 1.5
"""Ratio of all requests to those at one rate from which on each kind has the rate."""

_MANY = 15.0
"""Requests a second at which a client that someone limits may wait: client-go allows 20 where nothing else is set, in
controller-runtime (https://pkg.go.dev/sigs.k8s.io/controller-runtime/pkg/client/config)."""


def findings(seen: Observed) -> Iterator[Finding]:
    """Yield a finding for workers that wait, for the rate limit, and for queues that are never empty."""
    waits = [wait for span in seen.spans if (wait := _waiting(seen, span)) is not None]
    if waits:
        worst = max(waits, key=lambda wait: (wait.keys > 0, wait.share))
        span = next(span for span in seen.spans if span.phase is worst.phase)
        yield worst.finding(span, seen.own_rate(span.start, span.end))
    else:
        yield from list(_held_by_noops(seen)) or list(_held_by_own_measure(seen)) or _held_at_work(seen)
    for span in seen.spans:
        yield from _of_phase(span, explained=bool(waits) or seen.slowed(span) or seen.steady_rate(span) is not None)
    yield from _at_one_rate(seen)
    yield from _never_empty(seen)
    silent = list(nothing_went_on(seen))
    yield from silent
    if not waits and not silent:
        yield from _one_at_a_time(seen)
    yield from _without_bound(seen)


def _at_one_rate(seen: Observed) -> Iterator[Finding]:
    """Yield the phases in which all requests of all workers came at one rate."""
    rates = [(span, rate) for span in seen.spans if (rate := seen.steady_rate(span)) is not None]
    # A limit that the metrics of one phase show is that of the others.
    if rates and not any(map(rate_limited, seen.spans)):
        span, rate = max(rates, key=lambda one: one[0].phase.seconds)
        number = len(seen.requests_in(span.start, span.end))
        each_kind = number > _SOME_KINDS * rate * (seen.reached(span) - span.start) / 1e9
        more = f", and in {', '.join(one.phase.name for one, _ in rates if one is not span)}" if len(rates) > 1 else ""
        yield Found(
            id=ID,
            severity="waste",
            about=of_time(span, [one for of, _ in rates for one in seen.requests_in(of.start, of.end)]),
            text=f"the operator sent all its {number:,} requests of {span.phase.name} at {rate:.3g} a second"
            f"{' for each kind' * each_kind}, whatever they were for{more}: its workers share a limit of its client,"
            f" which takes {span.phase.seconds:.1f} s",
            evidence=("they came at one distance, and those for one object had others in between",),
        )


def _one_at_a_time(seen: Observed) -> Iterator[Finding]:
    """Yield the longest phase in which no two requests of the operator were ever under way at once."""
    alone: list[tuple[float, Finding]] = []
    for span in seen.spans:
        if seen.rate_limited(span) or span.phase.seconds < _LONG_S:
            continue
        sent = [one for one in seen.within(span) if one.verb != "watch"]
        sent.sort(key=attrgetter("received", "completed"))
        if any(after.received < before.completed for before, after in pairwise(sent)):
            continue
        share = seen.under_way(span)
        # The requests of one object's reconciles follow each other.
        objects = {one.object for one in sent if one.name}
        if len(sent) < _REQUESTS or share < _ANSWERS or len(objects) < _OBJECTS:
            continue
        named = f"in {span.phase.name} the operator never had two requests under way at once"
        one = Found(
            id=ID,
            severity="note",
            about=of_time(span),
            text=f"{named}, and waited for an answer in {share:.0%} of {span.phase.seconds:.1f} s: a single worker, or"
            " a lock around its requests",
            evidence=(f"{len(sent):,} requests",),
        )
        alone.append((span.phase.seconds, one))
    if alone:
        yield max(alone, key=lambda one: one[0])[1]


def _without_bound(seen: Observed) -> Iterator[Finding]:
    """Yield the phase in which most requests of the operator were under way at once, where no pool of workers is meant.

    The API server queues what one client sends at once, and refuses what its queue has no room for:
    https://kubernetes.io/docs/concepts/cluster-administration/flow-control/.
    """
    worst: tuple[int, Span, list[Sent]] | None = None
    for span in seen.spans:
        sent = sorted((one for one in seen.within(span) if one.verb != "watch"), key=attrgetter("received"))
        if len(sent) < _AT_ONCE:
            continue
        ends: list[int] = []
        peak, at = 0, 0
        for one in sent:
            while ends and ends[0] <= one.received:
                heappop(ends)
            heappush(ends, one.completed)
            if len(ends) > peak:
                peak, at = len(ends), one.received
        most = [one for one in sent if one.received <= at < one.completed]
        if len(most) >= _AT_ONCE and (worst is None or len(most) > worst[0]):
            worst = len(most), span, most
    if worst is not None:
        number, span, most = worst
        what, of_it = Counter(one.what for one in most).most_common(1)[0]
        yield Found(
            id=ID,
            severity="note",
            about=of_time(span, most),
            text=f"the operator had {number:,} requests under way at once in {span.phase.name}, {of_it:,} of them"
            f" {what}: where nothing bounds them they grow with the objects, and the API server queues or refuses (429)"
            " what is too much",
        )


def _held_by_noops(seen: Observed) -> Iterator[Finding]:
    """Yield the controller whose no-op reconciles hold their worker for long, while they neither ask nor run."""
    for span, cpu in _triggered(seen):
        for row in span.phase.workers:
            reconciles = sum(one.count for one in span.phase.reconciles if one.controller == row.controller)
            held = _held(seen, span, cpu, (row.busy_workers or 0.0) * span.phase.seconds, _held_up(seen, span))
            if reconciles >= _NOOPS and held >= _HELD_S * reconciles:
                yield Found(
                    id=ID,
                    severity="waste",
                    about=of_time(span),
                    text=f"a no-op reconcile of {row.controller} holds its worker for {held / reconciles:.2g} s, in"
                    " which it neither asks the API server nor runs: for a lock, a sleep, a rate limit of its client or"
                    " another service",
                    evidence=(
                        f"{reconciles:,} reconciles in {span.phase.name}, which took {cpu.seconds:.2g} s of CPU",
                    ),
                    check=f'no_blocked_workers(phase="{span.phase.name}")',
                )
                return


def _held_by_own_measure(seen: Observed) -> Iterator[Finding]:
    """Yield the same by a histogram of the operator's own of how long its reconciles take."""
    for span, cpu in _triggered(seen):
        for family, busy_s, number in _measured(seen, span):
            held = _held(seen, span, cpu, busy_s, _held_up(seen, span))
            if number >= _NOOPS and held >= _HELD_S * number:
                yield Found(
                    id=ID,
                    severity="waste",
                    about=of_time(span),
                    text=f"a reconcile that finds nothing to do takes {busy_s / number:.2g} s by {family}, and"
                    f" {held / number:.2g} s of that neither asks the API server nor runs: a lock, a sleep, a call"
                    " that blocks",
                    evidence=(f"{number:,.0f} in {span.phase.name}, which took {cpu.seconds:.2g} s of CPU",),
                    check=f'no_blocked_workers(phase="{span.phase.name}")',
                )
                return


def _held_at_work(seen: Observed) -> Iterator[Finding]:
    """Yield the phase in which reconciles that have work to do wait longest for what is neither, by any histogram."""
    found: list[tuple[float, Span, str, float, float]] = []
    for span, cpu in _known(seen):
        for family, busy_s, number in _measured(seen, span):
            held_up = _at_most_held_up(seen, span, number) if seen.slowed(span) else _held_up(seen, span)
            held = _held(seen, span, cpu, busy_s, held_up)
            long = held >= max(_HELD_AT_WORK_S * number, _SHARE_AT_WORK * busy_s, _LONG_AT_WORK_S)
            if number >= _RECONCILES_AT_WORK and long:
                found.append((held, span, family, busy_s, number))
    if found:
        held, span, family, busy_s, number = max(found, key=lambda one: one[0])
        yield Found(
            id=ID,
            severity="waste",
            about=of_time(span),
            text=f"a reconcile takes {busy_s / number:.2g} s in {span.phase.name} by {family}, and"
            f" {held / number:.2g} s of that neither asks the API server nor runs: it waits in its worker, as for what"
            " a watch would show, in a sleep, for a lock or for another service",
            evidence=(
                f"{number:,.0f} reconciles, in which {held:,.0f} s of {busy_s:,.0f} s are not explained",
                *explained(seen, span),
            ),
            check=f'no_blocked_workers(phase="{span.phase.name}")',
        )


def _triggered(seen: Observed) -> Iterator[tuple[Span, CpuResult]]:
    """Yield the phases with triggers of `_known`."""
    return ((span, cpu) for span, cpu in _known(seen) if span.triggers)


def _known(seen: Observed) -> Iterator[tuple[Span, CpuResult]]:
    """Yield the phases in which all that the operator asked is known, and its CPU time there."""
    for span in seen.spans if seen.log_whole and seen.operator else ():
        if (cpu := span.cpu(OPERATOR)) is not None and not seen.rate_limited(span):
            yield span, cpu


def _measured(seen: Observed, span: Span) -> Iterator[tuple[str, float, float]]:
    """Yield (family, seconds of all reconciles of a phase, how many) of histograms that measure seconds."""
    for family, by in sorted(seen.reconcile_times(span).items()):
        busy_s, number = (sum(parts) for parts in zip(*by.values(), strict=True))
        if busy_s < _MOST_AT_ONCE * span.phase.seconds:
            yield family, busy_s, number


def _held(seen: Observed, span: Span, cpu: CpuResult, busy_s: float, held_up: float) -> float:
    """Return for how long workers that were busy for so many seconds, all together, neither asked nor ran.

    ``held_up``: as of `_held_up`, or `_at_most_held_up`.
    """
    return busy_s * (1 - _working(seen, span, cpu)) - (seen.under_way(span) + held_up) * span.phase.seconds


def _working(seen: Observed, span: Span, cpu: CpuResult) -> float:
    """Return in which share of a phase the operator ran or was runnable: with one event loop, all its workers wait.

    Of the time in which it was at work: one second of CPU in the first of ten seconds is what all workers waited for.
    """
    reads = [read for read in seen.contents.reads[OPERATOR] if span.start <= read.at <= span.end]
    used = [
        (after.cpu_ns - before.cpu_ns, after.at - before.at)
        for before, after in pairwise(reads)
        if after.pid == before.pid and after.at > before.at
    ]
    at_work = sum(ns * ns / time for ns, time in used) / max(1, sum(ns for ns, _ in used))
    return min(1.0, max(cpu.cores, at_work) + (cpu.waiting_s or 0.0) / span.phase.seconds)


def _held_up(seen: Observed, span: Span) -> float:
    """Return how many threads of the API server waited for a core beside other programs, on average.

    So many requests may have waited before the log has them.
    """
    return (seen.kept_from_cores(span, API_SERVER) or 0.0) if seen.contended(span) else 0.0


def _at_most_held_up(seen: Observed, span: Span, reconciles: float) -> float:
    """Return how many workers may have waited for a core on average, on a machine that others slow.

    Each request and each reconcile three times as long as they do on average, wherever that was: in the operator, in
    the kernel, in the API server.
    """
    number = len(seen.requests_in(span.start, span.end)) + reconciles
    return number * as_waits_explain_s(seen, span) / span.phase.seconds


class _Wait(NamedTuple):
    """Workers of a phase that wait for something of the operator's own, on average."""

    phase: PhaseResult
    busy: float
    under_way: float
    working: float
    """As of `_working`."""
    keys: int
    held_up: float = 0.0
    """As of `_held_up`."""

    @property
    def surplus(self) -> float:
        return self.busy * (1 - self.working) - self.under_way - self.held_up

    @property
    def share(self) -> float:
        return self.surplus / self.busy

    def finding(self, span: Span, rate: float) -> Finding:
        """Return it as a finding; ``rate``: the requests a second of the operator's in the phase."""
        name = max(self.phase.workers, key=lambda row: row.busy_workers or 0).controller
        return Found(
            id=ID,
            severity="defect" if self.keys else "waste",
            about=of_time(span),
            text=f"of {self.busy:.1f} busy workers (mostly of {name}) in {self.phase.name}, {self.surplus:.1f} waited"
            " neither for the API server nor for a core: for a lock, a sleep or a condition",
            evidence=(
                f"{self.under_way:.1f} requests under way on average over {self.phase.seconds:.1f} s, in"
                f" {self.working:.0%} of which the operator ran or waited for a core",
                *([f"up to {self.keys:,} keys waited for a worker"] if self.keys else []),
                *(
                    [f"a rate limit of its client looks the same: it sent {rate:,.0f} a second"]
                    if rate >= _MANY
                    else []
                ),
            ),
            check=f'no_blocked_workers(phase="{self.phase.name}")',
        )


def _waiting(seen: Observed, span: Span) -> _Wait | None:
    cpu = span.cpu(OPERATOR)
    if cpu is None or seen.rate_limited(span) or not seen.log_whole or not seen.operator:
        return None
    if span.phase.seconds < _LONG_ENOUGH_S or any(row.busy_workers is None for row in span.phase.workers):
        return None
    found = _Wait(
        phase=span.phase,
        busy=sum(row.busy_workers or 0.0 for row in span.phase.workers),
        under_way=seen.under_way(span),
        working=_working(seen, span, cpu),
        keys=max((row.depth_max or 0 for row in span.phase.workers), default=0),
        held_up=_held_up(seen, span),
    )
    if found.surplus >= max(_WAITING, _WAITING_SHARE * found.busy) and not seen.slowed(span):
        return found
    if seen.slowed(span) and (beside := _beside_others(seen, found, span)) is not None:
        return beside
    few = found.keys > 0 and found.busy >= 1 - _WAITING_SHARE
    return found if few and found.surplus >= _ALL_BUT_ALL * found.busy else None


def _beside_others(seen: Observed, found: _Wait, span: Span) -> _Wait | None:
    """Return the workers that wait beside other programs, where all of a controller's do; None: they need not."""
    reconciles = sum(row.count for row in span.phase.reconciles)
    beside = found._replace(held_up=_at_most_held_up(seen, span, reconciles))
    full = any(row.workers and (row.busy_workers or 0.0) >= _FULL * row.workers for row in span.phase.workers)
    long = beside.surplus * span.phase.seconds >= _LONG_BESIDE_S
    return beside if full and long and beside.surplus >= _SHARE_BESIDE * beside.busy else None


def _of_phase(span: Span, *, explained: bool) -> Iterator[Finding]:
    phase = span.phase
    for row in phase.workers:
        if row.blocked and not explained:
            yield Found(
                id=ID,
                severity="defect",
                about=of_time(span),
                text=f"the workers of {row.controller} were blocked for {row.blocked_s:.3g} s of {phase.name}",
                evidence=tuple(f"from {one.start_s:.1f} to {one.end_s:.1f} s" for one in row.blocked[:3]),
                check=f'no_blocked_workers(phase="{phase.name}")',
            )
    for one in phase.bottlenecks:
        if one.suspect == "operator-rate-limit" and one.share >= _RATE_LIMITED and one.seconds >= 1:
            yield Found(
                id=ID,
                severity="waste",
                about=of_time(span),
                text=f"the operator's own client-side rate limit takes {one.share:.0%} of {phase.name}"
                f" ({one.seconds:.3g} s)",
                evidence=(one.evidence,),
            )


def _never_empty(seen: Observed) -> Iterator[Finding]:
    target = seen.target
    if target is None or len(seen.rests) < 2:
        return
    # The first one is before any work.
    rests = seen.rests[1:]
    for series in seen.queues:
        depths = [target.value(series, scrape) or 0 for scrape in rests]
        if min(depths) >= _QUEUE:
            name = parse(series).labels.get("name", series)
            yield Found(
                id=ID,
                severity="defect",
                about=About(aspect=Aspect.AMOUNT),
                text=f"the queue {name} is never empty: {min(depths):,.0f} keys or more wait at the end of each phase",
            )
