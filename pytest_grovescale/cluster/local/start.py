"""The start of a local control plane: files, supervisor, components, nodes; and what is told of it afterwards."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from ...kube.portal import Portal
from .. import binaries, launch, ports, state
from ..binaries import Binary
from ..launch import Plan
from . import bring_up, components

Progress = Callable[[str], None]


def start(plan: Plan, progress: Progress) -> state.Facts:
    """Start all components and return once all nodes are Ready. Raises BinaryError, ClusterError, PortTaken."""
    found = binaries.resolve(plan.definition, progress=progress)
    start = _begin(plan, found)
    with Portal() as portal:
        timings = portal.run(bring_up.run(start, progress))
    progress(
        f"cluster {plan.name}: {plan.definition.node_count} nodes Ready after {timings.all_s:.1f} s "
        f"(API server {timings.ready_s:.1f} s)"
    )
    return _facts(plan, found, start, timings)


def _begin(plan: Plan, found: Mapping[str, Binary]) -> components.Start:
    """Start the supervisor and write what the components need meanwhile."""
    leased = ports.lease(len(components.PORTS))
    try:
        start = components.Start(
            name=plan.name,
            folder=plan.folder,
            definition=plan.definition,
            binaries={name: Path(binary.path) for name, binary in found.items()},
            ports=dict(zip(components.PORTS, (port.number for port in leased), strict=True)),
        )
        with launch.supervisor(plan.folder, leased):
            components.write_files(start)
    finally:
        # The supervisor holds them from here on.
        ports.release(leased)
    return start


def _facts(plan: Plan, found: Mapping[str, Binary], start: components.Start, timings: bring_up.Timings) -> state.Facts:
    definition = plan.definition
    api = definition.api_server
    flat: dict[str, str | int | float | bool] = {
        "backend": definition.backend,
        "definition": definition.name,
        "kubernetes": found["kube-apiserver"].version,
        "etcd": found["etcd"].version,
        "kwok": found["kwok"].version,
        "nodes": definition.node_count,
        "priority_and_fairness": api.priority_and_fairness,
        "max_requests_inflight": api.max_requests_inflight,
        "max_mutating_requests_inflight": api.max_mutating_requests_inflight,
        "apiserver_gomaxprocs": api.gomaxprocs or len(os.sched_getaffinity(0)),
        "apiserver_gogc": api.gogc or 100,
        "controller_manager_qps": definition.controller_manager.limits.qps,
        "controller_manager_controllers": ",".join(definition.controller_manager.controllers),
        "scheduler_qps": definition.scheduler.limits.qps,
        "kwok_pod_parallelism": definition.kwok.pod_parallelism,
        "kwok_lease_seconds": definition.kwok.lease_seconds,
        "stages": ",".join(Path(stage).stem for stage in definition.stages),
        "data_on_tmpfs": state.data_folder(start.folder) is not None,
        "audit_level": "Metadata",
        "api_server_ready_s": round(timings.ready_s, 3),
        "nodes_ready_s": round(timings.nodes_ready_s, 3),
        "start_s": round(timings.all_s, 3),
    }
    for section in ("api_server", "controller_manager", "scheduler", "kwok"):
        for flag, value in getattr(definition, section).extra_args.items():
            flat[f"{section}.{flag}"] = value
    return state.Facts(
        name=start.name,
        backend=definition.backend,
        definition_digest=launch.digest(definition),
        server=f"https://127.0.0.1:{start.ports['kube-apiserver']}",
        kubernetes=found["kube-apiserver"].version,
        nodes=definition.node_count,
        identities={**{user: user for user in components.IDENTITIES}, "kube-apiserver": components.SERVER_IDENTITY},
        audit_log=str(start.folder / "audit.log"),
        facts=flat,
        binaries={name: binary.path for name, binary in found.items()},
        metrics=components.metrics_endpoints(start),
    )
