"""The machine lock: functional tests share it, a test that measures holds it exclusively.

A readers-writer lock of two lock files, fair in both directions: a waiting process holds the gate, and meanwhile no
other process passes it. A child process can inherit the lock as an open descriptor: it is free again when the last of
them has ended. Beside the lock files, each process that holds the lock or waits for it has a file with its identity,
for waiting processes and for ``grovescale status``.

All users of a machine lock the same files, whatever their state folders: every other load disturbs a measurement.
Processes with another ``/tmp``, as in another container, do not see each other. Every user can create files there, so
only regular files are opened, and if that folder cannot be used, the lock is the user's own.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import stat
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import msgspec

from .. import durations, procfs, redaction
from ..errors import ClusterError
from . import locks, processes, state

Say = Callable[[str], None]

T = TypeVar("T")

FOLDER = "GROVESCALE_MACHINE_LOCK_DIR"
"""Environment variable: another folder, for runs that ignore the rest of the machine."""

INHERITED = "GROVESCALE_MACHINE_LOCK_FD"
"""Environment variable: number of the descriptor by which a process shares the lock of its parent."""

# Not `tempfile`'s: TMPDIR often differs by job or user.
_ALL_USERS = Path("/tmp/grovescale-machine-lock")
_LOCK_FILES = ("gate", "main")
# Each process holds the gate briefly when it passes; that is not worth a message.
_TRIES, _BETWEEN_S = 10, 0.02
_REPORT_AFTER_S, _REPORT_EVERY_S = 10.0, 60.0
_USER_PREFIX = "user-"
_COMMAND_LENGTH = 200
_USER_BYTES = 4096
"""Size of each user file of the lock: written and read in one call."""


class LockUser(msgspec.Struct, frozen=True, kw_only=True):
    """A live process that holds the lock or waits for it."""

    pid: int
    command: str
    """Id of its test, or its command line."""
    alone: bool
    """Whether it measures and holds the lock exclusively; the others share it."""
    holds: bool
    """False: it waits."""
    since: float
    """Start of the holding or the wait; seconds since the epoch."""
    expected_s: float | None = None
    """Estimated length of the holding from ``since``; None: unknown."""
    user: str = ""
    """Login name of the owner of its file."""

    def text(self, now: float) -> str:
        """Return the description for messages; ``now``: seconds since the epoch."""
        by = f"pid {self.pid}" + (f" of user {self.user}" if self.user else "")
        elapsed = max(0.0, now - self.since)
        text = f"{by}, {self.command}, since {time.strftime('%H:%M:%S', time.localtime(self.since))}"
        text += f" ({durations.rough(elapsed)})"
        if self.holds and self.expected_s is not None:
            left = self.expected_s - elapsed
            text += f", about {durations.rough(left)} to go" if left > 0 else ", longer than expected"
        return text


class MachineLock:
    """The lock, held by this process or by its parent."""

    def __init__(self, descriptor: int, queue: _Queue | None) -> None:
        self.descriptor = descriptor
        """Of the lock file. A child that inherits it, and gets its number as ``INHERITED``, shares the lock."""
        self._queue = queue

    def expect(self, seconds: float) -> None:
        """Publish the estimated time until the lock is released."""
        if self._queue is not None:
            self._queue.expect(seconds)

    def yield_to_waiting(self) -> None:
        """Between two measurements: release the lock if a process waits for it, and return with the lock held again."""
        if self._queue is not None:
            self._queue.yield_to_waiting(self.descriptor)


@contextlib.contextmanager
def shared(
    say: Say = lambda text: None, *, command: str = "", expected_s: float | None = None
) -> Iterator[MachineLock]:
    """Hold the lock together with other functional tests. Parameters as of `exclusive`."""
    with _locked(say, command, expected_s, alone=False) as lock:
        yield lock


@contextlib.contextmanager
def exclusive(
    say: Say = lambda text: None, *, command: str = "", expected_s: float | None = None
) -> Iterator[MachineLock]:
    """Hold the lock exclusively on this machine. Raises ClusterError if locking is impossible.

    ``command``: the test or command, shown to waiting processes; ``expected_s``: estimated duration of the holding, s.
    """
    with _locked(say, command, expected_s, alone=True) as lock:
        yield lock


def users() -> list[LockUser]:
    """Return the processes that hold the lock, then those that wait for it, each group by start time."""
    return _users(_folder()[0])


@contextlib.contextmanager
def _locked(say: Say, command: str, expected_s: float | None, *, alone: bool) -> Iterator[MachineLock]:
    folder, problem = _folder()
    with contextlib.ExitStack() as opened:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            inherited = _inherited(folder / "main")
            if inherited is None:
                if folder == _ALL_USERS and folder.stat().st_uid == os.getuid():
                    folder.chmod(0o1777)
                for name in _LOCK_FILES:
                    _make(folder / name)
                file = opened.enter_context(_user_file(folder))
                # Removes files of killed processes.
                _users(folder)
        except OSError as error:
            raise ClusterError(
                f"this machine cannot be locked in {folder}: {error.strerror}",
                next_step=f"Make that folder writable for all users, or choose another: {FOLDER}=DIR.",
            ) from error
        if inherited is not None:
            yield MachineLock(inherited, None)
            return
        if problem:
            say(f"only this user's runs are kept apart from each other: {problem}")
        me = LockUser(
            pid=os.getpid(),
            command=command or _command_line(),
            alone=alone,
            holds=False,
            since=time.time(),
            expected_s=expected_s,
        )
        queue = _Queue(folder, file, me, say)
        with queue.enter() as main:
            yield MachineLock(main.fileno(), queue)


class _Queue:
    """This process in the queue for the machine lock."""

    def __init__(self, folder: Path, file: BinaryIO, me: LockUser, say: Say) -> None:
        self._folder = folder
        self._file = file
        self._me = me
        self._say = say
        self._waiting_since: float | None = None
        self._publish()

    def expect(self, seconds: float) -> None:
        """Publish that the lock is held for so many more seconds."""
        self._publish(expected_s=time.time() - self._me.since + seconds)

    def enter(self) -> BinaryIO:
        """Wait for the main lock and return it."""
        with self._take("gate", shared=False):
            main = self._take("main", shared=not self._me.alone)
        self._entered()
        return main

    def yield_to_waiting(self, descriptor: int) -> None:
        """Release the main lock if a process waits at the gate, and queue for it again."""
        if not locks.is_held(self._folder / "gate"):
            return
        import fcntl

        # All processes that inherited the descriptor share one lock: they lose and regain it with this process.
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        self._publish(holds=False, since=time.time())
        with self._take("gate", shared=False):
            self._wait(lambda: fcntl.flock(descriptor, fcntl.LOCK_EX))
        self._entered()

    def _entered(self) -> None:
        if self._waiting_since is not None:
            self._say(f"waited {durations.text(time.monotonic() - self._waiting_since)} for this machine")
        self._waiting_since = None
        self._publish(holds=True, since=time.time())

    def _publish(self, **changed: Any) -> None:
        self._me = msgspec.structs.replace(self._me, **changed)
        content = msgspec.json.encode(self._me)
        # One write of fixed size: readers never see a part. On a full disk the lock still works, without the name.
        with contextlib.suppress(OSError):
            os.pwrite(self._file.fileno(), content.ljust(_USER_BYTES)[:_USER_BYTES], 0)

    def _take(self, name: str, *, shared: bool) -> BinaryIO:
        for _ in range(_TRIES):
            file = locks.take(self._folder / name, shared=shared, wait=False)
            if file is not None:
                return file
            time.sleep(_BETWEEN_S)
        file = self._wait(lambda: locks.take(self._folder / name, shared=shared))
        assert file is not None
        return file

    def _wait(self, lock: Callable[[], T]) -> T:
        """Call ``lock``, which blocks; report the holders after 10 s, and every minute from then on."""
        if self._waiting_since is None:
            self._waiting_since = time.monotonic()
            self._say("waiting for other tests on this machine: a measurement runs alone")
        began, over = self._waiting_since, threading.Event()

        def report() -> None:
            after = _REPORT_AFTER_S - (time.monotonic() - began)
            while not over.wait(max(0.0, after)):
                now = time.time()
                users = _users(self._folder)
                holders = [user.text(now) for user in users if user.holds] or self._unnamed(users)
                self._say(f"still waiting: this machine is in use by {'; '.join(holders) or 'an unknown process'}")
                after = _REPORT_EVERY_S

        reporter = threading.Thread(target=report, name="grovescale-machine-lock", daemon=True)
        reporter.start()
        try:
            return lock()
        finally:
            over.set()
            reporter.join()

    def _unnamed(self, users: list[LockUser]) -> list[str]:
        """Return who has the lock from a process that has ended, as a cluster's supervisor that cleans up."""
        waiting = {os.getpid(), *(user.pid for user in users)}
        found = [pid for pid in procfs.have_open(self._folder / "main") if pid not in waiting]
        return [f"pid {pid}, {' '.join(redaction.arguments(procfs.command(pid)))[:_COMMAND_LENGTH]}" for pid in found]


