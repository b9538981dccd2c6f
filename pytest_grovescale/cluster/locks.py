"""Advisory file locks (flock): dropped by the kernel when their holder dies, however it dies."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, Literal


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


def take_folder(path: Path) -> int | None:
    """Return the locked descriptor of a real folder of this user's; None for anything else, and for one that is held.

    The folder itself is locked: nothing in it, which somebody else may have put there, is looked at.
    """
    import fcntl

    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Its holder may have removed it before we had the lock.
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
        # What is no regular file is nobody's lock, and must not be waited for.
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
    """Open a lock file, made if need be. Raises OSError, also for anything but a regular file."""
    flags = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    mode: Literal["ab", "rb"] = "ab"
    try:
        descriptor = os.open(path, flags | os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    except PermissionError:
        # Another user's, in a folder that all may write to: to lock it, reading is enough.
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
