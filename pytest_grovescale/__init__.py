"""Scale tests for Kubernetes operators, as ordinary pytest tests.

What a test needs is here; everything else is a fixture (see ``fixtures.py``). Names are loaded at first use:
importing the package must cost nothing, since pytest does so for every project in the environment.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .checks.shape import (
        api_requests,
        cpu,
        hot_loop,
        milestone,
        noop_cpu,
        noop_reads,
        noop_reconciles,
        noop_writes,
        rss,
    )
    from .scenario.conditions import all_of, any_of, count, field, gone, matching, timer
    from .scenario.scale import Scale

__version__ = "0.1.0"

__all__ = [
    "Scale",
    "all_of",
    "any_of",
    "api_requests",
    "count",
    "cpu",
    "field",
    "gone",
    "hot_loop",
    "matching",
    "milestone",
    "noop_cpu",
    "noop_reads",
    "noop_reconciles",
    "noop_writes",
    "rss",
    "timer",
]

_CONDITIONS = {"all_of", "any_of", "count", "field", "gone", "matching", "timer"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = "scenario.scale" if name == "Scale" else "scenario.conditions" if name in _CONDITIONS else "checks.shape"
    return getattr(import_module(f".{module}", __name__), name)
