"""SIGTERM, by which a run is asked to end: it does what Ctrl-C does.

By itself it would kill pytest on the spot, and the cluster's supervisor would clear up behind it. In a container that
is not enough: there pytest is the first process, to which a SIGTERM that nobody handles does nothing, until SIGKILL
ends all processes of the container at once, the supervisor too.
"""

from __future__ import annotations

import signal
import threading


def interrupts() -> None:
    """Let SIGTERM raise KeyboardInterrupt, unless somebody handles it already; undone by ``kills``."""
    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, signal.default_int_handler)


def kills() -> None:
    """Let SIGTERM end the process again, as it does by itself."""
    if signal.getsignal(signal.SIGTERM) is signal.default_int_handler:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
