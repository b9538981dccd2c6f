"""Checks over the history of a run's metrics, on a real operator: a sound one passes, and each flaw is found.

The pass without tracking is made for ``NoTestLeakage``: it leaves nothing behind, and its scrapes in the recording.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from pytest_grovescale.analysis.metrics.history import history_of
from pytest_grovescale.analysis.metrics.test_leakage import UNTRACKED, untracked
from pytest_grovescale.analysis.result import CheckResult, Result
from pytest_grovescale.cluster.handle import Cluster
from pytest_grovescale.kube.client import Client
from pytest_grovescale.kube.portal import Portal
from pytest_grovescale.recording.journal import read

pytestmark = pytest.mark.cluster

TEST = """
import pytest
from pytest_grovescale import checks, conditions
from pytest_grovescale.errors import UsageError

@pytest.mark.grovescale_budget(
    checks.Grep498(), checks.NoBuiltinDuplicates(), checks.CounterResets(), checks.ConflictRate(max=1),
    checks.ErrorRatio(), checks.NoTestLeakage()
)
def test_small(scale):
    pcs = scale.workload("pcs.yaml.j2", replicas=3, pods_per_replica=2)
    with scale.phase("deploy", timeout="60s") as deploy:
        deploy.milestone("pods-ready", conditions.count("pods", 6, ready=True))
        deploy.milestone("available", pcs.status(availableReplicas=3))
        pcs.apply()
    with scale.phase("steady-state", timeout="60s") as steady:
        pcs.trigger_reconcile()
        steady.hold("2s")
    with scale.phase("delete", timeout="60s") as delete:
        delete.milestone("pcs-gone", conditions.gone(pcs))
        pcs.delete()
    if scale.parameter("by_hand", 0):
        scale.run_without_tracking()
        with pytest.raises(UsageError, match="'late' comes after"), scale.phase("late"):
            pass
"""


def run(pytester: pytest.Pytester, cluster: Cluster, *arguments: str) -> pytest.RunResult:
    pytester.makepyfile(TEST)
    return pytester.runpytest_subprocess(
        "--grovescale", f"--grovescale-cluster={cluster.name}", "--grovescale-scrape-interval=0.2s", *arguments
    )


def latest(pytester: pytest.Pytester) -> Path:
    return pytester.path / "reports" / "latest"


def checks_of(pytester: pytest.Pytester) -> dict[str, CheckResult]:
    (test,) = msgspec.json.decode((latest(pytester) / "result.json").read_bytes(), type=Result).tests
    return {found.check.partition("(")[0]: found for found in test.checks}


def namespaces(cluster: Cluster) -> list[str]:
    async def names(client: Client) -> list[str]:
        listing = await client.list(await client.resource("Namespace", "v1"))
        return [item["metadata"]["name"] for item in listing.items]

    with Portal() as portal:
        return portal.run(names(portal.client(cluster.access_as("harness"))))


def test_a_sound_operator_passes_and_the_second_pass_leaves_nothing_behind(
    pytester: pytest.Pytester, running_cluster: Cluster
) -> None:
    outcome = run(pytester, running_cluster)
    outcome.assert_outcomes(passed=1)
    checks = checks_of(pytester)
    assert {name for name, found in checks.items() if found.verdict != "pass"} == set()
    assert "same labels with tracking" in checks["no_test_leakage"].text
    (recording,) = (latest(pytester) / "recordings").iterdir()
    history = history_of(read(recording))
    bare = history.target(untracked("operator"))
    assert len(bare.moments) == 3
    assert {moment.phase for moment in bare.moments} == {""}
    assert {moment.phase for moment in history.target().moments} >= {"deploy", "steady-state", "delete"}
    assert not [name for name in namespaces(running_cluster) if name.startswith(UNTRACKED)]


def test_flaws_of_the_metrics_are_found_with_what_is_wrong(pytester: pytest.Pytester, running_cluster: Cluster) -> None:
    outcome = run(
        pytester,
        running_cluster,
        "--grovescale-set=defect=run-id-metric,builtin-duplicate,reset-on-scrape",
        "--grovescale-param=by_hand=1",
    )
    outcome.assert_outcomes(failed=1)
    checks = checks_of(pytester)
    assert checks["no_test_leakage"].verdict == "fail"
    assert "run id" in checks["no_test_leakage"].text
    assert checks["no_builtin_duplicates"].verdict == "fail"
    assert "grove_operator_reconciliations_total" in checks["no_builtin_duplicates"].text
    assert checks["counter_resets"].verdict == "fail"
    assert any("grove_operator_pods_created_total" in line for line in checks["counter_resets"].evidence)
