"""Two git revisions of an operator, each checked out and built in its own folder."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

from .. import log_files
from ..errors import GrovescaleError, UsageError

_TAIL_LINES = 25

Say = Callable[[str], None]


class BuildError(GrovescaleError):
    """A revision could not be checked out or built."""


def repository() -> Path:
    """Return the top folder of the git repository that contains the working directory."""
    return Path(_git(Path.cwd(), "rev-parse", "--show-toplevel"))


def commit(top: Path, revision: str) -> str:
    """Return the id of the commit that a revision (branch, tag, id) currently names."""
    return _git(top, "rev-parse", "--verify", "--end-of-options", f"{revision}^{{commit}}")


@contextlib.contextmanager
def built(top: Path, revision: str, command: str, folder: Path, *, say: Say) -> Iterator[Path]:
    """Check a commit out into ``folder``, build it there by a shell command, and remove it afterwards.

    Replaces a checkout left by a killed comparison. Raises BuildError with the build's last lines.
    """
    remove(top, folder)
    say(f"{revision[:12]}: checked out to {folder}")
    _git(top, "worktree", "add", "--detach", "--force", str(folder), revision)
    try:
        if command:
            say(f"{revision[:12]}: {command}")
            _build(command, folder, revision)
        yield folder
    finally:
        remove(top, folder)


def remove(top: Path, folder: Path) -> None:
    """Remove a checkout, complete or not."""
    if folder.exists():
        shutil.rmtree(folder)
    _git(top, "worktree", "prune")


def _build(command: str, folder: Path, revision: str) -> None:
    log = folder.with_name(f"{folder.name}-build.log")
    log.unlink(missing_ok=True)
    with log_files.appending(log) as output:
        process = subprocess.Popen(
            ["/bin/sh", "-c", command],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            process_group=0,
        )
        try:
            code = process.wait()
        except BaseException:
            # Ctrl-C, or our own end: no process of the build may remain.
            os.killpg(process.pid, signal.SIGTERM)
            process.wait()
            raise
    if code:
        lines = log_files.last_lines(log, _TAIL_LINES)
        said = "".join(f"\n  {line}" for line in lines)
        raise BuildError(
            f"{revision[:12]}: `{command}` ended with code {code}; its last lines:{said}",
            next_step=f"Its whole output: {log}.",
        )


def _git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(folder), *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode:
        said = done.stderr.strip().splitlines()
        raise UsageError(
            f"git {' '.join(arguments[:2])}: {said[-1] if said else f'ended with code {done.returncode}'}",
            next_step="Run it within the operator's repository, with revisions that it has.",
        )
    return done.stdout.strip()
