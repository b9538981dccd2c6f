"""The limits in force on a cluster, stored in every recording: clusters with different limits are not comparable."""

from __future__ import annotations

from pathlib import Path

from .definition import ClusterDefinition

Flat = dict[str, str | int | float | bool]


def of_control_plane(definition: ClusterDefinition, *, controllers: str) -> Flat:
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


def of_kwok(definition: ClusterDefinition) -> Flat:
    """Return the limits of grovescale's kwok, and its Stages."""
    return {
        "kwok_pod_parallelism": definition.kwok.pod_parallelism,
        "kwok_lease_seconds": definition.kwok.lease_seconds,
        "stages": ",".join(Path(stage).stem for stage in definition.stages),
    }
