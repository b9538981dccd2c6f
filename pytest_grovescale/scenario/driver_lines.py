"""Sockets that a comparison's driver passes to the tests that it starts."""

from __future__ import annotations

import os
import socket


def inherited(variable: str) -> socket.socket | None:
    """Return the socket whose descriptor an environment variable holds, once; None without one."""
    number = os.environ.pop(variable, "")
    if not number.isdigit():
        return None
    try:
        return socket.socket(fileno=int(number))
    except OSError:
        # The variable was inherited further than the descriptor.
        return None
