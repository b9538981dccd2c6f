"""Deploy and delete runs of both variants: in parallel on a cluster each, or sequentially on one.

The speed of a shared machine changes within seconds: in sequential runs of an operator compared with itself, the CPU
ratio of a pair had a standard deviation of 15 % in the deployment; in parallel runs it has one of 4 to 5 %. Each phase
begins in both runs together, so that both see the same state of the machine.
"""

from __future__ import annotations

import contextlib
import functools
import select
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from ..analysis.comparison import VariantRun
from ..analysis.result import TestResult
from ..cluster.handle import Cluster
from ..json_lines import Channel
from ..scenario import driver_protocol
from ..scenario.driver_protocol import AnyRunAnswer, AnyRunOrder, AtPhase, BeginPhase, BeginRun, EndRuns, RunEnded
from . import child, measured
from .child import Child
from .driver import Bench, new_cluster, shared_cluster
from .store import Slot

_LOOK_S = 0.25

Look = Callable[[], None]
"""Called repeatedly during a run; what it raises ends the run."""


def _go_on() -> None:
    pass


# Within some multiple of the hold, a profiled no-op phase repeats its triggers until it has enough samples.
_PROFILED_HOLD_S = 10.0


class WholeRun(NamedTuple):
    """A started run."""

    slot: Slot
    process: Child
    reports: Path


@contextlib.contextmanager
def started(bench: Bench, slot: Slot, cluster: Cluster, *, profile: str = "off") -> Iterator[WholeRun]:
    """Start a slot's run on a cluster; it has ended when the block ends. ``profile``: a profiling pass follows."""
    reports = bench.store.run_folder(slot.name)
    # Left by a killed attempt: this run must not be judged by it.
    (reports / measured.LATEST).unlink(missing_ok=True)
    hold_s = bench.plan.hold_s if profile == "off" else _PROFILED_HOLD_S
    arguments = [
        *bench.arguments(slot.arm, reports, hold_s=hold_s, profile=profile),
        f"--grovescale-cluster={cluster.name}",
    ]
    with child.running(arguments, log=reports / "pytest.log", lock=bench.lock.descriptor) as process:
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

    def __init__(
        self,
        bench: Bench,
        stack: contextlib.ExitStack,
        *,
        noop: bool = False,
        profile: str = "off",
        look: Look = _go_on,
    ) -> None:
        """``noop``: no-op phases count too. ``profile``: each run has a second pass, with a profiler."""
        self._bench = bench
        self._stack = stack
        self._noop = noop
        self._profile = profile
        self._look = look
        self._cluster: Cluster | None = None

    def __call__(self, slot: Slot) -> None:
        """Make one run, and save its sample."""
        if self._cluster is None:
            self._cluster = shared_cluster(self._bench)
            self._stack.callback(self._cluster.release)
        began = time.monotonic()
        with started(self._bench, slot, self._cluster, profile=self._profile) as run:
            while not run.process.ends_within(_LOOK_S):
                run.process.look(functools.partial(follow, self._bench, run))
                self._look()
            test, found = result(self._bench, run, noop=self._noop)
        phases = measured.counted_phases(test, noop=self._noop)
        (found,) = measured.with_contention([(found, phases)], base=self._bench.store.folder)
        self._bench.keep(slot, began, test, found)

    def finish(self) -> None:
        """Nothing to do: only the cluster still runs, which ends with the stack."""


# An operator in a loop never comes to rest: where each pair has to be short, no run waits a minute for that.
_WAIT_IDLE_S = 15.0


