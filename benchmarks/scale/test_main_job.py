"""The main job in both variants: cost of a no-op reconcile and of the recorder, and the savings of `optimized`."""

from __future__ import annotations

import statistics
import time
from pathlib import Path

import msgspec
import pytest

from benchmarks.rows import at_least, at_most, reported
from benchmarks.scale.conftest import Rows
from pytest_grovescale import Scale, conditions
from pytest_grovescale.analysis.analyse import contents_of, result_of
from pytest_grovescale.analysis.phase_result import PhaseResult
from pytest_grovescale.analysis.result import TestResult

PHASES = ("deploy", "steady-state", "delete")
REPEATS = 5


class Cost(msgspec.Struct, frozen=True):
    """CPU use of the operator in one phase."""

    cpu_s: float
    requests: int


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that passes one variant's costs to the comparison."""
    return tmp_path_factory.mktemp("variants")


def _run(scale: Scale, variant: str, shared: Path) -> None:
    replicas = scale.parameter("replicas", 500)
    pods = 2 * replicas
    pcs = scale.workload("pcs.yaml.j2", replicas=replicas, pods_per_replica=2)
    with scale.phase("deploy", timeout="5m") as deploy:
        deploy.milestone("pods-ready", conditions.count("pods", pods, ready=True))
        deploy.milestone("pcs-available", pcs.status(availableReplicas=replicas))
        pcs.apply()
    scale.wait_idle()
    with scale.phase("steady-state", timeout="2m") as steady:
        pcs.trigger_reconcile()
        steady.hold("30s")
    with scale.phase("delete", timeout="5m") as delete:
        delete.milestone("pods-gone", conditions.count("pods", 0))
        delete.milestone("pcs-gone", conditions.gone(pcs))
        pcs.delete()
    costs = {
        phase.name: Cost(phase.cpu("operator").seconds, sum(phase.api("operator").by_verb.values()))
        for phase in (deploy, steady, delete)
    }
    (shared / variant).write_bytes(msgspec.json.encode(costs))


def _phase(result: TestResult, name: str) -> PhaseResult:
    (phase,) = (phase for phase in result.phases if phase.name == name)
    return phase


def _findings_shares(scale: Scale) -> list[float]:
    """Return the share of the CPU of the recording's analysis, from its file on, that findings take, of each repeat."""
    shares = []
    for _ in range(REPEATS):
        began = time.process_time()
        contents = contents_of(scale.recording())
        read = time.process_time()
        result_of(contents, findings=False)
        analysed = time.process_time()
        result_of(contents)
        whole = time.process_time() - analysed
        shares.append((whole - (analysed - read)) / (read - began + whole))
    return shares


@pytest.mark.grovescale(cluster="minimal", nodes=100, operator="reference", values={"variant": "optimized"})
def test_optimized(scale: Scale, shared: Path, rows: Rows) -> None:
    _run(scale, "optimized", shared)
    result = scale.result()
    steady = _phase(result, "steady-state")
    writes = sum(
        row.count
        for row in steady.api
        if row.identity == "operator" and row.category == "object" and row.verb not in ("get", "list", "watch")
    )
    parent = sum(row.count for row in steady.reconciles if row.controller == "podcliqueset")
    rows(at_most("noop_object_writes", writes, "", 0, how="30 s, one annotation patch"))
    rows(at_most("noop_parent_reconciles", parent, "", 1, how="per trigger, by the operator's own metrics"))
    assert parent == 1, "a trigger that is not heard proves nothing"
    assert result.recorder is not None
    assert result.watch_lag is not None
    share = result.recorder.share
    assert share is not None
    rows(at_most("recorder_cpu_share", share, "", 0.05, how="of the CPU of all processes, all phases"))
    rows(at_most("recorder_rss_mb", result.recorder.peak_rss_bytes / 1e6, "MB", 150, how="peak"))
    found = _findings_shares(scale)
    how = f"of the CPU of the recording's analysis, its decoding included, median of {REPEATS}"
    rows(at_most("findings_cpu_share", statistics.median(found), "", 0.35, spread=found, how=how))
    rows(reported("watch_lag_p99_ms", result.watch_lag.p99_ms, "ms", how=f"{result.watch_lag.events} events"))


@pytest.mark.grovescale(cluster="minimal", nodes=100, operator="reference", values={"variant": "baseline"})
def test_baseline(scale: Scale, shared: Path) -> None:
    _run(scale, "baseline", shared)
    assert _phase(scale.result(), "delete").outcome == "passed"


@pytest.mark.grovescale(cluster="minimal", nodes=100, operator="none")
def test_baseline_is_worse_in_every_phase(shared: Path, rows: Rows) -> None:
    costs = {
        variant: msgspec.json.decode((shared / variant).read_bytes(), type=dict[str, Cost])
        for variant in ("optimized", "baseline")
    }
    for phase in PHASES:
        before, after = costs["baseline"][phase], costs["optimized"][phase]
        name = phase.replace("-", "_")
        how = f"baseline {before.cpu_s:.2f} s, optimized {after.cpu_s:.2f} s"
        rows(at_least(f"baseline_cpu_ratio_{name}", before.cpu_s / after.cpu_s, "×", 1.0, how=how))
        more = before.requests - after.requests
        rows(
            at_least(
                f"baseline_more_requests_{name}",
                more,
                "",
                1,
                how=f"baseline {before.requests}, optimized {after.requests}",
            )
        )
    assert set(costs["baseline"]) == set(PHASES)
