"""Scale tests on several xdist workers: one cluster and operator, or one each; one result; and workers that die."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.analysis.result import Result
from pytest_grovescale.cluster.handle import Cluster
from pytest_grovescale.cluster.namespace_cleanup import RUN_LABEL
from pytest_grovescale.kube.portal import Portal
from tests.golden import masked
from tests.waiting import wait_until

pytestmark = pytest.mark.cluster

CHECKOUT = Path(__file__).parents[2]

HEAD = """
import asyncio
import os
import signal
from pathlib import Path

import pytest

from pytest_grovescale import conditions
from tests.waiting import wait_until

HERE = Path(__file__).parent


def meet(name, other):
    (HERE / name).touch()
    wait_until((HERE / other).exists, f"the other worker in {other}")
"""

MEASURED = """
def test_{name}(scale):
    pcs = scale.workload("pcs.yaml.j2", replicas=1, pods_per_replica=2)
    with scale.phase("deploy", timeout="60s") as deploy:
        deploy.milestone("pods-ready", conditions.count("pods", 2, ready=True))
        pcs.apply()
"""


@pytest.fixture
def pytester(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A project whose tests can import what this project's tests can."""
    monkeypatch.setenv("PYTHONPATH", str(CHECKOUT))
    return pytester


def run(pytester: pytest.Pytester, cluster: Cluster, test: str, *arguments: str) -> pytest.RunResult:
    """Run one test file on two workers against the running cluster."""
    pytester.makepyfile(test_it=HEAD + test)
    return pytester.runpytest_subprocess(
        "--grovescale", f"--grovescale-cluster={cluster.name}", "--grovescale-start=session", "-n2", *arguments
    )


def result_of(pytester: pytest.Pytester) -> Result:
    return msgspec.json.decode((pytester.path / "reports/latest/result.json").read_bytes(), type=Result)


def namespaces_left(cluster: Cluster, run_id: str) -> list[str]:
    with Portal() as portal:
        client = portal.client(cluster.access)
        resource = portal.run(client.resource("Namespace"))
        found = portal.run(client.list(resource, label_selector=f"{RUN_LABEL}={run_id}"))
    return [item["metadata"]["name"] for item in found.items]


def test_workers_share_the_cluster_take_turns_and_make_one_result(
    pytester: pytest.Pytester, running_cluster: Cluster
) -> None:
    functional = """
@pytest.mark.parametrize("name", ["a", "b", "c", "d"])
def test_functional(grovescale_operator, grovescale_namespace, name):
    assert grovescale_operator.alive()
    (HERE / name).write_text(grovescale_namespace)
    # The first test of each worker: both are in the middle of their tests at the same time.
    if name in "ac":
        meet(f"{name}-is-here", {"a": "c-is-here", "c": "a-is-here"}[name])
"""
    measured = MEASURED.format(name="first") + MEASURED.format(name="second")
    outcome = run(pytester, running_cluster, functional + measured, "--junit-xml=junit.xml")
    outcome.assert_outcomes(passed=6)
    namespaces = {(pytester.path / name).read_text(encoding="utf-8") for name in "abcd"}
    assert len(namespaces) == 4
    result = result_of(pytester)
    first, second = (test.phases[0] for test in result.tests)
    assert first.started < second.started
    assert not namespaces_left(running_cluster, result.run)
    assert {path.name for path in (pytester.path / "reports/latest").iterdir()} == {
        "recordings",
        "logs",
        "result.json",
        "report.html",
    }
    assert (pytester.path / "junit.xml").read_text(encoding="utf-8").count("grovescale.deploy.pods-ready.seconds") == 2
    outcome.stdout.fnmatch_lines(["*grovescale: *::test_first*"])
    outcome.stderr.fnmatch_lines(["*[[]gw?] cluster *: joined*"])


