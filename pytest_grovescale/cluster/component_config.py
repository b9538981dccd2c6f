"""Configuration of components that all backends share: limits, audit policy, kwok."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import yaml

from .definition import ClusterDefinition, Kwok

Flat = dict[str, str | int | float | bool]

AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata"}],
}

AUDIT_MAX_MB = 100_000
"""Size at which the audit log is rotated, MB: more than any run writes."""

KWOK_CONFIG = "kwok.yaml"
"""Name of the configuration file in the cluster's folder, the working folder."""

ALL_NODES = ("--manage-all-nodes=true",)

_POD_RANGE = "10.128.0.0/9"


def control_plane_limits(definition: ClusterDefinition, *, controllers: str) -> Flat:
    """Return the limits of a control plane that grovescale created. ``controllers``: the ones that run."""
    api = definition.api_server
    flat: Flat = {
        "priority_and_fairness": api.priority_and_fairness,
        "max_requests_inflight": api.max_requests_inflight,
        "max_mutating_requests_inflight": api.max_mutating_requests_inflight,
        "apiserver_gogc": api.gogc or 100,
        "controller_manager_qps": definition.controller_manager.limits.qps,
        "controller_manager_controllers": controllers,
        "scheduler_qps": definition.scheduler.limits.qps,
    }
    for section in ("api_server", "controller_manager", "scheduler", "kwok"):
        for flag, value in getattr(definition, section).extra_args.items():
            flat[f"{section}.{flag}"] = value
    return flat


def kwok_limits(definition: ClusterDefinition) -> Flat:
    """Return the limits of grovescale's kwok, and its Stages."""
    return {
        "kwok_pod_parallelism": definition.kwok.pod_parallelism,
        "kwok_lease_seconds": definition.kwok.lease_seconds,
        "stages": ",".join(Path(stage).stem for stage in definition.stages),
    }


def nodes_labelled(selector: str) -> tuple[str, ...]:
    """Return the flags that restrict kwok to the nodes of a label selector, on clusters with other nodes."""
    return ("--manage-all-nodes=false", f"--manage-nodes-with-label-selector={selector}")


def kwok_arguments(kwok: Kwok, *, kubeconfig: str, port: int, nodes: Sequence[str]) -> list[str]:
    """Return kwok's arguments. ``port``: of its own metrics, on loopback; ``nodes``: flags that select its nodes."""
    return [
        f"--kubeconfig={kubeconfig}",
        f"--config={KWOK_CONFIG}",
        *nodes,
        "--node-ip=127.0.0.1",
        f"--cidr={_POD_RANGE}",
        f"--server-address=127.0.0.1:{port}",
        f"--node-lease-duration-seconds={kwok.lease_seconds}",
        *(f"--{flag}={value}" for flag, value in kwok.extra_args.items()),
    ]


def kwok_configuration(definition: ClusterDefinition) -> str:
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
