"""What a test is held to, and what an inconclusive check does to it."""

from __future__ import annotations

from typing import Literal, NamedTuple

from ..analysis.result import CheckResult
from ..checks.budgets import Declared
from ..checks.run import Baselines, no_baselines

Inconclusive = Literal["fail", "warn"]

TEST = "test"
"""Source of the checks that a test makes by itself, with ``scale.check``."""


class Budget(NamedTuple):
    """The checks of a test's marker and of ``budgets.yaml``, judged when it has run."""

    declared: tuple[Declared, ...] = ()
    enforced: bool = True
    """Otherwise they are judged and reported, and fail nothing. A check that the test makes itself always counts."""
    inconclusive: Inconclusive = "fail"
    baselines: Baselines = no_baselines

    def fails(self, check: CheckResult) -> bool:
        """Return whether a verdict fails the test."""
        return check.verdict == "fail" or (check.verdict == "inconclusive" and self.inconclusive == "fail")


def held_to(asked: tuple[Declared, ...], by_cluster: tuple[Declared, ...], *, profiled: bool) -> tuple[Declared, ...]:
    """Return what a pass of a test is held to: one with profilers measures nothing, and only its stacks are judged."""
    if profiled:
        return tuple(declared for declared in asked if declared.check.of_profiled_pass)
    return (*asked, *by_cluster)


NO_BUDGET = Budget()
