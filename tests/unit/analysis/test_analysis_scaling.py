"""Exponents of figures over sizes, and the check on them."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.analysis.result import CheckResult
from pytest_grovescale.analysis.scaling import SizedRun, Sweep, fit, sweep
from pytest_grovescale.checks import Scales
from pytest_grovescale.errors import UsageError
from tests.golden import masked

SIZES = (62, 125, 250, 500, 1000)


def runs(
    exponent: float, *, noise: float = 0.03, repeats: int = 3, fixed: float = 0.0, seed: int = 545
) -> list[SizedRun]:
    chance = np.random.default_rng(seed)
    return [
        SizedRun(size=size, metrics={"cpu:deploy": (fixed + 0.004 * size**exponent) * chance.lognormal(0, noise)})
        for size in SIZES
        for _ in range(repeats)
    ]


def judged(recorded: list[SizedRun], exponent_max: float = 1.15) -> CheckResult:
    return Scales("cpu:deploy", exponent_max=exponent_max).judge_sweep(sweep("replicas", recorded))


@pytest.mark.parametrize("exponent", [0.5, 1.0, 2.0])
def test_the_exponent_is_found(exponent: float) -> None:
    found = fit("cpu:deploy", runs(exponent))
    assert found.low is not None
    assert found.high is not None
    assert found.low < exponent < found.high
    assert found.high - found.low < 0.1
    assert found.factor == pytest.approx(0.004, rel=0.3)
    assert len(found.points) == 15


@given(st.floats(-1, 3), st.floats(0.001, 1000))
def test_a_law_without_noise_is_found_exactly_in_any_unit(exponent: float, scale: float) -> None:
    exact = [SizedRun(size=n, metrics={"cpu:deploy": scale * n**exponent}) for n in SIZES]
    found = fit("cpu:deploy", exact)
    assert found.exponent == pytest.approx(exponent, abs=1e-6)
    assert found.last_exponent == pytest.approx(exponent, abs=1e-6)
    assert found.low is not None
    assert found.high is not None
    assert found.low <= exponent + 1e-6
    assert found.high >= exponent - 1e-6


def test_the_interval_holds_the_truth_as_often_as_it_says() -> None:
    held = 0
    for seed in range(400):
        found = fit("cpu:deploy", runs(1.1, noise=0.05, repeats=1, seed=seed))
        assert found.low is not None
        assert found.high is not None
        held += found.low <= 1.1 <= found.high
    assert held / 400 == pytest.approx(0.95, abs=0.03)


def test_what_is_missing_is_left_out_and_said(snapshot: SnapshotAssertion) -> None:
    recorded = [
        *runs(1.0, repeats=1),
        SizedRun(size=2000, metrics={}, broken="deploy: timeout"),
        SizedRun(size=4000, metrics={}),
        SizedRun(size=8000, metrics={"cpu:deploy": 0.0}),
    ]
    found = fit("cpu:deploy", recorded)
    assert len(found.points) == 5
    assert [text.partition(": ")[0] for text in found.left_out] == ["2000", "4000", "8000"]
    assert "\n".join(found.left_out) == snapshot


def test_two_sizes_make_no_law() -> None:
    found = fit("cpu:deploy", [run for run in runs(1.0) if run.size <= 125])
    assert (found.exponent, found.why) == (None, "2 sizes with figures; it takes 3")
    assert judged([run for run in runs(1.0) if run.size <= 125]).verdict == "inconclusive"


def test_the_last_step_shows_what_a_fixed_cost_hides() -> None:
    """0.5 s at any size, and a quadratic part."""
    chance = np.random.default_rng(545)
    bent = [
        SizedRun(size=n, metrics={"cpu:deploy": (2 + 4e-6 * n * n) * chance.lognormal(0, 0.01)})
        for n in SIZES
        for _ in range(3)
    ]
    found = fit("cpu:deploy", bent)
    assert found.high is not None
    assert found.last_exponent is not None
    assert found.last_exponent > found.high
    assert any("bends upwards" in text for text in judged(bent, exponent_max=2).evidence)


def test_verdicts(snapshot: SnapshotAssertion) -> None:
    assert judged(runs(1.0)).verdict == "pass"
    assert judged(runs(2.0)).verdict == "fail"
    doubtful = judged(runs(1.15))
    assert doubtful.verdict == "inconclusive"
    assert masked(doubtful.text, numbers=True) == snapshot


def test_what_is_zero_at_every_size_does_not_grow() -> None:
    never = [SizedRun(size=n, metrics={"noop_writes": 0.0}) for n in SIZES]
    found = sweep("replicas", never)
    assert found.fits[0].always_zero
    assert (found.fits[0].exponent, found.fits[0].left_out) == (None, ())
    assert Scales("noop_writes").judge_sweep(found).verdict == "pass"
    assert Scales("noop_writes").judge_sweep(sweep("replicas", never[:2])).verdict == "inconclusive"


def test_a_check_says_what_it_rests_on(snapshot: SnapshotAssertion) -> None:
    found = judged(runs(2.0, repeats=1))
    assert found.check == 'scales("cpu:deploy", exponent_max=1.15)'
    assert " 1.99 (" in found.text
    assert masked(found.text, numbers=True) == snapshot
    assert found.figure == pytest.approx(2.0, abs=0.1)
    assert found.evidence[0].startswith("62: ")


def test_a_metric_that_nothing_measured_is_inconclusive_and_an_unknown_one_an_error(
    snapshot: SnapshotAssertion,
) -> None:
    found = sweep("replicas", runs(1.0))
    missing = Scales("cpu:deplyo").judge_sweep(found)
    assert missing.verdict == "inconclusive"
    assert "'cpu:deplyo'" in missing.text
    assert " cpu:deploy" in missing.text
    assert missing.text == snapshot
    with pytest.raises(UsageError, match="no metric is called so"):
        Scales("functions")


def test_it_is_written_and_read_back() -> None:
    found = sweep("replicas", runs(1.0), facts={"nodes": "100"})
    assert msgspec.json.decode(msgspec.json.encode(found), type=Sweep) == found
    assert found.fit("cpu:deploy") is not None
    assert found.fit("api:deploy") is None
