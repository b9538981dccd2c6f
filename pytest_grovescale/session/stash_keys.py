"""Keys of the plugin's data on pytest's own objects."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from ..checks.budgets import Declared
    from ..options import Settings
    from ..scenario.driver_protocol import Runs
    from .run import Run

SETTINGS: pytest.StashKey[Settings] = pytest.StashKey()
"""On the config: the options."""

MISTAKES = pytest.StashKey[list[str]]()
"""On the config: mistakes of users, found so far."""

RUN: pytest.StashKey[Run] = pytest.StashKey()
"""On the config: the session's run, from the first use of its fixtures or of an xdist worker on."""

RUNS: pytest.StashKey[Runs] = pytest.StashKey()
"""On the config: the comparison that has the session's test run again and again."""

BUDGET: pytest.StashKey[tuple[Declared, ...]] = pytest.StashKey()
"""On a test: its declared checks."""

FAULTS = pytest.StashKey[bool]()
"""On a test: whether its code calls ``scale.faults``."""

INFRASTRUCTURE = "grovescale_infrastructure"
"""Attribute of a report: true where a test was ended by its cluster, a build or the disk."""
