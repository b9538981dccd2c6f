"""The operator's requests as counted by its own client: its API traffic without an audit log.

client-go counts every answer in ``rest_client_requests_total`` by method, status code and host. It knows no resource,
so that a Lease, an Event and an object look the same: the count is an upper bound of the requests for objects.
"""

from __future__ import annotations

from collections import defaultdict

from ..exposition.series import parse
from .contents import Contents, PhaseSpan
from .lives import grown, lives
from .reconciles import OPERATOR, why_not_scraped
from .result import ClientRow

FAMILY = "rest_client_requests_total"


def client_requests_of_phase(contents: Contents, phase: PhaseSpan) -> tuple[tuple[ClientRow, ...], str]:
    """Return the operator's requests between its scrapes around a phase, or nothing and why not.

    There is no count of a phase in which the operator was another process, or another replica: the requests that the
    first one sent after its last scrape are lost.
    """
    start, end = phase.scrape_start.get(OPERATOR), phase.scrape_end.get(OPERATOR)
    target = contents.metrics.targets.get(OPERATOR)
    if start is None or end is None or target is None:
        return (), why_not_scraped(contents, phase, OPERATOR, start, end)
    inside = [scrape for scrape, moment in enumerate(target.moments) if start.at <= moment.at <= end.at]
    counted = [series for series in target.series if series.partition("{")[0] == FAMILY]
    if not any(target.value(series, inside[-1]) is not None for series in counted):
        return (), f"the operator's metrics have no {FAMILY}"
    found = lives(target, inside)
    if len(found) > 1 or any(grown(target, series, found) < 0 for series in counted):
        return (), f"the operator was restarted in the phase, or another replica took over: {FAMILY} began anew"
    counts: dict[tuple[str, str], float] = defaultdict(float)
    totals: dict[tuple[str, str], float] = defaultdict(float)
    for series in counted:
        labels = parse(series).labels
        # Hosts are summed: they are addresses of one API server.
        key = labels.get("method", ""), labels.get("code", "")
        counts[key] += grown(target, series, found)
        totals[key] += target.value(series, inside[-1]) or 0.0
    return tuple(
        ClientRow(method=method, code=code, count=round(counts[method, code]), total=round(totals[method, code]))
        for method, code in sorted(counts)
    ), ""
