"""A pytest process that a driver starts: it shares the driver's lock, and ends with the driver, however that ends."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.bench import child
from pytest_grovescale.cluster import machine_lock
from pytest_grovescale.json_lines import Channel
from pytest_grovescale.scenario.driver_protocol import CONNECTION, AnyOrder, Finish
from tests.processes import wait_none

LOCK = """
from pytest_grovescale.cluster import machine_lock

def test_lock():
    with machine_lock.exclusive():
        pass
"""

WAITING = """
from pytest_grovescale.cluster import machine_lock

with machine_lock.exclusive(lambda text: print(text, flush=True)):
    pass
"""

# Tells through a named pipe that it runs, and cleans up when it is interrupted.
WAITS = """
import pathlib, signal
import pytest

@pytest.fixture
def mess():
    yield
    pathlib.Path("cleaned").touch()

def test_waits(mess):
    with open("here", "w") as pipe:
        pipe.write("here")
    signal.pause()
"""

DRIVER = """
import signal, sys
from pathlib import Path
from pytest_grovescale.bench import child
from pytest_grovescale.cluster import machine_lock

with machine_lock.exclusive() as lock:
    with child.running(["-p", "no:cacheprovider", "test_it.py"], log=Path("log"), lock=lock.descriptor) as process:
        process.wait()
"""

LINE = """
from pytest_grovescale.scenario import driver_protocol

def test_line():
    line = driver_protocol.inherited_channel()
    assert isinstance(line.hear(), driver_protocol.Finish)
    assert line.hear() is None
    assert driver_protocol.inherited_channel() is None
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder to work in, whose processes are all gone afterwards."""
    monkeypatch.setenv("GROVESCALE_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text("[tool.pytest]\n", encoding="utf-8")
    os.mkfifo(tmp_path / "here")
    yield tmp_path
    wait_none(str(tmp_path))


def run(folder: Path, test: str, lock: int, line: socket.socket | None = None) -> tuple[int, str]:
    (folder / "test_it.py").write_text(test, encoding="utf-8")
    log, connections = folder / "log", {} if line is None else {CONNECTION: line}
    arguments = ["-p", "no:cacheprovider", "test_it.py"]
    with child.running(arguments, log=log, lock=lock, connections=connections) as process:
        code = process.wait()
    return code, log.read_text(encoding="utf-8")


def test_it_does_not_wait_for_its_drivers_lock(folder: Path) -> None:
    with machine_lock.exclusive() as lock:
        code, output = run(folder, LOCK, lock.descriptor)
    assert code == 0, output


def test_a_turn_that_was_not_handed_on_is_waited_for(
    folder: Path, monkeypatch: pytest.MonkeyPatch, snapshot: SnapshotAssertion
) -> None:
    with machine_lock.exclusive(), (folder / "other").open("w") as other:
        # Some other file under that number: the variable alone is worth nothing.
        monkeypatch.setenv(machine_lock.INHERITED, str(other.fileno()))
        waiting = subprocess.Popen(
            [sys.executable, "-c", WAITING], stdout=subprocess.PIPE, text=True, pass_fds=[other.fileno()]
        )
        assert waiting.stdout is not None
        first = waiting.stdout.readline()
        assert first.startswith("waiting for ")
    assert first.strip() == snapshot
    said, _ = waiting.communicate(timeout=30)
    assert said.startswith("waited ")


def test_the_line_reaches_it_once(folder: Path) -> None:
    ours, theirs = socket.socketpair()
    line: Channel[AnyOrder] = Channel(ours, AnyOrder)
    line.say(Finish())
    ours.shutdown(socket.SHUT_WR)
    with machine_lock.exclusive() as lock, theirs:
        code, output = run(folder, LINE, lock.descriptor, theirs)
    line.close()
    assert code == 0, output


def test_it_is_interrupted_once_however_often_it_is_reported(folder: Path) -> None:
    (folder / "test_it.py").write_text(WAITS, encoding="utf-8")
    log = folder / "log"
    with (
        machine_lock.exclusive() as lock,
        child.running(["-p", "no:cacheprovider", "test_it.py"], log=log, lock=lock.descriptor) as run,
    ):
        assert (folder / "here").read_text(encoding="utf-8") == "here"
        for _ in range(3):
            run.interrupt()
    assert run.has_ended()
    assert (folder / "cleaned").exists(), "nothing struck it while it cleaned up"
    assert log.read_text(encoding="utf-8").count("! KeyboardInterrupt !") == 1


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_it_cleans_up_and_ends_when_its_driver_is_ended(folder: Path, number: signal.Signals) -> None:
    (folder / "test_it.py").write_text(WAITS, encoding="utf-8")
    driver = subprocess.Popen([sys.executable, "-c", DRIVER], stderr=subprocess.DEVNULL, cwd=folder)
    assert (folder / "here").read_text(encoding="utf-8") == "here"
    driver.send_signal(number)
    driver.wait(timeout=30)
    wait_none(str(folder))
    assert (folder / "cleaned").exists(), "it was interrupted, not killed"


def test_a_job_in_the_background_can_be_interrupted_too(folder: Path) -> None:
    """A shell starts those with SIGINT ignored, which children inherit."""
    (folder / "test_it.py").write_text(WAITS, encoding="utf-8")
    ignoring = f"import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n{DRIVER}"
    driver = subprocess.Popen([sys.executable, "-c", ignoring], stderr=subprocess.DEVNULL, cwd=folder)
    assert (folder / "here").read_text(encoding="utf-8") == "here"
    driver.kill()
    driver.wait()
    wait_none(str(folder))
    assert (folder / "cleaned").exists()


def test_its_output_is_followed_and_kept(folder: Path) -> None:
    (folder / "test_it.py").write_text("def test_it():\n    assert 1 == 2\n", encoding="utf-8")
    log = folder / "log"
    followed: list[str] = []
    with (
        machine_lock.exclusive() as lock,
        child.running(["-p", "no:cacheprovider", "test_it.py"], log=log, lock=lock.descriptor) as process,
    ):
        assert process.wait(followed.append) == 1
        process.look(followed.append)
        assert "1 failed" in process.tail()[-1]
    assert "1 failed" in followed[-1]
