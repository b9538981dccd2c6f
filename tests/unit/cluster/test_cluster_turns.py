"""Turns: measurements run alone, other tests together, nobody waits for ever."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

from pytest_grovescale.cluster import locks, turns

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
