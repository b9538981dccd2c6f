"""Facts about a running kind cluster, for the recording: versions, engine, limits in force, metrics endpoints."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ...endpoints import Address
from .. import launch, limits, state
from ..binaries import Binary
from ..definition import ClusterDefinition, Kind
from ..launch import Plan
from ..limits import Flat
from . import identities, population
from .population import Populated, Populating


def facts(
    plan: Plan, wanted: Populating, done: Populated, found: Mapping[str, Binary], ports: Mapping[str, int]
) -> state.Facts:
    """Return the facts. ``found``: binaries of this machine; ``ports``: on loopback, by component."""
    definition, ground = plan.definition, wanted.ground
    prefixes = population.prefixes(definition, plan.name, made=ground.made)
    return state.Facts(
        name=plan.name,
        backend=definition.backend,
        definition_digest=launch.digest(definition),
        server=ground.server,
        kubernetes=done.kubernetes,
        nodes=definition.node_count,
        identities={**{role: role for role in identities.ROLES}, **identities.COMPONENTS},
        audit_log=ground.audit_log,
        facts=_flat(wanted, done, found),
        binaries={name: binary.path for name, binary in found.items()},
        metrics=_metrics(plan.folder / "pki", wanted, ports),
        others_use_it=not ground.made,
        # Loopback of this machine is not the loopback of the container that the API server runs in.
        on_loopback=False,
        container=state.Container(engine=wanted.engine.executable, name=ground.container),
        pools={prefixes[pool.prefix]: pool.count for pool in definition.nodes},
    )


def _flat(wanted: Populating, done: Populated, found: Mapping[str, Binary]) -> Flat:
    definition, ground, engine = wanted.definition, wanted.ground, wanted.engine
    flat: Flat = {
        "backend": definition.backend,
        "definition": definition.name,
        "kubernetes": done.kubernetes,
        "kind": found["kind"].version,
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
        **limits.of_kwok(definition),
        "api_server_ready_s": round(done.api_server_ready_s, 3),
        "nodes_ready_s": round(done.nodes_ready_s, 3),
        "start_s": round(done.nodes_ready_s, 3),
    }
    if "kwok" in found:
        flat["kwok"] = found["kwok"].version
    if ground.audit_log:
        flat["audit_level"] = "Metadata"
    return flat | _limits(definition) if ground.made else flat


def _limits(definition: ClusterDefinition) -> Flat:
    """Return the limits in force on a cluster that grovescale created."""
    flat = limits.of_control_plane(definition, controllers="all") | {"etcd_fsync": False, "data_on_tmpfs": False}
    if definition.api_server.gomaxprocs:
        flat["apiserver_gomaxprocs"] = definition.api_server.gomaxprocs
    return flat


def _metrics(keys: Path, wanted: Populating, ports: Mapping[str, int]) -> dict[str, Address]:
    """Return the metrics endpoints of the components; of a joined cluster only the API server's, and our kwok's."""

    def authenticated(url: str) -> Address:
        return Address(
            url=f"{url}/metrics",
            ca_file=str(keys / "ca.crt"),
            cert_file=str(keys / "recorder.crt"),
            key_file=str(keys / "recorder.key"),
        )

    found = {"kube-apiserver": authenticated(wanted.ground.server)}
    if wanted.ground.made:
        for name in ("kube-controller-manager", "kube-scheduler"):
            found[name] = authenticated(f"https://127.0.0.1:{ports[name]}")
        found["etcd"] = Address(url=f"http://127.0.0.1:{ports['etcd']}/metrics")
    if wanted.kwok is not None:
        found["kwok"] = Address(url=f"http://127.0.0.1:{ports['kwok']}/metrics")
    return found
