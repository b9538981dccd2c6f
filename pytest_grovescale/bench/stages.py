"""The stages of a comparison (no-op windows, deploy and delete runs): the interim result, and when it is over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from .. import redaction
from ..analysis.comparison import Comparison, ComparisonPlan, Discarded, Pair, compare
from ..analysis.pair_contention import is_contended
from ..analysis.run_metrics import default_gated
from ..errors import UsageError
from .store import PROFILE, Plan, Sample, Slot, left, pairs

# A comparison gates on something, even where every run is broken.
_NOTHING_MEASURED = ("noop_cpu",)

_FACTS = ("kubernetes", "nodes")


def plan_with_gates(plan: ComparisonPlan, found: Sequence[Pair]) -> ComparisonPlan:
    """Return the plan with the metrics that its verdict is about: those named, else the default ones.

    The default ones depend on which metrics the warm-up run measured, not on their values. Raises UsageError for a
    named metric that it did not measure.
    """
    known = {key for pair in found for run in (pair.a, pair.b) for key in run.metrics}
    if not plan.gated:
        return msgspec.structs.replace(plan, gated=default_gated(known) or _NOTHING_MEASURED)
    if known and (unknown := [key for key in plan.gated if key not in known]):
        raise UsageError(
            f"the runs do not measure {', '.join(unknown)}",
            next_step=f"They measure: {', '.join(sorted(known))}.",
        )
    return plan


def so_far(plan: Plan, samples: Mapping[Slot, Sample], part: str, discarded: Sequence[Discarded] = ()) -> Comparison:
    """Return the result of a part's finished pairs; ``discarded``: those of its pairs that were repeated."""
    found = pairs(dict(samples), plan.slots, part)
    machines = {sample.machine.fingerprint: sample.machine for slot, sample in samples.items() if slot.part == part}
    return compare(
        plan_with_gates(plan.comparisons[part], found),
        found,
        discarded=discarded,
        alone={slot.arm: sample.run for slot, sample in samples.items() if slot.part == PROFILE},
        machine=next(iter(machines.values())) if len(machines) == 1 else None,
        facts=_facts(plan, samples),
    )


def is_over(plan: Plan, samples: Mapping[Slot, Sample], part: str) -> bool:
    """Return whether a part needs no more runs: all made, decided at an interim analysis, or a variant broken."""
    found = pairs(dict(samples), plan.slots, part)
    if len(found) >= plan.comparisons[part].pairs or any(pair.a.broken or pair.b.broken for pair in found):
        return True
    between_pairs = 2 * len(found) == sum(slot.part == part for slot in samples)
    return between_pairs and len(found) in plan.comparisons[part].looks and so_far(plan, samples, part).decided


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
