"""No-op windows: one deployed workload for each variant, on separate clusters, measured in parallel.

Both variants' windows are open at the same time, and their triggers alternate, A B B A …, each when the operator that
has the previous one pauses. A machine's speed changes within seconds, in particular that of a virtual machine with
neighbours: sequential windows differed by 15 % for the same work, as did every process on the machine.
"""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import msgspec

from ..analysis.comparison import VariantRun
from ..analysis.result import TestResult
from ..analysis.run_metrics import window_name
from ..errors import UsageError
from ..json_lines import Channel
from ..scenario import driver_protocol as protocol
from ..scenario.quiescence import Rest
from ..scenario.running_phase import idle_twin_name
from . import child, measured
from .child import Child
from .driver import Bench, own_cluster_arguments
from .store import Plan, Slot

_LOOK_S = 0.25
_LEAST_S = 5.0
"""Minimum wait after a trigger, also the last one of a window, s: its effects belong to the window."""

T = TypeVar("T", protocol.Ready, protocol.Done, protocol.Rested, protocol.Measured)


class SessionBroken(Exception):
    """The variant does not work: its deployment, or a window, failed."""

    def __init__(self, arm: str, test: TestResult, run: VariantRun) -> None:
        super().__init__(run.broken)
        self.arm = arm
        self.test = test
        self.run = run


class Windows:
    """Windows of both variants, a round at a time. Both are deployed before the first, and stay until ``finish``."""

    def __init__(self, bench: Bench, stack: contextlib.ExitStack, *, look: Callable[[], None] = lambda: None) -> None:
        """``look``: called repeatedly while a pair is measured; what it raises ends that."""
        self._bench = bench
        self._stack = stack
        self._look = look
        self._sessions: dict[str, Session] = {}

    def __call__(self, slot: Slot) -> None:
        """Measure the remaining windows of a slot's round, this slot's first.

        A variant whose deployment or window fails has a broken run in this round instead.
        """
        began = time.monotonic()
        done = self._bench.store.samples()
        arms = [slot.arm, *(arm for arm in self._bench.plan.arms if arm != slot.arm)]
        round_ = [msgspec.structs.replace(slot, arm=arm) for arm in arms]
        slots = [one for one in round_ if one not in done]
        if not self._deployed([one for one in slots if one.arm not in self._sessions]):
            return
        try:
            self._measure(slots, began)
        except SessionBroken as broken:
            self._bench.keep(msgspec.structs.replace(slot, arm=broken.arm), began, broken.test, broken.run)
            del self._sessions[broken.arm]

    def _measure(self, slots: Sequence[Slot], began: float) -> None:
        """Measure one window of each slot's arm, all at the same time, and save their samples."""
        plan = self._bench.plan.windows
        sessions = [self._sessions[slot.arm] for slot in slots]
        name = self._name(slots[0])
        if plan.fresh:
            rests = ask_all(sessions, protocol.Restart(), protocol.Rested)
            for session, answer in zip(sessions, rests, strict=True):
                session.note_restarted(answer.rest)
        _pass(sessions, idle_offset(self._bench.plan, slots[0]))
        with _open(sessions, protocol.Begin(name=idle_twin_name(name), twin_of=name)):
            _pass(sessions, plan.seconds)
        with _open(sessions, protocol.Begin(name=name)):
            # Two variants take twice as long: each gets its share of the time.
            _trigger(sessions, plan.triggers, plan.seconds * len(sessions))
        tests = [answer.test for answer in ask_all(sessions, protocol.Report(name=name), protocol.Measured)]
        each = (time.monotonic() - began) / len(slots)
        base = self._bench.store.folder
        runs = measured.with_contention(
            [
                (measured.window_run(test, session.reports, base=base), [phase.name for phase in test.phases])
                for session, test in zip(sessions, tests, strict=True)
            ],
            base=base,
        )
        for slot, test, run in zip(slots, tests, runs, strict=True):
            self._bench.keep(slot, time.monotonic() - each, test, run)

    def _name(self, slot: Slot) -> str:
        """Return the name of a slot's window."""
        times = sum(one.round == slot.round for one in self._bench.store.discarded(self._bench.plan.slots, slot.part))
        return window_name(slot.round + 1, times)

    def _deployed(self, slots: Sequence[Slot]) -> bool:
        """Deploy the workloads of these slots' arms at the same time; return whether all are deployed."""
        began = time.monotonic()
        opening: list[tuple[Slot, Session]] = []
        for slot in slots:
            self._bench.screen.say(f"deploying {self._bench.plan.arms[slot.arm].label} for its no-op windows")
            opening.append((slot, self._stack.enter_context(opened(self._bench, slot.arm, self._look))))
        for slot, session in opening:
            try:
                session.deployed()
                self._sessions[slot.arm] = session
            except SessionBroken as broken:
                self._bench.keep(slot, began, broken.test, broken.run)
        return all(slot.arm in self._sessions for slot in slots)

    def finish(self) -> None:
        """Let the tests continue to their ends, both at the same time."""
        for session in self._sessions.values():
            session.finish()
        for session in self._sessions.values():
            session.ended()