def _folder() -> tuple[Path, str]:
    """Return the folder of the lock files, and the reason if it is not the one that all users share."""
    if given := os.environ.get(FOLDER):
        return Path(given).absolute(), ""
    if problem := _problem_of(_ALL_USERS):
        return state.root() / "machine-lock", problem
    return _ALL_USERS, ""


def _problem_of(folder: Path) -> str:
    """Return why the shared folder cannot be used; empty if it can, or does not exist yet."""
    for path in (folder, *(folder / name for name in _LOCK_FILES)):
        try:
            mode = path.lstat().st_mode
        except FileNotFoundError:
            continue
        except OSError as error:
            return f"{path}: {error.strerror}"
        is_folder = path == folder
        if not (stat.S_ISDIR(mode) if is_folder else stat.S_ISREG(mode)):
            return f"{path} is not a {'folder' if is_folder else 'regular file'}"
        if not os.access(path, os.W_OK | os.X_OK if is_folder else os.R_OK):
            return f"{path}: permission denied"
    return ""


def _make(path: Path) -> None:
    """Create a lock file that every user can lock, regardless of the umask; an existing file stays unchanged."""
    with contextlib.suppress(FileExistsError):
        descriptor = os.open(path, os.O_RDONLY | os.O_CREAT | os.O_EXCL, 0o644)
        try:
            os.fchmod(descriptor, 0o644)
        finally:
            os.close(descriptor)


