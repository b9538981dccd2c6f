"""Turns on one machine: functional tests run together, a test that measures runs alone.

A readers-writer lock of two lock files, fair in both directions: who waits stands at the gate, and as long as one
stands there nobody new gets past it.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from .. import durations
from . import locks, state

Say = Callable[[str], None]

# The gate is held for an instant by each who passes it; that is no wait worth a word.
_TRIES, _BETWEEN_S = 10, 0.02


@contextlib.contextmanager
def shared(say: Say = lambda text: None) -> Iterator[None]:
    """Hold a turn that others of its kind hold at the same time."""
    with _turn(say, shared=True):
        yield


@contextlib.contextmanager
def exclusive(say: Say = lambda text: None) -> Iterator[None]:
    """Hold a turn alone on this machine, as far as this user's runs go."""
    with _turn(say, shared=False):
        yield


@contextlib.contextmanager
def _turn(say: Say, *, shared: bool) -> Iterator[None]:
    folder = state.root() / "turns"
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
        yield


def _take_soon(path: Path, *, shared: bool) -> BinaryIO | None:
    for _ in range(_TRIES):
        file = locks.take(path, shared=shared, wait=False)
        if file is not None:
            return file
        time.sleep(_BETWEEN_S)
    return None
