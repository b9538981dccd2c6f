"""kwok, which simulates the kubelets of our nodes: its configuration, and which one it is on a cluster of others.

There, one that runs in the cluster is detected by its effect, wherever it runs and whatever its name: it makes a node
with kwok's annotation Ready. grovescale's own kwok takes only the nodes with this cluster's label; they lack the
annotation, so that no second kwok changes them.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import yaml

from ..errors import ClusterError
from ..kube.client import Client
from . import nodes, state, supervisor_client
from .binaries import Binary
from .definition import ClusterDefinition, Kwok
from .ports import PortTaken
from .processes import ProcessSpec

ANNOTATION = "kwok.x-k8s.io/node"
"""Annotation of nodes (value ``fake``) that a kwok takes on when it is installed as its documentation says."""

Players = Literal["host", "there"]

CONFIGURATION = "kwok.yaml"
"""Name of the configuration file in the cluster's folder, the working folder."""

KUBECONFIG = "kwok.kubeconfig"
NAME = "kwok"

ALL_NODES = ("--manage-all-nodes=true",)

_POD_RANGE = "10.128.0.0/9"
_GROUP = "kwok.x-k8s.io"
_LOOK_S, _LOOK_LONGER_S = 5.0, 20.0
"""Time limit for a kwok in the cluster to take on the first node, s; longer if its CRDs are installed."""
_READY_S = 120.0
_EVERY_S = 0.1
_GRACE_S = 3.0
_TAIL_LINES = 20


def limits(definition: ClusterDefinition) -> state.Flat:
    """Return the limits of grovescale's kwok, and its Stages."""
    return {
        "kwok_pod_parallelism": definition.kwok.pod_parallelism,
        "kwok_lease_seconds": definition.kwok.lease_seconds,
        "stages": ",".join(Path(stage).stem for stage in definition.stages),
    }


def nodes_labelled(selector: str) -> tuple[str, ...]:
    """Return the flags that restrict kwok to the nodes of a label selector, on clusters with other nodes."""
    return ("--manage-all-nodes=false", f"--manage-nodes-with-label-selector={selector}")


def arguments(kwok: Kwok, *, kubeconfig: str, port: int, nodes: Sequence[str]) -> list[str]:
    """Return kwok's arguments. ``port``: of its own metrics, on loopback; ``nodes``: flags that select its nodes."""
    return [
        f"--kubeconfig={kubeconfig}",
        f"--config={CONFIGURATION}",
        *nodes,
        "--node-ip=127.0.0.1",
        f"--cidr={_POD_RANGE}",
        f"--server-address=127.0.0.1:{port}",
        f"--node-lease-duration-seconds={kwok.lease_seconds}",
        *(f"--{flag}={value}" for flag, value in kwok.extra_args.items()),
    ]


def configuration(definition: ClusterDefinition) -> str:
    """Return the configuration file (YAML): concurrency and Stages. kwok exits at once without one."""
    options = {
        "apiVersion": "config.kwok.x-k8s.io/v1alpha1",
        "kind": "KwokConfiguration",
        "metadata": {"name": "kwok"},
        "options": {
            "podPlayStageParallelism": definition.kwok.pod_parallelism,
            "nodePlayStageParallelism": definition.kwok.node_parallelism,
            # kwok exits at once if there are leases and this is missing.
            "nodeLeaseParallelism": definition.kwok.node_parallelism,
        },
    }
    stages = [Path(stage).read_text(encoding="utf-8") for stage in definition.stages]
    return "\n---\n".join([yaml.safe_dump(options), *stages])


async def someone_plays(client: Client, cluster: str) -> bool:
    """Return whether the first node, which has kwok's annotation, becomes Ready by a kwok in the cluster."""
    groups = {resource.group for resource in await client.resources()}
    patience = _LOOK_LONGER_S if _GROUP in groups else _LOOK_S
    try:
        await nodes.wait_ready(client, 1, timeout_s=patience, selector=nodes.selector(cluster))
    except ClusterError:
        return False
    return True


async def let_alone(client: Client, name: str) -> None:
    """Remove kwok's annotation from a node: our own kwok takes it."""
    body = {"metadata": {"annotations": {ANNOTATION: None}}}
    await client.patch(await client.resource("Node", "v1"), name, body=body)


def annotated(manifest: dict[str, Any], players: Players) -> dict[str, Any]:
    """Return a node's manifest, with kwok's annotation if a kwok in the cluster simulates its kubelet."""
    metadata = manifest["metadata"]
    annotations = {key: value for key, value in (metadata.get("annotations") or {}).items() if key != ANNOTATION}
    if players == "there":
        annotations[ANNOTATION] = "fake"
    return {**manifest, "metadata": {**metadata, "annotations": annotations}}


def start(folder: Path, definition: ClusterDefinition, binary: Binary, *, port: int, whole_environment: bool) -> None:
    """Start our kwok under the supervisor. ``whole_environment``: for an exec plugin that provides the credentials."""
    (folder / CONFIGURATION).write_text(configuration(definition), encoding="utf-8")
    selected = nodes_labelled(nodes.selector(folder.name))
    spec = ProcessSpec(
        name=NAME,
        argv=[binary.path, *arguments(definition.kwok, kubeconfig=KUBECONFIG, port=port, nodes=selected)],
        env=dict(os.environ) if whole_environment else {},
        cwd=str(folder),
        log=str(folder / "logs" / f"{NAME}.log"),
        stop_grace_s=_GRACE_S,
        restart=True,
    )
    supervisor_client.ask(folder, supervisor_client.StartProcess(spec=spec))


async def wait_ready(client: Client, folder: Path, count: int, players: Players) -> None:
    """Return when all nodes are Ready. Raises ClusterError with the end of our kwok's log, PortTaken."""
    waiting = asyncio.create_task(
        nodes.wait_ready(client, count, timeout_s=_READY_S, selector=nodes.selector(folder.name))
    )
    try:
        while not (await asyncio.wait({waiting}, timeout=_EVERY_S))[0]:
            if _has_ended(folder):
                raise ClusterError(
                    "kwok ended while the cluster was starting",
                    next_step="If it refuses a flag or a Stage, see kwok.extra_args and the definition's stages.",
                )
        await waiting
    except ClusterError as error:
        if players == "there":
            raise ClusterError(
                f"{error.message}: the kwok that is there does not play them",
                next_step="See its log and its Stages, or use one of ours: `existing: {kwok: host}`.",
            ) from error
        raise _with_log(folder, error) from error
    finally:
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)


def _has_ended(folder: Path) -> bool:
    """Return whether our kwok, if there is one, has ended: always an error during the start."""
    info = state.process_list(folder).get(NAME)
    return info is not None and (info.restarts > 0 or not info.running)


def _with_log(folder: Path, error: ClusterError) -> ClusterError:
    info = state.process_list(folder).get(NAME)
    text = Path(info.log).read_text(encoding="utf-8", errors="replace") if info is not None else ""
    if "address already in use" in text:
        return PortTaken("kwok: another process took its port", next_step="Try again.")
    tail = "\n".join(f"  {line}" for line in text.splitlines()[-_TAIL_LINES:])
    return ClusterError(f"{error.message}; the end of its log:\n{tail}", next_step=error.next_step)
