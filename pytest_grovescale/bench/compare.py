"""``grovescale compare``: two variants of an operator, parallel or sequential, and whether B is a regression."""

from __future__ import annotations

import contextlib
import datetime
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from .. import durations, redaction
from ..analysis.comparison import Comparison, ComparisonPlan, Discarded, Pair, check, compare, facts_from
from ..analysis.comparison_plan import FEWEST
from ..analysis.contention import MAX_CONTENTION, described, is_contended
from ..analysis.profiles.comparison import NotProfiled
from ..analysis.run_metrics import OF_NOOP, default_gates, is_wall_time, largest_of
from ..cluster import machine_lock
from ..errors import UsageError
from ..report.format import percent
from .deploy_runs import ParallelRuns, SequentialRuns
from .driver import Bench, is_shared, refuse_unfit
from .noop_windows import Windows
from .profiled_runs import run_profiled
from .screen import Screen, time_left
from .store import (
    ALPHA,
    DEPLOY,
    NOOP,
    PAIRS,
    PROFILE,
    RUN,
    Plan,
    Sample,
    Slot,
    Store,
    WindowPlan,
    interleaved,
    left,
    looks,
    pairs,
    quick_looks,
)
from .target_test import Subject
from .variant import Pairing
from .variant import built as built_revision

# A comparison gates on something, even where every run is broken.
_NOTHING_MEASURED = ("noop_cpu",)

_FACTS = ("kubernetes", "nodes")


def plan_with_gates(plan: ComparisonPlan, found: Sequence[Pair]) -> ComparisonPlan:
    """Return the plan with the metrics that its verdict is about: those named, else the default ones.

    The default ones depend on how much there is to count in the first pair, never on how A and B differ. Raises
    UsageError for a named metric that was not measured.
    """
    known = {key for pair in found for run in (pair.a, pair.b) for key in run.metrics}
    if not plan.gated:
        largest = largest_of(run.metrics for pair in found[:1] for run in (pair.a, pair.b))
        gates = default_gates(largest, by_counts=plan.by_counts)
        return msgspec.structs.replace(plan, gated=gates.gated or _NOTHING_MEASURED, guards=gates.guards)
    if known and (unknown := [key for key in plan.gated if key not in known]):
        raise UsageError(
            f"the runs do not measure {', '.join(unknown)}",
            next_step=f"They measure: {', '.join(sorted(known))}.",
        )
    return plan


def so_far(
    plan: Plan, samples: Mapping[Slot, Sample], part: str, discarded: Sequence[Discarded] = (), *, stopped: str = ""
) -> Comparison:
    """Return the result of a part's finished pairs; ``discarded``: those of its pairs that were repeated.

    ``stopped``: why there are no more, as of `analysis.comparison.compare`.
    """
    found = pairs(dict(samples), plan.slots, part)
    machines = {sample.machine.fingerprint: sample.machine for slot, sample in samples.items() if slot.part == part}
    return compare(
        plan_with_gates(plan.comparisons[part], found),
        found,
        discarded=discarded,
        alone={slot.arm: sample.run for slot, sample in samples.items() if slot.part == PROFILE},
        machine=next(iter(machines.values())) if len(machines) == 1 else None,
        facts=_facts(plan, samples),
        stopped=stopped,
    )


def is_over(plan: Plan, samples: Mapping[Slot, Sample], part: str) -> bool:
    """Return whether a part needs no more runs: all made, decided at an interim analysis, or a variant broken."""
    found = pairs(dict(samples), plan.slots, part)
    if len(found) >= plan.comparisons[part].pairs or any(pair.a.broken or pair.b.broken for pair in found):
        return True
    between_pairs = 2 * len(found) == sum(slot.part == part for slot in samples)
    comparison = plan.comparisons[part]
    analysed = len(found) in comparison.looks or len(found) >= facts_from(comparison)
    return between_pairs and analysed and so_far(plan, samples, part).decided


