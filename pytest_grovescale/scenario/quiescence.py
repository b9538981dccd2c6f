"""Whether the operator is idle, by its CPU clock; and triggers that are repeated once it is.

One no-op reconcile costs some hundredths of a second: at 100 Hz that is a handful of samples, too few for a table. So a
profiling pass repeats them automatically; a measured phase has only the triggers of the test.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

import msgspec

from ..cluster.handle import ProcessInfo
from ..errors import OperatorError
from ..procfs import Identity
from ..recording.process_table import CoreWait, usage

_MARGIN_CORES = 0.01
"""Tolerance above the idle baseline: a lease renewed, a garbage collection."""

_BUSY_CORES = 0.5
"""Above this, an operator counts as working, however evenly."""

_ALIKE = 3
_HALF, _LOW_CORES = 4, 0.1
"""Seconds in which a Lease is renewed twice, and what an idle operator uses at the most then."""

_UNUSUAL = 8
"""Seconds after which a wait is worth a line."""

_STEP_S = 0.02
_STEP_MARGIN_CORES = 0.02
"""Tolerance over so short a time: 0.4 ms of CPU time."""

_WORK_NS = 1_000_000
"""CPU time during the trigger itself from which the operator has already worked."""

_DONE_S = 0.1
"""Seconds without work after which an operator that has worked is done."""

_UNHEARD_S = 0.4
"""Seconds without work from the beginning after which the operator has nothing to do, or too little to detect."""


class Process(Protocol):
    """The operator's CPU clock; ``operator.handle.Operator`` has it."""

    def info(self) -> ProcessInfo | None: ...
    def served_cpu_s(self) -> float | None: ...
    def check(self) -> None: ...


Wait = Callable[[float], None]
"""Function that waits for some seconds."""


