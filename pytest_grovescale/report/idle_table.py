"""Work while idle as a table: what the operator does although nothing changes, how regularly, and how much a day."""

from __future__ import annotations

from collections.abc import Iterator

from ..analysis.controller_result import IdleKind, IdleWindow
from ..analysis.result import TestResult
from .document import Block, Column, Heading, Line, Table, cell
from .format import bytes_, count, seconds, three

_SHOWN = 3
"""Windows with a row: the longest; result.json has all."""

_KINDS: tuple[tuple[str, tuple[IdleKind, ...]], ...] = (
    ("requests", ("object",)),
    ("Leases", ("lease",)),
    ("Events", ("event",)),
    ("reviews", ("review",)),
    ("other", ("watch", "nonresource")),
)
_ROWS = 5
_DAY_S = 86_400
_MANY = 1000


def idle(test: TestResult) -> Iterator[Block]:
    """Yield what was done in the longest idle windows, extrapolated; nothing without one."""
    if not test.idle:
        return
    shown = test.idle[:_SHOWN]
    allocations = any(one.allocated_bytes is not None for one in shown)
    yield Heading("Operator's work while nothing changes")
    names = ["window", "CPU", "reconciles", *(name for name, _ in _KINDS), *(["allocated"] if allocations else [])]
    yield Table(
        [Column("phase"), *(Column(name, figures=True) for name in names)],
        [_cells(one, allocations=allocations) for one in shown],
    )
    yield from (Line(text, "quiet") for text in _sentences(test))


def _cells(window: IdleWindow, *, allocations: bool) -> list[str]:
    reconciles = sum(one.count for one in window.reconciles) if window.reconciles else None
    return [
        window.phase,
        cell(window.seconds, seconds),
        cell(window.cpu_s, seconds),
        cell(reconciles, count),
        *(cell(sum(window.requests.get(kind, 0) for kind in kinds), count) for _, kinds in _KINDS),
        *([cell(window.allocated_bytes, bytes_)] if allocations else []),
    ]


def _sentences(test: TestResult) -> Iterator[str]:
    """Yield the extrapolation, what is periodic, and the periods that the windows were too short for."""
    windows = test.idle[:_SHOWN]
    main = next((one for one in windows if one.rested), windows[0])
    a_day = list(_a_day(main))
    kind = test.objects_resource.partition(".")[0] or "objects"
    if a_day:
        yield f"{main.phase}, a second: {', '.join(f'{three(rate)} {what}' for what, rate, _ in a_day)}"
        yield (
            f"a day at this rate, with {count(main.objects)} {kind}: "
            + ", ".join(f"{_rounded(rate * _DAY_S / unit)} {_unit(what, unit)}" for what, rate, unit in a_day)
            + (
                f"; for each {count(_MANY)}, if they grow with them: "
                + ", ".join(
                    f"{_rounded(rate * _DAY_S / unit / main.objects * _MANY)} {_unit(what, unit)}"
                    for what, rate, unit in a_day
                )
                if main.objects
                else ""
            )
        )
    periods = {row.what: row.period_s for one in windows for row in one.rows if row.period_s is not None}
    if periods:
        yield "regularly: " + ", ".join(f"{what} every {seconds(s)}" for what, s in list(periods.items())[:_ROWS])
    for one in main.reconciles:
        if one.objects and one.count >= 2 * one.objects:
            yield (
                f"{one.controller}: each of {count(one.objects)} every"
                f" {seconds(main.reconciles_window_s * one.objects / one.count)} on average"
            )
    yield f"work with a period above {seconds(test.idle[0].covers_s)} need not show in windows of this length"


def _a_day(window: IdleWindow) -> Iterator[tuple[str, float, int]]:
    """Yield what is done, its rate a second, and the unit of its sum over a day, in units of the rate."""
    if window.cpu_s is not None and window.cpu_window_s:
        yield "CPU seconds", window.cpu_s / window.cpu_window_s, 3600
    if window.reconciles_window_s and (made := sum(one.count for one in window.reconciles)):
        yield "reconciles", made / window.reconciles_window_s, 1
    if asked := sum(window.requests.values()):
        yield "requests of all kinds", asked / window.requests_window_s, 1


def _unit(what: str, unit: int) -> str:
    return what if unit == 1 else "hours of CPU"


def _rounded(number: float) -> str:
    return three(number) if number < _MANY else f"{float(f'{number:.3g}'):,.0f}"
