"""The rule of a comparison, on pairs whose truth is known."""

from __future__ import annotations

import math
from typing import Any, Literal

import msgspec
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.analysis.comparison import (
    Comparison,
    ComparisonPlan,
    MetricComparison,
    Pair,
    VariantRun,
    compare,
    is_silent,
    overall,
)
from pytest_grovescale.analysis.contention import RunContention
from pytest_grovescale.errors import UsageError

PLAN = ComparisonPlan(a="before", b="after", gated=("noop_cpu", "noop_writes"))


def run(broken: str = "", saturated: tuple[str, ...] = (), **metrics: float) -> VariantRun:
    return VariantRun(
        metrics={key.replace("__", ":"): value for key, value in metrics.items()}, broken=broken, saturated=saturated
    )


def order(number: int) -> Literal["a", "b"]:
    return "a" if number % 2 == 0 else "b"


def pairs(
    factor: float, *, number: int = 10, noise: float = 0.02, writes: tuple[float, float] = (0, 0), seed: int = 545
) -> list[Pair]:
    chance = np.random.default_rng(seed)

    def side(times: float, written: float) -> VariantRun:
        cpu = 0.03 * times * chance.lognormal(0, noise)
        return run(noop_cpu=cpu, noop_writes=written, wall__deploy=10 * times * chance.lognormal(0, noise))

    return [Pair(a=side(1, writes[0]), b=side(factor, writes[1]), first=order(n)) for n in range(number)]


def known(figure: float | None) -> float:
    assert figure is not None
    return figure


def metric(comparison: Comparison, key: str) -> MetricComparison:
    return next(found for found in comparison.metrics if found.key == key)


def test_a_slower_operator_is_a_regression() -> None:
    found = compare(PLAN, pairs(1.10))
    cpu = metric(found, "noop_cpu")
    assert found.verdict == cpu.verdict == "regression"
    assert known(cpu.low) > 1.03
    assert cpu.ratio == pytest.approx(1.10, abs=0.03)
    assert cpu.pairs == 9
    assert cpu.wilcoxon_p == pytest.approx(2 / 2**9)


def test_an_operator_is_no_slower_than_itself() -> None:
    found = compare(PLAN, pairs(1.0))
    assert found.verdict == "ok"
    assert found.decided
    assert metric(found, "noop_writes").exact
    assert metric(found, "noop_writes").ratio == 1


def test_a_faster_operator_is_an_improvement() -> None:
    assert compare(PLAN, pairs(0.7)).verdict == "improvement"


def test_noise_makes_it_inconclusive_and_says_how_many_pairs_would_tell() -> None:
    found = compare(PLAN, pairs(1.06, noise=0.1))
    cpu = metric(found, "noop_cpu")
    assert found.verdict == cpu.verdict == "inconclusive"
    assert cpu.more_pairs is not None
    assert 5 < cpu.more_pairs < 1000
    assert not found.decided


def test_that_many_pairs_do_tell_mostly() -> None:
    decided = 0
    for seed in range(20):
        chance = pairs(1.0, noise=0.12, seed=seed)
        more = metric(compare(PLAN, chance), "noop_cpu").more_pairs
        if more is None:
            decided += 1
            continue
        total = 10 + more
        plan = msgspec.structs.replace(PLAN, pairs=total, looks=(total,))
        decided += compare(plan, chance + pairs(1.0, number=more, noise=0.12, seed=1000 + seed)).verdict == "ok"
    assert decided >= 12


def test_writes_where_there_were_none_are_a_regression_without_a_test() -> None:
    found = compare(PLAN, pairs(1.0, writes=(0, 500)))
    writes = metric(found, "noop_writes")
    assert found.verdict == "regression"
    assert writes.exact
    assert (writes.ratio, writes.p, writes.difference) == (None, None, 500)


def test_the_warm_up_pair_counts_for_nothing() -> None:
    slow_start = [Pair(a=run(noop_cpu=9.0, noop_writes=0), b=run(noop_cpu=1.0, noop_writes=7)), *pairs(1.0)[1:]]
    assert compare(PLAN, slow_start).metrics[:2] == compare(PLAN, pairs(1.0)).metrics[:2]


def test_nothing_is_decided_before_the_first_look() -> None:
    found = compare(PLAN, pairs(1.5, number=5))
    assert (found.verdict, found.look) == ("inconclusive", None)
    assert metric(found, "noop_cpu").ratio == pytest.approx(1.5, abs=0.1)
    assert "5 of the 6 pairs" in found.warnings[0]


