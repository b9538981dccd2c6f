"""How checks are written: arguments, their text, their way into a recording and back, and what is refused."""

from __future__ import annotations

import math
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

import pytest_grovescale
from pytest_grovescale.checks import shape
from pytest_grovescale.checks.check import encode, text_of
from pytest_grovescale.checks.judge import judge_all
from pytest_grovescale.errors import UsageError

from .noop_run import NoopRun, in_words

WRITTEN: dict[str, shape.AnyCheck] = {
    "noop_writes(max=0)": shape.noop_writes(),
    'noop_writes(max=2, phase="quiet")': shape.noop_writes(max=2, phase="quiet"),
    "noop_reads(max=3)": shape.noop_reads(max=3),
    'noop_reconciles(controller="a", per_trigger=1)': shape.noop_reconciles(controller="a", per_trigger=1),
    "noop_reconciles(per_trigger={'a': 1})": shape.noop_reconciles(per_trigger={"a": 1}),
    'noop_cpu(per_reconcile="2ms")': shape.noop_cpu(per_reconcile="2ms"),
    'noop_cpu(vs="main", tolerance=0.2)': shape.noop_cpu(vs="main", tolerance=0.2),
    "hot_loop()": shape.hot_loop(),
    'scales("cpu:deploy", exponent_max=1.15)': shape.scales("cpu:deploy"),
    'scales("rss:deploy", exponent_max=0.5)': shape.scales(metric="rss:deploy", exponent_max=0.5),
    'api_requests("deploy", "create", max=6.5, per_object=True)': shape.api_requests(
        "deploy", "create", max=6.5, per_object=True
    ),
    'cpu("deploy", max="4s")': shape.cpu("deploy", max="4s"),
    'rss(max="200Mi")': shape.rss(max="200Mi"),
    'milestone("ready", max=12)': shape.milestone("ready", max=12),
    'series(max=33, family="my_*")': shape.series(33, family="my_*"),
    "conflict_rate(max=0.05)": shape.conflict_rate(0.05),
    "initialised(families=['a_total'], labels={'kind': ['x']})": shape.initialised(["a_total"], labels={"kind": ["x"]}),
    'invariant("sum(a) == 2", running="off")': shape.invariant("sum(a) == 2", running="off"),
    'milestone("ready", times_floor=1.5, floor="bare/ready")': shape.milestone(
        "ready", times_floor=1.5, floor="bare/ready"
    ),
}


@pytest.mark.parametrize("text", WRITTEN)
def test_a_check_reads_as_it_is_written(text: str) -> None:
    assert text_of(WRITTEN[text]) == text


@pytest.mark.parametrize("text", WRITTEN)
def test_a_check_comes_back_from_a_recording(text: str) -> None:
    assert shape.decode(encode(WRITTEN[text])) == WRITTEN[text]


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [
        (shape.noop_writes, {"max": "0"}),
        (shape.noop_writes, {"max": -1}),
        (shape.noop_writes, {"max": True}),
        (shape.noop_reconciles, {"max": math.nan}),
        (shape.scales, {"metric": "speed:deploy"}),
        (shape.scales, {"metric": "noop_cpu", "exponent_max": -1}),
        (shape.noop_reconciles, {"max": math.inf}),
        (shape.noop_reconciles, {}),
        (shape.noop_reconciles, {"max": 1, "per_trigger": 1, "controller": "a"}),
        (shape.noop_reconciles, {"per_trigger": 1}),
        (shape.noop_reconciles, {"per_trigger": {}}),
        (shape.noop_reconciles, {"per_trigger": {"a": 1}, "controller": "b"}),
        (shape.noop_reconciles, {"per_trigger": {"a": -1}}),
        (shape.noop_cpu, {}),
        (shape.series_growth, {"vs": "pods"}),
        (shape.noop_cpu, {"per_reconcile": 1, "vs": "main"}),
        (shape.noop_cpu, {"per_reconcile": "4 seconds"}),
        (shape.noop_cpu, {"vs": "main", "process": "kwok"}),
        (shape.cpu, {"phase": "deploy", "max": "4x"}),
        (shape.rss, {"max": "200MiB"}),
        (shape.api_requests, {"phase": "p", "verb": "creates", "max": 1}),
        (shape.api_requests, {"phase": "p", "max": 1, "per_object": -3}),
        (shape.milestone, {"name": "a"}),
        (shape.milestone, {"name": "a", "max": 1, "floor": "2s"}),
        (shape.milestone, {"name": "a", "times_floor": 2, "floor": "bare"}),
        (shape.milestone, {"name": "a", "times_floor": 2, "floor": "baseline:"}),
        (shape.cpu, {"phase": "deploy", "max": math.inf}),
        (shape.histogram_buckets, {"share_max": 95}),
        (shape.histogram_buckets, {"share_max": -0.1}),
        (shape.conflict_rate, {"max": 20.0}),
        (shape.conflict_rate, {"max": math.nan}),
        (shape.labels, {"forbidden": [""]}),
        (shape.initialised, {"families": ["a"], "labels": {"kind": []}}),
        (shape.invariant, {"expression": "sum(a) == 2", "running": -1.0}),
        (shape.no_builtin_duplicates, {"ignore": ["my_*", "*"]}),
        (shape.coexistence, {"ignore": ["**"]}),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else in_words(value),
)  # fmt: skip
def test_what_cannot_be_is_refused(kind: Any, arguments: dict[str, Any], snapshot: SnapshotAssertion) -> None:
    with pytest.raises(UsageError) as caught:
        kind(**arguments)
    assert str(caught.value) == snapshot


def test_all_checks_can_be_imported_from_the_package() -> None:
    for kind in shape.AnyCheck.__args__:
        name = kind.__struct_config__.tag
        assert getattr(pytest_grovescale, name) is kind


# ---- judged from a recording


def test_declared_checks_are_judged_in_their_order() -> None:
    checks = [shape.noop_writes(), shape.cpu("deploy", max="1s"), shape.hot_loop()]
    run = NoopRun(checks=tuple((encode(check), f"budgets.yaml:{n}") for n, check in enumerate(checks)))
    found = judge_all(run.result()).checks
    assert [(check.verdict, check.source) for check in found] == [
        ("pass", "budgets.yaml:0"),
        ("fail", "budgets.yaml:1"),
        ("pass", "budgets.yaml:2"),
    ]
    assert found == judge_all(run.result()).checks


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
    (found,) = judge_all(NoopRun(checks=((plain, "marker"),)).result()).checks
    assert found.verdict == "inconclusive"
    assert found.text == snapshot