@pytest.mark.parametrize(("ends_by", "outcomes"), [("itself", {"passed": 2}), ("death", {"passed": 1, "failed": 1})])
def test_an_operator_outlives_the_worker_that_started_it(
    pytester: pytest.Pytester,
    running_cluster: Cluster,
    monkeypatch: pytest.MonkeyPatch,
    ends_by: str,
    outcomes: dict[str, int],
) -> None:
    test = """
from pytest_grovescale.cluster import lease, supervisor_client


def leases(cluster):
    return [name for name in lease.names(cluster.directory) if lease.is_held(cluster.directory, name)]


def test_starts(grovescale_operator, grovescale_cluster):
    meet("started", "shared")
    if os.environ["ENDS_BY"] == "death":
        os.kill(os.getpid(), signal.SIGKILL)


def test_shares(grovescale_cluster, request):
    wait_until((HERE / "started").exists, "the worker that starts it")
    operator = request.getfixturevalue("grovescale_operator")
    pid = operator.info().pid
    before = leases(grovescale_cluster)
    (HERE / "shared").touch()
    wait_until(lambda: len(leases(grovescale_cluster)) < len(before), "the end of the first worker")
    # The supervisor has seen that end, too, when it answers.
    status = supervisor_client.ask(grovescale_cluster.directory, supervisor_client.StatusWanted()).status
    assert status.processes["operator"].running
    assert operator.stays()
    assert operator.info().pid == pid
"""
    monkeypatch.setenv("ENDS_BY", ends_by)
    outcome = run(pytester, running_cluster, test, "--max-worker-restart=0")
    outcome.assert_outcomes(**outcomes)


def test_what_a_killed_worker_measured_is_in_the_result(pytester: pytest.Pytester, running_cluster: Cluster) -> None:
    killed = """
def test_killed(scale):
    pcs = scale.workload("pcs.yaml.j2", replicas=1, pods_per_replica=2)
    with scale.phase("deploy", timeout="60s") as deploy:
        deploy.milestone("pods-ready", conditions.count("pods", 2, ready=True))
        pcs.apply()
    with scale.phase("steady-state", timeout="60s") as steady:
        scale.run(asyncio.sleep(0))
        os.kill(os.getpid(), signal.SIGKILL)
"""
    outcome = run(pytester, running_cluster, killed + MEASURED.format(name="other"))
    outcome.assert_outcomes(passed=1, failed=1)
    outcome.stdout.fnmatch_lines(["*worker 'gw?' crashed *::test_killed'*"])
    result = result_of(pytester)
    tests = {test.test: test for test in result.tests}
    dead, other = tests["test_it.py::test_killed"], tests["test_it.py::test_other"]
    assert (dead.verdict, dead.closed) == ("interrupted", "controller-gone")
    assert [phase.outcome for phase in dead.phases] == ["passed", "interrupted"]
    assert dead.phases[0].milestones[0].met
    assert other.verdict == "passed"
    outcome.stdout.fnmatch_lines(["*grovescale: *::test_killed*"])
    wait_until(lambda: not namespaces_left(running_cluster, result.run), "the sweep of the killed worker's namespace")


def test_groups_change_no_names(pytester: pytest.Pytester, running_cluster: Cluster) -> None:
    test = """
pytestmark = [pytest.mark.grovescale(operator="none"), pytest.mark.xdist_group("together")]

def test_one(scale): (HERE / "one").write_text(os.environ["PYTEST_XDIST_WORKER"])

def test_two(scale): assert (HERE / "one").read_text() == os.environ["PYTEST_XDIST_WORKER"]
"""
    run(pytester, running_cluster, test, "--dist=loadgroup").assert_outcomes(passed=2)
    assert [test.test for test in result_of(pytester).tests] == ["test_it.py::test_one", "test_it.py::test_two"]


def test_one_cluster_each_is_refused_where_there_is_one(
    pytester: pytest.Pytester, running_cluster: Cluster, snapshot: SnapshotAssertion
) -> None:
    outcome = run(pytester, running_cluster, "def test_it(grovescale_cluster): pass", "--grovescale-cluster-per-worker")
    assert outcome.ret == pytest.ExitCode.USAGE_ERROR
    (reported,) = (line for line in outcome.errlines if line.startswith("ERROR: "))
    assert "--grovescale-cluster-per-worker: " in reported
    assert masked(reported, {running_cluster.name: "cluster"}) == snapshot
