"""A bisection finds the commit that changed a figure with recorded noise, and is wrong no more often than it says."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_grovescale.analysis.statistics.noisy_bisection import (
    COUNT_NOISE,
    TIME_NOISE,
    Measured,
    NoisePrior,
    Suspects,
    decide,
    posterior,
)
from pytest_grovescale.selftest.power import NoiseBlock, read

COMMITS = 32


@functools.cache
def blocks() -> Sequence[NoiseBlock]:
    """Return the recorded comparisons of an operator with itself."""
    return read().of("deploy", alike=True)


class Searched(NamedTuple):
    found: Suspects | None
    over: bool
    measured: int


def searched(
    guilty: int, change: float, noise: Callable[[], float], prior: NoisePrior, *, paired: bool, most: int = 60
) -> Searched:
    """Search among `COMMITS`, as `bench.bisect` does; ``guilty``: 0 for none; ``change``: a factor."""
    measured: list[Measured] = []
    while True:
        verdict = decide(posterior(COMMITS, measured, prior, paired=paired))
        if verdict.next is None or len(measured) >= most:
            return Searched(verdict.suspects, verdict.next is None, len(measured))
        often = [sum(one.commit == commit for one in measured) for commit in (0, verdict.next)]
        commit = 0 if not paired and often[0] < max(1, often[1]) else verdict.next
        level = math.log(change) if guilty and commit >= guilty else 0.0
        measured.append(Measured(commit, level + noise()))


def recorded(metric: str, chance: np.random.Generator, *, paired: bool) -> Callable[[], float]:
    """Return what draws from an operator's comparisons with itself, of 1000 pods: pairs' log ratios, or single runs."""
    pairs = [(math.log(pair.a[metric]), math.log(pair.b[metric])) for block in blocks() for pair in block.pairs]
    ratios = [sign * (b - a) for a, b in pairs for sign in (1, -1)]
    pool = np.array(ratios if paired else [value for pair in pairs for value in pair])
    return lambda: float(chance.choice(pool))


def test_a_changed_count_is_found_in_every_try() -> None:
    chance = np.random.default_rng(18)
    tries = []
    for _ in range(40):
        guilty = int(chance.integers(1, COMMITS + 1))
        result = searched(guilty, 1.10, recorded("api:deploy", chance, paired=False), COUNT_NOISE, paired=False)
        assert result.found is not None
        assert (result.found.first, result.found.last) == (guilty, guilty)
        tries.append(result.measured)
    # 5 halvings of 32 commits, after both ends.
    assert np.median(tries) <= 9


def test_a_change_of_cpu_is_found_in_nine_of_ten_tries_and_called_wrongly_in_at_most_one_of_twenty() -> None:
    chance = np.random.default_rng(7)
    hits, wrong, tries = 0, 0, 40
    for _ in range(tries):
        guilty = int(chance.integers(1, COMMITS + 1))
        result = searched(guilty, 1.10, recorded("cpu:deploy", chance, paired=True), TIME_NOISE, paired=True)
        right = result.found is not None and result.found.first == guilty
        hits += right
        wrong += result.found is not None and not right
    assert hits >= 0.9 * tries
    assert wrong <= 0.05 * tries


@pytest.mark.parametrize(
    ("metric", "paired", "prior"), [("cpu:deploy", True, TIME_NOISE), ("api:deploy", False, COUNT_NOISE)]
)
def test_where_nothing_changed_no_commit_is_named(metric: str, paired: bool, prior: NoisePrior) -> None:
    chance = np.random.default_rng(3)
    named = sum(
        searched(0, 1.0, recorded(metric, chance, paired=paired), prior, paired=paired).found is not None
        for _ in range(20)
    )
    assert named <= 1


@given(st.integers(1, COMMITS), st.floats(1.05, 5.0), st.booleans(), st.booleans())
def test_a_figure_without_noise_is_an_ordinary_bisection(guilty: int, change: float, less: bool, paired: bool) -> None:
    factor = 1 / change if less else change
    result = searched(guilty, factor, lambda: 0.0, COUNT_NOISE, paired=paired)
    assert result.found is not None
    assert (result.found.first, result.found.last) == (guilty, guilty)
    assert result.measured <= 12


def test_commits_that_cannot_be_measured_are_named_together() -> None:
    measured = [
        Measured(0, 0.0),
        Measured(8, 0.5),
        Measured(0, 0.0),
        Measured(8, 0.5),
        Measured(3, 0.0),
        Measured(6, 0.5),
    ]
    found = posterior(8, measured, COUNT_NOISE, paired=False)
    verdict = decide(found, skipped={4, 5})
    assert verdict.next is None
    assert verdict.suspects is not None
    assert (verdict.suspects.first, verdict.suspects.last) == (4, 6)
    # Without them it goes on there.
    assert decide(found).next in (4, 5)


def test_of_one_commit_only_the_change_is_asked() -> None:
    measured = [Measured(0, 0.0), Measured(1, 0.4), Measured(0, 0.0), Measured(1, 0.4)]
    verdict = decide(posterior(1, measured, COUNT_NOISE, paired=False))
    assert verdict.suspects is not None
    assert decide(posterior(1, [], COUNT_NOISE, paired=False)).next == 1


def test_the_change_has_an_interval() -> None:
    measured = [
        Measured(commit, math.log(1.1) + noise) for commit, noise in zip([2] * 6, [-0.02, 0.02] * 3, strict=True)
    ]
    found = posterior(2, measured, TIME_NOISE, paired=True)
    assert found.change == pytest.approx(math.log(1.1), abs=0.02)
    assert 0 < found.deviation < 0.05
