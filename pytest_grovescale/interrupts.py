"""Ctrl-C and SIGTERM: which of them ends a run, and when they are held back.

SIGTERM acts like Ctrl-C. By default it would kill pytest at once, and the cluster's supervisor would clean up. In a
container that is not enough: there pytest is the first process, to which an unhandled SIGTERM does nothing, until
SIGKILL ends all processes of the container at once, the supervisor too.
"""

from __future__ import annotations

import signal
import threading
import types
from collections.abc import Callable


def sigterm_interrupts() -> None:
    """Make SIGTERM raise KeyboardInterrupt, unless it has a handler already; undone by ``kills``."""
    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, signal.default_int_handler)


class _Held:
    """A handler that prints a message instead of interrupting; ``once``: the next signal interrupts."""

    def __init__(self, say: Callable[[str], None], *, once: bool) -> None:
        self._say = say
        self._once = once
        self._saying = False

    def __call__(self, number: int, frame: types.FrameType | None) -> None:
        if self._once:
            release()
        if self._saying:
            # A signal interrupts its handler, too: a key that is held down would nest them without end.
            return
        self._saying = True
        try:
            self._say(signal.Signals(number).name)
        finally:
            self._saying = False


def hold(say: Callable[[str], None], *, once: bool = False) -> None:
    """Make Ctrl-C and SIGTERM call ``say`` instead of interrupting, until `release`.

    ``say`` is called with the signal's name, at any moment: it must not use a buffered stream.
    """
    for number in _interrupting():
        signal.signal(number, _Held(say, once=once))


def release() -> None:
    """Let Ctrl-C and SIGTERM interrupt again: the end of `hold`."""
    for number in _interrupting():
        signal.signal(number, signal.default_int_handler)


def number_lines(error: BaseException) -> None:
    """Give each entry of an interrupt's traceback a line, also those of what it interrupted.

    One that strikes between two lines, where a generator is resumed, has an entry without: ``tb_lineno`` is None, and
    pytest, which shows where it was interrupted, ends with a TypeError and without a summary.
    """
    seen: set[int] = set()
    one: BaseException | None = error
    while one is not None and id(one) not in seen:
        seen.add(id(one))
        before = one.__traceback__
        # In place: pytest has the first entry already, which is its own.
        while before is not None and (entry := before.tb_next) is not None:
            if entry.tb_lineno is None:
                line = entry.tb_frame.f_code.co_firstlineno
                before.tb_next = types.TracebackType(entry.tb_next, entry.tb_frame, entry.tb_lasti, line)
            before = before.tb_next
        one = one.__cause__ or one.__context__


def _interrupting() -> list[int]:
    """Return the signals that interrupt this process, or would if they were not held."""
    if threading.current_thread() is not threading.main_thread():
        return []
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    return [n for n, handler in handlers.items() if handler is signal.default_int_handler or _is_ours(handler)]


def _is_ours(handler: object) -> bool:
    return isinstance(handler, _Held)


def restore() -> None:
    """Restore SIGTERM's default action, and Ctrl-C's interrupt."""
    release()
    if signal.getsignal(signal.SIGTERM) is signal.default_int_handler:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
