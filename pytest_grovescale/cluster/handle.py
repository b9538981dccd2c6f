"""`Cluster`, a running cluster that this process holds a lease on; functions that acquire, join and stop one."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from pathlib import Path

from .. import procfs
from ..errors import ClusterError, UsageError
from ..kube.access import Access
from . import binaries, launch, lease, ledger, locks, processes, state, supervisor_client, teardown_plan
from .backend import backend
from .binaries import UnsupportedPlatform
from .definition import ClusterDefinition
from .lease import Lease
from .processes import ProcessInfo, ProcessSpec
from .supervisor_client import Supervision, SupervisorGone, SupervisorStopped

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
    """A running cluster. It stays at least until this process ends or calls ``release``."""

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
        self.owner = ledger.of(directory)
        """Owner of the objects that this process creates on it, also for clusters that others use."""
        self.container = facts.container
        self.standing = facts.standing
        """Whether ``grovescale up`` created it; any other cluster ends with the run that created it."""
        self.replaced: set[int] = set()
        """Pids of processes that `restart_process` has stopped: their end is none of the cluster's faults."""
        self._lease = held
        self._supervision = Supervision(directory)

    @property
    def lease_id(self) -> str:
        """Id of this process' lease; label of its namespaces, so that they can be found if the process dies."""
        return self._lease.id

    def note_test(self, test: str) -> None:
        """Record the test that currently uses the cluster, for ``grovescale status`` and ``down``; empty: none."""
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

        Unless another lease shares it by then (``share_process``).
        """
        answer = supervisor_client.ask(self.directory, supervisor_client.StartProcess(spec=spec, lease=self._lease.id))
        return _process(answer)

    def share_process(self, name: str) -> ProcessInfo:
        """Keep a process of another lease running as long as this lease too. Idempotent.

        Raises ClusterError if it does not run, or is being stopped.
        """
        return _process(
            supervisor_client.ask(self.directory, supervisor_client.ShareProcess(name=name, lease=self._lease.id))
        )

    def stop_process(self, name: str) -> ProcessInfo:
        """Stop a process (SIGTERM, its grace, SIGKILL) and return once it has ended. Idempotent."""
        # The grace period of a process is unlimited; the supervisor answers after it.
        return _process(
            supervisor_client.ask(self.directory, supervisor_client.StopProcess(name=name), timeout_s=_LONGEST_GRACE_S)
        )

    def restart_process(self, name: str) -> ProcessInfo:
        """Stop a process as `stop_process` does, and start it again as it was; return once it has started."""
        if (before := self.processes().get(name)) is not None:
            self.replaced.add(before.pid)
        request = supervisor_client.RestartProcess(name=name)
        return _process(supervisor_client.ask(self.directory, request, timeout_s=_LONGEST_GRACE_S))

    def processes(self) -> dict[str, ProcessInfo]:
        """Return all processes of the cluster by name: its components and processes started on it."""
        return state.process_list(self.directory)

    def trouble(self) -> str:
        """Return the fault of the cluster's container or supervisor, as text; empty: none."""
        if not self._supervision.has_ended() and self._supervision.is_stopped():
            return f"its supervisor (pid {self._supervision.owner.pid}) is stopped"
        if self.container is None:
            return ""
        return backend(self.backend).trouble(self.container)

    def ended(self, within_s: float = 0.0) -> str:
        """Return how the cluster has ended, or is ending, while this process holds a lease on it; empty: it runs.

        ``within_s``: time to wait for its supervisor to end, after another process ended that ends with it.
        """
        if self._lease.released:
            return ""
        # A supervisor that ends does this first, before it stops anything.
        stopping = not (self.directory / supervisor_client.SOCKET).exists()
        if not stopping and not self._supervision.has_ended(within_s):
            return ""
        how = supervisor_client.how_it_ended(self.directory, pid=self._supervision.owner.pid)
        return f"{self._ended_while_used()}: {how}"

    def check_running(self, within_s: float = 0.0) -> None:
        """Raise ClusterError, with the end of its supervisor's log, when the cluster has ended, or is ending."""
        if self.ended(within_s):
            pid = self._supervision.owner.pid
            raise supervisor_client.ended_error(self.directory, self._ended_while_used(), pid=pid)

    def _ended_while_used(self) -> str:
        return f"cluster {self.name} ended while this session used it"

    def keep(self) -> None:
        """Keep the cluster without leases, until ``grovescale down``."""
        supervisor_client.ask(self.directory, supervisor_client.Keep(on=True))

    def release(self, *, keep: bool = False) -> None:
        """Release the lease; returns once the cluster is gone if this was the last lease. Idempotent.

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
        patience = _GONE_S + teardown_plan.longest_s(self.directory)
        self._lease.release()
        self._supervision.close()
        try:
            answer = supervisor_client.ask(self.directory, supervisor_client.Bye(lease=self._lease.id))
        except SupervisorGone:
            # The supervisor was killed, or has seen by itself that no lease is left.
            ending = True
        except SupervisorStopped as stopped:
            # A control plane without users must not stay because its supervisor is stopped.
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
            if procfs.is_stopped(owner.pid):
                raise SupervisorStopped(self.name, owner.pid)
            raise ClusterError(
                f"cluster {self.name} does not end", next_step=f"Stop it with: grovescale down {self.name}"
            )
        with locks.held(state.start_lock(self.directory), remove=True):
            if state.owner(self.directory) is None:
                # Does nothing, unless the supervisor was killed.
                state.clear_stale(self.directory)


def names() -> list[str]:
    """Return the names of all running clusters."""
    return [name for name in state.names() if is_running(name)]


def is_running(name: str) -> bool:
    """Return whether a cluster of this name can be joined."""
    try:
        folder = state.directory(name)
    except UsageError:
        # Not a cluster name: the path of a definition file, for example.
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
    """Return a cluster for the definition: the running one of that name, or a new one.

    ``name`` None: a generated name. ``run_id``: namespaces labeled ``grovescale.io/run=<run_id>`` are removed from a
    cluster that stays if this process dies without a release. ``allowed_contexts``: kubeconfig contexts that may be
    used although they are not on this machine. ``standing``: a new cluster belongs to no run (``grovescale up``).
    Raises ClusterError, BinaryError, UsageError.
    """
    binaries.require_linux()
    chosen = name or f"c-{secrets.token_hex(4)}"
    folder = state.directory(chosen)
    definition = backend(definition.backend).settled(definition)
    # Outside the lock: a build can take seven minutes, and the start has not begun yet.
    resolved = binaries.resolve(definition, progress=progress)
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
                binaries=resolved,
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
    binaries.require_linux()
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
    """Return a running cluster that stays for this lease, and its digest; else clear remains. Needs the start lock."""
    owner = state.owner(folder)
    facts = state.facts(folder)
    if owner is not None:
        # Others may use it.
        state.refuse_damaged(folder)
    if owner is not None and facts is not None:
        held = lease.take(folder, run_id=run_id)
        try:
            supervisor_client.ask(folder, supervisor_client.Hello(lease=held.id))
            return Cluster(folder, facts, held), facts.definition_digest
        except SupervisorStopped:
            # An existing cluster, perhaps: it may still run.
            held.release()
            raise
        except ClusterError:
            # The cluster is ending.
            held.release()
        except BaseException:
            held.release()
            raise
    if owner is not None:
        launch.end(folder, owner)
    state.clear_stale(folder)
    return None


def stop(name: str, *, refuse: Callable[[], None] = lambda: None) -> list[str]:
    """Stop a cluster and clear its remains; return the actions taken, as text.

    ``refuse`` is called when no process can join or start the cluster any more; it raises if the cluster has to stay.
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
    """Clear the remains of killed supervisors, for all names; leave running and starting clusters alone."""
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
                    # Another cluster's error must not block this start; its remains stay for the next try.
                    progress(f"left by a killed run of cluster {name}: {error}")
            locks.remove(state.start_lock(folder))
    state.remove_unused_locks()
    for folder in state.orphaned_data():
        progress(f"left by a killed run: removed {folder}")


def _process(answer: supervisor_client.Answer) -> ProcessInfo:
    assert answer.process is not None
    return answer.process
