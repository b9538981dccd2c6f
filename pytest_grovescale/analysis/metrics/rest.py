"""Whether a controller was at rest when it was scraped, by its own gauges, and how much it can have in hand."""

from __future__ import annotations

from collections.abc import Iterator

from .history import TargetHistory
from .selection import Selector

WORKERS = Selector("controller_runtime_max_concurrent_reconciles")

_IN_HAND = (
    Selector("controller_runtime_active_workers"),
    Selector("workqueue_depth"),
    Selector("workqueue_unfinished_work_seconds"),
)
"""All 0: nobody works, and nothing waits. Keys with a delay wait unseen; a count of theirs is nowhere served."""

_TAKEN_UP = (
    Selector("controller_runtime_reconcile_total"),
    Selector("controller_runtime_reconcile_errors_total"),
    Selector("workqueue_adds_total"),
)
"""All 0: nothing was ever worked on."""


def at_rest(target: TargetHistory) -> list[bool | None]:
    """Return for each scrape whether nothing was being worked on and nothing waited; None where it does not tell.

    Workers or work in progress have to be served for that, by controller-runtime or by client-go's queues.
    """
    gauges = [[target.values(series) for series in gauge.of(target.series)] for gauge in _IN_HAND]
    columns = [[_sum(values) for values in zip(*rows, strict=True)] if rows else [] for rows in gauges]
    active, depth, unfinished = (column or [None] * len(target.moments) for column in columns)
    return [_rest(*values) for values in zip(active, depth, unfinished, strict=True)]


def workers(target: TargetHistory, controller: str = "") -> list[float]:
    """Return how many reconciles may run at once at each scrape, of a controller or of all; 0 where it is not told."""
    chosen = [
        target.values(series)
        for series, parts in WORKERS.of(target.series).items()
        if not controller or parts.labels.get("controller") == controller
    ]
    found = zip(*chosen, strict=True) if chosen else [()] * len(target.moments)
    return [sum(value for value in values if value is not None) for values in found]


def _rest(active: float | None, depth: float | None, unfinished: float | None) -> bool | None:
    # client-go renews its gauge of unfinished work only every half second: the count of workers is the better one.
    told = active if active is not None else unfinished
    return None if told is None else told == 0 and not depth


def _sum(values: tuple[float | None, ...]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def rests(target: TargetHistory) -> Iterator[int]:
    """Yield the scrapes at which it was at rest; where it does not tell, those at the phases' edges."""
    for scrape, (told, moment) in enumerate(zip(at_rest(target), target.moments, strict=True)):
        if told or (told is None and moment.edge):
            yield scrape


def has_worked(target: TargetHistory, scrape: int) -> bool | None:
    """Return whether anything had been taken up until a scrape, by its own counts; None where it does not count."""
    known = [
        value
        for counter in _TAKEN_UP
        for series in counter.of(target.series)
        if (value := target.value(series, scrape)) is not None
    ]
    return any(known) if known else None
