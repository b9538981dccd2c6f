"""What the operator does while nothing changes: requests, reconciles, CPU.

Level-triggered controllers need no polling: watches deliver every change, and client-go's informers resync from their
own cache. What an idle operator costs is paid all day by every cluster that runs it, in proportion to its objects. A
timer that each reconcile starts, and that no later one replaces, costs more with each change
(https://github.com/dotnet/dotnet-operator-sdk/issues/585, https://github.com/elastic/cloud-on-k8s/issues/1984).

No false alarm: a window begins a second after the last milestone and the last change by anyone else, and lasts two at
least; requests count when they come in both halves and do not subside, so that they do not end work from before, or
when they come regularly in the whole run. Reconciles count when there were two for each object of the controller's
kind (three, where only the times between phases show them), or as many in one window as in another: one late pass over
all objects is neither. Timers count where the same request for one object comes again after the same time in two quiet
times, the later of them with more in between, of three objects, and of none with fewer. CPU counts of a window 15 s
after the operator's start, if there is one. Leases, Events and reviews have other rules.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from statistics import median

from ...recording.records import WRITES
from ..controller_result import IdleController, IdleRow, IdleWindow
from ..reconciles import objects_of
from ..result import OPERATOR, Finding
from .evidence import ObjectId, Sent, Window
from .grouping import About, Aspect, Found
from .idle_windows import bursts
from .observed import Observed
from .observed_requests import is_for_objects

ID = "idle-work"

_LEAST = 3
_RATE = 0.1
"""Requests a second from which on they are waste: a resync every ten seconds is not, but worth a note."""

_SUBSIDES = 3
"""Requests in a window's first half for one in its second, from which on they may be the end of earlier work."""

_CORES = 0.1
_WARM_NS = 15_000_000_000
"""Time after the operator's start whose CPU is taken only where there is no other, ns."""
_PASSES = 2
"""Reconciles of each object in one window from which on they go on."""
_LONG_S = 30
"""Seconds between two reconciles of one object from which on they are a note."""
_ALIKE = 2
"""Ratio of the rates of two windows up to which the work is the same in both."""

_TIMERS = 16
"""Timers of one object up to which they are counted."""
_TOGETHER_NS = 50_000_000
"""Time between two requests for one object up to which they are of one reconcile, ns."""
_ON_TIME = 0.05
"""Share of its period by which a timer may be early or late."""
_LATEST = 40
"""Requests for one object that its timers are known by: over longer times they drift into each other."""
_SEVERAL = 3
"""Timers of one object from which on they are not two that it was meant to have."""
_SAME_PERIOD = 0.1
_GROWING = 3
"""Objects that have more timers than before, from which on each change starts one."""

_PERIODS = 4
"""Periods of an idle window from which on it shows what comes regularly."""

_DAY_S = 86_400
_MANY = 1000


def findings(seen: Observed) -> Iterator[Finding]:
    """Yield what the operator did in its idle windows."""
    if not seen.operator:
        return
    yield from _timers(seen)
    if not seen.idle_windows:
        return
    yield from _requests(seen)
    yield from filter(None, (_reconciles(seen), _cpu(seen)))


def _requests(seen: Observed) -> Iterator[Finding]:
    """Yield one finding for all that it asked, in the window in which it asked most; else one for what is regular."""
    best: tuple[float, Window, list[Sent]] | None = None
    for window in seen.idle_windows:
        sent = [one for one in seen.within(window) if is_for_objects(one)]
        halves = Counter(window.half(one.received) for one in sent)
        goes_on = halves[1] >= 1 and halves[0] >= 1 and _SUBSIDES * halves[1] >= halves[0]
        rate = len(sent) / window.seconds
        if seen.catches_up(window.start, window.end):
            continue
        if goes_on and len(sent) >= _LEAST and rate >= _RATE and (not best or rate > best[0]):
            best = rate, window, sent
    regular = _regular(seen.test.idle)
    if best is None:
        yield from _periodic(seen, regular)
        return
    rate, window, sent = best
    kinds = Counter(one.what for one in sent)
    writes = [one for one in sent if one.verb in WRITES]
    again = max(Counter(one.object for one in writes).values(), default=0)
    most = ", ".join(f"{number:,} {what}" for what, number in kinds.most_common(3))
    yield Found(
        id=ID,
        severity="defect" if again >= _LEAST else "waste",
        about=_of(seen),
        text=f"while nothing else changed for {window.seconds:.1f} s of {window.phase}, the operator sent"
        f" {len(sent):,} requests ({rate:.3g} a second): {most}",
        evidence=(
            *([f"one object was written {again:,} times"] if again >= _LEAST else []),
            *(f"{what}: every {regular[what]:.3g} s" for what, _ in kinds.most_common(3) if what in regular),
            a_day(rate, "requests", seen),
            uncovered(seen.test.idle),
        ),
        check="noop_writes(max=0)" if writes else "idle_requests(max=0)",
    )


