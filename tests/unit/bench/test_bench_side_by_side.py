"""The runs of a pair: a process each that runs its test again and again, phases that begin together, and their ends."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_grovescale.bench import child
from pytest_grovescale.bench.child import Child
from pytest_grovescale.bench.deploy_runs import RunProcess, run_together
from pytest_grovescale.bench.measured import NothingMeasured
from pytest_grovescale.cluster import machine_lock
from pytest_grovescale.json_lines import Channel
from pytest_grovescale.scenario.driver_protocol import (
    RUNS,
    AnyRunAnswer,
    AnyRunOrder,
    BeginRun,
    EndRuns,
    Runs,
    inherited_runs,
)
from tests.processes import wait_none


class OfChild(Child):
    """The output of a process that this test plays itself."""

    def __init__(self, log: Path) -> None:
        log.touch()
        self.log = log

    def look(self, follow: child.Follow) -> None:
        """There is none."""


class TwoTests:
    """Two tests in threads, each with phases of its own, and the driver's ends of their sockets."""

    def __init__(self, folder: Path, *phases: int) -> None:
        self.began: list[tuple[int, int]] = []
        """(test, phase) in the order in which they began."""
        self.touching: list[bool] = []
        """Of each run of a test, whether it touches single objects."""
        self.processes: list[RunProcess] = []
        self._ends: list[socket.socket] = []
        self._threads = []
        for number, count in enumerate(phases):
            ours, theirs = socket.socketpair()
            channel: Channel[AnyRunAnswer] = Channel(ours, AnyRunAnswer)
            self.processes.append(RunProcess(OfChild(folder / f"{number}.log"), channel, folder, lambda line: None))
            self._ends.append(theirs)
            self._threads.append(threading.Thread(target=self._run, args=(number, count), daemon=True))
            self._threads[-1].start()

    def _run(self, number: int, count: int) -> None:
        orders: Channel[AnyRunOrder] = Channel(self._ends[number], AnyRunOrder)
        runs = Runs(orders)
        for _ in runs.asked():
            self.touching.append(runs.touches)
            for phase in range(count):
                runs.at_phase()
                self.began.append((number, phase))

    def die(self, number: int) -> None:
        self._ends[number].shutdown(socket.SHUT_RDWR)

    def finish(self) -> None:
        for process in self.processes:
            process.say(EndRuns())
        for thread in self._threads:
            thread.join(10)
            assert not thread.is_alive()

    def close(self) -> None:
        for process in self.processes:
            process.close()
        for thread in self._threads:
            thread.join(10)
        for end in self._ends:
            end.close()


def test_phases_begin_when_both_are_as_far(tmp_path: Path) -> None:
    with contextlib.closing(TwoTests(tmp_path, 3, 3)) as tests:
        for _ in range(2):
            tests.began.clear()
            run_together(tests.processes, BeginRun(), look=lambda: None)
            assert sorted(tests.began[:2]) == [(0, 0), (1, 0)]
            assert sorted(tests.began[2:4]) == [(0, 1), (1, 1)]
            assert sorted(tests.began[4:]) == [(0, 2), (1, 2)]
        tests.finish()


def test_a_run_touches_single_objects_unless_its_driver_does_without(tmp_path: Path) -> None:
    with contextlib.closing(TwoTests(tmp_path, 1, 1)) as tests:
        for touches in (False, True):
            tests.touching.clear()
            run_together(tests.processes, BeginRun(touches=touches), look=lambda: None)
            assert tests.touching == [touches, touches]
        tests.finish()


def test_one_that_has_ended_its_run_keeps_none_waiting(tmp_path: Path) -> None:
    with contextlib.closing(TwoTests(tmp_path, 1, 4)) as tests:
        run_together(tests.processes, BeginRun(), look=lambda: None)
        assert sorted(tests.began) == [(0, 0), (1, 0), (1, 1), (1, 2), (1, 3)]
        tests.finish()


def test_one_that_has_died_measures_nothing(tmp_path: Path) -> None:
    with contextlib.closing(TwoTests(tmp_path, 1, 1)) as tests:
        tests.die(1)
        with pytest.raises(NothingMeasured, match="before anything was measured"):
            run_together(tests.processes, BeginRun(), look=lambda: None)


def test_what_a_look_raises_ends_the_wait(tmp_path: Path) -> None:
    with contextlib.closing(TwoTests(tmp_path, 1, 1)) as tests:

        def over() -> None:
            raise TimeoutError

        with pytest.raises(TimeoutError):
            run_together(tests.processes, BeginRun(), look=over)


def test_without_a_driver_there_are_no_runs_to_make(monkeypatch: pytest.MonkeyPatch) -> None:
    for nonsense in ("", "none", "99999"):
        monkeypatch.setenv(RUNS, nonsense)
        assert inherited_runs() is None


AGAIN = """
import pytest

made = []

@pytest.fixture
def number():
    made.append(len(made))
    yield made[-1]
    with open("log-of-runs", "a") as file:
        file.write(f"{made[-1]} gone\\n")

def test_it(number):
    with open("log-of-runs", "a") as file:
        file.write(f"{number} runs\\n")
    assert number != 1
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder to work in, whose processes are all gone afterwards."""
    monkeypatch.setenv("GROVESCALE_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text("[tool.pytest]\n", encoding="utf-8")
    (tmp_path / "test_it.py").write_text(AGAIN, encoding="utf-8")
    yield tmp_path
    wait_none(str(tmp_path))


def test_a_process_runs_its_test_again_with_new_fixtures(folder: Path) -> None:
    arguments, log = ["-p", "no:cacheprovider", "test_it.py"], folder / "log"
    with (
        machine_lock.exclusive() as lock,
        child.connected(arguments, AnyRunAnswer, variable=RUNS, log=log, lock=lock.descriptor) as (started, channel),
    ):
        process = RunProcess(started, channel, folder, lambda line: None)
        for _ in range(3):
            run_together([process], BeginRun(), look=lambda: None)
        process.say(EndRuns())
        assert started.wait() == 1, "the second run has failed"
    assert (folder / "log-of-runs").read_text(encoding="utf-8").splitlines() == [
        f"{number} {what}" for number in range(3) for what in ("runs", "gone")
    ]
