"""Creation of a kind cluster: configuration files, ports, the cluster, and its teardown commands."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from ...errors import ClusterError, UsageError
from ..definition import Kind
from ..launch import Plan
from . import checking, configuration, create, node_image, static_pods
from . import engine as engines
from .engine import Engine
from .ground import Ground

Progress = Callable[[str], None]

_NAME = re.compile(r"[a-z0-9.-]{1,49}")
"""kind's own rule, and short enough for a host name with the suffix ``-control-plane``."""


def make(plan: Plan, engine: Engine, kind: str, ports: Mapping[str, int], progress: Progress) -> Ground:
    """Create the kind cluster of a plan and return it; the supervisor must run.

    ``kind``: its executable; ``ports``: of kube-apiserver and the metrics endpoints, on loopback.
    """
    definition = plan.definition
    settings = definition.kind or Kind()
    _demand_free(plan, engine)
    image = node_image.ensure(definition, engine, progress)
    files, audit = plan.folder / "node", plan.folder / "audit"
    static_pods.write(definition, files)
    log = _open_log(audit)
    wanted = configuration.Wanted(
        name=plan.name,
        image=image.reference,
        addons=image.addons,
        node_count=definition.node_count,
        files=files,
        audit=audit,
        api_port=ports["kube-apiserver"],
        metrics_ports={name: port for name, port in ports.items() if name in static_pods.METRICS_PORTS},
        own=checking.own(Path(settings.config)) if settings.config else {},
    )
    if engine.cgroup_version == "1" and image.addons:
        progress(f"cluster {plan.name}: {engine.name} uses cgroup v1, which a kubelet of 1.35 or newer refuses")
    create.plan_deletion(plan.folder, kind=kind, engine=engine, name=plan.name)
    progress(f"cluster {plan.name}: kind makes a node of {image.reference.partition('@')[0]} with {engine.name}")
    text = configuration.configuration(wanted)
    create.create(plan.folder, kind=kind, engine=engine, name=plan.name, configuration=text, progress=progress)
    return Ground(
        cluster=plan.name,
        container=f"{plan.name}-control-plane",
        server=f"https://127.0.0.1:{ports['kube-apiserver']}",
        audit_log=str(log),
        image=image.reference,
        addons=image.addons,
        made=True,
    )


def _demand_free(plan: Plan, engine: Engine) -> None:
    """Raise if a kind cluster of that name exists: the teardown would delete another user's cluster."""
    if not _NAME.fullmatch(plan.name):
        raise UsageError(
            f"{plan.name!r} cannot name a kind cluster",
            next_step="Use up to 49 lower case letters, digits, '-' and '.': grovescale up --name NAME.",
        )
    if ":" in str(plan.folder):
        raise UsageError(
            f"{plan.folder} cannot be mounted into a container: it has a colon in it",
            next_step="Choose another state folder: GROVESCALE_STATE_DIR.",
        )
    if engines.containers(engine, plan.name):
        raise ClusterError(
            f"there is a kind cluster {plan.name} already, which grovescale did not make",
            next_step=f"Choose another name; or use it: kind: {{cluster: {plan.name}}} in a cluster definition; "
            f"or delete it: kind delete cluster --name {plan.name}",
        )


def _open_log(folder: Path) -> Path:
    """Create the audit log before the API server, which opens an existing file: so it belongs to this user."""
    folder.mkdir(mode=0o700)
    log = folder / static_pods.AUDIT_LOG
    log.touch(mode=0o600)
    return log
