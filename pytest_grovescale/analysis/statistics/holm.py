"""Holm's step-down procedure: many claims, and the chance of any false one no greater than for a single claim.

The claims are tested in the order of their p-values, the smallest first, at level alpha / m, alpha / (m - 1) …, until
one fails; the rest fail with it. (S. Holm, Scandinavian Journal of Statistics 6, 1979.)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .paired import Flags, Floats


class Stepped(NamedTuple):
    """The procedure's result for each claim, in the order given."""

    holds: Flags
    level: Floats
    """Level that the claim was tested at: that of its own step, or of the step that failed. A bound at this level lies
    beyond the claim's limit exactly where the claim holds. Of the claims that fail the bounds are simultaneous ones
    (Strassburger and Bretz, Statistics in Medicine 27, 2008); of one that holds, only its limit is."""


def holm(p: Floats, levels: npt.ArrayLike) -> Stepped:
    """Step down through p-values (…, claims); ``levels`` are those of the steps, alpha / m first.

    NaN stands for a claim that could not be tested: it counts as one of the m and never holds.
    """
    steps = np.asarray(levels, dtype=np.float64)
    known = np.where(np.isnan(p), np.inf, p)
    order = np.argsort(known, axis=-1, kind="stable")
    holds = np.logical_and.accumulate(np.take_along_axis(known, order, axis=-1) < steps, axis=-1)
    failed = np.minimum(holds.sum(axis=-1, keepdims=True), steps.size - 1)
    tested = np.where(holds, steps, steps[failed])
    back = np.argsort(order, axis=-1, kind="stable")
    return Stepped(np.take_along_axis(holds, back, axis=-1), np.take_along_axis(tested, back, axis=-1))
