"""Which commit changed a figure, when every measurement of a commit is noisy: a probabilistic bisection.

Measurements are logarithms. With commit c guilty, those of earlier ones are noise around one level, those of c and
later ones noise around that level and the change δ; neither δ nor the noise σ is known. Their joint posterior is exact
but for a grid of σ: δ is normal with one of a few widths, so it is integrated in closed form. "No commit is guilty" is
one of the hypotheses.

The next commit to measure is the one that halves the posterior (Horstein 1963; Waeber, Frazier, Henderson, "Bisection
search with noisy responses", SIAM J. Control Optim. 2013): a clear answer halves the range as an ordinary bisection
does, a doubtful one is asked again. The search ends when the commits that cannot be separated any further have all but
`error` of the posterior, whatever the number of measurements: the probability of a wrong answer is at most that, as far
as the model holds. Simulations with recorded noise are in the tests.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

ERROR = 0.05
"""Probability of a wrong answer over a whole search."""

LEAST = 0.03
"""Changes smaller than this are not searched for: a search ends where a larger one is ruled out."""

_CHANGES = (0.03, 0.1, 0.4, 1.5)
"""Standard deviations of δ, of equal weight: changes of a few percent up to several times."""

_NO_CHANGE = 0.5
"""Probability of no guilty commit, before any measurement."""

_SIGMAS = np.exp(np.linspace(math.log(0.0005), math.log(0.5), 60))


class NoisePrior(NamedTuple):
    """What is known of the noise before any measurement: log σ is normal."""

    sigma: float
    """The median."""
    factor: float
    """One standard deviation to either side, as a factor."""


COUNT_NOISE = NoisePrior(0.003, 3.5)
"""Of counts of requests and writes, which mostly repeat: those of a deployment of 1000 pods varied by 1.3 %."""
LOOSE_NOISE = NoisePrior(0.1, 2.0)
"""Of counts of what falls together before an operator gets to it: reconciles of a deployment varied by 14 %."""
TIME_NOISE = NoisePrior(0.045, 1.6)
"""Of pairs of runs made in parallel: their log ratios had a standard deviation of 4 to 5 %."""


class Measured(NamedTuple):
    """One measurement."""

    commit: int
    """0: the good one; from 1, those after it."""
    value: float
    """Logarithm of its figure, or of its ratio to that of the good commit beside it."""


class Posterior(NamedTuple):
    """What the measurements say so far."""

    guilty: Floats
    """Probability of each commit, the first after the good one first, and at the end that of no change."""
    change: float
    """Expected δ, given that one commit is guilty."""
    deviation: float
    """Standard deviation of that expectation."""

    @property
    def most(self) -> float:
        """Upper bound of |δ|, with 97.5 %, if one commit is guilty."""
        return abs(self.change) + 2 * self.deviation

    def changed_by(self, commit: int) -> float:
        """Return the probability that the figure has changed by a commit (from 1)."""
        return float(self.guilty[:commit].sum())


def posterior(commits: int, measured: Sequence[Measured], noise: NoisePrior, *, paired: bool) -> Posterior:
    """Return the posterior of ``commits`` commits after the good one.

    ``paired``: each measurement is the log ratio to a run of the good commit beside it. Else it is the logarithm of the
    figure itself, and the good commit has measurements of its own, at least one.
    """
    sigmas, widths = _SIGMAS[:, None], np.array(_CHANGES)[None, :]
    prior = -0.5 * (np.log(sigmas / noise.sigma) / math.log(noise.factor)) ** 2
    values = np.array([one.value for one in measured])
    places = np.array([one.commit for one in measured])
    # (hypothesis, σ, width of δ): the likelihood, and mean and variance of δ.
    logs = np.empty((commits + 1, len(_SIGMAS), len(_CHANGES)))
    means, variances = np.zeros_like(logs), np.zeros_like(logs)
    for guilty in range(1, commits + 2):
        before, after = values[places < guilty], values[places >= guilty]
        free = not paired and len(before) > 0
        log = prior + _within(before, sigmas, free=free) + _within(after, sigmas, free=len(after) > 0)
        level = float(before.mean()) if free else 0.0
        if len(after):
            error = sigmas**2 * (1 / len(after) + (1 / len(before) if free else 0.0))
            difference, total = float(after.mean()) - level, error + widths**2
            log = log - 0.5 * np.log(2 * math.pi * total) - difference**2 / (2 * total)
            means[guilty - 1] = difference * widths**2 / total
            variances[guilty - 1] = widths**2 * error / total
        else:
            variances[guilty - 1] = widths**2
        weight = _NO_CHANGE if guilty > commits else (1 - _NO_CHANGE) / commits
        logs[guilty - 1] = log + math.log(weight)
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    changed = weights[:-1]
    share = max(float(changed.sum()), np.finfo(np.float64).tiny)
    mean = float((changed * means[:-1]).sum() / share)
    square = float((changed * (variances[:-1] + means[:-1] ** 2)).sum() / share)
    return Posterior(weights.sum(axis=(1, 2)), mean, math.sqrt(max(square - mean**2, 0.0)))


def _within(values: Floats, sigmas: Floats, *, free: bool) -> Floats:
    """Return the log density of values by σ around their own mean, which is left to the caller, or (not free) 0."""
    number = len(values)
    if not free:
        squares = float((values**2).sum())
        return np.asarray(-0.5 * number * np.log(2 * math.pi * sigmas**2) - squares / (2 * sigmas**2))
    squares = float(((values - values.mean()) ** 2).sum())
    density = -0.5 * (number - 1) * np.log(2 * math.pi * sigmas**2) - squares / (2 * sigmas**2)
    return np.asarray(density - 0.5 * math.log(number))


class Suspects(NamedTuple):
    """Commits (from 1) that no further measurement can tell apart: one, unless some cannot be measured."""

    first: int
    last: int
    probability: float


def suspects(found: Posterior, skipped: Collection[int]) -> Suspects:
    """Return the most probable group of commits. ``skipped``: those that cannot be measured."""
    commits = len(found.guilty) - 1
    groups: list[Suspects] = []
    first = 1
    for commit in range(1, commits + 1):
        # What came with a commit that cannot be measured shows in the next one that can.
        if commit not in skipped or commit == commits:
            groups.append(Suspects(first, commit, float(found.guilty[first - 1 : commit].sum())))
            first = commit + 1
    return max(groups, key=lambda group: group.probability)


class Verdict(NamedTuple):
    """How a search goes on."""

    next: int | None
    """The commit (from 1) to measure; None: the search is over."""
    suspects: Suspects | None
    """The guilty commit, or several that cannot be separated; None: not over, or no change."""


def decide(found: Posterior, *, skipped: Collection[int] = (), error: float = ERROR) -> Verdict:
    """Return what to measure next, or what the search came to."""
    likely = suspects(found, skipped)
    if likely.probability >= 1 - error:
        return Verdict(None, likely)
    if found.guilty[-1] >= 1 - error or (found.guilty[-1] > 0.5 and found.most < LEAST):
        return Verdict(None, None)
    commits = len(found.guilty) - 1
    measurable = [commit for commit in range(1, commits + 1) if commit not in skipped]
    return Verdict(min(measurable, key=lambda commit: abs(found.changed_by(commit) - 0.5)), None)
