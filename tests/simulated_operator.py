"""An operator as pods where no node runs any: its Deployment is rolled out, and its container does nothing."""

from __future__ import annotations

from pathlib import Path

import msgspec

from pytest_grovescale.cluster.definition import ClusterDefinition, load_definition
from pytest_grovescale.kube.client import Client
from pytest_grovescale.operator.definition import load
from pytest_grovescale.operator.schema import OperatorDefinition

NAMESPACE = "robots"
MANIFESTS = """\
apiVersion: v1
kind: ServiceAccount
metadata: {name: robot}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {a: b}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: robot}
spec:
  strategy: {type: Recreate}
  selector: {matchLabels: {app: robot}}
  template:
    metadata: {labels: {app: robot}}
    spec:
      serviceAccountName: robot
      containers: [{name: main, image: "robot:1", resources: {requests: {memory: 10Mi}}}]
"""
DEFINITION = """\
name: robot
identity: {namespace: robots}
pod:
  manifests: [robot.yaml]
  replicas: "{replicas}"
  arguments: ["--tag={tag}"]
values: {tag: a, replicas: 1}
"""


def with_deployments() -> ClusterDefinition:
    """Return a local cluster of one node, with the controllers of Deployments."""
    plain = load_definition("default").with_nodes(1)
    manager = plain.controller_manager
    more = [*manager.controllers, "deployment-controller", "replicaset-controller"]
    return msgspec.structs.replace(plain, controller_manager=msgspec.structs.replace(manager, controllers=more))


async def make_real(client: Client) -> None:
    """Take label and taint of simulated nodes off; kwok plays its kubelet all the same."""
    nodes = await client.resource("Node", "v1")
    (node,) = (await client.list(nodes)).items
    body = {"metadata": {"labels": {"grovescale.io/pool": None}}, "spec": {"taints": None}}
    await client.patch(nodes, node["metadata"]["name"], body=body)


def definition(folder: Path, text: str = DEFINITION, manifests: str = MANIFESTS, **values: str) -> OperatorDefinition:
    (folder / "robot.yaml").write_text(manifests)
    (folder / "definition.yaml").write_text(text)
    return load(str(folder / "definition.yaml"), values=values)
