"""Start of a local control plane: files, supervisor, components, nodes; then its facts for the recording."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

from ...kube.portal import Portal
from .. import launch, limits, ports, state, supervision
from ..launch import Plan
from . import bring_up, components

Progress = Callable[[str], None]


def start(plan: Plan, progress: Progress) -> state.Facts:
    """Start all components and return once all nodes are Ready. Raises ClusterError, PortTaken."""
    start = _begin(plan)
    with Portal() as portal:
        timings = portal.run(supervision.while_running(plan.folder, bring_up.run(start, progress)))
    progress(
        f"cluster {plan.name}: {plan.definition.node_count} nodes Ready after {timings.all_s:.1f} s "
        f"(API server {timings.ready_s:.1f} s)"
    )
    return _facts(plan, start, timings)


def _begin(plan: Plan) -> components.Start:
    """Start the supervisor and write the components' files meanwhile."""
    # The supervisor holds the ports and the data folder's lock from its start on.
    with contextlib.ExitStack() as held:
        leased = ports.lease(len(components.PORTS))
        held.callback(ports.release, leased)
        locked = ports.descriptors(leased)
        if (data := state.make_data_folder(plan.folder)) is not None:
            held.callback(os.close, data)
            locked.append(data)
        start = components.Start(
            name=plan.name,
            folder=plan.folder,
            definition=plan.definition,
            binaries={name: Path(binary.path) for name, binary in plan.binaries.items()},
            ports=dict(zip(components.PORTS, (port.number for port in leased), strict=True)),
        )
        with launch.supervisor(plan.folder, locked):
            components.write_files(start)
    return start


def _facts(plan: Plan, start: components.Start, timings: bring_up.Timings) -> state.Facts:
    definition, found = plan.definition, plan.binaries
    manager, api = definition.controller_manager, definition.api_server
    flat: limits.Flat = {
        "backend": definition.backend,
        "definition": definition.name,
        "kubernetes": found["kube-apiserver"].version,
        "etcd": found["etcd"].version,
        "kwok": found["kwok"].version,
        "nodes": definition.node_count,
        "apiserver_gomaxprocs": api.gomaxprocs or len(os.sched_getaffinity(0)),
        **limits.of_control_plane(definition, controllers=",".join(manager.controllers)),
        **limits.of_kwok(definition),
        "data_on_tmpfs": state.data_folder(start.folder) is not None,
        "audit_level": "Metadata",
        "api_server_ready_s": round(timings.ready_s, 3),
        "nodes_ready_s": round(timings.nodes_ready_s, 3),
        "start_s": round(timings.all_s, 3),
    }
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
