"""Effect of parallel runs on the work: requests and reconciles of a pair's runs against those of a lone run.

On few cores two parallel runs take cores from each other. Timing decides how many events are coalesced before an
operator handles them, so it can change how often it reconciles and how many requests it sends, not only how fast.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from .comparison_plan import ComparisonPlan, Pair, VariantRun
from .run_metrics import Unit, describe, units_of

Arm = Literal["a", "b"]
ARMS: tuple[Arm, ...] = ("a", "b")

KINDS = ("api", "client_requests", "reconciles")
"""Kinds of metrics that count work."""

LIMIT = 0.10
"""Relative difference from which the work counts as changed."""


class WorkAlone(msgspec.Struct, frozen=True, kw_only=True):
    """Work of a variant in parallel with the other and alone, each divided by the objects of its runs."""

    key: str
    unit: Unit
    arm: Arm
    parallel: float
    """Median of the pairs' runs, per object; the total where ``objects`` is None."""
    alone: float
    """The same of the one run that had the machine to itself."""
    objects: int | None
    """Objects of the lone run; None where no milestone counts any."""

    @property
    def ratio(self) -> float | None:
        """``parallel`` / ``alone``; None where ``alone`` is 0."""
        return self.parallel / self.alone if self.alone else None

    @property
    def changed(self) -> bool:
        """Whether the two differ by more than `LIMIT` of ``alone``."""
        return abs(self.parallel - self.alone) > LIMIT * self.alone


def work_alone(pairs: Sequence[Pair], alone: Mapping[str, VariantRun]) -> tuple[WorkAlone, ...]:
    """Return a row for each variant and count that both sides measured.

    ``pairs`` are those that the figures come from, ``alone`` the run of each variant (``a``, ``b``) that had the
    machine to itself, as far as there is one.
    """
    found = []
    for arm in ARMS:
        lone = alone.get(arm)
        if lone is None or lone.broken:
            continue
        runs = [pair.a if arm == "a" else pair.b for pair in pairs]
        for key in sorted(lone.metrics):
            beside = [run for run in runs if key in run.metrics]
            if key.partition(":")[0] in KINDS and beside:
                found.append(_row(key, arm, beside, lone))
    return tuple(found)


def _row(key: str, arm: Arm, beside: Sequence[VariantRun], lone: VariantRun) -> WorkAlone:
    each = all(run.objects for run in (*beside, lone))
    return WorkAlone(
        key=key,
        unit=units_of(key),
        arm=arm,
        parallel=statistics.median(run.metrics[key] / ((run.objects or 1) if each else 1) for run in beside),
        alone=lone.metrics[key] / ((lone.objects or 1) if each else 1),
        objects=lone.objects if each else None,
    )


def changed_work(plan: ComparisonPlan, rows: Sequence[WorkAlone]) -> list[str]:
    """Return a sentence for each variant whose work changed in parallel, its largest difference first."""
    found = []
    for arm, name in zip(ARMS, (plan.a, plan.b), strict=True):
        rows_of_arm = sorted(
            (row for row in rows if row.arm == arm and row.changed),
            key=lambda row: -abs(row.parallel - row.alone) / (row.alone or 1),
        )
        if rows_of_arm:
            texts = "; ".join(_words(row) for row in rows_of_arm)
            found.append(
                f"in parallel the work of {name} differs by more than {100 * LIMIT:.0f} % from that of its one run"
                f" alone: {texts}. To compare runs that have the machine to themselves: --in-turn"
            )
    return found


def _words(row: WorkAlone) -> str:
    each = " for each object" if row.objects else ""
    percent = f" ({100 * (row.ratio - 1):+.0f} %)".replace("-", "−") if row.ratio is not None else ""
    return f"{describe(row.key)}{each}: {row.parallel:.3g} in parallel, {row.alone:.3g} alone{percent}"
