"""The start of a kind cluster, and the facts about it that a recording notes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path

from ...endpoints import Address
from ...kube.portal import Portal
from .. import kwok, launch, ports, state, supervisor_client, teardown_plan
from ..binaries import Binary
from ..definition import ClusterDefinition, Kind
from ..launch import Plan
from ..supervisor_client import StartProcess
from . import bootstrap, configuration, container_engine, kind_command, node_processes, provision
from .bootstrap import Bootstrap, Bootstrapped
from .container_engine import Engine
from .provision import Ground

Progress = Callable[[str], None]

_PORTS = ("kube-apiserver", *configuration.METRICS_PORTS, "kwok")


def facts(
    plan: Plan, setup: Bootstrap, done: Bootstrapped, binaries: Mapping[str, Binary], ports: Mapping[str, int]
) -> state.Facts:
    """Return the facts. ``binaries``: binaries of this machine; ``ports``: on loopback, by component."""
    definition, ground = plan.definition, setup.ground
    prefixes = bootstrap.prefixes(definition, plan.name, made=ground.made)
    return state.Facts(
        name=plan.name,
        backend=definition.backend,
        definition_digest=launch.digest(definition),
        server=ground.server,
        kubernetes=done.kubernetes,
        nodes=definition.node_count,
        identities={**{role: role for role in provision.ROLES}, **provision.COMPONENTS},
        audit_log=ground.audit_log,
        facts=_flat(setup, done, binaries),
        binaries={name: binary.path for name, binary in binaries.items()},
        metrics=_metrics(plan.folder / "pki", setup, ports),
        others_use_it=not ground.made,
        # Loopback of this machine is not the loopback of the container that the API server runs in.
        on_loopback=False,
        container=state.Container(engine=setup.engine.executable, name=ground.container),
        pools={prefixes[pool.prefix]: pool.count for pool in definition.nodes},
    )


def _flat(setup: Bootstrap, done: Bootstrapped, binaries: Mapping[str, Binary]) -> state.Flat:
    definition, ground, engine = setup.definition, setup.ground, setup.engine
    flat: state.Flat = {
        "backend": definition.backend,
        "definition": definition.name,
        "kubernetes": done.kubernetes,
        "kind": binaries["kind"].version,
        "kind_cluster": ground.cluster,
        "container": ground.container,
        "node_image": ground.image,
        "addons": "all" if ground.addons else "none",
        "engine": engine.name,
        "engine_version": engine.version,
        "engine_rootless": engine.rootless,
        "cgroup_version": engine.cgroup_version,
        "kwok_runs": (definition.kind or Kind()).kwok,
        "nodes": definition.node_count,
        **kwok.limits(definition),
        "api_server_ready_s": round(done.api_server_ready_s, 3),
        "nodes_ready_s": round(done.nodes_ready_s, 3),
        "start_s": round(done.nodes_ready_s, 3),
    }
    if "kwok" in binaries:
        flat["kwok"] = binaries["kwok"].version
    if ground.audit_log:
        flat["audit_level"] = "Metadata"
    return flat | _limits(definition) if ground.made else flat


def _limits(definition: ClusterDefinition) -> state.Flat:
    """Return the limits in force on a cluster that grovescale created."""
    flat = launch.control_plane_limits(definition, controllers="*") | {
        "etcd_fsync": False,
        "data_on_tmpfs": False,
    }
    if definition.api_server.gomaxprocs:
        flat["apiserver_gomaxprocs"] = definition.api_server.gomaxprocs
    return flat


def _metrics(keys: Path, setup: Bootstrap, ports: Mapping[str, int]) -> dict[str, Address]:
    """Return the metrics endpoints of the components; of a joined cluster only the API server's, and our kwok's."""

    def authenticated(url: str) -> Address:
        return Address(
            url=f"{url}/metrics",
            ca_file=str(keys / "ca.crt"),
            cert_file=str(keys / "recorder.crt"),
            key_file=str(keys / "recorder.key"),
        )

    endpoints = {"kube-apiserver": authenticated(setup.ground.server)}
    if setup.ground.made:
        for name in ("kube-controller-manager", "kube-scheduler"):
            endpoints[name] = authenticated(f"https://127.0.0.1:{ports[name]}")
        endpoints["etcd"] = Address(url=f"http://127.0.0.1:{ports['etcd']}/metrics")
    if setup.kwok is not None:
        endpoints["kwok"] = Address(url=f"http://127.0.0.1:{ports['kwok']}/metrics")
    return endpoints


def start(plan: Plan, progress: Progress) -> state.Facts:
    """Create or join a kind cluster and return once all simulated nodes are Ready.

    Raises UsageError, PortTaken, and ClusterError: no engine, no image, or an error of kind or the cluster.
    """
    engine = container_engine.find((plan.definition.kind or Kind()).engine)
    with kind_command.logs_kept(plan.folder, kind=plan.binaries["kind"].path, engine=engine, name=plan.name):
        return _start(plan, engine, progress)


def _start(plan: Plan, engine: Engine, progress: Progress) -> state.Facts:
    began = time.monotonic()
    binaries = plan.binaries
    numbers = _begin(plan)
    ground = _ground(plan, engine, binaries["kind"], numbers, progress)
    by = provision.authority(engine, ground.container)
    accesses = provision.write(plan.folder, name=plan.name, server=ground.server, by=by)
    setup = Bootstrap(
        name=plan.name,
        folder=plan.folder,
        definition=plan.definition,
        ground=ground,
        engine=engine,
        kwok=binaries.get("kwok"),
        kwok_access=accesses["kwok"],
        kwok_port=numbers["kwok"],
        began=began,
    )
    with Portal() as portal:
        client = portal.client(accesses["harness"], user_agent="grovescale-cluster")
        done = portal.run(supervisor_client.while_running(plan.folder, bootstrap.populate(client, setup, progress)))
    cluster_facts = facts(plan, setup, done, binaries, numbers)
    _follow_components(plan, cluster_facts)
    progress(
        f"cluster {plan.name}: {plan.definition.node_count} nodes Ready after {done.nodes_ready_s:.1f} s "
        f"(API server {done.api_server_ready_s:.1f} s)"
    )
    return cluster_facts


def _begin(plan: Plan) -> dict[str, int]:
    """Start the supervisor and return the ports that it holds."""
    leased = ports.lease(len(_PORTS))
    try:
        with launch.supervisor(plan.folder, ports.descriptors(leased)):
            (plan.folder / "logs").mkdir(exist_ok=True)
            (plan.folder / "pki").mkdir(mode=0o700, exist_ok=True)
    finally:
        # The supervisor holds the ports from here on.
        ports.release(leased)
    return dict(zip(_PORTS, (port.number for port in leased), strict=True))


def _ground(plan: Plan, engine: Engine, kind: Binary, numbers: dict[str, int], progress: Progress) -> Ground:
    joined = (plan.definition.kind or Kind()).cluster
    if not joined:
        return provision.make(plan, engine, kind.path, numbers, progress)
    ground = provision.join(joined, engine, kind.path)
    teardown_plan.plan(plan.folder, provision.removal(plan.folder))
    audit = "with its audit log" if ground.audit_log else "which has no audit log that can be read from here"
    progress(f"cluster {plan.name}: kind cluster {ground.cluster} joined, {audit}; it stays")
    return ground


def _follow_components(plan: Plan, cluster: state.Facts) -> None:
    """Start the process that follows the control plane's processes, if they are visible on this machine.

    It also follows a kwok pod, except in a joined cluster, where it could belong to others.
    """
    assert cluster.container is not None  # every kind cluster has one
    settings = plan.definition.kind or Kind()
    ours = ["kwok"] if settings.kwok == "cluster" and not settings.cluster else []
    log = plan.folder / "logs" / f"{node_processes.NAME}.log"
    spec = node_processes.spec(plan.folder, cluster.container, log, ours)
    supervisor_client.ask(plan.folder, StartProcess(spec=spec))
