"""What tests on kind clusters ask of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from pytest_grovescale.cluster import handle
from pytest_grovescale.cluster.definition import ClusterDefinition, load_definition
from pytest_grovescale.cluster.handle import Cluster
from pytest_grovescale.cluster.kind import container_engine as engines
from pytest_grovescale.cluster.kind.container_engine import Engine
from pytest_grovescale.kube.client import Client
from pytest_grovescale.recording import audit_log
from pytest_grovescale.recording.records import Request


def quiet(text: str) -> None:
    return None


def definition(folder: Path, *, nodes: int = 10, **changed: Any) -> ClusterDefinition:
    """Return the bundled kind cluster with a few nodes; ``changed``: what differs from it."""
    path = folder / "cluster.yaml"
    path.write_text(yaml.safe_dump({"name": "kind", "extends": "kind", **changed}), encoding="utf-8")
    return load_definition(str(path)).with_nodes(nodes)


def container(cluster: Cluster) -> str:
    """Return the name of the cluster's container."""
    assert cluster.container is not None
    return cluster.container.name


def containers(name: str) -> list[str]:
    """Return the containers of a kind cluster."""
    return engines.containers(engines.find(), name)


def requests(log: Path) -> list[Request]:
    """Return what an audit log holds, its last line left out if it is not whole."""
    lines = log.read_bytes().split(b"\n")[:-1]
    return [request for line in lines if (request := audit_log.parse(line, 0)) is not None]


async def flags(client: Client, cluster: Cluster, component: str) -> list[str]:
    """Return the command line of a control plane's component, as its pod tells."""
    pods = await client.resource("Pod", "v1")
    pod = await client.get(pods, f"{component}-{container(cluster)}", "kube-system")
    command: list[str] = pod["spec"]["containers"][0]["command"]
    return command


def last(command: list[str], flag: str) -> str:
    """Return the value that a flag has in the end."""
    return [part.partition("=")[2] for part in command if part.startswith(f"--{flag}=")][-1]


async def nodes(client: Client, selector: str) -> list[dict[str, Any]]:
    """Return nodes by a label selector."""
    return (await client.list(await client.resource("Node", "v1"), label_selector=selector)).items


def ready_since(node: dict[str, Any]) -> str:
    """Return since when a node is Ready; empty where it is not."""
    found = [
        c["lastTransitionTime"] for c in node["status"]["conditions"] if (c["type"], c["status"]) == ("Ready", "True")
    ]
    return found[0] if found else ""


def acquire(wanted: ClusterDefinition, name: str) -> Cluster:
    """Start a cluster of this name without a word."""
    return handle.acquire(wanted, name=name, progress=quiet)


def engine() -> Engine:
    """Return the engine of this machine."""
    return engines.find()
