"""Simulated nodes: objects without a machine behind them, made concurrently, Ready once kwok has taken them on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any, cast

import msgspec
import yaml

from ..errors import ClusterError
from ..kube import watch
from ..kube.client import Client
from ..kube.errors import AlreadyExists, ApiError, ServerUnavailable
from .definition import ClusterDefinition, NodePool

POOL_LABEL = "grovescale.io/pool"
_PATH = "/api/v1/nodes"
_AT_A_TIME = 16
_ATTEMPTS = 25


class _Condition(msgspec.Struct, frozen=True):
    type: str
    status: str


class _Status(msgspec.Struct, frozen=True):
    conditions: list[_Condition] = []


class _Metadata(msgspec.Struct):
    name: str


class _Node(msgspec.Struct):
    metadata: _Metadata
    status: _Status = _Status()


_decode = msgspec.json.Decoder(_Node).decode


def manifests(definition: ClusterDefinition) -> Iterator[dict[str, Any]]:
    """Yield every node of a cluster, pool by pool."""
    for pool in definition.nodes:
        template = yaml.safe_load(Path(pool.template).read_text(encoding="utf-8"))
        for number in range(pool.count):
            yield node(template, pool, number)


def node(template: dict[str, Any], pool: NodePool, number: int) -> dict[str, Any]:
    """Return one node: the template with the pool's labels, taints and capacity over it."""
    name = f"{pool.prefix}-{number}"
    metadata, spec, status = (dict(template.get(part) or {}) for part in ("metadata", "spec", "status"))
    labels = {"kubernetes.io/hostname": name, POOL_LABEL: pool.prefix, **pool.labels}
    metadata |= {"name": name, "labels": {**(metadata.get("labels") or {}), **labels}}
    if pool.taints:
        spec["taints"] = [*(spec.get("taints") or []), *msgspec.to_builtins(pool.taints)]
    capacity = {key: str(value) for key, value in {**(status.get("capacity") or {}), **pool.capacity}.items()}
    status |= {"capacity": capacity, "allocatable": {**(status.get("allocatable") or {}), **capacity}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec, "status": status}


async def create(client: Client, definition: ClusterDefinition) -> None:
    """Create all nodes; those that are there already stay as they are."""
    waiting = iter([msgspec.json.encode(manifest) for manifest in manifests(definition)])
    errors: list[ApiError] = []

    async def work() -> None:
        for body in waiting:
            if errors:
                # One is enough to say what is wrong with all of them.
                return
            try:
                await _create(client, body)
            except ApiError as error:
                errors.append(error)

    await asyncio.gather(*(work() for _ in range(_AT_A_TIME)))
    if errors:
        raise errors[0]


async def _create(client: Client, body: bytes) -> None:
    """Create a node. No answer may mean that it was created, so what is there already is right."""
    for attempt in range(_ATTEMPTS):
        try:
            await client.request("POST", _PATH, body=body)
        except AlreadyExists:
            return
        except ServerUnavailable:
            # The API server has only just begun to answer.
            if attempt == _ATTEMPTS - 1:
                raise
            await asyncio.sleep(0.2)
        else:
            return


async def wait_ready(client: Client, count: int, *, timeout_s: float) -> None:
    """Return when ``count`` nodes are Ready; raises ClusterError after ``timeout_s`` seconds, naming the late."""
    ready: set[str] = set()
    seen: set[str] = set()
    deadline = time.monotonic() + timeout_s
    while len(ready) < count:
        ready.clear()
        seen.clear()
        try:
            async with asyncio.timeout(deadline - time.monotonic()):
                await _follow(client, count, ready, seen)
        except TimeoutError:
            late = ", ".join(sorted(seen - ready)[:5])
            raise ClusterError(
                f"{len(ready)} of {count} nodes are Ready after {timeout_s:.0f} s"
                + (f"; not Ready: {late}" if late else ""),
                next_step="See kwok's log; a Stage that sets Ready must be among the definition's stages.",
            ) from None
        except ServerUnavailable:
            # A cut watch; a new one begins with all nodes.
            await asyncio.sleep(0.05)


async def _follow(client: Client, count: int, ready: set[str], seen: set[str]) -> None:
    # Closed here, not by the garbage collector some time: it holds a connection.
    stream = cast("AsyncGenerator[watch.WatchEvent, None]", watch.stream(client, _PATH, initial_events=True))
    async with aclosing(stream) as events:
        async for event in events:
            if event.type != "BOOKMARK":
                _note(event, ready, seen)
            if len(ready) >= count:
                return


def _note(event: watch.WatchEvent, ready: set[str], seen: set[str]) -> None:
    found = _decode(event.object)
    name = found.metadata.name
    seen.add(name)
    is_ready = any(c.type == "Ready" and c.status == "True" for c in found.status.conditions)
    if is_ready and event.type != "DELETED":
        ready.add(name)
    else:
        ready.discard(name)
