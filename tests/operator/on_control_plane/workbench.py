"""A namespace to work in: objects made, looked at, and waited for by watching."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from pytest_grovescale.kube.client import Client
from pytest_grovescale.kube.errors import Conflict, NotFound, ServerUnavailable
from pytest_grovescale.kube.portal import Portal
from pytest_grovescale.kube.watch import stream
from pytest_grovescale.workload.template import render

from .operator_process import OperatorProcess

Object = dict[str, Any]
Check = Callable[[list[Object]], object]

SET = "podcliquesets.grove.io"
CLIQUE = "podcliques.grove.io"
GROUP = "podcliquescalinggroups.grove.io"
GANG = "podgangs.scheduler.grove.io"
KINDS = (
    *(SET, CLIQUE, GROUP, GANG, "pods", "services", "serviceaccounts", "secrets"),
    *("roles.rbac.authorization.k8s.io", "rolebindings.rbac.authorization.k8s.io"),
    "horizontalpodautoscalers.autoscaling",
)
"""Everything that the operator makes, and the set."""

REPLICAS, PODS = 4, 2
"""Of the set that most tests deploy."""

WAIT_S = 60.0
_DEFAULTS = {("serviceaccounts", "default"), ("configmaps", "kube-root-ca.crt")}


def pod_spec(image: str = "registry.k8s.io/pause:3.10") -> Object:
    """Return a pod spec that simulated nodes take."""
    return {
        "containers": [{"name": "worker", "image": image}],
        "tolerations": [{"key": "kwok.x-k8s.io/node", "operator": "Exists"}],
    }


def clique(name: str, replicas: int = 1, **spec: Any) -> Object:
    """Return a clique's template."""
    return {"name": name, "spec": {"roleName": name, "replicas": replicas, "podSpec": pod_spec(), **spec}}


def pod_clique_set(cliques: list[Object], *, replicas: int = 1, name: str = "pcs", **template: Any) -> Object:
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "metadata": {"name": name},
        "spec": {"replicas": replicas, "template": {"cliques": cliques, **template}},
    }


def ready(pod: Object) -> bool:
    conditions = pod.get("status", {}).get("conditions", [])
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def alive(pods: list[Object]) -> list[Object]:
    return [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]


