"""What a comparison's driver and the tests that it has measured say to each other, over a socket.

*Whole runs.* A test is run again and again by one process, each time the driver says so, with an operator, a namespace
and a recording of its own. When it is about to begin a phase it says that, and goes on when the driver answers, which
it does once the other variant's test has come so far, too.

*No-op windows.* One deployed workload is measured repeatedly: when a phase with triggers has passed, the test pauses
here and executes the driver's orders, which keep the windows of both tests open at the same time and trigger them
alternately.
"""

from __future__ import annotations

import contextlib
import math
import os
import socket
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from ..analysis.analyse import RECORDINGS
from ..analysis.result import TestResult
from ..errors import GrovescaleError, PhaseError, UsageError
from ..json_lines import Channel
from .quiescence import Rest, Work, idle_cores, trigger, until_rest
from .running_phase import RunningPhase, idle_twin_name


def inherited_socket(variable: str) -> socket.socket | None:
    """Return the socket whose descriptor an environment variable holds, once; None without one."""
    number = os.environ.pop(variable, "")
    if not number.isdigit():
        return None
    try:
        return socket.socket(fileno=int(number))
    except OSError:
        # The variable was inherited further than the descriptor.
        return None


RUNS = "GROVESCALE_RUNS_FD"
"""Environment variable: file descriptor over which a driver has the test run again and again."""


class RunOrder(msgspec.Struct, frozen=True, kw_only=True, tag_field="do"):
    """Message of the driver to a test that it has run."""


class BeginRun(RunOrder, tag="begin-run", frozen=True, kw_only=True):
    """Run the test once more; answered by ``RunEnded``."""

    wait_idle_s: float | None = None
    """Longest wait for an operator that does not come to rest, s; None: as the test says."""
    touches: bool = True
    """Whether ``Scale.touch_each_kind`` touches anything: a second for each kind, in which no deployment goes on."""


class BeginPhase(RunOrder, tag="begin-phase", frozen=True, kw_only=True):
    """The answer to ``AtPhase``."""


class EndRuns(RunOrder, tag="end-runs", frozen=True, kw_only=True):
    """End the process in order: there is no further run. Not answered."""


class RunAnswer(msgspec.Struct, frozen=True, kw_only=True, tag_field="say"):
    """Message of the test to the driver that has it run."""


class AtPhase(RunAnswer, tag="at-phase", frozen=True, kw_only=True):
    """The test is about to begin a phase, and waits for ``BeginPhase``."""


class RunEnded(RunAnswer, tag="run-ended", frozen=True, kw_only=True):
    """The run is over, and cleaned up; its recording is closed."""


AnyRunOrder = BeginRun | BeginPhase | EndRuns
AnyRunAnswer = AtPhase | RunEnded


class Runs:
    """The test's end of a driver that has it run again and again."""

    def __init__(self, driver: Channel[AnyRunOrder]) -> None:
        self._driver = driver
        self.wait_idle_s = math.inf
        """Longest wait for an operator that does not come to rest in the current run, s."""
        self.touches = True
        """Whether the current run touches single objects."""

    def asked(self) -> Iterator[None]:
        """Yield once for each run that the driver wants; it has ended when the next one is asked for.

        Ends when the driver is gone, too: a test that it has started interrupts itself.
        """
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            while isinstance(order := self._driver.hear(), BeginRun):
                self.wait_idle_s = math.inf if order.wait_idle_s is None else order.wait_idle_s
                self.touches = order.touches
                yield
                self._driver.say(RunEnded())

    def at_phase(self) -> None:
        """Return when the other variant's test is about to begin a phase as well, or has ended its run."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._driver.say(AtPhase())
            self._driver.hear()


def inherited_runs() -> Runs | None:
    """Return the end of the driver that started this process, once; None without one."""
    connection = inherited_socket(RUNS)
    return None if connection is None else Runs(Channel(connection, AnyRunOrder))


if TYPE_CHECKING:
    from ..operator.handle import Operator
    from .running_test import RunningTest
    from .workloads import Workload

CONNECTION = "GROVESCALE_WINDOWS_FD"
"""Environment variable: file descriptor over which a driver has windows measured."""

_AFTER_RESTART_S = 300.0
_TIMEOUT_S = 3600.0
"""The driver keeps the time; this only ends an abandoned window."""


class Order(msgspec.Struct, frozen=True, kw_only=True, tag_field="do"):
    """Message of the driver."""


class Restart(Order, tag="restart", frozen=True, kw_only=True):
    """Restart the operator; answered by ``Rested`` once it has caught up and is idle."""


class Begin(Order, tag="begin", frozen=True, kw_only=True):
    """Begin a phase: a window or its idle twin; answered by ``Done``."""

    name: str
    twin_of: str = ""
    """Of an idle twin: the window's name."""


class Trigger(Order, tag="trigger", frozen=True, kw_only=True):
    """Trigger every workload once; answered by ``Rested`` once the operator pauses after its work.

    Triggers during an earlier reconcile are coalesced in its queue: a slow variant would do less work for each, and
    look fast. So before a trigger, and before the window ends, the operator is done with the one before: most of the
    time that takes to know passes while the other variant is triggered.
    """

    limit_s: float
    """Maximum wait: an operator in a loop is never done."""


