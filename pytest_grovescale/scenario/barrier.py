"""Two tests side by side begin their phases together: each waits for the other where one begins.

A comparison's driver runs both, and holds the other ends of their lines. A test writes a byte when it is about to begin
a phase, and goes on when one comes back.
"""

from __future__ import annotations

import contextlib
import socket

from . import driver_lines

CONNECTION = "GROVESCALE_BARRIER_FD"
"""Environment variable: number of the descriptor over which a driver lets phases begin."""


class Barrier:
    """The test's end of the line; one without a line keeps nobody waiting."""

    def __init__(self, connection: socket.socket | None = None) -> None:
        self._connection = connection

    def wait(self) -> None:
        """Return when the other test is about to begin a phase as well, or has ended; Ctrl-C ends the wait."""
        if self._connection is None:
            return
        # From a driver that is gone nothing comes: a test that it has started interrupts itself.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._connection.sendall(b".")
            self._connection.recv(1)

    def leave(self) -> None:
        """Keep the other test waiting no more: this one begins no further phase."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def inherited() -> Barrier:
    """Return the barrier of the driver that started this process, once; else one that keeps nobody waiting."""
    return Barrier(driver_lines.inherited(CONNECTION))
