"""Where the level of a figure changed over many runs: PELT of the library ruptures, and a test of what it finds.

Killick, Fearnhead, Eckley, "Optimal detection of changepoints with a linear computational cost", JASA 2012. The cost is
the squared error of log figures in units of their noise, which is estimated from neighbours, so that a change does not
count as noise. A change has to be clear of the noise by Welch's t-test, too: with few runs the estimate is a bad one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ...errors import UsageError

Floats = npt.NDArray[np.float64]

LEAST_RUNS = 5
"""With fewer, no change stands out from noise."""

_LEAST_SEGMENT = 2
"""Runs at a level: one alone may be an outlier."""

_PENALTY = 4.0
"""Of a change, times the logarithm of the number of runs: 2 for a level and a place, doubled, as the noise is
estimated. With `_ALPHA`: of 8 to 60 runs of one level with 4 % noise at most 1.7 % had a change, and one of 10 % in the
middle was found, within one run, in 68 % of 15, 88 % of 30 and 96 % of 60 runs (300 and 200 simulations each)."""

_ALPHA = 0.002
"""Of Welch's test of each change."""

_LEAST_NOISE = 0.0015
"""Share of the figure that counts as noise even where it repeats exactly: a change of 0.1 % is none."""


class ChangePoint(NamedTuple):
    """A run from which on a figure has another level."""

    run: int
    """Index of the first run at the new level."""
    before: float
    """Geometric mean of the level before; 0 where it was 0."""
    after: float


def change_points(figures: Sequence[float]) -> tuple[ChangePoint, ...]:
    """Return the changes of level of some figures ≥ 0, in the order of the runs.

    Raises UsageError where ruptures is not installed.
    """
    if len(figures) < LEAST_RUNS:
        return ()
    try:
        import ruptures
    except ImportError:
        raise UsageError(
            "change points need ruptures, which is not installed",
            next_step="pip install 'pytest-grovescale[history]'",
        ) from None
    logs = _logs(figures)
    signal = (logs / _noise(logs)).reshape(-1, 1)
    penalty = _PENALTY * math.log(len(logs))
    ends = ruptures.Pelt(model="l2", min_size=_LEAST_SEGMENT, jump=1).fit(signal).predict(pen=penalty)
    return _clear(logs, ends[:-1], figures)


def _logs(figures: Sequence[float]) -> Floats:
    """Return logarithms; those of zero, which has none, as if of a thousandth of the smallest figure above."""
    values = np.asarray(figures, dtype=np.float64)
    above = values[values > 0]
    least = float(above.min()) / 1000 if above.size else 1.0
    return np.log(np.maximum(values, least))


def _noise(logs: Floats) -> float:
    """Return the standard deviation of one run, from the differences of neighbours: robust to changes of level."""
    differences = np.abs(np.diff(logs))
    # The median of |x| is 0.6745 σ, and a difference has √2 the deviation of its terms. With few runs, or many equal
    # ones, the median can be far too small: the mean, without the largest, bounds it.
    by_median = float(np.median(differences)) / 0.6745 / math.sqrt(2)
    by_mean = float(np.sort(differences)[: -max(1, len(differences) // 10)].mean()) * math.sqrt(math.pi) / 2
    return max(by_median, by_mean, _LEAST_NOISE)


def _clear(logs: Floats, ends: Sequence[int], figures: Sequence[float]) -> tuple[ChangePoint, ...]:
    """Return the changes that Welch's test confirms; one that it does not joins the levels beside it."""
    kept = list(ends)
    while True:
        edges = [0, *kept, len(logs)]
        levels = [logs[low:high] for low, high in pairwise(edges)]
        doubts = {end: _p(levels[n], levels[n + 1]) for n, end in enumerate(kept)}
        worst = max(doubts, key=doubts.__getitem__, default=None)
        if worst is None or doubts[worst] <= _ALPHA:
            break
        kept.remove(worst)
    means = [_mean(figures[low:high]) for low, high in pairwise(edges)]
    return tuple(ChangePoint(int(end), means[n], means[n + 1]) for n, end in enumerate(kept))


def _p(before: Floats, after: Floats) -> float:
    from scipy import stats

    floor = _LEAST_NOISE**2
    variances = max(float(before.var(ddof=1)), floor), max(float(after.var(ddof=1)), floor)
    return float(
        stats.ttest_ind_from_stats(
            before.mean(), math.sqrt(variances[0]), len(before), after.mean(), math.sqrt(variances[1]), len(after),
            equal_var=False,
        ).pvalue
    )  # fmt: skip


def _mean(figures: Sequence[float]) -> float:
    values = np.asarray(figures, dtype=np.float64)
    return float(np.exp(np.log(values).mean())) if (values > 0).all() else float(values.mean())
