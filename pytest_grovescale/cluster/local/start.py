"""The start of a local control plane: files, supervisor, components in order, nodes until all are Ready."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from ... import log_files
from ...errors import ClusterError, GrovescaleError
from ...kube.client import Client
from ...kube.errors import ApiError
from ...kube.portal import Portal
from ...procfs import ports_of
from .. import kwok, launch, nodes, ports, state, supervisor_client
from ..launch import Plan
from ..ports import PortTaken
from ..processes import ProcessInfo, ProcessSpec
from ..supervisor_client import StartProcess
from . import components
from .components import PORTS, Start

Progress = Callable[[str], None]

_RANKS = {"etcd": 0, "kube-apiserver": 1}
"""Stopping order, highest first: the API server's shutdown hangs without etcd."""
_OTHERS_RANK = 2
_START_S = 120.0
_EVERY_S = 0.02
_LET_GO_S = 0.3
_TAIL_LINES = 30
_RACE = "fatal error: concurrent map "
"""What Go's runtime says of a race in a program, which ends one start of very many; kwok 0.8.0 has one as it begins to
watch its Stages."""


class Timings(msgspec.Struct, kw_only=True):
    """Seconds since the first process was started."""

    answering_s: float = 0.0
    """First successful list of nodes at the API server."""
    ready_s: float = 0.0
    """First ``ok`` of ``/readyz``."""
    nodes_ready_s: float = 0.0
    all_s: float = 0.0
    """All checks of the API server have passed, and each component listens on its own port."""


async def run(start: Start, progress: Progress) -> Timings:
    """Start all components through the supervisor and return when all nodes are Ready."""
    plan = components.specs(start)
    timings = Timings()
    began = time.monotonic()

    def begin(*names: str) -> None:
        for name in names:
            request = StartProcess(spec=plan[name], rank=_RANKS.get(name, _OTHERS_RANK))
            supervisor_client.ask(start.folder, request)

    begin("etcd", "kube-apiserver")
    progress(f"cluster {start.name}: etcd and kube-apiserver started, waiting for the API")
    client_access = components.access(start.folder, start.ports["kube-apiserver"], "harness")
    try:
        async with Client(client_access, user_agent="grovescale-cluster") as client:
            watchdog = asyncio.create_task(_watch_processes(start, plan, progress))
            try:
                await _first(watchdog, _bring_up(client, start, begin, timings, began, progress))
            finally:
                watchdog.cancel()
                await asyncio.gather(watchdog, return_exceptions=True)
    except GrovescaleError:
        # A cancelled watch: its TLS connection needs a few more iterations of the event loop to close.
        await asyncio.sleep(_LET_GO_S)
        raise
    return timings


async def _bring_up(
    client: Client,
    start: Start,
    begin: Callable[..., None],
    timings: Timings,
    began: float,
    progress: Progress,
) -> None:
    count = start.definition.node_count
    with _named("the API server did not answer", start):
        async with asyncio.timeout(_START_S):
            await _until_answering(client)
    timings.answering_s = time.monotonic() - began
    begin("kwok", "kube-scheduler")
    ready = asyncio.create_task(_until_ready(client, begin, timings, began))
    try:
        await nodes.create(client, start.definition, cluster=start.name)
        progress(f"cluster {start.name}: {count} nodes created, waiting until they are Ready")
        await nodes.wait_ready(client, count, timeout_s=_START_S, selector=nodes.selector(start.name))
        timings.nodes_ready_s = time.monotonic() - began
        with _named("not everything was ready", start):
            async with asyncio.timeout(_START_S):
                await ready
                await _until_listening(start)
        timings.all_s = time.monotonic() - began
    finally:
        ready.cancel()
        # Its request must release its connection before the client is closed.
        await asyncio.gather(ready, return_exceptions=True)


async def _until_answering(client: Client) -> None:
    """Wait until the API server lists nodes: it does so before all its own checks have passed."""
    while True:
        if await _succeeds(client, "/api/v1/nodes?limit=1"):
            return
        await asyncio.sleep(_EVERY_S)


async def _until_ready(client: Client, begin: Callable[..., None], timings: Timings, began: float) -> None:
    while True:
        if await client.ready():
            break
        await asyncio.sleep(_EVERY_S)
    timings.ready_s = time.monotonic() - began
    # Not earlier: it ends when the API server is not healthy within 10 s, which a busy machine can take
    # (WaitForAPIServer in kubernetes/cmd/kube-controller-manager/app/controllermanager.go).
    begin("kube-controller-manager")


async def _until_listening(start: Start) -> None:
    """Wait until each component itself listens on its port, so that no other process answers there."""
    left = set(PORTS)
    while left:
        listed = state.process_list(start.folder)
        left -= {name for name in left if name in listed and start.ports[name] in ports_of([listed[name].pid])}
        if left:
            await asyncio.sleep(_EVERY_S)


async def _succeeds(client: Client, path: str) -> bool:
    try:
        await client.request("GET", path, timeout=2.0)
    except ApiError:
        return False
    return True


