"""The interface of all profilers: a capture runs from its construction, stops at once, and writes its file."""

from __future__ import annotations

from typing import Protocol

import msgspec

from ...errors import RecordingError

ATTACH_S = 5.0
"""Time limit for a profiler to attach, s."""

FINISH_S = 5.0
"""Time limit for a stopped profiler to deliver its profile, s."""


class ProfileFailed(RecordingError):
    """There is no profile. The run continues without it."""

    @property
    def line(self) -> str:
        """Return message and remedy as one line."""
        return f"{self.message}. {self.next_step}" if self.next_step else self.message


class Taken(msgspec.Struct, frozen=True, kw_only=True):
    """A profiler's figures about its profile; None where only the file has them."""

    samples: int | None = None
    errors: int | None = None


class Capture(Protocol):
    """One profiler, attached to one process."""

    def stop(self) -> None:
        """Stop sampling; returns at once. Further calls have no effect."""

    async def finish(self) -> Taken:
        """Return when the file is written. Raises ProfileFailed after `FINISH_S`.

        Cleans up the profiler, also when cancelled.
        """
