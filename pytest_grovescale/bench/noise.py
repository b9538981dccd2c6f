"""Recorded run-to-run noise: the pairs of finished comparisons, kept in one file.

It holds two kinds of comparisons: of an operator with itself, whose differences are pure noise, and with a variant
that is slower by a known defect.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np

from ..analysis.comparison import ComparisonPlan, Pair
from ..analysis.statistics.paired import Floats
from ..atomic_write import read_document
from ..errors import UsageError
from ..recording.records import Machine
from .parts import plan_with_gates
from .store import Store, pairs
from .whole_files import write_json

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
