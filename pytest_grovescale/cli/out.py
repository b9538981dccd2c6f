"""Output of commands: messages on standard error, results on standard output."""

from __future__ import annotations

import io
import os
import sys
from typing import TextIO

from ..report.format import IN_ASCII


def open_closed_streams() -> None:
    """Open the standard streams that the caller has closed (``>&-``) on the null device.

    Otherwise the next file that is opened takes their number, and every message fails.
    """
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(sys, name) is None:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8"))


def write_any_character() -> None:
    """Make standard output and error accept every text, also where their encoding is ASCII, or a path is not text."""
    for stream in (sys.stdout, sys.stderr):
        # An error handler that the user chose is kept (PYTHONIOENCODING=ascii:replace).
        if isinstance(stream, io.TextIOWrapper) and stream.errors in ("strict", "surrogateescape", "backslashreplace"):
            stream.reconfigure(errors=IN_ASCII)


def say(text: str) -> None:
    """Print a message to standard error."""
    _print(text, sys.stderr)


def write(text: str) -> None:
    """Print a result to standard output."""
    _print(text, sys.stdout)


def _print(text: str, stream: TextIO) -> None:
    """Print a line; a command whose reader has gone (``… | head``) goes on unread: its exit code is its verdict."""
    try:
        print(text, file=stream, flush=True)
    except BrokenPipeError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
