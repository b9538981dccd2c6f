"""The arithmetic of comparisons: against scipy's, against published bounds, and by simulation with a fixed seed.

scipy.stats takes a second to load: only the worker that runs these tests does it, not each that collects them.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_grovescale.analysis.scaling import line
from pytest_grovescale.analysis.statistics.decision import (
    CHANGE_POWER,
    OK_POWER,
    decide,
    holm,
    levels_of_look,
    nominal_levels,
)
from pytest_grovescale.analysis.statistics.paired import (
    Evidence,
    Floats,
    bound,
    evidence,
    log_ratio,
    moments,
    p_above,
    p_below,
    pairs_needed,
    power,
    signed_rank_p,
)

positive = st.floats(1e-3, 1e6)
samples = st.lists(st.tuples(positive, positive), min_size=2, max_size=12)
some_counts = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=2, max_size=9)


def columns(pairs: list[tuple[float, float]]) -> tuple[Floats, Floats]:
    a, b = np.array(pairs, dtype=np.float64).T
    return a, b


def judged(a: Floats, b: Floats, *, counts: bool = False) -> list[float]:
    return [float(p) for p in evidence(a, b, counts=counts, regression=1.03, ok=1.10)]


# ---- the paired t


def test_t_test_is_that_of_scipy() -> None:
    from scipy import stats

    values = np.random.default_rng(1).normal(0.3, 1, 9)
    assert p_above(moments(values), 0.1) == pytest.approx(stats.ttest_1samp(values, 0.1, alternative="greater").pvalue)
    assert p_below(moments(values), 0.1) == pytest.approx(stats.ttest_1samp(values, 0.1, alternative="less").pvalue)
    low, high = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    assert [float(end) for end in bound(moments(values), 0.025)] == pytest.approx([low, high])


@given(samples)
def test_interval_contains_the_estimate(pairs: list[tuple[float, float]]) -> None:
    ratios = moments(log_ratio(*columns(pairs)))
    low, high = bound(ratios, 0.025)
    assert low <= ratios.mean <= high


@given(samples)
def test_swapping_a_and_b_swaps_regression_and_improvement(pairs: list[tuple[float, float]]) -> None:
    a, b = columns(pairs)
    there, back = judged(a, b), judged(b, a)
    assert there[:2] == pytest.approx(back[1::-1], abs=1e-9)


@given(some_counts)
def test_so_it_does_for_counts_with_zeros(pairs: list[tuple[float, float]]) -> None:
    a, b = columns(pairs)
    assert judged(a, b, counts=True)[:2] == pytest.approx(judged(b, a, counts=True)[1::-1], abs=1e-9)


@given(samples, st.floats(0.01, 100))
def test_another_unit_changes_nothing(pairs: list[tuple[float, float]], scale: float) -> None:
    a, b = columns(pairs)
    # Where all pairs have nearly one ratio, what rounding leaves of the noise decides.
    if moments(log_ratio(a, b)).error > 1e-9:
        assert judged(a * scale, b * scale) == pytest.approx(judged(a, b), rel=1e-3, abs=1e-6)


def test_a_single_pair_is_evidence_of_nothing() -> None:
    assert judged(np.array([1.0]), np.array([5.0])) == [1.0, 1.0, 1.0]


def test_interval_covers_the_true_ratio_as_often_as_it_says() -> None:
    generator = np.random.default_rng(545)
    a = generator.lognormal(0, 0.05, (20_000, 9))
    b = a * 1.07 * generator.lognormal(0, 0.03, (20_000, 9))
    low, high = bound(moments(log_ratio(a, b)), 0.025)
    covered = float(np.mean((low <= math.log(1.07)) & (math.log(1.07) <= high)))
    assert covered == pytest.approx(0.95, abs=0.006)


# ---- counts


def test_equal_counts_are_a_fact() -> None:
    zeros = np.zeros(4)
    assert judged(zeros, zeros, counts=True) == [1.0, 1.0, 0.0]


def test_any_write_where_there_was_none_is_a_fact() -> None:
    assert judged(np.zeros(4), np.ones(4), counts=True) == [0.0, 1.0, 1.0]


def test_a_single_pair_of_counts_is_no_fact() -> None:
    assert judged(np.full(1, 6000.0), np.full(1, 6300.0), counts=True) == [1.0, 1.0, 1.0]
    assert judged(np.zeros(1), np.full(1, 500.0), counts=True) == [1.0, 1.0, 1.0]


def test_a_constant_count_is_held_against_the_bounds_themselves() -> None:
    hundred = np.full(5, 100.0)
    assert judged(hundred, np.full(5, 102.0), counts=True) == [1.0, 1.0, 0.0]
    assert judged(hundred, np.full(5, 104.0), counts=True) == [0.0, 1.0, 0.0]
    assert judged(hundred, np.full(5, 90.0), counts=True) == [1.0, 0.0, 0.0]


def test_one_stray_request_is_no_regression() -> None:
    b = np.array([0, 0, 1, 0, 0, 0, 0, 0, 0], dtype=np.float64)
    assert judged(np.zeros(9), b, counts=True)[0] > 0.1


# ---- the signed-rank test


@given(st.lists(st.integers(-1000, 1000).filter(bool), min_size=1, max_size=12, unique_by=abs))
def test_signed_rank_is_that_of_scipy_without_ties(values: list[int]) -> None:
    from scipy import stats

    found = np.array(values, dtype=np.float64)
    assert signed_rank_p(found) == pytest.approx(stats.wilcoxon(found, method="exact").pvalue)


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=8))
def test_signed_rank_with_ties_counts_every_assignment_of_signs(values: list[int]) -> None:
    from scipy import stats

    found = np.array(values, dtype=np.float64)
    kept = found[found != 0]
    if not kept.size:
        assert signed_rank_p(found) == 1
        return
    ranks = stats.rankdata(np.abs(kept))
    signs = ((np.arange(2**kept.size)[:, None] >> np.arange(kept.size)) & 1).astype(bool)
    sums = (ranks * signs).sum(axis=1)
    seen = ranks[kept > 0].sum()
    smaller = min(seen, ranks.sum() - seen)
    assert signed_rank_p(found) == pytest.approx(min(1.0, 2 * np.mean(sums <= smaller)))


# ---- Holm


def test_holm_steps_down_until_one_fails() -> None:
    levels = [0.05 / 4, 0.05 / 3, 0.05 / 2, 0.05]
    found = holm(np.array([0.04, 0.001, 0.03, 0.014]), levels)
    assert found.holds.tolist() == [False, True, False, True]
    assert found.level.tolist() == [0.025, 0.0125, 0.025, 0.05 / 3]


def test_what_was_not_measured_counts_and_never_holds() -> None:
    found = holm(np.array([np.nan, 0.024]), [0.025, 0.05])
    assert found.holds.tolist() == [False, True]
    assert holm(np.array([np.nan, 0.026]), [0.025, 0.05]).holds.tolist() == [False, False]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=6))
def test_holm_finds_what_bonferroni_finds_and_nothing_above_alpha(values: list[float]) -> None:
    p = np.array(values)
    found = holm(p, [0.05 / (p.size - step) for step in range(p.size)])
    assert (found.holds >= (p < 0.05 / p.size)).all()
    assert (found.holds <= (p < 0.05)).all()


@given(st.lists(st.floats(0, 1), min_size=2, max_size=6), st.randoms())
def test_the_order_of_metrics_does_not_matter_to_holm(values: list[float], chance: object) -> None:
    p = np.array(values)
    order = np.argsort(np.random.default_rng(len(values)).random(p.size))
    levels = [0.05 / (p.size - step) for step in range(p.size)]
    assert holm(p[order], levels).holds.tolist() == holm(p, levels).holds[order].tolist()


# ---- planned looks


@pytest.mark.parametrize("power", [1.0, 2.0, 3.0])
@pytest.mark.parametrize("fractions", [(0.5, 1.0), (1 / 3, 2 / 3, 1.0), (0.2, 0.4, 0.6, 0.8, 1.0)])
def test_bounds_spend_what_they_may_by_each_analysis(fractions: tuple[float, ...], power: float) -> None:
    """By another way: the statistics of all analyses together are normal, with correlations sqrt(earlier / later)."""
    from scipy import stats

    bounds = [float(stats.norm.isf(level)) for level in nominal_levels(0.025, fractions, power=power)]
    at = np.array(fractions)
    correlations = np.sqrt(np.minimum.outer(at, at) / np.maximum.outer(at, at))
    for number in range(1, len(fractions) + 1):
        below = stats.multivariate_normal(cov=correlations[:number, :number], seed=545)
        crossed = 1 - float(below.cdf(np.array(bounds[:number])))
        assert crossed == pytest.approx(0.025 * fractions[number - 1] ** power, abs=3e-5)


def test_a_single_look_spends_all() -> None:
    assert nominal_levels(0.025, (1.0,), power=2.0) == pytest.approx((0.025,))


@given(st.floats(0.0005, 0.1), st.floats(0.05, 0.95), st.floats(1.0, 3.0))
def test_all_looks_together_spend_alpha(alpha: float, fraction: float, power: float) -> None:
    early, late = nominal_levels(alpha, (fraction, 1.0), power=power)
    assert early == pytest.approx(alpha * fraction**power)
    # Crossing at both is counted twice in the sum, so each level is smaller than alpha and the sum larger.
    assert max(early, late) <= alpha * (1 + 1e-9)
    assert early + late >= alpha * (1 - 1e-6)


@pytest.mark.parametrize("power", [OK_POWER, CHANGE_POWER])
def test_two_looks_at_t_statistics_raise_no_more_alarms_than_one(power: float) -> None:
    generator = np.random.default_rng(545)
    values = generator.normal(0, 1, (200_000, 10))
    early, late = nominal_levels(0.025, (0.5, 1.0), power=power)
    alarm = (p_above(moments(values[:, :5])) < early) | (p_above(moments(values)) < late)
    assert float(alarm.mean()) == pytest.approx(0.025, abs=0.0012)


# ---- the rule


def test_false_alarms_of_any_metric_stay_below_alpha() -> None:
    """At the worst case, a ratio right on the bound, in all of four independent metrics, over two looks."""
    generator = np.random.default_rng(545)
    a = generator.lognormal(0, 0.02, (50_000, 4, 9))
    b = a * 1.03 * generator.lognormal(0, 0.02, (50_000, 4, 9))
    alarm = np.zeros(50_000, dtype=bool)
    for look, pairs in enumerate((5, 9)):
        found = evidence(a[..., :pairs], b[..., :pairs], counts=False, regression=1.03, ok=1.10)
        alarm |= decide(found, levels_of_look(0.025, (5 / 9, 1.0), look, 4, ok_alpha=0.025)).regression.any(axis=1)
    # The levels are those of a normal statistic: of five pairs they are a little too wide.
    assert float(alarm.mean()) <= 0.0275
    assert float(alarm.mean()) >= 0.02


def test_a_regression_settles_whatever_else_is_open() -> None:
    open_, clear = 0.5, 1e-6
    levels = levels_of_look(0.025, (1.0,), 0, 2, ok_alpha=0.025)
    one = decide(Evidence(np.array([clear, open_]), np.ones(2), np.array([1.0, open_])), levels)
    none = decide(Evidence(np.ones(2), np.ones(2), np.array([clear, open_])), levels)
    both = decide(Evidence(np.ones(2), np.ones(2), np.array([clear, clear])), levels)
    assert [bool(found.settled) for found in (one, none, both)] == [True, False, True]


# ---- power


@pytest.mark.parametrize(("distance", "pairs"), [(0.05, 6), (0.05, 10), (0.1, 4)])
def test_power_is_the_share_of_simulated_comparisons(distance: float, pairs: int) -> None:
    values = np.random.default_rng(545).normal(distance, 0.06, (100_000, pairs))
    found = float(np.mean(p_above(moments(values)) < 0.025))
    assert power(distance, 0.06, pairs, level=0.025) == pytest.approx(found, abs=0.005)


def test_power_grows_and_pairs_needed_is_the_first_that_has_it() -> None:
    needed = pairs_needed(0.05, 0.06, level=0.025)
    assert needed is not None
    assert power(0.05, 0.06, needed, level=0.025) >= 0.8 > power(0.05, 0.06, needed - 1, level=0.025)


def test_pairs_needed_at_the_ends() -> None:
    assert pairs_needed(0.0, 0.06, level=0.025) is None
    assert pairs_needed(1e-9, 0.06, level=0.025) is None
    assert pairs_needed(0.05, 0.0, level=0.025) == 2
    assert pairs_needed(50.0, 0.01, level=0.025) == 2


# ---- the line


def test_slope_and_interval_are_those_of_scipy() -> None:
    from scipy import stats

    generator = np.random.default_rng(545)
    x = np.repeat(np.log([125, 250, 500, 1000]), 3)
    y = 1.1 * x + generator.normal(0, 0.05, x.size)
    found, wanted = line(list(x), list(y), 0.05), stats.linregress(x, y)
    reach = stats.t.isf(0.025, x.size - 2) * wanted.stderr
    assert found == pytest.approx((wanted.intercept, wanted.slope, wanted.slope - reach, wanted.slope + reach))
