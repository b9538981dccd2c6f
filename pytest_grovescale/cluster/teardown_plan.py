"""Teardown commands of a cluster, run after its processes have ended.

They delete its container, or remove its objects from a foreign cluster. Each command is stored in the cluster's folder
before the resource that it removes is created. The supervisor runs them at the end; if it was killed, the next start or
``grovescale down`` does.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import msgspec

from .. import log_files
from ..atomic_write import write_private
from ..errors import ClusterError

_FILE = "at_end.json"
_TAIL_LINES = 10


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """One teardown command; it must also succeed when there is nothing left to remove."""

    argv: list[str]
    env: dict[str, str]
    """The whole environment."""
    log: str
    """File that its output is appended to; outside the cluster's folder if it is needed afterwards."""
    timeout_s: float


def planned(folder: Path) -> list[Command]:
    """Return the teardown commands of a cluster, in the order in which they run.

    Raises ClusterError where their file is damaged: what they would remove is unknown.
    """
    try:
        return msgspec.json.decode((folder / _FILE).read_bytes(), type=list[Command])
    except FileNotFoundError:
        return []
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ClusterError(
            f"{folder / _FILE} is damaged ({error}): what cluster {folder.name} has to remove at its end is unknown",
            next_step=f"Remove its container or its objects, then this folder: {folder}",
        ) from error


def plan(folder: Path, command: Command) -> None:
    """Add a command before all others: the last resource created is the first removed."""
    _write(folder, [command, *planned(folder)])


def longest_s(folder: Path) -> float:
    """Return the maximum duration of all commands together, s."""
    return sum(command.timeout_s for command in planned(folder))


def run(folder: Path) -> None:
    """Run the planned commands and drop each that succeeds. Raises ClusterError at the first failure; the rest stay."""
    commands = planned(folder)
    while commands:
        _run(commands[0])
        commands = commands[1:]
        _write(folder, commands)


def _run(command: Command) -> None:
    text = " ".join(command.argv)
    log = Path(command.log)
    log.parent.mkdir(parents=True, exist_ok=True)
    try:
        with log_files.appending(log) as output:
            subprocess.run(
                command.argv,
                env=command.env,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                timeout=command.timeout_s,
                check=True,
            )
    except (OSError, subprocess.SubprocessError) as error:
        lines = log_files.last_lines(log, _TAIL_LINES)
        message = "\n".join([f"cannot clear up after the cluster: {error}", *(f"  {line}" for line in lines)])
        raise ClusterError(message, next_step=f"See why, then: grovescale down --all. It runs again: {text}") from error


def _write(folder: Path, commands: list[Command]) -> None:
    write_private(folder / _FILE, msgspec.json.encode(commands))
