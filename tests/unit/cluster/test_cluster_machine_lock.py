"""Turns: measurements run alone, other tests together, nobody waits for ever."""

from __future__ import annotations

import functools
import os
import stat
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_grovescale.cluster import locks, turns
from pytest_grovescale.errors import ClusterError

Python = Callable[..., subprocess.Popen[str]]
Eventually = Callable[[Callable[[], object], str], None]

HOLD = """
    import sys
    from pytest_grovescale.cluster import turns
    with getattr(turns, sys.argv[1])(lambda text: print(text, flush=True)):
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


def test_exclusive_turn_waits_for_all_and_says_so(state_dir: Path, python: Python) -> None:
    reader = python(HOLD, "shared")
    assert line(reader) == "mine"
    writer = python(HOLD, "exclusive")
    assert line(writer) == "waiting for other tests on this machine: a measurement runs alone"
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
    monkeypatch.delenv(turns.FOLDER)
    folder = tmp_path / "turns"
    monkeypatch.setattr(turns, "_EVERYBODYS", folder)
    request.addfinalizer(functools.partial(os.umask, os.umask(0o077)))
    with turns.shared():
        assert stat.S_IMODE(folder.stat().st_mode) == 0o1777
        assert {file.name: stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()} == {
            "gate": 0o644,
            "main": 0o644,
        }


def test_a_folder_that_cannot_be_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv(turns.FOLDER, str(tmp_path / "file" / "turns"))
    with pytest.raises(ClusterError, match="no turn on this machine can be taken") as caught, turns.shared():
        pytest.fail("it was taken")
    assert turns.FOLDER in caught.value.next_step


def test_turn_of_a_killed_holder_is_free(state_dir: Path, python: Python) -> None:
    writer = python(HOLD, "exclusive")
    assert line(writer) == "mine"
    writer.kill()
    with turns.exclusive():
        pass


def test_exclusive_turns_never_overlap(state_dir: Path) -> None:
    inside: list[int] = []
    most: list[int] = []

    def work() -> None:
        for _ in range(20):
            with turns.exclusive():
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


def test_lock_whose_file_its_holder_removed_is_taken_anew(tmp_path: Path) -> None:
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