def to_discard(plan: Plan, samples: Mapping[Slot, Sample], part: str, discarded: int) -> int | None:
    """Return the round of a part whose contended pair must be repeated; None for none.

    ``discarded``: number of repeats in this part so far. The warm-up, whose figures are unused, is never repeated, nor
    is a pair with a broken run.
    """
    comparison = plan.comparisons[part]
    if discarded >= comparison.repeats:
        return None
    found = pairs(dict(samples), plan.slots, part)
    return next(
        (
            number
            for number, pair in enumerate(found)
            if number >= comparison.warmup
            and not (pair.a.broken or pair.b.broken)
            and is_contended(pair.contention, comparison.max_contention)
        ),
        None,
    )


def to_come(plan: Plan, samples: Mapping[Slot, Sample]) -> tuple[Slot, ...]:
    """Return the remaining runs, without those of parts that are decided."""
    over = {part for part in plan.comparisons if is_over(plan, samples, part)}
    return tuple(slot for slot in left(plan.slots, samples) if slot.part not in over)


def fewest_to_come(plan: Plan, samples: Mapping[Slot, Sample]) -> tuple[Slot, ...]:
    """Return the runs of `to_come` that remain if the next interim analysis decides each part."""
    until = {
        part: _next_look(comparison, len(pairs(dict(samples), plan.slots, part)))
        for part, comparison in plan.comparisons.items()
    }
    return tuple(slot for slot in to_come(plan, samples) if slot.round < until.get(slot.part, slot.round + 1))


def _next_look(plan: ComparisonPlan, made: int) -> int:
    return next((look for look in plan.looks if look > made), plan.pairs)


def _facts(plan: Plan, samples: Mapping[Slot, Sample]) -> dict[str, str]:
    cluster = next((sample.facts for sample in samples.values() if sample.facts), {})
    facts = {"test": plan.subject.nodeid}
    for name in _FACTS:
        if name in cluster:
            facts[name] = str(cluster[name])
    return facts | redaction.parameters(next(iter(plan.arms.values())).parameters)


PARTS = (NOOP, DEPLOY)

QUICK_LIMIT_S = 300.0
"""Time limit of a quick comparison."""
QUICK_HOLD_S = 3.0
"""Longest hold in a run of a quick comparison: what a trigger sets off is over by then."""


class Wanted(NamedTuple):
    """What to compare, and how many runs to make."""

    pairing: Pairing
    subject: Subject
    parts: tuple[str, ...] = PARTS
    pairs: Mapping[str, int] = PAIRS
    """Part → number of its pairs, including a warm-up."""
    no_early_stop: bool = False
    """Whether the figures are evaluated only once all pairs are complete."""
    sequential: bool = False
    """Whether deploy runs are sequential even where both variants' runs could be parallel."""
    windows: WindowPlan = WindowPlan()
    hold_s: float = 1.0
    """Longest hold in a phase of a run; those of windows are in their plan."""
    time_limit_s: float | None = None
    """Time for the pairs of all parts, s; None: no limit."""
    gated: tuple[str, ...] = ()
    """Empty: the default metrics, of those measured."""
    max_contention: float = MAX_CONTENTION
    """Share of the cores that programs outside the comparison, and steal, may take; above it a pair is repeated."""
    profiles: bool = True
    """One additional run of each variant, with a profiling pass."""
    repository: str = ""


