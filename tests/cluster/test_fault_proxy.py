"""The proxy between an operator and a real API server: what passes unchanged, what meets a fault, and its end.

The operator is a kube-controller-manager: Go's client, which would rather speak HTTP/2, with bodies of protobuf.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest

from pytest_grovescale.cluster.handle import Cluster
from pytest_grovescale.kube.access import Access, ssl_context
from pytest_grovescale.kube.client import Client
from pytest_grovescale.kube.errors import ApiError
from pytest_grovescale.kube.faults.settings import CONTROL_PATH, Faults, Injected
from pytest_grovescale.kube.informer import follow
from pytest_grovescale.kube.portal import Portal
from pytest_grovescale.operator import fault_proxy, start
from pytest_grovescale.operator.definition import load
from pytest_grovescale.operator.fault_proxy import FaultProxy
from pytest_grovescale.operator.handle import Operator
from pytest_grovescale.workload import actions, namespace
from pytest_grovescale.workload.template import render

pytestmark = pytest.mark.cluster

PODS = 10
EVERY_KIND = Faults(
    conflict=0.2, throttled=0.05, error=0.2, lost_answer=0.1, watch_cut=0.1, watch_expired=0.1, latency_s=0.005
)
TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture(scope="module")
def operator(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    logs = tmp_path_factory.mktemp("logs")
    running = start.start(load("kcm-deployment"), cluster, directory=logs, progress=lambda text: None, faults=True)
    yield running
    running.stop()
    running.uninstall()
    assert not cluster.processes()[fault_proxy.PROCESS].running


@pytest.fixture
def proxy(operator: Operator) -> FaultProxy:
    assert operator.fault_proxy is not None
    return operator.fault_proxy


@pytest.fixture
def portal(proxy: FaultProxy) -> Iterator[Portal]:
    with Portal() as opened:
        yield opened
        fault_proxy.put_in_force(opened, proxy, Faults())


@pytest.fixture
def harness(cluster: Cluster, portal: Portal) -> Client:
    return portal.client(cluster.access_as("harness"))


@pytest.fixture
def through(cluster: Cluster, portal: Portal, proxy: FaultProxy, harness: Client) -> Client:
    """A client on the operator's way, with a token of its own that may do anything."""

    async def token() -> str:
        account = {"name": "through", "namespace": "default"}
        await harness.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account})
        binding: dict[str, Any] = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "through"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "ServiceAccount", **account}],
        }
        await harness.apply(binding)
        return await harness.token("through", "default")

    return portal.client(Access(server=proxy.server, ca_pem=proxy.ca_pem, token=portal.run(token())))


def noted(cluster: Cluster) -> list[Injected]:
    lines = fault_proxy.log_of(cluster).read_bytes().splitlines()
    return [msgspec.json.decode(line, type=Injected) for line in lines]


async def deployed(client: Client) -> str:
    """Return the namespace of a Deployment whose pods are Ready."""
    name = await namespace.create(client, test="faults", run_id="faults-run")
    workload = render("deployment.yaml.j2", {"replicas": PODS}, namespace=name, run_id="faults-run").objects
    await actions.apply(client, workload)
    resource = await client.resource("Deployment")
    async with asyncio.timeout(90), aclosing(follow(client, resource, name)) as changes:
        async for change in changes:
            if change.object is not None and (change.object.status or {}).get("readyReplicas") == PODS:
                break
    await actions.delete(client, workload)
    await actions.wait_gone(client, workload, timeout=60)
    assert await namespace.remove(client, name, objects=workload, at_once=True) == []
    return name


def test_a_go_client_recovers_from_every_kind_of_fault(
    operator: Operator, cluster: Cluster, proxy: FaultProxy, portal: Portal, harness: Client
) -> None:
    fault_proxy.put_in_force(portal, proxy, EVERY_KIND)
    name = portal.run(deployed(harness))
    operator.check()
    met = [one for one in noted(cluster) if one.namespace in (name, "")]
    # Also the watches, all open since before the faults; and names, which are in bodies of protobuf.
    assert {"error", "lost-answer"} <= {one.kind for one in met}
    assert {"watch-cut", "watch-expired"} & {one.kind for one in met}
    made = [one for one in met if one.verb == "create" and one.resource == "pods"]
    assert made
    assert all(one.name for one in made)


