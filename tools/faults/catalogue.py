"""The kinds of faults, and the expected outcome of a run with them.

Fault ``number`` of a seed is independent of the count, so that one fault of a table can be repeated alone.
"""

from __future__ import annotations

import random
import signal
from collections.abc import Callable, Iterator, Sequence
from typing import Literal, TypeVar

import msgspec

from . import definitions as d
from .definitions import Expectation, Fault, Moment, Outcome, Point

T = TypeVar("T")

_KB = 1024
_NO_SPACE = r"no space left|disk .*(full|MB left)|disk quota"
_READ_ONLY = r"read-only file system|cannot be written"
_NO_INODE = r"no inode"
_ITS_LOCKS = (r"state/(locks|runs)/", r"tmp/grovescale-machine-lock/user-")
"""Lock files of pytest itself: when it was killed, the next run removes them."""
_ANY_FILE = ("",)
_NEVER_RECORDED: tuple[Point, ...] = ("start", "nodes")
"""A run that ends at these points may have no recording yet."""
_PHASES: tuple[Point, ...] = ("deploy", "steady-state", "delete")
_LONGEST_DELAY_S = {"deploy": 1.2, "steady-state": 1.4, "delete": 0.4, "start": 0.8, "nodes": 0.2, "operator": 0.8}

_PASSED = Outcome(exits=(0,), shown=("PASSED",))
_ERROR = r"\b\d errors?\b"
"""In pytest's last line: the test has neither passed nor failed."""


class _Draft(msgspec.Struct, frozen=True, kw_only=True):
    """A fault before it has its number."""

    what: str
    action: d.Action
    expect: Expectation
    moment: Moment | None = None


_Kind = Callable[[random.Random], _Draft]


def faults(seed: int, *, only: Sequence[str] = ()) -> Iterator[Fault]:
    """Yield the endless faults of a seed, cycling through all kinds or some. Raises KeyError for an unknown kind."""
    for kind in only:
        KINDS[kind]
    number = 0
    while True:
        for kind, draw in KINDS.items():
            number += 1
            if not only or kind in only:
                yield numbered(number, kind, draw(random.Random(f"{seed}/{number}")))


def numbered(number: int, kind: str, draft: _Draft) -> Fault:
    """Return a fault with its place in the series."""
    return Fault(
        number=number, kind=kind, what=draft.what, action=draft.action, expect=draft.expect, moment=draft.moment
    )


def _moment(choose: random.Random, points: Sequence[Point]) -> Moment:
    point = choose.choice(points)
    return Moment(after=point, delay_s=round(choose.uniform(0, _LONGEST_DELAY_S.get(point, 0.3)), 2))


def _shown(moment: Moment, *verdicts: str) -> tuple[str, ...]:
    return () if moment.after in _NEVER_RECORDED else verdicts


def _expect(
    *outcomes: Outcome, until_next_run: tuple[str, ...] = (), result: bool = True, limit_s: float = 180.0
) -> Expectation:
    return Expectation(outcomes=outcomes, until_next_run=until_next_run, result=result, limit_s=limit_s)


# ---- kills and freezes


def _kill_harness(choose: random.Random) -> _Draft:
    moment = _moment(choose, ("start", "nodes", "operator", *_PHASES, "teardown"))
    verdicts = ("INTERRUPTED", "PASSED") if moment.after == "teardown" else ("INTERRUPTED",)
    # While the operator starts, the recording may have begun or not.
    shown = () if moment.after == "operator" else _shown(moment, *verdicts)
    return _Draft(
        what="SIGKILL for pytest",
        action=d.Kill(victim="harness"),
        moment=moment,
        expect=_expect(Outcome(exits=(-9,), shown=shown), until_next_run=_ITS_LOCKS),
    )


def _kill_recorder(choose: random.Random) -> _Draft:
    return _Draft(
        what="SIGKILL for the recorder",
        action=d.Kill(victim="recorder"),
        moment=_moment(choose, _PHASES),
        expect=_expect(
            Outcome(exits=(1,), shown=("ERROR",), says=("recorder", r"killed|SIGKILL|signal 9", _ERROR), next_step=True)
        ),
    )


