"""kwok, which simulates the kubelets: its command line and its configuration file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import yaml

from .definition import ClusterDefinition, Kwok

CONFIG = "kwok.yaml"
"""Name of the configuration file in the cluster's folder, the working folder."""

ALL_NODES = ("--manage-all-nodes=true",)

_POD_RANGE = "10.128.0.0/9"


def nodes_labelled(selector: str) -> tuple[str, ...]:
    """Return the flags that restrict kwok to the nodes of a label selector, on clusters with other nodes."""
    return ("--manage-all-nodes=false", f"--manage-nodes-with-label-selector={selector}")


def arguments(kwok: Kwok, *, kubeconfig: str, port: int, nodes: Sequence[str]) -> list[str]:
    """Return kwok's arguments. ``port``: of its own metrics, on loopback; ``nodes``: flags that select its nodes."""
    return [
        f"--kubeconfig={kubeconfig}",
        f"--config={CONFIG}",
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
