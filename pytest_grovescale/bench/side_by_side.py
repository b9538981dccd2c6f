"""Deploy and delete runs of both variants in parallel, each on its own cluster.

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
from collections.abc import Sequence
from typing import Self

from ..cluster.handle import Cluster
from . import measured, whole_run
from .bench import Bench, new_cluster
from .schedule import Slot
from .whole_run import WholeRun

_LOOK_S = 0.25


class SideBySide:
    """Makes the runs of a pair at the same time, on two clusters that live until ``stack`` is closed."""

    def __init__(self, bench: Bench, stack: contextlib.ExitStack) -> None:
        self._bench = bench
        self._stack = stack
        self._clusters: list[Cluster] = []

    def __call__(self, slot: Slot) -> None:
        """Make both runs of a slot's round, and save their samples.

        Repeats an existing run, too: alone, the other would be compared with another state of the machine.
        """
        slots = [one for one in self._bench.plan.part(slot.part) if one.round == slot.round]
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
            results = [whole_run.result(self._bench, run) for run in runs]
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
            return running.enter_context(whole_run.started(self._bench, slot, cluster, barrier=theirs))

    def _wait(self, runs: Sequence[WholeRun], barrier: Barrier) -> None:
        """Return when all runs have ended."""
        left = list(runs)
        while left:
            barrier.look(_LOOK_S)
            for run in left:
                run.process.look(functools.partial(whole_run.follow, self._bench, run))
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
