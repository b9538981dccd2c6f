"""Scale tests for Kubernetes operators, as ordinary pytest tests.

The names that tests import are here; the rest are fixtures (see ``fixtures.py``). Names are loaded at first use:
importing the package must cost nothing, since pytest does so for every project in the environment.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .checks.bundle import grep498
    from .checks.shape import (
        api_requests,
        coexistence,
        conflict_rate,
        counter_resets,
        cpu,
        error_ratio,
        function_name_labels,
        histogram_buckets,
        hot_loop,
        initialised,
        invariant,
        labels,
        metric_names,
        milestone,
        no_blocked_workers,
        no_builtin_duplicates,
        noop_cpu,
        noop_reads,
        noop_reconciles,
        noop_writes,
        rss,
        scales,
        series,
        series_growth,
        simulated_nodes_only,
    )
    from .scenario.conditions import all_of, any_of, count, field, gone, matching, timer
    from .scenario.scale import Scale

__version__ = "0.1.0"

__all__ = [
    "Scale",
    "all_of",
    "any_of",
    "api_requests",
    "coexistence",
    "conflict_rate",
    "count",
    "counter_resets",
    "cpu",
    "error_ratio",
    "field",
    "function_name_labels",
    "gone",
    "grep498",
    "histogram_buckets",
    "hot_loop",
    "initialised",
    "invariant",
    "labels",
    "matching",
    "metric_names",
    "milestone",
    "no_blocked_workers",
    "no_builtin_duplicates",
    "noop_cpu",
    "noop_reads",
    "noop_reconciles",
    "noop_writes",
    "rss",
    "scales",
    "series",
    "series_growth",
    "simulated_nodes_only",
    "timer",
]

_CONDITIONS = ("all_of", "any_of", "count", "field", "gone", "matching", "timer")
_MODULES = {
    "Scale": "scenario.scale",
    "grep498": "checks.bundle",
    **dict.fromkeys(_CONDITIONS, "scenario.conditions"),
}
"""Modules of the names; all others are checks."""


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_MODULES.get(name, 'checks.shape')}", __name__), name)
