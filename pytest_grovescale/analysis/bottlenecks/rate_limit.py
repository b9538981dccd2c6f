"""Detection of a client-side rate limit that no metric names, from the flow of requests that it lets through.

client-go's limiter is a token bucket (k8s.io/client-go/util/flowcontrol over golang.org/x/time/rate): after a burst it
lets requests through at one rate, and a sender that falls behind catches up. So the cumulative number of requests keeps
close to a straight line for as long as there is more to send, however many they are. A pace set by anything else (a
CPU, an API server, another component) drifts away from the line: it never catches up.

Each REST client has its own limiter, and controller-runtime makes one per kind
(sigs.k8s.io/controller-runtime/pkg/client/apiutil): the flow of one resource may be limited beside another that is not.
"""

from __future__ import annotations

import math
import statistics
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from ...recording.records import Request
from ...recording.worker_history import Reading, WorkerHistory
from ..api_requests import category_of, counted
from ..cpu import Window, demands
from ..reconcile_counters import LIBRARY_QUEUES
from ..recording_index import Contents, PhaseSpan, WallClock
from ..result import OPERATOR

_S = 1_000_000_000
_LEAST_S = 8
"""Seconds for which a flow must keep its rate to count as flat."""
_LEAST_CORROBORATED_S = 3
"""Seconds that suffice at the rate that the operator's definition sets."""
_LEAST_REQUESTS = 40
_TENTHS = 10
_BEHIND_S = 0.3
"""How long a sender may be delayed before it catches up, s: a garbage collection, a busy machine."""
_BEHIND = 3.0
"""Requests that the flow may additionally be off the line, at the seconds' borders."""
_STRAYS_S = 0.01
"""Tolerated median distance of the requests from the line: the requests sent in this time, s."""
_STRAYS = 0.5
"""Requests added to that distance: a request is received a little after it was let through."""
_NEAR_QPS = 0.02
"""Tolerated relative distance of a rate from the definition's."""
_NEAR_ROUND = 0.003
"""Tolerated relative distance from a round number where no definition names the limit: people set limits."""
_MOST = 0.5
"""Share of the scrapes in a spell at which keys waited."""
_LONG_S = 1.0
"""Seconds after which a running reconcile counts as waiting for something."""
_BUSY_CORES = 0.8
"""Cores of demand from which an operator may be paced by its CPU."""
_MOST_VERBS = 0.9
"""Share of a resource's requests from which those of one verb are taken to be all that its limiter let through."""
_CLOSED_LOOP = 0.6
"""Share of the time with the same number of requests under way from which each request waits for an answer."""


class Spell(NamedTuple):
    """A time in which the requests of one client were let through at one rate."""

    start: int
    end: int
    """ns of the recorder's clock."""
    per_s: float
    """The limit: the rate of the flow, or the nominal limit that it is close enough to."""
    what: str
    """``delete podcliques``, ``requests``."""
    why: str
    """The corroborating evidence: ``while keys waited``, ``the definition's qps``."""

    @property
    def seconds(self) -> float:
        return (self.end - self.start) / 1e9

    @property
    def text(self) -> str:
        """The spell in words: ``delete podcliques at 100/s for 53 s while keys waited``."""
        return f"{self.what} at {self.per_s:g}/s for {self.seconds:.0f} s {self.why}"


class _Flat(NamedTuple):
    start: int
    end: int
    per_s: float


def limited_spells(
    contents: Contents, phase: PhaseSpan, requests: Sequence[Request], under_way: Sequence[tuple[int, int]]
) -> list[Spell]:
    """Return the spells in which the operator's client throttled its requests in a phase, in order, without overlaps.

    The flow is flat, and there was more to send: keys waited in the operator's queue. Where its definition sets
    ``qps``, that has to be the rate, and replaces the queue where that was not measured. Where it sets none, the rate
    has to be a round number, and neither the operator's CPU nor the API server's answers set the pace. ``under_way``:
    the operator's requests, (start, end), as its client saw them.
    """
    user = contents.opened.identities.get(OPERATOR)
    qps = _qps(contents.opened.parameters.get("qps", ""))
    spells: list[Spell] = []
    for group, of_resource in _groups(requests, user, contents.clock):
        for flat in _flat_parts([at for at, _ in group], phase.start, contents.end_of(phase), qps):
            if any(min(flat.end, other.end) > max(flat.start, other.start) for other in spells):
                continue
            inside = [request for at, request in group if flat.start <= at < flat.end]
            if qps is None and len(inside) < _MOST_VERBS * sum(flat.start <= at < flat.end for at, _ in of_resource):
                # The limiter of these requests is that of the others for this resource, which did not keep to it.
                continue
            if why := _why(contents, phase, flat, qps, under_way):
                spells.append(Spell(flat.start, flat.end, flat.per_s, _what(inside), why))
    return sorted(spells)


