"""Python processes of their own that have nothing to import: forks of one that has imported it all.

The tests start some two hundred pytest sessions and a hundred operators, and each would spend up to a second of CPU on
the same imports. These run ``python -m MODULE`` as a new process would: with their own working folder, environment,
descriptors and signals. Tests of what a process imports, of a terminal and of process groups start a new interpreter
instead.
"""

from __future__ import annotations

import atexit
import contextlib
import faulthandler
import functools
import gc
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

_REQUEST_BYTES = 1 << 17
_NO_AUTHORITIES = {"SSL_CERT_FILE": os.devnull, "SSL_CERT_DIR": os.devnull}
"""The system's certificate authorities are not needed here, unless the environment names them. aiohttp reads all of
them when it is imported, twice, which is a quarter of the time that takes."""
_HANGS_AFTER_S = 480
"""A session that runs for so long waits for something that does not come. It writes where and ends, before the limit of
`make test` ends the test that started it, which could not say where."""
# Others could have the mark of a test in them, by which what it has started is found (see `processes.carrying`).
_INHERITED = ("PATH", "LANG", "LC_ALL")


class Process:
    """A running ``python -m MODULE``, with the methods of `subprocess.Popen` that the tests use."""

    stdin = None

    def __init__(
        self,
        module: str,
        arguments: Sequence[str | os.PathLike[str]],
        *,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        streams: tuple[IO[Any], IO[Any]] | None = None,
    ) -> None:
        """``streams``: files of stdout and stderr; without them, both are kept for `communicate`."""
        self.args = [sys.executable, "-m", module, *(os.fspath(argument) for argument in arguments)]
        self.returncode: int | None = None
        # In memory, not a pipe: nobody has to read for the process to go on.
        self._output = -1 if streams else os.memfd_create("output")
        written = [file.fileno() for file in streams] if streams else [self._output] * 2
        self._status, theirs = os.pipe()
        try:
            request = {
                "module": module,
                "arguments": self.args[3:],
                "cwd": os.fspath(cwd or Path.cwd()),
                "env": _NO_AUTHORITIES | dict(env or os.environ),
            }
            server = _server()
            socket.send_fds(server, [json.dumps(request).encode()], [*written, theirs])
            self.pid = int(server.recv(32))
        finally:
            os.close(theirs)

    def poll(self) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            if not select.select([self._status], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
            self.returncode = int(os.read(self._status, 32))
            os.close(self._status)
        return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Return what it wrote to stdout and stderr, in its order; the second is empty."""
        self.wait(timeout)
        with open(self._output, encoding="utf-8") as file:
            file.seek(0)
            return file.read(), ""

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def run_pytest(
    arguments: Sequence[str | os.PathLike[str]], *, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run pytest to its end; return its exit code and, as ``stdout``, what it wrote to both streams."""
    process = Process("pytest", arguments, cwd=cwd, env=env)
    output, _ = process.communicate()
    return subprocess.CompletedProcess(process.args, process.wait(), output, "")


@functools.cache
def _server() -> socket.socket:
    """Start the process that is forked: one for each process of ours, with which it ends."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        server = subprocess.Popen(
            [sys.executable, __file__, str(theirs.fileno())],
            env={name: os.environ[name] for name in _INHERITED if name in os.environ},
            cwd="/",
            stdin=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
        )

    def end() -> None:
        ours.close()
        server.wait()

    atexit.register(end)
    return ours


# ---- in the process that is forked


def _import_all() -> None:
    """Import what an operator does, and a session with a scale test: that through pytest, which rewrites some of it."""
    import pytest

    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        Path("pytest.ini").write_text("[pytest]\n", encoding="utf-8")
        quiet = ["-qq", "-p", "no:cacheprovider", "-p", "no:hypothesispytest", "-p", "no:syrupy", "-p", "no:timeout"]
        with open(os.devnull, "w", encoding="utf-8") as nowhere, contextlib.redirect_stdout(nowhere):
            pytest.main([*quiet, "--grovescale", "--collect-only"])
    for module in (
        "checks.grep498",
        "cluster.local.backend",
        "reference_operator.program",
        "report.html.files",
        "session.preflight",
        "session.run",
        "session.session_summary",
        "session.test_run",
    ):
        __import__(f"pytest_grovescale.{module}")


def _serve(connection: int) -> dict[str, Any]:
    """Fork for each request; tell the child's pid, and its exit code when it has ended. In a child, return its request.

    Ends with the process at the other end.
    """
    server = socket.socket(fileno=connection)
    poller = select.poll()
    poller.register(server, select.POLLIN)
    running: dict[int, tuple[int, int]] = {}
    while True:
        for descriptor, _ in poller.poll():
            if descriptor != connection:
                poller.unregister(descriptor)
                os.close(descriptor)
                pid, status = running.pop(descriptor)
                code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
                # A test that has failed is not interested any more.
                with contextlib.suppress(BrokenPipeError):
                    os.write(status, str(code).encode())
                os.close(status)
                continue
            request, given, _, _ = socket.recv_fds(server, _REQUEST_BYTES, 3)
            if not request:
                sys.exit()
            pid = os.fork()
            if pid == 0:
                server.close()
                os.dup2(given[0], sys.stdout.fileno())
                os.dup2(given[1], sys.stderr.fileno())
                for number in (*given, *running, *(status for _, status in running.values())):
                    os.close(number)
                return dict(json.loads(request))
            stdout, stderr, status = given
            os.close(stdout)
            os.close(stderr)
            watched = os.pidfd_open(pid)
            running[watched] = (pid, status)
            poller.register(watched, select.POLLIN)
            server.send(str(pid).encode())


def _main() -> None:
    _import_all()
    gc.collect()
    # What is there is not to be copied because a collection has looked at it.
    gc.freeze()
    request = _serve(int(sys.argv[1]))
    os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(request["cwd"])
    # As `python -m`, which has the working folder, and what PYTHONPATH names, before all others.
    sys.path[:1] = [request["cwd"], *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    sys.argv[1:] = request["arguments"]
    if request["module"] == "pytest":
        # A copy: while a test runs, pytest keeps what goes to the descriptor itself.
        faulthandler.dump_traceback_later(_HANGS_AFTER_S, exit=True, file=os.dup(sys.stderr.fileno()))
    runpy.run_module(request["module"], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    _main()
