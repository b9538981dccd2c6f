"""Barrier between two parallel tests: each waits for the other at the start of a phase.

A comparison's driver runs both, and holds the other ends of their sockets. A test writes a byte when it is about to
begin a phase, and continues when one comes back.
"""

from __future__ import annotations

import contextlib
import socket

from . import driver_lines

CONNECTION = "GROVESCALE_BARRIER_FD"
"""Environment variable: file descriptor over which a driver lets phases begin."""


class Barrier:
    """The test's end of the barrier; without a socket it does not wait."""

    def __init__(self, connection: socket.socket | None = None) -> None:
        self._connection = connection

    def wait(self) -> None:
        """Return when the other test is about to begin a phase as well, or has ended; Ctrl-C ends the wait."""
        if self._connection is None:
            return
        # A driver that is gone sends nothing: a test that it has started interrupts itself.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._connection.sendall(b".")
            self._connection.recv(1)

    def leave(self) -> None:
        """Release the other test for good: this one begins no further phase."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def inherited() -> Barrier:
    """Return the barrier of the driver that started this process, once; else one that does not wait."""
    return Barrier(driver_lines.inherited(CONNECTION))
