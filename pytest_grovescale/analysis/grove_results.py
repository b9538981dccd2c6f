"""Results of Grove's own scale tests as JSON: read into a history, written from a run.

Shape: ``TrackerResult`` in operator/e2e/measurement/measurement.go of https://github.com/ai-dynamo/grove, written by
its JSONExporter. It holds when milestones were seen, polled every 500 ms by default; no CPU, no traffic.
"""

from __future__ import annotations

import datetime
import hashlib

import msgspec

from ..recording.records import Machine
from .baseline import BaselineTest
from .history import Commit, HistoryRun
from .phase_result import PhaseResult
from .result import Scalar, TestResult


class GroveMilestone(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    timestamp: datetime.datetime
    from_phase_start_s: float = msgspec.field(name="durationFromPhaseStartSeconds")


class GrovePhase(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    start: datetime.datetime = msgspec.field(name="startTime")
    from_test_start_s: float = msgspec.field(name="durationFromTestStartSeconds")
    milestones: list[GroveMilestone] | None = []
    """Go writes null for none."""


class GroveClient(msgspec.Struct, frozen=True, kw_only=True):
    qps: float
    burst: int


class GroveWorkers(msgspec.Struct, frozen=True, kw_only=True):
    pcs: int = msgspec.field(name="podCliqueSet")
    pcsg: int = msgspec.field(name="podCliqueScalingGroup")
    pclq: int = msgspec.field(name="podClique")


class GroveResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One run of one of Grove's scale tests."""

    test: str = msgspec.field(name="testName")
    run: str = msgspec.field(name="runID")
    namespace: str
    pcs: int = msgspec.field(name="pcsCount")
    phases: list[GrovePhase] | None
    seconds: float = msgspec.field(name="testDurationSeconds")
    client: GroveClient | None = msgspec.field(name="k8sClient", default=None)
    workers: GroveWorkers | None = msgspec.field(name="controllerMaxReconcile", default=None)


def history_run(found: GroveResult, *, commit: Commit | None, machine: str = "") -> HistoryRun | None:
    """Return Grove's result as a run of a history; None where it has no milestone.

    ``machine``: the name of the machine that it ran on, which the result lacks; runs of one name compare.
    """
    phases = found.phases or []
    metrics = {
        f"milestone:{phase.name}/{milestone.name}": milestone.from_phase_start_s
        for phase in phases
        for milestone in phase.milestones or []
    }
    if not metrics:
        return None
    parameters: dict[str, Scalar] = {"pcsCount": found.pcs}
    if found.client is not None:
        parameters |= {"qps": found.client.qps, "burst": found.client.burst}
    if found.workers is not None:
        parameters |= {"workers": f"{found.workers.pcs}/{found.workers.pcsg}/{found.workers.pclq}"}
    began = phases[0].start.astimezone(datetime.UTC)
    return HistoryRun(
        run=found.run,
        saved=began.isoformat(timespec="seconds"),
        version="",
        machine=_machine(machine),
        commit=commit,
        tests={found.test: BaselineTest(metrics=metrics, parameters=parameters, backend="grove-e2e")},
    )


def _machine(name: str) -> Machine:
    digest = hashlib.sha256(name.encode()).hexdigest()[:8]
    cpu = name or "of Grove's own scale test"
    return Machine(fingerprint=f"grove-{digest}", cpu=cpu, cores=0, memory_bytes=0, kernel="", python="")


def of_test(test: TestResult) -> GroveResult:
    """Return a test as Grove's scale tests write theirs: its phases, and the milestones that were met."""
    started = datetime.datetime.fromisoformat(test.started)
    replicas = test.parameters.get("replicas", 0)
    return GroveResult(
        test=test.test.rpartition("::")[2],
        run=test.run,
        namespace="",
        pcs=int(replicas) if str(replicas).isdecimal() else 0,
        phases=[_phase(phase, started) for phase in test.phases],
        seconds=test.seconds,
    )


def _phase(phase: PhaseResult, started: datetime.datetime) -> GrovePhase:
    began = datetime.datetime.fromisoformat(phase.started)
    met = [(one.name, one.seconds) for one in phase.milestones if one.met]
    return GrovePhase(
        name=phase.name,
        start=began,
        from_test_start_s=(began - started).total_seconds(),
        milestones=[
            GroveMilestone(name=name, timestamp=began + datetime.timedelta(seconds=after), from_phase_start_s=after)
            for name, after in met
            if after is not None
        ],
    )
