"""Student's t, for a spread that was itself estimated from a few runs."""

from __future__ import annotations

import scipy


def quantile(freedom: int, alpha: float) -> float:
    """Return how many standard deviations to either side hold 1 - ``alpha``."""
    return -float(scipy.special.stdtrit(freedom, alpha / 2))
