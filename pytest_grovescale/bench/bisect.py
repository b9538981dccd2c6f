"""``grovescale bisect``: which commit changed a figure, by measurements that are noisy."""

from __future__ import annotations

import contextlib
import datetime
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from ..analysis.bisection import Bisection, Step
from ..analysis.comparison import ComparisonPlan, Pair
from ..analysis.contention import is_contended
from ..analysis.run_metrics import COUNTS, GUARDS, OF_NOOP, describe, units_of
from ..analysis.statistics import noisy_bisection
from ..analysis.statistics.noisy_bisection import (
    COUNT_NOISE,
    LOOSE_NOISE,
    TIME_NOISE,
    Measured,
    NoisePrior,
    Posterior,
    Suspects,
)
from ..cluster import machine_lock
from ..errors import UsageError
from ..report.format import percent
from .deploy_runs import ParallelRuns, SequentialRuns
from .driver import Bench, is_shared, refuse_unfit
from .measured import NothingMeasured
from .screen import Screen
from .store import ALPHA, BISECT, DEPLOY, PROFILE, BisectPlan, Plan, Sample, Slot, Store, interleaved, looks
from .target_test import Subject
from .variant import BuildError, Revision, Variant, built

GOOD = "good"
"""The good commit's arm; those of the others are their ids."""

MOST = 60
"""Measurements after which a search gives up."""

PAIRS = 8
"""Of the comparison of the guilty commit with the one before it."""


def variants(first: Variant, good: str, revisions: Sequence[Revision]) -> dict[str, Variant]:
    """Return the arms of a bisection; ``first``: the variant of the good commit."""
    arms = {GOOD: msgspec.structs.replace(first, revision=good, label=f"{good[:12]} (good)")}
    for one in revisions:
        label = f"{one.commit[:12]} {one.subject}"
        arms[one.commit] = msgspec.structs.replace(first, revision=one.commit, label=label)
    return arms


def plan_of(subject: Subject, arms: Mapping[str, Variant], wanted: BisectPlan, repository: str) -> Plan:
    """Return the whole plan. Raises UsageError for a metric that deploy runs do not measure."""
    try:
        describe(wanted.metric)
    except KeyError:
        raise UsageError(
            f"--metric {wanted.metric}: no metric is called so",
            next_step="Write it as grovescale history does: cpu:deploy, api:deploy, writes:deploy.",
        ) from None
    if wanted.metric.startswith(OF_NOOP):
        raise UsageError(
            f"--metric {wanted.metric} is measured by no-op windows", next_step="Bisect a phase's: cpu:steady-state."
        )
    refuse_unfit(subject, arms.values())
    return Plan(
        command="bisect",
        started=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        subject=subject,
        arms=dict(arms),
        slots=(),
        bisect=wanted,
        repository=repository,
    )


def wanted_of(plan: Plan) -> BisectPlan:
    """Return what a bisection's plan looks for. Raises UsageError for another plan."""
    if plan.bisect is None:
        raise UsageError(f"this is a {plan.command}", next_step=f"Use: grovescale {plan.command} --resume")
    return plan.bisect


def is_counted(plan: Plan) -> bool:
    """Return whether the metric is a count, which needs no run of the good commit beside each."""
    return units_of(wanted_of(plan).metric) in COUNTS


class _Found(NamedTuple):
    """The measurements so far."""

    measured: list[Measured]
    left_out: int
    rounds: int
    """Number of the next one."""

    def of(self, commit: int) -> list[float]:
        """Return the values of one commit; 0: the good one."""
        return [one.value for one in self.measured if one.commit == commit]


def _measurements(plan: Plan, samples: Mapping[Slot, Sample]) -> _Found:
    """Return the measurements in the samples of a search.

    A count is measured by single runs, also of the good commit. Anything else is by pairs with the good commit, and the
    first pair is the warm-up of the clusters.
    """
    wanted, arms, counted = wanted_of(plan), list(plan.arms), is_counted(plan)
    found: list[Measured] = []
    left_out = 0
    for slot, sample in sorted(samples.items()):
        beside = samples.get(Slot(part=BISECT, round=slot.round, arm=GOOD))
        if sample.run.broken:
            continue
        if counted:
            found.append(Measured(arms.index(slot.arm), _log(sample, wanted.metric)))
        elif slot.arm != GOOD and slot.round > 0 and beside is not None and not beside.run.broken:
            contention = Pair(a=beside.run, b=sample.run).contention
            if wanted.max_contention and is_contended(contention, wanted.max_contention):
                left_out += 1
            else:
                value = _log(sample, wanted.metric) - _log(beside, wanted.metric)
                found.append(Measured(arms.index(slot.arm), value))
    return _Found(found, left_out, 1 + max((slot.round for slot in samples), default=-1))


