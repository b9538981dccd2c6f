"""Checks of a phase that something broke beneath: neither passed nor failed, but for what is certain all the same."""

from __future__ import annotations

import typing
from typing import Any

import msgspec
import pytest

from pytest_grovescale.analysis.phase_result import Disruption, DisruptionKind
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
    SimulatedNodesOnly,
)
from pytest_grovescale.checks.check import Check, kinds
from pytest_grovescale.checks.judge import judge, judge_all
from pytest_grovescale.checks.run import Run

from .noop_run import IDLE, STEADY, NoopRun

RESTART = Disruption(
    kind="component-restart",
    subject="kube-apiserver",
    from_s=4.2,
    to_s=5.0,
    text=f"kube-apiserver was restarted 4.2 s into {STEADY}",
    uncertain=("CPU", "API traffic"),
)
PASSING = (
    Cpu(STEADY, max="1h"),
    Rss(max="1G", phase=STEADY),
    NoopWrites(),
    NoopReads(max=10**6),
    NoopReconciles(max=10**6),
    HotLoop(),
    NoopCpu(times_idle=100),
    ApiRequests(STEADY, max=10**6),
)
FAILING = (Cpu(STEADY, max=0), Rss(max=1, phase=STEADY), ApiRequests(STEADY, max=0), NoopCpu(times_idle=0.01))


def run(disruption: Disruption | None, name: str = STEADY, **parts: Any) -> TestResult:
    """Return a run in which something broke in a phase."""
    test = NoopRun(**parts).result()
    found = () if disruption is None else (disruption,)
    phases = tuple(
        msgspec.structs.replace(phase, disruptions=found if phase.name == name else ()) for phase in test.phases
    )
    return msgspec.structs.replace(test, phases=phases)


@pytest.mark.parametrize("check", [*PASSING, *FAILING], ids=str)
def test_nothing_that_passed_or_failed_is_decided(check: Check) -> None:
    before = judge(check, Run(run(None, reads=3)))
    assert before.verdict == ("pass" if check in PASSING else "fail"), before.text
    judged = judge(check, Run(run(RESTART, reads=3)))
    assert judged.verdict == "inconclusive"
    assert judged.text == f"{before.text}, but {RESTART.text}"
    assert judged.evidence[0] == RESTART.text
    assert judged.figure == before.figure


def test_a_check_of_another_phase_is_judged_as_before() -> None:
    assert judge(Cpu("deploy", max="1h"), Run(run(RESTART))).verdict == "pass"
    assert judge(Cpu("deploy", max=0), Run(run(RESTART))).verdict == "fail"


@pytest.mark.parametrize("check", [NoopCpu(times_idle=100), HotLoop()], ids=str)
def test_what_broke_the_idle_twin_broke_what_is_compared_with_it(check: Check) -> None:
    assert judge(check, Run(run(RESTART, IDLE))).verdict == "inconclusive"


def test_several_are_all_evidence() -> None:
    test = run(RESTART)
    stall = msgspec.structs.replace(RESTART, kind="stall", text="etcd was stopped for 2.0 s, 5.0 s into steady-state")
    phases = tuple(
        msgspec.structs.replace(phase, disruptions=(*phase.disruptions, stall)) if phase.disruptions else phase
        for phase in test.phases
    )
    judged = judge(NoopWrites(), Run(msgspec.structs.replace(test, phases=phases)))
    assert judged.evidence[:2] == (RESTART.text, stall.text)


def test_what_could_not_be_measured_at_all_names_it_too() -> None:
    judged = judge(Cpu(STEADY, max="1h"), Run(run(RESTART, steady_cpu=None)))
    assert judged.verdict == "inconclusive"
    assert judged.text.endswith(f"; {RESTART.text}")


def test_a_budget_that_is_not_enforced_stays_so() -> None:
    assert judge(NoopWrites(), Run(run(RESTART)), enforced=False).verdict == "not enforced"


def test_the_test_is_inconclusive() -> None:
    checks = (({"check": "noop_writes"}, "marker"),)
    test = msgspec.structs.replace(run(RESTART, checks=checks), ended="passed")
    assert judge_all(Run(test)).verdict == "inconclusive"


# ---- what is certain all the same


def test_a_gap_in_the_audit_log_leaves_what_does_not_read_it() -> None:
    gap = msgspec.structs.replace(RESTART, kind="audit-gap", subject="audit log", text="the audit log broke off")
    assert judge(Cpu(STEADY, max="1h"), Run(run(gap, audit_gap=True))).verdict == "pass"
    assert judge(Cpu(STEADY, max=0), Run(run(gap, audit_gap=True))).verdict == "fail"
    judged = judge(ApiRequests(STEADY, max=10**6), Run(run(gap, audit_gap=True, scraped=False)))
    assert judged.verdict == "inconclusive"
    assert "audit log" in judged.text


BUSY = msgspec.structs.replace(
    RESTART,
    kind="busy-recorder",
    subject="recorder",
    text="the recorder was late, busy or without a core, for 2.0 s, 4.2 s into deploy",
    uncertain=("samples from 4.2 s to 6.2 s",),
)


def test_a_recorder_that_was_only_late_leaves_what_others_have_timed() -> None:
    test = run(BUSY, "deploy")
    assert judge(Cpu("deploy", max="1h"), Run(test)).verdict == "pass"
    assert judge(Cpu("deploy", max=0), Run(test)).verdict == "fail"
    assert judge(Milestone("pods-created", max="1h"), Run(test)).verdict == "pass", "by the API server's clock"


def test_what_a_late_recorder_has_timed_itself_is_not_decided() -> None:
    test = run(BUSY, "deploy", audited=False)
    assert judge(Milestone("pods-created", max="1h"), Run(test)).verdict == "inconclusive"


def test_a_phase_whose_end_a_late_recorder_saw_late_has_used_no_more_than_it_used() -> None:
    test = run(msgspec.structs.replace(BUSY, uncertain=("duration", "CPU at its end")), "deploy")
    assert judge(Cpu("deploy", max="1h"), Run(test)).verdict == "pass"
    assert judge(Cpu("deploy", max=0), Run(test)).verdict == "inconclusive"


def test_a_failure_that_was_seen_cannot_be_unseen() -> None:
    stands = {kind.__struct_config__.tag for kind in kinds().values() if kind.failure_stands}
    assert stands == {"simulated_nodes_only", "labels", "metric_names", "function_name_labels"}
    assert SimulatedNodesOnly().failure_stands


@pytest.mark.parametrize("kind", typing.get_args(DisruptionKind))
def test_every_kind_of_disruption_is_known(kind: DisruptionKind) -> None:
    judged = judge(NoopWrites(), Run(run(msgspec.structs.replace(RESTART, kind=kind))))
    assert judged.verdict in ("pass", "inconclusive")
