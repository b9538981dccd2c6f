"""The bundled operator's definition: it starts with the rights that its file grants, and does its work."""

from __future__ import annotations

import asyncio
import urllib.request
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path

import pytest

from pytest_grovescale.cluster.handle import Cluster
from pytest_grovescale.endpoints import Address
from pytest_grovescale.kube.client import Client
from pytest_grovescale.kube.informer import follow
from pytest_grovescale.kube.portal import Portal
from pytest_grovescale.operator import start
from pytest_grovescale.operator.definition import load
from pytest_grovescale.operator.handle import Operator
from pytest_grovescale.workload import actions, namespace
from pytest_grovescale.workload.template import render

pytestmark = pytest.mark.cluster


@pytest.fixture(params=["optimized", "baseline"])
def operator(cluster: Cluster, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Operator]:
    definition = load("reference", values={"variant": request.param})
    running = start.start(definition, cluster, directory=tmp_path, progress=lambda text: None)
    yield running
    running.stop()


async def deployed_and_removed(client: Client, operator: Operator) -> dict[str, int]:
    """Deploy 2 × 2 pods, trigger, scale to 3 replicas, delete; return how many pods there were in between."""
    name = await namespace.create(client, test="reference", run_id="reference-run")
    parameters = {"replicas": 2, "pods_per_replica": 2}
    workload = render("pcs.yaml.j2", parameters, namespace=name, run_id="reference-run").objects
    pods: dict[str, int] = {}
    await actions.apply(client, workload)
    pods["applied"] = await _reached(client, name, 4)
    await actions.trigger(client, workload, operator.trigger, "1")
    await actions.scale(client, workload, 3)
    pods["scaled"] = await _reached(client, name, 6)
    await actions.delete(client, workload)
    await actions.wait_gone(client, workload, timeout=60)
    freed = await namespace.remove(client, name, objects=workload, at_once=True)
    assert freed == []
    return pods


async def _reached(client: Client, name: str, number: int) -> int:
    pods = await client.resource("Pod")
    async with asyncio.timeout(60), aclosing(follow(client, pods, name)) as changes:
        async for change in changes:
            if len(change.present) >= number:
                return len(change.present)
    raise AssertionError("following never ends by itself")


def test_reference_operator_works_as_its_own_identity(operator: Operator, cluster: Cluster) -> None:
    with Portal() as portal:
        client = portal.client(cluster.access_as("harness"))
        assert portal.run(deployed_and_removed(client, operator)) == {"applied": 4, "scaled": 6}
    operator.check()
    assert isinstance(operator.metrics, Address)
    with urllib.request.urlopen(operator.metrics.url) as answer:
        text = answer.read().decode()
    # Whatever it was refused would be among its errors.
    refused = [line for line in text.splitlines() if line.startswith("rest_client_requests_total") and '"403"' in line]
    assert refused == []
    assert operator.identity == "system:serviceaccount:grovescale-operator:reference"