def _kill_supervisor(choose: random.Random) -> _Draft:
    moment = _moment(choose, ("start", "nodes", *_PHASES))
    says = ("supervisor", "killed", _ERROR)
    return _Draft(
        what="SIGKILL for the supervisor",
        action=d.Kill(victim="supervisor"),
        moment=moment,
        expect=_expect(
            Outcome(exits=(1,), shown=_shown(moment, "ERROR"), says=says, next_step=True),
            until_next_run=_ANY_FILE,
            limit_s=120,
        ),
    )


def _kill_operator(choose: random.Random) -> _Draft:
    return _Draft(
        what="SIGKILL for the operator",
        action=d.Kill(victim="operator"),
        moment=_moment(choose, _PHASES),
        expect=_expect(
            Outcome(exits=(1,), shown=("FAILED",), says=("operator", r"killed|SIGKILL|signal 9"), next_step=True)
        ),
    )


def _kill_component(choose: random.Random) -> _Draft:
    victim: d.Victim = choose.choice(("etcd", "kube-apiserver", "kwok"))
    moment = _moment(choose, _PHASES)
    # The test's own checks cover steady state: data missing from the API server's log is unknown.
    passed = ("PASSED", "INCONCLUSIVE") if moment.after != "steady-state" or victim == "kwok" else ("INCONCLUSIVE",)
    return _Draft(
        what=f"SIGKILL for {victim}",
        action=d.Kill(victim=victim),
        moment=moment,
        expect=_expect(
            Outcome(exits=(0,), shown=passed, says=(victim,)),
            Outcome(exits=(1,), shown=("INCONCLUSIVE",), says=(victim, "inconclusive")),
            # A component may have missed what happened meanwhile, and never end the phase: its error is the cluster's.
            Outcome(exits=(1,), shown=("ERROR",), says=(victim, "the cluster broke, not what is tested")),
        ),
    )


_STALLED = r"stall|stopped|froze|did not run|late|gap"


def _freeze(choose: random.Random) -> _Draft:
    victim: d.Victim = choose.choice(("harness", "recorder", "etcd", "kube-apiserver", "operator", "supervisor"))
    seconds = round(choose.uniform(3, 8), 1)
    # A clock cannot show the effect of a slow operator, or of a supervisor that was idle.
    says = () if victim in ("operator", "supervisor") else (_STALLED,)
    return _Draft(
        what=f"SIGSTOP for {victim}, SIGCONT after {seconds} s",
        action=d.Freeze(victim=victim, seconds=seconds),
        moment=_moment(choose, _PHASES),
        expect=_expect(
            Outcome(exits=(0,), shown=("PASSED", "INCONCLUSIVE"), says=says),
            Outcome(exits=(1,), shown=("INCONCLUSIVE",), says=("inconclusive", *says)),
        ),
    )


def _freeze_supervisor(choose: random.Random) -> _Draft:
    moment = _moment(choose, ("nodes", *_PHASES))
    says = ("supervisor", "stopped")
    return _Draft(
        what="SIGSTOP for the supervisor until the run has ended",
        action=d.Freeze(victim="supervisor", seconds=None),
        moment=moment,
        expect=_expect(
            Outcome(exits=(0,), shown=("PASSED", "INCONCLUSIVE"), says=says, next_step=True),
            Outcome(exits=(1,), shown=_shown(moment, "ERROR"), says=says, next_step=True),
            limit_s=150,
        ),
    )


def _interrupt(choose: random.Random) -> _Draft:
    times = choose.choice((1, 1, 2, 3))
    moment = _moment(choose, ("start", "nodes", "operator", *_PHASES, "teardown"))
    apart = round(choose.uniform(0.1, 1.0), 2)
    word = ("once", "twice", "three times")[times - 1]
    verdicts = ("INTERRUPTED", "PASSED") if moment.after == "teardown" else ("INTERRUPTED",)
    shown = () if moment.after == "operator" else _shown(moment, *verdicts)
    return _Draft(
        what=f"Ctrl-C {word}" + (f", {apart} s apart" if times > 1 else ""),
        action=d.Interrupt(signal="SIGINT", times=times, apart_s=apart),
        moment=moment,
        expect=_expect(
            Outcome(exits=(2,) if times == 1 else (2, 130, -2), shown=shown, says=("interrupt",)),
            # The third one kills pytest, whose lock files the next run removes.
            until_next_run=_ITS_LOCKS if times == 3 else (),
        ),
    )


