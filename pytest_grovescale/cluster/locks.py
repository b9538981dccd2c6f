"""Advisory file locks (flock): dropped by the kernel when their holder dies, however it dies."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO


def take(path: Path, *, shared: bool = False, wait: bool = True) -> BinaryIO | None:
    """Return the locked file, to be closed when done; None when it is taken and ``wait`` is off."""
    # Imported late: the package must be importable where there is no flock, to say so itself.
    import fcntl

    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    while True:
        file = _opened(path)
        try:
            fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB))
            if _is_current(file, path):
                return file
        except BlockingIOError:
            file.close()
            return None
        except BaseException:
            file.close()
            raise
        # Its holder removed it while we waited: what we locked is no longer the one that others see.
        file.close()


@contextlib.contextmanager
def held(
    path: Path, *, shared: bool = False, remove: bool = False, waiting: Callable[[], None] = lambda: None
) -> Iterator[None]:
    """Hold a lock for the length of a block, and take its file away afterwards if asked to.

    ``waiting`` is called once when somebody else holds it, before the wait for them.
    """
    file = take(path, shared=shared, wait=False)
    if file is None:
        waiting()
        file = take(path, shared=shared)
    assert file is not None
    with file:
        yield
        if remove:
            path.unlink(missing_ok=True)


def remove(path: Path) -> None:
    """Remove a lock file; only its exclusive holder may."""
    path.unlink(missing_ok=True)


def is_held(path: Path) -> bool:
    """Return whether any living process holds the lock; False too when the file is gone."""
    import fcntl

    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def _opened(path: Path) -> BinaryIO:
    try:
        return path.open("ab")
    except PermissionError:
        # Another user's, in a folder that all may write to: to lock it, reading is enough.
        return path.open("rb")


def _is_current(file: BinaryIO, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False