def test_more_pairs_reach_the_next_look() -> None:
    assert metric(compare(PLAN, pairs(1.5, number=4)), "noop_cpu").more_pairs == 2
    at_six = metric(compare(PLAN, pairs(1.05, number=8, noise=0.06)), "noop_cpu").more_pairs
    assert at_six is not None
    assert at_six >= 4


def test_between_looks_the_last_one_stands() -> None:
    recorded = pairs(1.0, noise=0.08)
    assert compare(PLAN, recorded[:8]).metrics == compare(PLAN, recorded[:6]).metrics


def test_an_early_look_is_stricter_than_the_same_pairs_at_the_end() -> None:
    early = metric(compare(PLAN, pairs(1.0, number=6)), "noop_cpu")
    last = metric(compare(msgspec.structs.replace(PLAN, pairs=6, looks=(6,)), pairs(1.0, number=6)), "noop_cpu")
    assert known(early.low) < known(last.low) < known(last.high) < known(early.high)


def test_more_gated_metrics_make_each_harder_to_find() -> None:
    recorded = pairs(1.05, noise=0.02)
    one = metric(compare(msgspec.structs.replace(PLAN, gated=("noop_cpu",)), recorded), "noop_cpu")
    plan = msgspec.structs.replace(PLAN, gated=("noop_cpu", "wall:deploy"))
    two = metric(compare(plan, recorded), "noop_cpu")
    assert known(one.low) > known(two.low)


def test_a_broken_operator_is_not_a_fast_one() -> None:
    recorded = pairs(0.2)
    recorded[4] = msgspec.structs.replace(recorded[4], b=run(broken="deploy: timeout, 963 of 1,000 pods-ready"))
    found = compare(PLAN, recorded)
    assert found.verdict == "broken"
    assert found.broken[0].variant == "b"
    assert (found.broken[0].name, found.broken[0].runs) == ("after", 1)
    assert "963" in found.broken[0].why


def test_an_assertion_that_failed_is_reported_and_the_figures_count(snapshot: SnapshotAssertion) -> None:
    recorded = pairs(1.0)
    failed = msgspec.structs.replace(recorded[3].b, failure="assert 3 == 4")
    recorded[3] = msgspec.structs.replace(recorded[3], b=failed)
    found = compare(PLAN, recorded)
    assert found.verdict == "ok"
    assert any(warning.startswith("after: ") and "assert 3 == 4" in warning for warning in found.warnings)
    assert "\n".join(found.warnings) == snapshot


def test_a_broken_warm_up_is_broken_too() -> None:
    recorded = pairs(1.0)
    recorded[0] = msgspec.structs.replace(recorded[0], a=run(broken="crash"))
    assert compare(PLAN, recorded).verdict == "broken"


def test_a_gated_metric_that_was_not_measured_is_never_ok() -> None:
    plan = msgspec.structs.replace(PLAN, gated=(*PLAN.gated, "api:deploy"))
    found = compare(plan, pairs(1.0))
    missing = metric(found, "api:deploy")
    assert (found.verdict, missing.verdict, missing.a, missing.ratio) == ("inconclusive", "not-measured", None, None)


def test_a_metric_measured_in_some_pairs_says_so() -> None:
    recorded = pairs(1.0)
    recorded[3] = msgspec.structs.replace(recorded[3], b=run(noop_writes=0))
    assert metric(compare(PLAN, recorded), "noop_cpu").note == "measured in 8 of 9 pairs"


def test_wall_times_are_reported_and_not_gated() -> None:
    found = compare(PLAN, pairs(1.5))
    wall = metric(compare(msgspec.structs.replace(PLAN, gated=("noop_writes",)), pairs(1.5)), "wall:deploy")
    assert (wall.verdict, wall.gated) == ("regression", False)
    assert compare(msgspec.structs.replace(PLAN, gated=("noop_writes",)), pairs(1.5)).verdict == "ok"
    assert [m.key for m in found.metrics] == ["noop_cpu", "noop_writes", "wall:deploy"]


def test_wall_times_of_a_saturated_machine_say_what_they_measure() -> None:
    busy = [
        Pair(a=run(wall__deploy=10.0, noop_writes=0, saturated=("deploy",)), b=run(wall__deploy=11.0, noop_writes=0))
        for _ in range(10)
    ]
    found = compare(msgspec.structs.replace(PLAN, gated=("noop_writes",)), busy)
    assert "saturated in 9 of 18 runs" in metric(found, "wall:deploy").note


