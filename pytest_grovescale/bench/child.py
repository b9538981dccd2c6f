"""A pytest process that measures for a driver: started, followed, interrupted; it ends with the driver."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from .. import log_files, redaction
from ..cluster import machine_lock
from ..json_lines import Channel

DRIVER = "GROVESCALE_DRIVER_FD"
"""Environment variable: number of the descriptor that reaches EOF when the driver ends."""

_INTERRUPTED_S = 120.0
_LOOK_S = 0.25
_TAIL_LINES = 25

Follow = Callable[[str], None]
"""Receives the last line that the process has written."""


class Child:
    """A running pytest process. Its output goes to a file that outlives this process."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.log = log
        self._process = process
        self._read = log.stat().st_size
        self._interrupted = False

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait(self, follow: Follow = lambda line: None) -> int:
        """Return its exit code once it has ended."""
        while not self.ends_within(_LOOK_S):
            self.look(follow)
        return self._process.wait()

    def ends_within(self, seconds: float) -> bool:
        """Return whether it has ended, or ends within so many seconds."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
        return self.has_ended()

    def has_ended(self) -> bool:
        """Return whether it has ended."""
        return self._process.poll() is not None

    def look(self, follow: Follow) -> None:
        """Report the last line of output since the previous call, if any."""
        with self.log.open("rb") as file:
            file.seek(self._read)
            new = file.read()
        self._read += len(new)
        lines = new.decode(errors="replace").split("\n")
        if written := [line.strip() for line in lines if line.strip()]:
            follow(redaction.text(written[-1]))

    def interrupt(self) -> None:
        """Make it clean up and end, as Ctrl-C would. Further calls have no effect."""
        if not self._interrupted and not self.has_ended():
            self._process.send_signal(signal.SIGINT)
        self._interrupted = True

    def end(self) -> None:
        """Interrupt it as Ctrl-C would, and return once it has cleaned up and ended; kill it after 2 minutes."""
        self.interrupt()
        try:
            self._process.wait(_INTERRUPTED_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def tail(self) -> list[str]:
        """Return the last lines of its output."""
        return log_files.last_lines(self.log, _TAIL_LINES)


@contextlib.contextmanager
def running(
    arguments: Sequence[str],
    *,
    log: Path,
    lock: int,
    connections: Mapping[str, socket.socket] = MappingProxyType({}),
) -> Iterator[Child]:
    """Start ``python -m pytest ARGUMENTS``; it has ended when the block ends.

    ``lock``: descriptor of the machine lock, which the process shares. ``connections``: its ends of sockets, by the
    environment variable that names each. If this process dies, even by SIGKILL, the other interrupts itself
    (`end_with`).
    """
    theirs, ours = os.pipe()
    handed_on = {DRIVER: theirs, machine_lock.INHERITED: lock}
    handed_on |= {variable: connection.fileno() for variable, connection in connections.items()}
    try:
        # A process group of its own: Ctrl-C at the terminal reaches the driver, which ends its children in order.
        with log_files.appending(log) as output, _interruptible():
            process = subprocess.Popen(
                [sys.executable, "-m", "pytest", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=_environment(handed_on),
                pass_fds=tuple(handed_on.values()),
                process_group=0,
            )
        child = Child(process, log)
        try:
            yield child
        finally:
            child.end()
    finally:
        os.close(theirs)
        os.close(ours)


@contextlib.contextmanager
def connected(
    arguments: Sequence[str], answers: Any, *, variable: str, log: Path, lock: int
) -> Iterator[tuple[Child, Channel[Any]]]:
    """As `running`, with a channel to the process.

    ``answers``: type of its messages; ``variable``: the environment variable that names its end of the socket.
    """
    ours, theirs = socket.socketpair()
    with contextlib.ExitStack() as stack:
        channel: Channel[Any] = Channel(ours, answers)
        stack.callback(channel.close)
        with theirs:
            process = stack.enter_context(running(arguments, log=log, lock=lock, connections={variable: theirs}))
        yield process, channel


def end_with(descriptor: int) -> None:
    """Interrupt this process, once, when the driver that holds the other end of a pipe is gone.

    The kernel's death signal is unsuitable: it repeats for each thread of the driver, during the cleanup.
    """

    def listen() -> None:
        os.read(descriptor, 1)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=listen, name="grovescale-driver", daemon=True).start()


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """Make child processes interruptible even where this one is not: a shell's background job ignores SIGINT."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _environment(handed_on: Mapping[str, int]) -> dict[str, str]:
    # The summary of a CI job gets the comparison, not each of its runs.
    inherited = {name: value for name, value in os.environ.items() if name != "GITHUB_STEP_SUMMARY"}
    return inherited | {name: str(number) for name, number in handed_on.items()}
