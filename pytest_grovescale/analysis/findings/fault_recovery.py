"""What the operator did wrong when requests met faults that the test put in its way (``scale.faults``).

An API server is restarted, overloaded, or reached over a network that breaks; each answer can be an error, come late,
or not at all although the write was carried out. An operator has to repeat what failed, with a delay that grows
(client-go's queues: from 5 ms to 1000 s), wait as long as a 429 asks (RFC 9110, section 10.2.3), open its watches again
(https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes), and find out whether a
write without an answer was carried out before it makes the same object under another name.

No false alarm: only faults that the test asked for count, and none of them by itself. Work is lost where a phase misses
its milestones and what failed was not tried again for ten seconds, four times the delay before, and the delay that
client-go's queues have after so many failures; Events and Leases are left out. A growing delay shows in eight tries of
one request, and a constant one of a second or more is as gentle; conflicts, which are to be repeated at once with a
fresh copy, need no delay. A 429 counts for writes to an object by its name, where most were repeated too early. Objects
are too many where all owners but those with a lost answer have the same number of them, for two seconds, or where a
phase waits for a number that there are more of. A process that could not renew its Lease has to end.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from http import HTTPStatus
from itertools import islice, pairwise
from statistics import median

from ...recording.conditions import Predicate
from ...recording.evaluation import count_leaves
from ...recording.records import RESTART, WRITES
from ..api_faults import Fault, gaps_of
from ..result import OPERATOR, Finding
from .evidence import Life, Span
from .grouping import Aspect, Found, of_outcome
from .observed import Observed

ID = "fault-recovery"

_CRASH_NS = 5_000_000_000
_LOST_LEASE = 3
"""Renewals of a Lease that failed within that time."""
_SILENT_NS = 10_000_000_000
"""Time without another try from which on a request counts as given up, ns."""

_PATIENCE = 4
"""Times the delay before from which on a request is not just delayed for longer: delays that grow mostly double."""
_BACKOFF_NS = 5_000_000
_DOUBLES = 18
"""client-go's queues double a delay of 5 ms with each failure, up to 1000 s; events between make it fail more often."""

_SURPLUS_NS = 2_000_000_000
"""Age from which on an object counts that a sound operator would have found to be one too many, ns."""

_TRIES = 8
_GROWS = 1.5
_GREW_S = 0.1
_GENTLE_S = 1.0
_AT_ONCE_S = 0.003
"""Less than the first delay of client-go's queues."""
_LEAST_AT_ONCE = 5
_LEAST_EARLY = 2
_LEAST_OTHERS = 3
_SHOWN = 3


def findings(seen: Observed) -> Iterator[Finding]:
    """Yield a finding for each kind of wrong recovery."""
    faults = [one for one in seen.faults.all if seen.begin <= one.answered < seen.end]
    if not faults:
        return
    if (crash := _crash(seen, faults)) is not None:
        # What it leaves undone follows from that.
        yield crash
        return
    if not seen.log_whole or not seen.operator:
        return
    yield from _lost_work(seen, faults)
    yield from _closed_watches(seen, faults)
    yield from _duplicates(seen, faults)
    yield from _retries(seen, faults)
    yield from _early(faults)


def _crash(seen: Observed, faults: list[Fault]) -> Finding | None:
    restarts = [mark.at for mark in seen.contents.marks if mark.label == RESTART]
    for gone in seen.contents.gone.get(OPERATOR, []):
        before = [one for one in faults if 0 <= gone.at - one.answered < _CRASH_NS]
        if sum(one.record.resource == "leases" for one in before) >= _LOST_LEASE:
            # An operator that cannot renew its Lease has to end: it is not the leader any more.
            continue
        # A restart that the test asked for has a mark at its begin, and one at its end.
        asked = len([at for at in restarts if at < gone.at]) % 2 == 1
        if before and not asked and seen.begin <= gone.at < seen.end:
            last = before[-1]
            phase = seen.contents.phase_before(gone.at)
            return Found(
                id=ID,
                severity="defect",
                about=of_outcome(Aspect.PROCESS, [phase] if phase else []),
                text=f"the operator ended {(gone.at - last.answered) / 1e9:.3g} s after {last.title} met {last.answer}",
                evidence=(f"in {phase or 'no phase'}",),
            )
    return None


