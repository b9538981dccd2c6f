"""Waiting for a quiet machine: a made-up /proc/stat, and a clock that moves when it is waited for."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.cluster.handle import ProcessInfo
from pytest_grovescale.procfs import Identity, started_ticks
from pytest_grovescale.scenario.quiet import Quietness, QuietWait
from tests.golden import masked
from tests.waiting import wait_until

TICKS = os.sysconf("SC_CLK_TCK")
CORES = sorted(os.sched_getaffinity(0))


class Machine:
    """All cores this process may use; each second of waiting, others and the run use so many of each."""

    def __init__(self, folder: Path, others: Callable[[int], float], *, own: float = 0.0, steal: float = 0.0) -> None:
        self.proc = folder / "proc"
        self.proc.mkdir()
        self.second = 0
        self.said: list[str] = []
        self._others, self._own, self._steal = others, own, steal
        self._busy = self._used = self._stolen = 0.0
        self._write()

    def wait(self, seconds: float) -> None:
        assert seconds == 1.0
        self.second += 1
        self._busy += self._others(self.second) + self._own
        self._used += self._own * len(CORES)
        self._stolen += self._steal
        self._write()

    def _write(self) -> None:
        busy, stolen = round(self._busy * TICKS), round(self._stolen * TICKS)
        lines = [f"cpu{core} {busy} 0 0 1000 0 0 0 {stolen} 0 0" for core in CORES]
        (self.proc / "stat").write_text("\n".join(["cpu 0 0 0 0 0 0 0 0 0 0", *lines, "intr 1"]) + "\n")

    def until_quiet(self, limit_s: float) -> QuietWait:
        quietness = Quietness(
            [],
            proc=self.proc,
            wait=self.wait,
            clock=lambda: self.second * 10**9,
            own=lambda: {Identity(7, 1): round(self._used * 1e9)},
        )
        return quietness.wait(limit_s, self.said.append)


def test_a_quiet_machine_is_waited_for_no_longer_than_it_takes_to_see_that(
    tmp_path: Path, snapshot: SnapshotAssertion
) -> None:
    # What the run itself uses does not count.
    found = Machine(tmp_path, lambda second: 0.05, own=0.9).until_quiet(60)
    assert (found.seconds, found.quiet) == (3.0, True)
    assert found.text == snapshot
    assert found.share == pytest.approx(0.05, abs=0.02)


def test_a_hog_is_waited_for_until_it_has_gone_with_progress(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    machine = Machine(tmp_path, lambda second: 0.8 if second <= 15 else 0.0)
    found = machine.until_quiet(60)
    assert (found.seconds, found.quiet) == (18.0, True)
    assert len(machine.said) == 2
    assert all(" 80 % " in line for line in machine.said)
    assert "\n".join(machine.said) == snapshot


def test_a_machine_that_stays_busy_is_not_waited_for_beyond_the_limit(
    tmp_path: Path, snapshot: SnapshotAssertion
) -> None:
    found = Machine(tmp_path, lambda second: 0.05, steal=0.3).until_quiet(5)
    assert (found.seconds, found.quiet) == (5.0, False)
    assert " 35 % " in found.text
    assert found.text == snapshot


def test_without_proc_stat_it_goes_on_at_once(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    machine = Machine(tmp_path, lambda second: 0.8)
    (machine.proc / "stat").unlink()
    found = machine.until_quiet(60)
    assert (found.seconds, found.quiet) == (0.0, None)
    assert found.text == snapshot(name="text")
    assert "\n".join(machine.said) == snapshot(name="said")


def test_a_control_plane_elsewhere_is_not_measured(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    said: list[str] = []
    found = Quietness([tmp_path / "none.json"]).wait(60, said.append)
    assert (found.quiet, found.seconds) == (None, 0.0)
    assert "\n".join(said) == snapshot


def test_a_damaged_list_of_processes_is_not_measured(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    (tmp_path / "processes.json").write_text("{")
    said: list[str] = []
    assert Quietness([tmp_path / "processes.json"]).wait(60, said.append).quiet is None
    assert masked("\n".join(said), {tmp_path: "folder"}) == snapshot


def test_the_processes_in_the_lists_are_the_runs_own(tmp_path: Path) -> None:
    burner = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        listed = ProcessInfo(
            name="kube-apiserver", pid=burner.pid, started_ticks=started_ticks(burner.pid), log="", running=True
        )
        file = tmp_path / "processes.json"
        file.write_bytes(msgspec.json.encode({listed.name: listed}))
        quietness = Quietness([file])
        process = Identity(listed.pid, listed.started_ticks)
        first = quietness._clocks()
        wait_until(lambda: quietness._clocks()[process] > first[process], "the process to use CPU")
    finally:
        burner.kill()
        burner.wait()
    # The harness, which has started it, does not count it again.
    assert {one.pid for one in first} == {burner.pid, os.getpid()}
