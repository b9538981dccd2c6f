"""The reference operator against its two floors, in one run: bare pods, and its own writes by clients that only write.

Each floor is the best of three. The test asserts that the operator's run is complete (gates, finalizers, statuses); the
replays are derived from it.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest

from benchmarks.replay import Captured, Replay, Write, deleting, named, writes_of
from benchmarks.rows import at_most, reported
from benchmarks.scale.conftest import Rows
from pytest_grovescale import Scale, conditions
from pytest_grovescale.kube.client import Object
from pytest_grovescale.scenario.workloads import Workload

REPEATS = 3
CLIENTS = 20
OF_THE_OPERATOR = (
    "services",
    "podcliques.grove.io",
    "podgangs.scheduler.grove.io",
    "pods",
    "podcliquesets.grove.io",
    "serviceaccounts",
    "roles.rbac.authorization.k8s.io",
    "rolebindings.rbac.authorization.k8s.io",
    "secrets",
)


class Times(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds from a phase's start."""

    ready: float
    deleted: float


class OperatorRun(msgspec.Struct, kw_only=True):
    """Data of the operator's runs for the replays; kept in a file, since every test has its own process."""

    times: list[Times]
    deploy_cpu: list[float]
    requests: dict[str, int]
    captured: Captured
    deploy: list[Write]
    delete: list[Write]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file that passes the operator's run to the replays."""
    return tmp_path_factory.mktemp("bench") / "operator-run.json"


def _deploy_and_delete(scale: Scale, workload: Workload, pods: int) -> Times:
    with scale.phase("deploy", timeout="5m") as deploy:
        deploy.milestone("pods-ready", conditions.count("pods", pods, ready=True))
        workload.apply(concurrency=CLIENTS)
    with scale.phase("delete", timeout="5m") as delete:
        delete.milestone("pods-gone", conditions.count("pods", 0))
        workload.delete(concurrency=CLIENTS)
    return Times(ready=deploy.reached("pods-ready").seconds, deleted=delete.reached("pods-gone").seconds)


async def _capture(scale: Scale) -> Captured:
    objects = {}
    for name in OF_THE_OPERATOR:
        resource = await scale.client.resource(name)
        found = await scale.client.list(resource, scale.namespace)
        kind: Object = {"apiVersion": resource.api_version, "kind": resource.kind}
        objects[name] = {item["metadata"]["name"]: kind | item for item in found.items}
    return Captured(namespace=scale.namespace, objects=objects)


def _assert_whole(captured: Captured, replicas: int, per_replica: int) -> None:
    pods = captured.objects["pods"].values()
    cliques = captured.objects["podcliques.grove.io"].values()
    gangs = captured.objects["podgangs.scheduler.grove.io"].values()
    (pcs,) = captured.objects["podcliquesets.grove.io"].values()
    assert len(pods) == replicas * per_replica
    assert not [pod for pod in pods if pod["spec"].get("schedulingGates")]
    assert len(cliques) == len(gangs) == replicas
    for clique in cliques:
        assert clique["metadata"]["finalizers"]
        assert clique["status"]["readyReplicas"] == clique["status"]["replicas"] == per_replica
    for gang in gangs:
        assert sum(len(group["podReferences"]) for group in gang["spec"]["podgroups"]) == per_replica
        assert gang["status"]["phase"]
    assert pcs["metadata"]["finalizers"]
    assert pcs["status"]["availableReplicas"] == pcs["status"]["replicas"] == replicas


@pytest.mark.parametrize("repeat", range(REPEATS))
@pytest.mark.grovescale(cluster="minimal", nodes=100, operator="reference")
def test_operator(scale: Scale, shared: Path, repeat: int) -> None:
    replicas, per_replica = scale.parameter("replicas", 500), 2
    pods = replicas * per_replica
    pcs = scale.workload("pcs.yaml.j2", replicas=replicas, pods_per_replica=per_replica)
    with scale.phase("deploy", timeout="5m") as deploy:
        deploy.milestone("pods-ready", conditions.count("pods", pods, ready=True))
        deploy.milestone("pcs-available", pcs.status(availableReplicas=replicas))
        pcs.apply()
    with scale.phase("steady-state", timeout="2m") as steady:
        pcs.trigger_reconcile()
        steady.hold("5s")
    captured = scale.run(_capture(scale))
    _assert_whole(captured, replicas, per_replica)
    with scale.phase("delete", timeout="5m") as delete:
        delete.milestone("pods-gone", conditions.count("pods", 0))
        delete.milestone("pcs-gone", conditions.gone(pcs))
        pcs.delete()
    assert steady.api("operator").object_writes == 0
    assert steady.reconciles("podcliqueset") == 1

    user = scale.operator.identity if scale.operator else ""
    records = scale.recording()
    earlier = msgspec.json.decode(shared.read_bytes(), type=OperatorRun) if repeat else None
    times = Times(ready=deploy.reached("pods-ready").seconds, deleted=delete.reached("pods-gone").seconds)
    run = OperatorRun(
        times=[*(earlier.times if earlier else []), times],
        deploy_cpu=[*(earlier.deploy_cpu if earlier else []), deploy.cpu("operator").seconds],
        requests=deploy.api("operator").by_verb,
        captured=captured,
        deploy=named(writes_of(records, user, "deploy"), captured),
        delete=writes_of(records, user, "delete"),
    )
    shared.write_bytes(msgspec.json.encode(run))


