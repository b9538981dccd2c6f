"""Removes what a killed run left on a cluster that stays: ``python -m pytest_grovescale.cluster.sweep DIRECTORY RUN``.

The supervisor starts it once the run's processes are stopped. All namespaces labelled with the run go, with all that
is in them; finalizers are taken off what hangs, since the operator that would have done so is gone.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from ..errors import ClusterError
from ..kube.access import from_kubeconfig
from ..kube.client import Client
from ..kube.errors import ApiError, Conflict, NotFound, ServerUnavailable
from ..kube.resources import Resource

RUN_LABEL = "grovescale.io/run"

_PATIENCE_S = 3.0
"""How long objects have to go by themselves (pods wait for their simulated kubelet) before finalizers come off."""
_TIMEOUT_S = 300.0
_EVERY_S = 0.3
_AT_A_TIME = 16


async def sweep(client: Client, run_id: str, *, timeout_s: float = _TIMEOUT_S) -> list[str]:
    """Remove all namespaces of a run and return their names; raises ClusterError when one does not go in time."""
    resource = await client.resource("Namespace", "v1")
    listing = await client.list(resource, label_selector=f"{RUN_LABEL}={run_id}")
    namespaces = [str(item["metadata"]["name"]) for item in listing.items]
    for namespace in namespaces:
        try:
            await client.delete(resource, namespace)
        except (NotFound, Conflict):
            # Gone, or going already.
            continue
    deadline = time.monotonic() + timeout_s
    await asyncio.gather(*(_empty(client, resource, namespace, deadline) for namespace in namespaces))
    return namespaces


async def _empty(client: Client, namespaces: Resource, namespace: str, deadline: float) -> None:
    """Delete what is in a namespace that is being deleted, and wait until it is gone."""
    # Not left to the namespace controller: it lets 5 s pass before it looks.
    async for kind, items in _contents(client, namespace):
        if items and "deletecollection" in kind.verbs:
            await client.delete_collection(kind, namespace)
    strip_at = time.monotonic() + _PATIENCE_S
    while await client.exists(namespaces, namespace):
        if time.monotonic() > deadline:
            raise ClusterError(
                f"namespace {namespace} does not go", next_step=f"See: kubectl get namespace {namespace} -o yaml"
            )
        if time.monotonic() > strip_at:
            await _strip(client, namespace)
        await asyncio.sleep(_EVERY_S)


async def _strip(client: Client, namespace: str) -> None:
    """Take the finalizers off everything in a namespace."""
    gate = asyncio.Semaphore(_AT_A_TIME)

    async def free(kind: Resource, name: str) -> None:
        async with gate:
            try:
                await client.patch(kind, name, namespace, body={"metadata": {"finalizers": None}})
            except NotFound:
                return

    async for kind, items in _contents(client, namespace):
        stuck = [str(item["metadata"]["name"]) for item in items if item["metadata"].get("finalizers")]
        await asyncio.gather(*(free(kind, name) for name in stuck))


async def _contents(client: Client, namespace: str) -> AsyncIterator[tuple[Resource, list[dict[str, Any]]]]:
    """Yield every kind that can be listed and deleted with its objects in a namespace, each in one version."""
    seen: set[str] = set()
    for kind in await client.resources(refresh=True):
        if not kind.namespaced or kind.qualified in seen or not {"list", "delete"} <= set(kind.verbs):
            continue
        seen.add(kind.qualified)
        try:
            yield kind, (await client.list(kind, namespace)).items
        except NotFound:
            # Its CRD went meanwhile.
            continue


async def _main(directory: Path, run_id: str) -> int:
    deadline = time.monotonic() + _TIMEOUT_S
    async with Client(from_kubeconfig(directory / "kubeconfig"), user_agent="grovescale-sweep") as client:
        while True:
            try:
                found = await sweep(client, run_id)
            except ServerUnavailable as error:
                # The API server may be on its way back after a crash.
                if time.monotonic() > deadline:
                    _say(f"run {run_id}: {error}")
                    return 1
                await asyncio.sleep(1)
            except (ApiError, ClusterError) as error:
                _say(f"run {run_id}: {error}")
                return 1
            else:
                _say(f"run {run_id}: removed {', '.join(found) or 'nothing'}")
                return 0


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")


if __name__ == "__main__":
    sys.exit(asyncio.run(_main(Path(sys.argv[1]), sys.argv[2])))
