"""A phase as its test runs it: milestones declared first, then actions, then the wait until all are met."""

from __future__ import annotations

import os
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self, get_args

from .. import durations
from ..analysis import figures
from ..analysis.contention import WAIT_QUIET
from ..analysis.phase_analysis import no_right
from ..analysis.phase_result import PhaseResult
from ..errors import ClusterError, GrovescaleError, NotMeasuredError, PhaseError, UsageError
from ..recording import protocol
from . import quiescence
from .conditions import Declared

if TYPE_CHECKING:
    from .running_test import RunningTest
    from .workloads import Workload


Asked = bool | protocol.Profiler
"""``True``: the run's option or the test's marker decides; ``False`` is ``off``."""

Aim = Callable[[protocol.Profiler | None], protocol.ProfileTarget | str]
"""Returns how the operator is profiled, or why it cannot be; None: as the run or the test's marker says."""


def no_operator(asked: protocol.Profiler | None) -> str:
    """Return that there is no operator: the aim of a test without one."""
    return "the test runs without an operator"


def profiler_of(phase: str, asked: object) -> protocol.Profiler | None:
    """Return the profiler that a phase requests; None where it leaves that open. Raises UsageError for anything else.

    Values other than bools and names are rejected: a 0, or a name in another case, would be misunderstood.
    """
    if isinstance(asked, bool):
        return None if asked else "off"
    for name in get_args(protocol.Profiler):
        if asked == name:
            found: protocol.Profiler = name
            return found
    names = ", ".join(repr(name) for name in get_args(protocol.Profiler))
    raise UsageError(f"phase {phase!r}: profile={asked!r} is no profiler", next_step=f"Use {names}, True or False.")


_STALL_S = 30.0
"""Time without a change of any count after which is said what the phase waits for, s."""

# How long one wait for the recorder may last before Ctrl-C, a dead operator or the timeout are checked again.
_TICK_S = 0.25

# Extra time for an idle twin beyond its hold: opening and ending a phase.
_TWIN_MARGIN_S = 60.0


def idle_twin_name(name: str) -> str:
    """Return the name of a steady-state phase's idle twin."""
    return f"{name} (idle)"


