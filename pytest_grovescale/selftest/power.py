"""The power of comparisons: how often they are right, by resampling recorded noise.

It holds two kinds of comparisons: of an operator with itself, whose differences are pure noise, and with a variant
that is slower by a known defect.

Each resampled comparison applies the complete rule, with the same functions as `analysis.comparison.compare`: evidence,
Holm's steps, interim analyses, early stopping.

Resampling rules. A block is one recorded comparison: two parallel clusters, with successive pairs of runs. A resampled
comparison takes all its pairs from one block, since two clusters may differ a little for as long as they live, and a
comparison contains that difference completely. Either of two equal variants may be A, so the sides of the block are
exchanged for half of the comparisons, for all pairs at once for the same reason. Within a block, pairs are drawn two at
a time, a pair with its neighbour (A B, B A), from any position: so both orders are equally frequent, as planned, and a
drift of the machine within minutes is preserved. The two runs of a pair stay together, and all metrics of a pair are
drawn together.

Contended pairs are discarded and repeated as in a comparison, where their contention was recorded: by the next
recorded pair of the same order, two positions on, at most as many times as the comparison has pairs. Temporary load on
the machine so persists or ends as it did when it was recorded.

A block's mean contains the noise of its own pairs, besides the lasting difference of its clusters, and all resampled
comparisons inherit it: short blocks give worse shares than the true ones.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

from ..analysis.comparison import ComparisonPlan, Pair, check, facts_from
from ..analysis.comparison_plan import one_sided
from ..analysis.contention import MAX_CONTENTION
from ..analysis.profiles.functions import wilson
from ..analysis.run_metrics import COUNTS, floor_of, units_of
from ..analysis.statistics.decision import decide_with_facts
from ..analysis.statistics.paired import Flags, Floats, evidence, never_varies
from ..atomic_write import read_document
from ..bench.compare import plan_with_gates
from ..bench.store import ALPHA, PAIRS, RUN, Store, looks, pairs, quick_looks, write_json
from ..errors import NotMeasuredError, UsageError
from ..recording.records import Machine

SCHEMA_VERSION = 1

RECORDED = Path(__file__).with_name("recorded_noise.json")
"""The recorded noise that the package includes."""


class NoisePair(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of a pair, by metric: those that both runs have."""

    a: dict[str, float]
    b: dict[str, float]
    first: Literal["a", "b"]
    contention: float | None = None
    """Share of the cores that programs outside the comparison took, steal included; None: not measured."""


class NoiseBlock(msgspec.Struct, frozen=True, kw_only=True):
    """One comparison: successive pairs on the same two clusters, without the warm-up."""

    part: str
    """``noop`` or ``deploy``."""
    plan: ComparisonPlan
    """With the gated metrics by name, also for the default ones."""
    pairs: tuple[NoisePair, ...]
    started: str
    """ISO 8601, UTC."""


class Noise(msgspec.Struct, frozen=True, kw_only=True):
    schema_version: int = SCHEMA_VERSION
    how: str
    """How it was recorded, as text: commands, workload, other load on the machine."""
    machine: Machine
    facts: dict[str, str] = {}
    """Facts about the cluster, and the workload's parameters."""
    blocks: tuple[NoiseBlock, ...]

    def of(self, part: str, *, alike: bool) -> tuple[NoiseBlock, ...]:
        """Return the blocks of a part: of an operator with itself, or of two that differ."""
        return tuple(block for block in self.blocks if block.part == part and bool(block.plan.differs) != alike)

    @property
    def parts(self) -> tuple[str, ...]:
        return tuple(sorted({block.part for block in self.blocks}))


def block_of(part: str, plan: ComparisonPlan, recorded: Sequence[Pair], *, started: str) -> NoiseBlock:
    """Return a finished comparison's pairs as noise; leaves out pairs with a broken run."""
    kept = [pair for pair in recorded[plan.warmup :] if not (pair.a.broken or pair.b.broken)]
    return NoiseBlock(
        part=part,
        plan=plan_with_gates(plan, recorded),
        pairs=tuple(_noise_pair(pair) for pair in kept),
        started=started,
    )


def _noise_pair(pair: Pair) -> NoisePair:
    both = sorted(pair.a.metrics.keys() & pair.b.metrics.keys())
    return NoisePair(
        a={key: pair.a.metrics[key] for key in both},
        b={key: pair.b.metrics[key] for key in both},
        first=pair.first,
        contention=pair.contention.share,
    )


