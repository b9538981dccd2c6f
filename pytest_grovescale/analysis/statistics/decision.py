"""From evidence to verdicts: the rule of a comparison. Holm's step-down procedure shares alpha among its metrics, an
alpha-spending function among its planned interim analyses.

*Holm.* The claims are tested in the order of their p-values, the smallest first, at level alpha / m, alpha / (m - 1) …,
until one fails; the rest fail with it. (S. Holm, Scandinavian Journal of Statistics 6, 1979.)

*Interim analyses.* Each claim spends its alpha over the analyses (Lan and DeMets, Biometrika 70, 1983) by a power of
the fraction of all pairs (Kim and DeMets, Biometrika 74, 1987). ``ok``, which ends most comparisons, spends it evenly,
which comes close to Pocock's bounds; a regression or an improvement the square: little early, most at the end. Alpha is
one-sided throughout.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy

from .paired import Evidence, Flags, Floats

OK_POWER, CHANGE_POWER = 1.0, 2.0
"""Powers by which ``ok``, and a regression or an improvement, spend alpha. Both bounds of O'Brien and Fleming's kind
would end few comparisons halfway: "How many pairs" in docs/comparing.md."""

# Beyond so many standard deviations a normal distribution is 0 at double precision.
_FAR = 9.0

_HIGHEST = 35.0
"""A bound that no p-value above 1e-250 clears."""

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(160)


class Stepped(NamedTuple):
    """The procedure's result for each claim, in the order given."""

    holds: Flags
    level: Floats
    """Level that the claim was tested at: that of its own step, or of the step that failed. A bound at this level lies
    beyond the claim's limit exactly where the claim holds. Of the claims that fail the bounds are simultaneous ones
    (Strassburger and Bretz, Statistics in Medicine 27, 2008); of one that holds, only its limit is."""


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
    """Of every ``ok``: all must be ok, which makes a false one rarer, not more frequent."""
    steps: tuple[float, ...]
    """Of Holm's steps over the gated metrics."""


def decide(evidence: Evidence, levels: Levels) -> Decision:
    """Return the decisions that follow from the evidence (…, metrics) for the gated metrics at one interim analysis."""
    regression, improvement = holm(evidence.regression, levels.steps), holm(evidence.improvement, levels.steps)
    return Decision(
        regression.holds, improvement.holds, evidence.ok < levels.alone, regression.level, improvement.level
    )


def decide_with_facts(
    evidence: Evidence, facts: Flags, *, alpha: float, ok_alpha: float, fractions: tuple[float, ...], look: int
) -> Decision:
    """Return the decisions as `decide` does, where ``facts`` (…, metrics) marks counts that never vary.

    Their evidence is 0 or 1 and needs no test: they take no share of ``alpha``. It and ``ok_alpha`` are one-sided.
    """
    metrics = facts.shape[-1]
    tested = metrics - facts.sum(axis=-1)
    hidden = Evidence(
        np.where(facts, np.nan, evidence.regression), np.where(facts, np.nan, evidence.improvement), evidence.ok
    )
    found = Decision(*np.zeros((3, *facts.shape), dtype=np.bool_), *np.zeros((2, *facts.shape)))
    for number in np.unique(tested):
        levels = levels_of_look(alpha, fractions, look, max(1, int(number)), ok_alpha=ok_alpha)
        # Facts are last in their order, and never reached.
        steps = (*levels.steps, *(levels.steps[-1],) * (metrics - len(levels.steps)))
        chosen = tested == number
        part = decide(Evidence(*(p[chosen] for p in hidden)), Levels(levels.alone, steps))
        for whole, of in zip(found, part, strict=True):
            whole[chosen] = of
    return found._replace(
        regression=np.where(facts, evidence.regression == 0, found.regression),
        improvement=np.where(facts, evidence.improvement == 0, found.improvement),
    )


def levels_of_look(alpha: float, fractions: tuple[float, ...], look: int, metrics: int, *, ok_alpha: float) -> Levels:
    """Return the levels of an interim analysis (0 is the first) for so many gated metrics; both alphas are one-sided.

    Each of Holm's steps spends its own share of ``alpha`` over the analyses (Maurer and Bretz, Statistics in
    Biopharmaceutical Research 5, 2013).
    """
    shares = (alpha / (metrics - step) for step in range(metrics))
    steps = tuple(nominal_levels(share, fractions, power=CHANGE_POWER)[look] for share in shares)
    return Levels(nominal_levels(ok_alpha, fractions, power=OK_POWER)[look], steps)


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


@lru_cache(maxsize=256)
def nominal_levels(alpha: float, fractions: tuple[float, ...], *, power: float) -> tuple[float, ...]:
    """Return the level of each interim analysis, as if it were the only one.

    When a fraction of all pairs is complete, alpha × fraction ** ``power`` is spent. ``fractions`` of all planned pairs
    at the analyses, rising. The last one spends all that is left of alpha: it is 1, or less where a comparison ends
    sooner for a reason that has nothing to do with its figures. With these levels a claim that is false is accepted at
    any of them with probability alpha. They are those of a normal statistic; applied
    to Student's t of as many pairs as there are, they are a good approximation from five pairs on (Jennison and
    Turnbull, Group Sequential Methods, 2000, 3.3), which a simulation in the tests confirms.
    """
    levels: list[float] = []
    before: Callable[[Floats], Floats] | None = None
    limit = time = used = 0.0
    for number, fraction in enumerate(fractions, start=1):
        spend = (alpha if number == len(fractions) else alpha * fraction**power) - used
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
