"""A separate client that creates N named objects and notes when it sent each request and received its response.

``python -m benchmarks.writer KUBECONFIG NAMESPACE N`` prints JSON: name → [sent, received], wall clock ns.
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

import msgspec

from pytest_grovescale.kube.access import from_kubeconfig
from pytest_grovescale.kube.client import Client

CONCURRENCY = 10


async def write(kubeconfig: Path, namespace: str, n: int) -> dict[str, tuple[int, int]]:
    """Create ``n`` ConfigMaps and return when each was sent and answered."""
    times: dict[str, tuple[int, int]] = {}
    numbers = iter(range(n))

    async with Client(from_kubeconfig(kubeconfig), user_agent="benchmark-writer") as client:
        await client.resources()

        async def one_after_another() -> None:
            for number in numbers:
                name = f"clock-{number}"
                body = {
                    "apiVersion": "v1",
                    "kind": "ConfigMap",
                    "metadata": {"name": name, "namespace": namespace, "labels": {"bench": "clock"}},
                }
                sent = time.time_ns()
                await client.create(body)
                times[name] = (sent, time.time_ns())

        await asyncio.gather(*(one_after_another() for _ in range(CONCURRENCY)))
    return times


if __name__ == "__main__":
    found = asyncio.run(write(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
    sys.stdout.buffer.write(msgspec.json.encode(found))
