"""The real nodes of a kind cluster: workloads stay off them, and what runs on each of them off the simulated ones."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from ...errors import ClusterError
from ...kube.client import Client
from ...kube.errors import ApiError, Conflict
from ..definition import POOL_LABEL

TAINT = {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}
"""kubeadm's own, which kind takes off: the add-ons of a cluster tolerate it, and workloads do not."""

REAL = f"!{POOL_LABEL}"
"""Label selector of real nodes."""

_EVERY_S = 0.2
_ATTEMPTS = 10


class _Condition(msgspec.Struct, frozen=True):
    type: str
    status: str


class _Status(msgspec.Struct, frozen=True):
    conditions: list[_Condition] = []


class _Metadata(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    resource_version: str = ""


class _Spec(msgspec.Struct, frozen=True):
    taints: list[dict[str, Any]] = []


class _Node(msgspec.Struct, frozen=True):
    metadata: _Metadata
    spec: _Spec = _Spec()
    status: _Status = _Status()

    @property
    def ready(self) -> bool:
        return any(c.type == "Ready" and c.status == "True" for c in self.status.conditions)


class _Nodes(msgspec.Struct, frozen=True):
    items: list[_Node]


async def until_usable(client: Client, *, timeout_s: float) -> None:
    """Return when the API answers, a namespace has its ServiceAccount, and all real nodes are Ready.

    kind returns before that: the controllers may need a moment longer. Raises ClusterError with what is missing.
    """
    missing = "an answer of the API server"
    try:
        async with asyncio.timeout(timeout_s):
            while missing:
                await asyncio.sleep(_EVERY_S)
                missing = await _missing(client)
    except TimeoutError:
        raise ClusterError(
            f"the control plane is not ready after {timeout_s:.0f} s: {missing} is missing",
            next_step="A machine that is very busy may need a second try.",
        ) from None


async def _missing(client: Client) -> str:
    try:
        await client.request("GET", "/api/v1/namespaces/default/serviceaccounts/default", timeout=5.0)
        late = [node.metadata.name for node in await _real(client) if not node.ready]
    except ApiError as error:
        return f"ServiceAccount default ({error.message})"
    return f"node {', '.join(late)}" if late else ""


async def keep_workloads_off(client: Client) -> list[str]:
    """Taint all real nodes without a taint; return their names."""
    nodes = await _real(client)
    for node in nodes:
        await _taint(client, node)
    return [node.metadata.name for node in nodes]


async def _taint(client: Client, node: _Node) -> None:
    path = f"/api/v1/nodes/{node.metadata.name}"
    for attempt in range(_ATTEMPTS):
        if any(taint.get("key") == TAINT["key"] for taint in node.spec.taints):
            return
        # The patch replaces the whole list of taints: it requires the list to be unchanged since it was read.
        body = {
            "metadata": {"resourceVersion": node.metadata.resource_version},
            "spec": {"taints": [*node.spec.taints, TAINT]},
        }
        try:
            await client.request(
                "PATCH", path, body=msgspec.json.encode(body), content_type="application/merge-patch+json"
            )
        except Conflict:
            if attempt == _ATTEMPTS - 1:
                raise
            node = msgspec.json.decode(await client.request("GET", path), type=_Node)
        else:
            return


async def keep_daemons_on(client: Client) -> list[str]:
    """Restrict the DaemonSets of kube-system (kube-proxy, CNI) to real nodes; return their names.

    They tolerate every taint, and would put two pods on each simulated node.
    """
    resource = await client.resource("DaemonSet", "apps/v1")
    names = [str(item["metadata"]["name"]) for item in (await client.list(resource, "kube-system")).items]
    terms = [{"matchExpressions": [{"key": POOL_LABEL, "operator": "DoesNotExist"}]}]
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    for name in names:
        await client.patch(resource, name, "kube-system", body={"spec": {"template": {"spec": {"affinity": affinity}}}})
    return names


async def _real(client: Client) -> list[_Node]:
    answer = await client.request("GET", "/api/v1/nodes", params={"labelSelector": REAL, "limit": "500"})
    return msgspec.json.decode(answer, type=_Nodes).items
