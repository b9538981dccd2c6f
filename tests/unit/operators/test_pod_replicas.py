"""Which of an operator's pods runs, which works, and what is wrong with one; and when a Deployment is rolled out."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.operator.pods.replicas import FollowedPod, Replica, leader, replica_of
from pytest_grovescale.operator.pods.rollout import FollowedDeployment, View
from pytest_grovescale.operator.pods.state import Kept

RUNNING = {"running": {"startedAt": "2026-01-01T00:00:05Z"}}


def replica(*statuses: dict[str, Any], **more: Any) -> Replica:
    pod = {
        "metadata": {"name": "robot-1", "uid": "u1", **more.pop("metadata", {})},
        "spec": {"nodeName": "node"},
        "status": {"phase": "Running", "containerStatuses": list(statuses), **more},
    }
    return replica_of(msgspec.convert(pod, FollowedPod), "main")


def container(**status: Any) -> dict[str, Any]:
    return {"name": "main", "ready": True, "restartCount": 0, "containerID": "containerd://abc", **status}


def test_one_that_runs() -> None:
    found = replica({"name": "side", "restartCount": 7}, container(state=RUNNING))
    assert (found.running, found.ready, found.restarts, found.container_id) == (True, True, 0, "abc")
    assert (found.stuck, found.unscheduled, found.last_end, found.node) == ("", "", "", "node")


def test_one_that_was_killed_and_runs_again() -> None:
    ended = {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}
    found = replica(container(state=RUNNING, lastState=ended, restartCount=2))
    assert (found.running, found.restarts, found.last_end, found.stuck) == (True, 2, "OOMKilled, exit code 137", "")


@pytest.mark.parametrize(
    ("reason", "stuck"),
    [
        ("CrashLoopBackOff", True),
        ("ImagePullBackOff", True),
        ("CreateContainerConfigError", True),
        ("ErrImagePull", False),
        ("ContainerCreating", False),
        ("PodInitializing", False),
    ],
)
def test_one_that_waits(reason: str, stuck: bool) -> None:
    ended = {"terminated": {"exitCode": 3, "reason": "Error"}}
    waiting = {"waiting": {"reason": reason, "message": "because"}}
    found = replica(container(state=waiting, lastState=ended, ready=False))
    assert not found.running
    assert found.stuck == (f"container main: {reason}: because (it ended with exit code 3)" if stuck else "")


def test_one_whose_init_container_cannot_start(snapshot: SnapshotAssertion) -> None:
    waiting = {"name": "init", "state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}}
    stuck = replica(initContainerStatuses=[waiting]).stuck
    assert "ImagePullBackOff: no such image" in stuck
    assert stuck == snapshot


def test_one_that_was_evicted() -> None:
    assert replica(phase="Failed", reason="Evicted", message="disk is full").stuck == "Evicted: disk is full"


def test_one_that_no_node_takes() -> None:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}
    found = replica(phase="Pending", conditions=[condition])
    assert (found.unscheduled, found.stuck, found.container_id) == ("Unschedulable: 0/3 nodes", "", "")


def named(name: str, started: str = "1", *, running: bool = True, going: bool = False) -> Replica:
    return Replica(pod=name, uid=name, running=running, going=going, started=started)


def test_leader_by_the_lease() -> None:
    pods = [named("a"), named("b")]
    assert leader(pods, "b_4d3c") == pods[1]
    assert leader(pods, "b") == pods[1]
    assert leader(pods, "") is None
    assert leader(pods, "c_1") is None
    assert leader([named("b", running=False)], "b_1") is None


def test_leader_without_a_lease_is_the_one_that_runs_longest_and_stays() -> None:
    assert leader([named("a", "2"), named("b", "1")], None) == named("b", "1")
    assert leader([named("a", "2"), named("b", "1", going=True)], None) == named("a", "2")
    assert leader([named("b", running=False)], None) is None


def test_stuck_only_when_none_works() -> None:
    stuck = Replica(pod="b", uid="b", stuck="container main: CrashLoopBackOff")
    assert Kept(replicas={"a": named("a"), "b": stuck}).stuck == ""
    assert Kept(replicas={"b": stuck}).stuck == "b: container main: CrashLoopBackOff"
    assert Kept().stuck == ""


def view(*replicas: Replica, wanted: int = 2, **status: Any) -> View:
    obj = {
        "metadata": {"name": "robot", "generation": 3},
        "spec": {"replicas": wanted},
        "status": {"observedGeneration": 3, "replicas": 2, "updatedReplicas": 2, "availableReplicas": 2, **status},
    }
    return View(msgspec.convert(obj, FollowedDeployment), list(replicas))


def test_rolled_out() -> None:
    pods = [named("a"), named("b")]
    assert view(*pods).rolled_out(3)
    assert not view(*pods).rolled_out(4)
    assert not view(*pods, availableReplicas=1).rolled_out(3)
    assert not view(*pods, updatedReplicas=1).rolled_out(3)
    assert not view(*pods, replicas=3).rolled_out(3)
    assert not view(*pods, wanted=3).rolled_out(3)
    # Its count is right again before the old pod has ended, which may still reconcile.
    assert not view(*pods, named("old", going=True)).rolled_out(3)


def test_what_keeps_it_from_being_rolled_out() -> None:
    quota = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "exceeded quota"}
    found = view(conditions=[quota])
    assert (found.hindered, found.stuck) == ("FailedCreate: exceeded quota", "")
    late = {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded", "message": "too long"}
    assert view(conditions=[late]).stuck == "ProgressDeadlineExceeded: too long"
    good = {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"}
    assert view(conditions=[good]).stuck == ""
    stuck = Replica(pod="a", uid="a", stuck="container main: CrashLoopBackOff")
    assert view(stuck).stuck == "pod a: container main: CrashLoopBackOff"
    assert view(named("a", going=True), availableReplicas=1).text == "1 of 2 pods available, 1 still ending"
