"""The process that owns a cluster's processes: ``python -m pytest_grovescale.cluster.supervisor DIRECTORY``.

It is independent of Kubernetes: it starts processes on request, restarts those that should run, and stops all in order
when the last lease is gone. All its processes die with it (see exec_wrapper.py), however it dies. It polls leases five
times a second: a lock cannot notify about the death of its holder.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec

from .. import log_files, procfs
from ..errors import ClusterError
from ..json_lines import AsyncChannel
from . import lease, processes, state, supervisor_client, teardown_plan
from .processes import OVER_MEMORY, ProcessInfo, ProcessSpec
from .supervisor_client import Answer

_LOOK_S = 0.2
_WRAPPER = str(Path(__file__).with_name("exec_wrapper.py"))
_PASSED_ON = ("PATH", "HOME", "LANG", "TMPDIR", "USER")
_BACKOFF_S = (0.0, 0.2, 0.5, 1.0, 2.0, 5.0)
_CALM_S = 30.0
"""A process that ran at least this long restarts without delay."""
_MOST_FAILURES = 8
"""Consecutive exits of a component, each within `_CALM_S` of its start, after which the cluster ends: no test could
pass on a control plane that does not run."""
_REASON_LINES = 3
_FAST_GROWTH_BYTES = 512 * 1024**2
_MAX_LINE = 16 * 1024**2


class Supervised:
    """A supervised process, and its predecessors under the same name."""

    def __init__(self, spec: ProcessSpec, owner: str, rank: int) -> None:
        self.spec = spec
        self.owners = {owner} - {""}
        """Leases; it is stopped when the last of them has ended. Without any, it belongs to the cluster itself."""
        self.rank = rank
        self.should_run = True
        self.restarts = 0
        self.ended = asyncio.Event()
        self.popen: subprocess.Popen[bytes] | None = None
        self.pid = 0
        self.started_ticks = 0
        self.started_at = 0.0
        self.failures = 0
        self.exit_code: int | None = None

    @property
    def running(self) -> bool:
        return self.popen is not None

    def info(self) -> ProcessInfo:
        return ProcessInfo(
            name=self.spec.name,
            pid=self.pid,
            started_ticks=self.started_ticks,
            log=self.spec.log,
            running=self.running,
            exit_code=self.exit_code,
            restarts=self.restarts,
        )


class Supervisor:
    """Owns the processes of the cluster in ``directory``, which is also the working folder."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._table: dict[str, Supervised] = {}
        self._leases: dict[str, lease.Holder] = {}
        self._unclean: set[str] = set()
        self._ending = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self, listener: socket.socket, ready: Callable[[], None]) -> None:
        """Serve until the last lease is gone, then stop everything in order."""
        server = await asyncio.start_unix_server(self._serve, sock=listener, limit=_MAX_LINE)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            loop.add_signal_handler(number, self._end, number.name)
        self._look_at_leases()
        ready()
        while not self._ending.is_set():
            self._look_at_leases()
            self._look_at_memory()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ending.wait(), _LOOK_S)
        server.close()
        (self._directory / supervisor_client.SOCKET).unlink(missing_ok=True)
        await self._stop_all(list(self._table.values()))

    def _end(self, why: str) -> None:
        """End in order, and log the reason: a killed supervisor logs none."""
        if not self._ending.is_set():
            _log(f"{supervisor_client.ENDING}{why}")
            self._ending.set()

    # ---- leases

    def _look_at_leases(self) -> None:
        present = lease.names(self._directory)
        for name in present:
            if name not in self._leases and (holder := lease.holder(self._directory, name)) is not None:
                self._leases[name] = holder
        for name in list(self._leases):
            if not lease.is_held(self._directory, name):
                # A release removes the file first; an existing file without a lock has a dead holder.
                self._lease_ended(name, clean=not (self._directory / lease.FOLDER / name).exists())
        if not self._leases and not self._kept():
            self._end("the last lease")

    def _lease_ended(self, name: str, *, clean: bool) -> None:
        holder = self._leases.pop(name)
        (self._directory / lease.FOLDER / name).unlink(missing_ok=True)
        _log(f"lease {name} {'released' if clean else 'left behind: its holder died'}")
        owned = [supervised for supervised in self._table.values() if name in supervised.owners]
        for supervised in owned:
            supervised.owners.discard(name)
        left = "" if clean else name
        self._spawn_task(self._after_lease([one for one in owned if not one.owners], holder.run_id, left))

    async def _after_lease(self, unowned: list[Supervised], run_id: str, left: str) -> None:
        """Stop processes without an owner, and remove namespaces; ``left``: the lease, if its holder died."""
        await self._stop_all(unowned)
        if run_id and left:
            self._unclean.add(run_id)
        if any(holder.run_id == run_id for holder in self._leases.values()):
            # Other workers of the same run (xdist) continue in namespaces of their own.
            if run_id and left:
                self._sweep(run_id, left)
        elif run_id in self._unclean:
            self._unclean.discard(run_id)
            if self._leases or self._kept():
                self._sweep(run_id)

    def _sweep(self, run_id: str, lease_id: str = "") -> None:
        which = [run_id, lease_id] if lease_id else [run_id]
        spec = ProcessSpec(
            name="-".join(["sweep", *which]),
            argv=[sys.executable, "-m", "pytest_grovescale.cluster.namespace_cleanup", str(self._directory), *which],
            # The whole environment: an exec plugin for credentials may need any variable of the user's.
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
            log=str(self._directory / "logs" / "sweep.log"),
        )
        _log(f"sweeping up after run {run_id}")
        self._table[spec.name] = Supervised(spec, "", 9)
        self._start(self._table[spec.name])

    def _kept(self) -> bool:
        return (self._directory / "kept").exists()

    # ---- processes

    def _start(self, supervised: Supervised) -> None:
        """Start a process. Runs in the main thread, as PR_SET_PDEATHSIG requires."""
        spec = supervised.spec
        limit = 2 * spec.memory_bytes + _FAST_GROWTH_BYTES if spec.memory_bytes else 0
        options = {"parent": os.getpid(), "cores": spec.cores, "data_bytes": limit}
        environment = dict(spec.env) or _minimal_environment()
        environment |= {processes.MARK: str(self._directory), processes.NAME_MARK: spec.name}
        with log_files.appending(Path(spec.log)) as log:
            supervised.popen = subprocess.Popen(
                [sys.executable, "-I", "-S", _WRAPPER, msgspec.json.encode(options).decode(), *spec.argv],
                env=environment,
                cwd=spec.cwd or None,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        supervised.pid = supervised.popen.pid
        supervised.started_ticks = procfs.started_ticks(supervised.pid)
        supervised.started_at = time.monotonic()
        supervised.exit_code = None
        supervised.ended.clear()
        descriptor = os.pidfd_open(supervised.pid)
        asyncio.get_running_loop().add_reader(descriptor, self._exited, supervised, descriptor)
        self._publish()

    def _exited(self, supervised: Supervised, descriptor: int) -> None:
        asyncio.get_running_loop().remove_reader(descriptor)
        os.close(descriptor)
        assert supervised.popen is not None
        # Its children, if any, before its pid (their group's id) is free for reuse.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(supervised.pid, signal.SIGKILL)
        # One that has left the group (a daemon) would work on beside the next of this name, and hold its ports.
        for pid, ticks in processes.marked(self._directory, supervised.spec.name):
            processes.kill(pid, ticks)
        supervised.exit_code = supervised.popen.wait()
        supervised.popen = None
        _log(f"{supervised.spec.name} (pid {supervised.pid}) ended: {supervised.exit_code}")
        supervised.ended.set()
        self._publish()
        if supervised.should_run and supervised.spec.restart:
            self._spawn_task(self._start_again(supervised))
        elif supervised.spec.name.startswith("sweep-"):
            del self._table[supervised.spec.name]
            self._publish()

    async def _start_again(self, supervised: Supervised) -> None:
        calm = time.monotonic() - supervised.started_at > _CALM_S
        supervised.failures = 0 if calm else supervised.failures + 1
        if supervised.failures >= _MOST_FAILURES and not supervised.owners:
            self._end(f"{supervisor_client.FAILED}{_gave_up(supervised)}")
            return
        await asyncio.sleep(_BACKOFF_S[min(supervised.failures, len(_BACKOFF_S) - 1)])
        if supervised.should_run and not self._ending.is_set():
            supervised.restarts += 1
            self._start(supervised)

    async def _stop(self, supervised: Supervised) -> None:
        supervised.should_run = False
        if not supervised.running:
            return
        _signal_group(supervised, signal.SIGTERM)
        try:
            await asyncio.wait_for(supervised.ended.wait(), supervised.spec.stop_grace_s)
        except TimeoutError:
            _log(f"{supervised.spec.name} (pid {supervised.pid}) did not end on SIGTERM")
            _signal_group(supervised, signal.SIGKILL)
            await supervised.ended.wait()

    async def _restart(self, supervised: Supervised) -> ProcessInfo:
        await self._stop(supervised)
        supervised.should_run = True
        self._start(supervised)
        return supervised.info()

    async def _stop_all(self, some: list[Supervised]) -> None:
        for rank in sorted({supervised.rank for supervised in some}, reverse=True):
            await asyncio.gather(*(self._stop(supervised) for supervised in some if supervised.rank == rank))

    def _look_at_memory(self) -> None:
        for supervised in self._table.values():
            limit = supervised.spec.memory_bytes
            if limit and supervised.running and (used := procfs.memory_bytes(supervised.pid)) > limit:
                with Path(supervised.spec.log).open("a", encoding="utf-8") as log:
                    log.write(f"{OVER_MEMORY}, {limit / 1e6:,.0f} MB: it had {used / 1e6:,.0f} MB of resident memory\n")
                _signal_group(supervised, signal.SIGKILL)

    def _publish(self) -> None:
        listed = {name: supervised.info() for name, supervised in self._table.items()}
        try:
            state.write(self._directory / "processes.json", listed)
        except OSError as error:
            # A full disk must not prevent the restart of a component.
            _log(f"processes.json cannot be written: {error}")

    # ---- requests

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        channel: AsyncChannel[supervisor_client.Request] = AsyncChannel(reader, writer, supervisor_client.Request)
        try:
            try:
                request = await channel.hear()
                if request is None:
                    return
                answer = await self._answer(request)
            except (ClusterError, msgspec.MsgspecError) as error:
                answer = Answer(error=str(error))
            except OSError as error:
                answer = Answer(error=f"the supervisor in {self._directory}: {_refused(error)}")
            channel.say(answer)
        except ValueError as error:
            _log(f"a request broke off: {error}")
        finally:
            await channel.close()

    async def _answer(self, request: supervisor_client.Request) -> Answer:
        match request:
            case supervisor_client.StatusWanted():
                return Answer(status=self._status())
            case supervisor_client.Bye(name):
                # The file is gone already; check now, so that the answer includes the consequences.
                self._look_at_leases()
                return Answer(ending=self._ending.is_set())
            case supervisor_client.Down():
                self._end(supervisor_client.DOWN)
                return Answer(ending=True)
        if self._ending.is_set():
            raise ClusterError("the cluster is being stopped")
        match request:
            case supervisor_client.Hello(name):
                self._look_at_leases()
                if name not in self._leases:
                    raise ClusterError(f"there is no lease {name}")
                return Answer()
            case supervisor_client.Keep(on):
                kept = self._directory / "kept"
                kept.touch() if on else kept.unlink(missing_ok=True)
                return Answer()
            case supervisor_client.ShareProcess(name, owner):
                return Answer(process=self._share(name, owner))
            case supervisor_client.StopProcess(name):
                if name not in self._table:
                    raise ClusterError(f"there is no process {name!r} on this cluster")
                await self._stop(self._table[name])
                return Answer(process=self._table[name].info())
            case supervisor_client.RestartProcess(name):
                if name not in self._table:
                    raise ClusterError(f"there is no process {name!r} on this cluster")
                return Answer(process=await self._restart(self._table[name]))
            case supervisor_client.StartProcess(spec, owner, rank):
                return Answer(process=await self._start_new(spec, owner, rank))

    async def _start_new(self, spec: ProcessSpec, owner: str, rank: int) -> ProcessInfo:
        former = self._table.get(spec.name)
        if former is not None and (former.running or (former.should_run and former.spec.restart)):
            raise ClusterError(f"a process {spec.name!r} runs already (pid {former.pid})")
        if owner and owner not in self._leases:
            raise ClusterError(f"the lease {owner} is gone")
        supervised = Supervised(spec, owner, rank)
        supervised.restarts = former.restarts if former is not None else 0
        try:
            self._start(supervised)
        except OSError as error:
            raise ClusterError(f"{spec.name} cannot be started: {_refused(error)}") from error
        self._table[spec.name] = supervised
        self._publish()
        return supervised.info()

    def _share(self, name: str, owner: str) -> ProcessInfo:
        shared = self._table.get(name)
        if shared is None or not shared.running or not shared.should_run:
            raise ClusterError(f"no process {name!r} runs on this cluster")
        if owner not in self._leases:
            raise ClusterError(f"the lease {owner} is gone")
        if shared.owners:
            shared.owners.add(owner)
        return shared.info()

    def _status(self) -> supervisor_client.Status:
        return supervisor_client.Status(
            kept=self._kept(),
            leases=[{"lease": name, **msgspec.to_builtins(holder)} for name, holder in self._leases.items()],
            processes={name: supervised.info() for name, supervised in self._table.items()},
        )

    def _spawn_task(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._task_done)

    def _task_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log("".join(traceback.format_exception(error)))


def _signal_group(supervised: Supervised, number: int) -> None:
    # Each has a session of its own; until it is reaped, its pid identifies its group only.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(supervised.pid, number)


def _gave_up(supervised: Supervised) -> str:
    """Return one line with the component that could not be kept running, and the end of its log."""
    reason = " | ".join(log_files.last_lines(Path(supervised.spec.log), _REASON_LINES))
    return f"{supervised.spec.name} exited {supervised.failures} times in a row; the end of its log: {reason}"


def _refused(error: OSError) -> str:
    return f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror)


