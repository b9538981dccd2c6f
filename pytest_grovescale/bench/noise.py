"""Run-to-run noise as it was recorded: the pairs of finished comparisons, in one file that is kept.

It holds two kinds of comparisons: of an operator with itself, whose differences are noise and nothing else, and with a
variant that is slower by a known defect.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np

from ..analysis.comparison import ComparisonPlan, Pair
from ..analysis.statistics.paired import Floats
from ..errors import UsageError
from ..recording.records import Machine
from ..whole_files import read_document
from .parts import plan_with_gates
from .store import Store, pairs
from .whole_files import write_json

SCHEMA_VERSION = 1

RECORDED = Path(__file__).with_name("recorded_noise.json")
"""The noise that comes with the package."""


class NoisePair(msgspec.Struct, frozen=True, kw_only=True):
    """What a pair measured, by metric: those that both runs have."""

    a: dict[str, float]
    b: dict[str, float]
    first: Literal["a", "b"]
    contention: float | None = None
    """Share of the cores that programs outside the comparison took, steal included; None: not measured."""


class NoiseBlock(msgspec.Struct, frozen=True, kw_only=True):
    """One comparison: pairs of the same two clusters, one after the other, without the warm-up."""

    part: str
    """``noop`` or ``deploy``."""
    plan: ComparisonPlan
    """With the gated metrics by name, also where they are the default ones."""
    pairs: tuple[NoisePair, ...]
    started: str
    """ISO 8601, UTC."""


class Noise(msgspec.Struct, frozen=True, kw_only=True):
    schema_version: int = SCHEMA_VERSION
    how: str
    """How it was recorded, in words: commands, workload, what else the machine did."""
    machine: Machine
    facts: dict[str, str] = {}
    """The cluster's, and the workload's parameters."""
    blocks: tuple[NoiseBlock, ...]

    def of(self, part: str, *, alike: bool) -> tuple[NoiseBlock, ...]:
        """Return the blocks of a part: of an operator with itself, or of two that differ."""
        return tuple(block for block in self.blocks if block.part == part and bool(block.plan.differs) != alike)

    @property
    def parts(self) -> tuple[str, ...]:
        return tuple(sorted({block.part for block in self.blocks}))


def block_of(part: str, plan: ComparisonPlan, recorded: Sequence[Pair], *, started: str) -> NoiseBlock:
    """Return a finished comparison's pairs as noise; pairs with a broken run tell nothing and are left out."""
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
    """Return the noise of comparisons by their folders. Raises UsageError where they are not from one machine, or one
    has discarded pairs: what is left of it is not what the machine did."""
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
            # A part that was not begun, or has its warm-up only, is no noise yet.
            blocks += [block] if block.pairs else []
    if len(machines) != 1:
        raise UsageError(
            f"the {len(folders)} comparisons come from {len(machines)} machines",
            next_step="Name the folders of finished comparisons, all of one machine.",
        )
    return Noise(how=how, machine=next(iter(machines.values())), facts=facts, blocks=tuple(blocks))


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """How much a metric varies in what was recorded, from one comparison to another."""

    metric: str
    runs: tuple[float, ...]
    """Of the runs of one variant in one comparison: standard deviation by mean, smallest first."""
    ratios: tuple[float, ...]
    """Of the ratios of one comparison's pairs: standard deviation of their logarithms, smallest first."""


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
