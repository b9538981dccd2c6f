"""Advisory file locks (flock): the kernel releases them when their holder dies.

A child that is to share one gets its descriptor. A copy of the process does not: what a test forks and leaves running
would hold up other runs, after this one has ended.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, Literal

_taken: weakref.WeakSet[BinaryIO] = weakref.WeakSet()


def _let_go_in_copy() -> None:
    for file in list(_taken):
        file.close()


os.register_at_fork(after_in_child=_let_go_in_copy)


def take(path: Path, *, shared: bool = False, wait: bool = True) -> BinaryIO | None:
    """Return the locked file, to be closed when done; None if it is locked already and ``wait`` is off."""
    # Imported late: the package must be importable without flock, to report that itself.
    import fcntl

    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    while True:
        file = _opened(path)
        try:
            fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB))
            if _is_current(file, path):
                _taken.add(file)
                return file
        except BlockingIOError:
            file.close()
            return None
        except BaseException:
            file.close()
            raise
        # Its holder removed it during the wait: the locked file is no longer the one under this name.
        file.close()


@contextlib.contextmanager
def held(
    path: Path, *, shared: bool = False, remove: bool = False, waiting: Callable[[], None] = lambda: None
) -> Iterator[None]:
    """Hold a lock for the length of a block, and remove its file afterwards if ``remove``.

    ``waiting`` is called once before the wait if another process holds the lock.
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


def take_folder(path: Path) -> int | None:
    """Return the locked descriptor of a real folder of this user; None for anything else, and for a locked one.

    The lock is on the folder itself: its content, which may come from other users, is not read.
    """
    import fcntl

    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Its holder may have removed it before this lock.
        ours = os.fstat(descriptor).st_uid == os.getuid() and os.path.samestat(os.fstat(descriptor), path.lstat())
    except OSError:
        ours = False
    if not ours:
        os.close(descriptor)
        return None
    return descriptor


def remove(path: Path) -> None:
    """Remove a lock file; only its exclusive holder may."""
    path.unlink(missing_ok=True)


def is_held(path: Path) -> bool:
    """Return whether any living process holds the lock; False too when the file is gone."""
    import fcntl

    try:
        # A non-regular file is no lock, and opening it could block.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _opened(path: Path) -> BinaryIO:
    """Open a lock file, create it if missing. Raises OSError, also for a non-regular file."""
    flags = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    mode: Literal["ab", "rb"] = "ab"
    try:
        descriptor = os.open(path, flags | os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    except PermissionError:
        # Another user's, in a folder that all may write to: read access is enough for a lock.
        mode, descriptor = "rb", os.open(path, flags | os.O_RDONLY)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return os.fdopen(descriptor, mode)


def _is_current(file: BinaryIO, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False
