"""Times in which an operator did nothing although objects of the test waited for its first act.

Part of the rule `workers`, which has its reason and when it is silent.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import NamedTuple

from ...recording.records import STACKS
from ..blocked_workers import read_dump, waiting_workers
from ..result import OPERATOR, Finding
from .evidence import Span
from .grouping import Found, of_time
from .observed import Observed
from .owner_steps import as_waits_explain_s, explained, least_pause_s

ID = "workers"

_SILENCE_S = 0.05
_SILENCES, _ANSWERED = 5, 8
_SILENT, _IDLE = 0.5, 0.5
"""Shortest time without a request on a quiet machine, how many, objects that wait for their first act, share of their
time without a request, and share of that without work of the operator, from which on nothing goes on."""
_HELD_UP_SCRAPE_S, _MOSTLY = 0.5, 0.8
"""A scrape that took so long, so much of it in such a time, was kept from its answer."""

_AS_LIMITED = 1.5
"""Distances between two requests of a limited client up to which a silence is one of them."""


class _Silence(NamedTuple):
    """A time without a request of the operator, ns of the recorder's clock."""

    start: int
    end: int
    waiting: int
    """Objects that the test had made or deleted by its end, and that the operator first acted on after it."""
    served: int
    """Those that it had acted on before it."""

    @property
    def seconds(self) -> float:
        return (self.end - self.start) / 1e9


def nothing_went_on(seen: Observed) -> Iterator[Finding]:
    """Yield the phase in which again and again nothing went on although objects waited, and were served in between.

    Known without any metrics: who sleeps in the only worker, or in the event loop, keeps all others waiting.
    """
    found: list[tuple[float, Finding]] = []
    limits = [rate for span in seen.spans if (rate := seen.steady_rate(span)) is not None]
    for span in seen.spans if seen.operator and seen.log_whole else ():
        answers = [] if seen.rate_limited(span) else sorted(_answers(seen, span))
        if len(answers) < _ANSWERED:
            continue
        shortest_s = max(least_pause_s(seen, span, _SILENCE_S), as_waits_explain_s(seen, span))
        silences = _times_without(seen, span, answers, shortest_s)
        begin, end = answers[0][0], max(answered for _, answered in answers)
        lasts, total = (end - begin) / 1e9, sum(one.seconds for one in silences)
        working = seen.working(begin, end)
        scrape_s = _held_up_scrape(seen, silences)
        # Of a wait for one thing, or for a timer, all are served at once; but metrics are served meanwhile.
        if len({one.served for one in silences}) < _SILENCES and scrape_s < _HELD_UP_SCRAPE_S:
            continue
        if total < _SILENT * lasts or total - working * lasts < _IDLE * total:
            continue
        most, longest = max(one.waiting for one in silences), max(one.seconds for one in silences)
        if any(longest * rate < _AS_LIMITED for rate in limits):
            continue  # by the limit that another phase shows
        held = [f"a scrape of its metrics took {scrape_s:.2g} s then"] if scrape_s >= _HELD_UP_SCRAPE_S else []
        one = Found(
            id=ID,
            severity="defect",
            about=of_time(span),
            text=f"in {span.phase.name} nothing went on in {total:.1f} of {lasts:.1f} s ({len(silences):,} times, the"
            f" longest {longest:.2g} s) while up to {most:,} objects waited for the operator: a sleep or a call in the"
            " reconcile blocks its workers, or its event loop",
            evidence=(
                f"no request was under way, and it used, or waited for, {working:.2g} cores",
                *held,
                *_where(seen),
                *explained(seen, span),
            ),
            check=f'no_blocked_workers(phase="{span.phase.name}")',
        )
        found.append((total, one))
    if found:
        yield max(found, key=lambda one: one[0])[1]


def _held_up_scrape(seen: Observed, silences: Sequence[_Silence]) -> float:
    """Return how long the slowest scrape took, s, of those that mostly waited in one of these times."""
    moments = seen.target.moments if seen.target is not None else []
    return max(
        (
            one.took_ns / 1e9
            for one in moments
            for silence in silences
            if min(one.at, silence.end) - max(one.at - one.took_ns, silence.start) >= _MOSTLY * one.took_ns
        ),
        default=0.0,
    )


def _answers(seen: Observed, span: Span) -> Iterator[tuple[int, int]]:
    """Yield when the test made or deleted an object in a phase, and when the operator first acted on it after that."""
    for one in seen.by_harness(span.start, span.end):
        if not (one.created or one.verb == "delete") or one.subresource:
            continue
        for life in seen.of_name.get((one.resource, one.object), ()):
            # In a test of many cycles each name has many lives.
            if life.begun >= span.end or (life.gone_at or span.end) < one.received:
                continue
            lives = [life, *seen.parts.get(life.uid, ())]
            times = [sent.received for life in lives for sent in life.writes if sent.user == seen.operator]
            times += [child.begun for child in lives[1:] if child.made_by_operator]
            first = min((at for at in times if one.completed <= at < span.end), default=None)
            if first is not None:
                yield one.completed, first


def _times_without(seen: Observed, span: Span, answers: Sequence[tuple[int, int]], shortest_s: float) -> list[_Silence]:
    """Return the times of a phase without a request under way in which objects waited."""
    asked, answered = ([at for at, _ in answers], sorted(at for _, at in answers))
    found: list[_Silence] = []
    free = span.start
    for one in sorted(seen.within(span), key=attrgetter("received")):
        if one.verb == "watch":
            continue
        if (one.received - free) / 1e9 >= shortest_s and not seen.was_absent(free, one.received):
            served = bisect_left(answered, one.received)
            start = max(free, asked[served]) if served < len(asked) else one.received
            waiting = bisect_right(asked, one.received) - served
            if (one.received - start) / 1e9 >= shortest_s:
                found.append(_Silence(start, one.received, waiting, served))
        free = max(free, one.completed)
    return found


def _where(seen: Observed) -> Iterator[str]:
    """Yield the line that waits, where the recording has stacks of the operator."""
    for dump in (one for one in seen.contents.lines if one.source == STACKS + OPERATOR):
        # An asyncio task is never seen in a call that blocks: its dump waits for the event loop, too.
        if groups := waiting_workers(one for one in read_dump(dump.lines) if not one.name.startswith("Task")):
            line = groups[0].line
            yield f"a dump of its stacks shows {groups[0].count:,} in {line.function} ({line.place})"
            return
