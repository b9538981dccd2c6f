"""The checks of a test, and the effect of an inconclusive check on it."""

from __future__ import annotations

from typing import Literal, NamedTuple

from ..analysis.result import CheckResult
from ..checks.budgets import Declared
from ..checks.run import Baselines, no_baselines

Inconclusive = Literal["fail", "warn"]

TEST = "test"
"""Source of the checks that a test makes itself, with ``scale.check``."""


class Budget(NamedTuple):
    """The checks of a test's marker and of ``budgets.yaml``, judged after its run."""

    declared: tuple[Declared, ...] = ()
    enforced: bool = True
    """If False, they are judged and reported, and fail nothing. A check that the test makes itself always counts."""
    inconclusive: Inconclusive = "fail"
    baselines: Baselines = no_baselines

    def fails(self, check: CheckResult) -> bool:
        """Return whether a verdict fails the test."""
        return check.verdict == "fail" or (check.verdict == "inconclusive" and self.inconclusive == "fail")


def held_to(asked: tuple[Declared, ...], by_cluster: tuple[Declared, ...], *, profiled: bool) -> tuple[Declared, ...]:
    """Return the checks of a test's pass: a profiling pass measures nothing; only its stacks are judged."""
    if profiled:
        return tuple(declared for declared in asked if declared.check.of_profiled_pass)
    return (*asked, *by_cluster)


NO_BUDGET = Budget()
