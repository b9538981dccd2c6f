"""A cluster that this process holds a lease on: taken, used, given back."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from pathlib import Path

from ..errors import ClusterError, UsageError
from ..kube.access import Access
from . import at_end, binaries, launch, lease, locks, ownership, platforms, processes, protocol, state, supervision
from .definition import ClusterDefinition
from .lease import Lease
from .platforms import UnsupportedPlatform
from .protocol import ProcessInfo, ProcessSpec, SupervisorGone, SupervisorStopped
from .supervision import Supervision

__all__ = [
    "Cluster",
    "ProcessInfo",
    "ProcessSpec",
    "UnsupportedPlatform",
    "acquire",
    "is_running",
    "join",
    "names",
]

Progress = Callable[[str], None]

ROLES = ("harness", "recorder")
_GONE_S = 60.0
_LONGEST_GRACE_S = 3600.0


class Cluster:
    """A live cluster. It stays at least as long as this process lives or until ``release``."""

    def __init__(self, directory: Path, facts: state.Facts, held: Lease) -> None:
        self.name = facts.name
        self.backend = facts.backend
        self.directory = directory
        self.server = facts.server
        self.access = state.access(directory, "harness")
        self.kubeconfig = directory / "kubeconfig"
        self.audit_log = Path(facts.audit_log) if facts.audit_log else None
        self.processes_file = directory / "processes.json"
        self.identities = dict(facts.identities)
        self.facts = dict(facts.facts)
        self.kubernetes = facts.kubernetes
        self.binaries = dict(facts.binaries)
        self.metrics = dict(facts.metrics)
        self.others_use_it = facts.others_use_it
        self.pools = dict(facts.pools)
        self.on_loopback = facts.on_loopback
        self.owner = ownership.of(directory)
        """Who makes objects on it, for those that others use too."""
        self.container = facts.container
        self.standing = facts.standing
        """Whether it was made by ``grovescale up``; any other ends with the run that made it."""
        self._lease = held
        self._supervision = Supervision(directory)

    @property
    def lease_id(self) -> str:
        """Under which this process uses it; namespaces are labelled with it, to be found should the process die."""
        return self._lease.id

    def note_test(self, test: str) -> None:
        """Record which test uses the cluster now, for ``grovescale status`` and ``down``; empty: none."""
        self._lease.note_test(test)

    def access_as(self, role: str) -> Access:
        """Return the access of ``harness`` (as ``access``) or ``recorder``; raises UsageError for another role."""
        if role not in ROLES:
            raise UsageError(f"there is no identity {role!r}", next_step=f"Choose of: {', '.join(ROLES)}.")
        try:
            return state.access(self.directory, role)
        except FileNotFoundError:
            self.check_running()
            raise

    def start_process(self, spec: ProcessSpec) -> ProcessInfo:
        """Run a process under the cluster's supervisor; it is stopped when this lease ends, however it ends.

        Unless others share it by then (``share_process``).
        """
        answer = protocol.ask(self.directory, protocol.StartProcess(spec=spec, lease=self._lease.id))
        return _process(answer)

    def share_process(self, name: str) -> ProcessInfo:
        """Keep a process that another holder of the cluster started from ending with that one's lease. Idempotent.

        Raises ClusterError when it does not run, or is being stopped.
        """
        return _process(protocol.ask(self.directory, protocol.ShareProcess(name=name, lease=self._lease.id)))

    def stop_process(self, name: str) -> ProcessInfo:
        """Stop a process (SIGTERM, its grace, SIGKILL) and return once it has ended. Idempotent."""
        # A process may have any grace; the supervisor answers when it is over.
        return _process(protocol.ask(self.directory, protocol.StopProcess(name=name), timeout_s=_LONGEST_GRACE_S))

    def processes(self) -> dict[str, ProcessInfo]:
        """Return all processes of the cluster by name: its components and what was started on it."""
        return state.process_list(self.directory)

    def trouble(self) -> str:
        """Return in words what is wrong with what it runs in, its container or its supervisor; empty: nothing is."""
        if not self._supervision.has_ended() and self._supervision.is_stopped():
            return f"its supervisor (pid {self._supervision.owner.pid}) is stopped"
        if self.container is None:
            return ""
        # Asked for when something has gone wrong, and only on kind.
        from .kind import node_container

        return node_container.trouble(self.container)

    def ended(self, within_s: float = 0.0) -> str:
        """Return how the cluster has ended, or is ending, although this process holds a lease on it; empty: it runs.

        ``within_s``: how long its supervisor is waited for, where something has ended that ends with it.
        """
        if self._lease.released:
            return ""
        # The first thing that a supervisor does when it ends, and before it stops anything.
        stopping = not (self.directory / protocol.SOCKET).exists()
        if not stopping and not self._supervision.has_ended(within_s):
            return ""
        how = supervision.how_it_ended(self.directory, pid=self._supervision.owner.pid)
        return f"{self._ended_while_used()}: {how}"

    def check_running(self, within_s: float = 0.0) -> None:
        """Raise ClusterError, with the end of its supervisor's log, when the cluster has ended, or is ending."""
        if self.ended(within_s):
            pid = self._supervision.owner.pid
            raise supervision.ended_error(self.directory, self._ended_while_used(), pid=pid)

    def _ended_while_used(self) -> str:
        return f"cluster {self.name} ended while this session used it"

    def keep(self) -> None:
        """Let the cluster stay when nobody holds a lease on it, until ``grovescale down``."""
        protocol.ask(self.directory, protocol.Keep(on=True))

    def release(self, *, keep: bool = False) -> None:
        """Give the lease back; returns once the cluster is gone if this was the last one. Idempotent.

        Processes that this lease started are stopped. ``keep``: the cluster stays until ``grovescale down``.
        """
        if self._lease.released:
            return
        try:
            if keep:
                self.keep()
        finally:
            self._give_back()

    def _give_back(self) -> None:
        owner = state.owner(self.directory)
        patience = _GONE_S + at_end.longest_s(self.directory)
        self._lease.release()
        self._supervision.close()
        try:
            answer = protocol.ask(self.directory, protocol.Bye(lease=self._lease.id))
        except SupervisorGone:
            # It was killed, or has seen by itself that nobody is left.
            ending = True
        except SupervisorStopped as stopped:
            # A control plane that nobody uses must not stay because its supervisor does nothing.
            if self._is_used_or_kept():
                raise
            stop(self.name)
            raise SupervisorStopped(self.name, stopped.pid, ended=True) from None
        else:
            ending = answer.ending
        if ending:
            self._wait_gone(owner, patience)

    def _is_used_or_kept(self) -> bool:
        held = (lease.is_held(self.directory, name) for name in lease.names(self.directory))
        return (self.directory / "kept").exists() or any(held)

    def _wait_gone(self, owner: state.Owner | None, patience_s: float) -> None:
        if owner is not None and not processes.wait_gone(owner.pid, owner.started_ticks, patience_s):
            if processes.is_stopped(owner.pid):
                raise SupervisorStopped(self.name, owner.pid)
            raise ClusterError(
                f"cluster {self.name} does not end", next_step=f"Stop it with: grovescale down {self.name}"
            )
        with locks.held(state.start_lock(self.directory), remove=True):
            if state.owner(self.directory) is None:
                # Nothing, unless the supervisor was killed.
                state.clear_stale(self.directory)


