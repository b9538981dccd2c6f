"""What the operator did while others waited for it, by its requests and its own metrics."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ...exposition.families import parse
from ...recording.records import Request
from ..api_requests import counted
from ..recording_index import PhaseSpan, WallClock
from ..result import OPERATOR
from .wait_graph import Turns

LIMITER = "rest_client_rate_limiter_duration_seconds"

LATENCY = "rest_client_request_duration_seconds"

QUEUED = "workqueue_queue_duration_seconds"

WORKED = "workqueue_work_duration_seconds"

WORKERS = "controller_runtime_max_concurrent_reconciles"


class Requests(NamedTuple):
    """The operator's requests as its client counts them."""

    seconds: float
    """Of all requests together, without their wait for the client's rate limit."""
    number: float


class Backlog(NamedTuple):
    """One controller's work queue whose keys waited for a worker."""

    controller: str
    workers: int
    seconds: float
    """Upper bound of the time in which keys waited while all workers were busy."""


class Activity(NamedTuple):
    """Seconds of a phase attributed to the operator, and seconds passed on to other components."""

    api: float
    """Waiting for answers of the API server."""
    limited: float | None
    """Waiting for its client's rate limit; None when no source shows one."""
    still: float
    """Neither, with nothing else waited for: unattributed."""
    passed_on: dict[str, float]
    """Neither, while others were waited for: their time, by actor."""


class Sent(NamedTuple):
    """The operator's requests in a phase."""

    spans: list[tuple[int, int]]
    """When each was under way, ns of the recorder's clock."""
    seconds: float
    """Of all of them together."""
    beyond_s: float
    """How much longer than the API server the client saw each request, on average; 0 when it serves no histogram."""


def activity(turns: Sequence[Turns], *, requests_s: float, limited_s: float | None) -> Activity:
    """Split the operator's remaining time.

    ``requests_s``: seconds of all its requests together; ``limited_s``: seconds that all of them waited for the
    client's rate limit and that were not removed before, None if unknown.
    """
    in_flight = sum(turn.in_flight for turn in turns)
    alone = sum(turn.alone for turn in turns)
    beside: defaultdict[str, float] = defaultdict(float)
    for turn in turns:
        for actor, seconds in turn.beside.items():
            beside[actor] += seconds
    limit = limited_s or 0.0
    # While some requests are at the API server and others at the limiter, both are waited for, in proportion.
    held = min(limit, in_flight * limit / (limit + requests_s) if limit > 0 else 0.0)
    gaps = alone + sum(beside.values())
    in_gaps = min(gaps, limit - held)
    rest = 1 - in_gaps / gaps if gaps > 0 else 0.0
    return Activity(
        api=in_flight - held,
        limited=held + in_gaps if limited_s is not None else None,
        still=alone * rest,
        passed_on={actor: seconds * rest for actor, seconds in beside.items()},
    )


def growth(phase: PhaseSpan, series_name: str, *, by: str = "") -> dict[str, float] | None:
    """Return the growth of a counter by the value of a label (all together without one); None if it is not served.

    A counter that was reset with its process has grown by at least its current value.
    """
    start, end = phase.scrape_start.get(OPERATOR), phase.scrape_end.get(OPERATOR)
    if start is None or end is None:
        return None
    increases: dict[str, float] = {}
    for series, value in end.samples.items():
        if series.partition("{")[0] != series_name:
            continue
        before = start.samples.get(series, 0.0)
        key = parse(series).labels.get(by, "") if by else ""
        increases[key] = increases.get(key, 0.0) + (value - before if value >= before else value)
    return increases or None


def limited_seconds(phase: PhaseSpan) -> float | None:
    """Return the total seconds that requests waited for the client's rate limit; None if it is not served."""
    increases = growth(phase, f"{LIMITER}_sum")
    return None if increases is None else sum(increases.values())