class Workbench:
    """Synchronous; all in one namespace."""

    def __init__(self, portal: Portal, client: Client, namespace: str) -> None:
        self.portal = portal
        self.client = client
        self.namespace = namespace

    def create_namespace(self) -> None:
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}}
        self.portal.run(self.client.create(body))

    def delete_namespace(self, *, wait: bool = True) -> None:
        async def run() -> None:
            try:
                await self.client.delete(await self.client.resource("namespaces"), self.namespace)
            except (Conflict, NotFound):
                # A test has begun its deletion.
                return

        self.portal.run(run())
        if wait:
            self.wait("namespaces", lambda found: not found, name=self.namespace)

    # ---- objects

    def deploy(self, replicas: int = 2, pods: int = 2, name: str = "pcs") -> None:
        """Apply the scale workload."""
        parameters = {"replicas": replicas, "pods_per_replica": pods}
        for obj in render("pcs.yaml.j2", parameters, namespace=self.namespace, run_id="operator-tests").objects:
            obj["metadata"]["name"] = name
            self.create(obj)

    def create(self, obj: Object) -> Object:
        body = {**obj, "metadata": {**obj["metadata"], "namespace": self.namespace}}
        return self.portal.run(self.client.create(body))

    def find(self, kind: str) -> list[Object]:
        async def run() -> list[Object]:
            found = await self.client.list(await self.client.resource(kind), self.namespace)
            return [o for o in found.items if (kind, o["metadata"]["name"]) not in _DEFAULTS]

        return self.portal.run(run())

    def get(self, kind: str, name: str) -> Object:
        async def run() -> Object:
            return await self.client.get(await self.client.resource(kind), name, self.namespace)

        return self.portal.run(run())

    def patch(self, kind: str, name: str, body: Any, *, subresource: str = "", how: Any = "merge") -> Object:
        async def run() -> Object:
            resource = await self.client.resource(kind)
            return await self.client.patch(resource, name, self.namespace, body=body, kind=how, subresource=subresource)

        return self.portal.run(run())

    def scale(self, kind: str, name: str, replicas: int) -> None:
        self.patch(kind, name, {"spec": {"replicas": replicas}}, subresource="scale")

    def trigger(self, value: str, name: str = "pcs") -> None:
        self.patch(SET, name, {"metadata": {"annotations": {"grove.io/reconcile-trigger": value}}})

    def delete(self, kind: str, name: str) -> None:
        async def run() -> None:
            try:
                await self.client.delete(await self.client.resource(kind), name, self.namespace)
            except NotFound:
                return

        self.portal.run(run())

    def delete_all(self, kind: str) -> None:
        for obj in self.find(kind):
            self.delete(kind, obj["metadata"]["name"])

    # ---- waiting

    def wait(self, kind: str, check: Check, *, name: str = "") -> list[Object]:
        """Watch a kind until ``check`` of all its objects is true; return them."""

        async def run() -> list[Object]:
            resource = await self.client.resource(kind)
            path = resource.path(self.namespace)
            field = f"metadata.name={name}" if name else ""
            found: dict[str, Object] = {}
            try:
                async with asyncio.timeout(WAIT_S):
                    while True:
                        found.clear()
                        try:
                            if await _follow(self.client, path, field, kind, found, check):
                                return list(found.values())
                        except ServerUnavailable:
                            continue
            except TimeoutError:
                raise AssertionError(f"not within {WAIT_S:g} s; {kind}: {_short(found)}") from None

        return self.portal.run(run())

    def wait_deployed(self, replicas: int = 2, pods: int = 2, name: str = "pcs") -> Object:
        """Return the set once it is available, up to date, and all its pods are ready."""

        def arrived(sets: list[Object]) -> bool:
            status = sets[0].get("status", {}) if sets else {}
            return (
                status.get("availableReplicas") == status.get("updatedReplicas") == replicas
                and status.get("observedGeneration") == sets[0]["metadata"]["generation"]
            )

        found = self.wait(SET, arrived, name=name)
        self.wait("pods", lambda all_pods: len(alive(all_pods)) == replicas * pods == sum(map(ready, alive(all_pods))))
        return found[0]

    def wait_empty(self) -> None:
        """Return when nothing of what the operator makes is left."""
        for kind in KINDS:
            self.wait(kind, lambda found: not found)

    def settle(self, operator: OperatorProcess, *, more_than: int = -1) -> None:
        """Return when the operator has nothing in hand; see ``OperatorProcess.settle``."""
        operator.settle(more_than=more_than)

    def cost_of_trigger(self, operator: OperatorProcess) -> dict[str, int]:
        """Return what one trigger costs: counts, requests by method, reconciles."""

        def now() -> dict[str, int]:
            requests = {m: operator.requests(m) for m in ("GET", "POST", "PATCH", "DELETE")}
            return {**operator.counts(), **requests, "reconciles": operator.reconciles("podcliqueset")}

        before = now()
        self.trigger("count")
        self.settle(operator, more_than=before["reconciles"])
        after = now()
        return {name: after[name] - before[name] for name in after}

    # ---- the end

    def clear(self) -> None:
        """Delete the operator's resources without it: nobody else would take its finalizers off.

        Returns when the garbage collector has taken what belonged to them: another operator would reconcile it.
        """
        for kind in (SET, GROUP, CLIQUE):
            for obj in self.find(kind):
                if obj["metadata"].get("finalizers"):
                    self.patch(kind, obj["metadata"]["name"], {"metadata": {"finalizers": None}})
                self.delete(kind, obj["metadata"]["name"])
        for kind in KINDS:
            self.wait(kind, lambda found: not any(one["metadata"].get("ownerReferences") for one in found))


async def _follow(client: Client, path: str, field: str, kind: str, found: dict[str, Object], check: Check) -> bool:
    live = False
    batches = stream(client, path, field_selector=field, initial_events=True)
    async for event in (event async for events in batches for event in events):
        if event.type == "BOOKMARK":
            live = True
        else:
            obj = msgspec.json.decode(event.object)
            key = obj["metadata"]["name"]
            if event.type == "DELETED":
                found.pop(key, None)
            elif (kind, key) not in _DEFAULTS:
                found[key] = obj
        if live and check(list(found.values())):
            return True
    return False


def _short(found: dict[str, Object]) -> str:
    return "; ".join(f"{name}: {obj.get('status')}" for name, obj in found.items()) or "none"
