"""The process that stands for an operator's pods:
``python -m pytest_grovescale.operator.pods.pod_supervisor FOLDER``.

The proxy does not pass credentials on; endpoints that require them are reached through a forward.

The cluster's supervisor owns it like any process. It follows the pods and the Lease by watch, collects their logs,
finds their processes if these run on this host, and writes all of this to files. At its end, for whatever reason, it
deletes the Deployment and waits until the pods are gone: so pods end with the lease of their users, as a process does.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path
from typing import BinaryIO

import msgspec

from ... import procfs
from ...cluster import processes
from ...cluster import state as clusters
from ...errors import GrovescaleError
from ...kube import subresources
from ...kube.client import Client
from ...kube.errors import ApiError, BadRequest, NotFound
from ...kube.informer import Change, Followed, follow
from ...kube.resources import Resource
from ...kube.subresources import PODS, PortForward
from .. import install
from ..operator_state import PROCESS
from . import state
from .replicas import FollowedPod, Replica, holds, leader, replica_of
from .state import Kept, Task

_BLOCK = 1 << 16


class Forwarder:
    """Listens on loopback; forwards each connection to the pod that is leader at that time.

    ``on_error`` is called with the text of each error.
    """

    def __init__(
        self, client: Client, namespace: str, port: int, leader: Callable[[], str], on_error: Callable[[str], None]
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._port = port
        self._leader = leader
        self._on_error = on_error
        self._server: asyncio.Server | None = None

    async def open(self) -> int:
        """Listen, and return the allocated port."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        number: int = self._server.sockets[0].getsockname()[1]
        return number

    def close(self) -> None:
        """Accept no more connections."""
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if pod := self._leader():
                async with subresources.port_connection(self._client, self._namespace, pod, self._port) as connection:
                    await _exchange(reader, writer, connection)
        except (GrovescaleError, OSError) as error:
            self._on_error(f"port {self._port}: {error}")
        finally:
            # No leader, or the exchange has ended: the reader sees its connection close.
            writer.close()


async def _exchange(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, connection: PortForward) -> None:
    """Copy bytes in both directions until one side closes."""
    ways = [asyncio.create_task(_up(reader, connection)), asyncio.create_task(_down(writer, connection))]
    try:
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for way in ways:
            if way.done():
                way.result()
    finally:
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)


async def _up(reader: asyncio.StreamReader, connection: PortForward) -> None:
    with contextlib.suppress(ConnectionResetError):
        while data := await reader.read(_BLOCK):
            await connection.send(data)


async def _down(writer: asyncio.StreamWriter, connection: PortForward) -> None:
    async for data in connection.received():
        writer.write(data)
        await writer.drain()


_RESUME_S = 0.5
_LAST_WORDS_S = 5.0


class Logs:
    """Follows the container of each replica from its start until it has ended and its log is complete."""

    def __init__(self, client: Client, namespace: str, container: str, file: BinaryIO) -> None:
        self._client = client
        self._namespace = namespace
        self._container = container
        self._file = file
        self._current: dict[str, str] = {}
        """Pod's uid → id of its current container."""
        self._running: set[str] = set()
        self._tasks: dict[str, asyncio.Task[None]] = {}
        """Container id → task that reads it."""

    def see(self, replica: Replica) -> None:
        """Update a replica: follow a new container."""
        if not replica.container_id:
            return
        if replica.running:
            self._running.add(replica.container_id)
        else:
            self._running.discard(replica.container_id)
        if self._current.get(replica.uid) == replica.container_id:
            return
        self._current[replica.uid] = replica.container_id
        if replica.restarts:
            text = f"--- container restarted ({replica.restarts}): the one before: {replica.last_end}"
            self._write(replica.pod, text)
        task = asyncio.create_task(self._follow(replica.pod, replica.uid, replica.container_id))
        self._tasks[replica.container_id] = task
        task.add_done_callback(lambda done: self._tasks.pop(replica.container_id, None))

    def gone(self, replica: Replica) -> None:
        """Update after the end of a pod."""
        self._running.discard(replica.container_id)

    async def close(self) -> None:
        """Return when the logs of ended containers are complete; running ones are not awaited."""
        if self._tasks:
            await asyncio.wait(list(self._tasks.values()), timeout=_LAST_WORDS_S)
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _follow(self, pod: str, uid: str, container_id: str) -> None:
        """Read one container's log to its end."""
        last = broken = ""

        def took(line: subresources.Line) -> None:
            nonlocal last, broken
            broken = ""
            # A resumed stream repeats the second in which the last one was disconnected.
            if line.moment > last:
                last = line.moment
                self._write(pod, line.text)

        while True:
            replaced = self._current.get(uid) != container_id
            ended = False
            try:
                await self._stream(pod, took, since=last, previous=replaced)
                ended = True
            except NotFound:
                return
            except BadRequest:
                # It has not started yet; or it was replaced twice meanwhile, and the kubelet keeps one.
                ended = replaced
            except ApiError as error:
                # Retried twice a second: one line per distinct reason.
                if error.message != broken:
                    self._write(pod, f"--- its log broke off: {error.message}")
                broken = error.message
            await asyncio.sleep(_RESUME_S)
            if ended and (replaced or container_id not in self._running):
                return

    async def _stream(self, pod: str, took: Callable[[subresources.Line], None], *, since: str, previous: bool) -> None:
        lines = subresources.follow(self._client, self._namespace, pod, self._container, since=since, previous=previous)
        async with aclosing(lines) as stream:
            async for line in stream:
                took(line)

    def _write(self, pod: str, text: str) -> None:
        self._file.write(f"{pod}: {text}\n".encode())
        self._file.flush()