def requests_of_client(phase: PhaseSpan) -> Requests | None:
    """Return the operator's requests as its client saw them; None if it serves no histogram of them.

    client-go's latency includes the wait for the rate limit (``rest.Request.request``); it is subtracted here.
    """
    seconds, counts = growth(phase, f"{LATENCY}_sum"), growth(phase, f"{LATENCY}_count")
    if seconds is None or counts is None:
        return None
    return Requests(max(0.0, sum(seconds.values()) - (limited_seconds(phase) or 0.0)), sum(counts.values()))


def backlog(phase: PhaseSpan) -> Backlog | None:
    """Return the controller whose keys waited longest for a free worker; None if its metrics do not show it.

    Keys wait only while every worker is busy, which is at most the work done / the number of workers; and while they
    wait, at least one does, so that it is no longer than the total wait of all keys.
    """
    queued, worked = growth(phase, f"{QUEUED}_sum", by="name"), growth(phase, f"{WORKED}_sum", by="name")
    end = phase.scrape_end.get(OPERATOR)
    if queued is None or worked is None or end is None:
        return None
    workers = {
        parse(series).labels.get("controller", ""): round(value)
        for series, value in end.samples.items()
        if series.partition("{")[0] == WORKERS
    }
    backlogs = [
        Backlog(name, workers[name], min(queued[name], worked[name] / workers[name]))
        for name in queued
        if workers.get(name, 0) > 0 and name in worked
    ]
    return max(backlogs, key=lambda one: one.seconds, default=None)


def spans_of(requests: Iterable[Request], user: str, clock: WallClock) -> list[tuple[int, int]]:
    """Return when each request of a user was under way, from its receipt to its answer, without watches."""
    spans = []
    for request in requests:
        if request.user == user and request.verb != "watch" and counted(request):
            offset = clock.offset(request.at)
            spans.append((request.received_wall - offset, request.completed_wall - offset))
    return spans


def sent(requests: Iterable[Request], user: str, clock: WallClock, client: Requests | None) -> Sent:
    """Return the requests of a user, without watches, as its client saw them.

    The audit log has each from its receipt to its answer. The time that the client saw beyond that is split evenly
    before and after: the way there and the way back.
    """
    spans = spans_of(requests, user, clock)
    seconds = sum(end - start for start, end in spans) / 1e9
    if client is None or not spans or client.number <= 0:
        return Sent(spans, seconds, 0.0)
    beyond = max(0.0, client.seconds / client.number - seconds / len(spans))
    half = round(beyond * 1e9 / 2)
    return Sent([(start - half, end + half) for start, end in spans], seconds + beyond * len(spans), beyond)


def without_limited(turns: Sequence[Turns], shares: Sequence[float]) -> tuple[list[Turns], float]:
    """Remove the operator's rate limit from its time; return the remaining time and the seconds of the limit.

    ``shares``: for each window, the share of time for which the limit was what the operator waited for. All of the
    operator's time in that share is the limit's, whatever else it did: no more requests would have been sent.
    """
    left, seconds = [], 0.0
    for turn, share in zip(turns, shares, strict=True):
        seconds += share * (turn.in_flight + turn.alone + turn.shared)
        left.append(
            turn._replace(
                in_flight=turn.in_flight * (1 - share),
                alone=turn.alone * (1 - share),
                shared=turn.shared * (1 - share),
                beside={actor: of * (1 - share) for actor, of in turn.beside.items()},
            )
        )
    return left, seconds


def limited_shares(turns: Sequence[Turns], limited_s: float) -> list[float]:
    """Return the share of each window in which requests waited for the client's rate limit, from their total wait.

    With n of them waiting on average, some were n / (1 + n) of the time (as in a queue with random arrivals): for as
    long as any waits, the limit sets the pace.
    """
    own = sum(turn.in_flight + turn.alone + turn.shared for turn in turns)
    return [limited_s / (own + limited_s) if own > 0 else 0.0] * len(turns)
