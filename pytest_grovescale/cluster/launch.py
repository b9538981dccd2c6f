"""Starting a cluster: its supervisor, its components, its nodes; or nothing, if anything fails on the way."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import msgspec

from ..errors import ClusterError
from ..kube.portal import Portal
from . import components, lease, local, ports, processes, protocol, state
from .binaries import Binary
from .definition import ClusterDefinition
from .lease import Lease
from .protocol import SupervisorGone

Progress = Callable[[str], None]

_GONE_S = 60.0
_PORT_ATTEMPTS = 3


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be started, and for whom."""

    name: str
    folder: Path
    definition: ClusterDefinition
    binaries: Mapping[str, Binary]
    run_id: str = ""


def digest(definition: ClusterDefinition) -> str:
    """Return what tells whether two clusters were asked for alike."""
    return state.digest(msgspec.json.encode(definition))


def start(plan: Plan, progress: Progress) -> tuple[state.Facts, Lease]:
    """Start a cluster and return once its nodes are Ready. Call with the start lock held and nothing there."""
    attempts = 0
    while True:
        attempts += 1
        try:
            return _start_once(plan, progress)
        except local.PortTaken as error:
            if attempts == _PORT_ATTEMPTS:
                raise
            progress(f"cluster {plan.name}: {error.message}; once more with other ports")


def _start_once(plan: Plan, progress: Progress) -> tuple[state.Facts, Lease]:
    plan.folder.mkdir(mode=0o700, parents=True)
    # Before there is a supervisor: it ends as soon as it sees none.
    held = lease.take(plan.folder, run_id=plan.run_id)
    try:
        start = _begin(plan)
        with Portal() as portal:
            timings = portal.run(local.run(start, progress))
        facts = _facts(plan, start, timings)
        state.write(plan.folder / "cluster.json", facts)
    except BaseException:
        held.release()
        if (owner := state.owner(plan.folder)) is not None:
            end(plan.folder, owner)
        state.clear_stale(plan.folder)
        raise
    progress(
        f"cluster {plan.name}: {plan.definition.node_count} nodes Ready after {timings.all_s:.1f} s "
        f"(API server {timings.ready_s:.1f} s)"
    )
    return facts, held


def _begin(plan: Plan) -> components.Start:
    """Start the supervisor and write what the components need meanwhile."""
    leased = ports.lease(len(components.PORTS))
    try:
        start = components.Start(
            name=plan.name,
            folder=plan.folder,
            definition=plan.definition,
            binaries={name: Path(binary.path) for name, binary in plan.binaries.items()},
            ports=dict(zip(components.PORTS, (port.number for port in leased), strict=True)),
        )
        with supervisor(plan.folder, leased):
            components.write_files(start)
    finally:
        # The supervisor holds them from here on.
        ports.release(leased)
    return start


def end(folder: Path, owner: state.Owner) -> None:
    """Make a supervisor stop its cluster, and wait until it is gone."""
    # Nobody answers: it is starting, or on its way out.
    with contextlib.suppress(SupervisorGone):
        protocol.ask(folder, protocol.Down())
    if not processes.wait_gone(owner.pid, owner.started_ticks, _GONE_S):
        processes.kill(owner.pid, owner.started_ticks)
        processes.wait_gone(owner.pid, owner.started_ticks, _GONE_S)


@contextlib.contextmanager
def supervisor(folder: Path, leased: list[ports.PortLease]) -> Iterator[None]:
    """Start the supervisor, run the block meanwhile, and return when it serves. It takes over the ports' locks."""
    reading, writing = os.pipe()
    try:
        log = os.open(folder / "supervisor.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            # It forks once more and lives on by itself; what is waited for below is only the first half.
            starter = subprocess.Popen(
                [sys.executable, "-m", "pytest_grovescale.cluster.supervisor", str(folder), str(writing)],
                cwd=Path(__file__).parents[2],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                pass_fds=[writing, *(port.lock.fileno() for port in leased)],
            )
        finally:
            os.close(log)
            os.close(writing)
        try:
            yield
        finally:
            starter.wait()
        if os.read(reading, 1) != b"1":
            text = (folder / "supervisor.log").read_text(encoding="utf-8", errors="replace")
            raise ClusterError(f"the supervisor did not start:\n{text}", next_step="Please report this.")
    finally:
        os.close(reading)


def _facts(plan: Plan, start: components.Start, timings: local.Timings) -> state.Facts:
    definition = plan.definition
    found = plan.binaries
    api = definition.api_server
    flat: dict[str, str | int | float | bool] = {
        "backend": definition.backend,
        "definition": definition.name,
        "kubernetes": found["kube-apiserver"].version,
        "etcd": found["etcd"].version,
        "kwok": found["kwok"].version,
        "nodes": definition.node_count,
        "priority_and_fairness": api.priority_and_fairness,
        "max_requests_inflight": api.max_requests_inflight,
        "max_mutating_requests_inflight": api.max_mutating_requests_inflight,
        "apiserver_gomaxprocs": api.gomaxprocs or len(os.sched_getaffinity(0)),
        "apiserver_gogc": api.gogc or 100,
        "controller_manager_qps": definition.controller_manager.limits.qps,
        "controller_manager_controllers": ",".join(definition.controller_manager.controllers),
        "scheduler_qps": definition.scheduler.limits.qps,
        "kwok_pod_parallelism": definition.kwok.pod_parallelism,
        "kwok_lease_seconds": definition.kwok.lease_seconds,
        "stages": ",".join(Path(stage).stem for stage in definition.stages),
        "data_on_tmpfs": state.data_folder(start.folder) is not None,
        "audit_level": "Metadata",
        "api_server_ready_s": round(timings.ready_s, 3),
        "nodes_ready_s": round(timings.nodes_ready_s, 3),
        "start_s": round(timings.all_s, 3),
    }
    for section in ("api_server", "controller_manager", "scheduler", "kwok"):
        for flag, value in getattr(definition, section).extra_args.items():
            flat[f"{section}.{flag}"] = value
    return state.Facts(
        name=start.name,
        backend=definition.backend,
        definition_digest=digest(definition),
        server=f"https://127.0.0.1:{start.ports['kube-apiserver']}",
        kubernetes=found["kube-apiserver"].version,
        nodes=definition.node_count,
        identities={**{user: user for user in components.IDENTITIES}, "kube-apiserver": components.SERVER_IDENTITY},
        audit_log=str(start.folder / "audit.log"),
        facts=flat,
        binaries={name: binary.path for name, binary in found.items()},
        metrics=components.metrics_endpoints(start),
    )
