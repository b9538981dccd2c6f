"""A status check inside the reconcile, and outside of it: five workers, and resources that each take three seconds.

What the resources wait for comes by itself: their pods become Ready three seconds after they were bound. One operator
waits for that where it stands, and its workers with it; the other looks, returns, and is woken by the pod's event.
"""

from __future__ import annotations

import pytest

from pytest_grovescale import Scale, checks, conditions
from pytest_grovescale.analysis.analyse import contents_of, result_of
from pytest_grovescale.checks.judge import judge
from pytest_grovescale.checks.run import Run

SETS = "podcliquesets.grove.io"
WORKERS = 5
LONGEST = "2s"
"""Nothing that an operator of this size does of itself takes so long."""


@pytest.mark.grovescale(
    cluster="minimal",
    nodes=20,
    scrape_interval="500ms",
    values={"concurrency": str(WORKERS), "defect": "blocking-wait"},
)
def test_waiting_inside(scale: Scale) -> None:
    """Every five resources wait for the five before them."""
    handle_all(scale)
    # Judged beside the test's own checks: this operator is meant to fail.
    contents = contents_of(scale.recording())
    run = Run(result_of(contents), metrics=lambda: contents.metrics)
    found = judge(checks.NoBlockedWorkers(longest=LONGEST, phase="handle"), run)
    # Beside other programs a bound on time that is exceeded is inconclusive; that the workers waited is seen there too.
    assert found.verdict in ("fail", "inconclusive"), found.text
    assert found.text.startswith(f"all {WORKERS} workers of podcliqueset waited inside reconciles")
    assert "podcliqueset/waiting.py" in found.text


@pytest.mark.grovescale(cluster="minimal", nodes=20, scrape_interval="500ms", values={"concurrency": str(WORKERS)})
def test_looking_and_returning(scale: Scale) -> None:
    """All resources wait at once, and no worker does."""
    handle_all(scale)
    scale.check(checks.NoBlockedWorkers(longest=LONGEST, phase="handle"))


def handle_all(scale: Scale) -> None:
    """Apply the resources, in a phase that lasts until all of them are available."""
    resources = scale.parameter("resources", 100)
    takes = scale.parameter("ready_after", "3s")
    sets = scale.workload("many-pcs.yaml.j2", objects=resources, ready_after=takes)
    with scale.phase("handle", timeout=scale.parameter("handle_timeout", "5m")) as handle:
        handle.milestone("first", conditions.count(SETS, 1, where={"status.availableReplicas": 1}, op=">="))
        handle.milestone("all", conditions.count(SETS, resources, where={"status.availableReplicas": 1}))
        sets.apply()
