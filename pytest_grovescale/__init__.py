"""Scale tests for Kubernetes operators, as ordinary pytest tests.

What a test needs is here; everything else is a fixture (see ``fixtures.py``). Names are loaded at first use:
importing the package must cost nothing, since pytest does so for every project in the environment.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .scenario.conditions import all_of, any_of, count, field, gone, matching, timer
    from .scenario.scale import Scale

__version__ = "0.1.0"

__all__ = ["Scale", "all_of", "any_of", "count", "field", "gone", "matching", "timer"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = "scale" if name == "Scale" else "conditions"
    return getattr(import_module(f".scenario.{module}", __name__), name)
