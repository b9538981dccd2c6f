"""Facts about an existing cluster, for the recording, once its simulated nodes are Ready."""

from __future__ import annotations

from pathlib import Path

from ...endpoints import Address
from ...kube.access import Access
from .. import launch, limits, nodes, state
from ..launch import Plan
from . import api_metrics, kubelets, reaching
from .kubelets import Players
from .surroundings import Found


def facts(plan: Plan, access: Access, found: Found, players: Players, *, port: int, taken_s: float) -> state.Facts:
    """Return the facts that every recording stores, kept for processes that join the cluster."""
    definition = plan.definition
    prefixes = nodes.prefixed(definition, plan.name)
    flat: limits.Flat = {
        "backend": definition.backend,
        "definition": definition.name,
        "context": access.context or "in-cluster",
        "kubernetes": found.kubernetes,
        "nodes": definition.node_count,
        "kwok_runs": players,
        "nodes_ready_s": round(taken_s, 3),
        "start_s": round(taken_s, 3),
    }
    if players == "host":
        flat |= limits.of_kwok(definition)
    if found.lacking:
        flat["not_allowed"] = "; ".join(found.lacking)
    return state.Facts(
        name=plan.name,
        backend=definition.backend,
        definition_digest=launch.digest(definition),
        server=access.server,
        kubernetes=found.kubernetes,
        nodes=definition.node_count,
        identities={"harness": found.identity, "recorder": found.identity} if found.identity else {},
        audit_log="",
        facts=flat,
        metrics=_metrics(plan.folder, access, found, players, port=port),
        others_use_it=True,
        pools={prefixes[pool.prefix]: pool.count for pool in definition.nodes},
        on_loopback=reaching.on_loopback(access),
    )


def _metrics(folder: Path, access: Access, found: Found, players: Players, *, port: int) -> dict[str, Address]:
    known = {}
    if players == "host":
        known[kubelets.NAME] = Address(url=f"http://127.0.0.1:{port}/metrics")
    if found.api_metrics:
        known[api_metrics.NAME] = api_metrics.endpoint(folder, access)
    return known
