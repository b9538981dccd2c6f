"""Captures of a phase: what they journal of profilers that work, fail, and of processes that come and go."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.endpoints import Address
from pytest_grovescale.procfs import Identity, identity
from pytest_grovescale.recording import journal
from pytest_grovescale.recording.machine import machine
from pytest_grovescale.recording.profiling.captures import Captures, is_python, plan
from pytest_grovescale.recording.protocol import ProfileTarget
from pytest_grovescale.recording.record_writer import Ledger, RecorderClock
from pytest_grovescale.recording.records import (
    SCHEMA_VERSION,
    AnyRecord,
    Lines,
    Opened,
    ProfileTaken,
    SourceFailed,
)
from tests import goprogram
from tests.waiting import wait_until

SPINS = "print('up', flush=True)\nwhile True: sum(range(1000))"


class Harness:
    """A ledger on a real journal, and processes by name."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.journal = folder / "recording.jsonl"
        self.ledger = Ledger(journal.Writer(self.journal), RecorderClock(), lambda update: None)
        opened = Opened(
            at=self.ledger.now(), schema_version=SCHEMA_VERSION, run="r", test="t", version="0", machine=machine()
        )
        self.ledger.add(opened)
        self.processes: dict[str, Identity] = {}
        self._started: list[subprocess.Popen[str]] = []

    def captures(self, *targets: ProfileTarget) -> Captures:
        captures = Captures(self.ledger, self.processes.get, run_folder=self.folder, name="test_it")
        for target in targets:
            captures.add(target)
        return captures

    def start(self, name: str = "operator") -> subprocess.Popen[str]:
        """A busy Python process of this name; the one before is forgotten."""
        process = subprocess.Popen([sys.executable, "-c", SPINS], stdout=subprocess.PIPE, text=True)
        self._started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        found = identity(process.pid)
        assert found is not None
        self.processes[name] = found
        return process

    def end(self) -> None:
        for process in self._started:
            process.kill()
            process.communicate()

    def records(self) -> list[AnyRecord]:
        self.ledger.flush()
        return list(journal.read(self.journal))

    def taken(self) -> list[ProfileTaken]:
        return [record for record in self.records() if isinstance(record, ProfileTaken)]

    def failed(self) -> list[SourceFailed]:
        return [record for record in self.records() if isinstance(record, SourceFailed)]


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[Harness]:
    harness = Harness(tmp_path)
    yield harness
    harness.end()


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    base = tmp_path_factory.getbasetemp()
    return goprogram.build(base if worker_id == "master" else base.parent)


PROFILES = "profiles/test_it"
"""Where a test's profiles lie in the folder of its run."""
PYSPY = ProfileTarget(process="operator", profiler="pyspy")


async def phase(captures: Captures, name: str = "deploy", seconds: float = 0.2) -> None:
    await captures.begin(name)
    captures.report()
    await asyncio.sleep(seconds)
    captures.stop()
    await captures.collect()


def test_a_phase_leaves_a_profile_with_its_times(harness: Harness) -> None:
    harness.start()
    before = harness.ledger.now()
    asyncio.run(phase(harness.captures(PYSPY)))
    (taken,) = harness.taken()
    assert taken.file == f"{PROFILES}/deploy-operator-pyspy.txt"
    assert (harness.folder / taken.file).is_file()
    assert before < taken.started < taken.ended <= taken.at
    assert (taken.phase, taken.process, taken.kind) == ("deploy", "operator", "pyspy")
    assert taken.samples is not None
    assert not harness.failed()


def test_a_name_becomes_a_files_name(harness: Harness, snapshot: SnapshotAssertion) -> None:
    harness.start()
    asyncio.run(phase(harness.captures(PYSPY), name="../größer </script> ☃"))
    (taken,) = harness.taken()
    assert taken.phase == "../größer </script> ☃"
    assert taken.file.startswith(f"{PROFILES}/größer-script-")
    assert taken.file == snapshot


