"""What the operator was doing while it was waited for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ...recording.records import Request
from ..api import counted
from ..clock import WallClock
from .scrapes import Requests
from .turns import Turns


class Activity(NamedTuple):
    """Seconds of a phase that were the operator's, and what of its turns went back to others."""

    cpu: float | None
    """On CPU, or ready to run while others had the cores; None when its clock was not read."""
    api: float
    """Waiting for answers of the API server."""
    limited: float | None
    """Waiting for its client's rate limit; None when it serves no metric of it."""
    still: float
    """None of these, and nobody else was waited for."""
    passed_on: dict[str, float]
    """None of these, while others were waited for: their time, by actor."""


class Sent(NamedTuple):
    """The operator's requests in a phase."""

    spans: list[tuple[int, int]]
    """When each was under way, ns of the recorder's clock."""
    seconds: float
    """Of all of them together."""
    beyond_s: float
    """How much longer than the API server the client saw each of them, on average; 0 when it does not tell."""


def sent(requests: Iterable[Request], user: str, clock: WallClock, client: Requests | None) -> Sent:
    """Return the requests of a user, watches left out, as its client saw them.

    The audit log has each from its receipt to its answer. What the client saw beyond that lies half before, half
    after: the way there and the way back.
    """
    spans = []
    for request in requests:
        if request.user == user and request.verb != "watch" and counted(request):
            offset = clock.offset(request.at)
            spans.append((request.received_wall - offset, request.completed_wall - offset))
    seconds = sum(end - start for start, end in spans) / 1e9
    if client is None or not spans or client.number <= 0:
        return Sent(spans, seconds, 0.0)
    beyond = max(0.0, client.seconds / client.number - seconds / len(spans))
    half = round(beyond * 1e9 / 2)
    return Sent([(start - half, end + half) for start, end in spans], seconds + beyond * len(spans), beyond)


def activity(
    turns: Sequence[Turns], cpu_s: Sequence[float] | None, *, requests_s: float, limited_s: float | None
) -> Activity:
    """Split the operator's turns.

    ``cpu_s``: seconds of each window that it was on CPU or ready to run, None when its clock was not read.
    ``requests_s``: seconds of all its requests together; ``limited_s``: those that all of them waited for the
    client's rate limit, None if not known.
    """
    cpu = in_flight = alone = 0.0
    beside: defaultdict[str, float] = defaultdict(float)
    for turn, used in zip(turns, cpu_s or [0.0] * len(turns), strict=True):
        split = _window(turn, used)
        cpu, in_flight, alone = cpu + split.cpu, in_flight + split.in_flight, alone + split.alone
        for actor, seconds in split.beside.items():
            beside[actor] += seconds
    limit = limited_s or 0.0
    # At a moment with requests at the API server and requests at the limiter, it is waited for both, in proportion.
    held = min(limit, in_flight * limit / (limit + requests_s) if limit > 0 else 0.0)
    gaps = alone + sum(beside.values())
    in_gaps = min(gaps, limit - held)
    rest = 1 - in_gaps / gaps if gaps > 0 else 0.0
    return Activity(
        cpu=cpu if cpu_s is not None else None,
        api=in_flight - held,
        limited=held + in_gaps if limited_s is not None else None,
        still=alone * rest,
        passed_on={actor: seconds * rest for actor, seconds in beside.items()},
    )


class _Split(NamedTuple):
    cpu: float
    in_flight: float
    alone: float
    beside: Mapping[str, float]


def _window(turn: Turns, used: float) -> _Split:
    """Take the CPU time out of a window's turns: first of what no request explains, then of the rest."""
    gaps = turn.alone + turn.shared
    cpu = min(used, gaps + turn.in_flight)
    in_gaps = min(cpu, gaps)
    left = 1 - in_gaps / gaps if gaps > 0 else 0.0
    return _Split(
        cpu=cpu,
        in_flight=turn.in_flight - (cpu - in_gaps),
        alone=turn.alone * left,
        beside={actor: seconds * left for actor, seconds in turn.beside.items()},
    )
