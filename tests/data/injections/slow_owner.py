"""An operator that makes a Deployment, StatefulSet or Job for each ConfigMap with the label `children`, after a while.

What a controller of Kubernetes then makes of it are the operator's grandchildren.
"""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path
from typing import Any

import msgspec
from aiohttp import web

from pytest_grovescale.reference_operator import credentials
from pytest_grovescale.reference_operator.api_client import ApiClient
from pytest_grovescale.reference_operator.http_servers import HttpServers

_POLL_S = 0.1
_PATHS = {"Deployment": "apis/apps/v1", "StatefulSet": "apis/apps/v1", "Job": "apis/batch/v1"}


def child(kind: str, ask: dict[str, Any]) -> dict[str, Any]:
    """Return the object of a kind that has as many pods as the ConfigMap asks for."""
    metadata, pods = ask["metadata"], int(ask["data"]["pods"])
    labels = {"app": metadata["name"]}
    template: dict[str, Any] = {
        "metadata": {"labels": labels},
        "spec": {
            "containers": [{"name": "main", "image": "none"}],
            "nodeSelector": {"type": "kwok"},
            "tolerations": [{"operator": "Exists"}],
        },
    }
    spec: dict[str, Any] = {"replicas": pods, "selector": {"matchLabels": labels}, "template": template}
    if kind == "StatefulSet":
        spec |= {"serviceName": "none", "podManagementPolicy": "Parallel"}
    if kind == "Job":
        template["spec"]["restartPolicy"] = "Never"
        spec = {"parallelism": pods, "completions": pods, "template": template}
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": metadata["name"], "uid": metadata["uid"]}
    return {
        "apiVersion": _PATHS[kind].removeprefix("apis/"),
        "kind": kind,
        "metadata": {"name": metadata["name"], "ownerReferences": [{**owner, "controller": True}]},
        "spec": spec,
    }


async def ready(_: web.Request) -> web.Response:
    return web.Response()


async def run(kubeconfig: Path, kind: str, delay: float, port: int) -> None:
    """Serve ConfigMaps until the process is ended."""
    done: set[str] = set()
    servers = HttpServers("127.0.0.1")
    await servers.serve(port, {"/readyz": ready})
    async with ApiClient(credentials.load(kubeconfig, "")) as api:
        while True:
            asked = msgspec.json.decode(await api.get("/api/v1/configmaps?labelSelector=children"))
            for ask in asked["items"]:
                if ask["metadata"]["uid"] not in done:
                    done.add(ask["metadata"]["uid"])
                    await asyncio.sleep(delay)
                    path = f"/{_PATHS[kind]}/namespaces/{ask['metadata']['namespace']}/{kind.lower()}s"
                    await api.post(path, child(kind, ask))
            await asyncio.sleep(_POLL_S)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--kind", choices=sorted(_PATHS), required=True)
    parser.add_argument("--delay", type=float, required=True)
    parser.add_argument("--port", type=int, required=True)
    given = parser.parse_args()
    asyncio.run(run(given.kubeconfig, given.kind, given.delay, given.port))
