"""What a reconcile with nothing to do costs the API server, and how many a trigger makes.

"No writes" takes more than silence: a complete audit log that knows the identity, the trigger's own write in it, and a
reconcile after it. Without one of them the verdict is inconclusive. An operator that counts no reconciles at all (see
`reconcile_counters`) is judged by the log alone, and the evidence says so. On a cluster without an audit log, the
operator's own count of its requests can prove that there were none; see `api_requests`. Reconciles are counted by the
operator's metrics, scraped at the phase's edges. A trigger without a reconcile proves neither too many nor too few.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from ..analysis import figures
from ..analysis.api_requests import OBJECT_WRITES, READS
from ..analysis.idle_baseline import reconciles_of
from ..analysis.phase_result import PhaseResult
from ..errors import NotMeasuredError
from .api_requests import ROWS_SHOWN, by_own_count
from .check import Check, CheckArgumentError, not_negative, one_of
from .outcome import Outcome, at_most, shown
from .run import Run, steady_doubts, steady_phase


class NoopWrites(Check, tag="noop_writes", frozen=True, kw_only=True):
    """Object writes by an identity, rejected ones included, while it reconciles objects in which nothing changed."""

    max: int = 0
    phase: str = ""
    identity: str = "operator"

    def validate(self) -> None:
        not_negative(self, max=self.max)

    def judge(self, run: Run) -> Outcome:
        phase = steady_phase(run.test, self.phase)
        written = [f"wrote {ref.resource} {'/'.join(filter(None, (ref.namespace, ref.name)))}" for ref in phase.written]
        effects = figures.effects_text(phase.write_effects) if phase.write_effects else []
        more = [*written, *effects] if self.identity == "operator" else []
        return _requests("object writes", self.identity, phase, OBJECT_WRITES, self.max, more)


class NoopReads(Check, tag="noop_reads", frozen=True, kw_only=True):
    """Object reads (get, list, and watch when it starts) by an identity in a steady-state phase."""

    max: int
    phase: str = ""
    identity: str = "operator"

    def validate(self) -> None:
        not_negative(self, max=self.max)

    def judge(self, run: Run) -> Outcome:
        return _requests("object reads", self.identity, steady_phase(run.test, self.phase), READS, self.max)


class NoopReconciles(Check, tag="noop_reconciles", frozen=True, kw_only=True):
    """Reconciles that each no-op trigger causes: exactly ``per_trigger``, or at most ``max``.

    ``per_trigger`` is a number, of ``controller``, or one for each of several: ``{"podcliqueset": 1, "podclique":
    500}``. ``max`` without ``controller`` is for all controllers together.
    """

    timed = True

    controller: str = ""
    per_trigger: int | dict[str, int] | None = None
    max: float | None = None
    errors: int = 0
    """How many reconciles of the phase, of all controllers, may end in an error. Not judged where the operator's
    counters do not have their results (work queues)."""
    phase: str = ""

    @property
    def expected(self) -> dict[str, int]:
        """Controller → reconciles for each trigger, exactly; empty where ``max`` is given."""
        if isinstance(self.per_trigger, dict):
            return self.per_trigger
        return {} if self.per_trigger is None else {self.controller: self.per_trigger}

    def controllers(self) -> list[str]:
        return [name for name in {self.controller: None, **self.expected} if name]

    def validate(self) -> None:
        one_of(self, per_trigger=self.per_trigger, max=self.max)
        numbers = self.per_trigger if isinstance(self.per_trigger, dict) else {"per_trigger": self.per_trigger}
        not_negative(self, max=self.max, errors=self.errors, **numbers)
        if isinstance(self.per_trigger, int) and not self.controller:
            raise CheckArgumentError(
                "noop_reconciles(per_trigger=…) does not say of which controller",
                next_step='Name it: controller="…", or per_trigger={"…": 1}.',
            )
        if isinstance(self.per_trigger, dict) and (self.controller or not self.per_trigger):
            raise CheckArgumentError("noop_reconciles(per_trigger={…}) names at least one controller, and no other")

    def judge(self, run: Run) -> Outcome:
        phase = steady_phase(run.test, self.phase)
        doubts = steady_doubts(phase)
        if "reconciles" in phase.missing or not phase.triggers:
            raise NotMeasuredError("; ".join(doubts))
        evidence = by_controller(phase)
        failed = at_most(
            phase.name,
            "reconciles that ended in an error",
            sum(row.count for row in phase.reconciles if row.result == "error"),
            self.errors,
            evidence=evidence,
        )
        if failed.verdict == "fail":
            return failed
        if self.max is not None:
            subject = f"reconciles of {self.controller} per trigger" if self.controller else "reconciles per trigger"
            figure = reconciles_of(phase, self.controller) / phase.triggers
            return at_most(phase.name, subject, figure, self.max, doubts=doubts, evidence=evidence)
        outcomes = [_exactly(phase, controller, count, doubts) for controller, count in self.expected.items()]
        worst = [outcome for verdict in ("fail", "inconclusive") for outcome in outcomes if outcome.verdict == verdict]
        return next(iter(worst), outcomes[0])


_BY_LOG = "judged by the audit log alone: the operator counts no reconciles, so none after the trigger is proven"


def _requests(
    what: str, identity: str, phase: PhaseResult, verbs: Collection[str], bound: int, written: Sequence[str] = ()
) -> Outcome:
    subject, doubts = f"{what} by {identity}", steady_doubts(phase, by_log=True)
    try:
        traffic = figures.api(phase, identity)
    except NotMeasuredError as error:
        return by_own_count(phase, subject, identity, verbs, bound, lacking=error, doubts=doubts)
    rows: Counter[str] = Counter()
    for row in traffic.rows:
        if row.verb in verbs and row.category == "object" and not row.dry_run:
            rows[f"{row.verb} {row.resource}"] += row.count
    largest = [f"{n:,} × {request}" for request, n in rows.most_common(ROWS_SHOWN)]
    return at_most(
        phase.name,
        subject,
        traffic.object_reads if verbs is READS else traffic.object_writes,
        bound,
        doubts=doubts,
        evidence=[*largest, *written, *by_controller(phase), *([_BY_LOG] if phase.counts_no_reconciles else [])],
    )


def _exactly(phase: PhaseResult, controller: str, expected: int, doubts: list[str]) -> Outcome:
    """Return the outcome of one controller's reconciles that should be ``expected`` for each trigger, no fewer."""
    count = figures.reconciles(phase, controller)
    figure = count / phase.triggers
    subject = f"reconciles of {controller} per trigger"
    if count > expected * phase.triggers or doubts:
        return at_most(phase.name, subject, figure, expected, doubts=doubts, evidence=by_controller(phase))
    short = count < expected * phase.triggers
    text = f"{subject} {shown(figure, '')} {'<' if short else '='} {expected:,}"
    if short:
        text += ": triggers were dropped, or several led to one reconcile"
    return Outcome(
        phase=phase.name,
        verdict="fail" if short else "pass",
        subject=subject,
        figure=figure,
        bound=expected,
        text=text,
        evidence=by_controller(phase),
    )


def by_controller(phase: PhaseResult) -> tuple[str, ...]:
    """Return the phase's reconciles by controller and result, as evidence."""
    counts: Counter[str] = Counter()
    for row in phase.reconciles:
        # Work queues do not have the result.
        counts[", ".join(filter(None, (row.controller, row.result)))] += row.count
    return tuple(f"{phase.name}: {n:,} reconciles of {what}" for what, n in sorted(counts.items()) if n)
