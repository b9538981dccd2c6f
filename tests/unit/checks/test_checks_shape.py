"""How checks are written: arguments, their text, their way into a recording and back, and what is refused."""

from __future__ import annotations

import math
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale import checks
from pytest_grovescale.checks.check import Check, decode, encode, kinds, text_of
from pytest_grovescale.checks.judge import judge_all
from pytest_grovescale.checks.run import Run
from pytest_grovescale.errors import UsageError

from .noop_run import NoopRun, in_words

WRITTEN: dict[str, Check] = {
    "noop_writes(max=0)": checks.NoopWrites(),
    'noop_writes(max=2, phase="quiet")': checks.NoopWrites(max=2, phase="quiet"),
    "noop_reads(max=3)": checks.NoopReads(max=3),
    'noop_reconciles(controller="a", per_trigger=1)': checks.NoopReconciles(controller="a", per_trigger=1),
    "noop_reconciles(per_trigger={'a': 1})": checks.NoopReconciles(per_trigger={"a": 1}),
    'noop_cpu(per_reconcile="2ms")': checks.NoopCpu(per_reconcile="2ms"),
    'noop_cpu(vs="main", tolerance=0.2)': checks.NoopCpu(vs="main", tolerance=0.2),
    "hot_loop()": checks.HotLoop(),
    'scales("cpu:deploy", exponent_max=1.15)': checks.Scales("cpu:deploy"),
    'scales("rss:deploy", exponent_max=0.5)': checks.Scales(metric="rss:deploy", exponent_max=0.5),
    'api_requests("deploy", "create", max=6.5, per_object=True)': checks.ApiRequests(
        "deploy", "create", max=6.5, per_object=True
    ),
    'cpu("deploy", max="4s")': checks.Cpu("deploy", max="4s"),
    'rss(max="200Mi")': checks.Rss(max="200Mi"),
    'milestone("ready", max=12)': checks.Milestone("ready", max=12),
    'series(max=33, family="my_*")': checks.Series(33, family="my_*"),
    "conflict_rate(max=0.05)": checks.ConflictRate(0.05),
    "preinitialized_series(families=['a_total'], labels={'kind': ['x']})": checks.PreinitializedSeries(
        ["a_total"], labels={"kind": ["x"]}
    ),
    'invariant("sum(a) == 2", running="off")': checks.Invariant("sum(a) == 2", running="off"),
    'milestone("ready", times_floor=1.5, floor="bare/ready")': checks.Milestone(
        "ready", times_floor=1.5, floor="bare/ready"
    ),
}


@pytest.mark.parametrize("text", WRITTEN)
def test_a_check_reads_as_it_is_written(text: str) -> None:
    assert text_of(WRITTEN[text]) == text


@pytest.mark.parametrize("text", WRITTEN)
def test_a_check_comes_back_from_a_recording(text: str) -> None:
    assert decode(encode(WRITTEN[text])) == WRITTEN[text]


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [
        (checks.NoopWrites, {"max": "0"}),
        (checks.NoopWrites, {"max": -1}),
        (checks.NoopWrites, {"max": True}),
        (checks.NoopReconciles, {"max": math.nan}),
        (checks.Scales, {"metric": "speed:deploy"}),
        (checks.Scales, {"metric": "noop_cpu", "exponent_max": -1}),
        (checks.NoopReconciles, {"max": math.inf}),
        (checks.NoopReconciles, {}),
        (checks.NoopReconciles, {"max": 1, "per_trigger": 1, "controller": "a"}),
        (checks.NoopReconciles, {"per_trigger": 1}),
        (checks.NoopReconciles, {"per_trigger": {}}),
        (checks.NoopReconciles, {"per_trigger": {"a": 1}, "controller": "b"}),
        (checks.NoopReconciles, {"per_trigger": {"a": -1}}),
        (checks.NoopCpu, {}),
        (checks.SeriesGrowth, {"vs": "pods"}),
        (checks.NoopCpu, {"per_reconcile": 1, "vs": "main"}),
        (checks.NoopCpu, {"per_reconcile": "4 seconds"}),
        (checks.NoopCpu, {"vs": "main", "process": "kwok"}),
        (checks.Cpu, {"phase": "deploy", "max": "4x"}),
        (checks.Rss, {"max": "200MiB"}),
        (checks.ApiRequests, {"phase": "p", "verb": "creates", "max": 1}),
        (checks.ApiRequests, {"phase": "p", "max": 1, "per_object": -3}),
        (checks.Milestone, {"name": "a"}),
        (checks.Milestone, {"name": "a", "max": 1, "floor": "2s"}),
        (checks.Milestone, {"name": "a", "times_floor": 2, "floor": "bare"}),
        (checks.Milestone, {"name": "a", "times_floor": 2, "floor": "baseline:"}),
        (checks.Cpu, {"phase": "deploy", "max": math.inf}),
        (checks.HistogramBuckets, {"share_max": 95}),
        (checks.HistogramBuckets, {"share_max": -0.1}),
        (checks.ConflictRate, {"max": 20.0}),
        (checks.ConflictRate, {"max": math.nan}),
        (checks.Labels, {"forbidden": [""]}),
        (checks.PreinitializedSeries, {"families": ["a"], "labels": {"kind": []}}),
        (checks.Invariant, {"expression": "sum(a) == 2", "running": -1.0}),
        (checks.NoBuiltinDuplicates, {"ignore": ["my_*", "*"]}),
        (checks.NoTestLeakage, {"ignore": ["**"]}),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else in_words(value),
)  # fmt: skip
def test_what_cannot_be_is_refused(kind: Any, arguments: dict[str, Any], snapshot: SnapshotAssertion) -> None:
    with pytest.raises(UsageError) as caught:
        kind(**arguments)
    assert str(caught.value) == snapshot


def test_all_checks_can_be_imported_from_the_package() -> None:
    for kind in kinds().values():
        assert getattr(checks, kind.__name__) is kind


# ---- judged from a recording


def test_declared_checks_are_judged_in_their_order() -> None:
    declared_checks = [checks.NoopWrites(), checks.Cpu("deploy", max="1s"), checks.HotLoop()]
    run = NoopRun(checks=tuple((encode(check), f"budgets.yaml:{n}") for n, check in enumerate(declared_checks)))
    found = judge_all(Run(run.result())).checks
    assert [(check.verdict, check.source) for check in found] == [
        ("pass", "budgets.yaml:0"),
        ("fail", "budgets.yaml:1"),
        ("pass", "budgets.yaml:2"),
    ]
    assert found == judge_all(Run(run.result())).checks


@pytest.mark.parametrize(
    "plain",
    [
        {"check": "warp_speed", "max": 9},
        {"check": "cpu", "max": "4x", "phase": "deploy"},
        {"check": "noop_writes", "warp": 9},
    ],
    ids=["name", "value", "argument"],
)
def test_a_check_of_another_version_is_inconclusive(plain: dict[str, Any], snapshot: SnapshotAssertion) -> None:
    (found,) = judge_all(Run(NoopRun(checks=((plain, "marker"),)).result())).checks
    assert found.verdict == "inconclusive"
    assert found.text == snapshot
