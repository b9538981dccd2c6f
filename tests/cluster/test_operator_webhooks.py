"""Admission webhooks served by a process on this host: the API server calls them from the first object on."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_grovescale.cluster.handle import Cluster
from pytest_grovescale.kube.client import Client
from pytest_grovescale.kube.errors import Invalid
from pytest_grovescale.kube.portal import Portal
from pytest_grovescale.operator import start
from pytest_grovescale.operator.definition import load
from pytest_grovescale.operator.handle import Operator

pytestmark = pytest.mark.cluster

DATA = Path(__file__).parents[1] / "data/operators"


@pytest.fixture
def operator(cluster: Cluster, tmp_path: Path) -> Iterator[Operator]:
    definition = load(str(DATA / "webhook.yaml"))
    running = start.start(definition, cluster, directory=tmp_path, progress=lambda text: None)
    yield running
    running.stop()


def config_map(**data: str) -> dict[str, Any]:
    metadata = {"name": f"hook-{secrets.token_hex(4)}", "namespace": "default", "labels": {"webhooks": "on"}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


async def created(client: Client, obj: dict[str, Any]) -> dict[str, str]:
    """Create an object, take it away again, and return the labels that it had."""
    found = await client.create(obj)
    await client.delete(await client.resource("ConfigMap"), obj["metadata"]["name"], "default")
    labels: dict[str, str] = found["metadata"]["labels"]
    return labels


def test_object_is_refused_and_the_reason_reported(operator: Operator, portal: Portal, client: Client) -> None:
    with pytest.raises(Invalid, match=r"data\.refuse is not welcome"):
        portal.run(created(client, config_map(refuse="yes")))


def test_object_is_changed(operator: Operator, portal: Portal, client: Client) -> None:
    assert portal.run(created(client, config_map())) == {"webhooks": "on", "webhook": "was-here"}


def test_probe_is_not_left_in_the_configurations(operator: Operator, portal: Portal, client: Client) -> None:
    for kind, name in (("Validating", "validating"), ("Mutating", "mutating")):
        resource = portal.run(client.resource(f"{kind}WebhookConfiguration"))
        found = portal.run(client.get(resource, f"grovescale-test-{name}"))
        assert len(found["webhooks"]) == 1
        assert "{" not in found["webhooks"][0]["clientConfig"]["url"]


def test_webhooks_survive_a_restart(operator: Operator, portal: Portal, client: Client) -> None:
    operator.restart()
    assert "webhook" in portal.run(created(client, config_map()))


def test_webhooks_end_with_the_operator(operator: Operator, portal: Portal, client: Client) -> None:
    operator.stop()
    for kind in ("Validating", "Mutating"):
        resource = portal.run(client.resource(f"{kind}WebhookConfiguration"))
        names = [item["metadata"]["name"] for item in portal.run(client.list(resource)).items]
        assert not any(name.startswith("grovescale-test-") for name in names)
