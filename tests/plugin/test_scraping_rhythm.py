"""Scrapes of whole runs: between the edges of phases, not while a no-op is measured, and through a restart."""

from __future__ import annotations

import pytest

from pytest_grovescale.cluster.handle import Cluster
from pytest_grovescale.recording import journal
from pytest_grovescale.recording.records import AnyRecord, PhaseEnded, PhaseStarted, Scraped, SourceFailed

pytestmark = pytest.mark.cluster

TEST = """
from pytest_grovescale import conditions

def test_small(scale):
    pcs = scale.workload("pcs.yaml.j2", replicas=1, pods_per_replica=1)
    with scale.phase("deploy", timeout="60s") as deploy:
        deploy.milestone("ready", conditions.count("pods", 1, ready=True))
        pcs.apply()
    with scale.phase("steady-state", timeout="60s", idle_twin=True) as steady:
        pcs.trigger_reconcile()
        steady.hold("2s")
    with scale.phase("restart", timeout="60s"):
        scale.restart_operator()
    with scale.phase("restarted", timeout="60s") as restarted:
        restarted.milestone("went-on", conditions.timer("3s"))
"""

WAIT = """
from pytest_grovescale import conditions

def test_small(scale):
    with scale.phase("wait", timeout="60s") as wait:
        wait.milestone("over", conditions.timer("2s"))
"""


def recorded(pytester: pytest.Pytester) -> list[AnyRecord]:
    (path,) = (pytester.path / "reports" / "latest" / "recordings").glob("*.jsonl.zst")
    return list(journal.read(path))


def between(records: list[AnyRecord], phase: str) -> list[Scraped]:
    """Return the scrapes between a phase's edges."""
    started = next(r.at for r in records if isinstance(r, PhaseStarted) and r.phase == phase)
    ended = next(r.at for r in records if isinstance(r, PhaseEnded) and r.phase == phase)
    return [r for r in records if isinstance(r, Scraped) and not r.edge and started < r.at < ended]


def test_phases_are_scraped_but_while_they_hold(pytester: pytest.Pytester, running_cluster: Cluster) -> None:
    pytester.makepyfile(TEST)
    arguments = [f"--grovescale-cluster={running_cluster.name}", "--grovescale-scrape-interval=250ms"]
    outcome = pytester.runpytest_subprocess("--grovescale", *arguments)
    outcome.assert_outcomes(passed=1)
    records = recorded(pytester)
    edges = [record.edge for record in records if isinstance(record, Scraped) and record.edge]
    phases = ["deploy", "steady-state", "steady-state (idle)", "restart", "restarted"]
    assert edges == [f"{edge}:{phase}" for phase in phases for edge in ("start", "end")]
    assert not between(records, "steady-state")
    assert not between(records, "steady-state (idle)")
    # The operator has another pid and a fresh counter, and was found again.
    assert len(between(records, "restarted")) >= 3
    failures = [record for record in records if isinstance(record, SourceFailed) and "scrape" in record.source]
    began, ended = (
        next(record.at for record in records if isinstance(record, kind) and record.phase == "restart")
        for kind in (PhaseStarted, PhaseEnded)
    )
    # A scrape that strikes the moment of its end finds nobody there.
    assert not [failure for failure in failures if not began <= failure.at <= ended]


def test_without_an_interval_the_edges_alone_are_scraped(pytester: pytest.Pytester, running_cluster: Cluster) -> None:
    pytester.makepyfile(WAIT)
    arguments = [f"--grovescale-cluster={running_cluster.name}", "--grovescale-scrape-interval=0"]
    pytester.runpytest_subprocess("--grovescale", *arguments).assert_outcomes(passed=1)
    assert [record.edge for record in recorded(pytester) if isinstance(record, Scraped)] == ["start:wait", "end:wait"]