def plan_of(wanted: Wanted) -> Plan:
    """Return the whole plan. Raises UsageError and DefinitionError for invalid requests, before anything starts."""
    if RUN in wanted.parts and wanted.pairs[RUN] < FEWEST:
        raise UsageError(
            f"{wanted.pairs[RUN]} pairs: with fewer than {FEWEST} equal counts would still be chance",
            next_step=f"Ask for {FEWEST} or more.",
        )
    if (fewest := min(wanted.pairs[part] for part in wanted.parts)) < 2:
        raise UsageError(f"{fewest} pairs: a single one shows no spread", next_step="Ask for 2 or more.")
    shared = is_shared(wanted.subject)
    if shared and NOOP in wanted.parts:
        raise UsageError(
            f"the no-op comparison needs two clusters of its own, and {wanted.subject.cluster} is one that is there",
            next_step="Name a cluster definition file, or compare with --parts deploy.",
        )
    gated = {part: _gated(wanted.gated, part) for part in wanted.parts}
    if wanted.gated:
        # Runs that decide nothing are skipped.
        gated = {part: keys for part, keys in gated.items() if keys}
    if unheeded := set(wanted.gated) - {key for keys in gated.values() for key in keys}:
        raise UsageError(
            f"{', '.join(sorted(unheeded))} is not measured by {' and '.join(wanted.parts)} runs",
            next_step="Change --parts or --gate.",
        )
    a, b = wanted.pairing.a, wanted.pairing.b
    refuse_unfit(wanted.subject, (a, b))
    # In parallel runs, the wall times of one variant depend on the other. What the first pair meets, such as clusters
    # that have just started, both of its runs meet; counts need no warm-up in any case.
    parallel = {
        part: part == NOOP or not (wanted.sequential or shared or any(is_wall_time(key) for key in keys))
        for part, keys in gated.items()
    }
    warmup = {part: 0 if part == RUN or parallel[part] else 1 for part in gated}
    comparisons = {
        part: ComparisonPlan(
            a=a.label,
            b=b.label,
            differs=wanted.pairing.differs,
            gated=keys,
            pairs=wanted.pairs[part],
            looks=_looks(part, wanted, warmup=warmup[part]),
            warmup=warmup[part],
            alpha=ALPHA / len(gated),
            ok_alpha=ALPHA,
            parallel=parallel[part],
            max_contention=wanted.max_contention,
            # On a machine with constant other load, a comparison takes at most twice as long.
            repeats=0 if part == RUN else wanted.pairs[part],
            by_counts=part == RUN,
        )
        for part, keys in gated.items()
    }
    for plan in comparisons.values():
        if plan.gated:
            check(plan)
    return Plan(
        command="compare",
        started=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        subject=wanted.subject,
        arms={"a": a, "b": b},
        slots=(
            *(slot for part in comparisons for slot in interleaved(part, wanted.pairs[part])),
            *(interleaved(PROFILE, 1) if wanted.profiles else ()),
        ),
        comparisons=comparisons,
        windows=wanted.windows,
        hold_s=wanted.hold_s,
        time_limit_s=wanted.time_limit_s,
        repository=wanted.repository,
    )


def _looks(part: str, wanted: Wanted, *, warmup: int) -> tuple[int, ...]:
    if wanted.no_early_stop:
        return (wanted.pairs[part],)
    return quick_looks(wanted.pairs[part]) if part == RUN else looks(wanted.pairs[part], warmup=warmup)


def _gated(keys: Sequence[str], part: str) -> tuple[str, ...]:
    return tuple(key for key in keys if part == RUN or key.startswith(OF_NOOP) == (part == NOOP))


class Finished(NamedTuple):
    """A comparison whose runs are complete."""

    parts: list[Comparison]
    not_profiled: tuple[NotProfiled, ...]
    """Profiled runs that failed; ``--resume`` retries them."""


def run(store: Store, plan: Plan, screen: Screen) -> Finished:
    """Make all remaining runs, and return the result of each part.

    All started processes have ended when this returns or raises.
    """
    not_profiled: tuple[NotProfiled, ...] = ()
    if not _is_finished(store, plan):
        locked = machine_lock.exclusive(screen.say, command=f"grovescale compare, {store.folder.name}")
        with store.alone(), locked as lock, checkouts(store, plan, screen) as folders:
            bench = Bench(store, plan, lock, screen, folders)
            for number, part in enumerate(plan.comparisons):
                _run_part(bench, part, TimeLimit.of(bench, part, parts=len(plan.comparisons) - number))
            not_profiled = run_profiled(bench)
    return Finished(results(store, plan), not_profiled)


