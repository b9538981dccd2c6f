"""Clusters that a run's own workers start: one that outlives the worker it was started by, and one for each worker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from pytest_grovescale.analysis.result import Result
from pytest_grovescale.cluster import state
from tests.processes import wait_none
from tests.waiting import wait_until

pytestmark = pytest.mark.cluster

CHECKOUT = Path(__file__).parents[2]

HEAD = """
import os
import signal
from pathlib import Path

import pytest

from pytest_grovescale import conditions
from tests.waiting import wait_until

HERE = Path(__file__).parent
pytestmark = pytest.mark.grovescale(nodes=1, operator="none")
"""

KILLED = """
def test_starts(grovescale_cluster):
    (HERE / "started").write_text(grovescale_cluster.name)
    wait_until((HERE / "joined").exists, "the other worker on the cluster")
    (HERE / "pid").write_text(str(os.getpid()))
    os.kill(os.getpid(), signal.SIGKILL)


def test_joins(request):
    wait_until((HERE / "started").exists, "the worker that starts it")
    cluster = request.getfixturevalue("grovescale_cluster")
    assert cluster.name == (HERE / "started").read_text()
    (HERE / "joined").touch()
    wait_until((HERE / "pid").exists, "the end of the worker that started it")
    namespace = request.getfixturevalue("grovescale_namespace")
    assert all(process.running for process in cluster.processes().values()), "it stays for those who use it"
    (HERE / "namespace").write_text(namespace)
"""

# In the order in which xdist gives them out: the first two to one worker, the others to the other.
EACH = """
def meets(cluster, name, other):
    (HERE / name).write_text(cluster.name)
    wait_until((HERE / other).exists, "the other worker on its own cluster")


def measured(scale):
    with scale.phase("look", timeout="60s") as look:
        look.milestone("no-pods", conditions.count("pods", 0))
    return scale.cluster.name


def test_first(grovescale_cluster): meets(grovescale_cluster, "first", "second")
def test_measured_first(scale): assert measured(scale) == (HERE / "first").read_text()
def test_second(grovescale_cluster): meets(grovescale_cluster, "second", "first")
def test_measured_second(scale): assert measured(scale) == (HERE / "second").read_text()
"""


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.Pytester]:
    """A project whose tests can import what this project's can; none of its clusters is left afterwards."""
    monkeypatch.setenv("PYTHONPATH", str(CHECKOUT))
    monkeypatch.setenv("GROVESCALE_STATE_DIR", str(pytester.path / "state"))
    yield pytester
    wait_until(lambda: state.names() == [], "the end of all clusters")
    wait_none(str(pytester.path / "state"))


def run(project: pytest.Pytester, test: str, *arguments: str) -> pytest.RunResult:
    project.makepyfile(test_it=HEAD + test)
    return project.runpytest_subprocess("--grovescale", "-n2", *arguments)


def test_a_cluster_outlives_the_worker_that_started_it(project: pytest.Pytester) -> None:
    outcome = run(project, KILLED)
    outcome.assert_outcomes(passed=1, failed=1)
    outcome.stdout.fnmatch_lines(["*worker 'gw?' crashed *::test_starts'*"])
    assert (project.path / "namespace").exists()


def test_each_worker_has_its_cluster_and_all_make_one_result(project: pytest.Pytester) -> None:
    outcome = run(project, EACH, "--grovescale-cluster-per-worker")
    outcome.assert_outcomes(passed=4)
    assert (project.path / "first").read_text(encoding="utf-8") != (project.path / "second").read_text(encoding="utf-8")
    result = msgspec.json.decode((project.path / "reports/latest/result.json").read_bytes(), type=Result)
    assert sorted(test.test.partition("::")[2] for test in result.tests) == [
        "test_measured_first",
        "test_measured_second",
    ]
    assert result.verdict == "passed"