def test_what_meets_no_fault_passes_as_it_is(portal: Portal, harness: Client, through: Client) -> None:
    async def compared() -> None:
        data = {"text": "x" * 100_000}
        created = await through.create(
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data}
        )
        for accept in (
            "application/json",
            "application/vnd.kubernetes.protobuf",
            "application/json;as=Table;g=meta.k8s.io;v=v1",
        ):
            answers = [await one.request("GET", f"{CONFIG_MAPS}/a", accept=accept) for one in (harness, through)]
            assert answers[0] == answers[1]
        with pytest.raises(ApiError) as refused:
            await through.request("GET", f"{CONFIG_MAPS}/%62%2Fb")
        assert refused.value.code == 404
        await through.delete(await through.resource("ConfigMap"), "a", "default", uid=created["metadata"]["uid"])
        # As whoever the token says, and as nobody without one.
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
        path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
        said = json.loads(await through.request("POST", path, body=json.dumps(review).encode()))
        assert said["status"]["userInfo"]["username"] == "system:serviceaccount:default:through"
        anonymous = Client(Access(server=through.access.server, ca_pem=through.access.ca_pem))
        async with anonymous:
            with pytest.raises(ApiError) as refused:
                await anonymous.request("GET", CONFIG_MAPS)
            assert refused.value.code in (401, 403)

    portal.run(compared())


def test_faults_are_answered_as_the_api_server_would(
    cluster: Cluster, portal: Portal, proxy: FaultProxy, harness: Client, through: Client
) -> None:
    async def code(method: str, path: str, body: Any = None, **headers: str) -> int:
        given = {**through.headers(), "Content-Type": "application/json", **headers}
        data = json.dumps(body).encode() if body is not None else None
        try:
            async with through.session().request(method, path, data=data, headers=given) as answer:
                await answer.read()
                assert answer.status < 400 or json.loads(await answer.read())["kind"] == "Status"
                return int(answer.headers.get("Retry-After", "0")) * 1000 + answer.status
        except aiohttp.ClientError:
            return 0

    def under(faults: Faults, *requests: tuple[Any, ...]) -> list[int]:
        fault_proxy.put_in_force(portal, proxy, faults)
        return [portal.run(code(*one)) for one in requests]

    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b"}}
    own = ("configmaps",)
    post, read, put = ("POST", CONFIG_MAPS, body), ("GET", f"{CONFIG_MAPS}/b"), ("PUT", f"{CONFIG_MAPS}/b", body)
    assert under(Faults(throttled=1.0, retry_after_s=3, resources=own), post, read) == [3429, 3429]
    assert set(under(Faults(error=1.0, resources=own), *[read] * 12)) == {500, 503}
    assert under(Faults(), read) == [404]
    # Both forms of a lost answer; each time it is made, or exists.
    assert set(under(Faults(lost_answer=1.0, resources=own), *[post] * 12)) == {504, 0}
    assert under(Faults(conflict=1.0, resources=own), read, put) == [200, 409]
    assert under(Faults(), ("DELETE", f"{CONFIG_MAPS}/b")) == [200]
    lost = [one for one in noted(cluster) if one.kind == "lost-answer" and one.resource == "configmaps"]
    assert [one.applied for one in lost] == [201, *[409] * 11]
    assert {one.name for one in lost} == {"b"}
    assert under(Faults(), ("POST", "/api/v1/namespaces/default/pods/a/exec?command=ls")) == [501]
    assert under(Faults(), ("GET", CONTROL_PATH)) == [401]


def test_a_watch_is_passed_on_event_by_event_until_it_meets_a_fault(
    portal: Portal, proxy: FaultProxy, harness: Client, through: Client
) -> None:
    async def watched(number: int) -> list[str]:
        query = "?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
        url = f"{CONFIG_MAPS}{query}&labelSelector=of%3Dwatched"
        types: list[str] = []
        async with through.session().get(url, headers=through.headers()) as answer:
            made = 0
            async for line in answer.content:
                types.append(json.loads(line)["type"])
                if made < number:
                    metadata = {"name": f"w-{made}", "labels": {"of": "watched"}}
                    made += 1
                    await harness.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
                elif types[-1] != "ERROR":
                    break
        for one in range(made):
            await harness.delete(await harness.resource("ConfigMap"), f"w-{one}", "default")
        return types

    assert portal.run(watched(3)) == ["BOOKMARK", "ADDED", "ADDED", "ADDED"]
    fault_proxy.put_in_force(portal, proxy, Faults(watch_expired=1.0, resources=("configmaps",)))
    assert portal.run(watched(1)) == ["BOOKMARK", "ERROR"]


def test_a_restarted_operator_is_on_the_same_way(operator: Operator, proxy: FaultProxy) -> None:
    operator.restart()
    assert f"server: {proxy.server}" in Path(operator.values["kubeconfig"]).read_text()


def test_https_is_proven_by_a_ca_of_its_own(cluster: Cluster, portal: Portal, proxy: FaultProxy) -> None:
    async def opened(ca_pem: str) -> None:
        context = ssl_context(Access(server=proxy.server, ca_pem=ca_pem))
        host, port = "127.0.0.1", int(proxy.server.rpartition(":")[2])
        _, writer = await asyncio.open_connection(host, port, ssl=context)
        writer.close()

    portal.run(opened(proxy.ca_pem))
    with pytest.raises(OSError, match="certificate verify failed"):
        portal.run(opened(cluster.access.ca_pem))