@contextlib.contextmanager
def _user_file(folder: Path) -> Iterator[BinaryIO]:
    """Yield a new file about this process, readable by all users, locked while the block runs."""
    import fcntl

    descriptor, name = tempfile.mkstemp(prefix=_USER_PREFIX, dir=folder)
    with os.fdopen(descriptor, "wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        os.fchmod(descriptor, 0o644)
        remove = functools.partial(Path(name).unlink, missing_ok=True)
        # A second Ctrl-C may skip the code that closes this block.
        atexit.register(remove)
        try:
            yield file
        finally:
            remove()
            atexit.unregister(remove)


def _users(folder: Path) -> list[LockUser]:
    users = [user for path in folder.glob(f"{_USER_PREFIX}*") if (user := _read_user(path)) is not None]
    return sorted(users, key=lambda user: (not user.holds, user.since))


def _read_user(path: Path) -> LockUser | None:
    """Return the content of a user file; None if its process has ended, or if it is another kind of file."""
    import fcntl

    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        # Removed since the listing, or another user's symbolic link or socket.
        return None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            user = msgspec.json.decode(os.read(descriptor, _USER_BYTES), type=LockUser)
            # The owner comes from the kernel; the process itself wrote the rest.
            return msgspec.structs.replace(user, user=processes.login(status.st_uid))
        # From a killed process, or empty because it is being created.
        if status.st_uid == os.getuid() and status.st_size:
            path.unlink(missing_ok=True)
        return None
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    finally:
        os.close(descriptor)


def _command_line() -> str:
    return " ".join([Path(sys.argv[0]).name, *redaction.arguments(sys.argv)[1:]])[:_COMMAND_LENGTH]


def _inherited(path: Path) -> int | None:
    """Return the descriptor of the parent's lock that this process shares; None if it has none.

    The environment alone is no proof, since it also reaches processes that inherited no descriptor: the descriptor has
    to be open on this very file, and locking it again must not conflict with another process.
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