def _lost_work(seen: Observed, faults: list[Fault]) -> Iterator[Finding]:
    for span in seen.spans:
        waits = [one.name for one in span.phase.milestones if not one.met]
        if span.phase.outcome == "passed" or not waits:
            continue
        given_up = [one for one in faults if one.answered < span.end and _given_up(seen, one, span)]
        if given_up:
            number = len(given_up)
            yield Found(
                id=ID,
                severity="defect",
                about=of_outcome(Aspect.PROCESS, [span.phase.name]),
                text=f"{span.phase.name} did not reach {waits[0]}: the operator gave up {number:,} failed"
                f" request{'s' * (number != 1)}, not repeated until its end"
                f" ({(span.end - given_up[0].answered) / 1e9:.0f} s)",
                evidence=tuple(f"{one.title}: {one.answer}" for one in given_up[:_SHOWN]),
                check=f'milestone(phase="{span.phase.name}", name="{waits[0]}", max=…)',
            )
            return


def _given_up(seen: Observed, fault: Fault, span: Span) -> bool:
    # An Event that is lost is lost; a Lease is renewed by the next attempt, whatever became of this one.
    if fault.is_watch or fault.carried_out or fault.record.resource in ("events", "leases"):
        return False
    if span.end - fault.answered < max(_SILENT_NS, _delay_ns(seen.faults.up_to(fault))):
        return False
    if fault.record.verb in WRITES:
        again = seen.faults.write_repeated(fault)
        return again is None or again > span.end
    # What a failed read was for is not known: only an operator that does nothing at all has given it up.
    last = seen.faults.last_own(span.end)
    idle = last is None or span.end - last >= _SILENT_NS
    return idle and (fault.again is None or fault.again > span.end)


def _delay_ns(faults: list[int]) -> int:
    """Return how long a sound operator may wait after these faults of one request: by its delays, or client-go's."""
    seen = max((after - before for before, after in pairwise(faults[-4:])), default=0)
    return max(_PATIENCE * seen, _BACKOFF_NS << min(len(faults), _DOUBLES))


def _closed_watches(seen: Observed, faults: list[Fault]) -> Iterator[Finding]:
    # A new process opens all of its watches again, and a cut right before the end may still be repaired.
    closed: dict[str, Fault] = {}
    for one in faults:
        if one.is_watch and seen.end - one.answered >= _SILENT_NS and seen.faults.watch_opened(one) is None:
            closed[one.record.qualified] = one
    if not closed or seen.contents.gone.get(OPERATOR):
        return
    resource, fault = next(iter(closed.items()))
    more = f", and those on {len(closed) - 1} more kinds" if len(closed) > 1 else ""
    yield Finding(
        id=ID,
        severity="defect",
        text=f"the operator did not open its watch on {resource}{more} again, {(seen.end - fault.answered) / 1e9:.0f} s"
        f" after it met {fault.answer}: it misses all changes since",
    )


def _duplicates(seen: Observed, faults: list[Fault]) -> Iterator[Finding]:
    lost: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for one in faults:
        if (
            one.record.kind == "lost-answer"
            and one.record.verb == "create"
            and one.record.applied == HTTPStatus.CREATED
        ):
            lost[one.record.qualified].add((one.record.namespace, one.record.name))
    for resource, names in lost.items():
        lives = seen.lives.get(resource, [])
        owners = {life.owner for life in lives if (life.namespace, life.name) in names and life.owner}
        found = (
            _too_many(seen, resource, _staying(lives, span), owners, span)
            or _beyond(span, resource, len(_staying(lives, span)), made_twice=len(names))
            for span in seen.spans
        )
        yield from islice(filter(None, found), 1)


def _staying(lives: list[Life], span: Span) -> list[Life]:
    """Return the objects at a phase's end that a sound operator would have removed by then, were they too many."""
    return [life for life in lives if life.exists(span.end - _SURPLUS_NS) and life.stays(span.end)]