def test_an_order_that_evens_out_no_drift_is_reported(snapshot: SnapshotAssertion) -> None:
    always_a = [msgspec.structs.replace(pair, first="a") for pair in pairs(1.0)]
    (warning,) = compare(PLAN, always_a).warnings
    assert "10 of 10 pairs" in warning
    assert warning == snapshot


def test_figures_around_zero_have_no_ratio_but_a_verdict() -> None:
    """CPU over idle may come out below zero, where a no-op costs next to nothing."""
    chance = np.random.default_rng(545)
    recorded = [
        Pair(
            a=run(noop_cpu=chance.normal(0, 1e-4), noop_writes=0),
            b=run(noop_cpu=chance.normal(1e-2, 1e-4), noop_writes=0),
            first=order(n),
        )
        for n in range(10)
    ]
    cpu = metric(compare(PLAN, recorded), "noop_cpu")
    assert (cpu.method, cpu.ratio, cpu.low, cpu.verdict) == ("difference", None, None, "regression")
    assert cpu.difference_low is not None
    assert cpu.difference_low > 0.009


def test_one_pair_after_the_fact_decides_nothing() -> None:
    plan = msgspec.structs.replace(PLAN, pairs=1, warmup=0, looks=(1,))
    found = compare(plan, pairs(3.0, number=1), weaker="one run of each")
    cpu = metric(found, "noop_cpu")
    assert (found.verdict, found.weaker) == ("inconclusive", "one run of each")
    assert cpu.ratio is not None
    assert (cpu.low, cpu.p, cpu.more_pairs) == (None, None, None)


def test_a_rank_test_that_does_not_agree_is_reported(snapshot: SnapshotAssertion) -> None:
    plan = msgspec.structs.replace(PLAN, gated=("noop_cpu",), pairs=7, looks=(7,))
    ratios = [1.0, 1.35, 1.36, 1.34, 1.35, 1.37, 0.99]
    recorded = [Pair(a=run(noop_cpu=1.0), b=run(noop_cpu=ratio), first=order(n)) for n, ratio in enumerate(ratios)]
    found = compare(plan, recorded)
    assert found.verdict == "regression"
    (warning,) = found.warnings
    assert "signed-rank" in warning
    assert warning == snapshot
    assert not compare(PLAN, pairs(1.1)).warnings


def test_triggers_that_fell_together_are_reported(snapshot: SnapshotAssertion) -> None:
    """The slower variant got through a quarter of the reconciles, so its CPU per trigger looks good."""

    def recorded(reconciles: float) -> list[Pair]:
        return [
            Pair(
                a=run(noop_cpu=0.03, noop_writes=0, noop_reconciles=501),
                b=run(noop_cpu=0.03, noop_writes=0, noop_reconciles=reconciles + n % 3),
                first=order(n),
            )
            for n in range(10)
        ]

    [warning] = compare(PLAN, recorded(120)).warnings
    assert "501 " in warning
    assert "121 " in warning
    assert warning == snapshot
    assert not compare(PLAN, recorded(501)).warnings


@settings(max_examples=40)
@given(st.floats(0.8, 1.25), st.floats(0.001, 0.1), st.integers(0, 100))
def test_swapping_the_variants_inverts_everything(factor: float, noise: float, seed: int) -> None:
    there = pairs(factor, noise=noise, seed=seed)
    other: dict[str, Literal["a", "b"]] = {"a": "b", "b": "a"}
    back = [Pair(a=pair.b, b=pair.a, first=other[pair.first]) for pair in there]
    one, two = metric(compare(PLAN, there), "noop_cpu"), metric(compare(PLAN, back), "noop_cpu")
    assert known(one.ratio) == pytest.approx(1 / known(two.ratio))
    if "regression" in (one.verdict, two.verdict):
        assert known(one.low) == pytest.approx(1 / known(two.high))
    assert (one.verdict == "regression") == (two.verdict == "improvement")
    assert one.p == pytest.approx(two.p)


@given(st.floats(0.8, 1.25), st.floats(0.001, 0.1), st.integers(0, 100))
@example(1.0, 0.08, 3)
def test_verdicts_are_what_the_bounds_say(factor: float, noise: float, seed: int) -> None:
    cpu = metric(compare(PLAN, pairs(factor, noise=noise, seed=seed)), "noop_cpu")
    low, high = known(cpu.low), known(cpu.high)
    assert low <= known(cpu.ratio) <= high
    wanted = "ok" if high < 1.10 else "inconclusive"
    if low > 1.03:
        wanted = "regression"
    if high < 1 / 1.03:
        wanted = "improvement"
    assert cpu.verdict == wanted