def names() -> list[str]:
    """Return the names of all clusters that are running."""
    return [name for name in state.names() if is_running(name)]


def is_running(name: str) -> bool:
    """Return whether a cluster of this name is ready to be joined."""
    try:
        folder = state.directory(name)
    except UsageError:
        # A path of a definition file, for example.
        return False
    return state.facts(folder) is not None and state.owner(folder) is not None


def acquire(
    definition: ClusterDefinition,
    *,
    name: str | None = None,
    run_id: str = "",
    allowed_contexts: Sequence[str] = (),
    standing: bool = False,
    progress: Progress,
) -> Cluster:
    """Return a cluster as the definition says: the running one of that name, or a new one.

    ``name`` None makes one up. ``run_id``: namespaces labelled ``grovescale.io/run=<run_id>`` are removed from a
    cluster that stays, should this process die without releasing it. ``allowed_contexts``: those of a kubeconfig that
    may be used although they are not on this machine. ``standing``: a new one is no run's (``grovescale up``).
    Raises ClusterError, BinaryError, UsageError.
    """
    platforms.require_linux()
    chosen = name or f"c-{secrets.token_hex(4)}"
    folder = state.directory(chosen)
    definition = launch.settled(definition)
    # Outside the lock: what is made for seven minutes is no start yet.
    found = binaries.resolve(definition, progress=progress)
    clear_stale(progress=progress)
    with locks.held(
        state.start_lock(folder), waiting=lambda: progress(f"cluster {chosen}: another run is starting it")
    ):
        joined = _join_running(folder, run_id)
        if joined is None:
            plan = launch.Plan(
                name=chosen,
                folder=folder,
                definition=definition,
                binaries=found,
                run_id=run_id,
                allowed_contexts=tuple(allowed_contexts),
                standing=standing,
            )
            try:
                facts, held = launch.start(plan, progress)
            except BaseException:
                locks.remove(state.start_lock(folder))
                raise
            return Cluster(folder, facts, held)
    cluster, digest = joined
    if digest != launch.digest(definition):
        cluster.release()
        raise ClusterError(
            f"a cluster {chosen} runs already, made from another definition or version",
            next_step=f"Use it as it is by its name, choose another name, or stop it: grovescale down {chosen}",
        )
    progress(f"cluster {chosen}: joined")
    return cluster


