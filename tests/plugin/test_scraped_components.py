"""Runs that scrape the control plane's components too, when they are asked to, and say what these served."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from pytest_grovescale.analysis.result import Result
from pytest_grovescale.cluster.handle import Cluster

pytestmark = pytest.mark.cluster

TEST = """
def test_small(scale):
    with scale.phase("wait", timeout="60s") as wait:
        wait.hold("1s")
"""
COMPONENTS = {"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok", "etcd"}


def run(pytester: pytest.Pytester, cluster: Cluster, *arguments: str) -> tuple[pytest.RunResult, Path]:
    pytester.makepyfile(TEST)
    outcome = pytester.runpytest_subprocess("--grovescale", f"--grovescale-cluster={cluster.name}", *arguments)
    outcome.assert_outcomes(passed=1)
    return outcome, pytester.path / "reports" / "latest"


def test_components_are_scraped_when_asked_for(pytester: pytest.Pytester, running_cluster: Cluster) -> None:
    outcome, folder = run(pytester, running_cluster, "--grovescale-scrape=components", "-v")
    (test,) = msgspec.json.decode((folder / "result.json").read_bytes(), type=Result).tests
    found = {target.target: target for target in test.metrics}
    assert next(iter(found)) == "operator"
    assert set(found) == {"operator", *COMPONENTS}
    for target in found.values():
        assert target.scrapes >= 2, target
        assert (target.failures, target.up_share) == (0, 1.0)
        assert target.series_last, target
    outcome.stdout.fnmatch_lines(["Metrics endpoints*", "operator*", *(f"{name}*" for name in sorted(COMPONENTS))])
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert 'data-chart="series"' in page


def test_the_operator_alone_is_scraped_otherwise(pytester: pytest.Pytester, running_cluster: Cluster) -> None:
    _, folder = run(pytester, running_cluster)
    (test,) = msgspec.json.decode((folder / "result.json").read_bytes(), type=Result).tests
    assert [target.target for target in test.metrics] == ["operator"]
    assert {family.family.removeprefix("grove_operator_") for family in test.metrics[0].own} == {
        "reconcile_errors_total",
        "status_update_conflict_total",
    }
