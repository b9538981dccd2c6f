"""The programs of one fault: a run, its output, its processes by name, and the processes that remain."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from .definitions import Ended, Limit, Point, Size, Victim
from .folders import SCENARIO, Folders

_LINES: Mapping[Point, str] = {
    "start": "etcd and kube-apiserver started",
    "nodes": "nodes created",
    "operator": "operator reference: starting",
    "deploy": "deploy: begins",
    "steady-state": "steady-state: begins",
    "delete": "delete: begins",
    "teardown": "delete: passed",
    "failure": "deploy: failed",
}
_MODULES: Mapping[Victim, str] = {
    "recorder": "pytest_grovescale.recording",
    "supervisor": "pytest_grovescale.cluster.supervisor",
    "operator": "pytest_grovescale.reference_operator",
}
_OUTPUT_S = 5.0
"""How long the pipe of an ended run may stay open, held by processes that it started, s."""
_COMMAND_LENGTH = 160


class Running:
    """A program, in its own process group, and its output so far."""

    def __init__(
        self,
        command: Sequence[str],
        folders: Folders,
        environment: Mapping[str, str],
        *,
        limit: Limit | None = None,
        lines: int | None = None,
    ) -> None:
        """Start it. ``lines``: after this many, its output is no longer read, and the pipe is closed."""
        self._began = time.monotonic()
        self._changed = threading.Condition()
        self._output: list[str] = []
        self._closed = False
        self._lines = lines
        self._process = subprocess.Popen(
            list(command),
            cwd=folders.project,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=_limiting(limit) if limit is not None else None,
            user=folders.uid or None,
            group=folders.uid or None,
            extra_groups=[] if folders.uid else None,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def output(self) -> str:
        with self._changed:
            return "".join(self._output)

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as pipe:
            for number, line in enumerate(pipe, start=1):
                with self._changed:
                    self._output.append(line.decode(errors="replace"))
                    self._changed.notify_all()
                if number == self._lines:
                    break
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def reaches(self, text: str, within_s: float) -> bool:
        """Return whether the output contains a text; waits for that, its end or the time limit."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or any(text in line for line in self._output), within_s)
            return any(text in line for line in self._output)

    def reaches_point(self, point: Point, within_s: float) -> bool:
        return self.reaches(_LINES[point], within_s)

    def ends(self, within_s: float) -> Ended:
        """Return how it ended; kill it with its group ``within_s`` after its start."""
        code: int | None
        try:
            code = self._process.wait(max(0.0, self._began + within_s - time.monotonic()))
        except subprocess.TimeoutExpired:
            code = None
        seconds = time.monotonic() - self._began
        if code is None:
            self.kill()
        self._reader.join(_OUTPUT_S)
        return Ended(exit=code, seconds=round(seconds, 1), output=self.output)

    def kill(self) -> None:
        """Kill it with its process group."""
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            return
        self._process.wait()


def _limiting(limit: Limit) -> Callable[[], None]:
    number = getattr(resource, f"RLIMIT_{limit.resource}")
    return lambda: resource.setrlimit(number, (limit.value, limit.value))


def scale_test(folders: Folders, size: Size) -> list[str]:
    """Return the command of one run."""
    return [
        *(sys.executable, "-m", "pytest", "--grovescale", "-p", "no:cacheprovider", "-p", "no:hypothesispytest"),
        *(SCENARIO, "--grovescale-operator=reference", f"--grovescale-nodes={size.nodes}"),
        f"--grovescale-reports={folders.reports}",
        *(f"--grovescale-param=replicas={size.replicas}", f"--grovescale-param=hold={size.hold_s}s"),
        *("--grovescale-param=deploy_timeout=90s", "--grovescale-param=delete_timeout=60s"),
    ]


def grovescale(*arguments: str) -> list[str]:
    """Return a command of the command line."""
    return [sys.executable, "-m", "pytest_grovescale.cli", *arguments]


def find(victim: Victim, run: Running) -> int:
    """Return the pid of one of a run's processes; 0: not found."""
    if victim == "harness":
        return run.pid
    module = _MODULES.get(victim, "")
    fitting = [
        pid for pid, command in commands().items() if (module in command if module else Path(command[0]).name == victim)
    ]
    # The supervisor forks: the last process is the permanent one.
    return max(fitting, key=_started, default=0)


def commands() -> dict[int, list[str]]:
    """Return pid → command line of all processes of this namespace but this one and its first."""
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) in (1, os.getpid()):
            continue
        try:
            command = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        # A zombie has none: it only awaits reaping.
        if command:
            found[int(entry.name)] = command.rstrip(b"\0").decode(errors="replace").split("\0")
    return found


def _started(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[19])
    except OSError:
        return 0


def left_running(within_s: float) -> tuple[str, ...]:
    """Return the command lines of all processes, once there is none or the time limit has passed."""
    deadline = time.monotonic() + within_s
    while (running := commands()) and time.monotonic() < deadline:
        time.sleep(0.2)
    return tuple(" ".join(command)[:_COMMAND_LENGTH] for command in running.values())


def end_all() -> None:
    """Kill all processes in this namespace, so that the next run begins without them."""
    for pid in commands():
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
