"""What grows with each cycle of deployment and deletion: memory, threads, open files, connections, watches, series.

An operator that keeps a kilobyte for each reconcile is killed for its memory after weeks; no single run shows it.

No false alarm: the first cycles fill caches and are left out; of at least four points the slope's whole interval (98 %)
has to be above what counts, most steps have to go up, and the second half has to grow like the first, which caches and
heaps that settle do not. A heap in use counts from 128 KiB for each cycle and 256 bytes for each reconcile on; the
memory of the process, which an allocator gives back late, only where all of the interval is above 512 KiB and a
kilobyte, and nearly straight.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from ..cycles import warm_up_of
from ..result import CycleResult, Finding
from ..scaling import Line, line
from .grouping import About, Aspect, Found
from .observed import Observed

ID = "cycles"

_ALPHA = 0.02
_LEAST_POINTS = 4
_STEPS_UP = 0.75
_SECOND_HALF = 0.35
"""Share of the growth that its second half has at least; a straight line has half."""
_HEAP_EACH_CYCLE = 128 << 10
_HEAP_EACH_RECONCILE = 256
_RSS_SECOND_HALF = 0.45
_RSS_EACH_CYCLE = 512 << 10
_RSS_EACH_RECONCILE = 1024
"""The bundled operator, which keeps nothing, grew by 640 kB (390 to 890) in each of six cycles: pages of its allocator,
fewer from cycle to cycle."""
_COUNT_EACH_CYCLE = 0.5


class _Quantity(NamedTuple):
    field: str
    what: str
    memory: bool = False
    of_process: bool = True
    """Whether the process holds it: what it holds of one kind, it mostly holds others of, too."""


_QUANTITIES = (  # causes before what follows from them
    _Quantity("watches", "open watches"),
    _Quantity("goroutines", "goroutines"),
    _Quantity("sockets", "connections"),
    _Quantity("files", "open files"),
    _Quantity("threads", "threads"),
    _Quantity("series", "series at its metrics endpoint", of_process=False),
    _Quantity("heap_bytes", "the heap in use", memory=True),
    _Quantity("rss_bytes", "memory (RSS)", memory=True),
)


def findings(seen: Observed) -> Iterator[Finding]:
    """Yield a finding for each quantity that grows with the cycles."""
    cycles = seen.test.cycles
    warm = warm_up_of(seen.contents)
    if len({cycle.pid for cycle in cycles}) != 1:
        return
    for quantity in _QUANTITIES:
        points = [(cycle.cycle, value) for cycle in cycles if (value := getattr(cycle, quantity.field)) is not None]
        later = [point for point in points if point[0] >= warm]
        if len(later) >= _LEAST_POINTS and (fitted := _grows(quantity, later, cycles)) is not None:
            yield _finding(seen, quantity, later, fitted, cycles)


def _grows(quantity: _Quantity, points: Sequence[tuple[int, int]], cycles: Sequence[CycleResult]) -> Line | None:
    across, up = [float(x) for x, _ in points], [float(y) for _, y in points]
    ups = sum(after > before for before, after in pairwise(up))
    grown = up[-1] - up[0]
    middle = up[len(up) // 2] if len(up) % 2 else (up[len(up) // 2 - 1] + up[len(up) // 2]) / 2
    of_process = quantity.field == "rss_bytes"
    straight = _RSS_SECOND_HALF if of_process else _SECOND_HALF
    if grown <= 0 or ups < _STEPS_UP * (len(up) - 1) or up[-1] - middle < straight * grown:
        return None
    fitted = line(across, up, _ALPHA)
    each = _reconciles_each(cycles) or 0.0
    if of_process:
        sure = fitted.low >= max(_RSS_EACH_CYCLE, _RSS_EACH_RECONCILE * each)
    elif quantity.memory:
        sure = fitted.low > 0 and fitted.slope >= max(_HEAP_EACH_CYCLE, _HEAP_EACH_RECONCILE * each)
    else:
        sure = fitted.low > 0 and fitted.slope >= _COUNT_EACH_CYCLE
    return fitted if sure else None


def _reconciles_each(cycles: Sequence[CycleResult]) -> float | None:
    counts = [cycle.reconciles for cycle in cycles if cycle.reconciles is not None]
    return (counts[-1] - counts[0]) / (len(counts) - 1) if len(counts) > 1 else None


def _finding(
    seen: Observed, quantity: _Quantity, points: Sequence[tuple[int, int]], fitted: Line, cycles: Sequence[CycleResult]
) -> Finding:
    shown = _size if quantity.memory else _number
    each = _reconciles_each(cycles)
    per_reconcile = f", {shown(fitted.slope / each)} for each reconcile" if each and quantity.memory else ""
    return Found(
        id=ID,
        severity="defect",
        about=About(aspect=Aspect.STATE, times=[(seen.begin, seen.end)] if quantity.of_process else ()),
        text=f"{quantity.what} grows by {shown(fitted.slope)} ({shown(fitted.low)} to {shown(fitted.high)}) with each"
        f" cycle of deployment and deletion{per_reconcile}",
        evidence=("after each cycle: " + ", ".join(shown(value) for _, value in points),),
    )


def _size(value: float) -> str:
    return f"{value / 1e6:,.2f} MB" if abs(value) >= 1e6 else f"{value / 1e3:,.3g} kB"


def _number(value: float) -> str:
    return f"{value:,.3g}"
