"""The clusters on this machine: what `status` shows, and which one `down` and `kubeconfig` mean."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec

from ..errors import UsageError
from . import lease, machine_lock, processes, state

SCHEMA_VERSION = 1


class User(msgspec.Struct, frozen=True, kw_only=True):
    """A live process that holds a lease on a cluster."""

    pid: int
    user: str
    """Login name."""
    run: str
    """Id of its run; empty for a command that is no run."""
    test: str
    """Id of the test that it runs on the cluster now; empty between tests."""
    command: str

    @property
    def text(self) -> str:
        """As messages name it."""
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
    """Resident; None when it has ended."""
    age_seconds: float | None
    log: str
    """File."""


class ClusterStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One cluster of this machine's user."""

    name: str
    state: Literal["running", "starting", "stale"]
    """``stale``: its supervisor was killed, or could not clear up."""
    made_by: Literal["up", "run", "unknown"]
    """``up``: it stays until ``grovescale down``. ``unknown``: it never became ready."""
    kept: bool
    """Whether it stays when its last user is gone."""
    users: tuple[User, ...] = ()
    backend: str | None = None
    """None, as the next four: it is not ready."""
    kubernetes: str | None = None
    nodes: int | None = None
    """Simulated ones."""
    server: str | None = None
    """URL of its API server."""
    kubeconfig: str | None = None
    """File."""
    container: str | None = None
    """What is known of the container that it runs in; None where it runs in none."""
    processes: tuple[ProcessStatus, ...] = ()

    @property
    def in_use(self) -> bool:
        """Whether stopping it would break what a live process does on it."""
        return self.state != "stale" and bool(self.users)


class StatusFile(msgspec.Struct, frozen=True, kw_only=True):
    """What ``grovescale status --json`` prints."""

    schema_version: int = SCHEMA_VERSION
    clusters: tuple[ClusterStatus, ...]
    machine: tuple[machine_lock.LockUser, ...] = ()
    """Processes of all users that hold the machine lock, then those that wait for it."""


def read() -> list[ClusterStatus]:
    """Return all clusters there is anything of, stale ones included, by name."""
    return [status_of(name) for name in state.names()]


def status_of(name: str) -> ClusterStatus:
    """Return what is known of one cluster."""
    folder = state.directory(name)
    facts = state.facts(folder)
    users = tuple(_users(folder))
    kept = (folder / "kept").exists()
    made_by: Literal["up", "run", "unknown"] = "unknown" if facts is None else "up" if facts.standing else "run"
    if state.owner(folder) is None:
        # Its folder is there before its supervisor.
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
        container=_container(facts.container) if facts.container is not None else None,
        processes=tuple(_processes(folder)),
    )


def select(clusters: Sequence[ClusterStatus], name: str = "") -> ClusterStatus:
    """Return the cluster that a command means: the one of this name, else the only one that ``grovescale up`` made.

    Raises UsageError where there is none, or several.
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
    """Raise UsageError for a cluster that a live process uses, with its owner."""
    if cluster.in_use:
        raise UsageError(
            f"cluster {cluster.name} is in use by " + "; ".join(user.text for user in cluster.users),
            next_step=f"Wait for its end, or stop it anyway: grovescale down {cluster.name} --force",
        )


def _users(folder: Path) -> list[User]:
    found = []
    for name in lease.names(folder):
        holder = lease.holder(folder, name)
        if holder is not None and lease.is_held(folder, name):
            found.append(
                User(pid=holder.pid, user=holder.user, run=holder.run_id, test=holder.test, command=holder.command)
            )
    return found


def _processes(folder: Path) -> list[ProcessStatus]:
    return [
        ProcessStatus(
            name=info.name,
            pid=info.pid,
            running=info.running,
            exit_code=info.exit_code,
            restarts=info.restarts,
            memory_bytes=processes.memory_bytes(info.pid) if info.running else None,
            age_seconds=processes.age_s(info.started_ticks) if info.running else None,
            log=info.log,
        )
        for info in state.process_list(folder).values()
    ]


def _container(container: state.Container) -> str:
    # Only a cluster in a container needs an engine to be asked.
    from .kind import node_container

    return node_container.trouble(container) or f"container {container.name} runs in {Path(container.engine).name}"
