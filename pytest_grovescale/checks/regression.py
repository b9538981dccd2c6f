"""A figure against the same figure of earlier runs: those saved under a baseline's name, or the last of a history."""

from __future__ import annotations

import math
import statistics

from ..analysis.run_metrics import COUNTS, describe, metrics_of, phase_of, units_of
from ..errors import NotMeasuredError
from .check import Check, CheckArgumentError, Outcome, at_most, not_negative
from .run import Run, unknown

LEAST_RUNS = 3
"""Fewer tell no spread of a figure that varies."""

_ALPHA = 0.05


class Regression(Check, tag="regression", frozen=True, kw_only=True):
    """A figure is at most ``tolerance`` above the mean of earlier runs.

    Earlier runs are those of the baseline ``vs``, or with ``history:N`` the last N of ``--grovescale-history``: of this
    machine and backend, with the same parameters. A bound within what the next run of the same operator may give, by
    their spread, is not decided.
    """

    timed = True
    positional = ("metric",)

    metric: str
    """Key of a figure, as in `analysis.run_metrics`: ``cpu:deploy``, ``milestone:deploy/pods-ready``, ``noop_cpu``."""
    vs: str = "history:20"
    tolerance: float = 0.10

    def validate(self) -> None:
        not_negative(self, tolerance=self.tolerance)
        try:
            describe(self.metric)
        except KeyError:
            raise CheckArgumentError(
                f"regression({self.metric!r}): no metric is called so",
                next_step="Write it as grovescale history does: cpu:deploy, api:deploy, rss:deploy, noop_cpu.",
            ) from None

    def judge(self, run: Run) -> Outcome:
        now = metrics_of(run.test)
        if self.metric not in now:
            raise NotMeasuredError(f"this run did not measure {unknown('metric', self.metric, sorted(now))}")
        before = run.baseline_metric(self.vs, self.metric)
        mean = statistics.fmean(before)
        margin = self._margin(before)
        ratio = now[self.metric] / mean
        return at_most(
            phase_of(self.metric),
            f"{describe(self.metric)}, of {self.vs}'s mean",
            ratio,
            1 + self.tolerance,
            "×",
            between=(ratio - margin, ratio + margin),
            evidence=(f"{len(before)} runs of {self.vs}: {min(before):.6g} to {max(before):.6g}, mean {mean:.6g}",),
        )

    def _margin(self, before: list[float]) -> float:
        """Return how far the next run of the same operator may be from the mean of ``before``, as a share of it."""
        if len(before) < LEAST_RUNS:
            if units_of(self.metric) in COUNTS:
                return 0.0
            raise NotMeasuredError(
                f"{self.vs} has {len(before)} runs with {self.metric}: {LEAST_RUNS} show how much it varies",
                next_step="Record more, of the version to compare with.",
            )
        # Imports scipy, which most runs do not need.
        from ..analysis.statistics.paired import quantile

        number = len(before)
        deviation = statistics.stdev(before) * math.sqrt(1 + 1 / number) / statistics.fmean(before)
        return quantile(number - 1, _ALPHA) * deviation