def _terminate(choose: random.Random) -> _Draft:
    moment = _moment(choose, ("start", "nodes", *_PHASES))
    return _Draft(
        what="SIGTERM for pytest",
        action=d.Interrupt(signal="SIGTERM", times=1, apart_s=0),
        moment=moment,
        expect=_expect(Outcome(exits=(2,), shown=_shown(moment, "INTERRUPTED"), says=("interrupt",))),
    )


def _hangup(choose: random.Random) -> _Draft:
    name: Literal["SIGHUP", "SIGQUIT"] = choose.choice(("SIGHUP", "SIGQUIT"))
    moment = _moment(choose, ("start", "nodes", *_PHASES))
    return _Draft(
        what=f"{name} for the process group",
        action=d.Interrupt(signal=name, times=1, apart_s=0),
        moment=moment,
        expect=_expect(
            Outcome(exits=(-signal.Signals[name],), shown=_shown(moment, "INTERRUPTED")), until_next_run=_ITS_LOCKS
        ),
    )


# ---- disks and folders


def _disk_reports(choose: random.Random) -> _Draft:
    moment = choose.choice((None, _moment(choose, ("deploy", "steady-state"))))
    left = choose.choice((0, 16, 64)) * _KB
    # A phase whose recording cannot be written ends at once: only then can there be room again.
    until: Point | None = choose.choice((None, "failure")) if moment is not None and moment.after == "deploy" else None
    outcome = Outcome(
        exits=(1, 4) if moment is None else (1,),
        shown=() if moment is None else ("ERROR",),
        says=(_NO_SPACE, "/reports") if moment is None else (_NO_SPACE, "/reports", _ERROR),
        next_step=True,
    )
    return _Draft(
        what=f"{left // _KB} KiB left for reports" + (f", more again from the {until} on" if until else ""),
        action=d.FillDisk(place="reports", left_bytes=left, until=until),
        moment=moment,
        expect=_expect(outcome, result=until is not None),
    )


def _disk_state(choose: random.Random) -> _Draft:
    moment = choose.choice((None, _moment(choose, ("deploy", "steady-state"))))
    left = choose.choice((0, 16, 64)) * _KB
    says = (_NO_SPACE, "state|audit log")
    ended = Outcome(exits=(1, 4), shown=() if moment is None else ("ERROR", "INCONCLUSIVE"), says=says, next_step=True)
    return _Draft(
        what=f"{left // _KB} KiB left for the state folder",
        action=d.FillDisk(place="state", left_bytes=left),
        moment=moment,
        # Figures that do not need the audit log are still valid.
        expect=_expect(ended, Outcome(exits=(0,), shown=("PASSED",), says=says)),
    )


def _disk_data(choose: random.Random) -> _Draft:
    moment = _moment(choose, ("nodes", "deploy"))
    return _Draft(
        what="no room in /dev/shm, where etcd's data is",
        action=d.FillDisk(place="data", left_bytes=0),
        moment=moment,
        expect=_expect(
            # What etcd has reserved may be enough.
            Outcome(exits=(0,), shown=("PASSED",)),
            Outcome(
                exits=(1,), shown=_shown(moment, "ERROR", "INCONCLUSIVE"), says=(_NO_SPACE, "etcd"), next_step=True
            ),
        ),
    )


def _disk_tmp(choose: random.Random) -> _Draft:
    return _Draft(
        what="no room in /tmp",
        action=d.FillDisk(place="tmp", left_bytes=0),
        expect=_expect(_PASSED),
    )


def _no_inodes(choose: random.Random) -> _Draft:
    place: d.Place = choose.choice(("reports", "state"))
    moment = choose.choice((None, _moment(choose, ("nodes", "deploy", "steady-state"))))
    ended = Outcome(exits=(1, 4) if moment is None else (0, 1, 3), says=(_NO_INODE, place), next_step=True)
    # A run whose files are all open does not notice.
    outcomes = (ended,) if moment is None else (ended, _PASSED)
    return _Draft(
        what=f"no inode left for the {place} folder",
        action=d.NoInodes(place=place),
        moment=moment,
        expect=_expect(*outcomes, result=False),
    )


