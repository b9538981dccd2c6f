"""What a sweep is held to, who asks for it, and what that does to the exit code."""

from __future__ import annotations

import msgspec
import pytest
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.analysis.result import CheckResult, Verdict
from pytest_grovescale.analysis.scaling import SizedRun, Sweep, sweep
from pytest_grovescale.bench.store import Sample, Slot
from pytest_grovescale.bench.sweep import SweepFailOn, exit_code, judged, of_option
from pytest_grovescale.checks import HotLoop, Scales
from pytest_grovescale.checks.check import Check, encode
from pytest_grovescale.checks.judge import judge_all
from pytest_grovescale.checks.run import Run
from pytest_grovescale.recording.records import CheckDeclared
from tests.unit.bench.planned import sample
from tests.unit.checks.noop_run import NoopRun, verdict


def swept() -> Sweep:
    """CPU in proportion, memory the same at any size."""
    return sweep(
        "replicas", [SizedRun(size=n, metrics={"cpu:deploy": n / 100, "rss:deploy": 1e8}) for n in (10, 20, 40)]
    )


def run_of(size: int, *checks: tuple[Check, str]) -> Sample:
    held_to = tuple(CheckDeclared(at=size, check=encode(check), source=source) for check, source in checks)
    return msgspec.structs.replace(sample(Slot(part="sweep", round=0, arm=str(size))), held_to=held_to)


@pytest.mark.parametrize(
    ("text", "check"),
    [
        ("cpu:deploy", Scales("cpu:deploy", exponent_max=1.15)),
        ("milestone:deploy/pods-ready=1.3", Scales("milestone:deploy/pods-ready", exponent_max=1.3)),
    ],
)
def test_an_option_names_a_metric_and_may_name_its_bound(text: str, check: Check) -> None:
    assert of_option(text) == check


def test_each_check_of_the_test_is_judged_once_and_then_those_of_the_command_line() -> None:
    steep, flat = (Scales("cpu:deploy", exponent_max=0.5), "budgets.yaml:3"), (Scales("rss:deploy"), "test")
    # Only one run came as far as the test's own call.
    samples = [run_of(10, steep), run_of(20, steep, flat), run_of(40, steep)]
    found = judged(swept(), samples, [Scales("cpu:deploy")])
    assert [(check.verdict, check.source) for check in found] == [
        ("fail", "budgets.yaml:3"),
        ("pass", "test"),
        ("pass", "--check"),
    ]


def test_without_a_check_nothing_is_judged() -> None:
    assert judged(swept(), [run_of(10)], []) == ()
    assert exit_code((), "inconclusive") == 0


@pytest.mark.parametrize(
    ("verdicts", "codes"),
    [
        (["pass"], {"never": 0, "fail": 0, "inconclusive": 0}),
        (["pass", "inconclusive"], {"never": 0, "fail": 0, "inconclusive": 4}),
        (["inconclusive", "fail"], {"never": 0, "fail": 1, "inconclusive": 1}),
        (["fail", "pass"], {"never": 0, "fail": 1, "inconclusive": 1}),
    ],
)
def test_the_exit_code_is_the_worst_verdicts(verdicts: list[Verdict], codes: dict[SweepFailOn, int]) -> None:
    checks = [CheckResult(check="scales", verdict=verdict, text="") for verdict in verdicts]
    assert {fail_on: exit_code(checks, fail_on) for fail_on in codes} == codes


def test_one_run_is_not_judged_by_it_and_says_who_does(snapshot: SnapshotAssertion) -> None:
    declared = ((encode(Scales("cpu:deploy")), "marker"), (encode(HotLoop()), "budgets.yaml:3"))
    run = NoopRun(checks=declared)
    assert [check.source for check in judge_all(Run(run.result())).checks] == ["budgets.yaml:3"]
    assert [one.source for one in run.result().declared] == ["marker", "budgets.yaml:3"]
    said = verdict(Scales("cpu:deploy"), run)
    assert said.startswith("inconclusive: ")
    assert said == snapshot