def test_an_ok_that_holm_would_not_give_shows_the_upper_end_that_gave_it() -> None:
    recorded = pairs(1.0, noise=0.08, seed=15)
    alone = metric(compare(msgspec.structs.replace(PLAN, gated=("noop_cpu",)), recorded), "noop_cpu")
    among = metric(compare(msgspec.structs.replace(PLAN, gated=(*PLAN.gated, "api:deploy")), recorded), "noop_cpu")
    assert alone.verdict == among.verdict == "ok"
    assert known(among.high) == known(alone.high) < 1.10
    assert known(among.low) < known(alone.low), "no regression by Holm's bound"


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"gated": ()}, "no metric is gated"),
        ({"gated": ("noop_cpu", "noop_cpu")}, "gated twice"),
        ({"gated": ("function:reconcile",)}, "is not a metric"),
        ({"looks": (10, 6)}, "do not rise"),
        ({"looks": (6, 9)}, "do not rise .* 10"),
        ({"looks": ()}, "do not rise"),
        ({"looks": (1, 10)}, "warm-up"),
        ({"regression": 1.2}, "1 < regression < ok"),
        ({"alpha": 0.0}, "alpha"),
    ],
    ids=["none", "twice", "no metric", "fall", "short", "no looks", "warm-up", "bounds", "alpha"],
)
def test_a_plan_that_cannot_be_is_refused(change: dict[str, Any], what: str, snapshot: SnapshotAssertion) -> None:
    with pytest.raises(UsageError, match=what) as caught:
        compare(msgspec.structs.replace(PLAN, **change), pairs(1.0))
    assert str(caught.value) == snapshot


def test_the_worst_part_is_the_answer() -> None:
    alike, slower = compare(PLAN, pairs(1.0)), compare(PLAN, pairs(1.2))
    assert overall([alike, slower]) == "regression"
    assert overall([alike, compare(PLAN, pairs(1.0, number=3))]) == "inconclusive"
    assert overall([alike]) == "ok"


def test_it_is_written_and_read_back() -> None:
    found = compare(PLAN, pairs(1.1), facts={"kubernetes": "1.36"})
    assert msgspec.json.decode(msgspec.json.encode(found), type=Comparison) == found
    assert not any(isinstance(m.ratio, float) and math.isnan(m.ratio) for m in found.metrics)


GUARDED = msgspec.structs.replace(PLAN, gated=("noop_cpu", "reconciles:deploy"), guards=("reconciles:deploy",))


def guarded(factor: float, noise: float, *, number: int = 10, cpu_noise: float = 0.02) -> list[Pair]:
    """Return pairs whose CPU is alike, with so many times the reconciles."""
    chance = np.random.default_rng(3)
    return [
        Pair(
            a=run(noop_cpu=0.03 * chance.lognormal(0, cpu_noise), reconciles__deploy=500 * chance.lognormal(0, noise)),
            b=run(
                noop_cpu=0.03 * chance.lognormal(0, cpu_noise),
                reconciles__deploy=500 * factor * chance.lognormal(0, noise),
            ),
            first=order(n),
        )
        for n in range(number)
    ]


def test_counts_that_never_vary_decide_before_the_first_look() -> None:
    plan = msgspec.structs.replace(PLAN, pairs=16, looks=(10, 16))
    assert compare(plan, pairs(1.0, number=4, writes=(500, 600))).verdict == "inconclusive"
    found = compare(plan, pairs(1.0, number=5, writes=(500, 600)))
    assert (found.verdict, found.look, metric(found, "noop_cpu").verdict) == ("regression", None, "inconclusive")
    assert compare(plan, pairs(1.0, number=5, writes=(500, 501))).verdict == "inconclusive"


def test_counts_that_never_vary_make_no_other_metric_harder_to_find() -> None:
    recorded = pairs(1.05, noise=0.02)
    one = metric(compare(msgspec.structs.replace(PLAN, gated=("noop_cpu",)), recorded), "noop_cpu")
    assert metric(compare(PLAN, recorded), "noop_cpu").low == one.low


@pytest.mark.parametrize(
    ("factor", "noise", "said"),
    [
        (1.26, 0.03, "regression"),
        # It is not known to be ok, and does not look worse.
        (1.2, 0.15, "ok"),
        # It looks worse.
        (1.8, 0.35, "inconclusive"),
    ],
)
def test_a_guard_holds_up_the_verdict_where_it_looks_worse(factor: float, noise: float, said: str) -> None:
    found = compare(GUARDED, guarded(factor, noise))
    assert found.verdict == said
    assert is_silent(GUARDED, metric(found, "reconciles:deploy")) == (said == "ok")