async def _watch_processes(start: Start, plan: Mapping[str, ProcessSpec], progress: Progress) -> None:
    """Raise as soon as a component ends: an error during the start, but once where a race in its own code ended it."""
    crashed: set[str] = set()
    while True:
        for info in state.process_list(start.folder).values():
            if info.name not in plan or (info.running and not info.restarts):
                continue
            # Ended and not yet started again, or the process after that.
            if info.restarts != info.running or (info.name not in crashed and not _is_a_race(info)):
                raise _start_failed(info)
            if info.name not in crashed:
                crashed.add(info.name)
                progress(f"cluster {start.name}: {info.name} crashed by a race in its own code, and is started again")
        await asyncio.sleep(0.1)


def _is_a_race(info: ProcessInfo) -> bool:
    return _RACE in Path(info.log).read_text(encoding="utf-8", errors="replace")


@contextlib.contextmanager
def _named(what: str, start: Start) -> Iterator[None]:
    """Turn a timeout into an error with the end of the API server's log."""
    try:
        yield
    except TimeoutError:
        log = start.folder / "logs" / "kube-apiserver.log"
        raise ClusterError(
            f"cluster {start.name}: {what} within {_START_S:.0f} s; the end of kube-apiserver's log:\n{_tail(log)}",
            next_step="A machine that is very busy may need a second try.",
        ) from None


def _tail(log: Path) -> str:
    lines = log_files.last_lines(log, _TAIL_LINES)
    return "\n".join(f"  {line}" for line in lines) or "  (it is empty)"


def _start_failed(info: ProcessInfo) -> ClusterError:
    log = Path(info.log)
    text = log.read_text(encoding="utf-8", errors="replace")
    if "address already in use" in text:
        return PortTaken(f"{info.name}: another process took its port", next_step="Try again.")
    return ClusterError(
        f"{info.name} ended while the cluster was starting; the end of its log:\n{_tail(log)}",
        next_step=log_files.what_to_do(text)
        or (
            "If a flag is refused, see extra_args in the cluster definition and the Kubernetes version."
            if "flag" in text
            else "Its log names the cause; the machine's limits and the cluster definition are what it depends on."
        ),
    )


async def _first(watchdog: asyncio.Task[None], work: Coroutine[Any, Any, None]) -> None:
    """Run ``work`` to its end, unless the watchdog raises first."""
    task = asyncio.create_task(work)
    try:
        await asyncio.wait({watchdog, task}, return_when=asyncio.FIRST_COMPLETED)
        if watchdog.done():
            watchdog.result()
        await task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def start(plan: Plan, progress: Progress) -> state.Facts:
    """Start all components and return once all nodes are Ready. Raises ClusterError, PortTaken."""
    start = _begin(plan)
    with Portal() as portal:
        timings = portal.run(supervisor_client.while_running(plan.folder, run(start, progress)))
    progress(
        f"cluster {plan.name}: {plan.definition.node_count} nodes Ready after {timings.all_s:.1f} s "
        f"(API server {timings.ready_s:.1f} s)"
    )
    return _facts(plan, start, timings)


def _begin(plan: Plan) -> components.Start:
    """Start the supervisor and write the components' files meanwhile."""
    # The supervisor holds the ports and the data folder's lock from its start on.
    with contextlib.ExitStack() as held:
        leased = ports.lease(len(components.PORTS))
        held.callback(ports.release, leased)
        locked = ports.descriptors(leased)
        if (data := state.make_data_folder(plan.folder)) is not None:
            held.callback(os.close, data)
            locked.append(data)
        start = components.Start(
            name=plan.name,
            folder=plan.folder,
            definition=plan.definition,
            binaries={name: Path(binary.path) for name, binary in plan.binaries.items()},
            ports=dict(zip(components.PORTS, (port.number for port in leased), strict=True)),
        )
        with launch.supervisor(plan.folder, locked):
            components.write_files(start)
    return start


def _facts(plan: Plan, start: components.Start, timings: Timings) -> state.Facts:
    definition, used = plan.definition, plan.binaries
    manager, api = definition.controller_manager, definition.api_server
    flat: state.Flat = {
        "backend": definition.backend,
        "definition": definition.name,
        "kubernetes": used["kube-apiserver"].version,
        "etcd": used["etcd"].version,
        "kwok": used["kwok"].version,
        "nodes": definition.node_count,
        "apiserver_gomaxprocs": api.gomaxprocs or len(os.sched_getaffinity(0)),
        **launch.control_plane_limits(definition, controllers=",".join(manager.controllers)),
        **kwok.limits(definition),
        "data_on_tmpfs": state.data_folder(start.folder) is not None,
        "audit_level": "Metadata",
        "api_server_ready_s": round(timings.ready_s, 3),
        "nodes_ready_s": round(timings.nodes_ready_s, 3),
        "start_s": round(timings.all_s, 3),
    }
    return state.Facts(
        name=start.name,
        backend=definition.backend,
        definition_digest=launch.digest(definition),
        server=f"https://127.0.0.1:{start.ports['kube-apiserver']}",
        kubernetes=used["kube-apiserver"].version,
        nodes=definition.node_count,
        identities={**{user: user for user in components.IDENTITIES}, "kube-apiserver": components.SERVER_IDENTITY},
        audit_log=str(start.folder / "audit.log"),
        facts=flat,
        binaries={name: binary.path for name, binary in used.items()},
        metrics=components.metrics_endpoints(start),
    )
