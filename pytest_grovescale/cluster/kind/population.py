"""Bootstrap of a kind cluster: kwok, simulated nodes, and taints that keep pods off the real nodes."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from ...errors import ClusterError
from ...kube.access import Access
from ...kube.client import Client
from .. import nodes, state
from ..binaries import Binary
from ..definition import ClusterDefinition, Kind
from ..existing import kubelets
from . import engine as engines
from . import images, kwok_pod, real_nodes
from .engine import Engine
from .ground import Ground

Progress = Callable[[str], None]

_START_S = 180.0
_LOAD_S = 120.0
_VERSION = re.compile(r"v?(\d+\.\d+\.\d+)")


class Populated(msgspec.Struct, frozen=True, kw_only=True):
    """Result of the bootstrap. Seconds count from the start of the cluster."""

    kubernetes: str
    """Version that the API server reports."""
    api_server_ready_s: float
    nodes_ready_s: float


class Populating(msgspec.Struct, frozen=True, kw_only=True):
    """Input of the bootstrap."""

    name: str
    folder: Path
    definition: ClusterDefinition
    ground: Ground
    engine: Engine
    kwok: Binary | None
    """The host's binary; None: kwok runs as a pod."""
    kwok_access: Access
    kwok_port: int
    began: float
    """``time.monotonic`` at the start."""


async def populate(client: Client, wanted: Populating, progress: Progress) -> Populated:
    """Return once all simulated nodes are Ready. Raises ClusterError, PortTaken."""
    definition = wanted.definition
    await real_nodes.until_usable(client, timeout_s=_START_S)
    kubernetes = await _version(client)
    ready_s = time.monotonic() - wanted.began
    if wanted.ground.made:
        await real_nodes.keep_daemons_on(client)
        await real_nodes.keep_workloads_off(client)
    await _start_kwok(client, wanted, progress)
    await nodes.put(client, manifests(wanted))
    progress(f"cluster {wanted.name}: {definition.node_count} nodes created, waiting until they are Ready")
    if wanted.kwok is not None:
        await kubelets.wait_ready(client, wanted.folder, definition.node_count, "host")
    else:
        await kwok_pod.wait_ready(client, definition.node_count, cluster=wanted.name)
    return Populated(kubernetes=kubernetes, api_server_ready_s=ready_s, nodes_ready_s=time.monotonic() - wanted.began)


def prefixes(definition: ClusterDefinition, cluster: str, *, made: bool) -> dict[str, str]:
    """Return the name prefix of each pool's nodes: it contains the cluster's name if others use the cluster."""
    return {pool.prefix: pool.prefix for pool in definition.nodes} if made else nodes.prefixed(definition, cluster)


def manifests(wanted: Populating) -> list[dict[str, Any]]:
    """Return the simulated nodes, without the annotation by which another kwok in the cluster would take them on."""
    begin = prefixes(wanted.definition, wanted.name, made=wanted.ground.made)
    found = nodes.manifests(wanted.definition, cluster=wanted.name, prefixes=begin)
    return [kubelets.annotated(manifest, "host") for manifest in found]


async def _version(client: Client) -> str:
    told = msgspec.json.decode(await client.request("GET", "/version"), type=dict[str, Any])
    match = _VERSION.match(str(told.get("gitVersion", "")))
    if match is None:
        raise ClusterError(f"the API server does not tell its version: {told}", next_step="Check the node image.")
    return match[1]


async def _start_kwok(client: Client, wanted: Populating, progress: Progress) -> None:
    if wanted.kwok is not None:
        kubelets.start(wanted.folder, wanted.definition, wanted.kwok, port=wanted.kwok_port, whole_environment=False)
        return
    image = kwok_pod.image(wanted.definition.kind or Kind(), wanted.engine)
    if engines.has_image(wanted.engine, image):
        progress(f"cluster {wanted.name}: loading {image} into the node")
        load(wanted, image, progress)
    access = wanted.kwok_access
    for manifest in kwok_pod.manifests(wanted.definition, cluster=wanted.name, image=image, access=access):
        await client.apply(manifest)


def load(wanted: Populating, image: str, progress: Progress) -> None:
    """Load an image of the engine into the node."""
    archive = wanted.folder / "image.tar"
    try:
        engines.call(wanted.engine, "save", "--output", str(archive), image, timeout_s=_LOAD_S)
        images.load(
            archive,
            state.Container(engine=wanted.engine.executable, name=wanted.ground.container),
            kubernetes=wanted.definition.kubernetes,
            given=wanted.definition.binaries,
            progress=progress,
        )
    finally:
        archive.unlink(missing_ok=True)