def from_comparisons(folders: Sequence[Path], *, how: str) -> Noise:
    """Return the noise of comparisons by their folders. Raises UsageError when they are from different machines, or one
    has discarded pairs: the remainder would not represent the machine."""
    blocks: list[NoiseBlock] = []
    machines: dict[str, Machine] = {}
    facts: dict[str, str] = {}
    for folder in folders:
        store = Store(folder)
        plan, samples = store.plan(), store.samples()
        if any(store.discarded(plan.slots, part) for part in plan.comparisons):
            raise UsageError(
                f"{folder} has discarded pairs",
                next_step="Record noise with --max-contention 100%, which discards none.",
            )
        for sample in samples.values():
            machines[sample.machine.fingerprint] = sample.machine
            facts |= {name: str(value) for name, value in sample.facts.items()}
        for part, comparison in plan.comparisons.items():
            block = block_of(part, comparison, pairs(samples, plan.slots, part), started=plan.started)
            # A part without pairs besides its warm-up holds no noise yet.
            blocks += [block] if block.pairs else []
    if len(machines) != 1:
        raise UsageError(
            f"the {len(folders)} comparisons come from {len(machines)} machines",
            next_step="Name the folders of finished comparisons, all of one machine.",
        )
    return Noise(how=how, machine=next(iter(machines.values())), facts=facts, blocks=tuple(blocks))


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """How much a metric varies in recorded noise, from one comparison to another."""

    metric: str
    runs: tuple[float, ...]
    """Coefficient of variation of one variant's runs in each comparison, smallest first."""
    ratios: tuple[float, ...]
    """Standard deviation of the log ratios of each comparison's pairs, smallest first."""


def spread(blocks: Sequence[NoiseBlock], metric: str) -> Spread | None:
    """Return how much a metric varies; None where no comparison has it in two pairs or more."""
    series: list[tuple[Floats, Floats]] = []
    for block in blocks:
        both = [(pair.a[metric], pair.b[metric]) for pair in block.pairs if pair.a.get(metric) and pair.b.get(metric)]
        if len(both) > 1:
            a, b = np.array(both).T
            series.append((a, b))
    if not series:
        return None
    return Spread(
        metric=metric,
        runs=tuple(sorted(float(side.std(ddof=1) / side.mean()) for pair in series for side in pair)),
        ratios=tuple(sorted(float(np.log(b / a).std(ddof=1)) for a, b in series)),
    )


def write(noise: Noise, path: Path) -> None:
    """Write noise as JSON. Raises RecordingError."""
    write_json(path, noise)


def read(path: Path = RECORDED) -> Noise:
    """Return recorded noise. Raises RecordingError for a file that is missing, newer than this version, or no noise."""
    return read_document(
        path,
        Noise,
        schema_version=SCHEMA_VERSION,
        what="recorded noise",
        next_step="Record it: grovescale compare of an operator with itself, then grovescale selftest noise.",
    )


COMPARISONS = 10_000
SEED = 545

_BATCH = 2_000

Places: TypeAlias = npt.NDArray[np.int64]


class Share(msgspec.Struct, frozen=True, kw_only=True):
    """Share of all resampled comparisons."""

    count: int
    of: int
    low: float
    """Wilson's 95 % interval of the share: of the resampling alone, not of the recorded noise."""
    high: float

    @property
    def share(self) -> float:
        return self.count / self.of


class Drawn(msgspec.Struct, frozen=True, kw_only=True):
    """Results of the comparisons resampled from some blocks."""

    differs: str
    blocks: int
    pairs: int
    """Number of recorded pairs in these blocks."""
    regression: Share
    """With a regression of any gated metric."""
    improvement: Share
    """With an improvement of any metric, and no regression."""
    ok: Share
    """With all metrics ok or better."""
    by_metric: dict[str, Share]
    """Regressions by metric."""
    stopped_early: Share
    """Decided at an interim analysis."""
    contended_pairs: int = 0
    """Recorded pairs above the limit."""
    repeats: float = 0.0
    """Average number of pairs that a comparison discards and repeats, if it makes all its pairs."""


class PartPower(msgspec.Struct, frozen=True, kw_only=True):
    """One part of a comparison: no-op windows, or deploy and delete."""

    part: str
    gated: tuple[str, ...]
    pairs: int
    """Of a resampled comparison, including the warm-up."""
    looks: tuple[int, ...]
    alike: Drawn | None
    """An operator with itself: regressions are false alarms. None where none was recorded."""
    slower: tuple[Drawn, ...]
    """With each recorded defect: regressions are detections."""


class Power(msgspec.Struct, frozen=True, kw_only=True):
    seed: int
    comparisons: int
    """Number resampled of each kind."""
    parts: tuple[PartPower, ...]
    max_contention: float | None = None
    """Share of the cores above which resampled comparisons discard and repeat a pair; None: no limit."""

    @property
    def false_alarms(self) -> float | None:
        """Share of whole comparisons of an operator with itself that raise an alarm in any part; None if not recorded.

        The runs of different parts are independent, and so are the parts' shares. A quick comparison has one part: the
        larger share is that of either kind.
        """
        shares = []
        for quick in (False, True):
            parts = [part for part in self.parts if (part.part == RUN) == quick]
            alike = [part.alike.regression.share for part in parts if part.alike is not None]
            shares += [1 - math.prod(1 - share for share in alike)] if alike else []
        return max(shares, default=None)


