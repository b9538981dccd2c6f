"""In what two sets of runs differ beside what is compared: configuration, backend, machine, amount of work.

On few cores two parallel runs take cores from each other. Timing decides how many events are coalesced before an
operator handles them, so it can change how often it reconciles and how many requests it sends, not only how fast.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from .comparison_plan import ComparisonPlan, Pair, VariantRun
from .result import OPERATOR, Scalar, TestResult
from .run_metrics import Unit, describe, units_of

_OPERATOR = "operator"
"""Parameter of a test: the name of its operator's definition."""

RUNS_AS = "operator_runs_as"
"""Parameter of a test: ``process`` or ``pod``."""

Facts = tuple[Scalar, ...]
"""Distinct values of a fact in the runs, in order of appearance."""

_MEASURED = frozenset({"api_server_ready_s", "nodes_ready_s", "start_s"})
"""Cluster facts that are durations of its start: they vary from start to start and affect no run."""

Arm = Literal["a", "b"]

ARMS: tuple[Arm, ...] = ("a", "b")

KINDS = ("api", "client_requests", "reconciles")
"""Kinds of metrics that count work."""

LIMIT = 0.10
"""Relative difference from which the work counts as changed."""


class InForce(msgspec.Struct, frozen=True, kw_only=True):
    """Parameters and limits of the runs that were compared, and facts about their clusters, by name."""

    shared: dict[str, Facts] = {}
    """The same in both variants; more than one value where both had all of them."""
    differing: dict[str, tuple[Facts, Facts]] = {}
    """A's and B's; an empty one where that variant has no such fact."""


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


def backend_of(test: TestResult) -> str:
    """Return the backend of a run's cluster; empty if unknown."""
    return str(test.cluster.get("backend", ""))


def unlike(a: Sequence[TestResult], b: Sequence[TestResult]) -> list[str]:
    """Return the differences between the runs of A and of B that prevent a comparison: ``backend: local and kind``."""
    sides = [[_facts(test) for test in side] for side in (a, b)]
    differing = []
    for what in _facts(a[0]) if a else ():
        values = [", ".join(sorted({facts[what] for facts in side})) for side in sides]
        if values[0] != values[1]:
            differing.append(f"{what}: {values[0]} and {values[1]}")
    return differing


def differences(a: Sequence[TestResult], b: Sequence[TestResult]) -> list[str]:
    """Return the parameters, sizes and machines that differ between the runs of A and of B: ``replicas: 100 and 1000``.

    The operator is left out: it is what is compared. A parameter that was not set has no value there.
    """
    differing = in_force(*([_conditions(test) for test in side] for side in (a, b))).differing
    return [
        f"{name}: {' and '.join(', '.join(map(str, values)) or 'not given' for values in sides)}"
        for name, sides in differing.items()
    ]


def _conditions(test: TestResult) -> dict[str, Scalar]:
    machine = test.machine
    sizes = {
        f"{milestone.name} in {phase.name}": milestone.wanted
        for phase in test.phases
        for milestone in phase.milestones
        if milestone.wanted is not None
    }
    parameters = {name: value for name, value in test.parameters.items() if name != _OPERATOR}
    label = f"{machine.fingerprint} ({machine.cores} × {machine.cpu})"
    return {"machine": label, **parameters, **sizes, **test.cluster}


def _facts(test: TestResult) -> dict[str, str]:
    """Return facts that should be equal in compared runs, and those of the machine they ran on."""
    sources = {row.source for phase in test.phases for row in phase.cpu if row.process == OPERATOR}
    clocks = {one.clock for phase in test.phases for one in phase.milestones if one.met and one.clock != "recorder"}
    logged = all(phase.audit_complete for phase in test.phases)
    return {
        "backend": backend_of(test) or "unknown",
        "machine": test.machine.fingerprint,
        "Kubernetes": str(test.cluster.get("kubernetes", "unknown")),
        "nodes": str(test.cluster.get("nodes", "unknown")),
        "the operator as": str(test.parameters.get(RUNS_AS, "process")),
        "its CPU by": "scrapes" if "scrape" in sources else "its clock",
        "API traffic by": "the audit log" if logged else "the operator's own count",
        "milestones by": "the API server's clock" if "server" in clocks else "the watch's clock",
    }


def in_force(a: Sequence[Mapping[str, Scalar]], b: Sequence[Mapping[str, Scalar]]) -> InForce:
    """Return what was in force, from the facts of each run of A and of B."""
    shared: dict[str, Facts] = {}
    differing: dict[str, tuple[Facts, Facts]] = {}
    for name in dict.fromkeys(name for run in (*a, *b) for name in run if name not in _MEASURED):
        sides = _values(a, name), _values(b, name)
        if set(sides[0]) == set(sides[1]):
            shared[name] = sides[0]
        else:
            differing[name] = sides
    return InForce(shared=shared, differing=differing)


def _values(runs: Sequence[Mapping[str, Scalar]], name: str) -> Facts:
    return tuple(dict.fromkeys(run[name] for run in runs if name in run))


def work_alone(pairs: Sequence[Pair], alone: Mapping[str, VariantRun]) -> tuple[WorkAlone, ...]:
    """Return a row for each variant and count that both sides measured.

    ``pairs`` are those that the figures come from, ``alone`` the run of each variant (``a``, ``b``) that had the
    machine to itself, as far as there is one.
    """
    rows = []
    for arm in ARMS:
        lone = alone.get(arm)
        if lone is None or lone.broken:
            continue
        runs = [pair.a if arm == "a" else pair.b for pair in pairs]
        for key in sorted(lone.metrics):
            beside = [run for run in runs if key in run.metrics]
            if key.partition(":")[0] in KINDS and beside:
                rows.append(_row(key, arm, beside, lone))
    return tuple(rows)


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
    sentences = []
    for arm, name in zip(ARMS, (plan.a, plan.b), strict=True):
        rows_of_arm = sorted(
            (row for row in rows if row.arm == arm and row.changed),
            key=lambda row: -abs(row.parallel - row.alone) / (row.alone or 1),
        )
        if rows_of_arm:
            texts = "; ".join(_words(row) for row in rows_of_arm)
            sentences.append(
                f"in parallel the work of {name} differs by more than {100 * LIMIT:.0f} % from that of its one run"
                f" alone: {texts}. To compare runs that have the machine to themselves: --sequential"
            )
    return sentences


def _words(row: WorkAlone) -> str:
    each = " for each object" if row.objects else ""
    percent = f" ({100 * (row.ratio - 1):+.0f} %)".replace("-", "−") if row.ratio is not None else ""
    return f"{describe(row.key)}{each}: {row.parallel:.3g} in parallel, {row.alone:.3g} alone{percent}"
