"""How many reconciles a phase takes, of a controller or of all, and for each object; and whether they cause others.

They are counted by the operator itself (`controller_runtime_reconcile_total`, or the items of its work queues), scraped
at the phase's edges. Retries and what falls together depend on timing.

A hot loop goes on in the idle twin, where nothing was triggered: that is judged against zero and the periods that are
declared. A reconcile in it may be the end of earlier work: one late pass over all objects fails nothing, and more than
two for each of them can't be that.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator

import msgspec

from .. import durations
from ..analysis.idle_baseline import idle_twin, reconciles_of
from ..analysis.phase_result import PhaseResult
from ..errors import NotMeasuredError
from .api_requests import for_each, objects_of
from .check import Check, CheckArgumentError, Duration, Outcome, at_most, not_negative, periods, shown
from .noop import by_controller
from .run import Run, named_phase, steady_doubts, steady_phase, unfinished


class _Positional(Check, frozen=True):
    positional = ("phase", "controller")

    phase: str
    controller: str = ""


class Reconciles(_Positional, tag="reconciles", frozen=True, kw_only=True):
    """Reconciles in a phase, of one controller or of all together."""

    timed = True

    max: float
    per_object: bool | int = False
    """As for `ApiRequests`."""

    def validate(self) -> None:
        not_negative(self, max=self.max, per_object=self.per_object)

    def judge(self, run: Run) -> Outcome:
        test, phase = run.test, named_phase(run.test, self.phase)
        whose = f" of {self.controller}" if self.controller else ""
        return at_most(
            phase.name,
            f"reconciles{whose}{for_each(test, self.per_object)}",
            reconciles_of(phase, self.controller) / objects_of(test, self.per_object),
            self.max,
            doubts=unfinished(phase),
            evidence=by_controller(phase),
        )


_LATE = 2
"""Reconciles of a controller that may be late whatever its objects."""

_PASSES = 2
"""Reconciles of each object from which on they are no late pass."""


_MAY_BE = "the end of earlier work, or periodic: a longer hold decides, or periodic={…} declares it"


class HotLoop(Check, tag="hot_loop", frozen=True, kw_only=True):
    """Whether reconciles cause reconciles.

    It fails when they go on in the idle twin, where nothing was triggered; or when a trigger caused more than
    ``passes`` reconciles for each object of the test (the largest number of objects that one of its milestones
    counts), which is more than one pass over all of them.
    """

    timed = True
    needs_idle_twin = True

    idle_per_second: float | None = None
    """Reconciles a second that may go on, of all controllers together; by default none but the periodic ones."""
    periodic: dict[str, Duration] = msgspec.field(default_factory=dict)
    """Controller → period with which it reconciles each of its objects anyway: ``{"podclique": "30s"}``."""
    passes: float = 2.0
    phase: str = ""

    def validate(self) -> None:
        not_negative(self, idle_per_second=self.idle_per_second, passes=self.passes)
        periods(self, self.periodic)
        if self.periodic and self.idle_per_second is not None:
            raise CheckArgumentError(
                "hot_loop has both idle_per_second and periodic", next_step="Give the periods alone."
            )

    def judge(self, run: Run) -> Outcome:
        test, phase = run.test, steady_phase(run.test, self.phase)
        doubts = steady_doubts(phase)
        twin = idle_twin(test, phase)
        reconciles_of(twin)  # raises where they were not counted
        if twin.seconds <= 0:
            raise NotMeasuredError(f"phase {twin.name!r} has no length")
        idle = self._idle(phase, twin, test.objects or 1, doubts)
        if idle.verdict == "fail":
            return idle
        if not test.objects:
            raise NotMeasuredError(
                f"{idle.text}, but no milestone of the test counts objects, so that reconciles per object are not"
                " known",
                next_step='Give a phase a milestone like conditions.count("pods", 1000).',
            )
        if not phase.triggers:
            raise NotMeasuredError("; ".join(doubts))
        passes = at_most(
            phase.name,
            f"reconciles per trigger for each of {test.objects:,} {test.objects_resource}",
            reconciles_of(phase) / phase.triggers / test.objects,
            self.passes,
            doubts=doubts,
            evidence=by_controller(phase),
        )
        return passes if passes.verdict != "pass" else idle

    def _idle(self, phase: PhaseResult, twin: PhaseResult, fallback: int, doubts: list[str]) -> Outcome:
        """Return the outcome of the idle twin. ``fallback``: objects of a controller whose kind is not known."""
        subject = "reconciles with nothing triggered"
        if self.idle_per_second is not None:
            return at_most(
                phase.name,
                subject,
                reconciles_of(twin) / twin.seconds,
                self.idle_per_second,
                "1/s",
                doubts=doubts,
                evidence=by_controller(twin),
            )
        loops: dict[str, int] = {}
        undecided: dict[str, int] = {}
        evidence = [*by_controller(twin), *self._uncovered(twin)]
        for controller, count, objects in _controllers(twin, fallback):
            more = count - self._periodic(controller, objects, twin.seconds)
            if more >= max(_LATE + 1, _PASSES * objects):
                loops[controller] = more
            elif more > _LATE:
                undecided[controller] = more
                doubts = [*doubts, f"{more:,} of {controller}, which has {objects:,} objects: {_MAY_BE}"]
            elif more > 0:
                evidence.append(f"{more} of {controller}, which may be the end of earlier work, not counted")
        counted = loops or undecided
        figure = sum(counted.values()) / twin.seconds
        return at_most(
            phase.name,
            f"reconciles of {', '.join(loops)} with nothing triggered" if loops else subject,
            figure,
            0.0,
            "1/s",
            between=(figure if loops else 0.0, figure),
            doubts=doubts,
            evidence=evidence,
        )

    def _periodic(self, controller: str, objects: int, seconds: float) -> int:
        """Return how many reconciles a controller's declared period makes in so many seconds."""
        if controller not in self.periodic:
            return 0
        return objects * (math.floor(seconds / durations.seconds(self.periodic[controller])) + 1)

    def _uncovered(self, twin: PhaseResult) -> Iterator[str]:
        """Yield which periods the twin is too short for."""
        known = {row.controller for row in twin.reconciles}
        for controller, period in self.periodic.items():
            if controller not in known:
                yield f"periodic: there is no controller {controller}"
            elif durations.seconds(period) > twin.seconds:
                yield (
                    f"{controller}: its period of {period} is longer than {twin.name}, {shown(twin.seconds, 's')}:"
                    " whether it reconciles more often was not covered"
                )
        yield f"{twin.name} lasted {shown(twin.seconds, 's')}: loops with a longer period were not covered"


def _controllers(twin: PhaseResult, fallback: int) -> Iterator[tuple[str, int, int]]:
    """Yield each controller with its reconciles and its objects, at least one."""
    counts: Counter[str] = Counter()
    objects: dict[str, int] = {}
    for row in twin.reconciles:
        counts[row.controller] += row.count
        objects[row.controller] = fallback if row.objects is None else max(1, row.objects)
    for controller, count in counts.items():
        yield controller, count, objects[controller]
