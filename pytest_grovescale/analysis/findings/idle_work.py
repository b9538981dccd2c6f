"""What the operator does while nothing changes: requests, reconciles, CPU.

Level-triggered controllers need no polling: watches deliver every change, and client-go's informers resync from their
own cache. What an idle operator costs is paid all day by every cluster that runs it, in proportion to its objects.

No false alarm: a window begins a second after the last milestone and the last change by anyone else, and lasts two at
least; a request counts when it comes in both halves, so that it does not end work from before. Leases, Events and
reviews have other rules.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

from ...exposition.families import parse
from ..api_requests import OBJECT_WRITES
from ..result import OPERATOR, Finding
from .observed import Observed, Sent, Window

ID = "idle-work"

_LEAST = 3
_RATE = 0.1
"""Requests a second from which on they are reported: a resync every ten seconds is not."""

_CORES = 0.1
_RECONCILES = "controller_runtime_reconcile_total"
_RECONCILES_PER_OBJECT = 1 / 30
"""Reconciles a second and object from which on they are reported: periodic ones have longer periods."""


def findings(seen: Observed) -> Iterator[Finding]:
    """Yield what the operator did in the longest idle windows."""
    if not seen.operator or not seen.idle_windows:
        return
    longest = seen.idle_windows[0]
    yield from _requests(seen)
    yield from filter(None, (_reconciles(seen, longest), _cpu(seen, longest)))


def _requests(seen: Observed) -> Iterator[Finding]:
    """Yield one finding for all that it asked, in the window in which it asked most."""
    best: tuple[float, Window, list[Sent]] | None = None
    for window in seen.idle_windows:
        sent = [one for one in seen.within(window) if one.category == "object" and one.verb != "watch"]
        halves = Counter(window.half(one.received) for one in sent)
        rate = len(sent) / window.seconds
        if min(halves[0], halves[1]) >= 1 and len(sent) >= _LEAST and rate >= _RATE and (not best or rate > best[0]):
            best = rate, window, sent
    if best is None:
        return
    rate, window, sent = best
    kinds = Counter(one.what for one in sent)
    writes = [one for one in sent if one.verb in OBJECT_WRITES]
    again = max(Counter(one.object for one in writes).values(), default=0)
    most = ", ".join(f"{number:,} {what}" for what, number in kinds.most_common(3))
    yield Finding(
        id=ID,
        severity="defect" if again >= _LEAST else "waste",
        text=f"while nothing changed for {window.seconds:.1f} s of {window.phase}, the operator sent"
        f" {len(sent):,} requests ({rate:.3g} a second): {most}",
        evidence=(
            *([f"one object was written {again:,} times"] if again >= _LEAST else []),
            *([period] if (period := _period(sent)) else []),
        ),
        check="noop_writes(max=0)" if writes else "noop_reads(max=0)",
    )


def _period(sent: list[Sent]) -> str:
    """Return the period of the most frequent request, in words; empty where it has none."""
    what, _ = Counter(one.what for one in sent).most_common(1)[0]
    times = sorted(one.received for one in sent if one.what == what)
    # Requests in one burst are one occasion.
    bursts = [at for at, before in zip(times, [0, *times], strict=False) if at - before > 200_000_000]
    gaps = sorted((after - before) / 1e9 for before, after in pairwise(bursts))
    if len(gaps) < 2 or gaps[-1] > 1.5 * gaps[0]:
        return ""
    return f"{what}: every {gaps[len(gaps) // 2]:.3g} s"


def _reconciles(seen: Observed, window: Window) -> Finding | None:
    target = seen.target
    if target is None:
        return None
    inside = [index for index, one in enumerate(target.moments) if window.start <= one.at <= window.end + 10**9]
    if len(inside) < 2:
        return None
    first, last = inside[0], inside[-1]
    seconds = (target.moments[last].at - target.moments[first].at) / 1e9
    if seconds < 1:
        return None
    grown: Counter[str] = Counter()
    for series in target.series:
        parts = parse(series)
        if parts.name == _RECONCILES:
            grown[parts.labels.get("controller", "")] += round(
                (target.value(series, last) or 0) - (target.value(series, first) or 0)
            )
    total = sum(grown.values())
    if total < _LEAST or total / seconds < max(_RATE, _RECONCILES_PER_OBJECT * seen.objects):
        return None
    most = ", ".join(f"{number:,} of {controller}" for controller, number in grown.most_common(3) if number)
    return Finding(
        id=ID,
        severity="waste",
        text=f"while nothing changed for {seconds:.1f} s of {window.phase}, there were {total:,} reconciles"
        f" ({total / seconds:.3g} a second): {most}",
        check="hot_loop()",
    )


def _cpu(seen: Observed, window: Window) -> Finding | None:
    reads = [one for one in seen.contents.reads.get(OPERATOR, []) if window.start <= one.at <= window.end]
    if len(reads) < 2 or len({one.pid for one in reads}) > 1:
        return None
    first, last = reads[0], reads[-1]
    seconds = (last.at - first.at) / 1e9
    used = (last.cpu_ns - first.cpu_ns) / 1e9
    if seconds < 2 or used / seconds < _CORES:
        return None
    return Finding(
        id=ID,
        severity="waste",
        text=f"while nothing changed for {seconds:.1f} s of {window.phase}, the operator used"
        f" {used / seconds:.3g} cores: {86_400 * used / seconds / 3600:.1f} hours of CPU a day",
        check="hot_loop()",
    )
