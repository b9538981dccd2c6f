"""What a run's clusters are called, so that its workers find the same one, or each its own."""

from __future__ import annotations

import pytest

from pytest_grovescale.cluster import state
from pytest_grovescale.cluster.definition import load_definition
from pytest_grovescale.errors import UsageError
from pytest_grovescale.operator.definition import load
from pytest_grovescale.operator.pods.definition import refuse_rivals
from pytest_grovescale.session.clusters import cluster_name

RUN = "20260131-120000-ab12"


def test_a_run_without_workers_has_one_at_a_time() -> None:
    assert cluster_name(RUN, load_definition("default"), "", per_worker=False) == f"run-{RUN}"
    assert cluster_name(RUN, load_definition("default"), "", per_worker=True) == f"run-{RUN}"


def test_workers_share_what_is_made_alike() -> None:
    three, four = (load_definition("default").with_nodes(nodes) for nodes in (3, 4))
    names = [cluster_name(RUN, three, worker, per_worker=False) for worker in ("gw0", "gw1")]
    assert names[0] == names[1] != cluster_name(RUN, four, "gw0", per_worker=False)
    assert state.directory(names[0]).name == names[0], "a name that a cluster may have"


def test_each_worker_can_have_its_own() -> None:
    names = [cluster_name(RUN, load_definition("default"), worker, per_worker=True) for worker in ("gw0", "gw1")]
    assert names == [f"run-{RUN}-gw0", f"run-{RUN}-gw1"]


@pytest.mark.parametrize("controllers", [load_definition("default").controller_manager.names, "*", "*,-job-controller"])
def test_a_controller_that_an_operator_replaces_must_not_run(controllers: str) -> None:
    deployments, jobs = load("kcm-deployment"), load("kcm-job")
    with pytest.raises(UsageError, match="deployment-controller, replicaset-controller") as refused:
        refuse_rivals(deployments, controllers, "mine")
    assert "--grovescale-cluster=minimal" in refused.value.next_step
    if "-job-controller" in controllers.split(","):
        refuse_rivals(jobs, controllers, "mine")
    else:
        with pytest.raises(UsageError, match="job-controller"):
            refuse_rivals(jobs, controllers, "mine")


@pytest.mark.parametrize("controllers", [load_definition("minimal").controller_manager.names, ""])
def test_one_that_runs_no_such_controller_is_used(controllers: str) -> None:
    refuse_rivals(load("kcm-deployment"), controllers, "mine")
