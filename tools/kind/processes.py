"""Runs other programs to their end; a failure is reported with the end of their output."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO

from pytest_grovescale.errors import GrovescaleError

Progress = Callable[[str], None]

_TAIL_LINES = 12
_LONGEST_S = 600.0


class CommandFailed(GrovescaleError):
    """A program failed, took too long, or does not exist."""


def run(
    argv: Sequence[str | Path],
    *,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
    source: IO[bytes] | None = None,
    timeout_s: float = _LONGEST_S,
) -> str:
    """Run a program and return its standard output, stripped.

    ``environment`` overrides this process' own; ``source`` is its standard input. Raises CommandFailed.
    """
    words = [str(word) for word in argv]
    with tempfile.TemporaryFile("w+", errors="replace") as errors:
        try:
            done = subprocess.run(
                words,
                cwd=folder,
                env={**os.environ, **(environment or {})},
                stdin=source or subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                timeout=timeout_s,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise CommandFailed(f"{_short(words)}: {error}") from error
        written = done.stdout.decode(errors="replace").strip()
        if done.returncode != 0:
            errors.seek(0)
            lines = deque([*written.splitlines(), *errors], maxlen=_TAIL_LINES)
            shown = "\n".join(f"  {line.rstrip()}" for line in lines)
            raise CommandFailed(f"{_short(words)} failed ({done.returncode}):\n{shown}")
    return written


def _short(words: Sequence[str]) -> str:
    text = " ".join(words)
    return text if len(text) <= 120 else f"{text[:119]}…"