class Rest(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a wait for an idle operator."""

    reached: bool
    cores: float
    """CPU use at the end of the wait."""
    seconds: float
    """Length of the wait."""


def idle_cores(
    operator: Process,
    *,
    wait: Wait = time.sleep,
    limit_s: float = 60.0,
    say: Callable[[str], None] = lambda text: None,
) -> float:
    """Return how many cores the idle operator uses: the least of the last seconds, once it rests (`resting`).

    An operator that is not idle within ``limit_s`` (it runs in a loop) yields the least use seen. ``say`` reports when
    that takes long.
    """
    seen: list[float] = []
    for cores in _cores(operator, 1.0, wait):
        seen.append(cores)
        if len(seen) == _UNUSUAL:
            used = max(seen[-_ALIKE:])
            say(f"waiting for the operator to be idle, at most {limit_s:.0f} s: it used {used:.2f} cores")
        if len(seen) >= limit_s > _UNUSUAL:
            say(f"the operator was not idle within {limit_s:.0f} s: what it does is part of the next phase")
        last = resting(seen)
        if last or len(seen) >= limit_s:
            return min(last or seen)
    raise AssertionError("the clock goes on for ever")


def resting(seen: Sequence[float]) -> Sequence[float]:
    """Return the last seconds of an operator's use of cores by which it is idle; none while it is not.

    Three that are equal; or eight with little use that comes and goes, and as much in the first half as in the second:
    a Lease is renewed every two seconds by default (k8s.io/client-go/tools/leaderelection), which costs a JVM some
    hundredths of a second each time.
    """
    last, both = seen[-_ALIKE:], seen[-2 * _HALF :]
    if len(last) == _ALIKE and max(last) - min(last) <= _MARGIN_CORES and max(last) <= _BUSY_CORES:
        return last
    if len(both) < 2 * _HALF or max(both) > _LOW_CORES:
        return ()
    return both if abs(sum(both[:_HALF]) - sum(both[_HALF:])) <= _HALF * _MARGIN_CORES else ()


def until_rest(operator: Process, idle: float, *, limit_s: float, over_s: float = 1.0, wait: Wait = time.sleep) -> Rest:
    """Return when the operator has used no more than ``idle`` cores, within a margin, for ``over_s`` seconds.

    Gives up after ``limit_s``. Raises OperatorError when it has died.
    """
    began = time.monotonic()
    for cores in _cores(operator, over_s, wait):
        seconds = time.monotonic() - began
        reached = cores <= idle + _MARGIN_CORES
        if reached or seconds >= limit_s:
            return Rest(reached=reached, cores=cores, seconds=seconds)
    raise AssertionError("the clock goes on for ever")


def until_done(operator: Process, idle: float, asked_ns: int, *, limit_s: float, wait: Wait = time.sleep) -> Rest:
    """Return when the operator is done with a trigger: it has worked and become idle again, or never began to work.

    The latter after longer than it takes to receive the event. ``asked_ns`` is its `cpu_ns` just before the trigger: it
    may have done all of the work already. Sooner than `until_rest`, and less certain: a wait inside a reconcile of more
    than 0.1 s looks the same. Gives up after ``limit_s``. Raises OperatorError when it has died.
    """
    return Work(operator, idle, asked_ns).until_done(limit_s=limit_s, wait=wait)


class Work:
    """What an operator does with a trigger, by its CPU clock. Others may be triggered before it is known to be done."""

    def __init__(self, operator: Process, idle: float, asked_ns: int) -> None:
        """``idle``: cores that it uses when idle; ``asked_ns``: its `cpu_ns` just before the trigger."""
        self._operator = operator
        self._idle = idle
        self._demand = _Demand(operator)
        self._seen_ns, self._at = self._demand.ns(), time.monotonic_ns()
        self._busy = self._at
        self._worked = cpu_ns(operator) - asked_ns > _WORK_NS

    def until_done(self, *, limit_s: float, wait: Wait = time.sleep) -> Rest:
        """Return when it is done: see the function of this name."""
        return self._until(_DONE_S, limit_s, wait)

    def until_pause(self, *, limit_s: float, wait: Wait = time.sleep) -> Rest:
        """Return as soon as it has paused: it has worked, and most likely is done, which `until_done` finds later."""
        return self._until(_STEP_S, limit_s, wait)

    def _until(self, quiet_s: float, limit_s: float, wait: Wait) -> Rest:
        began = time.monotonic()
        while True:
            cores = self._look()
            now = time.monotonic()
            reached = now - self._busy / 1e9 >= (quiet_s if self._worked else _UNHEARD_S)
            if reached or now - began >= limit_s:
                return Rest(reached=reached, cores=cores, seconds=now - began)
            wait(_STEP_S)

    def _look(self) -> float:
        """Note whether it has worked since the last look; return how many cores it has used since."""
        before, then = self._seen_ns, self._at
        self._seen_ns, self._at = self._demand.ns(), time.monotonic_ns()
        used, elapsed = self._seen_ns - before, self._at - then
        # Of a longer time, the tolerance is not to hide what is work in one step.
        tolerance = min(_STEP_MARGIN_CORES * max(elapsed, _STEP_S * 1e9), _WORK_NS)
        if used > self._idle * elapsed + tolerance:
            self._busy, self._worked = self._at, True
        return used / elapsed if elapsed else 0.0


def _cores(operator: Process, over_s: float, wait: Wait) -> Iterator[float]:
    """Yield how many cores the operator used, or waited for, over each ``over_s`` seconds.

    On a saturated machine, a working operator gets a small share of the cores: it is idle only when it does not wait
    for more.
    """
    demand = _Demand(operator)
    before, at = demand.ns(), time.monotonic_ns()
    while True:
        wait(over_s)
        now, then = demand.ns(), at
        at = time.monotonic_ns()
        yield (now - before) / (at - then)
        before = now


class _Demand:
    """The CPU time that an operator has used, plus the time that its threads waited for a core."""

    def __init__(self, operator: Process) -> None:
        self._operator = operator
        self._process: Identity | None = None
        self._core_wait = CoreWait()

    def ns(self) -> int:
        """Return it, ns since the operator's start. Raises OperatorError when it has died."""
        self._operator.check()
        info = self._operator.info()
        process = Identity(info.pid, info.started_ticks) if info is not None else None
        if process != self._process:
            self._process, self._core_wait = process, CoreWait()
        used = usage(process, core_wait=self._core_wait) if process is not None else None
        return used.cpu_ns + (used.waiting_ns or 0) if used is not None else cpu_ns(self._operator)


def cpu_ns(operator: Process) -> int:
    """Return the operator's CPU time since its start, ns. Raises OperatorError when it has died.

    By its exact clock where it runs on this host; else as it serves it itself, in steps of 10 ms.
    """
    operator.check()
    info = operator.info()
    if info is not None and (used := usage(Identity(info.pid, info.started_ticks))) is not None:
        return used.cpu_ns
    if info is None and (served := operator.served_cpu_s()) is not None:
        return round(served * 1e9)
    raise OperatorError(
        "the operator's CPU clock cannot be read: it ended just now, or runs elsewhere and serves no "
        "process_cpu_seconds_total",
        next_step="See its log, and `metrics` in its definition.",
    )


if TYPE_CHECKING:
    from .running_phase import RunningPhase
    from .running_test import ProgressView
    from .workloads import Workload

ENOUGH_CPU_S = 4.5
"""CPU seconds that give the 400 samples of a table, and some more that fall between functions."""

TIMES_HOLD = 3.0
LONGEST_S = 60.0
"""Maximum duration of the repetition, s; also limited to a multiple of the phase's hold."""

_REST_S = 1.0
_REST_OVER_S = 0.2


def limit_s(hold: float, left: float) -> float:
    """Return for how long triggers may be repeated, s.

    ``hold``: rest of the phase's hold; ``left``: time until its timeout.
    """
    return max(min(TIMES_HOLD * hold, LONGEST_S, left), 0.0)


def repeat_triggers(phase: RunningPhase, operator: Process, *, limit: float, progress: ProgressView) -> int:
    """Repeat the phase's triggers, each once the operator is idle again, and return how often.

    Returns when the operator has used `ENOUGH_CPU_S` since, or after ``limit`` s. Raises what ends the phase.
    """
    workloads = list(dict.fromkeys(phase.triggered))
    if limit <= 0 or not workloads:
        return 0
    progress.say(
        f"{phase.name}: triggers are repeated for the profile, until the operator has used {ENOUGH_CPU_S:g} s of CPU "
        f"({limit:.0f} s at most)"
    )
    began, before, rounds = time.monotonic(), cpu_ns(operator), 0
    while (used := (cpu_ns(operator) - before) / 1e9) < ENOUGH_CPU_S and time.monotonic() - began < limit:
        until_rest(operator, 0.0, limit_s=_REST_S, over_s=_REST_OVER_S, wait=phase.pass_time)
        _trigger(workloads)
        rounds += 1
    until_rest(operator, 0.0, limit_s=_REST_S, over_s=_REST_OVER_S, wait=phase.pass_time)
    progress.say(f"{phase.name}: {rounds} rounds of triggers, {used:.1f} s of CPU")
    return rounds


def trigger_until_done(
    operator: Process, workloads: Sequence[Workload], idle: float, *, limit_s: float, wait: Wait
) -> Rest:
    """Repeat each workload's last trigger, and return when the operator is done with it; see `until_done`."""
    return trigger(operator, workloads, idle).until_done(limit_s=limit_s, wait=wait)


def trigger(operator: Process, workloads: Sequence[Workload], idle: float) -> Work:
    """Repeat each workload's last trigger, and return what the operator does with it."""
    asked_ns = cpu_ns(operator)
    _trigger(workloads)
    return Work(operator, idle, asked_ns)


def _trigger(workloads: Sequence[Workload]) -> None:
    for workload in workloads:
        workload.trigger_again()
