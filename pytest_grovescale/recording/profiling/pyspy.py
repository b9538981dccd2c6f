"""py-spy, attached to a Python process: at 100 Hz, all threads, the process stopped for each sample.

Not ``--nonblocking``: 30 to 45 % of its stacks were torn. Not ``--subprocesses``: children are separate processes, and
py-spy runs an extra thread per process that polls for children.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import signal
import sys
import sysconfig
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Self

import msgspec

from ... import procfs
from ...cluster import exec_wrapper
from ...procfs import Identity, identity
from .capture import ATTACH_S, FINISH_S, ProfileFailed, Taken

RATE = 100
"""Samples per second; 1000 made a busy process 23 % slower."""

_ATTACHED = "Sampling process"
_COUNTS = re.compile(r"Samples: (\d+) Errors: (\d+)")
_TAIL_LINES = 30
_YAMA = Path("/proc/sys/kernel/yama/ptrace_scope")
_EXEC_S = 10.0
_LISTENS_S = 0.5
_LOOK_S = 0.01


def executable() -> str:
    """Return the path of py-spy in this environment, or else on PATH. Raises ProfileFailed when there is none."""
    own = Path(sysconfig.get_path("scripts")) / "py-spy"
    found = str(own) if own.is_file() else shutil.which("py-spy")
    if found is None:
        raise ProfileFailed("py-spy is not installed", next_step=f"Install it: {sys.executable} -m pip install py-spy")
    return found


async def exec_done(process: Identity) -> None:
    """Return once a process that the supervisor has just forked has become the operator.

    Until then it is a Python interpreter too, and py-spy would keep looking for the threads of that one.
    """
    wrapper = str(exec_wrapper.__file__).encode()
    await _until(lambda: identity(process.pid) != process or wrapper not in _command_line(process.pid), _EXEC_S)


class PySpy:
    """One ``py-spy record``. It ends with this process, and detaches from its target first."""

    def __init__(self, target: Identity, file: Path, process: asyncio.subprocess.Process) -> None:
        self._target = target
        self._file = file
        self._process = process
        self._tail: deque[str] = deque(maxlen=_TAIL_LINES)
        self._sampling = asyncio.Event()
        self._stopped = False
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def attached(cls, target: Identity, file: Path, *, program: str = "") -> Self:
        """Return self once it samples. Raises ProfileFailed."""
        arguments = ["record", "--format", "raw", "--rate", str(RATE), "--threads"]
        arguments += ["--output", str(file), "--pid", str(target.pid)]
        process = await _mortal(program or executable(), *arguments, death=signal.SIGINT)
        capture = cls(target, file, process)
        await capture._wait_until_it_samples()
        return capture

    async def _wait_until_it_samples(self) -> None:
        attached = asyncio.create_task(self._sampling.wait())
        try:
            await asyncio.wait({attached, self._reading}, timeout=ATTACH_S, return_when=asyncio.FIRST_COMPLETED)
            if attached.done():
                await self._wait_until_it_can_be_stopped()
                return
            if self._reading.done():
                raise self._failure()
            raise ProfileFailed(
                f"py-spy did not attach to pid {self._target.pid} within {ATTACH_S:g} s",
                next_step="The machine may be overloaded: use fewer nodes or replicas for the profiled pass.",
            )
        except BaseException:
            await self._end()
            raise
        finally:
            attached.cancel()

    async def _wait_until_it_can_be_stopped(self) -> None:
        """Return once py-spy handles SIGINT, which is shortly after its message that it samples."""
        await _until(lambda: _catches(self._process.pid, signal.SIGINT), _LISTENS_S)

    def stop(self) -> None:
        """Make py-spy write its file. Sends SIGINT: after SIGTERM or SIGHUP it writes none."""
        if not self._stopped:
            self._stopped = True
            _send(self._process, signal.SIGINT)

    async def finish(self) -> Taken:
        """Return the number of samples; py-spy ends by itself when its target does."""
        try:
            async with asyncio.timeout(FINISH_S):
                await self._reading
                code = await self._process.wait()
        except TimeoutError:
            raise ProfileFailed(
                f"py-spy did not write its profile within {FINISH_S:g} s",
                next_step="A profile with very many different stacks takes long: profile a shorter phase.",
            ) from None
        finally:
            await self._end()
        counts = _COUNTS.search("\n".join(self._tail))
        if code != 0 or counts is None or not self._file.is_file():
            raise self._failure()
        return Taken(samples=int(counts[1]), errors=int(counts[2]))

    async def _read(self) -> None:
        assert self._process.stdout is not None  # a pipe
        async for line in self._process.stdout:
            text = line.decode(errors="replace").strip()
            if text:
                self._tail.append(text)
            if _ATTACHED in text:
                self._sampling.set()

    async def _end(self) -> None:
        """End py-spy, and continue a target that it left stopped."""
        _send(self._process, signal.SIGKILL)
        self._reading.cancel()
        await asyncio.wait({self._reading})
        if await self._process.wait() < 0:
            _let_run(self._target)

    def _failure(self) -> ProfileFailed:
        code = self._process.returncode
        if code is not None and code < 0:
            return ProfileFailed(
                f"py-spy was ended by {signal.Signals(-code).name}",
                next_step="See the machine's log for what ended it (the kernel, when memory ran out).",
            )
        return explained("\n".join(self._tail))


def explained(output: str) -> ProfileFailed:
    """Return py-spy's error message with its remedy."""
    said = next((line.removeprefix("Error: ") for line in output.splitlines() if line.startswith("Error: ")), "")
    message = f"py-spy could not read the process: {said or output.strip().partition(chr(10))[0] or 'it said nothing'}"
    lowered = output.lower()
    if "permission denied" in lowered or "operation not permitted" in lowered or "eperm" in lowered:
        # py-spy's own first line guesses that the process has ended.
        return ProfileFailed("py-spy is not permitted to read the process", next_step=permission_remedy())
    if "find python version" in lowered or "find a python" in lowered:
        return ProfileFailed(
            message, next_step="It seems to be no Python process: set `profiler: pprof` or `off` in its definition."
        )
    if "no such process" in lowered or "check that the process is running" in lowered:
        return ProfileFailed(message, next_step="The process had ended: see the operator's log.")
    return ProfileFailed(message, next_step="Try it by hand: py-spy dump --pid PID.")


