"""Removes namespaces of a killed run: ``python -m pytest_grovescale.cluster.namespace_cleanup DIRECTORY RUN [LEASE]``.

With a lease's id as a third argument: only the namespaces created under that lease, by one of the run's workers.

The supervisor starts it after the run's processes have stopped. All namespaces labeled with the run are deleted with
their content; finalizers of remaining objects are removed, since the operator that would have done so is gone.
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

from ..errors import ClusterError
from ..kube import namespaces
from ..kube.client import Client
from ..kube.errors import ApiError, ServerUnavailable
from . import state

RUN_LABEL = "grovescale.io/run"
LEASE_LABEL = "grovescale.io/lease"

_TIMEOUT_S = 300.0


async def sweep(client: Client, run_id: str, lease_id: str = "", *, timeout_s: float = _TIMEOUT_S) -> list[str]:
    """Remove all namespaces of a run, or only those created under a lease, and return their names.

    Raises ClusterError if one still exists ``timeout_s`` seconds after the deletion of its content was requested.
    """
    selector = f"{RUN_LABEL}={run_id}" + (f",{LEASE_LABEL}={lease_id}" if lease_id else "")
    listing = await client.list(await client.resource("Namespace", "v1"), label_selector=selector)
    names = [str(item["metadata"]["name"]) for item in listing.items]
    for name in names:
        await namespaces.delete(client, name)
    await asyncio.gather(*(namespaces.remove_by_force(client, name, timeout_s=timeout_s) for name in names))
    return names


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
