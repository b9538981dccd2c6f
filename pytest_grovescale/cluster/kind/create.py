"""``kind create cluster``, run by the cluster's supervisor: it ends with whoever asked for it, however that ends."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from ... import log_files, redaction
from ...errors import ClusterError, GrovescaleError
from .. import at_end, processes, protocol, state
from ..ports import PortTaken
from ..protocol import ProcessInfo, ProcessSpec, StartProcess
from ..supervision import Supervision
from . import command, environment
from .engine import Engine

Progress = Callable[[str], None]

PROCESS = "kind-create"

_CREATE_S = 900.0
_EXPORT_S = 60.0
_DELETE_S = 120.0
_EVERY_S = 0.1
_TAIL_LINES = 20
_STEP = re.compile(r"^ (?P<state>[•✓✗]) (?P<step>[ -~]*[A-Za-z0-9)])", re.MULTILINE)
_FRAME = re.compile(r"^\S+\n\t\S+:\d+\n?", re.MULTILINE)
"""A function and, below it, its place in a file."""

_PORT_TAKEN = ("address already in use", "port is already allocated")


def plan_deletion(folder: Path, *, kind: str, engine: Engine, name: str) -> None:
    """Write down how the cluster is deleted, before anything of it is there."""
    command = at_end.Command(
        argv=[kind, "delete", "cluster", "--name", name, "--kubeconfig", str(folder / "pki" / "kind.kubeconfig")],
        env=environment.to_delete(engine, os.environ),
        log=str(folder / "logs" / "kind-delete.log"),
        timeout_s=_DELETE_S,
    )
    at_end.plan(folder, command)


def create(folder: Path, *, kind: str, engine: Engine, name: str, configuration: str, progress: Progress) -> None:
    """Make the cluster that a configuration describes and return when kind has done its part.

    Raises PortTaken when a port was taken meanwhile; else ClusterError with the end of kind's log. The containers are
    there still: ``plan_deletion`` is what removes them, after ``logs_kept`` has saved what they say.
    """
    file = folder / "kind.yaml"
    file.write_text(configuration, encoding="utf-8")
    log = folder / "logs" / f"{PROCESS}.log"
    spec = ProcessSpec(
        name=PROCESS,
        # Retained when it fails: its logs are what tells why.
        argv=[
            *(kind, "create", "cluster", "--name", name, "--config", str(file), "--retain"),
            *("--kubeconfig", str(folder / "pki" / "kind.kubeconfig")),
        ],
        env=environment.to_create(engine, os.environ),
        cwd=str(folder),
        log=str(log),
    )
    info = protocol.ask(folder, StartProcess(spec=spec)).process
    assert info is not None  # a request to start a process is answered with it
    with contextlib.closing(Supervision(folder)) as supervision:
        ended = _follow(supervision, info, log, lambda step: progress(f"cluster {name}: {step}"))
    if ended.exit_code != 0:
        raise _failed(name, log)


@contextlib.contextmanager
def logs_kept(folder: Path, *, kind: str, engine: Engine, name: str) -> Iterator[None]:
    """Save the logs of a cluster that fails in the block, once kind has begun with it; the error says where they are.

    Whatever fails: kind, its end that does not come, or the cluster that it has made. All else of it goes.
    """
    log = folder / "logs" / f"{PROCESS}.log"
    try:
        yield
    except PortTaken:
        # Tried again at once, with others.
        raise
    except GrovescaleError as error:
        if not log.exists():
            raise
        kept = _keep_logs(kind, engine, name, log)
        steps = [error.next_step, f"Nothing of it is left but its logs, in {kept}."]
        raise ClusterError(error.message, next_step=" ".join(filter(None, steps))) from error


def _follow(supervision: Supervision, started: ProcessInfo, log: Path, tell: Progress) -> ProcessInfo:
    """Tell each step of kind as it is done, and return how it ended.

    Raises ClusterError when it takes too long, and when the supervisor, whose child it is, has ended or is stopped.
    """
    told = 0
    deadline = time.monotonic() + _CREATE_S
    while True:
        info = state.process_list(supervision.folder).get(PROCESS, started)
        steps = list(steps_done(log.read_text(encoding="utf-8", errors="replace")))
        for step in steps[told:]:
            tell(step)
        told = len(steps)
        if not info.running:
            return info
        if time.monotonic() > deadline:
            raise ClusterError(
                f"kind create has not ended within {_CREATE_S:.0f} s; the end of its log:\n{_tail(log)}",
                next_step="A machine that is very busy may need a second try.",
            )
        supervision.check(f"cluster {supervision.folder.name} ended while it was starting")
        # It has ended, but not everybody knows: its exit code comes from the supervisor.
        if processes.wait_gone(info.pid, info.started_ticks, _EVERY_S):
            time.sleep(_EVERY_S)


def steps_done(text: str) -> Iterator[str]:
    """Yield the steps that kind's output says are done, in plain words: ``Preparing nodes``."""
    for match in _STEP.finditer(text):
        if match["state"] == "✓":
            yield match["step"].strip()


def _failed(name: str, log: Path) -> ClusterError:
    text = log.read_text(encoding="utf-8", errors="replace")
    if any(words in text.lower() for words in _PORT_TAKEN):
        return PortTaken(f"a port of cluster {name} was taken by somebody else", next_step="Try again.")
    return ClusterError(f"kind could not create cluster {name}; the end of its log:\n{_tail(log)}")


def _keep_logs(kind: str, engine: Engine, name: str, log: Path) -> Path:
    """Save kind's output and the logs of the node out of the cluster's folder, which goes; return where."""
    kept = state.root() / "logs" / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}"
    kept.mkdir(mode=0o700, parents=True, exist_ok=True)
    (kept / log.name).write_bytes(log.read_bytes())
    try:
        told = command.call(kind, engine, "export", "logs", str(kept), "--name", name, timeout_s=_EXPORT_S)
    except ClusterError as error:
        # Where there is no node yet, or no engine any more.
        told = str(error)
    (kept / "export.log").write_text(redaction.text(told), encoding="utf-8")
    return kept


def _tail(log: Path) -> str:
    lines = told(log_files.end_of(log)).splitlines()[-_TAIL_LINES:]
    return "\n".join(f"  {line}" for line in lines)


def told(text: str) -> str:
    """Return kind's output without the call stack that kubeadm adds to each error: longer than all there is to say."""
    return _FRAME.sub("", text)
