"""Start of a kind cluster: the engine, kind, identities, nodes."""

from __future__ import annotations

import time
from collections.abc import Callable

from ...kube.portal import Portal
from .. import at_end, launch, ports, protocol, state, supervision
from ..binaries import Binary
from ..definition import Kind
from ..launch import Plan
from ..protocol import StartProcess
from . import container_processes, create, facts, identities, joining, making, population, static_pods
from . import engine as engines
from .engine import Engine
from .ground import Ground
from .population import Populating

Progress = Callable[[str], None]

_PORTS = ("kube-apiserver", *static_pods.METRICS_PORTS, "kwok")


def start(plan: Plan, progress: Progress) -> state.Facts:
    """Create or join a kind cluster and return once all simulated nodes are Ready.

    Raises UsageError, PortTaken, and ClusterError: no engine, no image, or an error of kind or the cluster.
    """
    engine = engines.find((plan.definition.kind or Kind()).engine)
    with create.logs_kept(plan.folder, kind=plan.binaries["kind"].path, engine=engine, name=plan.name):
        return _start(plan, engine, progress)


def _start(plan: Plan, engine: Engine, progress: Progress) -> state.Facts:
    began = time.monotonic()
    found = plan.binaries
    numbers = _begin(plan)
    ground = _ground(plan, engine, found["kind"], numbers, progress)
    by = identities.authority(engine, ground.container)
    accesses = identities.write(plan.folder, name=plan.name, server=ground.server, by=by)
    wanted = Populating(
        name=plan.name,
        folder=plan.folder,
        definition=plan.definition,
        ground=ground,
        engine=engine,
        kwok=found.get("kwok"),
        kwok_access=accesses["kwok"],
        kwok_port=numbers["kwok"],
        began=began,
    )
    with Portal() as portal:
        client = portal.client(accesses["harness"], user_agent="grovescale-cluster")
        done = portal.run(supervision.while_running(plan.folder, population.populate(client, wanted, progress)))
    told = facts.facts(plan, wanted, done, found, numbers)
    _follow_components(plan, told)
    progress(
        f"cluster {plan.name}: {plan.definition.node_count} nodes Ready after {done.nodes_ready_s:.1f} s "
        f"(API server {done.api_server_ready_s:.1f} s)"
    )
    return told


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
        return making.make(plan, engine, kind.path, numbers, progress)
    ground = joining.join(joined, engine, kind.path)
    at_end.plan(plan.folder, joining.removal(plan.folder))
    told = "with its audit log" if ground.audit_log else "which has no audit log that can be read from here"
    progress(f"cluster {plan.name}: kind cluster {ground.cluster} joined, {told}; it stays")
    return ground


def _follow_components(plan: Plan, told: state.Facts) -> None:
    """Start the process that follows the control plane's processes, if they are visible on this machine.

    It also follows a kwok pod, except in a joined cluster, where it could belong to others.
    """
    assert told.container is not None  # every kind cluster has one
    settings = plan.definition.kind or Kind()
    ours = ["kwok"] if settings.kwok == "cluster" and not settings.cluster else []
    log = plan.folder / "logs" / f"{container_processes.NAME}.log"
    spec = container_processes.spec(plan.folder, told.container, log, ours)
    protocol.ask(plan.folder, StartProcess(spec=spec))
