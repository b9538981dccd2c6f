"""What ``grovescale setup | up | status | down | kubeconfig`` do: values in, exit code out, nothing printed here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from .. import durations
from ..errors import ClusterError, UsageError
from . import binaries, handle, lease, platforms, processes, state, versions
from .definition import load_definition

Say = Callable[[str], None]
"""Takes progress and remarks, one line each."""
Write = Callable[[str], None]
"""Takes the command's result, to be read by people or programs."""


def setup(*, kubernetes: str = "", say: Say, write: Write) -> int:
    """Find, download or build every binary; write a table: name, version, from where, sha256."""
    platforms.require_linux()
    version = versions.kubernetes(kubernetes or versions.DEFAULT_KUBERNETES)
    rows = binaries.setup(version, given={}, progress=say, optional=_wanted_optional(version))
    write(_table(("NAME", "VERSION", "FROM", "SHA256"), [(r.name, r.version, r.source, r.sha256) for r in rows]))
    return 0


def up(
    cluster: str = "default",
    *,
    name: str = "",
    kubernetes: str = "",
    nodes: int | None = None,
    allowed_contexts: Sequence[str] = (),
    say: Say,
    write: Write,
) -> int:
    """Start a cluster and leave it running; write its kubeconfig's path. One that runs already stays as it is."""
    definition = load_definition(cluster, base=Path.cwd())
    if kubernetes:
        definition = definition.with_version(kubernetes)
    if nodes is not None:
        definition = definition.with_nodes(nodes)
    running = handle.acquire(definition, name=name or definition.name, allowed_contexts=allowed_contexts, progress=say)
    running.release(keep=True)
    say(f"cluster {running.name} stays until: grovescale down {running.name}")
    say(f"use it in tests with: pytest --grovescale --grovescale-cluster={running.name}")
    write(str(running.kubeconfig))
    return 0


def status(*, write: Write) -> int:
    """Write one line per cluster, its users and its processes; 0 also when there is none."""
    names = state.names()
    if not names:
        write("no clusters")
    for name in names:
        write(_describe(name))
    return 0


def down(name: str = "", *, everything: bool = False, say: Say) -> int:
    """Stop a cluster, or all and whatever killed runs left; without a name, the only one there is."""
    if everything:
        for found in state.names():
            _stop(found, say)
        handle.clear_stale(progress=say)
        return 0
    chosen = name or _only(state.names())
    if chosen not in state.names():
        raise ClusterError(f"there is no cluster {chosen}", next_step="See: grovescale status")
    _stop(chosen, say)
    return 0


def down_elsewhere(
    name: str,
    *,
    context: str,
    dry_run: bool = False,
    allowed_contexts: Sequence[str] = (),
    say: Say,
    write: Write,
) -> int:
    """Remove from a context's cluster what a run of this name has left there whose machine, and state folder, is gone.

    Writes what that is before anything goes; ``dry_run``: nothing does. Raises as `existing.clearing.clear`.
    """
    # Imported late: only this command and a start there need it.
    from .existing import clearing

    return clearing.clear(
        name, context=context, dry_run=dry_run, allowed_contexts=allowed_contexts, say=say, write=write
    )


def kubeconfig(name: str = "", *, write: Write) -> int:
    """Write the path of a running cluster's kubeconfig; without a name, of the only one there is."""
    chosen = name or _only(handle.names())
    if not handle.is_running(chosen):
        raise ClusterError(f"no cluster {chosen} is running", next_step=f"Start it with: grovescale up --name {chosen}")
    write(str(state.directory(chosen) / "kubeconfig"))
    return 0


def _stop(name: str, say: Say) -> None:
    for line in handle.stop(name):
        say(line)


def _only(names: Sequence[str]) -> str:
    if len(names) == 1:
        return names[0]
    if not names:
        raise ClusterError("no cluster is running", next_step="Start one with: grovescale up")
    raise UsageError(f"which one of {', '.join(names)}?", next_step="Give its name.")


def _wanted_optional(version: str) -> tuple[str, ...]:
    # A convenience for local work; nobody waits for a build of it.
    return tuple(name for name in versions.OPTIONAL if binaries.is_present(name, version))


def _describe(name: str) -> str:
    folder = state.directory(name)
    facts = state.facts(folder)
    if state.owner(folder) is None:
        return f"{name}: stale, its supervisor was killed or could not clear up; clear it with: grovescale down {name}"
    if facts is None:
        return f"{name}: starting"
    kept = "kept until down" if (folder / "kept").exists() else "ends with its last user"
    lines = [f"{name}: {facts.backend}, Kubernetes {facts.kubernetes}, {facts.nodes} nodes, {facts.server}, {kept}"]
    if facts.container is not None:
        lines.append(f"  {_container(facts.container)}")
    for lease_name in lease.names(folder):
        holder = lease.holder(folder, lease_name)
        if holder is not None and lease.is_held(folder, lease_name):
            run = f" (run {holder.run_id})" if holder.run_id else ""
            lines.append(f"  used by pid {holder.pid}{run}: {holder.command}")
    rows = []
    for info in state.process_list(folder).values():
        running = f"{processes.memory_bytes(info.pid) / 1e6:.0f} MB" if info.running else f"ended: {info.exit_code}"
        age = durations.text(processes.age_s(info.started_ticks)) if info.running else ""
        rows.append((info.name, str(info.pid), running, age, str(info.restarts)))
    table = _table(("PROCESS", "PID", "MEMORY", "AGE", "RESTARTS"), rows)
    return "\n".join([*lines, *(f"  {line}" for line in table.splitlines())])


def _container(container: state.Container) -> str:
    # Only a cluster in a container needs an engine to be asked.
    from .kind import node_container

    return node_container.trouble(container) or f"container {container.name} runs in {Path(container.engine).name}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in (head, *rows)
    )