def _timers(seen: Observed) -> Iterator[Finding]:
    """Yield the request that comes from more timers for each object the later it is: each change starts one."""
    beats: dict[str, dict[ObjectId, list[tuple[int, float]]]] = defaultdict(lambda: defaultdict(list))
    for start, end in seen.quiet_times:
        times: dict[tuple[str, ObjectId], list[int]] = defaultdict(list)
        for one in seen.requests_in(start, end):
            if one.name:
                times[one.what, one.object].append(one.received)
        for (what, of), moments in times.items():
            if (beat := _beat(bursts(moments, _TOGETHER_NS)[-_LATEST:])) is not None:
                beats[what][of].append(beat)
    for what, objects in beats.items():
        pairs = [(each[0], each[-1]) for each in objects.values() if _alike(each[0][1], each[-1][1])]
        more = [(first[0], last[0]) for first, last in pairs if last[0] > first[0]]
        fewer = any(last[0] < first[0] for first, last in pairs)
        if len(more) < _GROWING or fewer or median(last for _, last in more) < _SEVERAL:
            continue
        before, now = median(old for old, _ in more), median(new for _, new in more)
        period = median(last[1] for _, last in pairs)
        yield Found(
            id=ID,
            severity="defect",
            about=About(aspect=Aspect.ACTION, requests=seen.own_of([what])),
            text=f"{what} comes from {now:.0f} timers for each object, each every {period:.3g} s, and came from"
            f" {before:.0f} before: each change starts one more, and none ends",
            evidence=(f"of {len(more):,} objects this is known, at times in which nothing changed",),
            check="idle_requests(max=0)",
        )
        return