def _read_only_later(choose: random.Random) -> _Draft:
    place: d.Place = choose.choice(("reports", "state"))
    # A recording that is open is written to its end; the result that cannot be written is an error of the machine.
    ended = Outcome(exits=(1, 3), shown=("ERROR", "PASSED", "INCONCLUSIVE"), says=(_READ_ONLY, place), next_step=True)
    return _Draft(
        what=f"{place} folder becomes read-only",
        action=d.ReadOnly(place=place),
        moment=_moment(choose, ("deploy", "steady-state")),
        expect=_expect(ended, _PASSED, result=False, until_next_run=_ANY_FILE if place == "state" else ()),
    )


_SAID_OF_FILES: dict[d.RunFile, str] = {
    "journal": "recording ends early",
    "cluster-state": "cluster",
    "processes": "process",
    "audit-log": "audit",
}


def _damaged_file(choose: random.Random) -> _Draft:
    file = choose.choice(tuple(_SAID_OF_FILES))
    # Of a journal that was written over nothing is left to be shown.
    how: d.FileDamage = choose.choice(
        ("truncated", "removed", "garbage") if file != "journal" else ("truncated", "removed")
    )
    shown = () if (file, how) == ("journal", "removed") else ("ERROR", "INCONCLUSIVE")
    next_step = file != "audit-log"
    ended = Outcome(exits=(1,), shown=shown, says=(_SAID_OF_FILES[file],), next_step=next_step)
    return _Draft(
        what=f"the {file} is {how}",
        action=d.DamageFile(file=file, how=how),
        moment=_moment(choose, ("deploy", "steady-state")),
        expect=_expect(
            *([] if file == "journal" else [Outcome(exits=(0,), shown=("PASSED", "INCONCLUSIVE"))]),
            ended,
            result=file != "journal",
            until_next_run=_ANY_FILE if file == "cluster-state" else (),
        ),
    )


_SURROUNDINGS: dict[str, d.Surroundings] = {
    "without HOME": d.Surroundings(variables={"HOME": ""}),
    "TMPDIR that does not exist": d.Surroundings(variables={"TMPDIR": "/nonexistent"}),
    "TMPDIR that is not writable": d.Surroundings(variables={"TMPDIR": "/proc"}),
    "an unknown locale": d.Surroundings(variables={"LC_ALL": "xx_YY.UTF-8", "LANG": ""}),
    "PATH that is empty": d.Surroundings(variables={"PATH": "/nonexistent"}),
    "an unknown terminal, one column wide": d.Surroundings(variables={"TERM": "no-such", "COLUMNS": "1", "LINES": "1"}),
    "stdin closed": d.Surroundings(closed=(0,)),
}


def _surroundings(choose: random.Random) -> _Draft:
    what = choose.choice(list(_SURROUNDINGS))
    return _Draft(what=what, action=_SURROUNDINGS[what], expect=_expect(_PASSED))


def _read_only(choose: random.Random) -> _Draft:
    place: d.Place = choose.choice(("reports", "state", "home", "cache"))
    if place in ("reports", "state"):
        ended = Outcome(exits=(1, 3, 4), says=(_READ_ONLY, place), next_step=True)
    else:
        # Nothing has to be written there: all binaries are in the cache, and no other file of the user is needed.
        ended = _PASSED
    return _Draft(what=f"{place} folder on a read-only disk", action=d.ReadOnly(place=place), expect=_expect(ended))


def _remove(choose: random.Random) -> _Draft:
    place: d.Place = choose.choice(("reports", "state", "cache"))
    outcomes = {
        "reports": (Outcome(exits=(0, 1), says=("reports", "no such file|removed|gone"), next_step=True),),
        "state": (Outcome(exits=(1,), says=("state|supervisor|cluster", "removed|gone|no such file"), next_step=True),),
        "cache": (_PASSED,),
    }[place]
    return _Draft(
        what=f"{place} folder removed",
        action=d.Remove(place=place),
        moment=_moment(choose, ("deploy", "steady-state")),
        expect=_expect(*outcomes, result=place != "reports", until_next_run=_ANY_FILE if place == "state" else ()),
    )