class _Outcome(NamedTuple):
    """Outcomes of a batch of comparisons, at the analysis that ended each."""

    regression: Flags
    """(comparisons, metrics)"""
    improvement: Flags
    ok: Flags
    look: Places
    """(comparisons,): index of the look."""


def power(
    noise: Noise,
    *,
    comparisons: int = COMPARISONS,
    seed: int = SEED,
    pairs: int | None = None,
    max_contention: float | None = MAX_CONTENTION,
) -> Power:
    """Resample comparisons of each recorded kind. Equal noise and seed give equal results.

    ``pairs``: number of pairs of a resampled comparison, including the warm-up; default: as in `grovescale compare` for
    each part. Gated metrics and bounds are those of the recorded comparisons; alpha is that of a comparison with all
    recorded parts. Raises NotMeasuredError for a block that lacks a gated metric or has fewer than two pairs, and
    UsageError for too few ``pairs``.
    """
    parts = tuple(_part(noise, part, comparisons, seed, pairs or PAIRS[part], max_contention) for part in noise.parts)
    return Power(seed=seed, comparisons=comparisons, parts=parts, max_contention=max_contention)


def _part(noise: Noise, part: str, comparisons: int, seed: int, pairs: int, max_contention: float | None) -> PartPower:
    alike, slower = noise.of(part, alike=True), noise.of(part, alike=False)
    recorded = next(block.plan for block in (*alike, *slower))
    plan = msgspec.structs.replace(
        recorded,
        pairs=pairs,
        looks=quick_looks(pairs) if part == RUN else looks(pairs, warmup=recorded.warmup),
        alpha=ALPHA if part == RUN else ALPHA / len({*noise.parts} - {RUN}),
        ok_alpha=ALPHA,
        max_contention=max_contention,
        repeats=0 if recorded.by_counts else pairs,
    )
    check(plan)
    by_defect = {block.plan.differs: [b for b in slower if b.plan.differs == block.plan.differs] for block in slower}
    return PartPower(
        part=part,
        gated=plan.gated,
        pairs=plan.pairs,
        looks=plan.looks,
        alike=_drawn(plan, alike, comparisons, seed, exchange=True) if alike else None,
        slower=tuple(_drawn(plan, blocks, comparisons, seed, exchange=False) for blocks in by_defect.values()),
    )


def _drawn(plan: ComparisonPlan, blocks: Sequence[NoiseBlock], comparisons: int, seed: int, *, exchange: bool) -> Drawn:
    generator = np.random.default_rng(seed)
    figures = [figures_of(block, plan.gated) for block in blocks]
    contended = [contended_of(block, plan.max_contention) for block in blocks]
    outcomes, repeats = [], 0
    for start in range(0, comparisons, _BATCH):
        size = min(_BATCH, comparisons - start)
        drawn, repeated = draw(figures, plan, size, generator, exchange=exchange, contended=contended)
        outcomes.append(outcome(plan, drawn))
        repeats += repeated
    found = _Outcome(*(np.concatenate(column) for column in zip(*outcomes, strict=True)))
    alarm = found.regression.any(axis=1)
    return Drawn(
        differs=blocks[0].plan.differs,
        blocks=len(blocks),
        pairs=sum(len(block.pairs) for block in blocks),
        regression=_share(alarm),
        improvement=_share(found.improvement.any(axis=1) & ~alarm),
        ok=_share((found.ok | found.improvement).all(axis=1)),
        by_metric={key: _share(found.regression[:, at]) for at, key in enumerate(plan.gated)},
        stopped_early=_share(found.look < len(plan.looks) - 1),
        contended_pairs=sum(int(flags.sum()) for flags in contended),
        repeats=repeats / comparisons,
    )


def figures_of(block: NoiseBlock, gated: Sequence[str]) -> Floats:
    """Return a block's gated figures: (sides A and B, metrics, pairs). Raises NotMeasuredError."""
    missing = [key for key in gated if any(key not in pair.a for pair in block.pairs)]
    if missing or len(block.pairs) < 2:
        what = f"has no {', '.join(missing)} in some pairs" if missing else f"has {len(block.pairs)} pairs"
        raise NotMeasuredError(
            f"the recorded comparison of {block.started} ({block.part}) {what}",
            next_step="Record it again, or leave it out of the noise.",
        )
    return np.array([[[side[key] for side in sides] for key in gated] for sides in _sides(block)])


def _sides(block: NoiseBlock) -> tuple[list[dict[str, float]], list[dict[str, float]]]:
    return [pair.a for pair in block.pairs], [pair.b for pair in block.pairs]