class ParallelRuns:
    """Makes the runs of a pair at the same time, on two clusters that live until ``stack`` is closed.

    Each variant has a process on each cluster that it was run on, which makes its further runs there, too: only the
    first run pays for the imports. The operator, its namespace and the recording are new in each.
    """

    def __init__(self, bench: Bench, stack: contextlib.ExitStack, *, noop: bool = False, look: Look = _go_on) -> None:
        """``noop``: no-op phases count too."""
        self._bench = bench
        self._stack = stack
        self._noop = noop
        self._look = look
        self._clusters: list[Cluster] = []
        self._processes: dict[tuple[str, str], RunProcess] = {}
        """By arm and cluster."""

    def __call__(self, slot: Slot) -> None:
        """Make both runs of a slot's round, and save their samples.

        Repeats an existing run, too: alone, the other would be compared with another state of the machine.
        """
        self.together([one for one in self._bench.plan.part(slot.part) if one.round == slot.round])

    def together(self, slots: Sequence[Slot]) -> None:
        """Make the runs of two slots at the same time, and save their samples."""
        began = time.monotonic()
        while len(self._clusters) < len(slots):
            cluster = new_cluster(self._bench, f"{self._bench.store.folder.name}-{len(self._clusters) + 1}")
            self._stack.callback(cluster.release)
            self._clusters.append(cluster)
        self._end_others({slot.arm for slot in slots})
        # The order of the arms alternates from round to round, and with it the assignment of clusters: two clusters may
        # differ a little as long as they live. Counts do not, and are spared the start of two further processes.
        assigned = zip(sorted(slots) if self._noop else slots, self._clusters, strict=True)
        by_slot = {slot: self._process(slot, cluster) for slot, cluster in assigned}
        processes = [by_slot[slot] for slot in slots]
        try:
            order = BeginRun(wait_idle_s=_WAIT_IDLE_S) if self._noop else BeginRun(touches=False)
            run_together(processes, order, look=self._look)
        except BaseException:
            # Both clean up at the same time, not one after the other.
            for process in processes:
                process.child.interrupt()
            raise
        results = [self._result(process) for process in processes]
        each = (time.monotonic() - began) / len(slots)
        measured_runs = measured.with_contention(
            [(run, measured.counted_phases(test, noop=self._noop)) for test, run in results],
            base=self._bench.store.folder,
        )
        for slot, (test, _), found in zip(slots, results, measured_runs, strict=True):
            self._bench.keep(slot, time.monotonic() - each, test, found)

    def finish(self) -> None:
        """Let the processes write their results and end, all at the same time."""
        self._end(list(self._processes))

    def _result(self, process: RunProcess) -> tuple[TestResult, VariantRun]:
        test = process.result()
        if test is None or not test.phases:
            raise measured.nothing_measured(process.child)
        found = measured.run_of(test, process.reports, base=self._bench.store.folder)
        if not self._noop:
            found = msgspec.structs.replace(found, metrics=measured.deploy_run(test, found))
        return test, found

    def _process(self, slot: Slot, cluster: Cluster) -> RunProcess:
        key = slot.arm, cluster.name
        if key not in self._processes:
            self._processes[key] = self._stack.enter_context(run_process(self._bench, slot, cluster))
        return self._processes[key]

    def _end_others(self, arms: Collection[str]) -> None:
        """End the processes of arms that are not run now: a search among many would keep one for each."""
        self._end([key for key in self._processes if key[0] not in arms])

    def _end(self, keys: Sequence[tuple[str, str]]) -> None:
        ending = [self._processes.pop(key) for key in keys]
        for process in ending:
            process.say(EndRuns())
        for process in ending:
            process.child.wait(process.follow)


def run_together(processes: Sequence[RunProcess], order: BeginRun, *, look: Look) -> None:
    """Make one run of each process, as ordered, whose phases begin together; return when all have ended."""
    running = list(processes)
    for process in processes:
        process.say(order)
    waiting: set[RunProcess] = set()
    while running:
        for process in select.select(running, [], [], _LOOK_S)[0]:
            match process.hear():
                case AtPhase():
                    waiting.add(process)
                case RunEnded():
                    running.remove(process)
                case None:
                    raise measured.nothing_measured(process.child)
        for process in processes:
            process.look()
        look()
        # A test that has ended its run keeps none from beginning further phases.
        if running and waiting.issuperset(running):
            for process in running:
                process.say(BeginPhase())
            waiting.clear()


class RunProcess:
    """A process that runs the test of one variant on one cluster, again and again."""

    def __init__(
        self, child: Child, channel: Channel[AnyRunAnswer], reports: Path, follow: Callable[[str], None]
    ) -> None:
        self.child = child
        self.reports = reports
        self.follow = follow
        self._channel = channel
        self._read: set[Path] = set()
        """Recordings of earlier runs."""

    def fileno(self) -> int:
        """Return the descriptor of its channel, for `select.select`."""
        return self._channel.fileno()

    def say(self, order: AnyRunOrder) -> None:
        """Send an order; that a process has died is noticed by its answer."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._channel.say(order)

    def hear(self) -> AnyRunAnswer | None:
        """Return its next message; None when it has ended."""
        return self._channel.hear()

    def result(self) -> TestResult | None:
        """Return the result of the run that has ended; None where it has none."""
        new = measured.recordings_in(self.reports) - self._read
        self._read |= new
        return measured.recorded_result(new.pop()) if len(new) == 1 else None

    def look(self) -> None:
        """Show its output."""
        self.child.look(self.follow)

    def close(self) -> None:
        """Close its channel."""
        self._channel.close()


@contextlib.contextmanager
def run_process(bench: Bench, slot: Slot, cluster: Cluster) -> Iterator[RunProcess]:
    """Start a process that runs an arm's test on a cluster for each order; it has ended when the block ends."""
    name = bench.store.next_run(f"{slot.part}-{slot.arm}")
    reports = bench.store.run_folder(name)
    arguments = [
        *bench.arguments(slot.arm, reports, hold_s=bench.plan.hold_s),
        f"--grovescale-cluster={cluster.name}",
        # What they need would be measured after each run.
        "--grovescale-findings=off",
    ]
    log, lock = reports / "pytest.log", bench.lock.descriptor
    with child.connected(arguments, AnyRunAnswer, variable=driver_protocol.RUNS, log=log, lock=lock) as (
        started,
        channel,
    ):
        yield RunProcess(started, channel, reports, lambda line: bench.screen.now(f"{name}: {line}"))