@pytest.mark.parametrize("repeat", range(REPEATS))
@pytest.mark.grovescale(cluster="minimal", nodes=100, operator="none")
def test_bare(scale: Scale, shared: Path, repeat: int) -> None:
    pods = 2 * scale.parameter("replicas", 500)
    workload = scale.workload("pods.yaml.j2", pods=pods)
    _note(shared, "bare", _deploy_and_delete(scale, workload, pods))


@pytest.mark.parametrize("repeat", range(REPEATS))
@pytest.mark.grovescale(cluster="minimal", nodes=100, operator="none")
def test_replay(scale: Scale, shared: Path, repeat: int) -> None:
    run = msgspec.json.decode(shared.read_bytes(), type=OperatorRun)
    replicas = scale.parameter("replicas", 500)
    pcs = scale.workload("pcs.yaml.j2", replicas=replicas, pods_per_replica=2)
    (old,) = run.captured.objects["podcliquesets.grove.io"].values()

    async def applied() -> dict[str, Any]:
        target = pcs.name
        return await scale.client.get(await scale.client.resource("pcs"), target.name, scale.namespace)

    replay = Replay(scale.client, run.captured, scale.namespace, clients=CLIENTS)
    with scale.phase("deploy", timeout="5m") as deploy:
        deploy.milestone("pods-ready", conditions.count("pods", 2 * replicas, ready=True))
        pcs.apply()
        replay.knows(old["metadata"]["uid"], scale.run(applied()))
        scale.run(replay.run(run.deploy))
    removal = Replay(scale.client, deleting(run.captured), scale.namespace, clients=CLIENTS)
    with scale.phase("delete", timeout="5m") as delete:
        delete.milestone("pods-gone", conditions.count("pods", 0))
        pcs.delete()
        scale.run(removal.run(run.delete))
    times = Times(ready=deploy.reached("pods-ready").seconds, deleted=delete.reached("pods-gone").seconds)
    _note(shared, "replay", times)


@pytest.mark.grovescale(cluster="minimal", nodes=100, operator="none")
def test_ratios(shared: Path, rows: Rows) -> None:
    run = msgspec.json.decode(shared.read_bytes(), type=OperatorRun)
    bare, replay = _noted(shared, "bare"), _noted(shared, "replay")
    ready = [times.ready for times in run.times]
    deleted = [times.deleted for times in run.times]
    replay_ready = min(times.ready for times in replay)
    replay_deleted = min(times.deleted for times in replay)
    bare_ready = min(times.ready for times in bare)
    pods = len(run.captured.objects["pods"])
    how = f"best of {REPEATS} each, {pods} pods: operator {min(ready):.1f} s"
    rows(
        at_most(
            "ready_vs_replay_floor",
            min(ready) / replay_ready,
            "×",
            1.5,
            spread=[value / replay_ready for value in ready],
            how=f"{how}, replay {replay_ready:.1f} s",
        )
    )
    rows(
        at_most(
            "delete_vs_replay_floor",
            min(deleted) / replay_deleted,
            "×",
            1.5,
            spread=[value / replay_deleted for value in deleted],
            how=f"operator {min(deleted):.1f} s, replay {replay_deleted:.1f} s",
        )
    )
    rows(
        reported(
            "ready_vs_bare_floor",
            min(ready) / bare_ready,
            "×",
            spread=[value / bare_ready for value in ready],
            how=f"{how}, bare {bare_ready:.1f} s",
        )
    )
    rows(at_most("operator_ready_s", min(ready), "s", 12, spread=ready))
    rows(at_most("operator_deploy_cpu_s", min(run.deploy_cpu), "s", 5, spread=run.deploy_cpu))
    by_verb: Counter[str] = Counter(run.requests)
    rows(
        reported(
            "operator_requests_per_pod",
            sum(by_verb.values()) / pods,
            "",
            how=", ".join(f"{verb} {number / pods:.3f}" for verb, number in sorted(by_verb.items())),
        )
    )
    assert len(bare) == len(replay) == len(ready) == REPEATS


def _note(shared: Path, what: str, times: Times) -> None:
    with shared.with_name(f"{what}.jsonl").open("ab") as file:
        file.write(msgspec.json.encode(times) + b"\n")


def _noted(shared: Path, what: str) -> list[Times]:
    lines = shared.with_name(f"{what}.jsonl").read_bytes().splitlines()
    return [msgspec.json.decode(line, type=Times) for line in lines]