def _is_finished(store: Store, plan: Plan) -> bool:
    samples = store.samples()
    return not left(plan.part(PROFILE), samples) and all(
        store.stopped(part) or (is_over(plan, samples, part) and _to_discard(store, plan, part) is None)
        for part in plan.comparisons
    )


def results(store: Store, plan: Plan) -> list[Comparison]:
    """Return the results of the finished runs of each part."""
    samples = store.samples()
    return [
        so_far(plan, samples, part, store.discarded(plan.slots, part), stopped=store.stopped(part))
        for part in plan.comparisons
    ]


@contextlib.contextmanager
def checkouts(store: Store, plan: Plan, screen: Screen) -> Iterator[dict[str, Path]]:
    """Check out and build every arm that is a revision for the duration of the block; yields their folders."""
    with contextlib.ExitStack() as stack:
        folders = {}
        for arm, one in plan.arms.items():
            if one.revision:
                folder = store.folder / "revisions" / arm
                checkout = built_revision(Path(plan.repository), one.revision, one.build, folder, say=screen.say)
                folders[arm] = stack.enter_context(checkout)
        yield folders


class OutOfTime(Exception):
    """The time limit was reached while a pair was measured."""


class TimeLimit:
    """The time that a part's pairs may take: until it is over a pair is begun, if one like those before fits.

    Whether one fits depends on how long pairs take, never on their figures, so that the last analysis may spend all
    that is left of alpha.
    """

    def __init__(self, seconds: float, taken: Sequence[float]) -> None:
        """``taken``: durations of the pairs that were made before an interruption, s."""
        self._ends = time.monotonic() + seconds - sum(taken)
        self._taken = list(taken)

    @classmethod
    def of(cls, bench: Bench, part: str, *, parts: int) -> TimeLimit | None:
        """Return a part's limit; None where there is none. ``parts``: how many share what is left, with this one."""
        limit = bench.plan.time_limit_s
        if limit is None:
            return None
        made: dict[tuple[str, int], float] = {}
        for slot, sample in bench.store.samples().items():
            made[slot.part, slot.round] = made.get((slot.part, slot.round), 0.0) + sample.seconds
        other = sum(seconds for (name, _), seconds in made.items() if name != part and name != PROFILE)
        return cls((limit - other) / parts, [seconds for (name, _), seconds in sorted(made.items()) if name == part])

    def note(self, seconds: float) -> None:
        """Note how long a pair took."""
        self._taken.append(seconds)

    def extend(self, seconds: float) -> None:
        """Add the time that other processes had the machine between two pairs."""
        self._ends += seconds

    def check(self) -> None:
        """Raise OutOfTime when it is over."""
        if time.monotonic() > self._ends:
            raise OutOfTime

    @property
    def fits_one_more(self) -> bool:
        """Whether a pair fits that takes as long as the longest of the last three, and the end after it."""
        if not self._taken:
            return True
        first, *others = self._taken
        longest = max(others[-3:], default=first)
        # The first pair starts clusters and processes, too. To end them, and to write the comparison, takes as long.
        end = max(_END_S, first - statistics.median(others)) if others else _END_S
        return time.monotonic() + longest + end <= self._ends


_END_S = 15.0
"""Least time to end processes and clusters, and to write the comparison, s."""


def _run_part(bench: Bench, part: str, limit: TimeLimit | None) -> None:
    if bench.store.stopped(part):
        return
    with contextlib.ExitStack() as stack:
        measure = _measure_of(bench, part, stack, limit)
        _discard_contended(bench, part)
        while not is_over(bench.plan, samples := bench.store.samples(), part):
            if limit is not None and not limit.fits_one_more:
                _stop(bench, part)
                break
            began = time.monotonic()
            try:
                measure(left(bench.plan.part(part), samples)[0])
            except OutOfTime:
                _stop(bench, part)
                return
            if limit is not None:
                limit.note(time.monotonic() - began)
            now = bench.store.samples()
            for slot in sorted(now.keys() - samples.keys()):
                bench.screen.say(_line(bench, slot, now))
            _discard_contended(bench, part)
            began = time.monotonic()
            _yield_to_waiting(bench, part)
            if limit is not None:
                limit.extend(time.monotonic() - began)
        measure.finish()


