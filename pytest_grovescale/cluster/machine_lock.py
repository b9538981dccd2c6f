"""Turns on one machine: functional tests run together, a test that measures runs alone.

A readers-writer lock of two lock files, fair in both directions: who waits stands at the gate, and as long as one
stands there nobody new gets past it. A turn can be handed on to a child process, as an open descriptor: the lock is
free again when the last of them has ended.

The files are in one place for all users of a machine, whatever their state folders: a measurement is disturbed by
whatever runs beside it. Processes that see another ``/tmp``, as in another container, know nothing of each other.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from .. import durations
from ..errors import ClusterError
from . import locks

Say = Callable[[str], None]

FOLDER = "GROVESCALE_TURNS_DIR"
"""Environment variable: another place, for runs that are to take no notice of the rest of the machine."""

# Not `tempfile`'s: TMPDIR often is a job's or a user's own.
_EVERYBODYS = Path("/tmp/grovescale-turns")

INHERITED = "GROVESCALE_TURN_FD"
"""Environment variable: number of the descriptor by which a process holds the turn of the one that started it."""

_NAMES = ("gate", "main")
# The gate is held for an instant by each who passes it; that is no wait worth a word.
_TRIES, _BETWEEN_S = 10, 0.02


@contextlib.contextmanager
def shared(say: Say = lambda text: None) -> Iterator[None]:
    """Hold a turn that others of its kind hold at the same time."""
    with _turn(say, shared=True):
        yield


@contextlib.contextmanager
def exclusive(say: Say = lambda text: None) -> Iterator[int]:
    """Hold a turn alone on this machine.

    Yields the lock's descriptor: a child that inherits it, and is told its number by ``INHERITED``, holds the turn too.
    """
    with _turn(say, shared=False) as descriptor:
        yield descriptor


@contextlib.contextmanager
def _turn(say: Say, *, shared: bool) -> Iterator[int]:
    folder = _folder()
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


def _folder() -> Path:
    """Return the folder of the lock files, with both of them in it. Raises ClusterError where that cannot be."""
    given = os.environ.get(FOLDER)
    folder = Path(given).absolute() if given else _EVERYBODYS
    try:
        if not folder.is_dir():
            folder.mkdir(parents=True, exist_ok=True)
            if not given:
                folder.chmod(0o1777)
        for name in _NAMES:
            _make(folder / name)
    except OSError as error:
        raise ClusterError(
            f"no turn on this machine can be taken in {folder}: {error.strerror}",
            next_step=f"Mend the folder, which all users may write to, or choose another: {FOLDER}=DIR.",
        ) from error
    return folder


def _make(path: Path) -> None:
    """Make a lock file that every user may lock, whatever this one's umask; one that is there stays as it is."""
    with contextlib.suppress(FileExistsError):
        descriptor = os.open(path, os.O_RDONLY | os.O_CREAT | os.O_EXCL, 0o644)
        try:
            os.fchmod(descriptor, 0o644)
        finally:
            os.close(descriptor)


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
