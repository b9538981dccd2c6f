"""Scale tests for Kubernetes operators, as ordinary pytest tests.

A test uses fixtures (see ``fixtures.py``), `conditions` for its milestones and `checks` for its bounds. Names are
loaded at first use: pytest imports the package in every project of the environment, so the import must cost nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import checks as checks
    from .scenario import conditions as conditions
    from .scenario.scale import Scale as Scale

__version__ = "0.1.0"

__all__ = ["Scale", "checks", "conditions"]


def __getattr__(name: str) -> Any:
    match name:
        case "Scale":
            return import_module(".scenario.scale", __name__).Scale
        case "checks":
            return import_module(".checks", __name__)
        case "conditions":
            return import_module(".scenario.conditions", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