def _qps(value: str | float | bool) -> float | None:
    """Return the definition's limit, 1/s; None where it sets none. Values of a definition are recorded as text."""
    try:
        qps = float(value)
    except ValueError:
        return None
    return qps if qps > 0 and not isinstance(value, bool) else None


def shares_of(spells: Sequence[Spell], windows: Sequence[Window]) -> list[float]:
    """Return the share of each window that lies in a spell."""
    return [
        sum(max(0, min(spell.end, window.high) - max(spell.start, window.low)) for spell in spells) / window.ns
        if window.ns
        else 0.0
        for window in windows
    ]


_Flow = list[tuple[int, Request]]
"""When each request was received, in order."""


def _groups(requests: Iterable[Request], user: str | None, clock: WallClock) -> list[tuple[_Flow, _Flow]]:
    """Return all that one client may have sent: the whole user, then by resource and verb.

    Each with all requests for the resource where it has those of one verb, else itself. Largest group first: a spell
    found in a larger group is not looked for again in a smaller one.
    """
    groups: defaultdict[tuple[str, ...], _Flow] = defaultdict(list)
    for request in requests:
        if request.user != user or request.verb == "watch" or not counted(request):
            continue
        item = request.received_wall - clock.offset(request.at), request
        groups[()].append(item)
        if category_of(request) == "object":
            resource = request.qualified
            groups["object",].append(item)
            groups["resource", resource].append(item)
            groups["verb", resource, request.verb].append(item)
    for group in groups.values():
        group.sort(key=lambda item: item[0])
    largest = sorted(groups.items(), key=lambda item: len(item[1]), reverse=True)
    return [
        (group, groups["resource", kind[1]] if kind[:1] == ("verb",) else group)
        for kind, group in largest
        if len(group) >= _LEAST_REQUESTS
    ]


