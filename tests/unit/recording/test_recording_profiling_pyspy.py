"""py-spy on real Python processes: profiles that are whole, and everything that can go wrong with one."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale import procfs
from pytest_grovescale.procfs import Identity, identity
from pytest_grovescale.recording.profiling import pyspy
from pytest_grovescale.recording.profiling.capture import ProfileFailed, Taken
from pytest_grovescale.recording.profiling.pyspy import PySpy
from tests.processes import carrying, wait_none
from tests.waiting import wait_until

TWO_THREADS = """
import threading

def spin(stop=threading.Event()):
    while not stop.is_set():
        sum(range(1000))

threading.Thread(target=spin, name="réconcile", daemon=True).start()
print("up", flush=True)
spin()
"""

IDLE = "print('up', flush=True); input()"


def started(program: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    return process


def ended(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


def named(process: subprocess.Popen[str]) -> Identity:
    found = identity(process.pid)
    assert found is not None
    return found


@pytest.fixture
def busy() -> Iterator[subprocess.Popen[str]]:
    process = started(TWO_THREADS)
    yield process
    ended(process)


def stand_in(folder: Path, script: str) -> str:
    """A program in py-spy's place."""
    program = folder / "py-spy"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return str(program)


def counted(file: Path) -> int:
    return sum(int(line.rpartition(" ")[2]) for line in file.read_text(encoding="utf-8").splitlines())


async def take(target: Identity, file: Path, *, samples: int = 0, program: str = "") -> Taken:
    """A profile that lasts at least as long as so many samples take."""
    capture = await PySpy.attached(target, file, program=program)
    await asyncio.sleep(samples / pyspy.RATE)
    capture.stop()
    return await capture.finish()


def test_a_profile_holds_the_samples_of_all_threads(busy: subprocess.Popen[str], tmp_path: Path) -> None:
    file = tmp_path / "profile.txt"
    taken = asyncio.run(take(named(busy), file, samples=50))
    assert taken.samples == counted(file) > 0
    assert taken.errors is not None
    text = file.read_text(encoding="utf-8")
    assert "réconcile;" in text
    assert "MainThread;" in text
    assert "spin (" in text


def test_a_phase_shorter_than_one_sample(tmp_path: Path) -> None:
    idle = started(IDLE)
    try:
        taken = asyncio.run(take(named(idle), tmp_path / "profile.txt"))
        assert taken.samples == counted(tmp_path / "profile.txt"), "none, or the first one"
    finally:
        ended(idle)


def test_a_target_that_ends_leaves_its_profile(busy: subprocess.Popen[str], tmp_path: Path) -> None:
    async def cut_short() -> Taken:
        capture = await PySpy.attached(named(busy), tmp_path / "profile.txt")
        await asyncio.sleep(0.2)
        busy.kill()
        return await capture.finish()

    taken = asyncio.run(cut_short())
    assert taken.samples == counted(tmp_path / "profile.txt")


def test_a_target_that_has_ended_is_reported(tmp_path: Path) -> None:
    process = started(IDLE)
    gone = named(process)
    ended(process)
    with pytest.raises(ProfileFailed) as caught:
        asyncio.run(take(gone, tmp_path / "profile.txt"))
    assert "The process had ended" in caught.value.line