def _beyond(span: Span, resource: str, there: int, *, made_twice: int) -> Finding | None:
    """Return a finding where a phase waits for a number of objects, and as many more stay as may be made twice."""
    counts = [count for one in span.recorded.declared.values() for count in count_leaves(one.condition)]
    of_kind = [
        one for one in counts if one.watch.resource == resource and not one.name and not one.watch.label_selector
    ]
    wanted = max((one.n for one in of_kind if one.op == "==" and one.where == Predicate()), default=0)
    if not 0 < wanted < there <= wanted + made_twice or any(one.n > wanted for one in of_kind):
        return None
    return Finding(
        id=ID,
        severity="defect",
        text=f"there were {there:,} {resource} at the end of {span.phase.name}, which waits for {wanted:,}: what was"
        " made without an answer was made again",
    )


def _too_many(seen: Observed, resource: str, lives: list[Life], owners: set[str], span: Span) -> Finding | None:
    """Return a finding where owners with a lost answer have more objects than all others of their kind."""
    if span.phase.outcome != "passed":
        return None
    counts = Counter(life.owner for life in lives if life.owner)
    by_kind: dict[str, list[str]] = defaultdict(list)
    for owner in counts:
        known = seen.contents.owned.get(owner)
        by_kind[known.resource if known is not None else ""].append(owner)
    for members in by_kind.values():
        others = {counts[one] for one in members if one not in owners}
        number = sum(one not in owners for one in members)
        if number < _LEAST_OTHERS or len(others) != 1:
            continue
        (usual,) = others
        over = [one for one in members if one in owners and counts[one] > usual]
        if over:
            first = seen.contents.owned.get(over[0])
            name = f"{first.resource} {first.namespace}/{first.name}" if first is not None else f"owner {over[0]}"
            return Finding(
                id=ID,
                severity="defect",
                text=f"{len(over):,} owner{'s' * (len(over) != 1)} had more {resource} than the {usual:,} of each other"
                f" ({number:,}) at the end of {span.phase.name}: what was made without an answer was made again",
                evidence=(f"{name}: {counts[over[0]]:,} {resource}",),
            )
    return None


def _retries(seen: Observed, faults: list[Fault]) -> Iterator[Finding]:
    refused = [one for one in faults if one.record.kind == "error"]
    flat: list[tuple[int, float, Fault]] = []
    grew = False
    for sequence in seen.faults.sequences(refused):
        gaps = gaps_of(sequence)
        half = len(gaps) // 2
        grew = grew or (len(gaps) > 1 and max(gaps[1:]) > _GROWS * gaps[0])
        if len(sequence) < _TRIES:
            continue
        early, late = median(gaps[:half]), median(gaps[half:])
        if late < _GROWS * early and late - early < _GREW_S and late < _GENTLE_S:
            flat.append((len(sequence), median(gaps), sequence[0]))
    if flat:
        number, gap, example = max(flat, key=lambda one: one[0])
        yield Finding(
            id=ID,
            severity="defect",
            text=f"failed requests are repeated without a growing delay: {example.title}, {number:,} times, every"
            f" {gap * 1e3:,.3g} ms",
            evidence=(f"{len(flat):,} requests were repeated so",) if len(flat) > 1 else (),
        )
        return
    delays = [one.delay_s for one in refused if one.recognisable and one.delay_s is not None and one.record.code]
    at_once = [delay for delay in delays if delay < _AT_ONCE_S]
    if len(at_once) >= max(_LEAST_AT_ONCE, 0.9 * len(delays)) and not grew:
        yield Finding(
            id=ID,
            severity="waste",
            text=f"{len(at_once):,} of {len(delays):,} failed requests were repeated at once, after"
            f" {median(at_once) * 1e3:.2g} ms: an API server in trouble gets no rest",
        )


def _early(faults: list[Fault]) -> Iterator[Finding]:
    asked = [one for one in faults if one.record.retry_after_s and one.recognisable and one.record.verb in WRITES]
    early = [one for one in asked if one.too_early]
    if len(early) >= _LEAST_EARLY and 2 * len(early) > len(asked):
        first = min(early, key=lambda one: one.delay_s or 0.0)
        wait = f"{(first.delay_s or 0) * 1e3:,.3g} ms of {first.record.retry_after_s:g} s"
        yield Finding(
            id=ID,
            severity="waste",
            text=f"{len(early):,} of {len(asked):,} writes that were answered 429 were repeated before their"
            f" Retry-After ended: {first.title} after {wait}",
        )
