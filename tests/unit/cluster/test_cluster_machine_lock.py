"""Turns: measurements run alone, other tests together, nobody waits for ever."""

from __future__ import annotations

import fcntl
import functools
import os
import re
import stat
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.cluster import locks, machine_lock, processes, state
from pytest_grovescale.errors import ClusterError
from tests.golden import masked

Python = Callable[..., subprocess.Popen[str]]
Eventually = Callable[[Callable[[], object], str], None]

HOLD = """
    import sys
    from pytest_grovescale.cluster import machine_lock
    with getattr(machine_lock, sys.argv[1])(lambda text: print(text, flush=True)):
        print("mine", flush=True)
        sys.stdin.readline()
"""


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def done(process: subprocess.Popen[str]) -> None:
    process.communicate("done\n")


def test_shared_turns_are_held_together(state_dir: Path, python: Python) -> None:
    first, second = python(HOLD, "shared"), python(HOLD, "shared")
    for holder in (first, second):
        # On a busy machine one may have had to wait for the other at the gate.
        while (said := line(holder)) != "mine":
            assert "wait" in said


def test_exclusive_turn_waits_for_all_and_says_so(state_dir: Path, python: Python, snapshot: SnapshotAssertion) -> None:
    reader = python(HOLD, "shared")
    assert line(reader) == "mine"
    writer = python(HOLD, "exclusive")
    assert line(writer) == snapshot
    done(reader)
    assert line(writer).startswith("waited ")
    assert line(writer) == "mine"


def test_who_comes_after_a_waiting_measurement_waits_behind_it(state_dir: Path, python: Python) -> None:
    reader = python(HOLD, "shared")
    assert line(reader) == "mine"
    writer = python(HOLD, "exclusive")
    assert "waiting" in line(writer)
    late = python(HOLD, "shared")
    assert "waiting" in line(late)
    done(reader)
    assert line(writer).startswith("waited ")
    assert line(writer) == "mine"
    done(writer)
    assert line(late).startswith("waited ")
    assert line(late) == "mine"


