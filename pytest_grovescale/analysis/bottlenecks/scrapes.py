"""Growth of the operator's own counters over a phase, between the scrapes at its edges."""

from __future__ import annotations

from typing import NamedTuple

from ..contents import PhaseSpan
from ..reconciles import OPERATOR, labels_of

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


def growth(phase: PhaseSpan, series_name: str, *, by: str = "") -> dict[str, float] | None:
    """Return the growth of a counter by the value of a label (all together without one); None if it is not served.

    A counter that was reset with its process has grown by at least its current value.
    """
    start, end = phase.scrape_start.get(OPERATOR), phase.scrape_end.get(OPERATOR)
    if start is None or end is None:
        return None
    found: dict[str, float] = {}
    for series, value in end.samples.items():
        if series.partition("{")[0] != series_name:
            continue
        before = start.samples.get(series, 0.0)
        key = labels_of(series).get(by, "") if by else ""
        found[key] = found.get(key, 0.0) + (value - before if value >= before else value)
    return found or None


def limited_seconds(phase: PhaseSpan) -> float | None:
    """Return the total seconds that requests waited for the client's rate limit; None if it is not served."""
    found = growth(phase, f"{LIMITER}_sum")
    return None if found is None else sum(found.values())


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
        labels_of(series).get("controller", ""): round(value)
        for series, value in end.samples.items()
        if series.partition("{")[0] == WORKERS
    }
    found = [
        Backlog(name, workers[name], min(queued[name], worked[name] / workers[name]))
        for name in queued
        if workers.get(name, 0) > 0 and name in worked
    ]
    return max(found, key=lambda one: one.seconds, default=None)
