"""What pods waited for that are grandchildren, of objects that the operator makes and Kubernetes' controllers fill."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_grovescale.analysis.analyse import analyse
from pytest_grovescale.recording import records as rec
from pytest_grovescale.recording.conditions import Count, FieldTest, Predicate, WatchSpec

from .simulated import IDENTITIES, PCS, PODS, Simulation, pods
from .test_analysis_bottlenecks import waited

CONTROLLER = "grovescale:kube-controller-manager"
SYSTEM = "system:serviceaccount:kube-system:"
JOBS = WatchSpec(resource="jobs.batch", path="/apis/batch/v1/namespaces/t/jobs")
REPLICA_SETS = WatchSpec(resource="replicasets.apps", path="/apis/apps/v1/namespaces/t/replicasets")
N = 4
DONE = Predicate(tests=(FieldTest(path="status.availableReplicas", op=">=", value=1),))


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


@pytest.mark.parametrize(
    ("user", "suspect"),
    [
        (CONTROLLER, "workload-controllers"),
        (f"{SYSTEM}job-controller", "job-controller"),
        (f"{SYSTEM}ephemeral-volume-controller", "workload-controllers"),
    ],
)
def test_pods_wait_for_the_operator_until_it_has_made_their_owner(user: str, suspect: str) -> None:
    shares = deployed(9000, 1000, user=user)
    assert shares["operator-idle"] > 0.85
    assert 0.05 < shares[suspect] < 0.15
    assert shares["garbage-collector"] == 0


def test_pods_wait_for_the_controller_after_that() -> None:
    assert deployed(1000, 9000)["workload-controllers"] > 0.85


def test_an_object_that_has_only_to_be_there_waits_for_no_later_write() -> None:
    sim = Simulation(identities={**IDENTITIES, "kube-controller-manager": CONTROLLER})
    sim.watch(PODS, 1)
    sim.watch(JOBS, 1)
    sim.phase("deploy", 100, 10_020, jobs_created=Count(watch=JOBS, n=N), pods_created=pods(1))
    for number in range(N):
        made(sim, JOBS, f"job-{number}", 200, user="operator", owner="")
    for number in range(N):
        sim.request(
            9000, verb="patch", resource="jobs", group="batch", subresource="status", namespace="t",
            name=f"job-{number}", user=CONTROLLER,
        )  # fmt: skip
    made(sim, PODS, "pod", 10_000, user="operator", owner="")
    waited(sim, 10_020, operator=(0.0, 0.0))
    (phase,) = analyse(sim.records()).phases
    seconds = {row.suspect: row.seconds for row in phase.bottlenecks}
    assert "workload-controllers" not in seconds
    assert seconds["operator-idle"] == pytest.approx(9.9, abs=0.05)


def test_without_owners_the_last_writer_is_all_there_is() -> None:
    assert deployed(9000, 1000, owned=False)["workload-controllers"] > 0.95


@pytest.mark.parametrize("own_identities", [False, True])
def test_the_chain_is_followed_over_several_owners(own_identities: bool) -> None:
    """Each controller has its row where each has an identity; they share the process that waits for a core."""
    sim = Simulation(identities={**IDENTITIES, "kube-controller-manager": CONTROLLER})
    for spec in (PODS, PCS, JOBS, REPLICA_SETS):
        sim.watch(spec, 1)
    sim.phase("deploy", 100, 10_020, pods_created=pods(1))
    deployments, replica_sets = (
        (f"{SYSTEM}deployment-controller", f"{SYSTEM}replicaset-controller")
        if own_identities
        else (CONTROLLER, CONTROLLER)
    )
    made(sim, JOBS, "top", 7000, user="operator", owner="uid-set")
    made(sim, REPLICA_SETS, "middle", 9000, user=deployments, owner="uid-top")
    made(sim, PODS, "pod", 10_000, user=replica_sets, owner="uid-middle")
    waited(sim, 10_020, operator=(0.0, 0.0), kube_controller_manager=(0.01, 0.1))
    (phase,) = analyse(sim.records()).phases
    seconds = {row.suspect: row.seconds for row in phase.bottlenecks}
    assert seconds["controller-manager-core-wait"] == pytest.approx(0.99, abs=0.02)
    if own_identities:
        assert seconds["deployment-controller"] == pytest.approx(1.34, abs=0.02)
        assert seconds["replicaset-controller"] == pytest.approx(0.67, abs=0.02)
        assert "workload-controllers" not in seconds
    else:
        assert seconds["workload-controllers"] == pytest.approx(2.01, abs=0.02)
    assert seconds["garbage-collector"] == 0


@pytest.mark.parametrize("finalizer", [True, False])
def test_pods_wait_for_the_operator_until_it_has_taken_its_finalizer_from_their_owner(finalizer: bool) -> None:
    """The collector deletes them only when their owner is gone, which the harness had deleted long before."""
    sim = Simulation(identities={**IDENTITIES, "kube-controller-manager": CONTROLLER})
    for spec in (PODS, PCS):
        sim.watch(spec, 1)
    watch = sim.watch_ids[PCS]
    seen(sim, PCS, "set", 50, owner="")
    for number in range(N):
        seen(sim, PODS, f"pod-{number}", 60, owner="uid-set")
    sim.phase("deploy", 100, 10_020, pods_gone=pods(0))
    parts: dict[str, Any] = {"watch": watch, "name": "set", "namespace": "t", "uid": "uid-set"}
    sim.request(
        110, user="harness", verb="delete", resource="podcliquesets", group="grove.io", namespace="t", name="set"
    )
    if finalizer:
        fields = {"metadata.deletionTimestamp": "2026-01-01T00:00:00Z"}
        sim.add(rec.ObjectSeen(at=sim.at(112), change="modified", fields=fields, **parts))
        sim.request(9000, verb="patch", resource="podcliquesets", group="grove.io", namespace="t", name="set")
    sim.add(rec.ObjectSeen(at=sim.at(9010 if finalizer else 115), change="deleted", **parts))
    for number in range(N):
        sim.request(10_000, user=CONTROLLER, verb="delete", resource="pods", namespace="t", name=f"pod-{number}")
        pod = f"pod-{number}"
        at, of_pods = sim.at(10_010), sim.watch_ids[PODS]
        sim.add(rec.ObjectSeen(at=at, watch=of_pods, change="deleted", name=pod, namespace="t", uid=f"uid-{pod}"))
    waited(sim, 10_020, operator=(0.01, 0.0))
    (phase,) = analyse(sim.records()).phases
    shares = {row.suspect: row.share for row in phase.bottlenecks}
    operators = sum(share for suspect, share in shares.items() if suspect.startswith("operator"))
    assert (operators > 0.85) == finalizer
    assert (shares["garbage-collector"] > 0.85) != finalizer


def worked_for(status_at: float, *, ends: bool = True) -> dict[str, float]:
    """Return suspect → seconds of a phase that counts a status of the operator's, of 10 s.

    The operator makes a Job after 1 s, its pod comes after 2 s, starts after 3 s and ends after 8 s, while the Job
    controller writes beside it; the operator sets the status last.
    """
    sim = Simulation(identities={**IDENTITIES, "kube-controller-manager": CONTROLLER})
    for spec in (PODS, PCS, JOBS):
        sim.watch(spec, 1)
    sim.phase("deploy", 100, 10_020, done=Count(watch=PCS, n=1, where=DONE))
    made(sim, PCS, "set", 101, user="harness", owner="")
    made(sim, JOBS, "job", 1000, user="operator", owner="uid-set")
    made(sim, PODS, "pod", 2000, user=f"{SYSTEM}job-controller", owner="uid-job")
    status: dict[str, Any] = {"verb": "patch", "namespace": "t", "subresource": "status"}
    for at in (3000, 8000) if ends else (8000,):
        sim.request(at, **status, resource="pods", name="pod", user="kwok")
    sim.request(5000, **status, resource="jobs", group="batch", name="job", user=f"{SYSTEM}job-controller")
    sim.request(status_at, **status, resource=PCS.resource.partition(".")[0], group="grove.io", name="set")
    waited(sim, 10_020, operator=(0.0, 0.0))
    (phase,) = analyse(sim.records()).phases
    return {row.suspect: row.seconds for row in phase.bottlenecks}


def test_a_status_waits_for_the_objects_below_it_and_then_for_the_operator() -> None:
    seconds = worked_for(10_000)
    assert seconds["containers"] == pytest.approx(5, abs=0.2)
    assert seconds["kwok"] == pytest.approx(1, abs=0.2)
    assert seconds["job-controller"] == pytest.approx(1, abs=0.2)
    assert seconds["operator-idle"] == pytest.approx(3, abs=0.2)
    others = worked_for(10_000, ends=False)
    assert "containers" not in others
    assert others["job-controller"] == pytest.approx(4, abs=0.2)
    assert others["kwok"] == pytest.approx(3, abs=0.2)
    assert others["operator-idle"] == pytest.approx(3, abs=0.2)


def test_a_namespace_below_is_found_though_the_log_gives_it_its_own_name() -> None:
    sim = Simulation(identities=IDENTITIES)
    namespaces = WatchSpec(resource="namespaces", path="/api/v1/namespaces")
    for spec in (PCS, namespaces):
        sim.watch(spec, 1)
    sim.phase("deploy", 100, 10_020, done=Count(watch=PCS, n=1, where=DONE))
    made(sim, PCS, "set", 101, user="harness", owner="")
    sim.request(1000, verb="create", resource="namespaces", namespace="ns", name="ns", code=201)
    one: dict[str, Any] = {"watch": sim.watch_ids[namespaces], "name": "ns", "uid": "uid-ns", "owner": "uid-set"}
    sim.add(rec.ObjectSeen(at=sim.at(1005), change="added", **one))
    controller = f"{SYSTEM}namespace-controller"
    sim.request(9000, verb="update", resource="namespaces", namespace="ns", name="ns", user=controller)
    sim.request(
        10_000,
        verb="patch",
        resource="podcliquesets",
        group="grove.io",
        namespace="t",
        name="set",
        subresource="status",
    )
    waited(sim, 10_020, operator=(0.0, 0.0))
    (phase,) = analyse(sim.records()).phases
    seconds = {row.suspect: row.seconds for row in phase.bottlenecks}
    assert seconds["namespace-controller"] == pytest.approx(8, abs=0.2)
