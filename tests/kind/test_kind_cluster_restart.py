"""The node of a kind cluster is restarted in the middle of a phase: watches come back, and it is told what happened."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from pytest_grovescale.analysis.phase_result import PhaseResult
from pytest_grovescale.analysis.result import Result
from pytest_grovescale.cluster import state
from pytest_grovescale.recording import journal, records
from tests.kind import kind_clusters

pytestmark = pytest.mark.kind

PODS = 10
TEST = f"""
    import json
    import subprocess
    import time

    import pytest

    from pytest_grovescale import conditions

    @pytest.mark.grovescale(operator="none", cluster="kind", nodes=3)
    def test_restart(scale):
        with scale.phase("before", timeout="2m") as before:
            before.milestone("pods-ready", conditions.count("pods", {PODS}, ready=True))
            scale.workload("deployment.yaml.j2", replicas={PODS}).apply()
        with scale.phase("restarted", timeout="5m") as restarted:
            restarted.milestone("more-ready", conditions.count("pods", {2 * PODS}, ready=True))
            node = scale.cluster.container
            seen = scale.cluster.directory / "{state.CONTAINER_PROCESSES}"
            first = json.loads(seen.read_bytes())["kube-apiserver"]
            subprocess.run([node.engine, "restart", "--time", "5", node.name], check=True)
            while not scale.run(scale.client.ready()):
                time.sleep(0.1)
            while json.loads(seen.read_bytes()).get("kube-apiserver", first) == first:
                time.sleep(0.1)
            scale.workload("deployment.yaml.j2", replicas={2 * PODS}).apply()
"""


def test_restart_of_the_node_is_survived_and_reported(state_dir: object, pytester: pytest.Pytester) -> None:
    pytester.makepyfile(TEST)
    done = pytester.runpytest_subprocess("--grovescale", "--grovescale-budgets=off", "-p", "no:cacheprovider")
    done.assert_outcomes(passed=1)
    run = pytester.path / "reports" / "latest"
    result = msgspec.json.decode((run / "result.json").read_bytes(), type=Result)
    restarted = phase(result, "restarted")
    assert restarted.outcome == "passed"
    assert "kube-apiserver" in {incident.subject for incident in restarted.incidents}
    assert phase(result, "before").incidents == ()
    assert [milestone.name for milestone in restarted.milestones if milestone.observed_s is not None] == ["more-ready"]
    found = list(journal.read(next((run / "recordings").glob("*.jsonl.zst"))))
    assert any(isinstance(record, records.WatchCut | records.WatchGap) for record in found)
    assert kind_clusters.containers(f"run-{result.run}") == []


def phase(result: Result, name: str) -> PhaseResult:
    """Return a phase of the run's only test."""
    (test,) = result.tests
    return next(phase for phase in test.phases if phase.name == name)


STOP = """
    import subprocess

    import pytest

    from pytest_grovescale import conditions

    @pytest.mark.grovescale(operator="none", cluster="kind", nodes=1)
    @pytest.mark.parametrize("when", ["within", "before"])
    def test_stop(scale, when):
        with scale.phase("stopped", timeout="20s") as stopped:
            stopped.milestone("never", conditions.count("pods", 1))
            if when == "within":
                stopped.wait("100ms")
            node = scale.cluster.container
            subprocess.run([node.engine, "stop", node.name], check=True)
"""


@pytest.mark.parametrize("when", ["within", pytest.param("before", marks=pytest.mark.long)])
def test_a_node_that_stops_for_good_is_reported_as_the_reason(
    state_dir: Path, pytester: pytest.Pytester, when: str
) -> None:
    pytester.makepyfile(STOP)
    done = pytester.runpytest_subprocess(
        "--grovescale", "--grovescale-budgets=off", "-p", "no:cacheprovider", "-k", when, "--tb=short"
    )
    done.assert_outcomes(errors=2)
    run = pytester.path / "reports" / "latest"
    result = msgspec.json.decode((run / "result.json").read_bytes(), type=Result)
    assert [phase.outcome for phase in result.tests[0].phases] == (["timeout"] if when == "within" else [])
    node = f"run-{result.run}-control-plane"
    done.stdout.fnmatch_lines([f"*container {node} does not run*", "*→ *"])
    assert kind_clusters.containers(f"run-{result.run}") == []
    assert state.names() == []
