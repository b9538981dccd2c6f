"""What a comparison or sweep shows while it runs: lines that stay, and in a terminal one that changes."""

from __future__ import annotations

import contextlib
import shutil
import statistics
from collections.abc import Mapping, Sequence
from typing import TextIO

from .. import durations
from .schedule import Slot


class Screen:
    """Writes to a stream; one that can't be written to any more ends it silently."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._live = stream.isatty()
        self._shown = False

    def say(self, text: str) -> None:
        """Write a line that stays."""
        self._write(f"{self._clear()}{text}\n")

    def now(self, text: str) -> None:
        """Show what is going on in the line that changes; nothing without a terminal."""
        if self._live:
            width = shutil.get_terminal_size().columns - 1
            shown = "".join(c if c.isprintable() else " " for c in text)[:width]
            self._write(f"{self._clear()}{shown}")
            self._shown = True

    def close(self) -> None:
        """Take the changing line away."""
        self._write(self._clear())

    def _clear(self) -> str:
        shown, self._shown = self._shown, False
        return "\r\x1b[K" if shown else ""

    def _write(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._stream.write(text)
            self._stream.flush()


def time_left(left: Sequence[Slot], seconds: Mapping[Slot, float]) -> str:
    """Return in words how long the runs that are left will take, by those that were made; ``seconds`` is of these.

    Parts of which none was made yet are named instead.
    """
    if not left:
        return "the last one"
    known: dict[str, list[float]] = {}
    for slot, took in seconds.items():
        known.setdefault(slot.part, []).append(took)
    total = sum(statistics.median(known[slot.part]) for slot in left if slot.part in known)
    unknown = sorted({slot.part for slot in left} - set(known))
    parts = [f"{durations.text(total)} left"] if total else []
    return ", then ".join([*parts, *(f"the {part} runs" for part in unknown)])
