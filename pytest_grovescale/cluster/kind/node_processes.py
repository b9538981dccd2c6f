"""The host processes of a kind node's control plane: found, and followed over restarts of components and of the node.

The cluster's supervisor runs ``python -m pytest_grovescale.cluster.kind.node_processes FOLDER``: it writes
``container_processes.json``, in the format of ``processes.json``. Their CPU clocks are as exact as those of any other
process of this host; see ``procfs.first_of_containers`` for hosts where they are not visible.
"""

from __future__ import annotations

import contextlib
import os
import select
import sys
import time
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

import msgspec

from ... import procfs
from ...atomic_write import write_private
from ...errors import ClusterError
from ...procfs import Identity
from .. import processes, state
from ..processes import ProcessSpec
from . import container_engine

NAME = "container-processes"
"""Process name at the supervisor."""

COMPONENTS = (
    "kube-apiserver",
    "etcd",
    "kube-controller-manager",
    "kube-scheduler",
    "kubelet",
    "containerd",
)

_COMM = 15
"""Maximum length of a program's name in the kernel, proc_pid_comm(5)."""
_AGAIN_S = 0.5
_PATIENCE_S = 30.0
"""Time limit for a component to appear, s; then it counts as missing."""

_TASK = "container_processes_of.json"


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """A node's container; input of the program."""

    executable: str
    name: str
    followed: tuple[str, ...] = COMPONENTS
    """Programs in it whose CPU clocks are read."""


def components(init: int, names: Collection[str] = COMPONENTS) -> dict[str, Identity]:
    """Return the control plane's components below a node's first process, by name."""
    by_comm = {name[:_COMM]: name for name in names}
    by_name: dict[str, Identity] = {}
    for pid in procfs.descendants(init):
        name = by_comm.get(procfs.read_bytes(f"/proc/{pid}/comm").decode(errors="replace").strip(), "")
        ticks = procfs.started_ticks(pid)
        if name and ticks:
            by_name.setdefault(name, Identity(pid, ticks))
    return by_name


def init_of(node: Node) -> int | None:
    """Return the first process of a node's container; None if it runs on another host, or not at all.

    Raises ClusterError if the engine does not answer.
    """
    inspected = container_engine.call(
        container_engine.of_executable(node.executable),
        "container",
        "inspect",
        "--format",
        "{{.Id}} {{.State.Pid}}",
        node.name,
    )
    container_id, _, pid = inspected.strip().partition(" ")
    # An engine in a virtual machine reports pids of that machine, which may be unrelated processes here.
    seen = pid not in ("", "0") and container_id in procfs.read_bytes(f"/proc/{pid}/cgroup").decode(errors="replace")
    return int(pid) if seen else None


def spec(folder: Path, container: state.Container, log: Path, more: Collection[str] = ()) -> ProcessSpec:
    """Return the process that a cluster's supervisor runs to follow the node's components.

    ``more``: further programs in the node to follow.
    """
    node = Node(executable=container.engine, name=container.name, followed=(*COMPONENTS, *more))
    state.write(folder / _TASK, node)
    return ProcessSpec(
        name=NAME,
        argv=[sys.executable, "-m", "pytest_grovescale.cluster.kind.node_processes", str(folder)],
        env=container_engine.environment(container_engine.of_executable(node.executable), os.environ)
        | {"PYTHONPATH": str(Path(__file__).parents[3])},
        log=str(log),
        restart=True,
    )


def follow(node: Node, file: Path) -> Iterator[str]:
    """Write the components' processes whenever they change; yield each reason why one is not visible. Never returns."""
    known: dict[str, Identity] = {}
    while True:
        try:
            init = init_of(node)
        except ClusterError as error:
            yield error.message
            init = None
        if init is not None:
            known = _settled(init, set(known) or set(node.followed), node.followed, file)
            _until_one_ends([init, *(process.pid for process in known.values())])
        else:
            yield f"the processes of {node.name} are none of this host's, or it does not run"
            time.sleep(_AGAIN_S)


def _settled(init: int, awaited: set[str], followed: Collection[str], file: Path) -> dict[str, Identity]:
    """Return the components once all awaited ones are there, or after the time limit."""
    deadline = time.monotonic() + _PATIENCE_S
    known: dict[str, Identity] = {}
    while True:
        current = components(init, followed)
        if current != known:
            known = current
            infos = {name: processes.info_of(process, name) for name, process in known.items()}
            write_private(file, msgspec.json.encode(infos))
        if (known and awaited <= set(known)) or time.monotonic() > deadline:
            return known
        time.sleep(_AGAIN_S)


def _until_one_ends(pids: Iterable[int]) -> None:
    poll = select.poll()
    with contextlib.ExitStack() as open_descriptors:
        for pid in pids:
            try:
                descriptor = os.pidfd_open(pid)
            except ProcessLookupError:
                return
            open_descriptors.callback(os.close, descriptor)
            poll.register(descriptor, select.POLLIN)
        poll.poll()


def main(folder: Path) -> None:
    """Follow the node of a cluster's folder until terminated; print each problem once."""
    node = msgspec.json.decode((folder / _TASK).read_bytes(), type=Node)
    last = ""
    for text in follow(node, folder / state.CONTAINER_PROCESSES):
        if text != last:
            last = text
            sys.stderr.write(f"{text}\n")
            sys.stderr.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