def _flat_parts(times: Sequence[int], start: int, end: int, qps: float | None) -> list[_Flat]:
    """Return the parts of a flow that keep to one rate, which is the definition's or a round number."""
    seconds = (end - start) // _S
    # Cumulative number of requests by each tenth of a second.
    sent = [bisect_left(times, start + tenth * _S // _TENTHS) for tenth in range(seconds * _TENTHS + 1)]
    by_second = sent[::_TENTHS]
    parts: list[_Flat] = []
    first = 0
    while first < seconds:
        last = _end_of_run(by_second, first)
        part = sent[first * _TENTHS : last * _TENTHS + 1]
        if last - first >= _LEAST_CORROBORATED_S and part[-1] - part[0] >= _LEAST_REQUESTS:
            rate, strays = _line(part)
            limit, least = _limit(rate, qps), _LEAST_S if qps is None else _LEAST_CORROBORATED_S
            if limit is not None and last - first >= least and strays <= _STRAYS + _STRAYS_S * rate:
                parts.append(_Flat(start + first * _S, start + last * _S, limit))
                first = last
                continue
        # A burst at the beginning may bend the line.
        first += max(1, (last - first) // 4)
    return parts


def _end_of_run(places: Sequence[int], first: int) -> int:
    """Return the last second, from a given one, up to which the cumulative requests stay close to a line.

    ``places``: cumulative number of requests at each second's border.
    """
    last = first + 1
    # Each second that the line must pass, within the tolerated delay of a sender, narrows its rate.
    least, most = 0.0, math.inf
    while last + 1 < len(places):
        seconds, sent = last - first, places[last] - places[first]
        least = max(least, (sent - _BEHIND) / (seconds + _BEHIND_S))
        most = min(most, (sent + _BEHIND) / (seconds - _BEHIND_S))
        if not least <= (places[last + 1] - places[first]) / (seconds + 1) <= most:
            break
        last += 1
    return last


def _line(sent: Sequence[int]) -> tuple[float, float]:
    """Return the rate of a flow, 1/s, and the median distance of the cumulative requests from a line.

    ``sent``: the cumulative number at each tenth of a second.
    """
    points = [(tenth / _TENTHS, float(number)) for tenth, number in enumerate(sent)]
    rate, base = _fit(points)
    strays = [abs(number - rate * at - base) for at, number in points]
    # Delayed requests lie below the line and bend it: without them it is straight.
    limit = max(1.0, statistics.median(strays))
    near = [point for point, stray in zip(points, strays, strict=True) if stray <= limit]
    if len(near) >= len(points) / 2:
        rate, base = _fit(near)
    return rate, statistics.median(abs(number - rate * at - base) for at, number in points)


def _fit(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Return slope and intercept of the line of least squares."""
    line = statistics.linear_regression(*zip(*points, strict=True))
    return line.slope, line.intercept


def _limit(rate: float, qps: float | None) -> float | None:
    """Return the limit that matches a rate: the definition's, or a round number where it has none; else None.

    Round are whole numbers of one digit, and of two of which the second is 5: 8, 15, 20, 100, 250.
    """
    if qps is not None:
        return qps if abs(rate - qps) <= _NEAR_QPS * qps else None
    if rate <= 0:
        return None
    step: float = max(1.0, 5 * 10.0 ** (math.floor(math.log10(rate * (1 + _NEAR_ROUND))) - 1))
    limit = round(rate / step) * step
    return limit if abs(rate - limit) <= _NEAR_ROUND * rate else None


def _why(
    contents: Contents, phase: PhaseSpan, flat: _Flat, qps: float | None, under_way: Sequence[tuple[int, int]]
) -> str:
    """Return the evidence that a flat flow was limited by its client; empty where evidence contradicts it."""
    readings = _readings(contents.metrics.workers, phase.name, flat)
    queued = _mostly(readings, lambda one: one.depth > 0)
    if qps is None:
        paced = _cpu_bound(contents, flat) or _closed_loop(under_way, flat)
        return "while keys waited" if queued and not paced else ""
    if queued:
        waited = "while keys waited "
    elif _mostly(readings, lambda one: one.longest_s >= _LONG_S):
        # One reconcile may send thousands of requests, as a ReplicaSet's does, while no other key waits.
        waited = "while a reconcile went on "
    else:
        waited = ""
    return f"{waited}(the definition's qps is {qps:g})" if waited or not readings else ""


def _closed_loop(under_way: Sequence[tuple[int, int]], flat: _Flat) -> bool:
    """Return whether the same number of requests was under way nearly all the time, as with workers that wait."""
    changes: list[tuple[int, int]] = []
    for start, end in under_way:
        if start < flat.end and end > flat.start:
            changes += [(max(start, flat.start), 1), (min(end, flat.end), -1)]
    spent: Counter[int] = Counter()
    now, number = flat.start, 0
    for at, change in sorted(changes):
        spent[number] += at - now
        now, number = at, number + change
    spent[number] += flat.end - now
    del spent[0]
    return max(spent.values(), default=0) >= _CLOSED_LOOP * (flat.end - flat.start)


def _readings(history: WorkerHistory, phase: str, flat: _Flat) -> dict[int, list[Reading]]:
    """Return the readings of all the operator's own queues at each scrape in a spell."""
    by_scrape: defaultdict[int, list[Reading]] = defaultdict(list)
    for controller in history.readings:
        if not controller.startswith(LIBRARY_QUEUES):
            for reading in history.of_phase(controller, phase):
                if flat.start <= reading.at < flat.end:
                    by_scrape[reading.at].append(reading)
    return dict(by_scrape)


def _mostly(readings: Mapping[int, Sequence[Reading]], holds: Callable[[Reading], bool]) -> bool:
    """Return whether a predicate holds for some queue at most scrapes; False without scrapes."""
    return bool(readings) and sum(any(map(holds, at)) for at in readings.values()) >= _MOST * len(readings)


def _cpu_bound(contents: Contents, flat: _Flat) -> bool:
    """Return whether the operator's CPU may have set the pace; True where it was not measured."""
    reads = contents.reads.get(OPERATOR, [])
    if not reads or reads[0].at > flat.start or reads[-1].at < flat.end:
        return True
    (demand,) = demands(reads, [Window(flat.start, flat.end)])
    return demand.used_s + (demand.waiting_s or 0.0) >= _BUSY_CORES * (flat.end - flat.start) / 1e9


def _what(requests: Sequence[Request]) -> str:
    """Return a name for nearly all of the requests: ``delete podcliques``, ``podcliques requests``, ``requests``."""
    kinds = Counter((request.verb, request.resource) for request in requests)
    resources = Counter(request.resource for request in requests)
    (verb, resource), number = kinds.most_common(1)[0]
    if number >= 0.9 * len(requests):
        return f"{verb} {resource}"
    resource, number = resources.most_common(1)[0]
    return f"requests for {resource}" if number >= 0.9 * len(requests) else "requests"
