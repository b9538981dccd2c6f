"""Comparisons drawn from noise: they go through the rule itself, and their shares are what the noise makes of it."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec
import numpy as np
import pytest
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.analysis.comparison import ComparisonPlan, Pair, VariantRun, compare
from pytest_grovescale.bench.store import Plan, Sample, Store, interleaved
from pytest_grovescale.bench.target_test import Subject
from pytest_grovescale.bench.variant import Variant
from pytest_grovescale.cli import main
from pytest_grovescale.errors import NotMeasuredError, RecordingError, UsageError
from pytest_grovescale.recording.records import Machine
from pytest_grovescale.selftest import commands
from pytest_grovescale.selftest import power as noise
from pytest_grovescale.selftest.power import Noise, NoiseBlock, NoisePair, block_of, draw, figures_of, outcome, power

GATED = ("noop_cpu", "noop_writes", "noop_requests")
PLAN = ComparisonPlan(a="a", b="b", gated=GATED)
MACHINE = Machine(fingerprint="f00", cpu="Test CPU", cores=2, memory_bytes=1, kernel="6.1", python="3.11")


def block(
    factor: float, *, sd: float = 0.02, pairs: int = 20, differs: str = "", seed: int = 0, stray: float = 0.0
) -> NoiseBlock:
    chance = np.random.default_rng(seed)

    def side(times: float) -> dict[str, float]:
        requests = 1.0 + 0.05 * (chance.random() < stray)
        return {"noop_cpu": 0.03 * times * chance.lognormal(0, sd), "noop_writes": 0.0, "noop_requests": requests}

    return NoiseBlock(
        part="noop",
        plan=msgspec.structs.replace(PLAN, differs=differs),
        pairs=tuple(NoisePair(a=side(1), b=side(factor), first=order(n)) for n in range(pairs)),
        started="2026-01-31T12:00:00Z",
    )


def order(number: int) -> Literal["a", "b"]:
    return "a" if number % 2 == 0 else "b"


def recorded(*blocks: NoiseBlock) -> Noise:
    return Noise(how="simulated", machine=MACHINE, blocks=blocks)


DEFECT = "defect: none, noop-cpu-10"
QUIET = recorded(
    *(block(1.0, seed=seed) for seed in range(3)), *(block(1.1, differs=DEFECT, seed=9 + seed) for seed in range(3))
)


def test_a_defect_is_called_and_equals_are_not() -> None:
    [part] = power(QUIET, comparisons=4000).parts
    assert part.alike is not None
    assert part.alike.regression.share < 0.02
    assert part.alike.ok.share > 0.95
    [slower] = part.slower
    assert slower.differs == DEFECT
    assert slower.regression.share > 0.95
    assert (slower.blocks, slower.pairs) == (3, 60)
    assert slower.by_metric["noop_writes"].count == 0
    assert commands.good_enough(power(QUIET, comparisons=4000))


def test_more_noise_calls_less() -> None:
    loud = recorded(block(1.0, sd=0.15), block(1.1, sd=0.15, differs=DEFECT, seed=1))
    [part] = power(loud, comparisons=2000).parts
    assert part.slower[0].regression.share < 0.5
    assert not commands.good_enough(power(loud, comparisons=2000))


def test_false_alarms_are_as_frequent_as_alpha_where_the_truth_is_the_bound() -> None:
    """Blocks of a ratio of 1.03 and no lasting difference: each drawn regression is a false one."""
    many = recorded(*(block(1.03, sd=0.02, pairs=200, differs="at the bound", seed=seed) for seed in range(12)))
    # An `ok` at the first look ends a comparison and would hide some of the second's alarms: here nothing is ok.
    plan = msgspec.structs.replace(PLAN, gated=("noop_cpu",), ok=1.0301)
    blocks = [figures_of(found, plan.gated) for found in many.blocks]
    # What 200 pairs leave of their block's own mean is taken out, to see the rule alone.
    centred = [found * np.exp([[[0.0]], [[_shift(found)]]]) for found in blocks]
    drawn, _ = draw(centred, plan, 40_000, np.random.default_rng(545), exchange=False)
    assert float(outcome(plan, drawn).regression.mean()) == pytest.approx(0.025, abs=0.006)


def _shift(found: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> float:
    return float(np.log(1.03) - np.mean(np.log(found[1] / found[0])))


def test_a_lasting_difference_between_two_clusters_is_not_averaged_away() -> None:
    """One block in two is 9 % slower for as long as its clusters live: its comparisons are alarms, and should be."""
    apart = recorded(block(1.09, sd=0.005, seed=1), block(1.0, sd=0.005, seed=2))
    [part] = power(apart, comparisons=4000).parts
    assert part.alike is not None
    # The slower side is called B in half of them.
    assert part.alike.regression.share == pytest.approx(0.25, abs=0.03)
    assert part.alike.improvement.share == pytest.approx(0.25, abs=0.03)


def test_a_stray_request_here_and_there_is_no_alarm() -> None:
    stray = recorded(*(block(1.0, seed=seed, stray=0.1) for seed in range(4)))
    [part] = power(stray, comparisons=4000).parts
    assert part.alike is not None
    assert part.alike.by_metric["noop_requests"].share < 0.01


def test_the_same_seed_gives_the_same_answer_and_another_one_nearly() -> None:
    first, again, other = (power(QUIET, comparisons=2500, seed=seed) for seed in (1, 1, 2))
    assert first == again != other


def test_pairs_are_drawn_whole_from_one_block_and_beside_their_neighbour() -> None:
    places = [
        np.array([[[1000.0 * index + n for n in range(7)]], [[1000.0 * index + n + 0.5 for n in range(7)]]])
        for index in range(3)
    ]
    (a, b), _ = draw(places, PLAN, 500, np.random.default_rng(1), exchange=False)
    assert a.shape == (500, 1, 9)
    assert (b - a == 0.5).all()
    assert (np.ptp(a // 1000, axis=-1) == 0).all()
    assert (a[:, :, 1::2] - a[:, :, :-1:2] == 1).all()
    assert len(np.unique(a)) == 21


def test_exchange_swaps_a_comparisons_sides_all_at_once() -> None:
    places = [np.array([[[0.0] * 7], [[1.0] * 7]])]
    (a, b), _ = draw(places, PLAN, 2000, np.random.default_rng(1), exchange=True)
    assert (a + b == 1).all()
    assert (np.ptp(a, axis=-1) == 0).all()
    assert float(a.mean()) == pytest.approx(0.5, abs=0.05)


def test_a_drawn_comparison_gets_the_verdict_that_compare_gives() -> None:
    blocks = [figures_of(block(1.05, seed=seed, sd=0.03, stray=0.2), GATED) for seed in range(4)]
    drawn, _ = draw(blocks, PLAN, 60, np.random.default_rng(545), exchange=True)
    found = outcome(PLAN, drawn)
    seen = set()
    for index in range(60):
        a, b = drawn[:, index]
        runs = [Pair(a=_run(a[:, n]), b=_run(b[:, n]), first=order(n + 1)) for n in range(PLAN.pairs - PLAN.warmup)]
        warm = Pair(a=_run(a[:, 0]), b=_run(b[:, 0]))
        reported = compare(PLAN, [warm, *runs][: PLAN.looks[found.look[index]]])
        for at, metric in enumerate(reported.metrics):
            assert found.regression[index, at] == (metric.verdict == "regression")
            assert found.improvement[index, at] == (metric.verdict == "improvement")
        assert reported.decided or reported.look == PLAN.pairs
        seen.add(reported.verdict)
    assert {"regression", "inconclusive"} <= seen


COUNTED = ComparisonPlan(
    a="a", b="b", gated=GATED[1:], guards=GATED[2:], pairs=12, warmup=0, looks=(5, 8, 12), by_counts=True
)


def test_a_drawn_comparison_by_counts_gets_the_verdict_that_compare_gives() -> None:
    chance = np.random.default_rng(545)
    drawn = chance.lognormal(0, 0.06, size=(2, 60, 2, 12)) * np.array([0.3, 1.0])[:, None]
    drawn[1] *= chance.choice([1.0, 1.15], size=60)[:, None, None]
    # Some comparisons have counts that never vary, and some have few.
    drawn[:, :15, 0] = 0.0
    drawn[1, 10:15, 0] = 1.0
    found = outcome(COUNTED, drawn)
    seen = set()
    for index in range(60):
        a, b = drawn[:, index]
        runs = [
            Pair(a=_counted(a[:, n]), b=_counted(b[:, n]), first=order(n))
            for n in range(COUNTED.looks[found.look[index]])
        ]
        reported = compare(COUNTED, runs)
        early = compare(COUNTED, runs[:4])
        # A fact ends a comparison before its first analysis, at which others may be regressions, too.
        decided = early if early.verdict == "regression" else reported
        for at, metric in enumerate(decided.metrics):
            assert found.regression[index, at] == (metric.verdict == "regression")
        assert (early.verdict == "regression") == (10 <= index < 15)
        assert reported.decided or reported.look == COUNTED.pairs
        seen.add(reported.verdict)
    assert {"regression", "ok"} <= seen


def _counted(figures: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> VariantRun:
    return VariantRun(metrics=dict(zip(COUNTED.gated, map(float, figures), strict=True)))


def _run(figures: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> VariantRun:
    return VariantRun(metrics=dict(zip(GATED, map(float, figures), strict=True)))


# ---- the file


def test_a_finished_comparison_becomes_a_block() -> None:
    good = VariantRun(metrics={"noop_cpu": 1.0, "noop_writes": 0.0, "noop_requests": 1.0})
    only_a = VariantRun(metrics={**good.metrics, "cpu:deploy": 4.0})
    broken = VariantRun(metrics={}, broken="crash")
    runs = [Pair(a=good, b=good), Pair(a=only_a, b=good, first="b"), Pair(a=good, b=broken), Pair(a=good, b=good)]
    found = block_of("noop", msgspec.structs.replace(PLAN, differs=DEFECT), runs, started="now")
    assert (found.plan.differs, found.plan.gated, len(found.pairs)) == (DEFECT, GATED, 2)
    assert found.pairs[0] == NoisePair(a=good.metrics, b=good.metrics, first="b")


def test_noise_is_written_and_read_back(tmp_path: Path) -> None:
    noise.write(QUIET, tmp_path / "noise.json")
    assert noise.read(tmp_path / "noise.json") == QUIET


@pytest.mark.parametrize("content", ["", "{}", '{"schema_version": 99, "how": ""}', "\xff"])
def test_what_is_no_noise_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "noise.json").write_text(content, encoding="latin-1")
    with pytest.raises(RecordingError):
        noise.read(tmp_path / "noise.json")


def test_a_newer_file_is_refused_by_its_version(tmp_path: Path) -> None:
    noise.write(msgspec.structs.replace(QUIET, schema_version=99), tmp_path / "noise.json")
    with pytest.raises(RecordingError, match="schema version 99"):
        noise.read(tmp_path / "noise.json")


def test_noise_without_a_gated_metric_says_so() -> None:
    lacking = msgspec.structs.replace(block(1.0), plan=msgspec.structs.replace(PLAN, gated=(*GATED, "cpu:deploy")))
    with pytest.raises(NotMeasuredError, match="cpu:deploy"):
        power(recorded(lacking))


def test_metrics_that_are_gated_by_default_are_named_in_the_block() -> None:
    run = VariantRun(metrics={"noop_cpu": 1.0, "noop_writes": 0.0, "noop_reconciles": 1.0})
    found = block_of("noop", msgspec.structs.replace(PLAN, gated=()), [Pair(a=run, b=run)] * 3, started="now")
    assert found.plan.gated == ("noop_cpu", "noop_writes", "noop_reconciles")


def test_alarms_of_all_parts_add_up() -> None:
    noop, deploy = block(1.09, sd=0.005), msgspec.structs.replace(block(1.09, sd=0.005), part="deploy")
    found = power(recorded(noop, deploy), comparisons=2000)
    assert [part.part for part in found.parts] == ["deploy", "noop"]
    assert found.false_alarms == pytest.approx(0.75, abs=0.05)


def test_more_pairs_call_more() -> None:
    loud = recorded(block(1.1, sd=0.06, differs=DEFECT, pairs=40))
    few, many = (power(loud, comparisons=2000, pairs=pairs).parts[0].slower[0].regression.share for pairs in (6, 20))
    assert few < 0.7 < 0.9 < many


def test_too_few_pairs_for_a_comparison_are_refused() -> None:
    with pytest.raises(UsageError, match="warm-up"):
        power(QUIET, pairs=1)


def test_noise_of_comparisons_on_disk(tmp_path: Path) -> None:
    a, b = (Variant(label=label, operator="/operator.yaml") for label in "ab")
    stores = []
    for _ in range(2):
        plan = Plan(
            command="compare",
            started="2026-01-31T12:00:00+00:00",
            subject=Subject(nodeid="t.py::test", path="/t.py", name="test", cluster="default"),
            arms={"a": a, "b": b},
            slots=(*interleaved("noop", 3), *interleaved("deploy", 3)),
            comparisons={"noop": msgspec.structs.replace(PLAN, gated=()), "deploy": PLAN},
        )
        stores.append(Store.create(tmp_path, plan))
        for slot in interleaved("noop", 3):
            run = VariantRun(metrics={"noop_cpu": 1.0 + slot.round, "noop_writes": 0.0})
            stores[-1].keep(Sample(slot=slot, run=run, seconds=1.0, machine=MACHINE, facts={"nodes": 5}))
    found = noise.from_comparisons([store.folder for store in stores], how="by hand")
    assert (found.machine, found.facts, found.parts) == (MACHINE, {"nodes": "5"}, ("noop",))
    assert [block.plan.gated for block in found.blocks] == [("noop_cpu", "noop_writes")] * 2
    assert [[pair.first for pair in block.pairs] for block in found.blocks] == [["b", "a"]] * 2
    with pytest.raises(UsageError, match="0 machines"):
        noise.from_comparisons([], how="by hand")


# ---- the command


def test_the_spread_is_that_of_the_runs_and_of_their_ratios() -> None:
    found = noise.spread(QUIET.blocks, "noop_cpu")
    assert found is not None
    assert (len(found.runs), len(found.ratios)) == (12, 6)
    assert list(found.runs) == sorted(found.runs)
    # Both sides of a pair were drawn with 2 %, independently of one another.
    assert found.runs[5] == pytest.approx(0.02, rel=0.3)
    assert found.ratios[2] == pytest.approx(0.02 * 2**0.5, rel=0.3)
    assert noise.spread(QUIET.blocks, "cpu:deploy") is None
    assert noise.spread(QUIET.blocks, "noop_writes") is None, "there were none: nothing varies"


def conclusion(printed: str) -> str:
    """Return the last paragraph, however it was wrapped."""
    return " ".join(printed.strip().split("\n\n")[-1].split())


def test_the_command_prints_the_shares(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], snapshot: SnapshotAssertion
) -> None:
    noise.write(QUIET, tmp_path / "noise.json")
    assert main(["selftest", "power", "--noise", str(tmp_path / "noise.json")]) == 0
    printed = capsys.readouterr().out
    assert "an operator with itself" in printed
    assert DEFECT.split()[-1] in printed
    assert "10,000" in printed
    assert conclusion(printed) == snapshot


def test_the_command_fails_where_nothing_was_recorded_of_one_kind(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], snapshot: SnapshotAssertion
) -> None:
    noise.write(recorded(block(1.0)), tmp_path / "noise.json")
    assert main(["selftest", "power", "--noise", str(tmp_path / "noise.json")]) == 1
    printed = capsys.readouterr().out
    (missing,) = (line for line in printed.splitlines() if line.startswith("No comparison"))
    assert missing == snapshot(name="missing")
    assert " NOT " in conclusion(printed)
    assert conclusion(printed) == snapshot(name="conclusion")


def test_contended_pairs_are_replaced_by_the_next_of_their_order_until_repeats_are_used_up() -> None:
    # Each pair's figure is its place; a hog was there for places 4 to 9.
    places = [np.stack([np.stack([np.arange(20.0)])] * 2)]
    hog = np.isin(np.arange(20), range(4, 10))

    def drawn(repeats: int) -> tuple[np.ndarray[tuple[int, ...], np.dtype[np.float64]], int]:
        plan = msgspec.structs.replace(PLAN, max_contention=0.25, repeats=repeats)
        (a, _), repeated = draw(places, plan, 500, np.random.default_rng(1), exchange=False, contended=[hog])
        return a[:, 0], repeated

    plain, none = drawn(0)
    assert none == 0
    all_again, repeated = drawn(100)
    assert repeated > 500
    assert not np.isin(all_again, range(4, 10)).any()
    # Both orders come as often as before.
    assert (all_again % 2 == plain % 2).all()
    assert (all_again[~np.isin(plain, range(4, 10))] == plain[~np.isin(plain, range(4, 10))]).all()
    few, repeated = drawn(2)
    assert repeated <= 1000
    assert np.isin(few, range(4, 10)).any()


def test_a_hog_that_comes_and_goes_costs_power_that_repeats_give_back() -> None:
    calm, hogged = (block(1.12, sd=sd, differs=DEFECT, seed=seed) for seed, sd in ((0, 0.02), (1, 0.25)))
    # It is there for four pairs, and away for four.
    pairs = tuple(
        msgspec.structs.replace(
            hogged.pairs[at] if at % 8 >= 4 else calm.pairs[at], contention=0.6 if at % 8 >= 4 else 0.02
        )
        for at in range(len(calm.pairs))
    )
    noise = recorded(msgspec.structs.replace(calm, pairs=pairs))
    with_rule, without = (
        power(noise, comparisons=500, max_contention=limit).parts[0].slower[0] for limit in (0.25, None)
    )
    assert (with_rule.contended_pairs, without.contended_pairs, without.repeats) == (8, 0, 0.0)
    assert with_rule.repeats > 1
    assert with_rule.regression.share > 0.95 > without.regression.share
