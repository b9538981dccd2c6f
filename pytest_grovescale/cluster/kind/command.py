"""Commands of kind, except ``create``, which the supervisor runs."""

from __future__ import annotations

import os
import shlex
import subprocess

from ...errors import ClusterError
from . import environment
from .engine import Engine


def call(kind: str, engine: Engine, *arguments: str, timeout_s: float) -> str:
    """Run one command of kind and return its output. Raises ClusterError with kind's error output."""
    argv = [kind, *arguments]
    try:
        done = subprocess.run(
            argv,
            env=environment.to_delete(engine, os.environ),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _failed(argv, str(error)) from error
    if done.returncode != 0:
        raise _failed(argv, done.stderr.strip() or done.stdout.strip())
    return done.stdout


def _failed(argv: list[str], why: str) -> ClusterError:
    return ClusterError(f"kind {' '.join(argv[1:3])} failed: {why}", next_step=f"See: {shlex.join(argv)}")
