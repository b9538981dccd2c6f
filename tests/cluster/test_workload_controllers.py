"""Kubernetes' own controllers on the default cluster: what an operator's children become, and who made them so."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import aclosing
from typing import Any

import pytest

from pytest_grovescale.cluster import handle
from pytest_grovescale.cluster.definition import load_definition
from pytest_grovescale.cluster.handle import Cluster
from pytest_grovescale.kube.client import Client
from pytest_grovescale.kube.informer import follow
from pytest_grovescale.kube.portal import Portal
from tests.audited import asked

pytestmark = pytest.mark.cluster

NODES = 3
EXTENDING = 'name: mine\nextends: default\ncontroller_manager: {controllers: ["*"]}\n'
EXIT_CODE, RUN_TIME = "grovescale.io/exit-code", "grovescale.io/run-time"
CONTROLLERS = "system:serviceaccount:kube-system:"


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    file = tmp_path_factory.mktemp("definition") / "mine.yaml"
    file.write_text(EXTENDING, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GROVESCALE_STATE_DIR", str(tmp_path_factory.mktemp("own state")))
        held = handle.acquire(load_definition(str(file)).with_nodes(NODES), name="mine", progress=lambda text: None)
    yield held
    held.release()


def template(app: str, restart: str = "Always", annotations: Mapping[str, str] = {}) -> dict[str, Any]:
    return {
        "metadata": {"labels": {"app": app}, "annotations": dict(annotations)},
        "spec": {
            "containers": [{"name": "main", "image": "none"}],
            "tolerations": [{"operator": "Exists"}],
            "restartPolicy": restart,
        },
    }


def workload(kind: str, name: str, version: str = "apps/v1", **spec: Any) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def of_apps(kind: str, **spec: Any) -> dict[str, Any]:
    name = kind.lower()
    return workload(kind, name, selector={"matchLabels": {"app": name}}, template=template(name), **spec)


def job(name: str, annotations: Mapping[str, str] = {}, restart: str = "Never", retries: int = 0) -> dict[str, Any]:
    pod = template(name, restart, annotations)
    return workload("Job", name, "batch/v1", backoffLimit=retries, template=pod)


def condition(status: dict[str, Any], kind: str) -> dict[str, Any]:
    return next((one for one in status.get("conditions", []) if one["type"] == kind and one["status"] == "True"), {})


async def brought_up(client: Client, manifest: dict[str, Any], done: Any) -> dict[str, Any]:
    """Create an object, and return its status once ``done`` says that it is as it should be."""
    await client.create(manifest)
    resource = await client.resource(manifest["kind"], manifest["apiVersion"])
    async with asyncio.timeout(60), aclosing(follow(client, resource, "default")) as changes:
        async for change in changes:
            found = change.object
            if found is not None and found.metadata.name == manifest["metadata"]["name"] and done(found.status or {}):
                return dict(found.status or {})
    raise AssertionError(f"{manifest['kind']} {manifest['metadata']['name']}: the watch ended")


async def all_brought_up(client: Client) -> dict[str, dict[str, Any]]:
    wanted: list[tuple[dict[str, Any], Any]] = [
        (of_apps("Deployment", replicas=2), lambda status: status.get("availableReplicas") == 2),
        (of_apps("StatefulSet", replicas=2, serviceName="none"), lambda status: status.get("availableReplicas") == 2),
        (of_apps("DaemonSet"), lambda status: status.get("numberAvailable") == NODES),
        (
            workload("Service", "balanced", "v1", type="LoadBalancer", ports=[{"port": 80}]),
            lambda status: (status.get("loadBalancer") or {}).get("ingress"),
        ),
        (
            workload("ResourceQuota", "quota", "v1", hard={"configmaps": "100"}),
            lambda status: (status.get("used") or {}).get("configmaps"),
        ),
        (job("succeeds"), lambda status: condition(status, "Complete")),
        (job("fails", {EXIT_CODE: "1", RUN_TIME: "10ms"}), lambda status: condition(status, "Failed")),
        # Its kubelet starts the container again, and the Job controller counts how often.
        (
            job("retried", {EXIT_CODE: "3", RUN_TIME: "10ms"}, "OnFailure", retries=2),
            lambda status: condition(status, "Failed"),
        ),
    ]
    found = await asyncio.gather(*(brought_up(client, manifest, done) for manifest, done in wanted))
    return {manifest["metadata"]["name"]: status for (manifest, _), status in zip(wanted, found, strict=True)}


async def claims_once(client: Client, done: Any) -> list[Any]:
    """Return the claims once ``done`` says of all that they are as they should be."""
    resource = await client.resource("PersistentVolumeClaim")
    live = False
    async with asyncio.timeout(60), aclosing(follow(client, resource, "default")) as changes:
        async for change in changes:
            live = live or change.kind == "live"
            claims = list(change.present.values())
            if live and done(claims):
                return claims
    raise AssertionError("the watch ended")


async def claimed(client: Client) -> None:
    """Claims of a StatefulSet are bound, grow, and go when no pod uses them."""
    wanted = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1024Mi"}}}
    volumes = [{"metadata": {"name": "data"}, "spec": wanted}]
    one = of_apps("StatefulSet", replicas=2, serviceName="none", volumeClaimTemplates=volumes)
    one["metadata"]["name"] = "database"
    await brought_up(client, one, lambda status: status.get("availableReplicas") == 2)

    def sizes(claims: list[Any]) -> list[str]:
        bound = [(claim.status or {}) for claim in claims if (claim.status or {}).get("phase") == "Bound"]
        return [status["capacity"]["storage"] for status in bound]

    claims = await claims_once(client, lambda claims: sizes(claims) == ["1Gi", "1Gi"])
    resource = await client.resource("PersistentVolumeClaim")
    larger = {"spec": {"resources": {"requests": {"storage": "2Gi"}}}}
    for claim in claims:
        await client.patch(resource, claim.metadata.name, "default", body=larger)
    await claims_once(client, lambda claims: sizes(claims) == ["2Gi", "2Gi"])
    for claim in claims:
        await client.delete(resource, claim.metadata.name, "default")
    await claims_once(client, lambda claims: all(claim.metadata.deletion_timestamp for claim in claims))
    await client.delete(await client.resource("StatefulSet"), "database", "default")
    await claims_once(client, lambda claims: not claims)


def test_claims_are_bound_grow_and_go(own: Cluster) -> None:
    with Portal() as portal:
        portal.run(claimed(portal.client(own.access_as("harness"))))


def test_what_an_operators_children_need_runs(own: Cluster) -> None:
    with Portal() as portal:
        client = portal.client(own.access_as("harness"))
        status = portal.run(all_brought_up(client))
        leases = portal.run(client.resource("Lease"))
        nodes = portal.run(client.resource("Node"))
        pods = portal.run(client.resource("Pod"))
        held = {one["metadata"]["name"] for one in portal.run(client.list(leases, "kube-node-lease")).items}
        names = {one["metadata"]["name"] for one in portal.run(client.list(nodes)).items}
        failed = portal.run(client.list(pods, "default", label_selector="app=fails")).items
    assert status["succeeds"]["succeeded"] == 1
    assert status["fails"]["failed"] == 1
    assert condition(status["retried"], "Failed")["reason"] == "BackoffLimitExceeded"
    (pod,) = failed
    assert pod["status"]["phase"] == "Failed"
    assert pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 1
    # The controller that gives up nodes whose leases run out is among those that run.
    assert held == names
    assert len(names) == NODES


def test_each_controller_has_an_identity_and_all_rights(own: Cluster) -> None:
    assert own.audit_log is not None
    found = [one for one in asked(own.audit_log) if one.user.username.startswith(CONTROLLERS)]
    made = {(one.user.username.removeprefix(CONTROLLERS), one.what) for one in found if one.status.code == 201}
    assert made >= {
        ("deployment-controller", "create replicasets.apps"),
        ("replicaset-controller", "create pods"),
        ("statefulset-controller", "create pods"),
        ("daemon-set-controller", "create pods"),
        ("job-controller", "create pods"),
    }
    assert [one for one in found if one.status.code == 403] == []
