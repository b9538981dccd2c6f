"""Progress of a running test: a live block in a terminal, plain lines elsewhere, nothing when quiet.

Drawing happens only inside calls: no thread draws over a debugger's prompt.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from .. import durations, redaction
from .format import count, plain, seconds, three

PLAIN_EVERY_S = 5.0
"""Without a terminal: at most one line in this time, except for milestones and phases."""

_DRAW_EVERY_S = 0.1
_STALL_S = 30.0
"""Time without a change of any count after which that is said, and again each time it has passed."""

_RATE_OVER_S = 5.0
_TIME_LEFT_OVER_S = 30.0
_TELLING = 0.05
"""Share of the goal below which a count gives no estimate of the time left."""


class Rate:
    """Rate of a count, per second, and the estimated time to a goal."""

    def __init__(self) -> None:
        self._points: deque[tuple[float, int]] = deque()
        self._began: tuple[float, int] | None = None
        """Before the count first changed."""

    def add(self, at: float, value: int) -> None:
        """Add the count at a moment, s."""
        if self._began is None and self._points and self._points[-1][1] != value:
            self._began = self._points[-1]
        self._points.append((at, value))
        while len(self._points) > 2 and at - self._points[0][0] > _TIME_LEFT_OVER_S:
            self._points.popleft()

    def per_second(self) -> float | None:
        """Return the rate over the last seconds, negative while the count falls; None with fewer than two points."""
        last = self._points[-1][0] if self._points else 0.0
        recent = [point for point in self._points if last - point[0] <= _RATE_OVER_S]
        return _rate(recent[0], recent[-1]) if recent else None

    def time_left(self, goal: int) -> float | None:
        """Return the seconds to a goal; None as long as there is too little data.

        By the mean rate since the count first moved, or by that of the last half minute where this is slower: neither
        follows the variations of a few seconds, and a stall is not hidden by earlier progress. None while it moves away
        from the goal.
        """
        if self._began is None:
            return None
        last, value = self._points[-1]
        up = 1 if goal > value else -1
        moved, to_go = (value - self._began[1]) * up, abs(goal - value)
        if last - self._began[0] < _RATE_OVER_S or moved < _TELLING * (moved + to_go):
            return None
        first = max(self._began, self._points[0])
        slower = min(up * (_rate(start, (last, value)) or 0.0) for start in (self._began, first))
        return to_go / slower if slower > 0 else None


def _rate(before: tuple[float, int], after: tuple[float, int]) -> float | None:
    seconds_ = after[0] - before[0]
    return (after[1] - before[1]) / seconds_ if seconds_ > 0 else None


class _Phase:
    """State of the running phase."""

    def __init__(self, name: str, timeout_s: float, started: float) -> None:
        self.name = name
        self.started = started
        self.elapsed = 0.0
        self.left = timeout_s
        self.counts: dict[str, tuple[int, int]] = {}
        self.first: dict[str, int] = {}
        self.rates: dict[str, Rate] = {}
        self.met: dict[str, float] = {}
        self.changed = 0.0
        """When a count last changed, s after the phase's start."""

    def update(self, counts: Mapping[str, tuple[int, int]], elapsed: float, left: float) -> None:
        self.elapsed, self.left = elapsed, left
        if counts != self.counts:
            self.changed = elapsed
        for name, (have, want) in counts.items():
            self.counts[name] = (have, want)
            self.first.setdefault(name, have)
            self.rates.setdefault(name, Rate()).add(elapsed, have)

    def share(self, name: str) -> float:
        """Return how far a milestone is, 0 to 1; one that counts down began at its first count."""
        have, want = self.counts[name]
        first = self.first[name]
        if name in self.met or have == want:
            return 1.0
        whole = abs(want - first)
        return min(1.0, max(0.0, 1 - abs(want - have) / whole)) if whole else 0.0

    def rate_text(self, name: str) -> str:
        """Return the rate, where it is away from the goal its direction, and the time left; or nothing."""
        have, want = self.counts[name]
        rate = self.rates[name].per_second()
        if name in self.met or have == want or not rate:
            return ""
        pace = f"{three(abs(rate))}/s"
        if (rate > 0) is not (want > have):
            return f"{'rising' if rate > 0 else 'falling'}, {pace}"
        to_go = self.rates[name].time_left(want)
        return pace + (f", about {durations.rough(to_go)} to go" if to_go is not None else "")

    def stalled(self) -> bool:
        """Return whether something is awaited, and no count has changed for `_STALL_S`."""
        return self.elapsed - self.changed >= _STALL_S and any(name not in self.met for name in self.counts)