def _minimal_environment() -> dict[str, str]:
    """Return the environment of control plane components: without the user's proxies, KUBECONFIG and GO* variables."""
    return {name: os.environ[name] for name in _PASSED_ON if name in os.environ}


def _log(text: str) -> None:
    sys.stderr.write(f"{time.strftime('%H:%M:%S')} {text.rstrip()}\n")
    sys.stderr.flush()


def main(directory: Path, ready_fd: int) -> None:
    """Own the cluster in ``directory``; write one byte to ``ready_fd`` when requests are served."""
    # Fork again, so that the starting process is not the parent: its death, its wait() and its children stay
    # unaffected.
    if os.fork():
        os._exit(0)
    os.chdir(directory)
    me = state.Owner(pid=os.getpid(), started_ticks=procfs.started_ticks(os.getpid()), boot_id=processes.boot_id())
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    # Relative: an address holds 107 bytes, a folder's path may be longer.
    listener.bind(supervisor_client.SOCKET)
    listener.listen(64)
    state.write(directory / "supervisor.json", me)
    os.set_blocking(ready_fd, False)

    def ready() -> None:
        _log(f"serving cluster {directory.name} as pid {me.pid}")
        with contextlib.suppress(BrokenPipeError):
            os.write(ready_fd, b"1")
        os.close(ready_fd)

    asyncio.run(Supervisor(directory).run(listener, ready))
    try:
        teardown_plan.run(directory)
    except ClusterError as error:
        # Kept for the next start, or `grovescale down`, which retry and report errors.
        _log(str(error))
        return
    state.remove(directory)


if __name__ == "__main__":
    # Inherited port locks (and the pipe) must not reach children: subprocess closes them, this makes sure.
    main(Path(sys.argv[1]), int(sys.argv[2]))