def permission_remedy() -> str:
    """Return what the user can do to let py-spy attach here."""
    scope = _YAMA.read_text(encoding="ascii").strip() if _YAMA.is_file() else ""
    if scope in ("2", "3"):
        how = "needs a reboot to change" if scope == "3" else "sudo sysctl kernel.yama.ptrace_scope=1"
        return f"This kernel allows ptrace to root only (kernel.yama.ptrace_scope={scope}): {how}"
    return (
        "It needs ptrace: run as the operator's user; in a container add the capability SYS_PTRACE "
        "(docker run --cap-add SYS_PTRACE; securityContext.capabilities.add in a pod)"
        + ("; or sudo sysctl kernel.yama.ptrace_scope=0" if scope == "1" else "")
    )


async def dump(process: Identity, *, captured: bool, program: str = "") -> str:
    """Return the stacks of all threads. ``captured``: a capture runs, and only one tool may stop the process at a time.

    Raises ProfileFailed. The caller sets the time limit; cancelled, it leaves nothing behind.
    """
    # Full paths: only the file shows whether a frame belongs to the operator, a library or Python.
    arguments = ["dump", "--full-filenames", "--pid", str(process.pid), *(["--nonblocking"] if captured else [])]
    running = await _mortal(program or executable(), *arguments, death=signal.SIGKILL)
    try:
        output, _ = await running.communicate()
    finally:
        if running.returncode is None:
            _send(running, signal.SIGKILL)
            await running.wait()
            _let_run(process)
    text = output.decode(errors="replace")
    if running.returncode != 0:
        raise explained(text)
    return text


async def _mortal(*command: str, death: signal.Signals) -> asyncio.subprocess.Process:
    """Start a program that receives the signal ``death`` when this process dies, for whatever reason."""
    options = {"parent": os.getpid(), "cores": None, "data_bytes": 0, "signal": int(death)}
    wrapper = [sys.executable, "-I", "-S", str(exec_wrapper.__file__), msgspec.json.encode(options).decode()]
    return await asyncio.create_subprocess_exec(
        *wrapper,
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )


def _send(process: asyncio.subprocess.Process, wanted: signal.Signals) -> None:
    """Send a signal, unless the process has ended.

    asyncio's ``send_signal`` polls first and takes the exit code from asyncio, which then reports 255.
    """
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, wanted)


async def _until(holds: Callable[[], bool], seconds: float) -> None:
    """Poll until a condition holds or the time is over."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while not holds():
        if loop.time() >= deadline:
            return
        await asyncio.sleep(_LOOK_S)


def _let_run(process: Identity) -> None:
    """Continue a process that a killed py-spy left stopped: the SIGSTOP by which it attached may outlive it."""
    found = procfs.stat(process.pid)
    if found is not None and found.started_ticks == process.started_ticks and found.state == "T":
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGCONT)


def _catches(pid: int, number: signal.Signals) -> bool:
    """Return whether a process handles a signal; True for one that has ended."""
    status = procfs.read_bytes(f"/proc/{pid}/status").decode(errors="replace")
    if not status:
        return True
    caught = next((line.split()[1] for line in status.splitlines() if line.startswith("SigCgt:")), "0")
    return bool(int(caught, 16) >> (number - 1) & 1)


def _command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""
