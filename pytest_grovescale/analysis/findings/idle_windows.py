"""What the operator did in the times in which nothing changed but by itself: requests, reconciles, CPU, allocations."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import get_args

from ..controller_result import IdleController, IdleKind, IdleRow, IdleWindow
from ..metrics.history import TargetHistory
from ..reconciles import objects_of
from ..result import OPERATOR
from .evidence import Sent, Span, Window
from .observed import QUIET_NS, Observed

_MOST = 20
"""Windows kept: the longest."""

_BURST_NS = 200_000_000
"""Time between two requests up to which they are of one burst."""

_REGULAR_INSIDE = 1.5
"""Longest / shortest time between bursts up to which they are regular, of three bursts or more in one window."""
_REGULAR_ALWAYS, _BURSTS_ALWAYS = 1.15, 5
"""The same over the whole run, where work comes between: of so many bursts or more."""

_BURSTS_BESIDE = 3
"""Bursts from which on what also comes at triggers comes without them."""

_ALLOCATED = (
    "go_memstats_alloc_bytes_total",
    "jvm_gc_memory_allocated_bytes_total",
    "dotnet_gc_heap_total_allocated_bytes_total",
)
"""Counters of all bytes that were ever allocated, of the usual clients; that of Python has none."""


def idle_windows_of(seen: Observed) -> tuple[IdleWindow, ...]:
    """Return what the operator did in its idle windows, the longest first; nothing without an operator of its own."""
    if not seen.operator:
        return ()
    always = _times(seen.own)
    return tuple(_measured(seen, window, always) for window in seen.idle_windows[:_MOST])


def _measured(seen: Observed, window: Window, always: Mapping[str, Sequence[int]]) -> IdleWindow:
    span = next(one for one in seen.spans if one.start <= window.start and window.end <= one.end)
    begin = window.start + (QUIET_NS if window.rested else 0)
    sent = [one for one in seen.within(window) if one.received >= begin]
    kinds = Counter(kind_of(one) for one in sent)
    cpu_s, cpu_window_s = _cpu(seen, window)
    reconciles, allocated, scraped_s = _scraped(seen, window, span)
    return IdleWindow(
        phase=window.phase,
        start_s=(window.start - span.start) / 1e9,
        seconds=window.seconds,
        rested=window.rested,
        objects=_objects(seen, window.end),
        requests={kind: kinds[kind] for kind in get_args(IdleKind)},
        requests_window_s=(window.end - begin) / 1e9,
        rows=_rows(sent, always, (window.end - begin) / 1e9),
        cpu_s=cpu_s,
        cpu_window_s=cpu_window_s,
        reconciles=reconciles,
        reconciles_window_s=scraped_s,
        allocated_bytes=allocated,
    )


def kind_of(one: Sent) -> IdleKind:
    """Return the kind of a request; a watch is one whatever it is of."""
    kinds: dict[str, IdleKind] = {kind: kind for kind in get_args(IdleKind)}
    return "watch" if one.verb == "watch" else kinds[one.category]


def _times(sent: Sequence[Sent]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = defaultdict(list)
    for one in sent:
        found[one.what].append(one.received)
    return found


def _rows(sent: Sequence[Sent], always: Mapping[str, Sequence[int]], seconds: float) -> tuple[IdleRow, ...]:
    """Return what was sent in a window of that length; ``always``: request → its times in the whole run."""
    kinds = {one.what: kind_of(one) for one in sent}
    rows = [
        IdleRow(
            what=what,
            kind=kinds[what],
            count=len(times),
            bursts=len(bursts(times)),
            period_s=_period_of_window(bursts(times), bursts(always.get(what, ())), seconds),
        )
        for what, times in _times(sent).items()
    ]
    return tuple(sorted(rows, key=lambda row: (-row.count, row.what)))


def bursts(times: Sequence[int], together_ns: int = _BURST_NS) -> list[int]:
    """Return the first moment of each burst, ns; ``together_ns``: time up to which two requests are of one."""
    ordered = sorted(times)
    return ordered[:1] + [now for before, now in pairwise(ordered) if now - before > together_ns]


def _period(moments: Sequence[int], fewest: int, regular: float) -> float | None:
    gaps = sorted((after - before) / 1e9 for before, after in pairwise(moments))
    if len(moments) < fewest or gaps[-1] > regular * gaps[0]:
        return None
    return gaps[len(gaps) // 2]


def _period_of_window(inside: Sequence[int], always: Sequence[int], seconds: float) -> float | None:
    """Return the period of bursts inside a window of that length, or of all in the run, if it fills the window.

    Fewer are the end of a time of work, as of a client that limits its own rate: regular, and soon over.
    """
    period = _period(inside, 3, _REGULAR_INSIDE) or _period(always, _BURSTS_ALWAYS, _REGULAR_ALWAYS)
    return period if period is not None and len(inside) + 1 >= seconds / period else None


def comes_regularly(times: Sequence[int], besides: Sequence[tuple[int, int]]) -> bool:
    """Return whether requests come at regular intervals in the whole run; three bursts of them beside some times."""
    moments = bursts(times)
    others = sum(not any(start <= at < end for start, end in besides) for at in moments)
    return others >= _BURSTS_BESIDE and _period(moments, _BURSTS_ALWAYS, _REGULAR_ALWAYS) is not None


def _objects(seen: Observed, at: int) -> int:
    of_test = seen.lives.get(seen.test.objects_resource)
    chosen = [of_test] if of_test is not None else seen.lives.values()
    return max((sum(life.exists(at) for life in lives) for lives in chosen), default=0)


def _cpu(seen: Observed, window: Window) -> tuple[float | None, float]:
    """Return CPU seconds between the first and the last read of its clock, and the time between the two."""
    reads = [one for one in seen.contents.reads.get(OPERATOR, []) if window.start <= one.at <= window.end]
    if len(reads) < 2 or len({one.pid for one in reads}) > 1:
        return None, 0.0
    return (reads[-1].cpu_ns - reads[0].cpu_ns) / 1e9, (reads[-1].at - reads[0].at) / 1e9


def scrapes_of(target: TargetHistory, window: Window, span: Span) -> list[int]:
    """Return the scrapes in a window. A phase's edges are scraped just before it begins and just after its end."""
    edges = {f"start:{window.phase}"} if window.start == span.start else set()
    edges |= {f"end:{window.phase}"} if window.end == span.end else set()
    return [
        index
        for index, one in enumerate(target.moments)
        if one.phase == window.phase and (one.edge in edges or window.start <= one.at <= window.end)
    ]


