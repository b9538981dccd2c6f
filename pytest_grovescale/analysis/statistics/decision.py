"""Verdicts from evidence: the rule of a comparison, for one or for thousands at a time."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .holm import holm
from .looks import nominal_levels
from .paired import Evidence, Flags, Floats


class Decision(NamedTuple):
    """By metric. At most one of the first two holds; `ok` may hold beside either."""

    regression: Flags
    improvement: Flags
    ok: Flags
    low_level: Floats
    """Level of the adjusted lower bound, which `regression` uses."""
    high_level: Floats
    """Level of the adjusted upper bound, which `improvement` uses."""

    @property
    def settled(self) -> Flags:
        """Whether a comparison needs no more pairs: one metric is a regression, or all are ok or improvements."""
        return np.asarray(self.regression.any(axis=-1) | (self.ok | self.improvement).all(axis=-1))


class Levels(NamedTuple):
    """One-sided levels of one interim analysis."""

    alone: float
    """Of a metric by itself, and of every ``ok``: all must be ok, which makes a false one rarer, not more frequent."""
    steps: tuple[float, ...]
    """Of Holm's steps over the gated metrics."""


def levels_of_look(alpha: float, fractions: tuple[float, ...], look: int, metrics: int) -> Levels:
    """Return the levels of an interim analysis (0 is the first) for so many gated metrics; ``alpha`` is one-sided.

    Each of Holm's steps spends its own share of alpha over the analyses (Maurer and Bretz, Statistics in
    Biopharmaceutical Research 5, 2013).
    """
    steps = tuple(nominal_levels(alpha / (metrics - step), fractions)[look] for step in range(metrics))
    return Levels(nominal_levels(alpha, fractions)[look], steps)


def decide(found: Evidence, levels: Levels) -> Decision:
    """Return the decisions that follow from the evidence (…, metrics) for the gated metrics at one interim analysis."""
    regression, improvement = holm(found.regression, levels.steps), holm(found.improvement, levels.steps)
    return Decision(regression.holds, improvement.holds, found.ok < levels.alone, regression.level, improvement.level)
