"""A result with everything in it that a report can show, built from its structs."""

from __future__ import annotations

from typing import Any

import msgspec

from pytest_grovescale.analysis.controller_result import ReconcileRow, Saturation
from pytest_grovescale.analysis.phase_result import (
    ApiRow,
    CpuResult,
    LateResult,
    MarkResult,
    MilestoneResult,
    PhaseResult,
)
from pytest_grovescale.analysis.result import Evidence, RecorderCost, Result, TestResult, WatchLag, WatchResult
from pytest_grovescale.recording.records import Machine, ObjectRef

MACHINE = Machine(
    fingerprint="f00", cpu="Test CPU", cores=2, memory_bytes=8_000_000_000, kernel="6.1.0", python="3.11.9"
)


def row(verb: str, count: int, *, identity: str = "operator", resource: str = "pods", **other: Any) -> ApiRow:
    values: dict[str, Any] = {"user": identity, "code": 200, "category": "object", "p50_ms": 1.2, "p99_ms": 8.76}
    return ApiRow(**{**values, "identity": identity, "verb": verb, "resource": resource, "count": count, **other})


def cpu(process: str, seconds: float, **other: Any) -> CpuResult:
    values: dict[str, Any] = {
        "window_s": 10.0,
        "cores": seconds / 10,
        "rss_bytes": 96_400_000,
        "peak_rss_bytes": 101_000_000,
    }
    return CpuResult(**{**values, "process": process, "seconds": seconds, **other})


DEPLOY = PhaseResult(
    name="deploy",
    outcome="passed",
    started="2026-01-31T12:00:01.000Z",
    seconds=11.2,
    timeout_s=180,
    milestones=(
        MilestoneResult(
            name="pods-created",
            condition="1000 pods",
            met=True,
            observed_s=4.3123,
            server_s=(4.2711, 4.2798),
            clock="server",
            held_to_end=True,
            reached=1000,
            wanted=1000,
        ),
        MilestoneResult(
            name="pcs-available",
            condition="podcliquesets pcs: status.availableReplicas = 500",
            met=True,
            observed_s=11.08,
            clock="watch",
            held_to_end=False,
            uncertainty_s=0.25,
            why_not_server="40 writes to it in the audit log, 31 changes in the watch",
            reached=1,
            wanted=1,
        ),
    ),
    cpu=(cpu("kube-apiserver", 8.123), cpu("operator", 4.311), cpu("recorder", 0.412)),
    api=(
        row("create", 1000, code=201),
        row("patch", 2000),
        row("patch", 3, code=409),
        row("list", 9),
        row("watch", 4, p99_ms=900.0),
        row("update", 12, resource="leases.coordination.k8s.io", category="lease"),
        row("patch", 1000, identity="kwok", resource="pods/status"),
        *(row("get", 1, identity=name) for name in ("recorder", "system:anonymous")),
    ),
    reconciles=(
        ReconcileRow(controller="podclique", result="success", count=1503),
        ReconcileRow(controller="podcliqueset", result="error", count=2),
        ReconcileRow(controller="podcliqueset", result="success", count=41),
    ),
    saturation=Saturation(
        busy_share=0.973,
        saturated=True,
        saturated_s=8.0,
        busiest=("kube-apiserver", "operator", "kwok"),
        terminated_watchers=46,
    ),
    audit_complete=True,
    identities_seen=("kwok", "operator", "recorder", "system:anonymous"),
    trigger_writes=0,
)

STEADY = PhaseResult(
    name="steady-state",
    outcome="passed",
    started="2026-01-31T12:00:13.000Z",
    seconds=30.004,
    timeout_s=120,
    cpu=(cpu("operator", 0.305), cpu("kube-apiserver", 1.02)),
    api=(row("list", 3), row("patch", 1, identity="harness", resource="podcliquesets.grove.io")),
    reconciles=(ReconcileRow(controller="podcliqueset", result="success", count=1),),
    saturation=Saturation(busy_share=0.041, saturated=False, terminated_watchers=0),
    audit_complete=True,
    identities_seen=("harness", "kwok", "operator", "recorder", "system:anonymous"),
    triggers=1,
    trigger_writes=1,
    marks=(
        MarkResult(label="trigger", started_s=0.01, ended_s=0.02, count=1),
        MarkResult(label="hold", started_s=0.02, detail="30.0 s"),
    ),
)

DELETE = PhaseResult(
    name="delete",
    outcome="timeout",
    message="phase 'delete' timed out after 2m00s",
    started="2026-01-31T12:00:44.000Z",
    seconds=120.3,
    timeout_s=120,
    milestones=(MilestoneResult(name="pods-gone", condition="0 pods", met=False, reached=12, wanted=0),),
    cpu=(cpu("operator", 1.2, lower_bound=True, restarts=1),),
    api=(row("delete", 988),),
    saturation=None,
    audit_complete=False,
    identities_seen=("operator",),
    late=tuple(
        LateResult(
            milestone="pods-gone",
            object=ObjectRef(resource="pods", namespace="t", name=f"pod-{index}"),
            owner="PodClique pc-1",
            reason="finalizers: grove.io/pod",
            events=("Killing: stopping",),
        )
        for index in range(7)
    ),
    missing={
        "audit": "the audit log broke off: rotated away",
        "reconciles": "the metrics of operator were not scraped at the phase's end",
        "saturation": "no process's CPU clock was read at the phase's edges",
    },
)

TEST = TestResult(
    test="tests/scale/test_thousand_pods.py::test_thousand_pods",
    recording="recordings/test_thousand_pods.jsonl",
    run="run-1",
    version="0.1.0",
    scenario_outcome="timeout",
    verdict="failed",
    ended="failed",
    started="2026-01-31T12:00:00.000Z",
    seconds=168.2,
    machine=MACHINE,
    parameters={"operator": "reference", "variant": "optimized", "replicas": 500},
    cluster={"backend": "local", "kubernetes": "v1.36.3", "nodes": 100, "priority_and_fairness": True},
    identities={"operator": "system:serviceaccount:op:operator", "kwok": "grovescale:kwok"},
    closed="stopped",
    phases=(DEPLOY, STEADY, DELETE),
    watches=(WatchResult(watch="w0", resource="pods", objects=0, events=4000, cuts=9, cut_s=0.41, gaps=1, gap_s=0.2),),
    watch_lag=WatchLag(events=3998, p50_ms=18.4, p99_ms=311.0, max_ms=402.0),
    recorder=RecorderCost(cpu_s=1.234, share=0.034, peak_rss_bytes=96_000_000),
    warnings=("audit broke off in delete: rotated away",),
    evidence=(Evidence(source="log:operator", phase="delete", lines=("first", "\x1b[31mpanic\x1b[0m: " + "x" * 300)),),
    objects=1000,
    objects_resource="pods",
)

RESULT = Result(
    run="run-1",
    version="0.1.0",
    machine=MACHINE,
    scenario_outcome="timeout",
    verdict="failed",
    started="2026-01-31T12:00:00.000Z",
    tests=(TEST,),
    warnings=("recordings/x.jsonl: damaged",),
)

PASSED = msgspec.structs.replace(
    TEST,
    scenario_outcome="passed",
    verdict="passed",
    ended="passed",
    phases=(DEPLOY, STEADY),
    warnings=(),
    evidence=(),
    test="tests/scale/test_a.py::test_a",
)
