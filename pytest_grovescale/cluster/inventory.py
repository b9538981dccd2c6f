"""The clusters on this machine: content of `status`, and selection of a cluster for `down` and `kubeconfig`."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec

from .. import procfs
from ..errors import UsageError
from . import lease, machine_lock, state
from .backend import backend

SCHEMA_VERSION = 1


class User(msgspec.Struct, frozen=True, kw_only=True):
    """A live process that holds a lease on a cluster."""

    pid: int
    user: str
    """Login name."""
    run: str
    """Id of its run; empty for a command outside a run."""
    test: str
    """Id of the test that currently runs on the cluster; empty between tests."""
    command: str

    @property
    def text(self) -> str:
        """Description of the user, for messages."""
        by = f"pid {self.pid}" + (f" of user {self.user}" if self.user else "")
        run = f", run {self.run}" if self.run else ""
        return f"{by}{run}, test {self.test}" if self.test else f"{by}{run}: {self.command}"


class ProcessStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A process under a cluster's supervisor."""

    name: str
    pid: int
    running: bool
    exit_code: int | None
    """Negative: killed by that signal; None while it runs."""
    restarts: int
    memory_bytes: int | None
    """Resident memory; None after its end."""
    age_seconds: float | None
    log: str
    """Log file."""


class ClusterStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One cluster of this machine's user."""

    name: str
    state: Literal["running", "starting", "stale"]
    """``stale``: its supervisor was killed, or could not remove everything."""
    made_by: Literal["up", "run", "unknown"]
    """``up``: it stays until ``grovescale down``. ``unknown``: it never became ready."""
    kept: bool
    """Whether it stays without users."""
    users: tuple[User, ...] = ()
    backend: str | None = None
    """None, as the next four fields, until the cluster is ready."""
    kubernetes: str | None = None
    nodes: int | None = None
    """Number of simulated nodes."""
    server: str | None = None
    """URL of its API server."""
    kubeconfig: str | None = None
    """kubeconfig file."""
    container: str | None = None
    """State of its container, as text; None for a cluster without one."""
    processes: tuple[ProcessStatus, ...] = ()

    @property
    def in_use(self) -> bool:
        """Whether a live process uses the cluster."""
        return self.state != "stale" and bool(self.users)


class StatusFile(msgspec.Struct, frozen=True, kw_only=True):
    """Output of ``grovescale status --json``."""

    schema_version: int = SCHEMA_VERSION
    clusters: tuple[ClusterStatus, ...]
    machine: tuple[machine_lock.LockUser, ...] = ()
    """Processes of all users that hold the machine lock, then those that wait for it."""


def read() -> list[ClusterStatus]:
    """Return all clusters that have a folder, stale ones included, by name."""
    return [status_of(name) for name in state.names()]


def status_of(name: str) -> ClusterStatus:
    """Return the status of one cluster."""
    folder = state.directory(name)
    facts = state.facts(folder)
    users = tuple(_users(folder))
    kept = (folder / "kept").exists()
    made_by: Literal["up", "run", "unknown"] = "unknown" if facts is None else "up" if facts.standing else "run"
    if state.owner(folder) is None:
        # Its folder exists before its supervisor.
        starting = facts is None and bool(users)
        return ClusterStatus(
            name=name, state="starting" if starting else "stale", made_by=made_by, kept=kept, users=users
        )
    if facts is None:
        return ClusterStatus(name=name, state="starting", made_by=made_by, kept=kept, users=users)
    return ClusterStatus(
        name=name,
        state="running",
        made_by=made_by,
        kept=kept,
        users=users,
        backend=facts.backend,
        kubernetes=facts.kubernetes,
        nodes=facts.nodes,
        server=facts.server,
        kubeconfig=str(folder / "kubeconfig"),
        container=_container(facts.backend, facts.container) if facts.container is not None else None,
        processes=tuple(_processes(folder)),
    )


def select(clusters: Sequence[ClusterStatus], name: str = "") -> ClusterStatus:
    """Return the cluster of this name; without a name, the only one that ``grovescale up`` created.

    Raises UsageError if there is none, or several.
    """
    if name:
        for one in clusters:
            if one.name == name:
                return one
        names = [one.name for one in clusters]
        near = difflib.get_close_matches(name, names, n=2)
        raise UsageError(
            f"there is no cluster {name}" + (f"; did you mean {' or '.join(near)}?" if near else ""),
            next_step=f"Clusters on this machine: {', '.join(names) or 'none'}. Start one with: "
            f"grovescale up --name {name}",
        )
    standing = [one for one in clusters if one.made_by == "up"]
    if len(standing) == 1:
        return standing[0]
    if standing:
        raise UsageError(
            f"`grovescale up` made several clusters: {', '.join(one.name for one in standing)}",
            next_step="Name one of them.",
        )
    others = ", ".join(one.name for one in clusters)
    raise UsageError(
        "there is no cluster made by `grovescale up`" + (f"; others: {others}" if others else ""),
        next_step="Name one of these, as shown by: grovescale status" if others else "Start one with: grovescale up",
    )


def refuse_in_use(cluster: ClusterStatus) -> None:
    """Raise UsageError, with the user, for a cluster that a live process uses."""
    if cluster.in_use:
        raise UsageError(
            f"cluster {cluster.name} is in use by " + "; ".join(user.text for user in cluster.users),
            next_step=f"Wait for its end, or stop it anyway: grovescale down {cluster.name} --force",
        )


def _users(folder: Path) -> list[User]:
    """Return the users by the age of their runs, whose names begin with their times."""
    users = []
    for name in lease.names(folder):
        holder = lease.holder(folder, name)
        if holder is not None and lease.is_held(folder, name):
            users.append(
                User(pid=holder.pid, user=holder.user, run=holder.run_id, test=holder.test, command=holder.command)
            )
    return sorted(users, key=lambda user: (user.run, user.pid))


def _processes(folder: Path) -> list[ProcessStatus]:
    return [
        ProcessStatus(
            name=info.name,
            pid=info.pid,
            running=info.running,
            exit_code=info.exit_code,
            restarts=info.restarts,
            memory_bytes=procfs.memory_bytes(info.pid) if info.running else None,
            age_seconds=procfs.age_s(info.started_ticks) if info.running else None,
            log=info.log,
        )
        for info in state.process_list(folder).values()
    ]


def _container(of: str, container: state.Container) -> str:
    return backend(of).trouble(container) or f"container {container.name} runs in {Path(container.engine).name}"