def join(name: str, *, run_id: str = "", progress: Progress) -> Cluster:
    """Return the running cluster of this name; raises ClusterError when there is none."""
    platforms.require_linux()
    folder = state.directory(name)
    joined = None
    if is_running(name):
        with locks.held(state.start_lock(folder)):
            joined = _join_running(folder, run_id)
    if joined is None:
        running = ", ".join(names())
        raise ClusterError(
            f"no cluster {name} is running" + (f"; running are: {running}" if running else ""),
            next_step=f"Start one with: grovescale up --name {name}",
        )
    progress(f"cluster {name}: joined")
    return joined[0]


def _join_running(folder: Path, run_id: str) -> tuple[Cluster, str] | None:
    """Return a cluster that runs and stays for us, and its digest; else clear what there is. Needs the start lock."""
    owner = state.owner(folder)
    facts = state.facts(folder)
    if owner is not None and facts is not None:
        held = lease.take(folder, run_id=run_id)
        try:
            protocol.ask(folder, protocol.Hello(lease=held.id))
            return Cluster(folder, facts, held), facts.definition_digest
        except SupervisorStopped:
            # Others' cluster, perhaps, and it may go on.
            held.release()
            raise
        except ClusterError:
            # It is on its way out.
            held.release()
        except BaseException:
            held.release()
            raise
    if owner is not None:
        launch.end(folder, owner)
    state.clear_stale(folder)
    return None


def stop(name: str, *, refuse: Callable[[], None] = lambda: None) -> list[str]:
    """Stop a cluster and clear what is left of it; return what was done, in words.

    ``refuse`` is called when nothing can join or start the cluster any more; it raises if the cluster has to stay.
    """
    folder = state.directory(name)
    done = []
    with locks.held(state.start_lock(folder), remove=True):
        refuse()
        owner = state.owner(folder)
        if owner is not None:
            launch.end(folder, owner)
            done.append(f"stopped cluster {name}")
        return [*done, *state.clear_stale(folder)]


def clear_stale(*, progress: Progress) -> None:
    """Clear what killed supervisors left, of any name; leaves alone what runs or is just being started."""
    for name in state.names():
        folder = state.directory(name)
        if state.owner(folder) is not None:
            continue
        lock = locks.take(state.start_lock(folder), wait=False)
        if lock is None:
            continue
        with lock:
            if state.owner(folder) is None:
                try:
                    for line in state.clear_stale(folder):
                        progress(f"left by a killed run of cluster {name}: {line}")
                except ClusterError as error:
                    # Of another cluster, which must not keep this one from starting; it stays for the next try.
                    progress(f"left by a killed run of cluster {name}: {error}")
            locks.remove(state.start_lock(folder))
    state.remove_unused_locks()
    for folder in state.orphaned_data():
        progress(f"left by a killed run: removed {folder}")


def _process(answer: protocol.Answer) -> ProcessInfo:
    assert answer.process is not None
    return answer.process
