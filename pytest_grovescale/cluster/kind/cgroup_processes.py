"""Host processes of containers: those of a pod's container, and the control plane's in a kind node.

A container's processes are processes of the host that runs the engine; their cgroup's path contains the container id.
So their CPU clocks are as exact as those of any other process. If the engine runs in a virtual machine, or this process
is in a pid namespace of its own, no process is identified, and none is guessed.

The cluster's supervisor runs ``python -m pytest_grovescale.cluster.kind.cgroup_processes FOLDER``: it writes
``container_processes.json``, in the format of ``processes.json``, and follows restarts of components and of the node.
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

from ...atomic_write import write_private
from ...errors import ClusterError
from .. import processes, state
from ..processes import ProcessInfo, ProcessSpec
from . import container_engine

FILE = "container_processes.json"
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


class HostProcess(msgspec.Struct, frozen=True):
    """An identified process."""

    pid: int
    started_ticks: int

    def info(self, name: str, *, log: str = "") -> ProcessInfo:
        """Return it in the recorder's format."""
        return ProcessInfo(name=name, pid=self.pid, started_ticks=self.started_ticks, log=log, running=True)


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """A node's container; input of the program."""

    executable: str
    name: str
    followed: tuple[str, ...] = COMPONENTS
    """Programs in it whose CPU clocks are read."""


def main_processes(container_ids: Collection[str], proc: Path = Path("/proc")) -> dict[str, HostProcess]:
    """Return the first process of each container by container id; containers without a visible process are omitted.

    The first process is the one whose parent is outside the container.
    """
    members: dict[str, set[int]] = {}
    for pid in _pids(proc):
        cgroups = _read(proc / str(pid) / "cgroup")
        for container_id in container_ids:
            if container_id in cgroups:
                members.setdefault(container_id, set()).add(pid)
    by_container: dict[str, HostProcess] = {}
    for container_id, pids in members.items():
        roots = [process for pid in sorted(pids) if (process := _root(pid, pids, proc)) is not None]
        if roots:
            by_container[container_id] = roots[0]
    return by_container


def components(init: int, names: Collection[str] = COMPONENTS, proc: Path = Path("/proc")) -> dict[str, HostProcess]:
    """Return the control plane's components below a node's first process, by name."""
    by_comm = {name[:_COMM]: name for name in names}
    by_name: dict[str, HostProcess] = {}
    for pid in processes.descendants(init):
        name = by_comm.get(_read(proc / str(pid) / "comm").strip(), "")
        stat = _stat(pid, proc)
        if name and stat is not None:
            by_name.setdefault(name, HostProcess(pid, stat[1]))
    return by_name


def init_of(node: Node, proc: Path = Path("/proc")) -> int | None:
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
    seen = pid not in ("", "0") and container_id in _read(proc / pid / "cgroup")
    return int(pid) if seen else None


def spec(folder: Path, container: state.Container, log: Path, more: Collection[str] = ()) -> ProcessSpec:
    """Return the process that a cluster's supervisor runs to follow the node's components.

    ``more``: further programs in the node to follow.
    """
    node = Node(executable=container.engine, name=container.name, followed=(*COMPONENTS, *more))
    state.write(folder / _TASK, node)
    return ProcessSpec(
        name=NAME,
        argv=[sys.executable, "-m", "pytest_grovescale.cluster.kind.cgroup_processes", str(folder)],
        env=container_engine.environment(container_engine.of_executable(node.executable), os.environ)
        | {"PYTHONPATH": str(Path(__file__).parents[3])},
        log=str(log),
        restart=True,
    )


def follow(node: Node, file: Path) -> Iterator[str]:
    """Write the components' processes whenever they change; yield each reason why one is not visible. Never returns."""
    known: dict[str, HostProcess] = {}
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


def _settled(init: int, awaited: set[str], followed: Collection[str], file: Path) -> dict[str, HostProcess]:
    """Return the components once all awaited ones are there, or after the time limit."""
    deadline = time.monotonic() + _PATIENCE_S
    known: dict[str, HostProcess] = {}
    while True:
        current = components(init, followed)
        if current != known:
            known = current
            infos = {name: process.info(name) for name, process in known.items()}
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


def _pids(proc: Path) -> list[int]:
    return [int(entry.name) for entry in proc.iterdir() if entry.name.isdigit()]


def _root(pid: int, members: set[int], proc: Path) -> HostProcess | None:
    stat = _stat(pid, proc)
    return HostProcess(pid, stat[1]) if stat is not None and stat[0] not in members else None


def _stat(pid: int, proc: Path) -> tuple[int, int] | None:
    """Return parent and start time of a running process, fields 4 and 22 of proc_pid_stat(5)."""
    text = _read(proc / str(pid) / "stat")
    fields = text[text.rfind(")") + 2 :].split()
    return (int(fields[1]), int(fields[19])) if fields and fields[0] not in "ZX" else None


def _read(file: Path) -> str:
    # Processes may end meanwhile.
    with contextlib.suppress(OSError):
        return file.read_text(encoding="utf-8", errors="replace")
    return ""


def main(folder: Path) -> None:
    """Follow the node of a cluster's folder until terminated; print each problem once."""
    node = msgspec.json.decode((folder / _TASK).read_bytes(), type=Node)
    last = ""
    for text in follow(node, folder / FILE):
        if text != last:
            last = text
            sys.stderr.write(f"{text}\n")
            sys.stderr.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
