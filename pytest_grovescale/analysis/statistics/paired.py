"""Paired figures of A and B: the ratio B / A, its interval, the evidence against three claims about it, and the number
of pairs that it takes."""

from __future__ import annotations

import math
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy

Floats: TypeAlias = npt.NDArray[np.float64]

Flags: TypeAlias = npt.NDArray[np.bool_]

_MOST = 100_000


class Moments(NamedTuple):
    """Moments of values that belong to pairs, along the last axis."""

    mean: Floats
    error: Floats
    """Standard error of the mean; infinite for a single pair."""
    freedom: int
    """Degrees of freedom: pairs - 1."""


class Evidence(NamedTuple):
    """One-sided p-values, each against the claim that it is not so. Small: it is so."""

    regression: Floats
    """Of B / A above the regression bound."""
    improvement: Floats
    """Of B / A below its inverse."""
    ok: Floats
    """Of B / A below the ok bound."""


def moments(values: Floats) -> Moments:
    """Return mean and standard error along the last axis, which holds at least one value."""
    pairs = values.shape[-1]
    mean = values.mean(axis=-1)
    if pairs == 1:
        return Moments(mean, np.full_like(mean, np.inf), 0)
    return Moments(mean, values.std(axis=-1, ddof=1) / np.sqrt(pairs), pairs - 1)


def difference(a: Floats, b: Floats) -> Moments:
    """Return the mean of b - a along the last axis, with the standard error of two samples of one variance.

    Twice the degrees of freedom of pairs, for figures whose pairs have nothing in common.
    """
    size = a.shape[-1]
    mean = b.mean(axis=-1) - a.mean(axis=-1)
    if size == 1:
        return Moments(mean, np.full_like(mean, np.inf), 0)
    error = np.sqrt((a.var(axis=-1, ddof=1) + b.var(axis=-1, ddof=1)) / size)
    return Moments(mean, error, 2 * (size - 1))


def log_difference(a: Floats, b: Floats) -> Moments:
    """Return the same of log(B / A); NaN where a figure is not above zero."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return difference(np.where(a > 0, np.log(a), np.nan), np.where(b > 0, np.log(b), np.nan))


def log_ratio(a: Floats, b: Floats) -> Floats:
    """Return log(B / A); NaN where either is not above zero."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where((a > 0) & (b > 0), np.log(b) - np.log(a), np.nan)


def bound(of: Moments, level: npt.ArrayLike) -> tuple[Floats, Floats]:
    """Return the lower and upper bound of a mean that leave ``level`` of Student's t on their own side, each."""
    if of.freedom == 0:
        return np.full_like(of.mean, -np.inf), np.full_like(of.mean, np.inf)
    reach = -scipy.special.stdtrit(of.freedom, np.asarray(level, dtype=np.float64)) * of.error
    return of.mean - reach, of.mean + reach


def p_above(of: Moments, limit: float = 0.0) -> Floats:
    """Return the one-sided p-value of the t test that a mean lies above a limit; 1 for a single pair."""
    if of.freedom == 0:
        return np.ones_like(of.mean)
    distance = of.mean - limit
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where(distance == 0, 0.0, distance / of.error)
    return np.asarray(scipy.special.stdtr(of.freedom, -t), dtype=np.float64)


def p_below(of: Moments, limit: float = 0.0) -> Floats:
    """Return the same of a mean that lies below a limit."""
    return p_above(Moments(-of.mean, of.error, of.freedom), -limit)


def never_varies(a: Floats, b: Floats) -> Flags:
    """Return where A has one figure in all pairs, and B has one in all pairs. False for a single pair."""
    if a.shape[-1] == 1:
        return np.zeros(a.shape[:-1], dtype=np.bool_)
    return np.asarray((a == a[..., :1]).all(axis=-1) & (b == b[..., :1]).all(axis=-1))


