"""A straight line through points, and the interval of its slope."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Line(NamedTuple):
    """y = intercept + slope × x, by ordinary least squares."""

    intercept: float
    slope: float
    low: float
    """Interval of the slope by Student's t, with two fewer degrees of freedom than points."""
    high: float


def line(x: Sequence[float], y: Sequence[float], alpha: float) -> Line:
    """Fit a line to at least three points with at least two different ``x``; the interval holds 1 - alpha."""
    # Importing them takes a second, and declaring a check imports this module.
    import numpy as np
    import scipy

    across, up = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    freedom = across.size - 2
    from_centre = across - across.mean()
    spread = float(from_centre @ from_centre)
    slope = float(from_centre @ up) / spread
    intercept = float(up.mean()) - slope * float(across.mean())
    rest = up - intercept - slope * across
    error = float(np.sqrt(rest @ rest / freedom / spread))
    reach = -float(scipy.special.stdtrit(freedom, alpha / 2)) * error
    return Line(intercept, slope, slope - reach, slope + reach)
