"""Keys of the plugin's data on pytest's own objects."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from ..checks.budgets import Declared

BUDGET = pytest.StashKey[tuple["Declared", ...]]()
"""On a test: its declared checks."""

INFRASTRUCTURE = "grovescale_infrastructure"
"""Attribute of a report: true where a test was ended by its cluster, a build or the disk."""
