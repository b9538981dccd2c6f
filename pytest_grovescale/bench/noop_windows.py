"""No-op windows: one deployed workload for each variant, on clusters of their own, measured in turn."""

from __future__ import annotations

import contextlib
import select
import socket
import time
from collections.abc import Iterator
from typing import TypeVar

from ..analysis.comparison import VariantRun
from ..analysis.result import TestResult
from ..errors import UsageError
from ..scenario import windows
from ..scenario.windows import AnyAnswer, Failed, Finish, Line, Measure, Measured, Ready, Restart, Rested
from . import child, measured
from .bench import Bench, own_cluster_arguments
from .child import Child
from .schedule import Slot
from .store import Sample

_LOOK_S = 0.25

T = TypeVar("T", Ready, Rested, Measured)


class SessionBroken(Exception):
    """The variant does not work: its deployment, or a window, failed."""

    def __init__(self, test: TestResult, run: VariantRun) -> None:
        super().__init__(run.broken)
        self.test = test
        self.run = run


class Windows:
    """Windows of both variants in turn. Both are deployed before the first is measured, and stay until ``finish``."""

    def __init__(self, bench: Bench, stack: contextlib.ExitStack) -> None:
        self._bench = bench
        self._stack = stack
        self._sessions: dict[str, Session] = {}

    def __call__(self, slot: Slot) -> None:
        """Measure one window. A variant whose deployment breaks has a broken run in this round instead."""
        began = time.monotonic()
        done = self._bench.store.samples()
        round_ = [Slot(part=slot.part, round=slot.round, arm=arm) for arm in self._bench.plan.arms]
        for one in round_:
            if one not in done and not self._deployed(one):
                return
        try:
            self._sessions[slot.arm].window(slot)
        except SessionBroken as broken:
            self._bench.keep(slot, began, broken.test, broken.run)
            del self._sessions[slot.arm]

    def _deployed(self, slot: Slot) -> bool:
        """Deploy an arm's workload where that has not been done; return whether it is there."""
        if slot.arm in self._sessions:
            return True
        began = time.monotonic()
        self._bench.screen.say(f"deploying {self._bench.plan.arms[slot.arm].label} for its no-op windows")
        session = self._stack.enter_context(opened(self._bench, slot.arm))
        try:
            session.deployed()
        except SessionBroken as broken:
            self._bench.keep(slot, began, broken.test, broken.run)
            return False
        self._sessions[slot.arm] = session
        return True

    def finish(self) -> None:
        """Let the tests go on to their ends, both at the same time."""
        for session in self._sessions.values():
            session.finish()
        for session in self._sessions.values():
            session.ended()


class Session:
    """A test that has deployed its workload and measures windows when it is told to; made by ``opened``."""

    def __init__(self, bench: Bench, arm: str, process: Child, line: Line[AnyAnswer], name: str) -> None:
        self._bench = bench
        self._arm = arm
        self._process = process
        self._line = line
        self._name = name
        self._reports = bench.store.run_folder(name)

    def deployed(self) -> None:
        """Return when the workload is there and the operator at rest; raises SessionBroken when it never is."""
        self._hear(Ready)

    def window(self, slot: Slot) -> Sample:
        """Measure one window, on a fresh operator process, and keep what it gave."""
        began = time.monotonic()
        plan = self._bench.plan.windows
        if plan.fresh:
            self._say(windows.Restart())
            rest = self._hear(Rested).rest
            if not rest.reached:
                waited = f"{rest.cores:.2f} cores after {rest.seconds:.0f} s"
                self._bench.screen.say(f"{slot.name}: the operator does not come to rest: {waited}")
        self._say(Measure(name=f"noop-{slot.round + 1}", seconds=plan.seconds, triggers=plan.triggers))
        test = self._hear(Measured).test
        run = measured.window_run(test, self._reports, base=self._bench.store.folder)
        return self._bench.keep(slot, began, test, run)

    def finish(self) -> None:
        """Let the test go on to its end."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._line.say(Finish())

    def ended(self) -> None:
        """Return when the test has come to its end."""
        self._process.wait(self._follow)

    def _say(self, order: Restart | Measure) -> None:
        # One that has died says so when it is listened to.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._line.say(order)

    def _hear(self, wanted: type[T]) -> T:
        while not select.select([self._line], [], [], _LOOK_S)[0]:
            self._process.look(self._follow)
        answer = self._line.hear()
        if isinstance(answer, wanted):
            return answer
        self._process.wait(self._follow)
        test, run = measured.whole_run(
            self._reports, self._bench.plan.subject, self._process, base=self._bench.store.folder
        )
        why = run.broken or (answer.message.partition("\n")[0] if isinstance(answer, Failed) else "")
        if not why:
            raise UsageError(
                f"{self._bench.plan.subject.nodeid} triggers no reconcile: it has no no-op to compare",
                next_step="Call workload.trigger_reconcile() in a phase of it, or compare with --what deploy.",
            )
        raise SessionBroken(test, VariantRun(metrics={}, broken=why, recording=run.recording))

    def _follow(self, line: str) -> None:
        self._bench.screen.now(f"{self._name}: {line}")


@contextlib.contextmanager
def opened(bench: Bench, arm: str) -> Iterator[Session]:
    """Start a test that will serve windows of one arm; it has ended when the block has."""
    attempt = 1 + len(list((bench.store.folder / "runs").glob(f"noop-{arm}-*")))
    name = f"noop-{arm}-{attempt}"
    reports = bench.store.run_folder(name)
    # The test's own no-op phase, cut short, is only there to show what it triggers.
    arguments = [*bench.arguments(arm, reports, hold_s=bench.plan.hold_s), *own_cluster_arguments(bench.plan.subject)]
    ours, theirs = socket.socketpair()
    with contextlib.ExitStack() as stack:
        line: Line[AnyAnswer] = Line(ours, AnyAnswer)
        stack.callback(line.close)
        with theirs:
            running = child.running(
                arguments, log=reports / "pytest.log", turn=bench.turn, line=theirs, cwd=bench.cwd(arm)
            )
            process = stack.enter_context(running)
        yield Session(bench, arm, process, line, name)
