"""Paired figures of A and B: the ratio B / A, its interval, and the evidence against three claims about it."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy

Floats: TypeAlias = npt.NDArray[np.float64]
Flags: TypeAlias = npt.NDArray[np.bool_]


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


def evidence(a: Floats, b: Floats, *, counts: npt.ArrayLike, regression: float, ok: float) -> Evidence:
    """Return the evidence for each metric by the method that fits it.

    ``a`` and ``b`` are (…, metrics, pairs); ``counts`` marks the metrics that are counts. The logarithm of the ratio
    where all figures are above zero; else B - bound × A, whose mean lies on the same side of zero as the ratio of the
    means on its bound's; and for a count that never varies within a variant the comparison itself.
    """
    found = _where(
        np.asarray(np.isfinite(log_ratio(a, b)).all(axis=-1)),
        _by_ratio(a, b, regression, ok),
        _by_difference(a, b, regression, ok),
    )
    exact = never_varies(a, b) & np.asarray(counts, dtype=np.bool_)
    return _where(exact, _by_fact(a[..., 0], b[..., 0], regression, ok), found)


def _where(condition: Flags, yes: Evidence, no: Evidence) -> Evidence:
    return Evidence(*(np.where(condition, y, n) for y, n in zip(yes, no, strict=True)))


def _by_ratio(a: Floats, b: Floats, regression: float, ok: float) -> Evidence:
    ratio = moments(log_ratio(a, b))
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