def test_phases_whose_names_are_alike_or_long_keep_their_own_files(harness: Harness) -> None:
    async def phases() -> None:
        captures = harness.captures(PYSPY)
        for name in ("a/b", "a b", "…" * 300, "x" * 300):
            await phase(captures, name, seconds=0)

    harness.start()
    asyncio.run(phases())
    files = [taken.file for taken in harness.taken()]
    assert len(set(files)) == 4
    assert files[1] == f"{PROFILES}/a-b.2-operator-pyspy.txt"


def test_without_a_run_folder_nothing_is_attached(harness: Harness) -> None:
    captures = Captures(harness.ledger, harness.processes.get, run_folder=None, name="x")
    harness.start()
    captures.add(PYSPY)
    asyncio.run(phase(captures, seconds=0))
    assert not harness.taken()
    assert not harness.failed()


def _last_sentence(message: str) -> str:
    """Return what is made of a failure, without the profiler's or the system's own words for it."""
    return re.split(r"(?<=\.) ", message)[-1]


def test_a_profiler_that_cannot_attach_is_reported_with_its_remedy_and_costs_nothing_else(
    harness: Harness, snapshot: SnapshotAssertion
) -> None:
    harness.start("kept")
    with subprocess.Popen(["sleep", "60"]) as sleeping:
        found = identity(sleeping.pid)
        assert found is not None
        harness.processes["operator"] = found
        asyncio.run(phase(harness.captures(PYSPY, ProfileTarget(process="kept", profiler="pyspy"))))
        sleeping.kill()
    (failure,) = harness.failed()
    assert failure.source == "profile:operator"
    assert "`profiler: pprof`" in failure.message
    assert _last_sentence(failure.message) == snapshot
    assert [taken.process for taken in harness.taken()] == ["kept"]


def test_a_process_that_does_not_run(harness: Harness, snapshot: SnapshotAssertion) -> None:
    asyncio.run(phase(harness.captures(PYSPY), seconds=0))
    (failure,) = harness.failed()
    assert failure.message == snapshot


def test_a_restarted_process_has_a_profile_of_each_life(harness: Harness) -> None:
    async def restarted() -> None:
        captures = harness.captures(PYSPY)
        await captures.begin("deploy")
        first.kill()
        first.wait()
        del harness.processes["operator"]
        captures.gone("operator")
        harness.start()
        captures.seen("operator")
        await until_attached(captures)
        captures.stop()
        await captures.collect()

    first = harness.start()
    asyncio.run(restarted())
    one, two = sorted(harness.taken(), key=lambda taken: taken.started)
    assert one.file.endswith("deploy-operator-pyspy.txt")
    assert two.file.endswith("deploy-operator-pyspy-2.txt")
    assert one.ended <= two.started, "what lies between is not covered"
    assert not harness.failed()


async def until_attached(captures: Captures) -> None:
    """Return when a profiler is attached to the operator; what attaches it runs in this loop."""
    while True:
        if "operator" in captures.attached:
            return
        await asyncio.sleep(0.02)


def test_a_process_that_comes_back_after_the_phase_is_left_alone(harness: Harness) -> None:
    async def late() -> None:
        captures = harness.captures(PYSPY)
        await phase(captures)
        captures.seen("operator")
        await captures.close()

    harness.start()
    asyncio.run(late())
    assert len(harness.taken()) == 1


def test_closing_in_an_open_phase_keeps_what_it_brought(harness: Harness) -> None:
    async def closed() -> None:
        captures = harness.captures(PYSPY)
        await captures.begin("deploy")
        await captures.close()

    harness.start()
    asyncio.run(closed())
    assert len(harness.taken()) == 1


def test_go_profiles_of_three_kinds(harness: Harness, program: Path) -> None:
    with goprogram.running(program) as (process, address):
        found = identity(process.pid)
        assert found is not None
        harness.processes["operator"] = found
        target = ProfileTarget(process="operator", profiler="pprof", address=address)
        asyncio.run(phase(harness.captures(target)))
    files = {taken.kind: taken.file for taken in harness.taken()}
    assert files == {kind: f"{PROFILES}/deploy-operator-{kind}.pb.gz" for kind in ("pprof", "heap", "goroutines")}


