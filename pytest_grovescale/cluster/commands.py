"""Implementation of ``grovescale setup | up | status | down | kubeconfig``: return an `ExitCode`, print nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from .. import durations
from ..atomic_write import json_text
from ..errors import ExitCode, UsageError
from . import binaries, handle, inventory, machine_lock, versions
from .definition import ClusterDefinition, load_definition
from .inventory import ClusterStatus

Say = Callable[[str], None]
"""Callback for progress and remarks, one line each."""
Write = Callable[[str], None]
"""Callback for the command's result, read by people or programs."""


class BinariesFile(msgspec.Struct, frozen=True, kw_only=True):
    """Output of ``grovescale setup --json``."""

    schema_version: int = inventory.SCHEMA_VERSION
    binaries: tuple[binaries.Row, ...]


class KubeconfigFile(msgspec.Struct, frozen=True, kw_only=True):
    """Output of ``grovescale kubeconfig --json`` and ``up --json``."""

    schema_version: int = inventory.SCHEMA_VERSION
    cluster: str
    """Name."""
    kubeconfig: str
    """File."""


def setup(*, kubernetes: str = "", json: bool = False, say: Say, write: Write) -> int:
    """Find, download or build every binary; write a table: name, version, source, sha256."""
    binaries.require_linux()
    version = versions.kubernetes(kubernetes or versions.DEFAULT_KUBERNETES)
    rows = binaries.setup(version, given={}, progress=say, optional=_wanted_optional(version))
    if json:
        write(json_text(BinariesFile(binaries=tuple(rows))))
    else:
        write(_table(("NAME", "VERSION", "FROM", "SHA256"), [(r.name, r.version, r.source, r.sha256) for r in rows]))
    return ExitCode.PASSED


def up(
    cluster: str = "default",
    *,
    name: str = "",
    kubernetes: str = "",
    nodes: int | None = None,
    allowed_contexts: Sequence[str] = (),
    json: bool = False,
    refuse: Callable[[ClusterDefinition], None] = lambda definition: None,
    say: Say,
    write: Write,
) -> int:
    """Start a cluster and leave it running; write its kubeconfig's path. A cluster that already runs is left unchanged.

    ``refuse`` raises if the machine cannot run the cluster, before anything is created or started.
    """
    definition = load_definition(cluster, base=Path.cwd())
    if kubernetes:
        definition = definition.with_version(kubernetes)
    if nodes is not None:
        definition = definition.with_nodes(nodes)
    refuse(definition)
    running = handle.acquire(
        definition, name=name or definition.name, allowed_contexts=allowed_contexts, standing=True, progress=say
    )
    running.release(keep=True)
    say(f"cluster {running.name} stays until: grovescale down {running.name}")
    say(f"use it in tests with: pytest --grovescale --grovescale-cluster={running.name}")
    _write_kubeconfig(running.name, str(running.kubeconfig), json=json, write=write)
    return ExitCode.PASSED


def status(name: str = "", *, json: bool = False, write: Write) -> int:
    """Write all clusters, or the named one, with their users and processes; return 0 also when there is none."""
    clusters = inventory.read()
    if name:
        clusters = [inventory.select(clusters, name)]
    if json:
        write(json_text(inventory.StatusFile(clusters=tuple(clusters), machine=tuple(machine_lock.users()))))
        return ExitCode.PASSED
    if not clusters:
        write("no clusters")
    for one in clusters:
        write(_describe(one))
    now = time.time()
    for user in () if name else machine_lock.users():
        write(f"this machine: {'in use by' if user.holds else 'waiting'} {user.text(now)}")
    return ExitCode.PASSED


def down(name: str = "", *, everything: bool = False, force: bool = False, say: Say) -> int:
    """Stop a cluster by name; without a name, the only one that ``up`` created.

    ``everything``: all clusters, and what killed runs left behind. ``force``: also a cluster that a live process uses.
    Without it, ``everything`` stops the unused ones and then raises UsageError for those in use.
    """
    if not everything:
        _stop(inventory.select(inventory.read(), name).name, say, force=force)
        return ExitCode.PASSED
    refused = []
    for cluster in inventory.read():
        try:
            _stop(cluster.name, say, force=force)
        except UsageError as error:
            refused.append(error)
    handle.clear_stale(progress=say)
    if refused:
        raise UsageError(
            "\n".join(error.message for error in refused),
            next_step="Wait for their end, or stop them anyway: grovescale down --all --force",
        )
    return ExitCode.PASSED


def down_elsewhere(
    name: str,
    *,
    context: str,
    dry_run: bool = False,
    allowed_contexts: Sequence[str] = (),
    say: Say,
    write: Write,
) -> int:
    """Remove the objects of a run named ``name`` from a context's cluster after its machine and state folder are lost.

    Writes the list of objects before it removes them; ``dry_run``: only writes the list. Raises as
    `existing.clearing.clear`.
    """
    # Imported late: only this command and a start on an existing cluster need it.
    from .existing import orphans

    return orphans.clear(
        name, context=context, dry_run=dry_run, allowed_contexts=allowed_contexts, say=say, write=write
    )


def kubeconfig(name: str = "", *, json: bool = False, write: Write) -> int:
    """Write the kubeconfig path of a running cluster; without a name, of the only one that ``up`` created."""
    chosen = inventory.select(inventory.read(), name)
    if chosen.kubeconfig is None:
        raise UsageError(f"cluster {chosen.name} is not running: {chosen.state}", next_step="See: grovescale status")
    _write_kubeconfig(chosen.name, chosen.kubeconfig, json=json, write=write)
    return ExitCode.PASSED


def _write_kubeconfig(cluster: str, file: str, *, json: bool, write: Write) -> None:
    write(json_text(KubeconfigFile(cluster=cluster, kubeconfig=file)) if json else file)


def _stop(name: str, say: Say, *, force: bool) -> None:
    def refuse() -> None:
        if not force:
            inventory.refuse_in_use(inventory.status_of(name))

    # Checked immediately, not after its start has ended; and again when no process can join it any more.
    refuse()
    for line in handle.stop(name, refuse=refuse):
        say(line)


def _wanted_optional(version: str) -> tuple[str, ...]:
    # Optional for local work: not worth waiting for a build.
    return tuple(name for name in versions.OPTIONAL if binaries.is_present(name, version))


def _describe(cluster: ClusterStatus) -> str:
    name = cluster.name
    users = [f"  used by {user.text}" for user in cluster.users]
    if cluster.state == "stale":
        return f"{name}: stale, its supervisor was killed or could not clear up; clear it with: grovescale down {name}"
    if cluster.state == "starting":
        return "\n".join([f"{name}: starting", *users])
    made_by = "made by `grovescale up`" if cluster.made_by == "up" else "made by a run"
    kept = "kept until down" if cluster.kept else "ends with its last user"
    head = f"{name}: {cluster.backend}, Kubernetes {cluster.kubernetes}, {cluster.nodes} nodes, {cluster.server}"
    lines = [f"{head}, {made_by}, {kept}", *([f"  {cluster.container}"] if cluster.container else []), *users]
    rows = []
    for info in cluster.processes:
        memory = f"ended: {info.exit_code}" if info.memory_bytes is None else f"{info.memory_bytes / 1e6:.0f} MB"
        age = "" if info.age_seconds is None else durations.text(info.age_seconds)
        rows.append((info.name, str(info.pid), memory, age, str(info.restarts)))
    table = _table(("PROCESS", "PID", "MEMORY", "AGE", "RESTARTS"), rows)
    return "\n".join([*lines, *(f"  {line}" for line in table.splitlines())])


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in (head, *rows)
    )
