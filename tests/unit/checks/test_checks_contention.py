"""Bounds in a phase whose cores other programs used: what timing can change is not decided by an exceeded bound."""

from __future__ import annotations

import msgspec
import pytest
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.analysis.phase_result import Contention
from pytest_grovescale.analysis.result import TestResult
from pytest_grovescale.checks import (
    ApiRequests,
    Cpu,
    HotLoop,
    Milestone,
    NoopCpu,
    NoopReads,
    NoopReconciles,
    NoopWrites,
    Rss,
)
from pytest_grovescale.checks.check import Check, kinds
from pytest_grovescale.checks.judge import judge
from pytest_grovescale.checks.run import Run

from .noop_run import STEADY, NoopRun, in_words

OTHERS = Contention(
    cores=2, run_cores=0.7, others_cores=1.2, steal_cores=0.1, iowait_cores=0.0, idle_cores=0.0, others_share=0.65
)
QUOTA = Contention(
    cores=2, run_cores=1.0, others_cores=0.0, others_share=0.0, quota_cores=1.0, throttled_s=6.0, throttled_share=0.5
)
FEW = msgspec.structs.replace(OTHERS, others_cores=0.1, steal_cores=0.0, others_share=0.05)

TIMED = (
    Cpu("deploy", max="1s"),
    Cpu(STEADY, max="1ms"),
    NoopCpu(times_idle=1.01),
    NoopReconciles(max=0),
    HotLoop(passes=0.01),
    ApiRequests("deploy", max=1),
    ApiRequests("deploy", "patch", max=1),
)
EXACT = (
    NoopWrites(),
    NoopReads(max=0),
    ApiRequests("deploy", "create", max=1),
    Rss(max="1M"),
)


def run(contention: Contention | None, *, limit: float = 0.10) -> TestResult:
    test = NoopRun(writes=3, reads=4, triggers=40).result()
    phases = tuple(msgspec.structs.replace(phase, contention=contention) for phase in test.phases)
    return msgspec.structs.replace(test, phases=phases, contention_limit=limit)


@pytest.mark.parametrize("check", [*TIMED, *EXACT], ids=in_words)
@pytest.mark.parametrize("contention", [None, FEW])
def test_on_a_machine_of_its_own_every_exceeded_bound_fails(check: Check, contention: Contention | None) -> None:
    assert judge(check, Run(run(contention))).verdict == "fail"


@pytest.mark.parametrize("check", TIMED, ids=in_words)
@pytest.mark.parametrize(
    ("contention", "reason"),
    [
        (OTHERS, " 1.2 of 2 cores "),
        (QUOTA, " 1.0 cores "),
    ],
    ids=["others", "quota"],
)
def test_what_timing_can_change_is_inconclusive_with_the_reason(
    check: Check, contention: Contention, reason: str, snapshot: SnapshotAssertion
) -> None:
    judged = judge(check, Run(run(contention)))
    assert judged.verdict == "inconclusive"
    assert reason in judged.text
    assert " > " in judged.text
    assert judged.text == snapshot


@pytest.mark.parametrize("check", EXACT, ids=in_words)
def test_what_timing_cannot_change_fails_as_usual(check: Check) -> None:
    assert judge(check, Run(run(OTHERS))).verdict == "fail"


@pytest.mark.parametrize(
    "check", [Cpu("deploy", max="1h"), ApiRequests("deploy", max=10**6), Milestone("pods-created", max="1h")]
)
def test_a_bound_that_held_has_held(check: Check) -> None:
    assert judge(check, Run(run(OTHERS))).verdict == "pass"


def test_the_limit_is_the_runs_own() -> None:
    check = Cpu("deploy", max="1s")
    assert judge(check, Run(run(OTHERS, limit=0.70))).verdict == "fail"
    assert judge(check, Run(run(FEW, limit=0.01))).verdict == "inconclusive"


def test_every_check_says_whether_timing_can_change_its_figure() -> None:
    timed = {kind.__struct_config__.tag for kind in kinds().values() if kind.timed}
    assert timed == {
        "cpu",
        "noop_cpu",
        "noop_reconciles",
        "hot_loop",
        "idle_cpu",
        "reconciles",
        "milestone",
        "histogram_buckets",
        "conflict_rate",
        "error_ratio",
        "no_blocked_workers",
        "regression",
    }