class Allowance:
    """The time a phase has left. Time in a debugger does not count."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._ends = clock() + seconds
        self._paused: float | None = None

    @property
    def paused(self) -> bool:
        return self._paused is not None

    def left(self) -> float:
        """Return the seconds left; negative after the timeout."""
        now = self._clock() if self._paused is None else self._paused
        return self._ends - now

    def pause(self) -> None:
        """Stop counting (a debugger was entered)."""
        if self._paused is None:
            self._paused = self._clock()

    def resume(self) -> None:
        """Resume counting."""
        if self._paused is not None:
            self._ends += self._clock() - self._paused
            self._paused = None


class RunningPhase:
    """One measured phase: its milestones, clocks and outcome, from the recorder's messages. ``Phase`` is its face."""

    def __init__(
        self,
        test: RunningTest,
        name: str,
        *,
        timeout: str | float,
        twin_of: str = "",
        idle_twin: bool = False,
        profile: Asked = True,
    ) -> None:
        self.name = name
        self.idle_twin = idle_twin
        """Whether its idle twin is measured after it, even where no declared check needs it."""
        self.twin_of = twin_of
        """The steady-state phase that this one is the idle twin of."""
        self.profiler = profiler_of(name, profile)
        """The profiler that it requests for the profiling pass; None: that pass's own."""
        self.profile = test.profiled and self.profiler != "off"
        """Whether a profiler is attached from its begin to its end."""
        self.triggered: list[Workload] = []
        """Workloads whose reconcile was triggered in this phase, one entry for each trigger."""
        self.timeout_s = durations.seconds(timeout)
        self._test = test
        self._declared: dict[str, Declared] = {}
        self._allowance: Allowance | None = None
        self._hold_until: Allowance | None = None
        self._edges_only = bool(twin_of) or idle_twin
        self._complete = False
        self._ended = False
        self._lasted_s = 0.0
        self._counts: Mapping[str, tuple[int, int]] = {}
        self._changed_left = self.timeout_s
        """What was left of the timeout when a count last changed, s."""
        self._explained = False
        """Whether was said what it waits for, since then."""

    # ---- declaring

    def milestone(self, name: str, condition: Declared) -> None:
        """See ``Phase.milestone``."""
        if self._allowance is not None:
            raise UsageError(
                f"phase {self.name!r}: milestone {name!r} is declared after the phase has begun",
                next_step="Declare all milestones before the first action (apply, trigger, delete, hold …).",
            )
        if name in self._declared:
            raise UsageError(f"phase {self.name!r} has two milestones {name!r}", next_step="Give each its own name.")
        self._declared[name] = condition

    def hold(self, duration: str | float) -> None:
        """See ``Phase.hold``."""
        self.edges_only()
        self.begin()
        seconds = min(durations.seconds(duration), self._test.longest_hold_s)
        self._test.recorder.mark("hold", detail=durations.text(seconds))
        allowance = Allowance(seconds)
        if self._hold_until is None or allowance.left() > self._hold_until.left():
            self._hold_until = allowance

    def edges_only(self) -> None:
        """Scrape at the phase's edges only, or from here on at its end only."""
        if self._allowance is not None and not self._edges_only:
            self._test.recorder.quiet_phase()
        self._edges_only = True

    # ---- running

    def __enter__(self) -> Self:
        self._test.enter(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        end_forked_copy(self._test.pid)
        try:
            if error is None:
                self.begin()
                self._wait()
                self._end("passed")
            elif self._allowance is not None and not self._ended:
                self._end("interrupted" if isinstance(error, KeyboardInterrupt) else "failed", _one_line(error))
        except BaseException as failure:
            # A phase that could not begin was never open, and there is nothing to end.
            if self._allowance is not None and not self._ended and self._test.recorder.alive():
                self._end("interrupted" if isinstance(failure, KeyboardInterrupt) else "failed", _one_line(failure))
            raise
        finally:
            self._test.leave(self)
        if error is None and self._has_idle_twin():
            self._measure_idle_twin()
        if error is None and self.triggered:
            self._test.serve_windows(self.triggered)

    def begin(self) -> None:
        """Open the phase, once: every watch is live and the CPU clocks are read when this returns.

        The first action calls it; a phase without actions begins when its block ends.
        """
        if self._allowance is not None:
            return
        if self._test.current is not self:
            raise UsageError(f"phase {self.name!r} is not open", next_step="Use it as: with scale.phase(…) as phase: …")
        milestones = self._test.resolve(self._declared)
        unprofiled = self._test.aim_profiler(self.profiler) if self.profile else {}
        self.profile = self.profile and not unprofiled
        # An idle twin follows its phase at once: the machine's state must be the same in both.
        waited = None if self.twin_of else self._test.wait_quiet()
        self._test.recorder.check_journal()
        self._test.progress.phase(self.name, self.timeout_s)
        if self._test.runs is not None:
            self._test.runs.at_phase()
        try:
            self._test.recorder.begin_phase(
                self.name,
                milestones,
                timeout=self.timeout_s,
                twin_of=self.twin_of,
                profile=self.profile,
                unprofiled=unprofiled,
                edges_only=self._edges_only,
            )
        except GrovescaleError as error:
            # It never was open: there is nothing to end.
            self._ended = True
            error.message = "\n".join([error.message, *self._test.cluster_trouble()])
            raise
        self._allowance = Allowance(self.timeout_s)
        if waited is not None:
            self._test.recorder.mark(WAIT_QUIET, detail=waited.text, count=round(waited.seconds * 1000))

    @property
    def paused(self) -> bool:
        """Whether the phase's clocks are paused, as while a debugger is open."""
        return self._allowance is not None and self._allowance.paused

    def pause(self) -> None:
        """Stop the phase's clocks: a debugger is open."""
        for allowance in (self._allowance, self._hold_until):
            if allowance is not None:
                allowance.pause()

    def resume(self) -> None:
        """Resume the phase's clocks."""
        for allowance in (self._allowance, self._hold_until):
            if allowance is not None:
                allowance.resume()

    def look(self, timeout: float = _TICK_S) -> None:
        """Handle the recorder's messages, for at most ``timeout`` seconds; raise an error that ends the phase."""
        update = self._test.recorder.wait(timeout)
        if not isinstance(update, protocol.MilestoneReached | protocol.Progress | protocol.PhaseComplete):
            # Before the end of the operator or of a watch is taken for the cause.
            self._test.cluster.check_running()
        if update is not None:
            self._take(update)
        if self._allowance is None or self._complete or self._ended:
            return
        left = self._allowance.left()
        stalled = self._changed_left - left
        if left <= 0:
            self._time_out(f"timed out after {durations.text(self.timeout_s)}")
        elif stalled >= self._test.stall_limit_s:
            limit = durations.text(self._test.stall_limit_s)
            self._time_out(f"stalled: no count has changed for {limit} (--grovescale-stall-limit)")
        elif stalled >= _STALL_S and not self._explained:
            self._explain(stalled)

    def _explain(self, stalled: float) -> None:
        """Say, once in each stall, which object each milestone waits for, and what the API says about it.

        Rights that the operator lacks come first: what is awaited may depend on them.
        """
        self._explained = True
        stall = f"{self.name}: no change for {durations.rough(stalled)}"
        if rights := self._test.phase_result(self.name).missing_rights:
            self._test.progress.say(f"{stall}: {no_right(rights)}")
        by_milestone = {late.milestone: late for late in reversed(self._test.recorder.explain())}
        for late in by_milestone.values():
            self._test.progress.say(f"{stall}: {figures.late_text(late)}")

    def pass_time(self, seconds: float) -> None:
        """Wait for some seconds, and handle the recorder's messages during the wait."""
        ends = time.monotonic() + seconds
        while (left := ends - time.monotonic()) > 0:
            self.look(min(left, _TICK_S))

    def _take(self, update: protocol.Update) -> None:
        if (
            isinstance(update, protocol.MilestoneReached | protocol.Progress | protocol.PhaseComplete)
            and update.phase != self.name
        ):
            return
        match update:
            case protocol.MilestoneReached():
                self._test.progress.milestone(update.name, update.elapsed)
            case protocol.Progress():
                left = self._allowance.left() if self._allowance else self.timeout_s
                if update.counts != self._counts:
                    self._changed_left, self._explained = left, False
                self._counts = update.counts
                self._test.progress.update(
                    update.counts, elapsed=update.elapsed, left=left, rate=update.api_rate or None
                )
            case protocol.PhaseComplete():
                self._complete = True
            case protocol.ProcessExited():
                self._test.process_exited(update.process, update.pid, self.name)
            case protocol.IncidentSeen():
                self._test.incident(update.kind, update.subject, update.detail)
            case protocol.StallSeen():
                self._test.stalled(update.process, update.kind, update.seconds)
            case protocol.SourceBroke(source=source) if source == protocol.JOURNAL:
                self._test.recorder.check_journal()
            case protocol.SourceBroke() if update.fatal:
                raise self._failure(
                    f"phase {self.name!r}: {update.source} broke off: {update.message}",
                    next_step="What was measured until then is in the recording.",
                )
            case _:
                pass

    def _wait(self) -> None:
        while not self._complete:
            self.look()
        if self.profile and self._hold_until is not None:
            self._repeat_triggers(self._hold_until.left())
        while self._hold_until is not None and (left := self._hold_until.left()) > 0:
            self.look(min(left, _TICK_S))
        # What came while the test's own code ran: an operator that died meanwhile has not passed the phase.
        while (update := self._test.recorder.wait(0)) is not None:
            self._take(update)
        if self._test.operator is not None:
            self._test.operator.check()

    def _has_idle_twin(self) -> bool:
        steady = bool(self.triggered) and self._hold_until is not None
        wanted = self.idle_twin or (steady and self._test.needs_idle_twins)
        return wanted and not self._test.profiled

    def _measure_idle_twin(self) -> None:
        """Measure the same time again without a trigger.

        After the phase, not before it: only now are its triggers and its length known, and effects that continue
        without further triggers (a loop that the trigger has started) show. Before it, the end of a deployment would be
        taken for the idle baseline and make the triggers look cheap. A hold too short for its reconciles is just as
        visible: the remaining ones are counted in the twin.
        """
        name = idle_twin_name(self.name)
        timeout = self._lasted_s + _TWIN_MARGIN_S
        with RunningPhase(self._test, name, timeout=timeout, twin_of=self.name) as twin:
            twin.hold(self._lasted_s)

    def _repeat_triggers(self, hold: float) -> None:
        if self._test.operator is None or self._allowance is None:
            return
        limit = quiescence.limit_s(hold, self._allowance.left())
        quiescence.repeat_triggers(self, self._test.operator, limit=limit, progress=self._test.progress)

    def _time_out(self, how: str) -> None:
        missing = {name: have for name, have in self._counts.items() if have[0] != have[1]}
        counts = ", ".join(f"{name} {have} of {want}" for name, (have, want) in missing.items())
        message = f"phase {self.name!r} {how}"
        if counts:
            message += f": {counts}"
        late = self._end("timeout", message)
        self._test.progress.done("timeout")
        next_step = "Give the phase more time, or see what the operator waits for above."
        result = self._test.phase_result(self.name)
        if (operator := self._test.operator) is not None and result.missing_rights:
            rules = operator.definition.rbac
            where = "".join(f", {item}" for item in rules if isinstance(item, str))
            next_step = f"Give it the right: rbac of the operator {operator.name}{where}."
        going = self._test.namespace_trouble()
        if going:
            next_step = "Find what deletes it: the test's own code, or the operator. The next test gets another one."
        raise self._failure(
            result.message, *filter(None, [going]), *late, after=self._test.operator_tail(), next_step=next_step
        )

    def _failure(self, *lines: str, after: Sequence[str] = (), next_step: str) -> GrovescaleError:
        """Return the error that ends the phase: PhaseError, or ClusterError where the cluster fails or failed in it."""
        trouble = self._test.cluster_trouble()
        text = "\n".join([*lines, *trouble, *after])
        if trouble:
            return ClusterError(text, next_step="Run the test again: the cluster broke, not what is tested.")
        return PhaseError(text, next_step=next_step)

    def _end(self, outcome: figures.Outcome, message: str = "") -> list[str]:
        self._ended = True
        if outcome != "passed":
            self._test.failed_phase = self.name
        if self._allowance is not None:
            self._lasted_s = self.timeout_s - self._allowance.left()
        late = self._test.recorder.end_phase(self.name, outcome, message)
        if outcome != "timeout":
            self._test.progress.done(outcome)
        if outcome == "passed":
            # The measurements at its end are part of it.
            self._test.recorder.check_journal()
        return [figures.late_text(item) for item in late]

    def result(self) -> PhaseResult:
        """Return all measurements of this phase."""
        if not self._ended:
            raise NotMeasuredError(f"phase {self.name!r} is still open", next_step="Ask for figures after its block.")
        return self._test.phase_result(self.name)


def _one_line(error: BaseException) -> str:
    text = error.message if isinstance(error, GrovescaleError) else str(error)
    first = text.strip().splitlines()[0] if text.strip() else ""
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


def end_forked_copy(original: int) -> None:
    """End this process if it is not ``original``: a copy that the test has forked and that leaves the test's code.

    It has the test's connections but none of its threads: it would disturb the recording, wait for ever at the end,
    and remove what the test still uses. Ends with the code of SystemExit, with 1 after any other exception.
    """
    if os.getpid() == original:
        return
    error = sys.exc_info()[1]
    code = error.code if isinstance(error, SystemExit) else error and 1
    if code:
        traceback.print_exc()
    sys.stderr.write(
        "grovescale: a process that the test has forked left the test's code, and was ended there: end it by"
        " os._exit(), or use multiprocessing or subprocess\n"
    )
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else 1 if code else 0)
