"""Removal of the operator's Deployment from the cluster, if a start of grovescale created it."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

from ...errors import OperatorError
from ...kube.client import Client
from ...kube.errors import NotFound
from ...kube.informer import follow
from ...kube.resources import Resource
from ...kube.subresources import PODS
from ..install import MANAGED, OPERATOR

DEPLOYMENTS = Resource(group="apps", version="v1", plural="deployments", kind="Deployment", namespaced=True)

GONE_S = 90.0
"""Time limit for the pods to end, s."""


async def remove(client: Client, namespace: str, name: str, *, operator: str) -> bool:
    """Delete a Deployment; its pods end after that. Return False if there is none, or one of another user."""
    try:
        metadata = (await client.get(DEPLOYMENTS, name, namespace))["metadata"]
        labels = metadata.get("labels") or {}
        if not labels.get(MANAGED) or labels.get(OPERATOR) != operator:
            return False
        await client.delete(DEPLOYMENTS, name, namespace, uid=metadata["uid"])
    except NotFound:
        return False
    return True


async def wait_gone(client: Client, namespace: str, selector: str) -> None:
    """Return when no pod matches a selector. Raises OperatorError after the time limit."""
    left: list[str] = []
    live = False
    try:
        async with (
            asyncio.timeout(GONE_S),
            aclosing(follow(client, PODS, namespace, label_selector=selector)) as changes,
        ):
            async for change in changes:
                live = live or change.kind == "live"
                left = [pod.metadata.name for pod in change.present.values()]
                if live and not left:
                    return
    except TimeoutError:
        raise OperatorError(
            f"pods of the operator are still there {GONE_S:g} s after its Deployment was deleted: {', '.join(left)}",
            next_step=f"See why: kubectl --namespace {namespace} describe pod {' '.join(left)}",
        ) from None
