"""Sample size of a comparison in pairs: the power of the paired t test, by the noncentral t distribution."""

from __future__ import annotations

import math

import scipy

_MOST = 100_000


def power(distance: float, sd: float, pairs: int, *, level: float) -> float:
    """Return the probability that a bound at this one-sided level clears a limit.

    ``distance`` of the true value from the limit, and the standard deviation of one pair, in the same unit. Zero for
    fewer than two pairs.
    """
    if pairs < 2:
        return 0.0
    if sd == 0:
        return float(distance > 0)
    critical = -scipy.special.stdtrit(pairs - 1, level)
    missed = float(scipy.special.nctdtr(pairs - 1, distance / sd * math.sqrt(pairs), critical))
    # Far from the limit the noncentral distribution underflows to NaN: the probability of a miss is 0 there.
    return 1.0 if math.isnan(missed) else 1.0 - missed


def pairs_needed(distance: float, sd: float, *, level: float, wanted: float = 0.8) -> int | None:
    """Return the smallest number of pairs with the wanted power; None when 100,000 are not enough."""
    if distance <= 0:
        return None
    enough = 2
    while power(distance, sd, enough, level=level) < wanted:
        enough *= 2
        if enough > _MOST:
            return None
    too_few = enough // 2
    while enough - too_few > 1:
        middle = (enough + too_few) // 2
        if power(distance, sd, middle, level=level) < wanted:
            too_few = middle
        else:
            enough = middle
    return enough
