"""What a command says, and what it gives."""

from __future__ import annotations

import codecs
import io
import sys

_IN_ASCII = {
    "→": "->", "←": "<-", "↑": "^", "↓": "v", "×": "x", "·": "*", "…": "...", "–": "-", "—": "-", "−": "-", "µ": "u",
    "μ": "u", "±": "+/-", "≤": "<=", "≥": ">=", "≈": "~", "≠": "!=", "Δ": "delta ", "κ": "kappa", "✓": "ok",
    "━": "=", "─": "-", "│": "|", "┃": "|", "█": "#",
}  # fmt: skip
"""How characters of tables and messages are written where the terminal's encoding has none of them."""


def write_any_character() -> None:
    """Let standard output and error write every text, also where their encoding is ASCII, or a path is no text."""
    codecs.register_error("grovescale", _in_ascii)
    for stream in (sys.stdout, sys.stderr):
        # Whoever chose another way to write them keeps it (PYTHONIOENCODING=ascii:replace).
        if isinstance(stream, io.TextIOWrapper) and stream.errors in ("strict", "surrogateescape", "backslashreplace"):
            stream.reconfigure(errors="grovescale")


def _in_ascii(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    part = error.object[error.start : error.end]
    return "".join(_IN_ASCII.get(character, "?") for character in part), error.end


def say(text: str) -> None:
    """Say how it goes."""
    print(text, file=sys.stderr, flush=True)  # noqa: T201 - a command's messages


def write(text: str) -> None:
    """Give a result."""
    print(text, flush=True)  # noqa: T201 - a command's result