def test_runs_with_state_folders_of_their_own_take_turns(
    python: Python, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writers = []
    for user in ("one", "another"):
        monkeypatch.setenv("GROVESCALE_STATE_DIR", str(tmp_path / user))
        writers.append(python(HOLD, "exclusive"))
        if user == "one":
            assert line(writers[0]) == "mine"
    assert "waiting" in line(writers[1])
    done(writers[0])
    assert line(writers[1]).startswith("waited ")


def test_every_user_may_lock_what_the_first_has_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.delenv(machine_lock.FOLDER)
    folder = tmp_path / "turns"
    monkeypatch.setattr(machine_lock, "_ALL_USERS", folder)
    request.addfinalizer(functools.partial(os.umask, os.umask(0o077)))
    with machine_lock.shared():
        assert stat.S_IMODE(folder.stat().st_mode) == 0o1777
        modes = {file.name.partition("-")[0]: stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()}
        assert modes == {"gate": 0o644, "main": 0o644, "user": 0o644}
    assert {file.name for file in folder.iterdir()} == {"gate", "main"}


def test_a_folder_that_cannot_be_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv(machine_lock.FOLDER, str(tmp_path / "file" / "turns"))
    with pytest.raises(ClusterError, match="this machine cannot be locked") as caught, machine_lock.shared():
        pytest.fail("it was taken")
    assert machine_lock.FOLDER in caught.value.next_step


@pytest.fixture
def all_users(state_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv(machine_lock.FOLDER)
    folder = tmp_path / "all_users"
    monkeypatch.setattr(machine_lock, "_ALL_USERS", folder)
    return folder


def _foreign_link(folder: Path) -> None:
    (folder.parent / "elsewhere").mkdir()
    folder.symlink_to(folder.parent / "elsewhere")


def _file(folder: Path) -> None:
    folder.touch()


def _linked_lock(folder: Path) -> None:
    folder.mkdir()
    (folder / "main").symlink_to(folder.parent / "made-by-root")


def _fifo(folder: Path) -> None:
    folder.mkdir()
    os.mkfifo(folder / "gate")


@pytest.mark.parametrize("prepare", [_foreign_link, _file, _linked_lock, _fifo])
def test_what_another_user_put_there_stops_no_run_and_is_not_written_through(
    all_users: Path, tmp_path: Path, prepare: Callable[[Path], None]
) -> None:
    prepare(all_users)
    before = {path for path in tmp_path.rglob("*") if not path.is_relative_to(state.root())}
    said: list[str] = []
    with machine_lock.exclusive(said.append):
        assert {path for path in tmp_path.rglob("*") if not path.is_relative_to(state.root())} == before
        assert [user.holds for user in machine_lock.users()] == [True]
    (reported,) = said
    assert reported.startswith(f"only this user's runs are kept apart from each other: {all_users}")


def test_who_waits_is_reported_who_holds_the_machine(
    state_dir: Path,
    python: Python,
    monkeypatch: pytest.MonkeyPatch,
    eventually: Eventually,
    snapshot: SnapshotAssertion,
) -> None:
    monkeypatch.setattr(machine_lock, "_REPORT_AFTER_S", 0.1)
    holder = python(
        """
        import sys
        from pytest_grovescale.cluster import machine_lock
        with machine_lock.exclusive(command="test_it.py::test_long", expected_s=600.0):
            print("mine", flush=True)
            sys.stdin.readline()
        """
    )
    assert line(holder) == "mine"
    said: list[str] = []

    def wait() -> None:
        with machine_lock.exclusive(said.append, command="test_mine.py::test_short"):
            pass

    waiting = threading.Thread(target=wait)
    waiting.start()
    eventually(lambda: any(text.startswith("still waiting") for text in said), "word of who holds the machine")
    reported = next(text for text in said if text.startswith("still waiting"))
    user = processes.login(os.getuid())
    assert "test_it.py::test_long" in reported
    reported = masked(reported, {f"pid {holder.pid}": "pid", f"user {user}": "user"})
    assert re.sub(r"\d[\d:.hm]*s?(?: m?s\b)?", "<time>", reported) == snapshot
    assert [(user.command, user.holds) for user in machine_lock.users()] == [
        ("test_it.py::test_long", True),
        ("test_mine.py::test_short", False),
    ]
    done(holder)
    waiting.join()
    assert machine_lock.users() == []


def test_who_has_the_lock_from_a_process_that_has_ended_is_named(
    state_dir: Path, python: Python, monkeypatch: pytest.MonkeyPatch, eventually: Eventually
) -> None:
    monkeypatch.setattr(machine_lock, "_REPORT_AFTER_S", 0.1)
    ended = python(
        """
        import os, subprocess, sys
        from pytest_grovescale.cluster import machine_lock
        with machine_lock.exclusive() as lock:
            command = [sys.executable, "-c", "import sys; sys.stdin.read()", "left-over"]
            print(subprocess.Popen(command, pass_fds=[lock.descriptor]).pid, flush=True)
            os._exit(0)
        """
    )
    left = line(ended)
    ended.wait()
    said: list[str] = []

    def wait() -> None:
        with machine_lock.exclusive(said.append):
            pass

    waiting = threading.Thread(target=wait)
    waiting.start()
    eventually(lambda: any(text.startswith("still waiting") for text in said), "word of who holds the machine")
    reported = next(text for text in said if text.startswith("still waiting"))
    assert f"pid {left}, " in reported
    assert "left-over" in reported
    done(ended)
    waiting.join()


def test_between_two_measurements_others_have_their_turn(state_dir: Path, python: Python) -> None:
    holder = python(
        """
        import sys
        from pytest_grovescale.cluster import machine_lock
        with machine_lock.exclusive(lambda text: print(text, flush=True)) as turn:
            turn.yield_to_waiting()
            print("mine", flush=True)
            sys.stdin.readline()
            turn.yield_to_waiting()
            print("mine again", flush=True)
        """
    )
    assert line(holder) == "mine", "nobody waited: it was not given up"
    late = python(HOLD, "exclusive")
    assert "waiting" in line(late)
    assert holder.stdin is not None
    holder.stdin.write("\n")
    holder.stdin.flush()
    assert line(late).startswith("waited ")
    assert line(late) == "mine"
    assert "waiting" in line(holder)
    done(late)
    assert line(holder).startswith("waited ")
    assert line(holder) == "mine again"


def test_files_that_tell_nothing_true_name_no_process(state_dir: Path, python: Python) -> None:
    with machine_lock.shared():
        folder = Path(os.environ[machine_lock.FOLDER])
        os.mkfifo(folder / "user-fifo")
        (folder / "user-link").symlink_to("/etc/passwd")
        (folder / "user-dead").write_text('{"pid": 1, "command": "x", "alone": true, "holds": true, "since": 1}')
        (folder / "user-broken").write_bytes(b"\xff not JSON")
        with (folder / "user-broken").open("rb") as broken:
            fcntl.flock(broken, fcntl.LOCK_EX)
            assert [user.pid for user in machine_lock.users()] == [os.getpid()]
        assert not (folder / "user-dead").exists(), "what the dead left is taken away"


def test_turn_of_a_killed_holder_is_free(state_dir: Path, python: Python) -> None:
    writer = python(HOLD, "exclusive")
    assert line(writer) == "mine"
    writer.kill()
    writer.wait()
    with machine_lock.exclusive():
        assert [user.pid for user in machine_lock.users()] == [os.getpid()]
    # Another test's are no regular files.
    left = Path(os.environ[machine_lock.FOLDER]).glob("user-*")
    assert not [path for path in left if path.is_file() and not path.is_symlink()]


def test_exclusive_turns_never_overlap(state_dir: Path) -> None:
    inside: list[int] = []
    most: list[int] = []

    def work() -> None:
        for _ in range(20):
            with machine_lock.exclusive():
                inside.append(1)
                most.append(len(inside))
                inside.pop()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(most) == 80
    assert max(most) == 1


def test_lock_whose_file_its_holder_removed_is_taken_again(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    first = locks.take(path)
    assert first is not None
    taken: list[bool] = []

    def wait() -> None:
        with locks.held(path):
            taken.append(locks.is_held(path))

    thread = threading.Thread(target=wait)
    thread.start()
    locks.remove(path)
    first.close()
    thread.join()
    assert taken == [True]
    assert not locks.is_held(path)
    assert not locks.is_held(tmp_path / "nonesuch")


FORKED = """
    import os, sys
    from pytest_grovescale.cluster import machine_lock
    with machine_lock.exclusive():
        if os.fork() == 0:
            # A copy that a test leaves running: it ends when its standard input does.
            os.write(1, b"forked\\n")
            sys.stdin.read()
            os._exit(0)
    os.write(1, b"free\\n")
"""


def test_a_copy_that_a_test_forked_keeps_no_turn(state_dir: Path, python: Python) -> None:
    process = python(FORKED)
    assert {line(process), line(process)} == {"forked", "free"}
    later = python(HOLD, "exclusive")
    assert line(later) == "mine"
    done(later)
    done(process)
