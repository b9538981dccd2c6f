"""Attribution of each instant of a phase: split among the objects that wait, summed by the actor they wait for."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from .clocks import Window
from .waits import Wait, Waits

OPERATOR = "operator"


class Turns(NamedTuple):
    """Seconds of one window by actor; all of them add up to the window."""

    in_flight: float
    """The operator's, while at least one of its requests was under way."""
    alone: float
    """The operator's, with none of its requests under way and nothing else waited for."""
    shared: float
    """The operator's, with none of its requests under way, while others were waited for, too."""
    beside: dict[str, float]
    """Actor → its part of `shared`, split among these others."""
    others: dict[str, float]
    """Actor → seconds that were its own."""
    others_in_flight: dict[str, float]
    """The part of `others` in which at least one request of that actor was under way."""
    idle: float
    """Nothing was waited for."""


class _Event(NamedTuple):
    at: int
    kind: int
    """0: counted objects, 1: named objects, 2: requests under way."""
    actor: str
    change: int


def turns(
    waits: Waits,
    actors: Mapping[str, str],
    in_flight: Mapping[str, Iterable[tuple[int, int]]],
    windows: Sequence[Window],
) -> list[Turns]:
    """Return the turns of each window. ``actors``: user → actor; any other user is its own actor.

    ``in_flight``: actor → its requests, (start, end) in ns. ``windows`` follow each other without gaps.
    """
    events = sorted(
        [*_events(waits.counted, 0, actors), *_events(waits.named, 1, actors), *_spans(in_flight)],
        key=lambda event: event.at,
    )
    waiting: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
    under_way: Counter[str] = Counter()
    position, found = 0, []
    for window in windows:
        tally = _Tally()
        now = window.low
        while True:
            while position < len(events) and events[position].at <= now:
                event = events[position]
                if event.kind == 2:
                    under_way[event.actor] += event.change
                else:
                    waiting[event.kind][event.actor] += event.change
                position += 1
            until = min(window.high, events[position].at if position < len(events) else window.high)
            tally.add(until - now, waiting[0] if any(waiting[0].values()) else waiting[1], under_way)
            now = until
            if now >= window.high:
                break
        found.append(tally.turns())
    return found


class _Tally:
    """Adds up one window."""

    def __init__(self) -> None:
        self._in_flight = self._alone = self._shared = self._idle = 0.0
        self._beside: defaultdict[str, float] = defaultdict(float)
        self._others: defaultdict[str, float] = defaultdict(float)
        self._others_in_flight: defaultdict[str, float] = defaultdict(float)

    def add(self, ns: int, waiting: Counter[str], under_way: Counter[str]) -> None:
        seconds, total = ns / 1e9, waiting.total()
        if not total:
            self._idle += seconds
            return
        others = {actor: count for actor, count in waiting.items() if count and actor != OPERATOR}
        for actor, count in others.items():
            self._others[actor] += seconds * count / total
            if under_way[actor]:
                self._others_in_flight[actor] += seconds * count / total
        own = seconds * waiting[OPERATOR] / total
        if under_way[OPERATOR]:
            self._in_flight += own
        elif not others:
            self._alone += own
        else:
            self._shared += own
            for actor, count in others.items():
                self._beside[actor] += own * count / sum(others.values())

    def turns(self) -> Turns:
        return Turns(
            self._in_flight,
            self._alone,
            self._shared,
            dict(self._beside),
            dict(self._others),
            dict(self._others_in_flight),
            self._idle,
        )


def _events(waits: Iterable[Wait], kind: int, actors: Mapping[str, str]) -> Iterable[_Event]:
    for wait in waits:
        actor = actors.get(wait.user, wait.user)
        yield _Event(wait.start, kind, actor, 1)
        yield _Event(wait.end, kind, actor, -1)


def _spans(in_flight: Mapping[str, Iterable[tuple[int, int]]]) -> Iterable[_Event]:
    for actor, spans in in_flight.items():
        for start, end in spans:
            yield _Event(start, 2, actor, 1)
            yield _Event(end, 2, actor, -1)
