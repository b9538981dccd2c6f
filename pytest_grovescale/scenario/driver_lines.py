"""Sockets that a comparison's driver hands to the tests that it starts."""

from __future__ import annotations

import os
import socket


def inherited(variable: str) -> socket.socket | None:
    """Return the socket whose descriptor an environment variable names, once; None without one."""
    number = os.environ.pop(variable, "")
    if not number.isdigit():
        return None
    try:
        return socket.socket(fileno=int(number))
    except OSError:
        # The variable has come further than the descriptor.
        return None
