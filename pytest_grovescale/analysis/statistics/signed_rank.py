"""Wilcoxon's signed-rank test, exact for any number of ties: a check of the t test that is robust to outliers."""

from __future__ import annotations

import numpy as np

from .paired import Floats


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
