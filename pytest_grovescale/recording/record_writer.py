"""The one place where records are made: stamped by the recorder's clock, evaluated and journaled in one order."""

from __future__ import annotations

import time
from collections.abc import Callable

from .. import redaction
from .evaluation import Engine
from .journal import JournalFull, Writer
from .protocol import JOURNAL, SourceBroke, Update
from .records import AnyRecord, Closed, MilestoneMet, SourceFailed

STEP_NS = 1_000_000
"""Minimum difference between the wall clock and the recorder's clock that is journaled as a step, ns."""

_BRACKET_NS = 200_000
"""Maximum time between the two reads, ns; beyond it the process was off the CPU and no step is derived."""


class RecorderClock:
    """Nanoseconds since the epoch, monotonic. Tests can pass both clock functions."""

    def __init__(
        self, wall: Callable[[], int] = time.time_ns, monotonic: Callable[[], int] = time.monotonic_ns
    ) -> None:
        self._wall = wall
        self._monotonic = monotonic
        self._base = wall() - monotonic()
        self._offset = 0

    def now(self) -> int:
        """Return the recorder's time, ns."""
        return self._base + self._monotonic()

    def step(self) -> int | None:
        """Return the new offset (wall clock - recorder's clock, ns) when the wall clock was set since the last call.

        None: no step, or this process was interrupted between its two reads; the next call then detects the step.
        """
        before = self._monotonic()
        wall = self._wall()
        after = self._monotonic()
        if after - before > _BRACKET_NS:
            return None
        offset = wall - self._base - (before + after) // 2
        if abs(offset - self._offset) < STEP_NS:
            return None
        self._offset = offset
        return offset


class Ledger:
    """Journal, engine and clock of one recording.

    Take a time from `now` and pass the record that carries it to `add` without awaiting in between: the journal's times
    then never go back, so that replayed results equal the live ones.
    """

    def __init__(self, writer: Writer, clock: RecorderClock, tell: Callable[[Update], None]) -> None:
        self.engine = Engine()
        self.tell = tell
        self.on_met: Callable[[MilestoneMet], None] = lambda met: None
        self.on_record: Callable[[AnyRecord], None] = lambda record: None
        """Called with every record that `add` has journaled."""
        self.now: Callable[[], int] = clock.now
        """Returns the recorder's time, ns."""
        self._writer = writer
        self._full: JournalFull | None = None
        self._failed_conditions: set[tuple[str, str]] = set()

    def add(self, record: AnyRecord) -> None:
        """Journal a record and the milestones that it meets."""
        # Milestones that timers met before this record precede it in the file.
        for met in self.engine.advance(record.at):
            self._met(met)
        self._writer.append(record)
        for met in self.engine.feed(record):
            self._met(met)
        self.on_record(record)
        if self.engine.failures:
            self._report_failures(record.at)

    def tick(self) -> None:
        """Journal the milestones that timers have met by now."""
        for met in self.engine.advance(self.now()):
            self._met(met)

    def failed(self, source: str, message: str, *, fatal: bool = False) -> None:
        """Journal the failure of a source, and report it to the harness."""
        message = redaction.text(message)
        self.add(SourceFailed(at=self.now(), source=source, message=message))
        self.tell(SourceBroke(source=source, message=message, fatal=fatal))

    def flush(self) -> None:
        """Write everything so far to disk. A journal that cannot be written ends there; the harness is notified.

        Evaluation goes on, so that the phase can still be ended in order.
        """
        try:
            self._writer.flush()
        except JournalFull as error:
            self._full = error
            self._seal()
            self.tell(SourceBroke(source=JOURNAL, message=error.message, next_step=error.next_step, fatal=True))

    def close(self, record: Closed) -> None:
        """Journal the last record and close the file. A journal that was full may have room for it by now."""
        self.add(record)
        self.flush()
        self._seal()
        self._writer.close()

    def _seal(self) -> None:
        if self._full is not None:
            self._writer.seal(Closed(at=self.now(), reason="journal-full", message=self._full.reason))

    def _met(self, met: MilestoneMet) -> None:
        self._writer.append(met)
        self.on_met(met)

    def _report_failures(self, at: int) -> None:
        failures, self.engine.failures = self.engine.failures, []
        for failure in failures:
            # Report the first object only; a failing predicate usually fails on all of them.
            condition = failure.phase, failure.milestone
            if condition in self._failed_conditions:
                continue
            self._failed_conditions.add(condition)
            where = f"{failure.object.resource} {failure.object.namespace}/{failure.object.name}"
            message = redaction.text(f"{where}: {failure.message}")
            source = f"condition:{failure.phase}/{failure.milestone}"
            self._writer.append(SourceFailed(at=at, source=source, message=message))
            self.tell(SourceBroke(source=source, message=message, fatal=True))
