"""No-op windows served to a driver: one deployed workload, measured again and again, each time on a fresh process.

A comparison runs two tests side by side, each on a cluster of its own. When a phase with triggers has passed, the test
pauses here, and the comparison's driver has windows measured in turn, by orders over a socket, a JSON document a line.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from ..analysis.analyse import RECORDINGS
from ..analysis.result import TestResult
from ..errors import GrovescaleError, PhaseError, UsageError
from .phase import Phase
from .settling import Rest, idle_cores, until_rest

if TYPE_CHECKING:
    from .scale import Scale
    from .workloads import WorkloadHandle

CONNECTION = "GROVESCALE_WINDOWS_FD"
"""Environment variable: number of the descriptor over which a driver has windows measured."""

_AFTER_RESTART_S = 300.0
_BETWEEN_S = 0.4
"""At rest for so long, the operator is done with one trigger; a shorter rest may be a wait for the API server."""
_TAIL_S = 30.0
_TAIL_OVER_S = 0.5
_TIMEOUT_S = 600.0


class Order(msgspec.Struct, frozen=True, kw_only=True, tag_field="do"):
    """What the driver says."""


class Restart(Order, tag="restart", frozen=True, kw_only=True):
    """Start the operator anew; answered by ``Rested`` once it has caught up and is at rest."""


class Measure(Order, tag="measure", frozen=True, kw_only=True):
    """Measure one window and, right before it, its idle twin; answered by ``Measured``."""

    name: str
    """Of the window's phase; its twin's has ``(idle)`` added."""
    seconds: float
    triggers: int
    """At most so many, evenly spread; fewer where the operator takes longer than that for each."""


class Finish(Order, tag="finish", frozen=True, kw_only=True):
    """Let the test go on to its end. Not answered."""


class Answer(msgspec.Struct, frozen=True, kw_only=True, tag_field="say"):
    """What the test says."""


class Ready(Answer, tag="ready", frozen=True, kw_only=True):
    """Said unasked, once: the workload is deployed and the operator at rest."""

    idle_cores: float


class Rested(Answer, tag="rested", frozen=True, kw_only=True):
    rest: Rest


class Measured(Answer, tag="measured", frozen=True, kw_only=True):
    test: TestResult
    """The test's result with two phases: the idle twin and the window."""


class Failed(Answer, tag="failed", frozen=True, kw_only=True):
    """An order could not be carried out; the test fails, and says nothing more."""

    message: str
    next_step: str = ""


AnyOrder = Restart | Measure | Finish
AnyAnswer = Ready | Rested | Measured | Failed

T = TypeVar("T")


class Line(Generic[T]):
    """One end of the line between driver and test; hears messages of the types that it is told."""

    def __init__(self, connection: socket.socket, heard: Any) -> None:
        self._connection = connection
        self._reader = connection.makefile("rb")
        self._decode = msgspec.json.Decoder(heard).decode

    def say(self, message: Order | Answer) -> None:
        """Send a message; raises BrokenPipeError or ConnectionResetError when nobody is at the other end."""
        self._connection.sendall(msgspec.json.encode(message) + b"\n")

    def hear(self) -> T | None:
        """Return the next message, waited for; None when the other end has closed or died."""
        line = b""
        with contextlib.suppress(ConnectionResetError):
            line = self._reader.readline()
        return self._decode(line) if line.endswith(b"\n") else None

    def fileno(self) -> int:
        """Return the socket's descriptor."""
        return self._connection.fileno()

    def close(self) -> None:
        self._reader.close()
        self._connection.close()


def inherited() -> Line[AnyOrder] | None:
    """Return the line to the driver that started this process; None without one. It is handed out once."""
    number = os.environ.pop(CONNECTION, "")
    if not number.isdigit():
        return None
    try:
        return Line(socket.socket(fileno=int(number)), AnyOrder)
    except OSError:
        # The variable has come further than the descriptor.
        return None


def serve(scale: Scale, workloads: Sequence[WorkloadHandle], line: Line[AnyOrder]) -> None:
    """Carry out the driver's orders until it has enough.

    Raises what an order raised, after telling the driver; PhaseError when the driver is gone.
    """
    if scale.operator is None:
        raise UsageError("no-op windows need an operator", next_step="Name one: --grovescale-operator=FILE.")
    try:
        idle = idle_cores(scale.operator)
        line.say(Ready(idle_cores=idle))
        while not isinstance(order := line.hear(), Finish):
            if order is None:
                raise _driver_gone()
            line.say(_obey(scale, workloads, order, idle))
    except GrovescaleError as error:
        with contextlib.suppress(OSError):
            line.say(Failed(message=error.message, next_step=error.next_step))
        raise
    except (BrokenPipeError, ConnectionResetError):
        raise _driver_gone() from None
    finally:
        line.close()


def _obey(scale: Scale, workloads: Sequence[WorkloadHandle], order: Restart | Measure, idle: float) -> Answer:
    assert scale.operator is not None
    match order:
        case Restart():
            scale.restart_operator()
            return Rested(rest=until_rest(scale.operator, idle, limit_s=_AFTER_RESTART_S))
        case Measure():
            return Measured(test=_measure(scale, list(dict.fromkeys(workloads)), order, idle))


def _measure(scale: Scale, workloads: Sequence[WorkloadHandle], order: Measure, idle: float) -> TestResult:
    """Measure the idle twin, then the window, and return the figures of both."""
    assert scale.operator is not None
    timeout = order.seconds + _TIMEOUT_S
    twin = f"{order.name} (idle)"
    with Phase(scale, twin, timeout=timeout, twin_of=order.name) as phase:
        phase.begin()
        phase.pass_time(order.seconds)
    with Phase(scale, order.name, timeout=timeout) as phase:
        phase.begin()
        ends = time.monotonic() + order.seconds
        for at in _moments(order, ends):
            for workload in workloads:
                workload.trigger_reconcile(**workload.trigger)
            # Triggers that come while the operator is busy with the last one melt into one in its queue: a slow variant
            # would do less for each, and look fast.
            phase.pass_time(min(at + order.seconds / order.triggers, ends) - _BETWEEN_S - time.monotonic())
            left = max(ends - time.monotonic(), 0.0)
            until_rest(scale.operator, idle, limit_s=left, over_s=_BETWEEN_S, wait=phase.pass_time)
        phase.pass_time(ends - time.monotonic())
        # A reconcile that is under way belongs to this window. One that never ends is a figure of its own.
        until_rest(scale.operator, idle, limit_s=_TAIL_S, over_s=_TAIL_OVER_S, wait=phase.pass_time)
    result = scale.result()
    phases = tuple(phase for phase in result.phases if phase.name in (twin, order.name))
    recording = f"{RECORDINGS}/{scale.recorder.journal.name}"
    return msgspec.structs.replace(result, recording=recording, phases=phases, watches=(), evidence=())


def _moments(order: Measure, ends: float) -> Iterator[float]:
    """Yield the time of each trigger as it is due: at least one, none after the window's end."""
    for number in range(order.triggers):
        now = time.monotonic()
        if number and now >= ends:
            return
        yield now


def _driver_gone() -> PhaseError:
    return PhaseError(
        "the comparison that this test measured windows for is gone",
        next_step="Let it go on with: grovescale compare --resume",
    )