class End(Order, tag="end", frozen=True, kw_only=True):
    """End the phase; answered by ``Done``."""


class Report(Order, tag="report", frozen=True, kw_only=True):
    """Report the measurements of a window and its twin; answered by ``Measured``."""

    name: str


class Finish(Order, tag="finish", frozen=True, kw_only=True):
    """Let the test continue to its end. Not answered."""


class Answer(msgspec.Struct, frozen=True, kw_only=True, tag_field="say"):
    """Message of the test."""


class Ready(Answer, tag="ready", frozen=True, kw_only=True):
    """Sent once, without an order: the workload is deployed and the operator idle."""

    idle_cores: float


class Done(Answer, tag="done", frozen=True, kw_only=True):
    pass


class Rested(Answer, tag="rested", frozen=True, kw_only=True):
    rest: Rest


class Measured(Answer, tag="measured", frozen=True, kw_only=True):
    test: TestResult
    """The test's result with two phases: the idle twin and the window."""


class Failed(Answer, tag="failed", frozen=True, kw_only=True):
    """An order failed; the test fails, and sends nothing more."""

    message: str
    next_step: str = ""


AnyOrder = Restart | Begin | Trigger | End | Report | Finish
AnyAnswer = Ready | Done | Rested | Measured | Failed


def inherited_channel() -> Channel[AnyOrder] | None:
    """Return the channel to the driver that started this process, once; None without one."""
    connection = inherited_socket(CONNECTION)
    return None if connection is None else Channel(connection, AnyOrder)


def serve(test: RunningTest, workloads: Sequence[Workload], driver: Channel[AnyOrder]) -> None:
    """Execute the driver's orders until it finishes.

    Raises an order's error, after reporting it to the driver; PhaseError when the driver is gone.
    """
    if test.operator is None:
        raise UsageError("no-op windows need an operator", next_step="Name one: --grovescale-operator=FILE.")
    try:
        with _Windows(test, workloads, idle_cores(test.operator)) as windows:
            driver.say(Ready(idle_cores=windows.idle))
            while not isinstance(order := driver.hear(), Finish):
                if order is None:
                    raise _driver_gone()
                driver.say(windows.obey(order))
    except GrovescaleError as error:
        with contextlib.suppress(OSError):
            driver.say(Failed(message=error.message, next_step=error.next_step))
        raise
    except (BrokenPipeError, ConnectionResetError):
        raise _driver_gone() from None
    finally:
        driver.close()


_LAST_S = 5.0
"""Longest wait for the operator to be done with a window's last trigger, s: its effects belong to the window."""


class _Windows(contextlib.ExitStack):
    """Executes orders; a phase that an order has begun stays open until another ends it, or something fails."""

    def __init__(self, test: RunningTest, workloads: Sequence[Workload], idle: float) -> None:
        super().__init__()
        self.idle = idle
        """Cores that the idle operator uses."""
        self._test = test
        self._workloads = list(dict.fromkeys(workloads))
        self._work: Work | None = None
        """What the operator does with the last trigger of the window that is open."""

    def obey(self, order: Restart | Begin | Trigger | End | Report) -> Answer:
        match order:
            case Restart():
                self._test.restart_operator()
                return Rested(rest=until_rest(self._operator, self.idle, limit_s=_AFTER_RESTART_S))
            case Begin(name=name, twin_of=twin_of):
                # A window is still open where the other variant has failed in the middle of it.
                self.close()
                self._work = None
                window = self.enter_context(RunningPhase(self._test, name, timeout=_TIMEOUT_S, twin_of=twin_of))
                window.edges_only()
                window.begin()
                return Done()
            case Trigger(limit_s=limit_s):
                return Rested(rest=self._trigger(limit_s))
            case End():
                self._finish_last(_LAST_S)
                self.close()
                return Done()
            case Report(name=name):
                return Measured(test=_measured(self._test, name))

    def _trigger(self, limit_s: float) -> Rest:
        phase = self._test.current
        if phase is None:
            raise UsageError("a trigger outside a window", next_step="Begin one first.")
        began = time.monotonic()
        self._finish_last(limit_s)
        self._work = trigger(self._operator, self._workloads, self.idle)
        left = max(0.0, began + limit_s - time.monotonic())
        return self._work.until_pause(limit_s=left, wait=phase.pass_time)

    def _finish_last(self, limit_s: float) -> None:
        """Wait until the operator is done with the last trigger, if there was one in this phase."""
        work, self._work = self._work, None
        if work is not None and (phase := self._test.current) is not None:
            work.until_done(limit_s=limit_s, wait=phase.pass_time)

    @property
    def _operator(self) -> Operator:
        assert self._test.operator is not None
        return self._test.operator


def _measured(test: RunningTest, name: str) -> TestResult:
    """Return the test's result with two phases, a window and its idle twin."""
    result = test.result()
    phases = tuple(phase for phase in result.phases if phase.name in (idle_twin_name(name), name))
    recording = f"{RECORDINGS}/{test.recorder.journal.name}"
    return msgspec.structs.replace(result, recording=recording, phases=phases, watches=(), evidence=())


def _driver_gone() -> PhaseError:
    return PhaseError(
        "the comparison that this test measured windows for is gone",
        next_step="Let it go on with: grovescale compare --resume",
    )
