"""The scenarios, each with the bundled operator on a real control plane; and a defect that only one of them shows."""

from __future__ import annotations

import msgspec
import pytest

from pytest_grovescale.analysis.result import Result
from pytest_grovescale.cluster.handle import Cluster

TEST = """
import pytest
from pytest_grovescale import conditions, scenarios

SETS = 4

@pytest.fixture
def pcs(scale):
    return scale.workload("pcs.yaml.j2", replicas=SETS, pods_per_replica=2)

@pytest.fixture
def common(pcs):
    def ready(sets):
        pods = conditions.count("pods", 2 * sets, ready=True)
        return {"pods-ready": pods, "available": pcs.status(availableReplicas=sets)}
    return {"ready": ready, "gone": {"gone": conditions.gone(pcs), "pods-gone": conditions.count("pods", 0)}}

@pytest.fixture
def deployed(common):
    return {**common, "ready": common["ready"](SETS), "timeout": "60s"}

def test_steady(scale, pcs, deployed):
    scenarios.deploy_steady_delete(scale, pcs, hold="3s", rate=50, **deployed)

def test_restart(scale, pcs, deployed):
    scenarios.operator_restart(scale, pcs, hold="3s", **deployed)

def test_scaled(scale, pcs, common):
    scenarios.scale_up_and_down(scale, pcs, replicas=[SETS, 6, 1], timeout="60s", **common)

def test_lost_pods(scale, pcs, deployed):
    scenarios.lost_pods(scale, pcs, share=0.5, **deployed)

def test_api_faults(scale, pcs, deployed):
    scenarios.api_faults(scale, pcs, conflict=0.05, error=0.02, seed=3, **deployed)

def test_second_writer(scale, pcs, deployed):
    change = {"metadata": {"annotations": {"example.com/owner": "someone"}}}
    scenarios.second_writer(scale, pcs, kind="podcliques.grove.io", change=change, hold="3s", **deployed)

def test_updated(scale, pcs, deployed):
    change = {"metadata": {"labels": {"example.com/stage": "two"}}}
    field = pcs.status(availableReplicas=SETS)
    scenarios.rolling_update(scale, pcs, change=change, updated={"available": field}, **deployed)
"""

PHASES = {
    "test_steady": ["deploy", "steady-state", "delete"],
    "test_restart": ["deploy", "restart", "delete"],
    "test_scaled": ["deploy", "scale to 6", "scale to 1", "delete"],
    "test_lost_pods": ["deploy", "lost-pods", "replaced", "delete"],
    "test_api_faults": ["deploy", "delete"],
    "test_second_writer": ["deploy", "overwritten", "delete"],
    "test_updated": ["deploy", "update", "delete"],
}


def result_of(pytester: pytest.Pytester) -> Result:
    return msgspec.json.decode((pytester.path / "reports/latest/result.json").read_bytes(), type=Result)


@pytest.mark.cluster
def test_each_scenario_runs_its_phases(pytester: pytest.Pytester, running_cluster: Cluster) -> None:
    pytester.makepyfile(TEST)
    said = pytester.runpytest_subprocess(
        "--grovescale", f"--grovescale-cluster={running_cluster.name}", "--grovescale-contention-limit=100%"
    )
    said.assert_outcomes(passed=len(PHASES))
    tests = result_of(pytester).tests
    found = {test.test.rpartition("::")[2]: [phase.name for phase in test.phases] for test in tests}
    assert found == PHASES
    severe = {test.test: one.text for test in tests for one in test.findings if one.severity == "defect"}
    assert severe == {}


@pytest.mark.cluster
def test_a_restart_shows_writes_that_no_deployment_does(pytester: pytest.Pytester, running_cluster: Cluster) -> None:
    """Each pass over a set patches all of its cliques: in a deployment they are written anyway."""
    pytester.makepyfile(TEST)
    said = pytester.runpytest_subprocess(
        "--grovescale", f"--grovescale-cluster={running_cluster.name}", "--grovescale-contention-limit=100%",
        "--grovescale-set=defect=noop-writes",
        "-k", "test_restart",
    )  # fmt: skip
    said.assert_outcomes(failed=1)
    (test,) = result_of(pytester).tests
    assert [check.check.partition("(")[0] for check in test.checks if check.verdict == "fail"] == ["api_requests"]
