"""What a reconcile with nothing to do costs: in requests to the API server, in reconciles for each trigger, in CPU.

"No writes" takes more than silence: a complete audit log that knows the identity, the trigger's own write in it, and a
reconcile after it. Without one of them the verdict is inconclusive. An operator that counts no reconciles at all (see
`reconcile_counters`) is judged by the log alone, and the evidence says so. On a cluster without an audit log, the
operator's own count of its requests can prove that there were none; see `api_requests`. Reconciles are counted by the
operator's metrics, scraped at the phase's edges. A trigger without a reconcile proves neither too many nor too few, nor
does one that comes while earlier work is under way prove too many.

CPU is that of a steady-state phase next to its idle twin. The clock is exact to the ns, but the same work does not take
the same time twice: caches, other guests of the machine, the heap and hash seed of a process. A bound within this noise
is not decided by one run.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Collection, Sequence
from typing import NamedTuple

import msgspec

from .. import durations
from ..analysis import figures
from ..analysis.api_requests import READS
from ..analysis.idle_baseline import OverIdle, over_idle, reconciles_of
from ..analysis.phase_result import PhaseResult
from ..analysis.run_metrics import metrics_of
from ..errors import NotMeasuredError
from ..recording.records import WRITES
from .api_requests import ROWS_SHOWN, by_own_count
from .check import Check, CheckArgumentError, Duration, Outcome, at_most, duration, not_negative, one_of, shown
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
        return _requests("object writes", self.identity, phase, WRITES, self.max, more)


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
            return at_most(
                phase.name, subject, figure, self.max, doubts=doubts, excess=phase.under_way, evidence=evidence
            )
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
        excess=phase.under_way,
        evidence=[*largest, *written, *by_controller(phase), *([_BY_LOG] if phase.counts_no_reconciles else [])],
    )


def _exactly(phase: PhaseResult, controller: str, expected: int, doubts: list[str]) -> Outcome:
    """Return the outcome of one controller's reconciles that should be ``expected`` for each trigger, no fewer."""
    count = figures.reconciles(phase, controller)
    figure = count / phase.triggers
    subject = f"reconciles of {controller} per trigger"
    if count > expected * phase.triggers or doubts:
        evidence = by_controller(phase)
        return at_most(phase.name, subject, figure, expected, doubts=doubts, excess=phase.under_way, evidence=evidence)
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


KEY = "noop_cpu"
"""Of the metric that baselines hold: CPU seconds per trigger over idle."""

NOT_IDLE = 1.25
"""A twin that used more than this many times the phase's CPU was not idle; less of it is noise of a short window."""

WINDOW_NOISE = 0.065
"""Standard deviation of one window's CPU as a share of it, from window to window of an operator: that of the windows in
``selftest/recorded_noise.json``, some 20 s with up to 100 triggers, minutes apart, on 2 cores, nothing else running."""

TRIGGER_NOISE = 0.22
"""Standard deviation of a single trigger's cost as a share of it. The log ratio of two windows side by side had one of
5.5 to 9 % with 21 triggers in each, and of 3 to 5 % with 64: that is √2 × 22 % / √triggers."""

Z_95 = 1.96
"""Standard deviations to either side that hold 95 %."""

_ALPHA = 0.05

LEAST_SAVED = 3
"""A baseline of at least so many runs has a spread of its own."""


class NoopCpu(Check, tag="noop_cpu", frozen=True, kw_only=True):
    """CPU time of a steady-state phase, next to its idle twin; one of three bounds.

    ``per_reconcile``: what the phase used more than its twin, for each reconcile, of one controller or of all.
    ``times_idle``: the phase's CPU time as a multiple of its twin's.
    ``vs``: what a trigger costs over idle, at most ``tolerance`` more than in that baseline.
    A bound within the noise of single runs of one operator is not decided.
    """

    timed = True
    needs_idle_twin = True

    per_reconcile: Duration | None = None
    times_idle: float | None = None
    vs: str | None = None
    tolerance: float = 0.10
    controller: str = ""
    """For ``per_reconcile``: whose reconciles it is divided by."""
    phase: str = ""
    process: str = "operator"

    def validate(self) -> None:
        one_of(self, per_reconcile=self.per_reconcile, times_idle=self.times_idle, vs=self.vs)
        duration(self, per_reconcile=self.per_reconcile)
        not_negative(self, times_idle=self.times_idle, tolerance=self.tolerance)
        if self.vs is not None and self.process != "operator":
            raise CheckArgumentError("noop_cpu(vs=…): baselines hold the operator's CPU only")

    def judge(self, run: Run) -> Outcome:
        phase = steady_phase(run.test, self.phase)
        used = over_idle(run.test, phase, self.process)
        if used.idle_s - used.idle_resolution_s > (used.busy_s + used.busy_resolution_s) * NOT_IDLE:
            raise NotMeasuredError(
                f"{self.process} used more CPU in {used.twin.name} ({shown(used.idle_s, 's')}) than with the trigger"
                f" ({shown(used.busy_s, 's')}): it was not idle there",
                next_step="Trigger when it has come to rest, and hold the phase until its reconciles are over.",
            )
        if self.times_idle is not None:
            return _times_idle(self.times_idle, used)
        if self.per_reconcile is not None:
            return _per_reconcile(self.controller, durations.seconds(self.per_reconcile), used)
        return _against_baseline(self.vs or "", self.tolerance, run, used)