def _log(sample: Sample, metric: str) -> float:
    figure = sample.run.metrics.get(metric)
    if figure is None:
        known = ", ".join(sorted(sample.run.metrics))
        raise UsageError(f"--metric {metric}: the runs do not measure it", next_step=f"They measure: {known}.")
    # A count of zero has no logarithm: it counts as a half, so that one more is a large change.
    return math.log(max(figure, 0.5 if units_of(metric) in COUNTS else 1e-6))


def state(plan: Plan, store: Store) -> tuple[Bisection, int | None]:
    """Return a search's state, and the number of the commit to measure next; None: it is over, or gave up."""
    wanted, skipped, counted = wanted_of(plan), store.skipped(), is_counted(plan)
    commits = [arm for arm in plan.arms if arm != GOOD]
    found = _measurements(plan, store.samples())
    noise = _noise(wanted.metric)
    posterior = noisy_bisection.posterior(len(commits), found.measured, noise, paired=not counted)
    out = {number for number, commit in enumerate(commits, start=1) if commit in skipped}
    verdict = noisy_bisection.decide(posterior, skipped=out, error=wanted.error)
    coming = verdict.next
    # A count's level before the change rests on few runs at first: the good commit keeps up with what is asked again.
    if counted and coming is not None and len(found.of(0)) < max(1, len(found.of(coming))):
        coming = 0
    if len(found.measured) + found.left_out >= wanted.most:
        coming = None
    return _bisection(plan, posterior, found, skipped, verdict.suspects, over=verdict.next is None), coming


def _noise(metric: str) -> NoisePrior:
    if units_of(metric) not in COUNTS:
        return TIME_NOISE
    return LOOSE_NOISE if metric.startswith(GUARDS) else COUNT_NOISE


def _bisection(
    plan: Plan, found: Posterior, measured: _Found, skipped: Mapping[str, str], guilty: Suspects | None, *, over: bool
) -> Bisection:
    commits = [arm for arm in plan.arms if arm != GOOD]
    of_good = measured.of(0)
    good = sum(of_good) / len(of_good) if of_good else 0.0
    return Bisection(
        metric=wanted_of(plan).metric,
        good=plan.arms[GOOD].revision,
        steps=tuple(
            Step(
                commit=commit,
                subject=plan.arms[commit].label.partition(" ")[2],
                ratios=tuple(math.exp(value - good) for value in measured.of(number)),
                probability=round(float(found.guilty[number - 1]), 6),
                skipped=skipped.get(commit, ""),
            )
            for number, commit in enumerate(commits, start=1)
        ),
        guilty=tuple(commits[guilty.first - 1 : guilty.last]) if guilty is not None else (),
        probability=guilty.probability if guilty is not None else float(found.guilty[-1]),
        change=math.exp(found.change),
        low=math.exp(found.change - 2 * found.deviation),
        high=math.exp(found.change + 2 * found.deviation),
        over=over,
        left_out=measured.left_out,
    )


def run(store: Store, plan: Plan, screen: Screen) -> Bisection:
    """Make the runs that remain, and return the result.

    A commit that cannot be built, or whose runs are broken, is skipped. Raises BuildError where the good or the bad one
    cannot be built, UsageError where their runs are broken. All started processes have ended when this returns or
    raises.
    """
    found, coming = state(plan, store)
    if coming is None:
        return found
    locked = machine_lock.exclusive(screen.say, command=f"grovescale bisect, {store.folder.name}")
    with store.alone(), locked as lock, contextlib.ExitStack() as stack:
        checkouts: dict[str, Path] = {}
        search = _Search(Bench(store, plan, lock, screen, checkouts), checkouts, stack)
        while coming is not None:
            try:
                search.measure(coming)
            except NothingMeasured as error:
                # Whether the commit is the cause, only its reader can tell.
                arm = list(plan.arms)[coming]
                error.next_step += f" If it is the commit: grovescale bisect --resume --skip {arm[:12]}."
                raise
            found, coming = state(plan, store)
            screen.say(line(found, coming))
            lock.yield_to_waiting()
        search.finish()
    return found