def _scraped(seen: Observed, window: Window, span: Span) -> tuple[tuple[IdleController, ...], int | None, float]:
    """Return reconciles by controller, allocated bytes, and the seconds between the two scrapes that show them."""
    target = seen.target
    scrapes = scrapes_of(target, window, span) if target is not None else []
    if target is None or len(scrapes) < 2:
        return (), None, 0.0
    first, last = scrapes[0], scrapes[-1]
    grown: Counter[str] = Counter()
    for series, controller in seen.reconcile_counters.items():
        now = target.value(series, last)
        if now is not None:
            by = now - (target.value(series, first) or 0.0)
            if by < 0:
                return (), None, 0.0  # another process
            grown[controller] += round(by)
    controllers = tuple(
        IdleController(
            controller=controller,
            count=count,
            objects=objects_of(seen.contents, controller, window.start, window.end),
        )
        for controller, count in sorted(grown.items())
    )
    return controllers, _allocated(target, first, last), (target.moments[last].at - target.moments[first].at) / 1e9


def _allocated(target: TargetHistory, first: int, last: int) -> int | None:
    found = [
        now - before
        for series in target.series
        if series.partition("{")[0] in _ALLOCATED
        and (before := target.value(series, first)) is not None
        and (now := target.value(series, last)) is not None
    ]
    return round(sum(found)) if found and min(found) >= 0 else None
