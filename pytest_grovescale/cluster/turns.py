"""Turns on one machine: functional tests run together, a test that measures runs alone.

A readers-writer lock of two lock files, fair in both directions: who waits stands at the gate, and as long as one
stands there nobody new gets past it. A turn can be handed on to a child process, as an open descriptor: the lock is
free again when the last of them has ended.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from .. import durations
from . import locks, state

Say = Callable[[str], None]

INHERITED = "GROVESCALE_TURN_FD"
"""Environment variable: number of the descriptor by which a process holds the turn of the one that started it."""

# The gate is held for an instant by each who passes it; that is no wait worth a word.
_TRIES, _BETWEEN_S = 10, 0.02


@contextlib.contextmanager
def shared(say: Say = lambda text: None) -> Iterator[None]:
    """Hold a turn that others of its kind hold at the same time."""
    with _turn(say, shared=True):
        yield


@contextlib.contextmanager
def exclusive(say: Say = lambda text: None) -> Iterator[int]:
    """Hold a turn alone on this machine, as far as runs with the same state folder go (``state.root``): one user's.

    Yields the lock's descriptor: a child that inherits it, and is told its number by ``INHERITED``, holds the turn too.
    """
    with _turn(say, shared=False) as descriptor:
        yield descriptor


@contextlib.contextmanager
def _turn(say: Say, *, shared: bool) -> Iterator[int]:
    folder = state.root() / "turns"
    inherited = _inherited(folder / "main")
    if inherited is not None:
        yield inherited
        return
    began = time.monotonic()
    waited = False

    def take(name: str, *, shared: bool) -> BinaryIO:
        nonlocal waited
        file = _take_soon(folder / name, shared=shared)
        if file is None:
            if not waited:
                say("waiting for other tests on this machine: a measurement runs alone")
            waited = True
            file = locks.take(folder / name, shared=shared)
        assert file is not None
        return file

    with take("gate", shared=False):
        main = take("main", shared=shared)
    with main:
        if waited:
            say(f"waited {durations.text(time.monotonic() - began)} for its turn")
        yield main.fileno()


def _inherited(path: Path) -> int | None:
    """Return the descriptor of a turn that was handed on to this process; None where there is none.

    The kernel's word for it, not the environment's, which also reaches processes that were given no descriptor: it must
    be open on this very file, and locking it again must find nobody else's lock.
    """
    number = os.environ.get(INHERITED, "")
    if not number.isdigit():
        return None
    import fcntl

    try:
        if not os.path.samestat(os.fstat(int(number)), path.stat()):
            return None
        fcntl.flock(int(number), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return None
    return int(number)


def _take_soon(path: Path, *, shared: bool) -> BinaryIO | None:
    for _ in range(_TRIES):
        file = locks.take(path, shared=shared, wait=False)
        if file is not None:
            return file
        time.sleep(_BETWEEN_S)
    return None
