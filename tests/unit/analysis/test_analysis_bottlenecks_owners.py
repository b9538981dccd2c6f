"""What pods waited for that are grandchildren, of objects that the operator makes and Kubernetes' controllers fill."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_grovescale.analysis.analyse import analyse
from pytest_grovescale.recording import records as rec
from pytest_grovescale.recording.conditions import WatchSpec

from .simulated import IDENTITIES, PCS, PODS, Simulation, pods

CONTROLLER = "grovescale:kube-controller-manager"
JOBS = WatchSpec(resource="jobs.batch", path="/apis/batch/v1/namespaces/t/jobs")
REPLICA_SETS = WatchSpec(resource="replicasets.apps", path="/apis/apps/v1/namespaces/t/replicasets")
N = 4


def seen(sim: Simulation, spec: WatchSpec, name: str, ms: float, *, owner: str, **parts: Any) -> None:
    watch = sim.watch_ids[spec]
    record = rec.ObjectSeen(
        at=sim.at(ms), watch=watch, change="added", name=name, namespace="t", uid=f"uid-{name}", owner=owner, **parts
    )
    sim.add(record)


def made(sim: Simulation, spec: WatchSpec, name: str, ms: float, *, user: str, owner: str) -> None:
    resource, _, group = spec.resource.partition(".")
    sim.request(ms, verb="create", resource=resource, group=group, namespace="t", name=name, code=201, user=user)
    seen(sim, spec, name, ms + 5, owner=owner)


def deployed(made_after: float, filled_after: float, *, user: str = CONTROLLER, owned: bool = True) -> dict[str, float]:
    """Return suspect → share of a phase: the operator makes Jobs after so many ms, a controller their pods."""
    sim = Simulation(identities={**IDENTITIES, "kube-controller-manager": CONTROLLER})
    for spec in (PODS, PCS, JOBS):
        sim.watch(spec, 1)
    end = 100 + made_after + filled_after
    sim.phase("deploy", 100, end + 20, pods_created=pods(N))
    made(sim, PCS, "set", 101, user="harness", owner="")
    for number in range(N):
        owner = f"uid-job-{number}" if owned else ""
        made(sim, JOBS, f"job-{number}", 100 + made_after, user="operator", owner="uid-set" if owned else "")
        made(sim, PODS, f"pod-{number}", end, user=user, owner=owner)
    for process, used in (("operator", 0.01), ("kube-apiserver", 0.01)):
        sim.cpu(process, 99, 1.0, edge="start:deploy")
        sim.cpu(process, end + 19, 1.0 + used, edge="end:deploy")
    (phase,) = analyse(sim.records()).phases
    return {row.suspect: row.share for row in phase.bottlenecks}


@pytest.mark.parametrize("user", [CONTROLLER, "system:serviceaccount:kube-system:job-controller"])
def test_pods_wait_for_the_operator_until_it_has_made_their_owner(user: str) -> None:
    shares = deployed(9000, 1000, user=user)
    assert shares["operator-idle"] > 0.85
    assert 0.05 < shares["workload-controllers"] < 0.15
    assert shares["garbage-collector"] == 0


def test_pods_wait_for_the_controller_after_that() -> None:
    assert deployed(1000, 9000)["workload-controllers"] > 0.85


def test_without_owners_the_last_writer_is_all_there_is() -> None:
    assert deployed(9000, 1000, owned=False)["workload-controllers"] > 0.95


def test_the_chain_is_followed_over_several_owners() -> None:
    sim = Simulation(identities={**IDENTITIES, "kube-controller-manager": CONTROLLER})
    for spec in (PODS, PCS, JOBS, REPLICA_SETS):
        sim.watch(spec, 1)
    sim.phase("deploy", 100, 10_020, pods_created=pods(1))
    made(sim, JOBS, "top", 8000, user="operator", owner="uid-set")
    made(sim, REPLICA_SETS, "middle", 9000, user=CONTROLLER, owner="uid-top")
    made(sim, PODS, "pod", 10_000, user=CONTROLLER, owner="uid-middle")
    (phase,) = analyse(sim.records()).phases
    shares = {row.suspect: row.share for row in phase.bottlenecks}
    assert 0.15 < shares["workload-controllers"] < 0.25
