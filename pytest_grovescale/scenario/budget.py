"""What a test is held to, and what an inconclusive check does to it."""

from __future__ import annotations

from typing import Literal, NamedTuple

from ..analysis.result import CheckResult
from ..checks.baseline import Baselines, no_baselines
from ..checks.budgets import Declared

Inconclusive = Literal["fail", "warn"]

TEST = "test"
"""Source of the checks that a test makes by itself, with ``scale.check``."""


class Budget(NamedTuple):
    """The checks of a test's marker and of ``budgets.yaml``, judged when it has run."""

    declared: tuple[Declared, ...] = ()
    enforced: bool = True
    """Otherwise they are judged and reported, and fail nothing."""
    inconclusive: Inconclusive = "fail"
    baselines: Baselines = no_baselines

    def fails(self, found: CheckResult) -> bool:
        """Return whether a verdict fails the test."""
        tolerated = ("pass", "inconclusive") if self.inconclusive == "warn" else ("pass",)
        return self.enforced and found.verdict not in tolerated


NO_BUDGET = Budget()