_PATHS = {
    "spaces and accents": "my projects/größe é 測試",
    "quotes and dollars": "a'b\"c $HOME `x`; &",
    "percent and braces": "100%s {x} {{y}} %(z)s",
    "brackets and stars": "[a] (b) *?!#~^",
    "a dash first": "-rf --help",
    "120 characters": "long-" + "x" * 115,
    "250 characters": "long-" + "x" * 245,
    "a newline and a tab": "first\nsecond\tthird",
}


def _path(choose: random.Random) -> _Draft:
    what, name = choose.choice(list(_PATHS.items()))
    return _Draft(what=f"folders in a path with {what}", action=d.Paths(name=name), expect=_expect(_PASSED))


_DAMAGES: dict[d.Damage, str] = {
    "flipped": "has a flipped byte",
    "half": "is cut in half",
    "script": "is a shell script",
    "missing": "is missing",
    "origin-half": "has half of its origin.json",
    "not-executable": "is not executable",
}


def _damaged_cache(choose: random.Random) -> _Draft:
    binary: d.CachedBinary = choose.choice(("etcd", "kube-apiserver", "kwok"))
    how = choose.choice(tuple(_DAMAGES))
    elsewhere = choose.random() < 0.5
    says = (binary, "damaged|missing|not executable")
    ended = (
        Outcome(exits=(0,), shown=("PASSED",), says=says)
        if elsewhere
        else Outcome(exits=(1, 3, 4), says=says, next_step=True)
    )
    return _Draft(
        what=f"cached {binary} {_DAMAGES[how]}" + (", a sound one on PATH" if elsewhere else ", none elsewhere"),
        action=d.DamageCache(binary=binary, how=how, elsewhere=elsewhere),
        expect=_expect(ended),
    )


_LIMITS: dict[d.Resource, tuple[int, str]] = {
    "NPROC": (30, r"resource temporarily unavailable|processes|threads?"),
    "NOFILE": (40, r"too many open files|file descriptors|open files"),
    "FSIZE": (256 * _KB, r"file too large|file size"),
    "AS": (700 * _KB * _KB, r"memory|out of memory|cannot allocate"),
}
"""Resource → its limit, and the expected message when that is too low."""


def _limit(choose: random.Random) -> _Draft:
    resource = choose.choice(tuple(_LIMITS))
    value, says = _LIMITS[resource]
    return _Draft(
        what=f"RLIMIT_{resource} = {value}",
        action=d.Limit(resource=resource, value=value),
        expect=_expect(_PASSED, Outcome(exits=(1, 3, 4), says=(says,), next_step=True), result=False),
    )


# ---- other runs, other users


def _mount_namespace(choose: random.Random) -> _Draft:
    return _Draft(
        what="a second run in another mount namespace, with the same /dev/shm",
        action=d.Beside(where="mount namespace"),
        moment=_moment(choose, ("nodes", "deploy")),
        expect=_expect(_PASSED),
    )


def _other_user(choose: random.Random) -> _Draft:
    if choose.random() < 0.5:
        return _Draft(
            what="another user, after root's use of the machine", action=d.OtherUser(), expect=_expect(_PASSED)
        )
    return _Draft(
        what="a second run, of another user",
        action=d.Beside(where="other user"),
        moment=_moment(choose, ("nodes", "deploy")),
        expect=_expect(_PASSED),
    )


_NAMES: dict[d.OccupiedPath, str] = {
    "lock-folder": "the machine lock's folder",
    "lock-gate": "the machine lock's gate",
    "lock-main": "the machine lock's main file",
    "data-folder": "a data folder",
}


def _occupied(choose: random.Random) -> _Draft:
    path = choose.choice(tuple(_NAMES))
    how: d.OccupiedBy = choose.choice(("symlink", "fifo", "file", "private folder"))
    return _Draft(
        what=f"{_NAMES[path]} is another user's {how}",
        action=d.Occupied(path=path, how=how),
        expect=_expect(_PASSED, limit_s=120),
    )


