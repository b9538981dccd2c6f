"""The kind program: ``kind create cluster``, run by the supervisor, its removal, and its other commands."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from ... import log_files, redaction
from ...errors import ClusterError, GrovescaleError
from .. import processes, state, supervisor_client, teardown_plan
from ..ports import PortTaken
from ..processes import ProcessInfo, ProcessSpec
from ..supervisor_client import StartProcess, Supervision
from .container_engine import Engine, environment, environment_with_proxies

Progress = Callable[[str], None]

PROCESS = "kind-create"

_CREATE_S = 900.0
_EXPORT_S = 60.0
_DELETE_S = 120.0
_EVERY_S = 0.1
_TAIL_LINES = 20
_STEP = re.compile(r"^ (?P<state>[•✓✗]) (?P<step>[ -~]*[A-Za-z0-9)])", re.MULTILINE)
_FRAME = re.compile(r"^\S+\n\t\S+:\d+\n?", re.MULTILINE)
"""A stack frame: a function and, in the next line, its source position."""

_PORT_TAKEN = ("address already in use", "port is already allocated")


def call(kind: str, engine: Engine, *arguments: str, timeout_s: float) -> str:
    """Run one command of kind and return its output. Raises ClusterError with kind's error output."""
    argv = [kind, *arguments]
    try:
        done = subprocess.run(
            argv,
            env=environment(engine, os.environ),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _call_failed(argv, str(error)) from error
    if done.returncode != 0:
        raise _call_failed(argv, done.stderr.strip() or done.stdout.strip())
    return done.stdout


def _call_failed(argv: list[str], why: str) -> ClusterError:
    return ClusterError(f"kind {' '.join(argv[1:3])} failed: {why}", next_step=f"See: {shlex.join(argv)}")


def plan_deletion(folder: Path, *, kind: str, engine: Engine, name: str) -> None:
    """Store the teardown command of the cluster before any part of it exists."""
    command = teardown_plan.Command(
        argv=[kind, "delete", "cluster", "--name", name, "--kubeconfig", str(folder / "pki" / "kind.kubeconfig")],
        env=environment(engine, os.environ),
        log=str(folder / "logs" / "kind-delete.log"),
        timeout_s=_DELETE_S,
    )
    teardown_plan.plan(folder, command)


def create(folder: Path, *, kind: str, engine: Engine, name: str, configuration: str, progress: Progress) -> None:
    """Create the cluster of a configuration and return when kind has finished.

    Raises PortTaken if another process took a port meanwhile; else ClusterError with the end of kind's log. The
    containers stay on an error: ``plan_deletion`` removes them, after ``logs_kept`` has saved their logs.
    """
    file = folder / "kind.yaml"
    file.write_text(configuration, encoding="utf-8")
    log = folder / "logs" / f"{PROCESS}.log"
    spec = ProcessSpec(
        name=PROCESS,
        # Keep the nodes of a failed creation: their logs show the reason.
        argv=[
            *(kind, "create", "cluster", "--name", name, "--config", str(file), "--retain"),
            *("--kubeconfig", str(folder / "pki" / "kind.kubeconfig")),
        ],
        env=environment_with_proxies(engine, os.environ),
        cwd=str(folder),
        log=str(log),
    )
    info = supervisor_client.ask(folder, StartProcess(spec=spec)).process
    assert info is not None  # a request to start a process is answered with it
    with contextlib.closing(Supervision(folder)) as supervision:
        ended = _follow(supervision, info, log, lambda step: progress(f"cluster {name}: {step}"))
    if ended.exit_code != 0:
        raise _failed(name, log)


@contextlib.contextmanager
def logs_kept(folder: Path, *, kind: str, engine: Engine, name: str) -> Iterator[None]:
    """Save the logs of a cluster if the block fails after kind has begun; the error names their location.

    Whatever fails: kind, its timeout, or the cluster that it created. All else of the cluster is removed.
    """
    log = folder / "logs" / f"{PROCESS}.log"
    try:
        yield
    except PortTaken:
        # Retried at once, with other ports.
        raise
    except GrovescaleError as error:
        if not log.exists():
            raise
        kept = _keep_logs(kind, engine, name, log)
        steps = [error.next_step, f"Nothing of it is left but its logs, in {kept}."]
        raise ClusterError(error.message, next_step=" ".join(filter(None, steps))) from error


def _follow(supervision: Supervision, started: ProcessInfo, log: Path, report: Progress) -> ProcessInfo:
    """Report each step of kind as progress, and return how kind ended.

    Raises ClusterError when it takes too long, and when the supervisor, its parent process, has ended or is stopped.
    """
    reported = 0
    deadline = time.monotonic() + _CREATE_S
    while True:
        info = state.process_list(supervision.folder).get(PROCESS, started)
        steps = list(steps_done(log.read_text(encoding="utf-8", errors="replace")))
        for step in steps[reported:]:
            report(step)
        reported = len(steps)
        if not info.running:
            return info
        if time.monotonic() > deadline:
            raise ClusterError(
                f"kind create has not ended within {_CREATE_S:.0f} s; the end of its log:\n{_tail(log)}",
                next_step="A machine that is very busy may need a second try.",
            )
        supervision.check(f"cluster {supervision.folder.name} ended while it was starting")
        # kind has ended; the supervisor reports its exit code a moment later.
        if processes.wait_gone(info.pid, info.started_ticks, _EVERY_S):
            time.sleep(_EVERY_S)


def steps_done(text: str) -> Iterator[str]:
    """Yield the completed steps from kind's output, without markup: ``Preparing nodes``."""
    for match in _STEP.finditer(text):
        if match["state"] == "✓":
            yield match["step"].strip()


def _failed(name: str, log: Path) -> ClusterError:
    text = log.read_text(encoding="utf-8", errors="replace")
    if any(words in text.lower() for words in _PORT_TAKEN):
        return PortTaken(f"another process took a port of cluster {name}", next_step="Try again.")
    return ClusterError(f"kind could not create cluster {name}; the end of its log:\n{_tail(log)}")


def _keep_logs(kind: str, engine: Engine, name: str, log: Path) -> Path:
    """Save kind's output and the node's logs outside the cluster's folder, which is removed; return their location."""
    kept = state.root() / "logs" / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}"
    kept.mkdir(mode=0o700, parents=True, exist_ok=True)
    (kept / log.name).write_bytes(log.read_bytes())
    try:
        output = call(kind, engine, "export", "logs", str(kept), "--name", name, timeout_s=_EXPORT_S)
    except ClusterError as error:
        # No node yet, or the engine no longer runs.
        output = str(error)
    (kept / "export.log").write_text(redaction.text(output), encoding="utf-8")
    return kept


def _tail(log: Path) -> str:
    lines = without_stack_traces(log_files.end_of(log)).splitlines()[-_TAIL_LINES:]
    return "\n".join(f"  {line}" for line in lines)


def without_stack_traces(text: str) -> str:
    """Return kind's output without the call stacks that kubeadm adds to each error, which are longer than the rest."""
    return _FRAME.sub("", text)
