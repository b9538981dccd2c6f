"""How many reconciles a phase takes, of a controller or of all, and for each object.

They are counted by the operator itself (`controller_runtime_reconcile_total`, or the items of its work queues), scraped
at the phase's edges. Retries and what falls together depend on timing.
"""

from __future__ import annotations

from ..analysis.idle_baseline import reconciles_of
from .api_requests import for_each, objects_of
from .check import Check, not_negative
from .noop import by_controller
from .outcome import Outcome, at_most
from .run import Run, named_phase, unfinished


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
