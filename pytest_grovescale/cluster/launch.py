"""Starting a cluster, of whatever backend: its lease, its supervisor, itself; or nothing, if anything fails."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from ..errors import ClusterError
from . import at_end, lease, processes, protocol, state
from .binaries import Binary
from .definition import ClusterDefinition
from .lease import Lease
from .ports import PortTaken
from .protocol import SupervisorGone

Progress = Callable[[str], None]

_GONE_S = 60.0
_PORT_ATTEMPTS = 3


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be started, and for whom."""

    name: str
    folder: Path
    definition: ClusterDefinition
    binaries: Mapping[str, Binary]
    """What `binaries.needed` names, found."""
    run_id: str = ""
    allowed_contexts: tuple[str, ...] = ()
    """Contexts of a kubeconfig that may be used although they are not on this machine."""
    standing: bool = False
    """Whether it is made by ``grovescale up``."""


Backend = Callable[[Plan, Progress], state.Facts]
"""Brings a cluster up in its folder, which is there and empty but for our lease, and says what it is.

It starts a supervisor, and writes down what undoes the rest (``at_end.plan``) before it does it. When it raises, the
caller ends the supervisor and has that done.
"""


def settled(definition: ClusterDefinition) -> ClusterDefinition:
    """Return the definition with all settled that it leaves to its surroundings. Raises ClusterError."""
    if definition.backend == "existing":
        from .existing import reaching

        return reaching.settled(definition)
    return definition


def digest(definition: ClusterDefinition) -> str:
    """Return what tells whether two clusters were asked for alike."""
    return state.digest(msgspec.json.encode(definition))


def start(plan: Plan, progress: Progress) -> tuple[state.Facts, Lease]:
    """Start a cluster and return once its nodes are Ready. Call with the start lock held and nothing there."""
    bring_up = _backend(plan.definition.backend)
    attempts = 0
    while True:
        attempts += 1
        try:
            return _start_once(plan, bring_up, progress)
        except PortTaken as error:
            if attempts == _PORT_ATTEMPTS:
                raise
            progress(f"cluster {plan.name}: {error.message}; once more with other ports")


def _backend(name: str) -> Backend:
    # Each imports what it alone needs, and only when it is used.
    match name:
        case "kind":
            from .kind import start as kind

            return kind.start
        case "existing":
            from .existing import start as existing

            return existing.start
        case _:
            from .local import start as local

            return local.start


def _start_once(plan: Plan, bring_up: Backend, progress: Progress) -> tuple[state.Facts, Lease]:
    plan.folder.mkdir(mode=0o700, parents=True)
    # Before there is a supervisor: it ends as soon as it sees none.
    held = lease.take(plan.folder, run_id=plan.run_id)
    try:
        facts = msgspec.structs.replace(bring_up(plan, progress), standing=plan.standing)
        state.write(plan.folder / "cluster.json", facts)
    except BaseException:
        held.release()
        if (owner := state.owner(plan.folder)) is not None:
            end(plan.folder, owner)
        state.clear_stale(plan.folder)
        raise
    return facts, held


def end(folder: Path, owner: state.Owner) -> None:
    """Make a supervisor stop its cluster, and wait until it is gone."""
    patience = _GONE_S + at_end.longest_s(folder)
    # Nobody answers: it is starting, or on its way out.
    with contextlib.suppress(SupervisorGone):
        protocol.ask(folder, protocol.Down())
    if not processes.wait_gone(owner.pid, owner.started_ticks, patience):
        processes.kill(owner.pid, owner.started_ticks)
        processes.wait_gone(owner.pid, owner.started_ticks, _GONE_S)


@contextlib.contextmanager
def supervisor(folder: Path, locked: Sequence[int]) -> Iterator[None]:
    """Start the supervisor, run the block meanwhile, and return when it serves.

    ``locked``: descriptors of locks that it holds, too, from then on, as of ports and of the data's folder.
    """
    reading, writing = os.pipe()
    try:
        log = os.open(folder / "supervisor.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            # It forks once more and lives on by itself; what is waited for below is only the first half.
            starter = subprocess.Popen(
                [sys.executable, "-m", "pytest_grovescale.cluster.supervisor", str(folder), str(writing)],
                cwd=Path(__file__).parents[2],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                pass_fds=[writing, *locked],
            )
        finally:
            os.close(log)
            os.close(writing)
        try:
            yield
        finally:
            starter.wait()
        if os.read(reading, 1) != b"1":
            text = (folder / "supervisor.log").read_text(encoding="utf-8", errors="replace")
            raise ClusterError(f"the supervisor did not start:\n{text}", next_step="Please report this.")
    finally:
        os.close(reading)