NAME = "operator-pods"
"""Process name at the supervisor."""

LEASES = Resource(group="coordination.k8s.io", version="v1", plural="leases", kind="Lease", namespaced=True)

_AGAIN_S = 2.0
_LOOK_S = 0.1
_LONGEST_LOOK_S = 5.0


class _LeaseSpec(msgspec.Struct, frozen=True, rename="camel"):
    holder_identity: str | None = None


class _Lease(Followed, frozen=True):
    spec: _LeaseSpec = _LeaseSpec()


class Keeper:
    """Follows the pods of one operator."""

    def __init__(self, folder: Path, task: Task, client: Client) -> None:
        self._folder = folder
        self._task = task
        self._client = client
        self._replicas: dict[str, Replica] = {}
        """Replicas by uid."""
        self._leases: dict[str, str] = {}
        """``namespace/name`` → holder, of Leases that may be the operator's."""
        self._problem = ""
        self._forwards: dict[int, int] = {}
        self._live = False
        self._kept = Kept()
        self._changed = asyncio.Event()

    async def run(self, stop: asyncio.Event, log: BinaryIO) -> None:
        """Follow until ``stop`` is set; then remove the operator. ``log`` receives the pods' output."""
        logs = Logs(self._client, self._task.namespace, self._task.container, log)
        forwarders = await self._forward()
        tasks = [asyncio.create_task(self._pods(logs))]
        if self._task.lease is not None:
            tasks.append(asyncio.create_task(self._lease(self._task.lease)))
        if self._task.node is not None:
            tasks.append(asyncio.create_task(self._processes()))
        ended = asyncio.create_task(stop.wait())
        done, _ = await asyncio.wait([*tasks, ended], return_when=asyncio.FIRST_COMPLETED)
        try:
            for task in done - {ended}:
                # None of these tasks ends by itself, except by a bug.
                task.result()
            await self._remove()
        finally:
            for forwarder in forwarders:
                forwarder.close()
            for task in (*tasks, ended):
                task.cancel()
            await asyncio.gather(*tasks, ended, return_exceptions=True)
            await logs.close()

    async def _forward(self) -> list[Forwarder]:
        """Open a local port for each requested forward."""
        task = self._task
        opened = {
            port: Forwarder(self._client, task.namespace, port, lambda: self._kept.leader, _say)
            for port in task.forwards
        }
        self._forwards = {port: await forwarder.open() for port, forwarder in opened.items()}
        return list(opened.values())

    # ---- inputs

    async def _pods(self, logs: Logs) -> None:
        while True:
            try:
                changes = follow(
                    self._client, PODS, self._task.namespace, label_selector=self._task.selector, shape=FollowedPod
                )
                async with aclosing(changes) as watched:
                    async for change in watched:
                        self._problem = ""
                        self._take(change, logs)
            except ApiError as error:
                await self._refused(f"its pods cannot be followed: {error.message}")

    def _take(self, change: Change, logs: Logs) -> None:
        if change.kind == "live":
            self._live = True
        if isinstance(change.object, FollowedPod):
            replica = replica_of(change.object, self._task.container)
            if change.kind == "gone":
                self._replicas.pop(replica.uid, None)
                logs.gone(replica)
            else:
                self._replicas[replica.uid] = replica
                logs.see(replica)
        self._report()

    async def _lease(self, wanted: str) -> None:
        namespace, _, name = wanted.rpartition("/")
        selector = f"metadata.name={name}" if name else ""
        while True:
            try:
                changes = follow(
                    self._client, LEASES, namespace or self._task.namespace, field_selector=selector, shape=_Lease
                )
                async with aclosing(changes) as watched:
                    async for change in watched:
                        self._take_lease(change)
            except ApiError as error:
                await self._refused(f"its Lease cannot be followed: {error.message}")

    def _take_lease(self, change: Change) -> None:
        if not isinstance(change.object, _Lease):
            return
        key = f"{change.object.metadata.namespace}/{change.object.metadata.name}"
        if change.kind == "gone":
            self._leases.pop(key, None)
        else:
            self._leases[key] = change.object.spec.holder_identity or ""
        self._report()

    async def _refused(self, problem: str) -> None:
        self._problem = problem
        self._report()
        await asyncio.sleep(_AGAIN_S)

    # ---- outputs

    def _report(self) -> None:
        lease = self._lease_in_force()
        holder = None if self._task.lease is None else self._leases.get(lease, "")
        works = leader(self._replicas.values(), holder)
        kept = Kept(
            replicas={replica.pod: replica for replica in self._replicas.values()},
            leader=works.pod if works is not None else "",
            lease=lease,
            live=self._live,
            forwards=self._forwards,
            problem=self._problem,
        )
        if kept != self._kept:
            self._kept = kept
            state.write(self._folder, kept)
            # A new event for the next change: tasks that wait for this one may be slow.
            self._changed, changed = asyncio.Event(), self._changed
            changed.set()

    def _lease_in_force(self) -> str:
        """Return the Lease that determines the leader: the configured one, or one that a pod holds.

        A detected Lease stays selected without a holder: so a failover shows its moment without a leader.
        """
        if self._task.lease:
            return next(iter(self._leases), "")
        if self._kept.lease in self._leases:
            return self._kept.lease
        pods = [replica.pod for replica in self._replicas.values()]
        held = (key for key, holder in sorted(self._leases.items()) if any(holds(pod, holder) for pod in pods))
        return next(held, "")

    async def _processes(self) -> None:
        """Find the pods' processes on this host, as they start and end."""
        known: dict[str, procfs.Identity] = {}
        tries = 0
        while True:
            changed = self._changed
            wanted = {replica.container_id: replica for replica in self._kept.replicas.values() if replica.running}
            missing = [container_id for container_id in wanted if container_id not in known]
            if missing:
                known |= await asyncio.to_thread(procfs.first_of_containers, missing)
            known = {container_id: found for container_id, found in known.items() if container_id in wanted}
            self._publish({wanted[container_id].pod: found for container_id, found in known.items()})
            if set(wanted) <= set(known):
                tries = 0
                await changed.wait()
            else:
                # The runtime's own program execs the container's within milliseconds; a process on another host never
                # appears.
                await asyncio.sleep(min(_LOOK_S * 2**tries, _LONGEST_LOOK_S))
                tries += 1

    def _publish(self, found: dict[str, procfs.Identity]) -> None:
        named = {PROCESS if pod == self._kept.leader else f"replica/{pod}": process for pod, process in found.items()}
        infos = {name: processes.info_of(process, name, log=self._task.log) for name, process in named.items()}
        if infos != state.processes(self._folder):
            state.write_processes(self._folder, infos)

    # ---- removal

    async def _remove(self) -> None:
        """Delete webhook configurations and Deployment; return when the pods are gone."""
        task = self._task
        await install.remove(self._client, task.configurations)
        if not await install.remove_deployment(self._client, task.namespace, task.deployment, operator=task.operator):
            _say(f"there is no Deployment {task.namespace}/{task.deployment} of this operator to remove")
            return
        async with asyncio.timeout(install.PODS_GONE_S):
            while self._kept.replicas or not self._kept.live:
                await self._changed.wait()


async def _keep(folder: Path, task: Task, log: BinaryIO) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    access = clusters.access(Path(task.cluster), "harness")
    async with Client(access, user_agent="grovescale-operator-pods") as client:
        await Keeper(folder, task, client).run(stop, log)


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def main() -> int:
    """Keep the operator of the folder in the command line running until terminated; return the exit code."""
    folder = Path(sys.argv[1])
    try:
        task = state.task(folder)
        with Path(task.log).open("ab") as log:
            asyncio.run(_keep(folder, task, log))
    except (ApiError, TimeoutError, OSError, msgspec.DecodeError) as error:
        _say(f"{type(error).__name__}: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
