"""Start on an existing cluster: identity, permissions, then simulated nodes and their kubelets."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ...atomic_write import write_private
from ...errors import ClusterError, UsageError
from ...kube.access import Access, plugin_of, to_kubeconfig
from ...kube.client import Client
from ...kube.errors import AlreadyExists, ApiError
from ...kube.portal import Portal
from .. import binaries, kwok, launch, ledger, nodes, ports, state, supervisor_client, teardown_plan
from ..definition import Existing
from ..kwok import Players
from ..launch import Plan
from . import cleanup, context_policy, discovery
from .discovery import ClusterInfo, facts

Progress = Callable[[str], None]

_NODE_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?")
_LABEL_BYTES = 63
_PASSED_ON = ("PATH", "HOME", "LANG", "TMPDIR", "USER", "SSL_CERT_FILE", "SSL_CERT_DIR")


def start(plan: Plan, progress: Progress) -> state.Facts:
    """Create the simulated nodes on the definition's cluster and return once they are Ready.

    Raises UsageError for a context that may not be used, ClusterError with the missing or rejected permission,
    BinaryError.
    """
    began = time.monotonic()
    settings = plan.definition.existing or Existing()
    _check_names(plan)
    access = context_policy.access(settings, allowed=plan.allowed_contexts)
    with Portal() as portal:
        client = portal.client(access, user_agent="grovescale-cluster")
        cluster_info = portal.run(discovery.look(client, access, settings, progress))
        port = _begin(plan, access)
        with _clear_refusals():
            work = _bring_up(client, plan, settings, cluster_info, port, progress)
            players = portal.run(supervisor_client.while_running(plan.folder, work))
    taken_s = time.monotonic() - began
    who = "a kwok that is there" if players == "there" else "our kwok"
    progress(f"cluster {plan.name}: {plan.definition.node_count} nodes Ready after {taken_s:.1f} s, played by {who}")
    return facts(plan, access, cluster_info, players, port=port, taken_s=taken_s)


# ---- before anything is created


def _check_names(plan: Plan) -> None:
    """Raise UsageError if the cluster's and the pool's name do not make a valid node name."""
    for pool in plan.definition.nodes:
        name = f"{plan.name}-{pool.prefix}-{max(pool.count - 1, 0)}"
        if len(name) > _LABEL_BYTES or not _NODE_NAME.fullmatch(name):
            raise UsageError(
                f"no node can be called {name!r}, after cluster {plan.name!r} and its pool {pool.prefix!r}",
                next_step=f"Use a-z, 0-9, '-' and '.', {_LABEL_BYTES} characters in all: choose a shorter --name.",
            )


# ---- creation


def _begin(plan: Plan, access: Access) -> int:
    """Start the supervisor, write credentials and the teardown command meanwhile; return the port of our kwok."""
    leased = ports.lease(1)
    try:
        with launch.supervisor(plan.folder, ports.descriptors(leased)):
            (plan.folder / "logs").mkdir(exist_ok=True)
            plugin = plugin_of(access)
            for role in ("harness", "recorder"):
                state.write_access(plan.folder, role, access)
            for name in ("kubeconfig", kwok.KUBECONFIG):
                write_private(plan.folder / name, to_kubeconfig(access, name=plan.name, plugin=plugin))
            ledger.claimed(plan.folder)
            teardown_plan.plan(plan.folder, removal(plan.folder, whole_environment=plugin is not None))
    finally:
        # The supervisor holds the port from here on.
        ports.release(leased)
    return leased[0].number


def removal(folder: Path, *, whole_environment: bool) -> teardown_plan.Command:
    """Return the teardown command. ``whole_environment``: for an exec plugin that provides the credentials."""
    kept = os.environ if whole_environment else {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    return teardown_plan.Command(
        argv=[sys.executable, "-m", cleanup.__name__, str(folder)],
        env={**kept, "PYTHONPATH": str(Path(__file__).parents[3])},
        log=str(folder / "logs" / "removal.log"),
        timeout_s=cleanup.TIMEOUT_S,
    )


async def _bring_up(
    client: Client, plan: Plan, settings: Existing, cluster_info: ClusterInfo, port: int, progress: Progress
) -> Players:
    definition = plan.definition
    prefixes = nodes.prefixed(definition, plan.name)
    labels = ledger.of(plan.folder).labels
    first, *rest = (
        _labelled(manifest, labels) for manifest in nodes.manifests(definition, cluster=plan.name, prefixes=prefixes)
    )
    await _claim(client, plan.name, kwok.annotated(first, "there" if settings.kwok != "host" else "host"))
    players: Players = settings.kwok if settings.kwok != "auto" else "there"
    if settings.kwok == "auto" and not await kwok.someone_plays(client, plan.name):
        _demand_kwok(cluster_info)
        await kwok.let_alone(client, first["metadata"]["name"])
        players = "host"
    if players == "host":
        progress(f"cluster {plan.name}: our own kwok plays the kubelets")
        _start_kwok(plan, port, progress)
    await nodes.put(client, [kwok.annotated(manifest, players) for manifest in rest])
    progress(f"cluster {plan.name}: {definition.node_count} nodes created, waiting until they are Ready")
    await kwok.wait_ready(client, plan.folder, definition.node_count, players)
    return players


def _labelled(manifest: dict[str, Any], labels: Mapping[str, str]) -> dict[str, Any]:
    metadata = manifest["metadata"]
    return {**manifest, "metadata": {**metadata, "labels": {**metadata["labels"], **labels}}}


async def _claim(client: Client, cluster: str, first: dict[str, Any]) -> None:
    """Create the first node: a second cluster of the same name fails here."""
    try:
        await client.create(first)
    except AlreadyExists as error:
        raise ClusterError(
            f"nodes of another cluster named {cluster!r} exist already ({first['metadata']['name']})",
            next_step="Choose another --name; if they were left by a machine that is no more: "
            f"kubectl delete nodes -l {nodes.selector(cluster)}",
        ) from error


def _demand_kwok(cluster_info: ClusterInfo) -> None:
    if not cluster_info.may_play:
        raise ClusterError(
            "no kwok plays our nodes there, and one of ours may not",
            next_step=f"Bind the ClusterRole {discovery.KWOK_ROLE} of fixtures/rbac/harness.yaml, or install kwok "
            "there.",
        )


def _start_kwok(plan: Plan, port: int, progress: Progress) -> None:
    definition = plan.definition
    binary = binaries.find(("kwok",), definition.kubernetes, given=definition.binaries, progress=progress)["kwok"]
    access = state.access(plan.folder, "harness")
    kwok.start(plan.folder, definition, binary, port=port, whole_environment=plugin_of(access) is not None)


@contextmanager
def _clear_refusals() -> Iterator[None]:
    """Turn a rejection by the API server or an admission webhook into a clear error."""
    try:
        yield
    except ApiError as error:
        raise ClusterError(
            f"the cluster refused a simulated node: {error.message}",
            next_step=f"Let {error.admission} of the cluster take nodes with the label {ledger.CLUSTER_LABEL}."
            if error.admission
            else "See the API server's answer above, and fixtures/rbac/harness.yaml for what is needed.",
        ) from error
