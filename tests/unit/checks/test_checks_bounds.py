"""CPU, memory, traffic and milestones against their bounds; what was not measured is inconclusive."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.analysis.controller_result import Saturation
from pytest_grovescale.analysis.phase_result import MilestoneResult
from pytest_grovescale.analysis.result import TestResult
from pytest_grovescale.checks import ApiRequests, Cpu, Milestone, Rss
from pytest_grovescale.checks.judge import judge
from pytest_grovescale.checks.run import Run
from pytest_grovescale.errors import UsageError

from .noop_run import NoopRun, changed, in_words, phase, verdict


@pytest.mark.parametrize(
    ("check", "facts", "expected"),
    [
        (Cpu("deploy", max="2s"), {}, "pass: .* 2 s ≤ 2 s$"),
        (Cpu("deploy", max=1.999), {}, "fail: .* 2 s > 1.999 s$"),
        (Cpu("deploy", max="200ms", per_object=True), {}, "pass: .* 10 pods 200 ms"),
        (Cpu("deploy", max="200ms", per_object=4), {}, "fail: .* 4 objects 500 ms"),
        (Cpu("deploy", max="9s"), {"profiled": True}, "inconclusive: "),
        (Cpu("deploy", max="1s"), {"profiled": True}, "inconclusive: "),
        (Cpu("deplo", max="9s"), {}, "inconclusive: .*'deplo'.* deploy"),
        (Cpu("deploy", max="9s", process="operatr"), {}, "inconclusive: .*'operatr'"),
        (Cpu("steady-state", max="9s"), {"restarted": True}, "inconclusive: .*restarted"),
        (Cpu("steady-state", max="1s"), {"restarted": True}, "fail: .* 4.3 s > 1 s"),
        (Cpu("steady-state", max="1s"), {"steady_outcome": "timeout"}, "inconclusive: .*timeout"),
        (Cpu("steady-state", max="1s"), {"steady_cpu": None}, "inconclusive: .*'operator'"),
        (Rss(max="95M"), {}, "pass: .* 95 MB ≤ 95 MB$"),
        (Rss(max="94M"), {}, "fail: "),
        (Rss(max="94Mi", phase="deploy"), {}, "pass: "),
        (Rss(max="1Gi", process="kwok"), {}, "inconclusive: .*'kwok'"),
        (Rss(max="1Gi"), {"restarted": True}, "inconclusive: "),
        (Rss(max="1Gi", phase="deploy"), {"restarted": True}, "pass: "),
        (ApiRequests("deploy", max=20), {}, "pass: .* 20 ≤ 20"),
        (ApiRequests("deploy", "create", max=9), {}, "fail: create .* 10 > 9"),
        (ApiRequests("deploy", max=2, per_object=True), {}, "pass: .* 10 pods 2"),
        (ApiRequests("deploy", "patch", resource="pods", max=9), {}, "fail: patch pods .* 10"),
        (ApiRequests("deploy", max=0, identity="kwok"), {}, "inconclusive: .*'kwok'"),
        (ApiRequests("deploy", max=99, resource="pod"), {}, "inconclusive: .*'pod'.* pods"),
        (ApiRequests("steady-state", max=9), {"audit_gap": True}, "inconclusive: .*rotated away"),
        (ApiRequests("deploy", max=99), {"audited": False}, "inconclusive: "),
        (ApiRequests("steady-state", max=9), {"steady_outcome": "failed"}, "inconclusive: .*failed"),
    ],
    ids=in_words,
)
def test_bounds(check: Any, facts: dict[str, Any], expected: str, snapshot: SnapshotAssertion) -> None:
    found = verdict(check, NoopRun(**facts))
    assert re.match(expected, found)
    assert found == snapshot


def test_no_count_of_objects_no_figure_per_object(snapshot: SnapshotAssertion) -> None:
    test = msgspec.structs.replace(NoopRun().result(), objects=None)
    found = verdict(Cpu("deploy", max=9, per_object=True), test)
    assert found.startswith("inconclusive: ")
    assert found == snapshot


def test_resources_that_were_named_count_whatever_they_are() -> None:
    test = NoopRun().result()
    rows = tuple(msgspec.structs.replace(row, category="lease") for row in phase(test, "deploy").api)
    leases = changed(test, "deploy", api=rows)
    assert verdict(ApiRequests("deploy", max=0), leases).startswith("pass: ")
    assert verdict(ApiRequests("deploy", max=0, resource="pods"), leases).startswith("fail: ")


# ---- milestones


def taken(*times: tuple[str, str, float | None], **fields: Any) -> TestResult:
    """A run whose phases have milestones that were met at these times: (phase, milestone, seconds)."""
    test = NoopRun(floors=fields.pop("floors", {})).result()
    for name in dict.fromkeys(where for where, _, _ in times):
        found = tuple(
            MilestoneResult(name=what, condition="", met=seconds is not None, observed_s=seconds, **fields)
            for where, what, seconds in times
            if where == name
        )
        test = changed(test, name, milestones=found, saturation=None)
    return test


READY = ("deploy", "ready", 3.0)


@pytest.mark.parametrize(
    ("check", "test", "expected"),
    [
        (Milestone("ready", max="3s"), taken(READY), "pass: ready 3 s ≤ 3 s$"),
        (Milestone("ready", phase="deploy", max="2.9s"), taken(READY), "fail: ready 3 s > 2.9 s"),
        (Milestone("ready", max="3.1s"), taken(READY, uncertainty_s=0.2), "inconclusive: .*between 2.8 s and 3.2 s"),
        (Milestone("ready", max="3.2s"), taken(READY, uncertainty_s=0.2), "pass: "),
        (Milestone("ready", max="2.7s"), taken(READY, uncertainty_s=0.2), "fail: "),
        (Milestone("ready", max=2.95), taken(READY, server_s=(2.9, 2.96), clock="server"), "inconclusive: .*2.96 s"),
        (Milestone("read", max="9s"), taken(READY), "inconclusive: .*'read'.* ready"),
        (Milestone("ready", phase="steady-state", max="9s"), taken(READY), "inconclusive: .*'steady-state'"),
        (Milestone("ready", max="1s"), taken(("deploy", "ready", None)), "fail: ready .* 4.8 s"),
        (Milestone("ready", max="9s"), taken(("deploy", "ready", None)), "inconclusive: ready"),
        (Milestone("ready", times_floor=2), taken(READY), "inconclusive: .*'ready'"),
        (Milestone("ready", times_floor=2), taken(READY, floors={"ready": 1.5}), "pass: ready .* 2 times"),
        (Milestone("ready", times_floor=1.9), taken(READY, floors={"ready": 1.5}), "fail: "),
        (Milestone("ready", times_floor=2), taken(READY, floors={"deploy/ready": 1.5, "ready": 1.0}), "pass: "),
        (Milestone("ready", times_floor=2, floor="1.5s"), taken(READY), "pass: "),
        (Milestone("ready", times_floor=2, floor=1.4), taken(READY), "fail: "),
        (Milestone("ready", times_floor=2, floor=0), taken(READY), "inconclusive: "),
        (
            Milestone("ready", phase="deploy", times_floor=2, floor="steady-state/bare"),
            taken(READY, ("steady-state", "bare", 1.5)),
            "pass: ready .* 2 times ≤ 2 times",
        ),
        (
            Milestone("ready", times_floor=2, floor="steady-state/bar"),
            taken(READY, ("steady-state", "bare", 1.5)),
            "inconclusive: .*'steady-state'.*'bar'",
        ),
        (
            Milestone("ready", times_floor=2, floor="steady-state/bare"),
            taken(READY, ("steady-state", "bare", None)),
            "inconclusive: .*'bare'",
        ),
        (Milestone("ready", times_floor=2, floor="baseline:main"), taken(READY), "pass: "),
        (Milestone("ready", times_floor=2, floor="baseline:next"), taken(READY), "inconclusive: .*baseline"),
    ],
    ids=in_words,
)  # fmt: skip
def test_milestones(check: Any, test: TestResult, expected: str, snapshot: SnapshotAssertion) -> None:
    baselines = {"main": [{"milestone:deploy/ready": 1.5}]}
    found = verdict(check, test, baselines=lambda name: baselines.get(name, []))
    assert re.match(expected, found)
    assert found == snapshot


def test_a_milestone_of_several_phases_must_be_distinguished(snapshot: SnapshotAssertion) -> None:
    test = taken(READY, ("steady-state", "ready", 1.0))
    with pytest.raises(UsageError) as caught:
        judge(Milestone("ready", max="9s"), Run(test))
    assert str(caught.value) == snapshot


def test_a_saturated_machine_is_named(snapshot: SnapshotAssertion) -> None:
    test = changed(taken(READY), "deploy", saturation=Saturation(busy_share=0.99, saturated=True))
    found = judge(Milestone("ready", max="9s"), Run(test))
    assert found.evidence[-1] == snapshot
