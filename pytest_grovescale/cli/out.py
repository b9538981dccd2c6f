"""What a command says, and what it gives."""

from __future__ import annotations

import sys


def say(text: str) -> None:
    """Say how it goes."""
    print(text, file=sys.stderr, flush=True)  # noqa: T201 - a command's messages


def write(text: str) -> None:
    """Give a result."""
    print(text, flush=True)  # noqa: T201 - a command's result