def idle_offset(plan: Plan, slot: Slot) -> float:
    """Return how late a round's idle twins begin, s: the same for both variants, and again after ``--resume``."""
    return random.Random(f"{plan.started} {slot.part} {slot.round}").uniform(0, plan.windows.offset_s)


@contextlib.contextmanager
def _open(sessions: Sequence[Session], begin: protocol.Begin) -> Iterator[None]:
    """Keep a phase open in all sessions during the block."""
    ask_all(sessions, begin, protocol.Done)
    yield
    ask_all(sessions, protocol.End(), protocol.Done)


def _pass(sessions: Sequence[Session], seconds: float) -> None:
    """Wait."""
    ends = time.monotonic() + seconds
    while (left := ends - time.monotonic()) > 0:
        time.sleep(min(left, _LOOK_S))
        for session in sessions:
            session.look()


def _trigger(sessions: Sequence[Session], triggers: int, seconds: float) -> None:
    """Trigger all sessions alternately, this many times each: fewer where that would exceed ``seconds``."""
    ends = time.monotonic() + seconds
    for number in range(triggers):
        for session in sessions if number % 2 == 0 else reversed(sessions):
            session.ask(protocol.Trigger(limit_s=max(ends - time.monotonic(), _LEAST_S)), protocol.Rested)
        if time.monotonic() >= ends:
            return


def ask_all(sessions: Sequence[Session], order: protocol.AnyOrder, wanted: type[T]) -> list[T]:
    """Send a command to all sessions, which execute it at the same time; return their answers. Raises SessionBroken."""
    for session in sessions:
        session.say(order)
    return [session.hear(wanted) for session in sessions]


class Session:
    """A test that has deployed its workload and measures windows on command; created by ``opened``."""

    def __init__(
        self,
        bench: Bench,
        arm: str,
        process: Child,
        channel: Channel[protocol.AnyAnswer],
        name: str,
        look: Callable[[], None],
    ) -> None:
        self._bench = bench
        self._arm = arm
        self._process = process
        self._channel = channel
        self._name = name
        self._look = look
        self.reports = bench.store.run_folder(name)

    def deployed(self) -> None:
        """Return when the workload is deployed and the operator is idle. Raises SessionBroken on failure."""
        self.hear(protocol.Ready)

    def note_restarted(self, rest: Rest) -> None:
        """Report an operator that does not come to rest after its restart."""
        if not rest.reached:
            waited = f"{rest.cores:.2f} cores after {rest.seconds:.0f} s"
            self._bench.screen.say(f"{self._name}: the operator does not come to rest: {waited}")

    def ask(self, order: protocol.AnyOrder, wanted: type[T]) -> T:
        """Send a command and return its answer. Raises SessionBroken."""
        self.say(order)
        return self.hear(wanted)

    def say(self, order: protocol.AnyOrder) -> None:
        """Send a command."""
        # Reading the answer reports a process that has died.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._channel.say(order)

    def look(self) -> None:
        """Show the test's output."""
        self._process.look(self._follow)
        self._look()

    def finish(self) -> None:
        """Let the test continue to its end."""
        self.say(protocol.Finish())

    def ended(self) -> None:
        """Return when the test has ended."""
        self._process.wait(self._follow)

    def hear(self, wanted: type[T]) -> T:
        """Return the next answer. Raises SessionBroken where there is none of this type."""
        answer = self._next()
        if isinstance(answer, wanted):
            return answer
        code = self._process.wait(self._follow)
        test, run = measured.whole_run(
            self.reports, self._bench.plan.subject, self._process, base=self._bench.store.folder
        )
        why = run.broken or (answer.message.partition("\n")[0] if isinstance(answer, protocol.Failed) else "")
        if not why and code:
            # The test itself is broken, independent of the operator.
            raise measured.nothing_measured(self._process)
        if not why:
            raise UsageError(
                f"{self._bench.plan.subject.nodeid} triggers no reconcile: it has no no-op to compare",
                next_step="Call workload.trigger_reconcile() in a phase of it, or compare with --parts deploy.",
            )
        raise SessionBroken(self._arm, test, VariantRun(metrics={}, broken=why, recording=run.recording))

    def _next(self) -> protocol.AnyAnswer | None:
        while True:
            try:
                return self._channel.hear(_LOOK_S)
            except TimeoutError:
                self.look()

    def _follow(self, line: str) -> None:
        self._bench.screen.now(f"{self._name}: {line}")


@contextlib.contextmanager
def opened(bench: Bench, arm: str, look: Callable[[], None]) -> Iterator[Session]:
    """Start a test that serves windows of one arm; it has ended when the block ends."""
    name = bench.store.next_run(f"noop-{arm}")
    reports = bench.store.run_folder(name)
    # The test's own no-op phase, cut short, only shows what it triggers.
    arguments = [*bench.arguments(arm, reports, hold_s=bench.plan.hold_s), *own_cluster_arguments(bench.plan.subject)]
    log, lock = reports / "pytest.log", bench.lock.descriptor
    with child.connected(arguments, protocol.AnyAnswer, variable=protocol.CONNECTION, log=log, lock=lock) as (
        process,
        channel,
    ):
        yield Session(bench, arm, process, channel, name, look)
