"""SIGTERM, by which a run is asked to end: it does what Ctrl-C does.

By itself it would kill pytest on the spot, and the cluster's supervisor would clear up behind it. In a container that
is not enough: there pytest is the first process, to which a SIGTERM that nobody handles does nothing, until SIGKILL
ends all processes of the container at once, the supervisor too.
"""

from __future__ import annotations

import contextlib
import signal
import threading
import types
from collections.abc import Callable, Iterator


def interrupts() -> None:
    """Let SIGTERM raise KeyboardInterrupt, unless somebody handles it already; undone by ``kills``."""
    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, signal.default_int_handler)


@contextlib.contextmanager
def deferred(say: Callable[[str], None]) -> Iterator[None]:
    """Let the first Ctrl-C or SIGTERM in the block end nothing, but be answered by ``say``; a further one interrupts.

    For the short work at a run's end that loses all of it when it is cut.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    interrupting = [number for number, handler in before.items() if handler is signal.default_int_handler]

    def first(number: int, frame: types.FrameType | None) -> None:
        for one in interrupting:
            signal.signal(one, signal.default_int_handler)
        say(signal.Signals(number).name)

    for one in interrupting:
        signal.signal(one, first)
    try:
        yield
    finally:
        for one in interrupting:
            signal.signal(one, before[one])


def kills() -> None:
    """Let SIGTERM end the process again, as it does by itself."""
    if signal.getsignal(signal.SIGTERM) is signal.default_int_handler:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