def _times_idle(bound: float, used: OverIdle) -> Outcome:
    if used.idle_s <= 0:
        raise NotMeasuredError(f"no CPU time was seen in {used.twin.name}: there is no multiple of it")
    figure = used.busy_s / used.idle_s
    deviation = ratio_deviation(figure, used.idle_s, busy_deviation_s(used), idle_deviation_s(used))
    varies = Z_95 * deviation / figure if figure > 0 else 0.0
    least_idle = used.idle_s - used.idle_resolution_s
    low = max(0.0, used.busy_s - used.busy_resolution_s) / (used.idle_s + used.idle_resolution_s)
    high = (used.busy_s + used.busy_resolution_s) / least_idle if least_idle > 0 else math.inf
    return at_most(
        used.phase.name,
        "CPU, of its idle twin's",
        figure,
        bound,
        "×",
        between=(max(0.0, low * (1 - varies)), high * (1 + varies)),
        doubts=steady_doubts(used.phase),
        evidence=(*_evidence(used), _narrowed(stated_noise(used))),
    )


def _per_reconcile(controller: str, bound: float, used: OverIdle) -> Outcome:
    figure = used.per_reconcile_s(controller)
    off = (used.resolution_s + Z_95 * difference_deviation_s(used)) / used.reconciles(controller)
    return at_most(
        used.phase.name,
        f"CPU per reconcile{' of ' + controller if controller else ''}",
        figure,
        bound,
        "s",
        between=(figure - off, figure + off),
        doubts=steady_doubts(used.phase),
        evidence=(*_evidence(used), _narrowed(stated_noise(used))),
    )


def _against_baseline(name: str, tolerance: float, run: Run, used: OverIdle) -> Outcome:
    saved = run.baseline_metric(name, KEY)
    doubts = steady_doubts(used.phase)
    now = metrics_of(msgspec.structs.replace(run.test, phases=(used.phase, used.twin))).get(KEY)
    if now is None:
        raise NotMeasuredError(
            f"CPU per trigger was not measured in phase {used.phase.name!r}: {'; '.join(doubts) or 'it did not pass'}"
        )
    ratio = over_saved(now, saved, used, name=name)
    off = used.resolution_s / used.phase.triggers / saved[0] + ratio.margin
    return at_most(
        used.phase.name,
        f"CPU per trigger over idle, of baseline {name}'s",
        ratio.figure,
        1 + tolerance,
        "×",
        between=(ratio.figure - off, ratio.figure + off),
        doubts=doubts,
        evidence=(
            *_evidence(used),
            f"per trigger: {shown(now, 's')}, in {name}: {shown(saved[0], 's')}",
            _narrowed(ratio.why),
        ),
    )


class Ratio(NamedTuple):
    """A figure as a multiple of a baseline's."""

    figure: float
    margin: float
    """How far it may be off either way, in 95 of 100 cases."""
    why: str
    """Where the margin is from, in words."""


def over_saved(now_s: float, saved_s: Sequence[float], used: OverIdle, *, name: str) -> Ratio:
    """Return what a trigger costs as a multiple of what it cost in a baseline's newest run, the first of ``saved_s``.

    The noise is that of the baseline's runs; where these are too few, that of the recorded windows.
    """
    before, number = saved_s[0], len(saved_s)
    ratio = now_s / before
    if number < LEAST_SAVED:
        share = math.hypot(WINDOW_NOISE, TRIGGER_NOISE / math.sqrt(_triggers(used)))
        deviation = ratio_deviation(ratio, before, difference_deviation_s(used) / _triggers(used), share * before)
        why = f"{stated_noise(used)}; {LEAST_SAVED} runs saved as {name} tell this machine's own"
        return Ratio(ratio, Z_95 * deviation, why)
    # Imports scipy, which most runs do not need.
    from ..analysis.statistics.paired import quantile

    one = statistics.stdev(saved_s)
    share = one / statistics.mean(saved_s)
    why = f"single runs vary by {share:.1%} (standard deviation), as the {number} saved as {name} do"
    return Ratio(ratio, quantile(number - 1, _ALPHA) * ratio_deviation(ratio, before, one, one), why)


def busy_deviation_s(used: OverIdle) -> float:
    """Return the standard deviation of what the phase used, s."""
    triggered = TRIGGER_NOISE * max(used.difference_s, 0.0) / math.sqrt(_triggers(used))
    return math.hypot(WINDOW_NOISE * used.busy_s, triggered)


def idle_deviation_s(used: OverIdle) -> float:
    """Return the standard deviation of what its idle twin used, s."""
    return WINDOW_NOISE * used.idle_s


def difference_deviation_s(used: OverIdle) -> float:
    """Return the standard deviation of what the triggers cost, s."""
    return math.hypot(busy_deviation_s(used), idle_deviation_s(used))


def ratio_deviation(ratio: float, divisor: float, deviation: float, divisor_deviation: float) -> float:
    """Return the standard deviation of a ratio of two figures."""
    return math.hypot(deviation, ratio * divisor_deviation) / divisor


def stated_noise(used: OverIdle) -> str:
    """Return in words how far single runs vary by the recorded windows, where this machine's own noise is unknown."""
    number = _triggers(used)
    triggers = f"{number} trigger{'s' * (number > 1)}"
    return (
        f"single runs vary by {WINDOW_NOISE:.1%}, and {triggers} by {TRIGGER_NOISE / math.sqrt(number):.1%} more"
        " (standard deviations, recorded on 2 cores of a virtual machine)"
    )


def _triggers(used: OverIdle) -> int:
    return max(used.phase.triggers, 1)


def _evidence(used: OverIdle) -> tuple[str, ...]:
    return (
        f"CPU in {used.phase.name}: {shown(used.busy_s, 's')}",
        f"CPU in as much of {used.twin.name}: {shown(used.idle_s, 's')}",
        f"difference: {shown(used.difference_s, 's')}"
        + (f" ± {shown(used.resolution_s, 's')}, by scrapes of its metrics" if used.resolution_s else ""),
    )


def _narrowed(why: str) -> str:
    return f"{why}; more triggers narrow it, and grovescale compare decides by pairs of runs"
