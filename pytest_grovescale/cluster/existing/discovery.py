"""What a foreign cluster is: its version, our identity and permissions there, and where its metrics are served.

The API server's metrics are used only if exactly one API server is behind its address: several have counters of their
own, and alternating scrapes would look like restarts. Each announces itself with a Lease in kube-system
(https://kubernetes.io/docs/concepts/architecture/leases/#api-server-identity).
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from ...endpoints import Address
from ...errors import ClusterError
from ...kube.access import Access, address_by_files, write_files
from ...kube.client import Client
from ...kube.errors import ApiError
from .. import kwok, launch, nodes, rbac, state
from ..definition import Existing
from ..kwok import Players
from ..launch import Plan
from ..rbac import Answer
from . import context_policy

NAME = "kube-apiserver"
PATH = "/metrics"

_LEASES = "apiserver.kubernetes.io/identity=kube-apiserver"
_NAMESPACE = "kube-system"

Progress = Callable[[str], None]

KWOK_ROLE = "grovescale-harness-kwok"
"""ClusterRole of ``fixtures/rbac/harness.yaml`` that our kwok requires."""

_VERSION = re.compile(r"v?(\d+\.\d+\.\d+)")


async def servers(client: Client) -> int:
    """Return the number of API servers; 0 if undetermined or not permitted."""
    try:
        leases = await client.list(await client.resource("Lease"), _NAMESPACE, label_selector=_LEASES)
    except ApiError:
        return 0
    return sum(is_held(item["spec"]) for item in leases.items)


def endpoint(folder: Path, access: Access) -> Address:
    """Return the metrics endpoint, for programs that read credentials from files; writes these files.

    The recorder uses another way (``session/target_discovery.py``).
    """
    files = state.access_files(folder)
    write_files(access, files)
    return address_by_files(access, files, PATH)


def is_held(spec: dict[str, Any]) -> bool:
    """Return whether a Lease is still renewed: that of a stopped API server stays for an hour."""
    renewed = datetime.datetime.fromisoformat(spec["renewTime"])
    age = datetime.datetime.now(datetime.UTC) - renewed
    return age < datetime.timedelta(seconds=spec["leaseDurationSeconds"])


def facts(
    plan: Plan, access: Access, cluster_info: ClusterInfo, players: Players, *, port: int, taken_s: float
) -> state.Facts:
    """Return the facts that every recording stores, kept for processes that join the cluster."""
    definition = plan.definition
    prefixes = nodes.prefixed(definition, plan.name)
    flat: state.Flat = {
        "backend": definition.backend,
        "definition": definition.name,
        "context": access.context or "in-cluster",
        "kubernetes": cluster_info.kubernetes,
        "nodes": definition.node_count,
        "kwok_runs": players,
        "nodes_ready_s": round(taken_s, 3),
        "start_s": round(taken_s, 3),
    }
    if players == "host":
        flat |= kwok.limits(definition)
    if cluster_info.lacking:
        flat["not_allowed"] = "; ".join(cluster_info.lacking)
    return state.Facts(
        name=plan.name,
        backend=definition.backend,
        definition_digest=launch.digest(definition),
        server=access.server,
        kubernetes=cluster_info.kubernetes,
        nodes=definition.node_count,
        identities={"harness": cluster_info.identity, "recorder": cluster_info.identity}
        if cluster_info.identity
        else {},
        audit_log="",
        facts=flat,
        metrics=_metrics(plan.folder, access, cluster_info, players, port=port),
        others_use_it=True,
        pools={prefixes[pool.prefix]: pool.count for pool in definition.nodes},
        on_loopback=context_policy.on_loopback(access),
    )


def _metrics(
    folder: Path, access: Access, cluster_info: ClusterInfo, players: Players, *, port: int
) -> dict[str, Address]:
    known = {}
    if players == "host":
        known[kwok.NAME] = Address(url=f"http://127.0.0.1:{port}/metrics")
    if cluster_info.api_metrics:
        known[NAME] = endpoint(folder, access)
    return known


class ClusterInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Result of the discovery."""

    kubernetes: str
    identity: str
    """User name; empty if the API server does not report it."""
    lacking: list[str]
    """Features that do not work because of missing permissions, as text."""
    may_play: bool
    """Whether our kwok has its permissions."""
    api_metrics: bool
    """Whether the API server's metrics are readable and it is the only one."""


async def look(client: Client, access: Access, settings: Existing, progress: Progress) -> ClusterInfo:
    """Discover version, identity and permissions; report them as progress, and raise if they are not sufficient."""
    try:
        version = msgspec.json.decode(await client.request("GET", "/version"), type=dict[str, Any])
        identity = await rbac.identity(client)
    except ApiError as error:
        raise ClusterError(
            f"the cluster at {access.server} cannot be used: {error.message}",
            next_step="Try: kubectl version" + (f" --context {access.context}" if access.context else ""),
        ) from error
    answers = await rbac.ask(client, rbac.rights())
    where = f"context {access.context} ({access.server})" if access.context else access.server
    progress(f"what {identity or 'we'} may do at {where}:")
    for line in rbac.table(answers):
        progress(line)
    rbac.demand(answers, identity=identity, also=(KWOK_ROLE,) if settings.kwok == "host" else ())
    match = _VERSION.search(str(version.get("gitVersion", "")))
    return ClusterInfo(
        kubernetes=match[1] if match else "",
        identity=identity,
        lacking=rbac.refused(answers),
        may_play=all(answer.allowed for answer in answers if answer.right.role == KWOK_ROLE),
        api_metrics=_allowed(answers, PATH) and await servers(client) == 1,
    )


def _allowed(answers: Sequence[Answer], path: str) -> bool:
    return any(answer.allowed for answer in answers if answer.right.path == path)
