"""Start of a cluster of any backend: its lease, its supervisor, its components; a failed start leaves nothing."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from .. import procfs
from ..errors import ClusterError, GrovescaleError
from ..log_files import what_to_do
from . import lease, processes, state, supervisor_client, teardown_plan
from .backend import backend
from .binaries import Binary
from .definition import ClusterDefinition
from .lease import Lease
from .ports import PortTaken
from .supervisor_client import SupervisorGone, SupervisorStopped

Progress = Callable[[str], None]

_GONE_S = 60.0
_SUPERVISOR_S = 60.0
_LOOK_MS = 250
_PORT_ATTEMPTS = 3
_KEPT_STARTS = 5


AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata"}],
}
"""Of every API server that grovescale starts."""

AUDIT_MAX_MB = 100_000
"""Size at which the audit log is rotated, MB: more than any run writes."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Input of a start."""

    name: str
    folder: Path
    definition: ClusterDefinition
    binaries: Mapping[str, Binary]
    """Those that the backend needs, by name."""
    run_id: str = ""
    allowed_contexts: tuple[str, ...] = ()
    """kubeconfig contexts that may be used although they are not on this machine."""
    standing: bool = False
    """Whether ``grovescale up`` starts it."""


CONTROLLERS = "controller_manager_controllers"
"""Fact about a cluster: the controllers that run, separated by commas; missing where they are not known."""


def digest(definition: ClusterDefinition) -> str:
    """Return a digest that is equal for equal definitions."""
    return state.digest(msgspec.json.encode(definition))


RESIZE = "PersistentVolumeClaimResize"
"""The admission plugin that lets a claim grow only where a storage class with a provisioner says so."""

_SCHEDULER_API = "kubescheduler.config.k8s.io/v1"
# They would keep each pod with a claim from nodes without a driver of volumes, as simulated ones are.
_VOLUME_PLUGINS = ("VolumeBinding", "VolumeRestrictions", "VolumeZone", "NodeVolumeLimits")


def control_plane_limits(definition: ClusterDefinition, *, controllers: str) -> state.Flat:
    """Return the limits of a control plane that grovescale created.

    ``controllers``: the ones that run, unless a flag of the definition says otherwise.
    """
    api, manager, scheduler = definition.api_server, definition.controller_manager, definition.scheduler
    flat: state.Flat = {
        "priority_and_fairness": api.priority_and_fairness,
        "max_requests_inflight": api.max_requests_inflight,
        "max_mutating_requests_inflight": api.max_mutating_requests_inflight,
        "apiserver_gogc": api.gogc or 100,
        "apiserver_memory_limit": f"{api.memory_percent} %" if api.memory_percent else "none",
        "controller_manager_qps": manager.limits.qps,
        CONTROLLERS: manager.extra_args.get("controllers", controllers),
        "scheduler_qps": scheduler.limits.qps,
        "scheduler_nodes_to_score": f"{scheduler.percentage_of_nodes_to_score} %"
        if scheduler.percentage_of_nodes_to_score
        else "adaptive",
        "scheduler_default_spreading": scheduler.default_spreading,
    }
    for section in ("api_server", "controller_manager", "scheduler", "kwok"):
        for flag, value in getattr(definition, section).extra_args.items():
            flat[f"{section}.{flag}"] = value
    return flat


def api_server_environment(definition: ClusterDefinition) -> dict[str, str]:
    """Return the variables of Go's runtime that a definition sets for the API server. Source: package runtime of Go."""
    api = definition.api_server
    limit = procfs.machine_memory().total * api.memory_percent // 100
    variables = (("GOMAXPROCS", api.gomaxprocs), ("GOGC", api.gogc), ("GOMEMLIMIT", limit))
    return {name: str(value) for name, value in variables if value}


def scheduler_configuration(definition: ClusterDefinition, *, kubeconfig: str) -> dict[str, Any]:
    """Return kube-scheduler's configuration. ``kubeconfig``: as its process sees it."""
    scheduler = definition.scheduler
    spreading = {
        "name": "PodTopologySpread",
        "args": {
            "apiVersion": _SCHEDULER_API,
            "kind": "PodTopologySpreadArgs",
            "defaultingType": "List",
            "defaultConstraints": [],
        },
    }
    without = [{"name": name} for name in _VOLUME_PLUGINS]
    profile = {
        "schedulerName": "default-scheduler",
        **({"plugins": {"multiPoint": {"disabled": without}}} if definition.simulates_claims else {}),
        **({} if scheduler.default_spreading else {"pluginConfig": [spreading]}),
    }
    return {
        "apiVersion": _SCHEDULER_API,
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {
            "kubeconfig": kubeconfig,
            "qps": scheduler.limits.qps,
            "burst": scheduler.limits.burst,
        },
        "leaderElection": {"leaderElect": False},
        "percentageOfNodesToScore": scheduler.percentage_of_nodes_to_score,
        "profiles": [profile],
    }


def start(plan: Plan, progress: Progress) -> tuple[state.Facts, Lease]:
    """Start a cluster and return once its nodes are Ready. Requires the start lock and an unused name."""
    attempts = 0
    while True:
        attempts += 1
        try:
            return _start_once(plan, progress)
        except PortTaken as error:
            if attempts == _PORT_ATTEMPTS:
                raise
            progress(f"cluster {plan.name}: {error.message}; once more with other ports")