def contended_of(block: NoiseBlock, limit: float | None) -> Flags:
    """Return for each pair whether it is contended; unmeasured pairs are not."""
    return np.array([limit is not None and (pair.contention or 0.0) > limit for pair in block.pairs], dtype=np.bool_)


def draw(
    blocks: Sequence[Floats],
    plan: ComparisonPlan,
    comparisons: int,
    generator: np.random.Generator,
    *,
    exchange: bool,
    contended: Sequence[Flags] = (),
) -> tuple[Floats, int]:
    """Return comparisons resampled from blocks: (sides, comparisons, metrics, pairs), without a warm-up; and the total
    number of discarded and repeated pairs. ``contended``: of each block, by pair."""
    wanted = plan.pairs - plan.warmup
    drawn = np.empty((2, comparisons, blocks[0].shape[1], wanted))
    chosen = generator.integers(len(blocks), size=comparisons)
    repeated = 0
    for index, block in enumerate(blocks):
        mine = np.flatnonzero(chosen == index)
        places = _neighbours(block.shape[2], wanted, mine.size, generator)
        if contended:
            repeated += _repeat(places, contended[index], plan.repeats)
        drawn[:, mine] = np.moveaxis(block[:, :, places], 2, 1)
    if exchange:
        exchanged = np.flatnonzero(generator.random(comparisons) < 0.5)
        drawn[:, exchanged] = drawn[::-1, exchanged]
    return drawn, repeated


def _repeat(places: Places, contended: Flags, repeats: int) -> int:
    """Replace each contended pair by the next one of its order, repeatedly, until it is not contended or its
    comparison's repeats are used up; return the number of repeats."""
    left = np.full(places.shape[0], repeats)
    for column in places.T:
        while (again := contended[column] & (left > 0)).any():
            later = column[again] + 2
            # After the last pair, continue with the first of the same order.
            column[again] = np.where(later < contended.size, later, later % 2)
            left[again] -= 1
    return int(repeats * places.shape[0] - left.sum())


def _neighbours(pairs: int, wanted: int, comparisons: int, generator: np.random.Generator) -> Places:
    """Return positions in a block by comparison: random pairs, each with the next one, as many as needed."""
    starts = generator.integers(pairs - 1, size=(comparisons, (wanted + 1) // 2))
    return np.stack([starts, starts + 1], axis=-1).reshape(comparisons, -1)[:, :wanted]


def outcome(plan: ComparisonPlan, drawn: Floats) -> _Outcome:
    """Return the rule's outcome for comparisons (sides, comparisons, metrics, pairs) at the analysis that ends each."""
    counts = np.array([units_of(key) in COUNTS for key in plan.gated])
    guards = np.array([key in plan.guards for key in plan.gated])
    floors = np.array([floor_of(key) if plan.by_counts else 0.0 for key in plan.gated])
    usable = plan.pairs - plan.warmup
    fractions = tuple((look - plan.warmup) / usable for look in plan.looks)
    alpha, ok_alpha = one_sided(plan)
    shape = drawn.shape[1:3]
    regression, improvement, ok = np.zeros((3, *shape), dtype=np.bool_)
    found = _Outcome(regression, improvement, ok, np.zeros(shape[0], dtype=np.int64))
    going = np.ones(shape[0], dtype=np.bool_)
    for early in range(facts_from(plan), plan.looks[0]):
        # Before the first analysis, a regression by facts ends a comparison.
        a, b = np.maximum(drawn[:, going, :, : early - plan.warmup], floors[:, None])
        alarm = never_varies(a, b) & counts & (b[..., 0] > plan.regression * a[..., 0])
        found.regression[going] = alarm
        going[going] = ~alarm.any(axis=-1)
    for index, look in enumerate(plan.looks):
        figures = drawn[:, going, :, : look - plan.warmup]
        a, b = np.maximum(figures, floors[:, None])
        decision = decide_with_facts(
            evidence(a, b, counts=counts, regression=plan.regression, ok=plan.ok, unpaired=floors > 0),
            never_varies(a, b) & counts,
            alpha=alpha,
            ok_alpha=ok_alpha,
            fractions=fractions,
            look=index,
        )
        # A guard holds up no verdict where it does not look worse than ok.
        means = figures.mean(axis=-1)
        silent = means[1] < plan.ok * np.maximum(means[0], floors)
        decision = decision._replace(ok=decision.ok | (guards & silent))
        found.regression[going], found.improvement[going] = decision.regression, decision.improvement
        found.ok[going], found.look[going] = decision.ok, index
        going[going] = ~decision.settled
    return found


def _share(held: npt.ArrayLike) -> Share:
    held = np.asarray(held)
    count, of = int(held.sum()), int(held.size)
    low, high = wilson(count, of)
    return Share(count=count, of=of, low=low, high=high)
