"""Wilson's score interval for a share."""

from __future__ import annotations

from math import sqrt

Z_95 = 1.959963984540054
"""Two-sided 95 % quantile of the normal distribution."""


def wilson(hits: float, samples: float, z: float = Z_95) -> tuple[float, float]:
    """Return the interval of the true share that ``hits`` of ``samples`` independent samples estimate.

    E. B. Wilson (1927), "Probable inference, the law of succession, and statistical inference": unlike the normal
    approximation it holds near 0 and 1. ``samples`` may be fewer than were taken, and not an integer, where some are
    redundant; ``hits`` is then reduced in proportion. Raises ValueError unless 0 ≤ hits ≤ samples > 0.
    """
    if not 0 <= hits <= samples or samples <= 0:
        raise ValueError(f"{hits} of {samples} samples is no share")
    share = hits / samples
    square = z * z
    middle = (share + square / (2 * samples)) / (1 + square / samples)
    half = z / (1 + square / samples) * sqrt(share * (1 - share) / samples + square / (4 * samples * samples))
    # At both ends the exact bound is 0 and 1; rounding must not exclude the share itself.
    return min(max(0.0, middle - half), share), max(min(1.0, middle + half), share)