def _start_once(plan: Plan, progress: Progress) -> tuple[state.Facts, Lease]:
    plan.folder.mkdir(mode=0o700, parents=True)
    # Before the supervisor starts: it ends as soon as it sees no lease.
    held = lease.take(plan.folder, run_id=plan.run_id)
    try:
        started = backend(plan.definition.backend).start(plan, progress)
        facts = msgspec.structs.replace(started, standing=plan.standing)
        state.write(plan.folder / "cluster.json", facts)
    except BaseException as error:
        cause = _ended_supervisor(plan.folder, error)
        if isinstance(error, GrovescaleError) and not isinstance(error, PortTaken):
            # Only while there is a folder: the supervisor removes it at its end.
            error.message += _kept_logs(plan.folder)
        held.release()
        if (owner := state.owner(plan.folder)) is not None:
            end(plan.folder, owner)
        state.clear_stale(plan.folder)
        if cause is not None:
            raise cause from error
        raise
    return facts, held


def _ended_supervisor(folder: Path, error: BaseException) -> ClusterError | None:
    """Return the end of the supervisor as the cause of a start error; None: it still runs.

    Call before anything is cleared: its log is the only evidence.
    """
    started = (folder / "supervisor.json").exists()
    if not isinstance(error, GrovescaleError) or not started or state.owner(folder) is not None:
        return None
    return supervisor_client.ended_error(folder, f"cluster {folder.name} ended while it was starting")


def _kept_logs(folder: Path) -> str:
    """Keep the logs of a failed start, and return their location as the end of a message; empty if there are none.

    Only those of the last few starts are kept.
    """
    kept = state.root() / "failed-starts"
    try:
        shutil.rmtree(kept / folder.name, ignore_errors=True)
        kept.mkdir(mode=0o700, parents=True, exist_ok=True)
        shutil.copytree(folder / "logs", kept / folder.name)
        for old in sorted(kept.iterdir(), key=lambda path: path.stat().st_mtime)[:-_KEPT_STARTS]:
            shutil.rmtree(old, ignore_errors=True)
    except FileNotFoundError:
        return ""
    except (OSError, shutil.Error) as error:
        return f"\nits logs could not be kept: {error}"
    return f"\nall logs of this start: {kept / folder.name}"


def end(folder: Path, owner: state.Owner) -> None:
    """Make a supervisor stop its cluster, and wait until it is gone."""
    patience = _GONE_S + teardown_plan.longest_s(folder)
    try:
        supervisor_client.ask(folder, supervisor_client.Down())
    except SupervisorGone:
        # No answer: it is starting or ending.
        pass
    except SupervisorStopped:
        # state.clear_stale does the supervisor's work instead.
        patience = 0.0
    if not processes.wait_gone(owner.pid, owner.started_ticks, patience):
        processes.kill(owner.pid, owner.started_ticks)
        processes.wait_gone(owner.pid, owner.started_ticks, _GONE_S)


@contextlib.contextmanager
def supervisor(folder: Path, locked: Sequence[int]) -> Iterator[None]:
    """Start the supervisor, run the block meanwhile, and return when it serves.

    ``locked``: descriptors of locks that it holds from then on, for ports and for the data folder.
    """
    reading, writing = os.pipe()
    try:
        log = os.open(folder / supervisor_client.LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            # It forks again and daemonizes; the wait below is for the first process only.
            starter = subprocess.Popen(
                [sys.executable, "-m", state.SUPERVISOR, str(folder), str(writing)],
                cwd=Path(__file__).parents[2],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                pass_fds=[writing, *locked],
            )
        finally:
            os.close(log)
            os.close(writing)
        try:
            yield
        finally:
            forked = _forked(starter)
        if not forked or not _says_ready(reading, folder):
            text = (folder / supervisor_client.LOG).read_text(encoding="utf-8", errors="replace").strip()
            if todo := what_to_do(text):
                # If the machine denied it a resource, the stack frames add nothing to the error.
                raise ClusterError(f"the supervisor did not start: {text.splitlines()[-1]}", next_step=todo)
            raise ClusterError(f"the supervisor did not start:\n{text}", next_step="Please report this.")
    finally:
        os.close(reading)


def _forked(starter: subprocess.Popen[bytes]) -> bool:
    """Wait for the first process of the supervisor; return whether it ended with code 0 in time."""
    try:
        return starter.wait(_SUPERVISOR_S) == 0
    except subprocess.TimeoutExpired:
        starter.kill()
        starter.wait()
        return False


def _says_ready(reading: int, folder: Path) -> bool:
    """Return whether the supervisor reports that it serves; False if it ends before, or takes too long.

    Raises SupervisorStopped when it is stopped.
    """
    ready = select.poll()
    ready.register(reading, select.POLLIN)
    deadline = time.monotonic() + _SUPERVISOR_S
    pid = 0
    stopped: processes.StoppedFor | None = None
    while time.monotonic() < deadline:
        if ready.poll(_LOOK_MS):
            return os.read(reading, 1) == b"1"
        if stopped is None and (owner := state.owner(folder)) is not None:
            pid = owner.pid
            stopped = processes.StoppedFor(pid)
        if stopped is not None and stopped.too_long():
            raise SupervisorStopped(folder.name, pid)
    return False