def _stop(bench: Bench, part: str) -> None:
    """End a part at its time limit."""
    made = len(pairs(bench.store.samples(), bench.plan.slots, part))
    limit = durations.text(bench.plan.time_limit_s or 0.0)
    why = (
        f"the time limit of {limit} (--time-limit) ended it after {made} of {bench.plan.comparisons[part].pairs} pairs"
    )
    bench.store.stop(part, why)
    bench.screen.say(f"{part}: {why}")


def _yield_to_waiting(bench: Bench, part: str) -> None:
    """Between two pairs of a part, release the machine to waiting processes."""
    samples = bench.store.samples()
    coming = left(bench.plan.part(part), samples)
    if coming and not any(slot.round == coming[0].round and slot.part == part for slot in samples):
        bench.lock.yield_to_waiting()
        if took := [sample.seconds for slot, sample in samples.items() if slot.part == part]:
            # The longest wait for the machine from now on: until the end of this pair.
            bench.lock.expect(2 * statistics.median(took))


def _discard_contended(bench: Bench, part: str) -> None:
    """Discard the contended pairs of a part that are to be repeated, and report why."""
    plan = bench.plan.comparisons[part]
    while (round_ := _to_discard(bench.store, bench.plan, part)) is not None:
        samples = bench.store.samples()
        a, b = (samples[Slot(part=part, round=round_, arm=arm)] for arm in ("a", "b"))
        bench.store.discard(a, b)
        contention = described(Pair(a=a.run, b=b.run).contention)
        number = len(bench.store.discarded(bench.plan.slots, part))
        bench.screen.say(
            f"{part} {round_ + 1} of {plan.pairs}: discarded, programs outside the comparison took {contention} of the"
            f" cores (limit {percent(plan.max_contention or 1.0)}); it is made again, repeat {number} of at most"
            f" {plan.repeats}"
        )


def _to_discard(store: Store, plan: Plan, part: str) -> int | None:
    return to_discard(plan, store.samples(), part, len(store.discarded(plan.slots, part)))


def _measure_of(
    bench: Bench, part: str, stack: contextlib.ExitStack, limit: TimeLimit | None
) -> Windows | ParallelRuns | SequentialRuns:
    look = limit.check if limit is not None else lambda: None
    if part == NOOP:
        return Windows(bench, stack, look=look)
    if bench.plan.comparisons[part].parallel:
        return ParallelRuns(bench, stack, noop=part == RUN, look=look)
    return SequentialRuns(bench, stack, noop=part == RUN, look=look)


def _line(bench: Bench, slot: Slot, samples: Mapping[Slot, Sample]) -> str:
    rounds = bench.plan.comparisons[slot.part].pairs
    start = f"{slot.part} {slot.round + 1} of {rounds}, {bench.plan.arms[slot.arm].label}"
    sample = samples[slot]
    figure = f"broken: {sample.run.broken}" if sample.run.broken else _figure(sample.run.metrics, slot.part)
    took = {done: one.seconds for done, one in samples.items()}
    limit = bench.plan.time_limit_s
    waiting = time_left(
        to_come(bench.plan, samples),
        took,
        fewest_to_come(bench.plan, samples),
        at_most=None if limit is None else limit - sum(took.values()),
    )
    return f"{start}: {figure}; {waiting}"


def _figure(metrics: dict[str, float], part: str) -> str:
    if part == NOOP:
        figure = metrics.get("noop_cpu")
        return f"{1000 * figure:.2f} ms of CPU per trigger" if figure is not None else "no CPU figure"
    cpu = sum(value for key, value in metrics.items() if key.startswith("cpu:"))
    wall = sum(value for key, value in metrics.items() if key.startswith("wall:"))
    return f"{wall:.1f} s, {cpu:.2f} s of the operator's CPU"
