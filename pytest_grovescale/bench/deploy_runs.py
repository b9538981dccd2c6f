"""Deploy and delete runs of both variants: in parallel on a cluster each, or sequentially on one.

The speed of a shared machine changes within seconds: in sequential runs of an operator compared with itself, the CPU
ratio of a pair had a standard deviation of 15 % in the deployment; in parallel runs it has one of 4 to 5 %. Each phase
begins in both runs together, so that both see the same state of the machine.
"""

from __future__ import annotations

import contextlib
import functools
import select
import socket
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, Self

import msgspec

from ..analysis.comparison import VariantRun
from ..analysis.result import TestResult
from ..cluster.handle import Cluster
from . import child, measured
from .child import Child
from .driver import Bench, new_cluster, shared_cluster
from .store import Slot

# Within some multiple of the hold, a profiled no-op phase repeats its triggers until it has enough samples.
_PROFILED_HOLD_S = 10.0


class WholeRun(NamedTuple):
    """A started run."""

    slot: Slot
    process: Child
    reports: Path


@contextlib.contextmanager
def started(
    bench: Bench, slot: Slot, cluster: Cluster, *, profile: str = "off", barrier: socket.socket | None = None
) -> Iterator[WholeRun]:
    """Start a slot's run on a cluster; it has ended when the block ends.

    ``profile``: a profiling pass follows. ``barrier``: its end of a socket, see ``scenario.barrier``.
    """
    reports = bench.store.run_folder(slot.name)
    # Left by a killed attempt: this run must not be judged by it.
    (reports / measured.LATEST).unlink(missing_ok=True)
    hold_s = bench.plan.hold_s if profile == "off" else _PROFILED_HOLD_S
    arguments = [
        *bench.arguments(slot.arm, reports, hold_s=hold_s, profile=profile),
        f"--grovescale-cluster={cluster.name}",
    ]
    with child.running(arguments, log=reports / "pytest.log", lock=bench.lock.descriptor, barrier=barrier) as process:
        yield WholeRun(slot, process, reports)


def follow(bench: Bench, run: WholeRun, line: str) -> None:
    """Show the last line of a run's output."""
    bench.screen.now(f"{run.slot.name}: {line}")


def result(bench: Bench, run: WholeRun, *, noop: bool = False) -> tuple[TestResult, VariantRun]:
    """Return the result of a run that has ended; ``noop``: its no-op phases count too.

    Raises NothingMeasured when it ended before its first phase.
    """
    test, found = measured.whole_run(run.reports, bench.plan.subject, run.process, base=bench.store.folder)
    if not noop:
        found = msgspec.structs.replace(found, metrics=measured.deploy_run(test, found))
    return test, found


class SequentialRuns:
    """Makes sequential runs, on one cluster that lives until ``stack`` is closed."""

    def __init__(self, bench: Bench, stack: contextlib.ExitStack, *, noop: bool = False, profile: str = "off") -> None:
        """``noop``: no-op phases count too. ``profile``: each run has a second pass, with a profiler."""
        self._bench = bench
        self._stack = stack
        self._noop = noop
        self._profile = profile
        self._cluster: Cluster | None = None

    def __call__(self, slot: Slot) -> None:
        """Make one run, and save its sample."""
        if self._cluster is None:
            self._cluster = shared_cluster(self._bench)
            self._stack.callback(self._cluster.release)
        began = time.monotonic()
        with started(self._bench, slot, self._cluster, profile=self._profile) as run:
            run.process.wait(functools.partial(follow, self._bench, run))
            test, found = result(self._bench, run, noop=self._noop)
        (found,) = measured.with_contention([(found, measured.deploy_phases(test))], base=self._bench.store.folder)
        self._bench.keep(slot, began, test, found)

    def finish(self) -> None:
        """Nothing to do: only the cluster still runs, which ends with the stack."""


_LOOK_S = 0.25


class ParallelRuns:
    """Makes the runs of a pair at the same time, on two clusters that live until ``stack`` is closed."""

    def __init__(self, bench: Bench, stack: contextlib.ExitStack) -> None:
        self._bench = bench
        self._stack = stack
        self._clusters: list[Cluster] = []

    def __call__(self, slot: Slot) -> None:
        """Make both runs of a slot's round, and save their samples.

        Repeats an existing run, too: alone, the other would be compared with another state of the machine.
        """
        self.together([one for one in self._bench.plan.part(slot.part) if one.round == slot.round])

    def together(self, slots: Sequence[Slot]) -> None:
        """Make the runs of two slots at the same time, and save their samples."""
        while len(self._clusters) < len(slots):
            cluster = new_cluster(self._bench, f"{self._bench.store.folder.name}-{len(self._clusters) + 1}")
            self._stack.callback(cluster.release)
            self._clusters.append(cluster)
        began = time.monotonic()
        with contextlib.ExitStack() as running:
            barrier = running.enter_context(Barrier())
            # The order of the arms alternates from round to round, and with it the assignment of clusters.
            runs = [
                self._started(running, barrier, one, cluster)
                for one, cluster in zip(slots, self._clusters, strict=True)
            ]
            # However the wait ends, both clean up at the same time, not one after the other.
            for run in runs:
                running.callback(run.process.interrupt)
            self._wait(runs, barrier)
            results = [result(self._bench, run) for run in runs]
        each = (time.monotonic() - began) / len(slots)
        measured_runs = measured.with_contention(
            [(run, measured.deploy_phases(test)) for test, run in results], base=self._bench.store.folder
        )
        for one, (test, _), found in zip(slots, results, measured_runs, strict=True):
            self._bench.keep(one, time.monotonic() - each, test, found)

    def finish(self) -> None:
        """Nothing to do: only the clusters still run, which end with the stack."""

    def _started(self, running: contextlib.ExitStack, barrier: Barrier, slot: Slot, cluster: Cluster) -> WholeRun:
        with barrier.line() as theirs:
            return running.enter_context(started(self._bench, slot, cluster, barrier=theirs))

    def _wait(self, runs: Sequence[WholeRun], barrier: Barrier) -> None:
        """Return when all runs have ended."""
        left = list(runs)
        while left:
            barrier.look(_LOOK_S)
            for run in left:
                run.process.look(functools.partial(follow, self._bench, run))
            left = [run for run in left if not run.process.has_ended()]


class Barrier:
    """The driver's ends of the sockets of ``scenario.barrier``: a phase begins when all its tests wait for it."""

    def __init__(self) -> None:
        self._lines: list[socket.socket] = []
        self._waiting: set[socket.socket] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        while self._lines:
            self._lines.pop().close()

    def line(self) -> socket.socket:
        """Return a new test's end of its socket, to be passed on and closed."""
        ours, theirs = socket.socketpair()
        self._lines.append(ours)
        return theirs

    def look(self, timeout: float) -> None:
        """Process waiting and ended tests for at most ``timeout`` seconds; release all when all wait."""
        for line in select.select(self._lines, [], [], timeout)[0]:
            if _heard(line):
                self._waiting.add(line)
            else:
                self._lines.remove(line)
                self._waiting.discard(line)
                line.close()
        if self._lines and self._waiting.issuperset(self._lines):
            self._waiting.clear()
            for line in self._lines:
                # A test that has ended meanwhile is noticed at the next call.
                with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                    line.sendall(b".")


def _heard(line: socket.socket) -> bytes:
    """Return a test's message; empty when it has ended."""
    try:
        return line.recv(1)
    except ConnectionResetError:
        return b""
