"""What all profilers have in common: a capture runs from when it is made, is stopped at once, and gives its file."""

from __future__ import annotations

from typing import Protocol

import msgspec

from ...errors import RecordingError

ATTACH_S = 5.0
"""How long a profiler may take to attach, s."""

FINISH_S = 5.0
"""How long one may take to hand over its profile after it was stopped, s."""


class ProfileFailed(RecordingError):
    """There is no profile. It costs the run nothing else."""

    @property
    def line(self) -> str:
        """Message and remedy in one line."""
        return f"{self.message}. {self.next_step}" if self.next_step else self.message


class Taken(msgspec.Struct, frozen=True, kw_only=True):
    """What a profiler says of its profile; None where only the file tells."""

    samples: int | None = None
    errors: int | None = None


class Capture(Protocol):
    """One profiler, attached to one process."""

    def stop(self) -> None:
        """Take no sample after this one; returns at once, and does nothing the second time."""

    async def finish(self) -> Taken:
        """Return when the file is written. Raises ProfileFailed within `FINISH_S` when it does not come.

        Cancelled or not, nothing of the profiler is left afterwards.
        """