class _Search:
    """Builds commits when they are first measured; checkouts and clusters live until ``stack`` is closed."""

    def __init__(self, bench: Bench, checkouts: dict[str, Path], stack: contextlib.ExitStack) -> None:
        self._bench = bench
        self._checkouts = checkouts
        self._stack = stack
        self._bad = len(bench.plan.arms) - 1
        self._one = SequentialRuns(bench, stack)
        self._two = None if is_shared(bench.plan.subject) else ParallelRuns(bench, stack)

    def measure(self, number: int) -> None:
        """Make one measurement of a commit (0: the good one), or note that it cannot be measured."""
        arm, samples = list(self._bench.plan.arms)[number], self._bench.store.samples()
        self._build(GOOD)
        try:
            self._build(arm)
        except BuildError as error:
            if number == self._bad:
                raise
            self._skip(arm, error.message)
            return
        round_ = _measurements(self._bench.plan, samples).rounds
        if is_counted(self._bench.plan):
            self._one(Slot(part=BISECT, round=round_, arm=arm))
        else:
            if not round_:
                self._bench.screen.say("the first pair warms up the clusters, and does not count")
            arms = (GOOD, arm) if round_ % 2 else (arm, GOOD)
            self._pair([Slot(part=BISECT, round=round_, arm=one) for one in arms])
        self._judge(arm, number)

    def finish(self) -> None:
        """Let the processes of the last commits write their results and end."""
        if self._two is not None:
            self._two.finish()

    def _pair(self, slots: Sequence[Slot]) -> None:
        if self._two is not None:
            self._two.together(slots)
            return
        for slot in slots:
            self._one(slot)

    def _judge(self, arm: str, number: int) -> None:
        """Skip a commit whose run is broken. Raises UsageError for the good and the bad one."""
        for slot, sample in sorted(self._bench.store.samples().items(), reverse=True):
            if sample.run.broken and slot.arm in (GOOD, arm):
                if slot.arm == GOOD or number == self._bad:
                    raise UsageError(
                        f"{self._bench.plan.arms[slot.arm].label} does not work: {sample.run.broken}",
                        next_step="The ends of the range have to work: name others.",
                    )
                self._skip(arm, sample.run.broken)
                return

    def _build(self, arm: str) -> None:
        if arm in self._checkouts:
            return
        one, store = self._bench.plan.arms[arm], self._bench.store
        folder = store.folder / "revisions" / arm[:12]
        checkout = built(Path(self._bench.plan.repository), one.revision, one.build, folder, say=self._bench.screen.say)
        self._checkouts[arm] = self._stack.enter_context(checkout)

    def _skip(self, arm: str, why: str) -> None:
        self._bench.store.skip(arm, why)
        self._bench.screen.say(f"skipped {self._bench.plan.arms[arm].label}: {why.partition(chr(10))[0]}")


def skip(store: Store, plan: Plan, commit: str) -> None:
    """Leave a commit out of a search. Raises UsageError for one that is not in its range, and for its end."""
    commits = [arm for arm in plan.arms if arm != GOOD]
    if commit not in commits[:-1]:
        raise UsageError(
            f"--skip {commit[:12]}: not between the good and the bad commit", next_step="Name one of its commits."
        )
    store.skip(commit, "left out by --skip")


def line(found: Bisection, coming: int | None) -> str:
    """Return a search's state in one line."""
    number = sum(len(step.ratios) for step in found.steps)
    likely = max(found.steps, key=lambda step: step.probability)
    text = f"{number} measured; most likely {likely.commit[:12]} ({percent(likely.probability)})"
    if coming is not None:
        text += f"; next {found.steps[coming - 1].commit[:12] if coming else 'the good one'}"
    return text


def pair_plan(plan: Plan, found: Bisection) -> Plan | None:
    """Return the comparison of the guilty commit with the last measurable one before it; None where none is wanted."""
    wanted, arms = wanted_of(plan), list(plan.arms)
    if not found.guilty or wanted.pairs == 0:
        return None
    b = found.guilty[-1]
    a = arms[arms.index(found.guilty[0]) - 1]
    warmup = 1 if is_shared(plan.subject) else 0
    comparison = ComparisonPlan(
        a=plan.arms[a].label,
        b=plan.arms[b].label,
        differs=f"revision: {plan.arms[a].revision[:12]}, {plan.arms[b].revision[:12]}",
        gated=(wanted.metric,),
        pairs=wanted.pairs,
        looks=looks(wanted.pairs, warmup=warmup),
        warmup=warmup,
        alpha=ALPHA,
        parallel=not warmup,
        max_contention=wanted.max_contention,
        repeats=wanted.pairs,
    )
    return Plan(
        command="compare",
        started=plan.started,
        subject=plan.subject,
        arms={"a": plan.arms[a], "b": plan.arms[b]},
        slots=(*interleaved(DEPLOY, wanted.pairs), *(interleaved(PROFILE, 1) if wanted.profiles else ())),
        comparisons={DEPLOY: comparison},
        repository=plan.repository,
    )
