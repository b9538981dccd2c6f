"""The main job on kind, at two sizes: the operator as a process of this machine, and as a pod."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from pytest_grovescale.analysis.backends import backends_table
from pytest_grovescale.cluster import state
from tests.kind import scale_run
from tests.kind.scale_run import Ran

pytestmark = pytest.mark.kind

SIZES = [100, pytest.param(1000, marks=pytest.mark.long)]
"""Numbers of pods."""
PODS_PER_REPLICA = 2
OPERATORS = ("reference", "reference-pod")
ARCHIVE = "GROVESCALE_TEST_OPERATOR_ARCHIVE"
"""Environment variable with the path of an archive of the reference operator's image."""

Runs = Callable[[str], Ran]


@pytest.fixture(scope="module", params=SIZES)
def pods(request: pytest.FixtureRequest) -> int:
    """The number of pods of the runs."""
    found: int = request.param
    return found


@pytest.fixture(scope="module")
def runs(pods: int, tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """Each operator's run with so many pods, made by the first test that needs it."""
    made: dict[str, Ran] = {}
    size = [f"--grovescale-param=replicas={pods // PODS_PER_REPLICA}", "--grovescale-param=hold=5s"]

    def of(operator: str) -> Ran:
        if operator not in made:
            image = [f"--grovescale-set=archive={os.environ[ARCHIVE]}"] if operator == "reference-pod" else []
            made[operator] = scale_run.run(operator, tmp_path_factory.mktemp(operator), *size, *image)
        return made[operator]

    return of


@pytest.mark.parametrize("operator", OPERATORS)
def test_all_pods_are_created_left_alone_and_deleted(runs: Runs, pods: int, operator: str) -> None:
    ran = runs(operator)
    assert [(phase.name, phase.outcome) for phase in ran.test.phases] == [
        ("deploy", "passed"),
        ("steady-state", "passed"),
        ("touch", "passed"),
        ("delete", "passed"),
    ]
    assert all(phase.traffic_source == "audit" and phase.audit_complete for phase in ran.test.phases)
    assert ran.created("deploy", "pods") == pods


@pytest.mark.parametrize("operator", OPERATORS)
def test_every_pod_was_on_a_simulated_node(runs: Runs, operator: str) -> None:
    places = runs(operator).test.pod_places
    assert places is not None
    assert not places.elsewhere


@pytest.mark.parametrize("operator", OPERATORS)
def test_milestones_have_the_servers_clock_and_the_operator_a_cpu_figure(runs: Runs, operator: str) -> None:
    deploy = runs(operator).phase("deploy")
    assert {milestone.name for milestone in deploy.milestones if milestone.server_s is not None} >= {"pods-created"}
    (cpu,) = [row for row in deploy.cpu if row.process == "operator"]
    assert cpu.seconds is not None
    assert cpu.seconds > 0


def test_the_operator_writes_the_same_wherever_it_runs(runs: Runs) -> None:
    table = backends_table([runs(operator).test for operator in OPERATORS])
    assert table.verdict == "equal", [row for row in table.rows if row.differs]


@pytest.mark.parametrize("operator", OPERATORS)
def test_nothing_is_left(runs: Runs, operator: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = runs(operator)
    monkeypatch.setenv("GROVESCALE_STATE_DIR", str(ran.state))
    assert state.names() == []
    assert scale_run.containers_of(ran.state) == []
    assert scale_run.processes_of(ran.state) == []
