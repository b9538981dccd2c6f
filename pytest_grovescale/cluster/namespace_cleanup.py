"""Removes namespaces of a killed run: ``python -m pytest_grovescale.cluster.namespace_cleanup DIRECTORY RUN [LEASE]``.

With a lease's id as a third argument: only the namespaces created under that lease, by one of the run's workers.

The supervisor starts it after the run's processes have stopped. All namespaces labeled with the run are deleted with
their content; finalizers of remaining objects are removed, since the operator that would have done so is gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from pathlib import Path

import msgspec

from ..errors import ClusterError
from ..kube import namespaces as contents
from ..kube.client import Client
from ..kube.errors import ApiError, Conflict, Forbidden, NotFound, ServerUnavailable
from ..kube.resources import Resource
from . import state

RUN_LABEL = "grovescale.io/run"
LEASE_LABEL = "grovescale.io/lease"

_PATIENCE_S = 3.0
"""Time limit before finalizers are removed, s (pods wait for their simulated kubelet)."""
_TIMEOUT_S = 300.0
_EVERY_S = 0.3
_AT_A_TIME = 16

_NOT_OURS = (Forbidden, NotFound)
"""Errors for a kind that this identity may not change, which the namespace controller handles; or whose CRD is gone."""


class _Metadata(msgspec.Struct, frozen=True):
    name: str
    finalizers: list[str] = []


class _Item(msgspec.Struct, frozen=True):
    metadata: _Metadata


async def sweep(client: Client, run_id: str, lease_id: str = "", *, timeout_s: float = _TIMEOUT_S) -> list[str]:
    """Remove all namespaces of a run, or only those created under a lease, and return their names.

    Raises ClusterError if one still exists ``timeout_s`` seconds after the deletion of its content was requested.
    """
    resource = await client.resource("Namespace", "v1")
    selector = f"{RUN_LABEL}={run_id}" + (f",{LEASE_LABEL}={lease_id}" if lease_id else "")
    listing = await client.list(resource, label_selector=selector)
    namespaces = [str(item["metadata"]["name"]) for item in listing.items]
    for namespace in namespaces:
        try:
            await client.delete(resource, namespace)
        except (NotFound, Conflict):
            # Gone, or already being deleted.
            continue
    await asyncio.gather(*(empty(client, resource, namespace, timeout_s=timeout_s) for namespace in namespaces))
    return namespaces


async def empty(client: Client, namespaces: Resource, namespace: str, *, timeout_s: float) -> None:
    """Delete the content of a namespace that is being deleted, and wait until it is gone.

    Raises ClusterError, with the reason, if it still exists ``timeout_s`` seconds after that.
    """
    # Faster than the namespace controller, which waits 5 s before it begins.
    for kind in await contents.kinds(client):
        with contextlib.suppress(*_NOT_OURS):
            if "deletecollection" in kind.verbs and await contents.holds(client, kind, namespace):
                await contents.clear(client, kind, namespace)
    # The limit counts from here: the time so far depends on the number of objects.
    deadline = time.monotonic() + timeout_s
    strip_at = time.monotonic() + _PATIENCE_S
    while await client.exists(namespaces, namespace):
        if time.monotonic() > deadline:
            held = "; ".join(await _holders(client, namespaces, namespace))
            raise ClusterError(
                f"namespace {namespace} does not go: {held}",
                next_step=f"See: kubectl get namespace {namespace} -o yaml",
            )
        if time.monotonic() > strip_at:
            await _strip(client, namespace)
            strip_at = time.monotonic() + _PATIENCE_S
        await asyncio.sleep(_EVERY_S)


async def _holders(client: Client, namespaces: Resource, namespace: str) -> list[str]:
    """Return what blocks the deletion, as the namespace controller reports it: finalizers, an API without answer."""
    with contextlib.suppress(NotFound):
        conditions = (await client.get(namespaces, namespace)).get("status", {}).get("conditions", [])
        if lines := [f"{c['type']}: {c.get('message', '')}" for c in conditions if c.get("status") == "True"]:
            return lines
    return ["nothing says why; does kube-controller-manager run?"]


async def _strip(client: Client, namespace: str) -> None:
    """Remove the finalizers of all objects in a namespace."""
    gate = asyncio.Semaphore(_AT_A_TIME)

    async def free(kind: Resource, name: str) -> None:
        async with gate:
            with contextlib.suppress(NotFound):
                await client.patch(kind, name, namespace, body={"metadata": {"finalizers": None}})

    for kind in await contents.kinds(client):
        with contextlib.suppress(*_NOT_OURS):
            async for page in contents.objects(client, kind, namespace, _Item):
                stuck = [item.metadata.name for item in page if item.metadata.finalizers]
                await asyncio.gather(*(free(kind, name) for name in stuck))


async def _main(directory: Path, run_id: str, lease_id: str = "") -> int:
    deadline = time.monotonic() + _TIMEOUT_S
    async with Client(state.access(directory, "harness"), user_agent="grovescale-sweep") as client:
        while True:
            try:
                removed = await sweep(client, run_id, lease_id)
            except ServerUnavailable as error:
                # The API server may be restarting after a crash.
                if time.monotonic() > deadline:
                    _print(f"run {run_id}: {error}")
                    return 1
                await asyncio.sleep(1)
            except (ApiError, ClusterError) as error:
                _print(f"run {run_id}: {error}")
                return 1
            else:
                _print(f"run {run_id}: removed {', '.join(removed) or 'nothing'}")
                return 0


def _print(text: str) -> None:
    sys.stdout.write(text + "\n")


if __name__ == "__main__":
    sys.exit(asyncio.run(_main(Path(sys.argv[1]), *sys.argv[2:])))
