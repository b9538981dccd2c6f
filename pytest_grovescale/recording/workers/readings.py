"""The worker metrics of one controller at one scrape."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

import msgspec

from ...exposition.series import parse

_FIELDS = {
    "controller_runtime_active_workers": "active",
    "controller_runtime_max_concurrent_reconciles": "workers",
    "workqueue_depth": "depth",
    "workqueue_unfinished_work_seconds": "unfinished_s",
    "workqueue_longest_running_processor_seconds": "longest_s",
    "workqueue_work_duration_seconds_sum": "worked_s",
    "workqueue_work_duration_seconds_count": "worked",
}
_NAMES = tuple(_FIELDS)
_ALWAYS = frozenset(("unfinished_s", "longest_s"))
"""What every work queue serves from the start; the others may be absent until there is something to count."""


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """The worker metrics of one controller at one scrape."""

    at: int
    """Recorder's clock, ns."""
    phase: str
    """The phase that the scrape belongs to, edges included; empty between phases."""
    active: float | None = None
    workers: float | None = None
    """Both are None where the operator serves only its queues' metrics."""
    unfinished_s: float
    """Total time spent so far on all work in progress."""
    longest_s: float
    """Time spent so far on the oldest work in progress."""
    depth: float = 0.0
    """Keys that wait for a worker, of all priorities."""
    worked_s: float = 0.0
    """Total time spent on all finished work."""
    worked: float = 0.0
    """Number of finished work items."""


def tells(series: str) -> bool:
    """Return whether readings may use a series."""
    return series.startswith(_NAMES)


def readings_of(samples: Mapping[str, float], *, at: int, phase: str) -> dict[str, Reading]:
    """Return the reading of each controller, or of each work queue, by name, from the samples of one scrape."""
    found: dict[str, dict[str, float]] = defaultdict(dict)
    for text, value in samples.items():
        series = parse(text)
        field = _FIELDS.get(series.name)
        if field is not None:
            fields = found[series.labels.get("name") or series.labels.get("controller", "")]
            # A queue's depth has a series for each priority.
            fields[field] = fields.get(field, 0.0) + value
    return {name: Reading(at=at, phase=phase, **fields) for name, fields in found.items() if fields.keys() >= _ALWAYS}
