"""``scale.faults`` as users meet it: on a real control plane, with the bundled operator, sound and with a defect."""

from __future__ import annotations

import msgspec
import pytest
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.analysis.result import Result, TestResult
from pytest_grovescale.cluster.handle import Cluster
from pytest_grovescale.recording.journal import read
from pytest_grovescale.recording.records import FaultInjected
from tests.golden import masked

TEST = """
import pytest

from pytest_grovescale import UsageError, conditions

REPLICAS = 10

def workload(scale):
    pcs = scale.workload("pcs.yaml.j2", replicas=REPLICAS, pods_per_replica=2)
    with scale.phase("deploy", timeout="60s") as deploy:
        deploy.milestone("pods-ready", conditions.count("pods", 2 * REPLICAS, ready=True))
        deploy.milestone("available", pcs.status(availableReplicas=REPLICAS))
        pcs.apply()
    with scale.phase("delete", timeout="60s") as delete:
        delete.milestone("gone", conditions.gone(pcs))
        pcs.delete()

def test_under_faults(scale):
    with scale.faults(conflict=0.1, throttled=0.03, error=0.05, latency="5ms±2ms", lost_answer=0.05, watch_cut=0.02):
        with pytest.raises(UsageError, match="errors"):
            scale.faults(errors=0.1)
        workload(scale)

def test_of_a_second_call(scale):
    scale.faults(error=0.02, seed=2)
    with scale.faults(throttled=1.0):
        pass
    workload(scale)

def test_without_faults(scale):
    assert scale.operator.fault_proxy is None
    assert "fault-proxy" not in [name for name, info in scale.cluster.processes().items() if info.running]

@pytest.mark.grovescale(faults=False)
def test_that_asks_for_none(scale):
    with pytest.raises(UsageError, match="faults=True"):
        scale.faults(error=0.1)

@pytest.mark.grovescale(operator="none")
def test_without_an_operator(scale):
    with pytest.raises(UsageError, match="without an operator"):
        scale.faults(error=0.1)
"""


@pytest.fixture
def cluster(running_cluster: Cluster) -> Cluster:
    return running_cluster


def run(pytester: pytest.Pytester, cluster: Cluster, *arguments: str) -> pytest.RunResult:
    pytester.makepyfile(TEST)
    return pytester.runpytest_subprocess("--grovescale", f"--grovescale-cluster={cluster.name}", *arguments)


def results(pytester: pytest.Pytester) -> list[TestResult]:
    file = pytester.path / "reports" / "latest" / "result.json"
    return list(msgspec.json.decode(file.read_bytes(), type=Result).tests)


def test_a_sound_operator_recovers_and_has_no_finding(pytester: pytest.Pytester, cluster: Cluster) -> None:
    shown = run(pytester, cluster, "-v", "--grovescale-findings=fail")
    shown.assert_outcomes(passed=5)
    shown.stdout.fnmatch_lines(["API faults", "- deploy: conflict=0.1, throttled=0.03, *"])
    faulted, second, *_ = results(pytester)
    assert [one for one in faulted.findings if one.severity != "note"] == []
    deploy = faulted.phases[0]
    assert deploy.faults is not None
    assert deploy.faults.watches_reopened == deploy.faults.watches_cut
    # The proxy's CPU time is its own row, not the operator's.
    assert {"operator", "fault-proxy"} <= {row.process for row in deploy.cpu}
    journal = read(pytester.path / "reports" / "latest" / faulted.recording)
    records = [record for record in journal if isinstance(record, FaultInjected)]
    assert deploy.faults.total <= len(records)
    # What never reached the API server is not in its log.
    assert not any(row.code in (429, 500, 503) and row.identity == "operator" for row in deploy.api)
    # After a block that replaced it, the first call holds again, in its own order.
    assert [phase.faults.settings for phase in second.phases if phase.faults] == [("error=0.02, seed=2",)] * 2


def test_an_operator_that_gives_up_is_found(pytester: pytest.Pytester, cluster: Cluster) -> None:
    shown = run(pytester, cluster, "-k", "under_faults", "--grovescale-set=defect=panic")
    shown.assert_outcomes(failed=1)
    (test,) = results(pytester)
    assert "fault-recovery" in {one.id for one in test.findings if one.severity == "defect"}


def test_faults_for_an_operator_in_pods_are_refused_before_anything_starts(
    pytester: pytest.Pytester, snapshot: SnapshotAssertion
) -> None:
    pytester.makepyfile(TEST)
    refused = pytester.runpytest_subprocess(
        "--grovescale", "--grovescale-operator=reference-pod", "--grovescale-cluster=kind", "-k", "under_faults"
    )
    assert refused.ret == pytest.ExitCode.USAGE_ERROR
    assert masked("\n".join(line for line in refused.errlines if line)) == snapshot
