"""A turn on a cluster that others use, lost in the middle of a measurement: that is never silently fine."""

from __future__ import annotations

import msgspec
import pytest
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.analysis.result import Result
from pytest_grovescale.cluster.handle import Cluster
from tests.foreign_cluster import CONTEXT, kubeconfig

pytestmark = pytest.mark.cluster

# Takes the test's own claim out of the Lease, as somebody does who has seen it unchanged for its time.
TEST = """
import pytest

from pytest_grovescale import conditions
from pytest_grovescale.cluster.lease_lock import ANNOTATION, NAME, NAMESPACE


async def give_up(client):
    leases = await client.resource("Lease")
    lease = await client.get(leases, NAME, NAMESPACE)
    assert lease["spec"]["holderIdentity"]
    await client.patch(leases, NAME, NAMESPACE, body={"metadata": {"annotations": {ANNOTATION: "{}"}}})


@pytest.mark.grovescale(operator="none")
def test_loses_its_turn(scale):
    with scale.phase("look", timeout="30s") as look:
        look.milestone("no-pods", conditions.count("pods", 0))
    scale.run(give_up(scale.client))
"""


def test_a_lost_turn_decides_nothing(
    pytester: pytest.Pytester, running_cluster: Cluster, monkeypatch: pytest.MonkeyPatch, snapshot: SnapshotAssertion
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig(pytester.path / "kubeconfig", running_cluster.access)))
    pytester.makepyfile(TEST)
    cluster = ("--grovescale", f"--grovescale-cluster=existing:{CONTEXT}", "--grovescale-nodes=1")
    outcome = pytester.runpytest_subprocess(*cluster)
    outcome.assert_outcomes(failed=1)
    outcome.stdout.fnmatch_lines(["*others may have used *: *"])
    result = msgspec.json.decode((pytester.path / "reports/latest/result.json").read_bytes(), type=Result)
    assert result.tests[0].disturbed.partition(": ")[0] == snapshot
