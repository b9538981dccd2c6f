"""The one operator that runs on a cluster: its state in the cluster's folder, and who holds it."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

import msgspec

from ..atomic_write import write_private
from ..cluster import locks
from ..cluster.handle import Cluster, ProcessSpec
from ..cluster.supervisor_client import SupervisorGone, SupervisorStopped
from ..errors import ClusterError
from ..kube.client import Client
from ..kube.portal import Portal
from . import fault_proxy, install
from .command import Launch
from .fault_proxy import FaultProxy
from .manifests import Object
from .pods.definition import Chosen
from .schema import OperatorDefinition

PROCESS = "operator"
"""Name of the operator and of its process in recordings. One operator per cluster at a time."""


class Running(msgspec.Struct, frozen=True, kw_only=True, tag_field="runs_as"):
    """State of the operator that runs on a cluster; stored there so that other processes can share it."""

    definition: OperatorDefinition
    spec: ProcessSpec
    """The process at the supervisor that is the operator, or that keeps its pods; the operator ends with it."""
    log: str
    folder: str
    """Contains its kubeconfig, token and certificates: 0700, removed after its stop."""
    ours: list[Object]
    """Objects that its start created in the cluster, in order."""
    configurations: list[Object]
    """Its webhook configurations; they must not outlive it."""
    pid: int
    """Pid of the process that started it."""
    proxy: FaultProxy | None = None
    """The proxy on its way to the API server; None: there is none."""


class RunningProcess(Running, frozen=True, kw_only=True, tag="process"):
    """An operator that runs as a process of this host."""

    launch: Launch
    provided: dict[str, str]


class RunningPods(Running, frozen=True, kw_only=True, tag="pods"):
    """An operator that runs as pods of the cluster."""

    deployment: Chosen


AnyRunning = RunningProcess | RunningPods


OBJECTS = "operator-objects"
"""Lock shared by sessions that created an operator's objects in a cluster; the last of them removes the objects."""


class Hold:
    """A share in the running operator, or in `OBJECTS`, released by the kernel when this process dies."""

    def __init__(self, cluster: Cluster, what: str = PROCESS) -> None:
        self._path = cluster.directory / f"{what}.users"
        self._file: BinaryIO | None = locks.take(self._path, shared=True)

    @property
    def released(self) -> bool:
        return self._file is None

    def release(self) -> bool:
        """Release the share; return whether it was the last one."""
        if self._file is None:
            return False
        self._file.close()
        self._file = None
        last = locks.take(self._path, wait=False)
        if last is None:
            return False
        last.close()
        return True


@contextlib.contextmanager
def transition(cluster: Cluster) -> Iterator[None]:
    """Serialize starts and stops of the operator on a cluster."""
    with locks.held(cluster.directory / f"{PROCESS}.lock"):
        yield


def state_file(cluster: Cluster) -> Path:
    """Return the state file of a cluster's operator."""
    return cluster.directory / f"{PROCESS}.json"


def write(cluster: Cluster, running: AnyRunning) -> None:
    """Store the state of a started operator, and the list of objects that it created in the cluster."""
    write_private(state_file(cluster), msgspec.json.encode(running).decode())
    _write_objects(cluster, [*objects(cluster), *map(_named, running.ours)])


def objects(cluster: Cluster) -> list[Object]:
    """Return the objects that operators created in a cluster since its last clean-up, by name, in order.

    They outlive the operator, so that its next start finds them.
    """
    try:
        return msgspec.json.decode((cluster.directory / f"{OBJECTS}.json").read_bytes(), type=list[Object])
    except FileNotFoundError:
        return []


def forget_objects(cluster: Cluster, gone: Sequence[Object]) -> None:
    """Remove deleted objects from that list."""
    _write_objects(cluster, [obj for obj in objects(cluster) if obj not in gone])


def _write_objects(cluster: Cluster, found: Iterable[Object]) -> None:
    once = {msgspec.json.encode(obj, order="sorted"): obj for obj in found}
    write_private(cluster.directory / f"{OBJECTS}.json", msgspec.json.encode(list(once.values())))


def _named(obj: Object) -> Object:
    metadata = {key: obj["metadata"][key] for key in ("name", "namespace") if key in obj["metadata"]}
    return {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "metadata": metadata}


_decode: msgspec.json.Decoder[AnyRunning] = msgspec.json.Decoder(AnyRunning)


def known(cluster: Cluster) -> AnyRunning | None:
    """Return the last operator that was started and not stopped; it may have died."""
    try:
        return _decode.decode(state_file(cluster).read_bytes())
    except FileNotFoundError:
        return None


def shared(cluster: Cluster, running: AnyRunning) -> bool:
    """Return whether an operator runs; it then stays at least as long as this process' lease on the cluster."""
    if not is_alive(cluster, running):
        return False
    try:
        cluster.share_process(running.spec.name)
        if running.proxy is not None:
            cluster.share_process(fault_proxy.PROCESS)
    except ClusterError:
        # It has just ended, or is being stopped.
        return False
    return True


def is_alive(cluster: Cluster, running: AnyRunning) -> bool:
    """Return whether the operator's process, or its pods' keeper, runs."""
    info = cluster.processes().get(running.spec.name)
    return info is not None and info.running


def stop(cluster: Cluster, running: AnyRunning) -> None:
    """Stop the operator, then remove all that must not outlive it."""
    try:
        if cluster.ended():
            # The supervisor has ended its processes and its API server.
            return
        # Its proxy last: until then the operator can finish what it does.
        for name in (running.spec.name, fault_proxy.PROCESS):
            if name in cluster.processes():
                # A stopped supervisor ends it when it continues and the lease is over; the release reports that.
                with contextlib.suppress(SupervisorStopped):
                    cluster.stop_process(name)
        if running.configurations or isinstance(running, RunningPods):
            with Portal() as portal:
                portal.run(_clear(portal.client(cluster.access_as("harness")), running))
    except SupervisorGone:
        # The process ended with the supervisor, and so did the API server.
        return
    finally:
        shutil.rmtree(running.folder, ignore_errors=True)
        state_file(cluster).unlink(missing_ok=True)


async def _clear(client: Client, running: AnyRunning) -> None:
    """Remove leftovers of its process, which exist only if it was killed."""
    await install.remove(client, running.configurations)
    if isinstance(running, RunningPods):
        chosen = running.deployment
        if await install.remove_deployment(client, chosen.namespace, chosen.name, operator=running.definition.name):
            await install.wait_pods_gone(client, chosen.namespace, chosen.selector)