def test_reconciles_decide_in_five_pairs_where_cpu_takes_many_more() -> None:
    plan = msgspec.structs.replace(GUARDED, pairs=5, looks=(5,))
    found = compare(plan, guarded(1.26, 0.03, number=5, cpu_noise=0.3))
    assert found.verdict == "regression"
    assert metric(found, "noop_cpu").verdict == "inconclusive"
    assert (metric(found, "noop_cpu").more_pairs or 0) > 20


COUNTED = ComparisonPlan(
    a="before",
    b="after",
    gated=("api:deploy", "api:delete", "noop_requests"),
    guards=("api:delete",),
    pairs=12,
    warmup=0,
    looks=(5, 8, 12),
    by_counts=True,
    max_contention=0.25,
)


def counted(
    number: int,
    *,
    deploy: tuple[float, float] = (90, 90),
    delete: tuple[float, ...] = (0,),
    noop: tuple[float, float] = (0, 0),
    noise: float = 0.06,
    contended: int = 0,
) -> list[Pair]:
    """Return pairs of whole runs; ``delete``: counts of B in turn, ``contended``: how many pairs are, at the start."""
    chance = np.random.default_rng(17)

    def side(requests: float, deletes: float, per_trigger: float, share: float) -> VariantRun:
        made = round(requests * chance.lognormal(0, noise))
        found = run(
            api__deploy=made, api__delete=deletes, noop_requests=per_trigger, cpu__deploy=1 + chance.random() / 10
        )
        return msgspec.structs.replace(found, contention=RunContention(share=share, phase="deploy"))

    return [
        Pair(
            a=side(deploy[0], 0, noop[0], 0.5 if n < contended else 0.0),
            b=side(deploy[1], delete[n % len(delete)], noop[1], 0.0),
            first=order(n),
        )
        for n in range(number)
    ]


def test_a_comparison_by_counts_calls_equals_ok_although_they_vary() -> None:
    found = compare(COUNTED, counted(12, delete=(0, 2, 0, 3)))
    assert found.verdict == "ok"
    deploy = metric(found, "api:deploy")
    assert (deploy.method, deploy.verdict) == ("unpaired", "ok")
    assert 0.9 < known(deploy.low) < known(deploy.ratio) < known(deploy.high) < 1.10
    delete = metric(found, "api:delete")
    assert (delete.b, delete.ratio, delete.verdict) == (1.0, None, "ok")
    assert delete.note == "less than 5 counts as 5"


def test_a_comparison_by_counts_calls_a_count_that_grew_by_a_quarter() -> None:
    found = compare(COUNTED, counted(8, deploy=(90, 113)))
    assert (found.verdict, metric(found, "api:deploy").verdict, found.look) == ("regression", "regression", 8)


def test_one_write_for_each_trigger_is_called_before_the_first_look() -> None:
    assert compare(COUNTED, counted(3, noop=(0, 1))).verdict == "inconclusive"
    found = compare(COUNTED, counted(4, noop=(0, 1)))
    assert (found.verdict, found.look, metric(found, "noop_requests").verdict) == ("regression", None, "regression")
    assert metric(found, "noop_requests").difference == 1
    # One of twenty triggers is chance.
    assert compare(COUNTED, counted(12, noop=(0, 0.05))).verdict == "ok"


def test_contended_pairs_keep_their_counts_and_lose_their_times(snapshot: SnapshotAssertion) -> None:
    found = compare(COUNTED, counted(12, contended=9))
    assert metric(found, "api:deploy").pairs == 12
    assert metric(found, "cpu:deploy").pairs == 3
    assert [text for text in found.warnings if "contended" in text] == snapshot
    none = compare(COUNTED, counted(12, contended=12))
    assert none.verdict == "ok"
    assert "cpu:deploy" not in {one.key for one in none.metrics}


@pytest.mark.parametrize(("number", "verdict", "look"), [(3, "inconclusive", None), (4, "ok", 4), (7, "ok", 7)])
def test_pairs_until_a_time_limit_are_a_last_analysis(number: int, verdict: str, look: int | None) -> None:
    recorded = counted(number, noise=0.01)
    found = compare(COUNTED, recorded, stopped="the time limit of 5m00s ended it")
    assert (found.verdict, found.look) == (verdict, look)
    # Without a limit the seventh pair decides nothing by itself.
    assert compare(COUNTED, recorded).look == (5 if number > 5 else None)
