"""``python -m tools.faults.worker``: one fault, from a JSON order on stdin to its observation, as JSON, on stdout.

Runs as root of its own mount and pid namespace (``__main__`` starts it there), so all its mounts, files and processes
end with it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from . import definitions as d
from . import folders as places
from . import judging, programs
from .definitions import Ended, Fault, Observation, Size
from .folders import Folders
from .programs import Running

_GONE_S = 40.0
"""Time limit after a run's end for everything of it to disappear, s."""
_FILES_S = 10.0
_RESULT_S = 30.0
_NEXT_RUN_S = 150.0
_NEXT_RUN = Size(nodes=2, replicas=1, hold_s=0.1)
_CHECKOUT = Path(__file__).resolve().parents[2]
_FIRST_USER = 61_000
"""Ids from here on have no login name."""

_HOLD_MACHINE = """
import sys
from pytest_grovescale.cluster import machine_lock
with machine_lock.exclusive(command="a test of theirs"):
    print("held", flush=True)
    sys.stdin.read()
"""
_USE_MACHINE = "from pytest_grovescale.cluster import machine_lock\nwith machine_lock.shared():\n    pass\n"
_HIDING = 'for folder in "$1" "$2"; do mount -t tmpfs none "$folder" || exit 99; done; shift 2; exec "$@"'


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """The worker's input."""

    fault: Fault
    size: Size
    cache: str
    """The machine's cache of binaries."""
    scenario: str
    """The scale test's file."""
    patience: float = 1.0
    """Factor of all time limits: for a machine with other load."""


class _Missed(Exception):
    """The fault did not strike."""


class _Impossible(Exception):
    """This machine, or this user, cannot make the fault."""


class _Stage:
    """One fault's folders and runs, and the cleanup at the end of the run."""

    def __init__(self, order: Order) -> None:
        self.fault = order.fault
        self.size = order.size
        self.order = order
        self.other_uid = _FIRST_USER + order.fault.number
        self.extra: dict[str, str] = {}
        self.at_end = contextlib.ExitStack()
        """Ends the fault at the end of the run."""
        self.runs: list[Running] = []
        places.private_file_systems()
        places.provide_binaries(Path(order.cache))
        action = order.fault.action
        self.folders = self.make(
            action.name if isinstance(action, d.Paths) else "run", self.other_uid if _is_other_user(action) else 0
        )

    def make(self, name: str, uid: int) -> Folders:
        if uid and not _can_be(uid):
            places.open_to_all([_CHECKOUT, Path(sys.prefix), Path(sys.base_prefix), Path(self.order.cache)])
            if not _can_be(uid):
                raise _Impossible("no other user can be, or none can read this checkout and its Python")
        return places.make(places.ROOT / name, uid, Path(self.order.cache), Path(self.order.scenario))

    def start(
        self, folders: Folders, size: Size, *, prefix: tuple[str, ...] = (), extra: dict[str, str] | None = None
    ) -> Running:
        action = self.fault.action
        closed = action.closed if isinstance(action, d.Surroundings) else ()
        if closed:
            prefix = ("sh", "-c", 'exec "$@" ' + " ".join(f"{number}>&-" for number in closed), "sh", *prefix)
        running = Running(
            [*prefix, *programs.scale_test(folders, size)],
            folders,
            folders.environment(self.extra | (extra or {})),
            limit=action if isinstance(action, d.Limit) else None,
            lines=action.lines if isinstance(action, d.ClosePipe) else None,
        )
        self.runs.append(running)
        return running

    def call(self, command: list[str], within_s: float) -> Ended:
        environment = self.folders.environment(self.extra)
        return Running(command, self.folders, environment).ends(within_s * self.order.patience)


def observe(order: Order) -> Observation:
    """Inject a fault into a run and return the observation."""
    began = time.monotonic()
    try:
        seen = _observe(_Stage(order))
    except _Missed as missed:
        seen = Observation(missed=str(missed))
    except _Impossible as impossible:
        seen = Observation(skipped=str(impossible))
    return msgspec.structs.replace(seen, seconds=round(time.monotonic() - began, 1))


