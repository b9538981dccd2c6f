"""Accuracy of the shares in a function table, by captures of programs that measure their functions' CPU time.

The truth is measured, not assumed: each program adds up the CPU time of its functions by its thread's CPU clock, and
is asked at both ends of a capture. What is counted is the natural coverage of a 95 % interval: of all functions of
all captures, how many true shares lie in the printed interval. Two other figures are reported beside it: each
function by itself, and captures in which all four lie inside at once (independent intervals would make that 81 %).
"""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec

from pytest_grovescale.analysis.phase_result import ProfileResult
from pytest_grovescale.analysis.profiles.functions import PYSPY_HZ
from pytest_grovescale.analysis.profiles.phase_profiles import read_stacks, with_table
from pytest_grovescale.endpoints import Address
from pytest_grovescale.procfs import Identity, started_ticks
from pytest_grovescale.recording.profiling.capture import Capture
from pytest_grovescale.recording.profiling.pprof import Pprof
from pytest_grovescale.recording.profiling.pyspy import PySpy
from pytest_grovescale.recording.records import ProfileKind

from .rows import Row, at_least, reported

PROGRAMS = Path(__file__).resolve().parent / "programs"
FUNCTIONS = ("alpha", "beta", "gamma", "delta")
CAPTURES = 100
CPU_S = 2.0
"""CPU seconds of a capture: 200 samples, twice as many as a table needs. More only make the intervals smaller."""

BOUND = 0.93


class Program(NamedTuple):
    """A running program with known shares, and its first output: its profile endpoint."""

    process: subprocess.Popen[bytes]
    address: str

    def used(self) -> dict[str, int]:
        """Ask for the CPU time of its functions so far, ns."""
        assert self.process.stdout is not None  # a pipe
        self.process.send_signal(signal.SIGUSR1)
        return msgspec.json.decode(self.process.stdout.readline(), type=dict[str, int])

    def cpu_s(self) -> float:
        """Return its CPU seconds so far."""
        return time.clock_gettime(((~self.process.pid) << 3) | 2)


class Checked(NamedTuple):
    """One capture: whether each function's true share is in its interval, and on how many samples."""

    inside: dict[str, bool]
    samples: int
    independent: float


Profiler = Callable[[Program, Path], Awaitable[Capture]]


def measure(*, quick: bool = False) -> list[Row]:
    """Return the coverage of py-spy's and of pprof's intervals, 100 captures each (``quick``: 10 and no verdict)."""
    captures = CAPTURES // 10 if quick else CAPTURES
    with tempfile.TemporaryDirectory() as folder:
        binary = Path(folder) / "known_shares"
        build = ["go", "build", "-trimpath", "-o", str(binary), "."]
        subprocess.run(build, cwd=PROGRAMS / "known_shares_go", check=True)
        python = [sys.executable, "-I", str(PROGRAMS / "known_shares.py")]
        found = (
            ("pyspy", [_checked(python, _pyspy, "pyspy", Path(folder)) for _ in range(captures)]),
            ("pprof", [_checked([str(binary)], _pprof, "pprof", Path(folder)) for _ in range(captures)]),
        )
    return [_row(f"profile_shares_{profiler}", checked) for profiler, checked in found]


def _pyspy(program: Program, file: Path) -> Awaitable[Capture]:
    pid = program.process.pid
    return PySpy.attached(Identity(pid, started_ticks(pid)), file)


def _pprof(program: Program, file: Path) -> Awaitable[Capture]:
    return Pprof.attached(Address(url=f"http://{program.address}/debug/pprof"), file)


def _checked(command: list[str], profiler: Profiler, kind: ProfileKind, folder: Path) -> Checked:
    with _running(command) as program:
        before = program.used()
        cpu_s = asyncio.run(_captured(program, profiler, folder / "raw"))
        after = program.used()
    spent = {name: after[name] - before[name] for name in before}
    profile = ProfileResult(process="program", kind=kind, file="raw")
    on_cpu = cpu_s * PYSPY_HZ if kind == "pyspy" else None
    table = with_table(profile, read_stacks(folder, profile), cpu_s=cpu_s, on_cpu=on_cpu)
    return _check(table, {name: spent[name] / spent["all"] for name in FUNCTIONS})


@contextmanager
def _running(command: list[str]) -> Iterator[Program]:
    """Run a program. It ends with its standard input."""
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None  # a pipe
        try:
            yield Program(process, process.stdout.readline().decode().strip())
        finally:
            process.communicate()


async def _captured(program: Program, profiler: Profiler, file: Path) -> float:
    """Take a profile of `CPU_S` CPU seconds, however long the program waits for a core; return how many they were."""
    capture = await profiler(program, file)
    begin = program.cpu_s()
    end = begin + CPU_S
    while (left := end - program.cpu_s()) > 0:  # noqa: ASYNC110 - a CPU clock rings no bell
        await asyncio.sleep(max(left, 0.01))
    capture.stop()
    used = program.cpu_s() - begin
    await capture.finish()
    return used


def _check(profile: ProfileResult, truth: dict[str, float]) -> Checked:
    if profile.problem or profile.samples is None or profile.independent is None:
        raise RuntimeError(f"a capture made no table: {profile.problem}")
    rows = {row.function.partition(" ")[0].rpartition(".")[2]: row for row in profile.functions}
    # A function without a sample has no row: its share was not reported.
    inside = {name: name in rows and rows[name].share_low <= truth[name] <= rows[name].share_high for name in FUNCTIONS}
    return Checked(inside, profile.samples, profile.independent)


def _row(name: str, captures: list[Checked]) -> Row:
    hits = {function: sum(capture.inside[function] for capture in captures) for function in FUNCTIONS}
    samples = [capture.samples for capture in captures]
    worth = [capture.independent for capture in captures]
    each = ", ".join(f"{function} {count}" for function, count in hits.items())
    together = sum(all(capture.inside.values()) for capture in captures)
    covered = sum(hits.values()) / (len(captures) * len(FUNCTIONS))
    spread = [count / len(captures) for count in hits.values()]
    how = (
        f"of {len(captures)} captures of {CPU_S:g} s CPU, {min(samples)} to {max(samples)} samples (worth"
        f" {min(worth):.0f} to {max(worth):.0f}), true share inside the printed interval: {each};"
        f" all four at once {together}"
    )
    if len(captures) < CAPTURES:
        return reported(name, covered, "", spread=spread, how=how)  # too few to tell 95 % from 90 %
    return at_least(name, covered, "", BOUND, spread=spread, how=how)
