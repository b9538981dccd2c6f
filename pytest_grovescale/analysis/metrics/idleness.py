"""Whether a controller was idle at a scrape, by its own gauges, and how much work it can have in progress."""

from __future__ import annotations

from collections.abc import Iterator

from .history import TargetHistory
from .selectors import Selector

WORKERS = Selector("controller_runtime_max_concurrent_reconciles")

_IN_HAND = (
    Selector("controller_runtime_active_workers"),
    Selector("workqueue_depth"),
    Selector("workqueue_unfinished_work_seconds"),
)
"""All 0: no worker is active and no key waits. Delayed keys are not included; no metric counts them."""

_TAKEN_UP = (
    Selector("controller_runtime_reconcile_total"),
    Selector("controller_runtime_reconcile_errors_total"),
    Selector("workqueue_adds_total"),
)
"""All 0: no key was ever processed."""


def at_rest(target: TargetHistory) -> list[bool | None]:
    """Return for each scrape whether the controller was idle; None where its metrics do not show it.

    That needs active workers or unfinished work to be served, by controller-runtime or by client-go's queues.
    """
    gauges = [[target.values(series) for series in gauge.of(target.series)] for gauge in _IN_HAND]
    columns = [[_sum(values) for values in zip(*rows, strict=True)] if rows else [] for rows in gauges]
    active, depth, unfinished = (column or [None] * len(target.moments) for column in columns)
    return [_rest(*values) for values in zip(active, depth, unfinished, strict=True)]


def workers(target: TargetHistory, controller: str = "") -> list[float]:
    """Return the maximum concurrent reconciles at each scrape, of a controller or of all; 0 where not served."""
    chosen = [
        target.values(series)
        for series, parts in WORKERS.of(target.series).items()
        if not controller or parts.labels.get("controller") == controller
    ]
    by_scrape = zip(*chosen, strict=True) if chosen else [()] * len(target.moments)
    return [sum(value for value in values if value is not None) for values in by_scrape]


def _rest(active: float | None, depth: float | None, unfinished: float | None) -> bool | None:
    # client-go updates its gauge of unfinished work only every half second: the count of workers is better.
    busy = active if active is not None else unfinished
    return None if busy is None else busy == 0 and not depth


def _sum(values: tuple[float | None, ...]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def rests(target: TargetHistory) -> Iterator[int]:
    """Yield the scrapes at which it was idle; where its metrics do not show it, those at the phases' edges."""
    for scrape, (idle, moment) in enumerate(zip(at_rest(target), target.moments, strict=True)):
        if idle or (idle is None and moment.edge):
            yield scrape


def has_worked(target: TargetHistory, scrape: int) -> bool | None:
    """Return whether any key had been processed until a scrape, by its own counters; None where it serves none."""
    known = [
        value
        for counter in _TAKEN_UP
        for series in counter.of(target.series)
        if (value := target.value(series, scrape)) is not None
    ]
    return any(known) if known else None