def test_a_go_process_that_dies_is_reported_and_its_next_life_is_profiled(
    harness: Harness, program: Path, snapshot: SnapshotAssertion
) -> None:
    async def restarted() -> None:
        captures = harness.captures(target)
        await captures.begin("deploy")
        first.kill()
        first.wait()
        captures.gone("operator")
        with goprogram.running(program, "-port", str(port)) as (second, _):
            harness.processes["operator"] = named(second)
            captures.seen("operator")
            await until_attached(captures)
            captures.stop()
            await captures.collect()

    with goprogram.running(program) as (first, address):
        port = int(address.url.split(":")[2].partition("/")[0])
        harness.processes["operator"] = named(first)
        target = ProfileTarget(process="operator", profiler="pprof", address=address)
        asyncio.run(restarted())
    (failure,) = harness.failed()
    assert _last_sentence(failure.message) == snapshot
    assert "deploy-operator-pprof-2.pb.gz" in {Path(taken.file).name for taken in harness.taken()}


def named(process: subprocess.Popen[str]) -> Identity:
    found = identity(process.pid)
    assert found is not None
    return found


def test_stacks_are_lines_without_credentials(harness: Harness) -> None:
    harness.start()
    captures = harness.captures(PYSPY)
    asyncio.run(captures.dump("operator"))
    asyncio.run(captures.dump("nobody"))
    (lines,) = (record for record in harness.records() if isinstance(record, Lines))
    assert lines.source == "stacks:operator"
    assert any("<module>" in line for line in lines.lines)


def test_goroutines_are_lines(harness: Harness, program: Path) -> None:
    with goprogram.running(program) as (process, address):
        harness.processes["operator"] = named(process)
        captures = harness.captures(ProfileTarget(process="operator", profiler="pprof", address=address))
        asyncio.run(captures.dump_all())
    (lines,) = (record for record in harness.records() if isinstance(record, Lines))
    assert any("main.work" in line for line in lines.lines)


def test_stacks_that_cannot_be_had_are_one_line(harness: Harness) -> None:
    harness.start()
    del harness.processes["operator"]
    asyncio.run(harness.captures(PYSPY).dump_all())
    (failure,) = harness.failed()
    assert failure.source == "stacks:operator"


# ---- which profiler

PPROF = Address(url="http://127.0.0.1:6060/debug/pprof")


def test_auto_takes_pprof_then_python_then_nothing() -> None:
    own = os.getpid()
    chosen = plan("auto", process="operator", pid=own, pprof=PPROF)
    assert chosen == ProfileTarget(process="operator", profiler="pprof", address=PPROF)
    assert plan("auto", process="operator", pid=own, pprof=None) == PYSPY
    assert "no Python process" in str(plan("auto", process="operator", pid=None, pprof=None))


def test_what_is_asked_for_is_taken() -> None:
    assert plan("pyspy", process="operator", pid=None, pprof=PPROF) == PYSPY
    assert "no pprof endpoint" in str(plan("pprof", process="operator", pid=os.getpid(), pprof=None))
    assert "is off in its definition" in str(plan("off", process="operator", pid=os.getpid(), pprof=PPROF))


@pytest.mark.parametrize(
    ("exe", "maps", "python"),
    [
        ("/usr/bin/python3.11", "", True),
        ("/opt/venv/bin/python", "", True),
        ("/usr/local/bin/operator", "7f-8f r-xp 0 08:01 1 /usr/lib/libpython3.12.so.1.0\n", True),
        ("/usr/local/bin/operator", "7f-8f r-xp 0 08:01 1 /usr/lib/libc.so.6\n", False),
        ("/usr/local/bin/python-less-operator", "7f r-xp 0 08:01 1 /usr/local/bin/python-less-operator\n", False),
    ],
)
def test_an_interpreter_is_known_by_its_program_or_its_library(
    tmp_path: Path, exe: str, maps: str, python: bool
) -> None:
    folder = tmp_path / "7"
    folder.mkdir()
    (folder / "exe").symlink_to(exe)
    (folder / "maps").write_text(maps)
    assert is_python(7, proc=tmp_path) is python


def test_a_process_that_is_not_there_is_no_interpreter(tmp_path: Path) -> None:
    assert not is_python(7, proc=tmp_path)
    wait_until(lambda: is_python(os.getpid()), "this one is")
