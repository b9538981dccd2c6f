"""Progress output of a comparison or sweep: permanent lines, and in a terminal one status line."""

from __future__ import annotations

import contextlib
import shutil
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TextIO

from .. import durations
from .store import Slot


class Screen:
    """Writes to a stream; stops silently when the stream fails."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._live = stream.isatty()
        self._shown = False

    def say(self, text: str) -> None:
        """Write a permanent line."""
        self._write(f"{self._clear()}{text}\n")

    def now(self, text: str) -> None:
        """Show the current activity in the status line; nothing without a terminal."""
        if self._live:
            width = shutil.get_terminal_size().columns - 1
            shown = "".join(c if c.isprintable() else " " for c in text)[:width]
            self._write(f"{self._clear()}{shown}")
            self._shown = True

    def close(self) -> None:
        """Remove the status line."""
        self._write(self._clear())

    def _clear(self) -> str:
        shown, self._shown = self._shown, False
        return "\r\x1b[K" if shown else ""

    def _write(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._stream.write(text)
            self._stream.flush()


def time_left(
    left: Sequence[Slot],
    seconds: Mapping[Slot, float],
    fewest: Sequence[Slot] | None = None,
    *,
    at_most: float | None = None,
) -> str:
    """Return as text how long the remaining runs will take, from finished ones; ``seconds`` is of those.

    ``fewest``: the runs that remain if the next interim analysis decides each part. Parts without a finished run are
    counted instead. ``at_most``: what is left of a time limit, s.
    """
    if not left:
        return "the last one"
    times = _Times(seconds)
    known = [slot for slot in left if slot.part in times.parts]
    parts = []
    if known:
        longest = float("inf") if at_most is None else max(0.0, at_most)
        soonest = times.total(slot for slot in (left if fewest is None else fewest) if slot in known)
        most, least = (durations.rough(min(total, longest)) for total in (times.total(known), soonest))
        settled = f", {least} if the interim analysis settles it" if least != most else ""
        parts.append(f"about {most} left{settled}")
    number = Counter(slot.part for slot in left if slot.part not in times.parts)
    return ", then ".join([*parts, *(f"{number[part]} {part} runs" for part in sorted(number))])


class _Times:
    """Durations of an arm's runs, from finished ones: the median.

    The first round counts only until there is another: it includes the start of clusters and their warm-up. An arm
    without a finished run, such as a larger size of a sweep, takes as long as the slowest of its part.
    """

    def __init__(self, seconds: Mapping[Slot, float]) -> None:
        self.parts = {slot.part for slot in seconds}
        self._arms: dict[tuple[str, str], float] = {}
        for part, arm in {(slot.part, slot.arm) for slot in seconds}:
            own = {slot.round: took for slot, took in seconds.items() if (slot.part, slot.arm) == (part, arm)}
            self._arms[part, arm] = statistics.median([own[n] for n in own if n] or own.values())

    def total(self, slots: Iterable[Slot]) -> float:
        """Return the expected seconds for runs; their parts have a finished run each."""
        return sum(self._of(slot) for slot in slots)

    def _of(self, slot: Slot) -> float:
        slowest = max(took for (part, _), took in self._arms.items() if part == slot.part)
        return self._arms.get((slot.part, slot.arm), slowest)