def _observe(stage: _Stage) -> Observation:
    folders, expect, patience = stage.folders, stage.fault.expect, stage.order.patience
    with stage.at_end:
        _prepare(stage)
        before = places.left(folders)
        run = stage.start(folders, stage.size)
        _strike(stage, run)
        ended = tuple(running.ends(expect.limit_s * patience) for running in stage.runs)
    processes_left = programs.left_running(_GONE_S * patience)
    left = _left_over(folders, before, _FILES_S * patience, excused=expect.until_next_run)
    programs.end_all()
    runs = places.run_folders(folders.reports)
    unfinished = places.unfinished(runs, _RESULT_S * patience if expect.result else 0)
    journals = tuple(journal for folder in runs for journal in places.journals(folder))
    shown = stage.call(programs.grovescale("show", str(runs[0])), 60) if runs else None
    # The fault must not end the next run, too: a user repairs it. Names occupied by other users stay.
    next_run = stage.call(programs.scale_test(folders, _NEXT_RUN), _NEXT_RUN_S)
    programs.left_running(_GONE_S * patience)
    return Observation(
        runs=ended,
        processes_left=processes_left,
        left_after_run=left,
        left_after_next=_left_over(folders, before, _FILES_S * patience),
        journals=journals,
        unfinished=unfinished,
        shown=shown,
        disturbed=places.disturbed(),
        next_run=next_run,
    )


def _left_over(
    folders: Folders, before: frozenset[str], within_s: float, *, excused: tuple[str, ...] = ()
) -> tuple[str, ...]:
    """Return the new files, once there are none, or only those that may stay, or the time limit has passed."""
    deadline = time.monotonic() + within_s
    while judging.not_excused(left := places.left(folders) - before, excused) and time.monotonic() < deadline:
        time.sleep(0.2)
    return tuple(sorted(left))


# ---- before the run


