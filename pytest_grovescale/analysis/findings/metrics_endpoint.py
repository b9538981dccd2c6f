"""The operator's metrics endpoint: it does not answer, only after long, or with what Prometheus refuses.

An endpoint that a Prometheus cannot scrape is the operator's blindness in production; Prometheus gives up after 10 s by
default (https://prometheus.io/docs/prometheus/latest/configuration/configuration/, ``scrape_timeout``), and a handler
that takes seconds mostly holds a lock that reconciles need.

No false alarm: scrapes count from the operator's start on, where it was ready, to its end; the time is the median's,
and counts only where other programs disturbed no phase, or that of the fastest of ten and more, which no other program
explains, where it is a quarter of a second and many times what its series need. What Prometheus refuses is as a test
with a real one shows (exposition/refusals.py).
"""

from __future__ import annotations

from collections.abc import Iterator

from ..result import OPERATOR, Finding
from .observed import SEEN_GONE_NS, Observed

ID = "metrics-endpoint"

_UP = 0.9
_SLOW_MS = 1000.0
_SCRAPES, _FASTEST_S, _SERIES_A_S = 10, 0.25, 10_000
"""Scrapes of which the fastest says what each needs at least; that time, s, and series that any library writes in a
second, from which on it is too long."""


def findings(seen: Observed) -> Iterator[Finding]:
    """Yield a finding for an endpoint that fails, or is slow."""
    found = next((target for target in seen.test.metrics if target.target == OPERATOR), None)
    if found is None:
        return
    stopped = [stall for stall in seen.contents.stalls.values() if stall.process == OPERATOR]
    # What no process answers, or one that was stopped, says nothing about the endpoint of one.
    failures = sum(
        one.source == f"scrape:{OPERATOR}"
        and not seen.was_absent(one.at - 1, one.at + SEEN_GONE_NS)
        and not any(stall.began <= one.at <= stall.began + stall.length_ns + SEEN_GONE_NS for stall in stopped)
        for one in seen.contents.failures
    )
    if not found.scrapes and failures:
        yield Finding(id=ID, severity="defect", text=f"no scrape of the operator's metrics succeeded: {found.failure}")
    elif failures > 1 and found.up_share < _UP:
        yield Finding(
            id=ID,
            severity="defect",
            text=f"the operator's metrics were available for {found.up_share:.0%} of the time only: {found.failure}",
        )
    elif found.refused:
        yield Finding(
            id=ID,
            severity="defect",
            text=f"Prometheus refuses the operator's metrics, or drops samples of them: {found.refused[0]}",
            evidence=(*found.refused, "grovescale lint-metrics shows all faults of an endpoint"),
        )
    elif took := _slow(seen, found.took_p50_ms or 0.0, found.series_peak or 0):
        yield Finding(
            id=ID,
            severity="waste",
            text=f"a scrape of the operator's metrics takes {took}",
            evidence=(f"{found.series_last or 0:,} series",),
        )


def _slow(seen: Observed, median_ms: float, series: int) -> str:
    """Return how long scrapes take, in words; empty where that is not long.

    ``median_ms``: of all scrapes; ``series``: the most that one had.
    """
    if median_ms > _SLOW_MS and not any(seen.contended(span) for span in seen.spans):
        return f"{median_ms / 1e3:.2g} s (median)"
    took = [one.took_ns / 1e9 for one in seen.target.moments if one.took_ns] if seen.target is not None else []
    if len(took) >= _SCRAPES and min(took) > max(_FASTEST_S, series / _SERIES_A_S):
        return f"{min(took):.2g} s and more, in which it waits for something, or computes"
    return ""