def _lock_held(choose: random.Random) -> _Draft:
    return _Draft(
        what="another user holds the machine",
        action=d.LockHeld(),
        expect=_expect(Outcome(exits=(0,), shown=("PASSED",), says=(r"in use by pid \d+ of user ",))),
    )


def _several(choose: random.Random) -> _Draft:
    count = choose.choice((2, 3))
    return _Draft(what=f"{count} runs at once", action=d.Several(count=count), expect=_expect(_PASSED, limit_s=240))


# ---- the output


def _closed_pipe(choose: random.Random) -> _Draft:
    lines = choose.choice((1, 3, 8, 12))
    return _Draft(
        what=f"| head -n {lines}",
        action=d.ClosePipe(lines=lines),
        # A shell would see the status of `head`.
        expect=_expect(Outcome(exits=(0, 1, 3, 120, 141, -13), shown=("PASSED", "INTERRUPTED", "INCONCLUSIVE"))),
    )


def _ascii(choose: random.Random) -> _Draft:
    return _Draft(what="LC_ALL=C, output in ASCII", action=d.AsciiLocale(), expect=_expect(_PASSED))


KINDS: dict[str, _Kind] = {
    "kill-harness": _kill_harness,
    "full-disk-reports": _disk_reports,
    "interrupt": _interrupt,
    "damaged-cache": _damaged_cache,
    "kill-supervisor": _kill_supervisor,
    "freeze": _freeze,
    "read-only": _read_only,
    "occupied-name": _occupied,
    "limit": _limit,
    "kill-recorder": _kill_recorder,
    "closed-pipe": _closed_pipe,
    "mount-namespace": _mount_namespace,
    "kill-component": _kill_component,
    "full-disk-state": _disk_state,
    "removed-folder": _remove,
    "kill-operator": _kill_operator,
    "freeze-supervisor": _freeze_supervisor,
    "other-user": _other_user,
    "terminate": _terminate,
    "path": _path,
    "several-runs": _several,
    "full-disk-data": _disk_data,
    "lock-held": _lock_held,
    "full-disk-tmp": _disk_tmp,
    "ascii": _ascii,
    "hangup": _hangup,
    "no-inodes": _no_inodes,
    "read-only-later": _read_only_later,
    "damaged-file": _damaged_file,
    "surroundings": _surroundings,
}
"""Kind → its next fault, drawn at random."""


def short_list() -> tuple[Fault, ...]:
    """Return four faults of different kinds that take about a minute together, on runs of any size."""
    drafts = {
        "kill-supervisor": _Draft(
            what="SIGKILL for the supervisor",
            action=d.Kill(victim="supervisor"),
            moment=Moment(after="deploy", delay_s=0.1),
            expect=_expect(
                Outcome(exits=(1,), shown=("ERROR",), says=("supervisor", "killed", _ERROR), next_step=True),
                until_next_run=_ANY_FILE,
                limit_s=120,
            ),
        ),
        "full-disk-reports": _Draft(
            what="0 KiB left for reports",
            action=d.FillDisk(place="reports", left_bytes=0),
            moment=Moment(after="deploy"),
            expect=_expect(
                Outcome(exits=(1,), shown=("ERROR",), says=(_NO_SPACE, "/reports", _ERROR), next_step=True),
                result=False,
            ),
        ),
        "interrupt": _Draft(
            what="Ctrl-C once",
            action=d.Interrupt(signal="SIGINT", times=1, apart_s=0),
            moment=Moment(after="steady-state", delay_s=0.2),
            expect=_expect(Outcome(exits=(2,), shown=("INTERRUPTED",), says=("interrupt",))),
        ),
        "damaged-cache": _Draft(
            what="cached kwok is a shell script, none elsewhere",
            action=d.DamageCache(binary="kwok", how="script", elsewhere=False),
            expect=_expect(Outcome(exits=(1, 3, 4), says=("kwok", "damaged"), next_step=True)),
        ),
    }
    return tuple(numbered(number, kind, draft) for number, (kind, draft) in enumerate(drafts.items(), start=1))
