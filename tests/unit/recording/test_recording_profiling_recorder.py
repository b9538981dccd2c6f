"""Profiles as the recorder process takes them: at a phase's edges, through restarts, and when it is ended itself."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.kube.access import Access
from pytest_grovescale.procfs import started_ticks
from pytest_grovescale.recording import journal
from pytest_grovescale.recording.machine import machine
from pytest_grovescale.recording.protocol import ProfileTarget
from pytest_grovescale.recording.recorder import Recorder, RecorderConfig
from pytest_grovescale.recording.records import (
    SCHEMA_VERSION,
    AnyRecord,
    Lines,
    Opened,
    PhaseEnded,
    PhaseStarted,
    ProfileTaken,
    SourceFailed,
)
from tests.processes import carrying, wait_none
from tests.waiting import wait_until

SPINS = "print('up', flush=True)\nwhile True: sum(range(1000))"
NOWHERE = Access(server="https://127.0.0.1:1", insecure=True)
"""No phase here has a milestone, so nobody asks an API server."""


class Operator:
    """A busy process in a supervisor's list."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "processes.json"
        self.process = self.start()

    def start(self) -> subprocess.Popen[str]:
        process = subprocess.Popen([sys.executable, "-c", SPINS], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        listed = {"operator": {"pid": process.pid, "started_ticks": started_ticks(process.pid), "running": True}}
        new = self.file.with_suffix(".new")
        new.write_bytes(msgspec.json.encode(listed))
        new.replace(self.file)
        return process

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()

    def restart(self) -> None:
        self.end()
        self.process = self.start()


@pytest.fixture
def operator(tmp_path: Path) -> Iterator[Operator]:
    operator = Operator(tmp_path)
    yield operator
    operator.end()
    wait_none(str(tmp_path))


@contextmanager
def recorder(folder: Path, operator: Operator) -> Iterator[Recorder]:
    opened = Opened(at=0, schema_version=SCHEMA_VERSION, run="r", test="t", version="0", machine=machine())
    (folder / "recordings").mkdir()
    config = RecorderConfig(
        journal=str(folder / "recordings" / "it.jsonl"),
        run_folder=str(folder),
        opened=opened,
        access=NOWHERE,
        processes_file=str(operator.file),
    )
    running = Recorder.start(config, log=folder / "recorder.log")
    try:
        running.add_profile_target(ProfileTarget(process="operator", profiler="pyspy"))
        yield running
    finally:
        running.stop()
    assert (folder / "recorder.log").read_text() == ""


def recorded(folder: Path) -> list[AnyRecord]:
    found = list(journal.read(folder / "recordings" / "it.jsonl"))
    times = [record.at for record in found]
    assert times == sorted(times)
    return found


def test_a_profile_covers_its_phase_and_only_one_that_asks(
    tmp_path: Path, operator: Operator, snapshot: SnapshotAssertion
) -> None:
    with recorder(tmp_path, operator) as running:
        running.begin_phase("deploy", [], timeout=60, profile=True)
        running.end_phase("deploy", "passed")
        running.begin_phase("delete", [], timeout=60)
        running.end_phase("delete", "passed")
    found = recorded(tmp_path)
    (taken,) = (record for record in found if isinstance(record, ProfileTaken))
    (start, _) = (record for record in found if isinstance(record, PhaseStarted))
    (end, _) = (record for record in found if isinstance(record, PhaseEnded))
    assert taken.started <= start.at < taken.ended <= end.at
    assert (tmp_path / taken.file).is_file()
    assert taken.file == snapshot
    assert taken.file.startswith("profiles/it/deploy-")


def test_a_failure_to_attach_belongs_to_its_phase(tmp_path: Path, operator: Operator) -> None:
    with recorder(tmp_path, operator) as running:
        running.add_profile_target(ProfileTarget(process="kwok", profiler="pyspy"))
        running.begin_phase("first", [], timeout=60)
        running.end_phase("first", "passed")
        running.begin_phase("second", [], timeout=60, profile=True)
        running.end_phase("second", "passed")
    found = recorded(tmp_path)
    (failure,) = (record for record in found if isinstance(record, SourceFailed))
    assert failure.source == "profile:kwok"
    (_, second) = (record for record in found if isinstance(record, PhaseStarted))
    assert failure.at >= second.at


def test_why_a_phase_has_no_profile_belongs_to_it(tmp_path: Path, operator: Operator) -> None:
    with recorder(tmp_path, operator) as running:
        running.begin_phase("deploy", [], timeout=60, unprofiled={"operator": "it has no pprof endpoint"})
        running.end_phase("deploy", "passed")
    found = recorded(tmp_path)
    (failure,) = (record for record in found if isinstance(record, SourceFailed))
    assert (failure.source, failure.message) == ("profile:operator", "it has no pprof endpoint")
    (start,) = (record for record in found if isinstance(record, PhaseStarted))
    assert failure.at >= start.at
    assert not [record for record in found if isinstance(record, ProfileTaken)]


def test_a_restart_in_a_phase_keeps_the_profile_of_the_first_process(tmp_path: Path, operator: Operator) -> None:
    with recorder(tmp_path, operator) as running:
        running.begin_phase("deploy", [], timeout=60, profile=True)
        operator.restart()
        wait_until(lambda: carrying("deploy-operator-pyspy-2.txt"), "a profiler is on its way to the new process")
        running.end_phase("deploy", "passed")
    found = recorded(tmp_path)
    files = [Path(record.file).name for record in found if isinstance(record, ProfileTaken)]
    assert files[0] == "deploy-operator-pyspy.txt"
    assert not [record for record in found if isinstance(record, SourceFailed)]


def test_a_timeout_dumps_the_stacks_with_and_without_profiles(tmp_path: Path, operator: Operator) -> None:
    with recorder(tmp_path, operator) as running:
        for name, profile in (("measured", False), ("profiled", True)):
            running.begin_phase(name, [], timeout=60, profile=profile)
            running.end_phase(name, "timeout")
    dumps = [record for record in recorded(tmp_path) if isinstance(record, Lines)]
    assert [dump.source for dump in dumps] == ["stacks:operator"] * 2
    assert all("<module>" in "\n".join(dump.lines) for dump in dumps)


def test_an_interrupted_phase_keeps_its_profile(tmp_path: Path, operator: Operator) -> None:
    with recorder(tmp_path, operator) as running:
        running.begin_phase("deploy", [], timeout=60, profile=True)
        running.stop("interrupted")
    wait_none("deploy-operator-pyspy.txt")
    assert [record.phase for record in recorded(tmp_path) if isinstance(record, ProfileTaken)] == ["deploy"]


def test_a_killed_recorder_leaves_no_profiler(tmp_path: Path, operator: Operator) -> None:
    with recorder(tmp_path, operator) as running:
        running.begin_phase("deploy", [], timeout=60, profile=True)
        assert carrying("deploy-operator-pyspy.txt")
        os.kill(running.pid, signal.SIGKILL)
        wait_none("deploy-operator-pyspy.txt")
    assert operator.process.poll() is None


def test_a_killed_profiler_costs_its_profile_alone(tmp_path: Path, operator: Operator) -> None:
    with recorder(tmp_path, operator) as running:
        running.begin_phase("deploy", [], timeout=60, profile=True)
        (profiler,) = carrying("deploy-operator-pyspy.txt")
        os.kill(profiler, signal.SIGKILL)
        running.end_phase("deploy", "passed")
    found = recorded(tmp_path)
    assert [record.outcome for record in found if isinstance(record, PhaseEnded)] == ["passed"]
    (failure,) = (record for record in found if isinstance(record, SourceFailed))
    assert "ended by SIGKILL" in failure.message
    assert operator.process.poll() is None
