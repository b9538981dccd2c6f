"""Planned interim analyses: how much of alpha each may spend, so that together they spend no more than alpha.

The spending function is that of Lan and DeMets (Biometrika 70, 1983) that comes close to O'Brien and Fleming's bounds:
almost nothing early, almost all of alpha at the end. Alpha is one-sided throughout.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
import scipy

from .paired import Floats

# Beyond so many standard deviations a normal distribution is 0 at double precision.
_FAR = 9.0
_HIGHEST = 35.0
"""A bound that no p-value above 1e-250 clears."""

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(160)


def spent(alpha: float, fraction: float) -> float:
    """Return how much of alpha is spent when this fraction of all pairs is complete."""
    return float(2 * scipy.special.ndtr(scipy.special.ndtri(alpha / 2) / np.sqrt(fraction)))


@lru_cache(maxsize=256)
def nominal_levels(alpha: float, fractions: tuple[float, ...]) -> tuple[float, ...]:
    """Return the level of each interim analysis, as if it were the only one.

    ``fractions`` of all pairs at the analyses, rising, the last one 1. With these levels a claim that is false is
    accepted at any of them with probability alpha. They are those of a normal statistic; applied to Student's t of as
    many pairs as there are, they are a good approximation from five pairs on (Jennison and Turnbull, Group Sequential
    Methods, 2000, 3.3), which a simulation in the tests confirms.
    """
    levels: list[float] = []
    before: Callable[[Floats], Floats] | None = None
    limit = time = used = 0.0
    for fraction in fractions:
        spend = spent(alpha, fraction) - used
        used += spend
        z = -float(scipy.special.ndtri(spend)) if before is None else _boundary(before, limit, time, fraction, spend)
        levels.append(float(scipy.special.ndtr(-z)))
        before, limit, time = _density(before, limit, time, fraction), z * np.sqrt(fraction), fraction
    return tuple(levels)


def _boundary(before: Callable[[Floats], Floats], limit: float, time: float, fraction: float, spend: float) -> float:
    """Return the bound that a process still below its last limit crosses now with probability ``spend``."""
    places, mass = _mass(before, limit, time)
    step = np.sqrt(fraction - time)

    def crosses(z: float) -> float:
        return float(mass @ scipy.special.ndtr((places - z * np.sqrt(fraction)) / step)) - spend

    return float(scipy.optimize.brentq(crosses, 0.0, _HIGHEST, xtol=1e-10))


def _density(
    before: Callable[[Floats], Floats] | None, limit: float, time: float, fraction: float
) -> Callable[[Floats], Floats]:
    """Return the density, at this fraction, of a Brownian motion that has crossed no limit so far."""
    if before is None:
        return lambda at: _normal(at / np.sqrt(fraction)) / np.sqrt(fraction)
    places, mass = _mass(before, limit, time)
    step = np.sqrt(fraction - time)
    return lambda at: _normal((at[..., None] - places) / step) @ mass / step


def _mass(density: Callable[[Floats], Floats], limit: float, time: float) -> tuple[Floats, Floats]:
    """Return places below the limit and the probability at each, by Gauss and Legendre's quadrature."""
    low = -_FAR * np.sqrt(time)
    places = low + (_NODES + 1) * (limit - low) / 2
    return places, density(places) * _WEIGHTS * (limit - low) / 2


def _normal(z: Floats) -> Floats:
    return np.asarray(np.exp(-z * z / 2) / np.sqrt(2 * np.pi), dtype=np.float64)