def evidence(
    a: Floats, b: Floats, *, counts: npt.ArrayLike, regression: float, ok: float, unpaired: npt.ArrayLike = False
) -> Evidence:
    """Return the evidence for each metric by the method that fits it.

    ``a`` and ``b`` are (…, metrics, pairs); ``counts`` marks the metrics that are counts. The logarithm of the ratio
    where all figures are above zero; else B - bound × A, whose mean lies on the same side of zero as the ratio of the
    means on its bound's; and for a count that never varies within a variant the comparison itself. ``unpaired``
    marks the metrics above zero whose pairs have nothing in common: two samples of logarithms.
    """
    measured = _where(
        np.asarray(np.isfinite(log_ratio(a, b)).all(axis=-1)),
        _by_ratio(a, b, regression, ok),
        _by_difference(a, b, regression, ok),
    )
    apart = np.broadcast_to(np.asarray(unpaired, dtype=np.bool_), a.shape[:-1])
    if apart.any():
        measured = _where(apart, _by_moments(log_difference(a, b), regression, ok), measured)
    exact = never_varies(a, b) & np.asarray(counts, dtype=np.bool_)
    return _where(exact, _by_fact(a[..., 0], b[..., 0], regression, ok), measured)


def _where(condition: Flags, yes: Evidence, no: Evidence) -> Evidence:
    return Evidence(*(np.where(condition, y, n) for y, n in zip(yes, no, strict=True)))


def _by_ratio(a: Floats, b: Floats, regression: float, ok: float) -> Evidence:
    return _by_moments(moments(log_ratio(a, b)), regression, ok)


def _by_moments(ratio: Moments, regression: float, ok: float) -> Evidence:
    return Evidence(
        p_above(ratio, float(np.log(regression))),
        p_below(ratio, -float(np.log(regression))),
        p_below(ratio, float(np.log(ok))),
    )


def _by_difference(a: Floats, b: Floats, regression: float, ok: float) -> Evidence:
    return Evidence(
        p_above(moments(b - regression * a)), p_above(moments(a - regression * b)), p_above(moments(ok * a - b))
    )


def _by_fact(a: Floats, b: Floats, regression: float, ok: float) -> Evidence:
    true, false = np.zeros_like(a), np.ones_like(a)
    return Evidence(
        np.where(b > regression * a, true, false),
        np.where(a > regression * b, true, false),
        np.where((b < ok * a) | (a == b), true, false),
    )


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


def pairs_needed(distance: float, sd: float, *, level: float, least_power: float = 0.8) -> int | None:
    """Return the smallest number of pairs with the wanted power; None when 100,000 are not enough."""
    if distance <= 0:
        return None
    enough = 2
    while power(distance, sd, enough, level=level) < least_power:
        enough *= 2
        if enough > _MOST:
            return None
    too_few = enough // 2
    while enough - too_few > 1:
        middle = (enough + too_few) // 2
        if power(distance, sd, middle, level=level) < least_power:
            too_few = middle
        else:
            enough = middle
    return enough


def signed_rank_p(differences: Floats) -> float:
    """Return the two-sided p-value of the test that the differences lie symmetrically around zero.

    Zeros are left out, ties have the mean of their ranks, and every assignment of signs to the ranks is counted:
    with n differences the smallest p is 2 / 2**n. 1 when all are zero.
    """
    values = differences[differences != 0]
    if not values.size:
        return 1.0
    # Twice a mean of ranks is an integer, so sums of ranks are places in an array of counts.
    ranks = _twice_the_ranks(np.abs(values))
    ways = _ways(ranks)
    positive = int(ranks[values > 0].sum())
    smaller = min(positive, int(ranks.sum()) - positive)
    return float(min(1.0, 2 * ways[: smaller + 1].sum()))


def _twice_the_ranks(magnitudes: Floats) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    below = (magnitudes[:, None] > magnitudes[None, :]).sum(axis=1)
    equal = (magnitudes[:, None] == magnitudes[None, :]).sum(axis=1)
    return np.asarray(2 * below + equal + 1, dtype=np.int64)


def _ways(ranks: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Floats:
    """Return by sum of positive ranks the share of all assignments of signs that have it."""
    ways = np.zeros(int(ranks.sum()) + 1)
    ways[0] = 1.0
    for rank in ranks:
        ways[rank:] = (ways[rank:] + ways[: ways.size - rank]) / 2
        ways[:rank] /= 2
    return ways


def quantile(freedom: int, alpha: float) -> float:
    """Return how many standard deviations to either side hold 1 - ``alpha``."""
    return -float(scipy.special.stdtrit(freedom, alpha / 2))