class Progress:
    """Shows a run's progress on a text stream. A stream that can no longer be written to ends it silently.

    ``live`` redraws in place (default: when the stream is a terminal); ``quiet`` shows nothing at all.
    """

    def __init__(
        self,
        stream: TextIO,
        *,
        quiet: bool = False,
        live: bool | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stream = stream
        self._quiet = quiet
        self._live_wanted = stream.isatty() if live is None else live
        self._clock = clock
        self._phase: _Phase | None = None
        self._live: Live | None = None
        self._last = float("-inf")
        self._shown: dict[str, tuple[int, int]] = {}

    def say(self, text: str) -> None:
        """Show a step outside of phases: a build, a start, a wait for a lease."""
        self._line(plain(redaction.text(text)))

    def phase(self, name: str, timeout_s: float) -> None:
        """Begin a phase."""
        self._close_live()
        self._phase = _Phase(name, timeout_s, self._clock())
        self._last, self._shown = self._clock(), {}
        if self._live_wanted and not self._quiet:
            self._open_live()
        else:
            self._line(f"{plain(name)}: begins, at most {seconds(timeout_s)}")

    def update(
        self, counts: Mapping[str, tuple[int, int]], *, elapsed: float, left: float, rate: float | None = None
    ) -> None:
        """Update the counts: milestone → (have, want). Times in s; ``rate``: API requests per second."""
        if self._phase is None:
            return
        self._phase.update(counts, elapsed, left)
        now = self._clock()
        if self._live is not None:
            if now - self._last >= _DRAW_EVERY_S:
                self._last = now
                self._draw()
        elif now - self._last >= (_STALL_S if self._phase.counts == self._shown else PLAIN_EVERY_S):
            if self._phase.counts == self._shown and not self._phase.stalled():
                return
            self._last, self._shown = now, dict(self._phase.counts)
            self._line(self._plain_update(self._phase, rate))

    def milestone(self, name: str, after: float) -> None:
        """Show that a milestone was met, ``after`` seconds from the phase's start."""
        if self._phase is None:
            return
        self._phase.met[name] = after
        if self._live is not None:
            self._draw()
        else:
            self._line(f"{plain(self._phase.name)}: {plain(name)} after {seconds(after)}")

    def done(self, outcome: str) -> None:
        """End the phase."""
        phase, self._phase = self._phase, None
        if phase is None:
            return
        self._close_live()
        self._line(f"{plain(phase.name)}: {outcome} after {seconds(self._clock() - phase.started)}")

    def close(self) -> None:
        """Stop drawing. Idempotent."""
        self._phase = None
        self._close_live()

    def _plain_update(self, phase: _Phase, rate: float | None) -> str:
        parts = []
        for name, (have, want) in phase.counts.items():
            if name in phase.met:
                continue
            pace = phase.rate_text(name)
            parts.append(f"{plain(name)} {_count(have, want)}" + (f" ({pace})" if pace else ""))
        if rate:
            parts.append(f"{three(rate)} API requests/s")
        parts.append(f"{seconds(phase.left)} left")
        return f"{plain(phase.name)}, {seconds(phase.elapsed)}: {_stall(phase)}{', '.join(parts)}"

    def _line(self, text: str) -> None:
        if self._quiet:
            return
        try:
            self._stream.write(text + "\n")
            self._stream.flush()
        except (OSError, ValueError):
            self._quiet = True  # closed stream: a run must not fail for lack of a reader

    def _open_live(self) -> None:
        console = Console(file=self._stream, highlight=False, markup=False, emoji=False, force_terminal=True)
        self._live = Live(
            console=console,
            auto_refresh=False,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
            get_renderable=self._block,
        )
        self._guard(self._live.start)

    def _close_live(self) -> None:
        live, self._live = self._live, None
        if live is not None:
            self._guard(live.stop)

    def _draw(self) -> None:
        if self._live is not None:
            self._guard(self._live.refresh)

    def _guard(self, draw: Callable[[], None]) -> None:
        try:
            draw()
        except (OSError, ValueError):
            self._quiet, self._live = True, None

    def _block(self) -> Group:
        phase = self._phase
        if phase is None:
            return Group()
        head = Text(
            f"{plain(phase.name)}  {seconds(phase.elapsed)}, {_stall(phase)}{seconds(phase.left)} left", style="bold"
        )
        table = Table.grid(padding=(0, 2, 0, 0))
        for name, (have, want) in phase.counts.items():
            done = f"after {seconds(phase.met[name])}" if name in phase.met else phase.rate_text(name)
            table.add_row(
                Text(f"  {plain(name)}"),
                ProgressBar(total=1.0, completed=phase.share(name), width=24, finished_style="green"),
                Text(_count(have, want), justify="right"),
                Text(done, style="green" if name in phase.met else "dim"),
            )
        return Group(head, table)


def _stall(phase: _Phase) -> str:
    return f"no change for {durations.rough(phase.elapsed - phase.changed)}, " if phase.stalled() else ""


def _count(have: int, want: int) -> str:
    return f"{count(have)} of {count(want)}" if want else f"{count(have)} left"