def test_a_process_that_is_not_python_is_reported(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        target = identity(process.pid)
        assert target is not None
        with pytest.raises(ProfileFailed) as caught:
            asyncio.run(take(target, tmp_path / "profile.txt"))
        process.kill()
    assert "`profiler: pprof` or `off`" in caught.value.line


def test_a_killed_profiler_costs_the_profile_and_not_the_target(
    busy: subprocess.Popen[str], tmp_path: Path, snapshot: SnapshotAssertion
) -> None:
    file = tmp_path / "profile.txt"

    async def killed() -> None:
        capture = await PySpy.attached(named(busy), file)
        (pid,) = carrying(str(file))
        os.kill(pid, signal.SIGKILL)
        capture.stop()
        await capture.finish()

    with pytest.raises(ProfileFailed) as caught:
        asyncio.run(killed())
    assert str(caught.value) == snapshot
    assert "SIGKILL" in str(caught.value)
    target = named(busy)
    used = pyspy_cpu(target)
    wait_until(lambda: pyspy_cpu(target) > used, "the target runs on")


def pyspy_cpu(target: Identity) -> int:
    fields = Path(f"/proc/{target.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return int(fields[11])


def test_a_target_that_was_left_stopped_is_woken(busy: subprocess.Popen[str]) -> None:
    os.kill(busy.pid, signal.SIGSTOP)
    wait_until(lambda: procfs.is_stopped(busy.pid), "it is stopped")
    pyspy._let_run(named(busy))
    wait_until(lambda: not procfs.is_stopped(busy.pid), "it runs")


DENIED = """echo 'Permission Denied: Try running again with elevated permissions by going sudo env PATH=$PATH'
echo 'Error: Failed to get process executable name. Check that the process is running.'
echo
echo 'Caused by:'
echo '    0: Permission denied (os error 13)'
exit 1"""


def test_a_kernel_that_permits_no_ptrace_is_reported_with_the_remedy(tmp_path: Path) -> None:
    own = identity(os.getpid())
    assert own is not None
    with pytest.raises(ProfileFailed) as caught:
        asyncio.run(take(own, tmp_path / "profile.txt", program=stand_in(tmp_path, DENIED)))
    assert "not permitted" in caught.value.message
    assert "ptrace" in caught.value.next_step


@pytest.mark.parametrize(
    ("scope", "remedy"),
    [
        ("", "SYS_PTRACE"),
        ("0", "SYS_PTRACE"),
        ("1", "kernel.yama.ptrace_scope=0"),
        ("2", "kernel.yama.ptrace_scope=1"),
        ("3", "reboot"),
    ],
)
def test_the_remedy_is_that_of_the_kernels_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scope: str, remedy: str
) -> None:
    setting = tmp_path / "ptrace_scope"
    if scope:
        setting.write_text(f"{scope}\n")
    monkeypatch.setattr(pyspy, "_YAMA", setting)
    assert remedy in pyspy.explained("Error: Operation not permitted (os error 1)").next_step


@pytest.mark.parametrize(
    "script",
    [
        "exit 0",
        "echo 'Sampling process 100 times a second'; exit 3",
        "echo 'Sampling process 100 times a second'; echo 'Samples: 3 Errors: 0'; exit 0",
    ],
    ids=["silent", "fails", "writes-no-file"],
)
def test_a_profiler_without_a_profile_is_a_failure(tmp_path: Path, script: str) -> None:
    own = identity(os.getpid())
    assert own is not None
    with pytest.raises(ProfileFailed):
        asyncio.run(take(own, tmp_path / "profile.txt", program=stand_in(tmp_path, script)))


def test_a_profiler_that_hangs_is_given_up_and_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = identity(os.getpid())
    assert own is not None
    hangs = stand_in(tmp_path, "exec sleep 300")
    with monkeypatch.context() as patch, pytest.raises(ProfileFailed, match="did not attach"):
        patch.setattr(pyspy, "ATTACH_S", 0.3)
        asyncio.run(take(own, tmp_path / "profile.txt", program=hangs))
    wait_none(str(tmp_path))
    deaf = stand_in(tmp_path, "trap '' INT; echo Sampling process; while :; do sleep 0.1; done")
    with monkeypatch.context() as patch, pytest.raises(ProfileFailed, match="did not write its profile"):
        patch.setattr(pyspy, "FINISH_S", 0.3)
        asyncio.run(take(own, tmp_path / "profile.txt", program=deaf))
    wait_none(str(tmp_path / "py-spy"))


LARGE = """while [ $# -gt 0 ]; do [ "$1" = --output ] && out=$2; shift; done
trap 'truncate -s 200M "$out"; echo "Samples: 5 Errors: 0"; exit 0' INT
echo Sampling process
while :; do sleep 0.02; done"""


def test_a_file_of_200_mb_is_not_read(tmp_path: Path) -> None:
    own = identity(os.getpid())
    assert own is not None
    tracemalloc.start()
    try:
        taken = asyncio.run(take(own, tmp_path / "profile.txt", program=stand_in(tmp_path, LARGE)))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert taken == Taken(samples=5, errors=0)
    assert (tmp_path / "profile.txt").stat().st_size == 200 << 20
    assert peak < 4 << 20


def test_there_is_no_pyspy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ProfileFailed, match="not installed"):
        pyspy.executable()
    program = stand_in(tmp_path, "exit 0")
    assert pyspy.executable() == program


RECORDS_AND_WAITS = """
import asyncio, sys
from pathlib import Path
from pytest_grovescale.procfs import identity
from pytest_grovescale.recording.profiling.pyspy import PySpy

async def main():
    await PySpy.attached(identity(int(sys.argv[1])), Path(sys.argv[2]))
    print("attached", flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


def test_a_profiler_dies_with_the_process_that_started_it(busy: subprocess.Popen[str], tmp_path: Path) -> None:
    file = tmp_path / "profile.txt"
    command = [sys.executable, "-c", RECORDS_AND_WAITS, str(busy.pid), str(file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as recorder:
        assert recorder.stdout is not None
        assert recorder.stdout.readline() == "attached\n"
        recorder.kill()
    wait_none(str(file))
    assert busy.poll() is None


def test_stacks_of_a_process_and_of_one_that_is_being_profiled(busy: subprocess.Popen[str], tmp_path: Path) -> None:
    async def dumps() -> list[str]:
        alone = await pyspy.dump(named(busy), captured=False)
        capture = await PySpy.attached(named(busy), tmp_path / "profile.txt")
        beside = await pyspy.dump(named(busy), captured=True)
        capture.stop()
        await capture.finish()
        return [alone, beside]

    for text in asyncio.run(dumps()):
        assert "MainThread" in text
        assert "réconcile" in text


def test_stacks_that_cannot_be_read_are_reported(tmp_path: Path) -> None:
    own = identity(os.getpid())
    assert own is not None
    with pytest.raises(ProfileFailed, match="not permitted"):
        asyncio.run(pyspy.dump(own, captured=False, program=stand_in(tmp_path, DENIED)))