def _prepare(stage: _Stage) -> None:
    """Apply those parts of a fault that precede the run."""
    folders, before_start = stage.folders, stage.fault.moment is None
    match stage.fault.action:
        case d.FillDisk(place=place, left_bytes=left):
            if place not in ("data", "tmp"):
                places.mount_disk(folders.of(place), folders.uid)
            stage.at_end.callback(places.limit_disk, folders.of(place), None)
            if before_start:
                places.limit_disk(folders.of(place), left)
        case d.NoInodes(place=place):
            places.mount_disk(folders.of(place), folders.uid)
            stage.at_end.callback(places.limit_inodes, folders.of(place), none=False)
            if before_start:
                places.limit_inodes(folders.of(place), none=True)
        case d.Surroundings(variables=variables):
            stage.extra |= variables
        case d.DamageCache() as action:
            if action.elsewhere:
                places.provide_on_path(places.ROOT / "bin")
                stage.extra["PATH"] = f"{places.ROOT}/bin:/usr/local/bin:/usr/bin:/bin"
            restore = places.damage(folders.of("cache"), action)
            if not action.elsewhere:
                stage.at_end.callback(restore)
        case d.OtherUser():
            subprocess.run([sys.executable, "-c", _USE_MACHINE], check=True)
        case d.Occupied() as action:
            places.occupy(action, stage.other_uid)
        case d.LockHeld():
            stage.at_end.enter_context(_machine_held(stage))
        case d.ReadOnly(place=place) if before_start:
            _make_read_only(stage, place)
        case d.AsciiLocale():
            stage.extra |= {"LC_ALL": "C", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
        case _:
            pass


@contextlib.contextmanager
def _machine_held(stage: _Stage) -> Iterator[None]:
    other = stage.make("other", stage.other_uid)
    holder = subprocess.Popen(
        [sys.executable, "-c", _HOLD_MACHINE],
        env=other.environment({}),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        user=other.uid,
        group=other.uid,
        extra_groups=[],
    )
    assert holder.stdin is not None
    assert holder.stdout is not None
    try:
        if holder.stdout.readline() != b"held\n":
            raise _Missed("the other user could not hold the machine")
        yield
    finally:
        holder.kill()
        holder.communicate()


# ---- while it runs


def _strike(stage: _Stage, run: Running) -> None:
    """Wait for the fault's moment and apply it. Raises _Missed."""
    action, moment = stage.fault.action, stage.fault.moment
    limit_s = stage.fault.expect.limit_s * stage.order.patience
    if moment is not None:
        if not run.reaches_point(moment.after, limit_s):
            raise _Missed(f"the run did not get to {moment.after}: {run.output[-1500:]}")
        time.sleep(moment.delay_s)
    match action:
        case d.Kill(victim=victim):
            _signal(victim, run, signal.SIGKILL)
        case d.Freeze(victim=victim, seconds=seconds):
            pid = _signal(victim, run, signal.SIGSTOP)
            if seconds is None:
                stage.at_end.callback(_go_on, pid)
            else:
                time.sleep(seconds)
                _go_on(pid)
        case d.Interrupt() as interrupt:
            _interrupt(interrupt, run)
        case d.FillDisk(place=place, left_bytes=left, until=until) if moment is not None:
            places.limit_disk(stage.folders.of(place), left)
            if until is not None and run.reaches_point(until, limit_s):
                places.limit_disk(stage.folders.of(place), None)
        case d.NoInodes(place=place) if moment is not None:
            places.limit_inodes(stage.folders.of(place), none=True)
        case d.ReadOnly(place=place) if moment is not None:
            _make_read_only(stage, place)
        case d.DamageFile() as damage:
            if not places.damage_file(stage.folders, damage):
                raise _Missed(f"there was no {damage.file}")
        case d.Remove(place="cache"):
            # These namespaces allow no builds or downloads into it: the next run gets it back.
            folder = stage.folders.of("cache")
            aside = folder.with_name("cache-removed")
            folder.rename(aside)
            stage.at_end.callback(_put_back, aside, folder)
        case d.Remove(place=place):
            shutil.rmtree(stage.folders.of(place))
            stage.at_end.callback(_made_again, stage.folders.of(place))
        case d.Beside(where=where):
            _start_beside(stage, where)
        case d.Several(count=count):
            for _ in range(count - 1):
                stage.start(stage.folders, stage.size)
        case d.LockHeld():
            if not run.reaches("in use by", limit_s):
                raise _Missed(f"the run did not wait for the other user: {run.output[-500:]}")
            stage.at_end.pop_all().close()
        case _:
            pass


def _signal(victim: d.Victim, run: Running, number: signal.Signals) -> int:
    pid = programs.find(victim, run)
    if not pid:
        raise _Missed(f"there was no {victim}: {run.output[-500:]}")
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        raise _Missed(f"the {victim} had just ended") from None
    return pid


def _go_on(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGCONT)


def _make_read_only(stage: _Stage, place: d.Place) -> None:
    """Let nothing more be opened for writing in a folder, until the run's end; files that are open stay so."""
    path = str(stage.folders.of(place))
    places.mount("--bind", path, path)
    places.mount("-o", "remount,bind,ro", path)
    stage.at_end.callback(places.mount, "-o", "remount,bind,rw", path)


def _put_back(aside: Path, folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    aside.rename(folder)


def _made_again(folder: Path) -> None:
    folder.mkdir(exist_ok=True)


def _interrupt(action: d.Interrupt, run: Running) -> None:
    number = signal.Signals[action.signal]
    send: Callable[[int, int], None] = os.kill if number is signal.SIGTERM else os.killpg
    for index in range(action.times):
        if index:
            time.sleep(action.apart_s)
        try:
            send(run.pid, number)
        except ProcessLookupError:
            if index == 0:
                raise _Missed("the run had just ended") from None
            # It has ended at an earlier one.
            return


def _start_beside(stage: _Stage, where: str) -> None:
    if where == "other user":
        stage.start(stage.make("other", stage.other_uid), _NEXT_RUN)
        return
    other = stage.make("other", 0)
    lock = places.ROOT / "other" / "lock"
    lock.mkdir()
    hidden = (str(stage.folders.of("state")), str(lock))
    stage.start(
        other,
        _NEXT_RUN,
        prefix=("unshare", "--mount", "sh", "-c", _HIDING, "sh", *hidden),
        extra={"GROVESCALE_STATE_DIR": hidden[0], "GROVESCALE_MACHINE_LOCK_DIR": hidden[1]},
    )


def _is_other_user(action: d.Action) -> bool:
    # The limit on the number of processes applies per user, and not to root.
    return isinstance(action, d.OtherUser) or (isinstance(action, d.Limit) and action.resource == "NPROC")


def _can_be(uid: int) -> bool:
    command = [sys.executable, "-c", "import pytest_grovescale.plugin"]
    try:
        return subprocess.run(command, user=uid, group=uid, extra_groups=[], capture_output=True).returncode == 0
    except (OSError, subprocess.SubprocessError):
        return False


def main() -> int:
    """Read the order, write the observation."""
    order = msgspec.json.decode(sys.stdin.buffer.read(), type=Order)
    sys.stdout.buffer.write(msgspec.json.encode(observe(order)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