def _beat(moments: Sequence[int]) -> tuple[int, float] | None:
    """Return how many timers requests come from, and their period, s: as many later, each comes again after the same
    time, twice at least; None where they do not.
    """
    for number in range(1, min(_TIMERS, (len(moments) - 1) // 2) + 1):
        gaps = [after - before for before, after in zip(moments, moments[number:], strict=False)]
        period = median(gaps)
        if all(abs(gap - period) <= _ON_TIME * period for gap in gaps):
            return number, period / 1e9
    return None


def _alike(period: float, other: float) -> bool:
    return abs(period - other) <= _SAME_PERIOD * period


def _regular(windows: Sequence[IdleWindow]) -> dict[str, float]:
    """Return request → its period, s, of requests for objects that come regularly; by the longest window that shows it.

    Of a burst of requests that differ, each has the same period. What another window with objects would have shown, and
    did not, is work that was left, one after the other.
    """
    regular: dict[str, float] = {}
    for window in windows:
        for row in window.rows:
            if row.kind == "object" and row.period_s is not None and not _stops(row, row.period_s, windows):
                regular.setdefault(row.what, row.period_s)
    return regular


def _stops(of: IdleRow, period_s: float, windows: Sequence[IdleWindow]) -> bool:
    """Return whether there is an idle window, with objects, of several periods in which such a request never came."""
    return any(
        window.objects
        and window.requests_window_s >= _PERIODS * period_s
        and of.what not in {row.what for row in window.rows}
        for window in windows
    )


def _periodic(seen: Observed, regular: dict[str, float]) -> Iterator[Finding]:
    if not regular:
        return
    counts = {what: len(bursts([one.received for one in seen.own if one.what == what])) for what in regular}
    rate = sum(1 / period for period in regular.values())
    named = ", ".join(f"{what} every {period:.3g} s" for what, period in list(regular.items())[:3])
    yield Found(
        id=ID,
        severity="waste" if rate >= _RATE else "note",
        about=About(aspect=Aspect.AMOUNT, requests=seen.own_of(regular)),
        text=f"the operator works at regular intervals, whether anything changes or not: {named}",
        evidence=(
            *(f"{what}: {counts[what]:,} times in the run" for what in list(regular)[:3]),
            a_day(rate, "requests", seen),
            uncovered(seen.test.idle),
        ),
        check="idle_requests(max=0)",
    )


def _reconciles(seen: Observed) -> Finding | None:
    """Return the controllers that go on reconciling, by the longest window whose reconciles were counted."""
    windows = [window for window in seen.test.idle if window.reconciles]
    going = [one for one in windows[0].reconciles if _goes_on(seen, one, windows)] if windows else []
    if going:
        seconds, where = windows[0].reconciles_window_s, f" of {windows[0].phase}"
    else:
        going, seconds, where = _between_phases(seen), seen.quiet_reconciles[1], ""
    if not going:
        return None
    total = sum(one.count for one in going)
    periods = {one.controller: seconds * max(1, one.objects or 1) / one.count for one in going}
    going.sort(key=lambda one: -one.count)
    most = ", ".join(f"{one.count:,} of {one.controller}" for one in going[:3])
    return Found(
        id=ID,
        severity="waste" if min(periods.values()) <= _LONG_S else "note",
        about=_of(seen),
        text=f"while nothing changed for {seconds:.1f} s{where}, there were {total:,} reconciles"
        f" ({total / seconds:.3g} a second): {most}",
        evidence=(
            *(
                f"{one.controller}: each of {one.objects:,} object{'s' * (one.objects != 1)} every"
                f" {periods[one.controller]:.3g} s on average"
                for one in going[:3]
                if one.objects
            ),
            a_day(total / seconds, "reconciles", seen),
            uncovered(seen.test.idle),
        ),
        check="hot_loop()",
    )


def _between_phases(seen: Observed) -> list[IdleController]:
    """Return the controllers that go on in all quiet times together: most scrapes of these are between phases."""
    counts, _ = seen.quiet_reconciles
    return [
        IdleController(
            controller=controller,
            count=counts[controller],
            objects=objects_of(seen.contents, controller, seen.begin, seen.end),
        )
        for controller in sorted(seen.go_on)
    ]


def _goes_on(seen: Observed, of: IdleController, windows: Sequence[IdleWindow]) -> bool:
    """Return whether a controller's reconciles of the longest window are not the end of earlier work."""
    objects = seen.objects_reconciled(of.controller) if of.objects is None else max(1, of.objects)
    if of.count < _LEAST:
        return False
    if of.count >= _PASSES * objects:
        return True
    rate = of.count / windows[0].reconciles_window_s
    others = [
        one.count / window.reconciles_window_s
        for window in windows[1:]
        for one in window.reconciles
        if one.controller == of.controller and one.count >= _LEAST
    ]
    return any(rate / _ALIKE <= other <= rate * _ALIKE for other in others)


def _of(seen: Observed) -> About:
    """Return what a finding of idle times is about: what the operator asked in them, else the times themselves."""
    windows = seen.idle_windows
    sent = [one for window in windows for one in seen.within(window) if is_for_objects(one)]
    return About(aspect=Aspect.AMOUNT, requests=sent, times=[(window.start, window.end) for window in windows])


def _cpu(seen: Observed) -> Finding | None:
    windows = seen.test.idle
    known = [one for one in windows if one.cpu_s is not None]
    window = min(known, key=lambda one: (_warms_up(seen, one), not one.rested), default=None)
    if window is None or window.cpu_s is None or window.cpu_window_s < 2:
        return None
    cores = window.cpu_s / window.cpu_window_s
    if cores < _CORES:
        return None
    return Found(
        id=ID,
        severity="waste",
        about=_of(seen),
        text=f"while nothing changed for {window.cpu_window_s:.1f} s of {window.phase}, the operator used"
        f" {cores:.3g} cores: {_DAY_S * cores / 3600:.1f} hours of CPU a day",
        evidence=(uncovered(windows),),
        check="idle_cpu(max=…)",
    )


def _warms_up(seen: Observed, window: IdleWindow) -> bool:
    """Return whether a window begins soon after the operator's start: a JVM still compiles what it runs."""
    begin = next(one.start for one in seen.spans if one.phase.name == window.phase) + round(window.start_s * 1e9)
    starts = (one.at - one.ran_ns for (process, _), one in seen.contents.seen.items() if process == OPERATOR)
    return any(0 <= begin - start < _WARM_NS for start in starts)


def a_day(rate: float, what: str, seen: Observed) -> str:
    """Return in words what a rate comes to in a day: with the objects of the run, and with a thousand."""
    day = rate * _DAY_S
    if seen.test.objects:
        number, resource = seen.test.objects, seen.test.objects_resource
    else:
        number, resource = max((len(lives), resource) for resource, lives in [*seen.lives.items(), ("objects", [])])
    number = max(1, number)
    many = _rounded(day * _MANY / number)
    return (
        f"at this rate {_rounded(day)} {what} a day with {number:,} {resource.partition('.')[0]}; {many} for each"
        f" {_MANY:,}, if they"
        " grow with them"
    )


def _rounded(number: float) -> str:
    """Return a large number with three digits that count: ``17,300``."""
    return f"{float(f'{number:.3g}'):,.0f}"


def uncovered(windows: Sequence[IdleWindow]) -> str:
    """Return in words which periods the idle windows were too short for."""
    longest = windows[0]
    return (
        f"work with a period above {longest.covers_s:.3g} s need not show: the longest idle window lasted"
        f" {longest.seconds:.3g} s"
    )
