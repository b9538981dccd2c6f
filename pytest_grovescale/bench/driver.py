"""The driver of a comparison or sweep: its plan, its store, the lock on the machine, and what each run starts with."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from ..analysis.comparison import VariantRun
from ..analysis.result import TestResult
from ..checks.scaling import left_to_sweep
from ..cluster import handle
from ..cluster.backend import backend
from ..cluster.definition import ClusterDefinition, load_definition
from ..cluster.handle import Cluster
from ..cluster.machine_lock import MachineLock
from ..operator.definition import load
from ..operator.pods.definition import refuse_where_none_run
from .screen import Screen
from .store import Plan, Sample, Slot, Store
from .target_test import Subject, cluster_options
from .variant import Variant

RUN_OPTIONS = (
    "--grovescale",
    "-p",
    "no:cacheprovider",
    # Overrides the project's own options: one process, which the driver communicates with, and only measurements.
    "-n",
    "0",
    "--grovescale-start=test",
    "--grovescale-budgets=off",
    # Of two parallel runs each would wait for the other to be quiet; a comparison repeats its contended pairs.
    "--grovescale-wait-quiet=0s",
    "--grovescale-save=",
    "--grovescale-compare=",
    "--grovescale-history=",
)
"""Arguments of every measuring pytest process."""


class Bench(NamedTuple):
    """The driver of one comparison or sweep: its plan, its store, and the lock on the machine."""

    store: Store
    plan: Plan
    lock: MachineLock
    screen: Screen
    checkouts: Mapping[str, Path] = {}
    """Arm → folder of its revision; empty where the arms are not revisions."""

    def arguments(self, arm: str, reports: Path, *, hold_s: float, profile: str = "off") -> list[str]:
        """Return pytest's arguments for one run of an arm; ``profile``: as ``--grovescale-profile``."""
        variant = self.plan.arms[arm]
        operator = Path(variant.operator)
        inside = []
        if (checkout := self.checkouts.get(arm)) is not None:
            # Only the operator is taken from the revision: pytest, the test and its imports are the working tree's.
            operator = checkout / operator
            inside = [f"--grovescale-workdir={checkout}"]
        return [
            *RUN_OPTIONS,
            f"--grovescale-profile={profile}",
            f"--grovescale-operator={operator}",
            *inside,
            f"--grovescale-reports={reports}",
            f"--grovescale-hold={hold_s:g}s",
            *(f"--grovescale-set={name}={value}" for name, value in variant.values.items()),
            *(f"--grovescale-param={name}={value}" for name, value in variant.parameters.items()),
            self.plan.subject.argument,
        ]

    def keep(self, slot: Slot, began: float, test: TestResult, run: VariantRun) -> Sample:
        """Save the sample of a slot; ``began``: its start, by the monotonic clock."""
        sample = Sample(
            slot=slot,
            run=run,
            seconds=time.monotonic() - began,
            machine=test.machine,
            facts=dict(test.cluster),
            held_to=left_to_sweep(test.declared),
            parameters=dict(test.parameters),
        )
        self.store.keep(sample)
        return sample


def cluster_definition(subject: Subject) -> ClusterDefinition:
    """Return the cluster that a test requests. Raises DefinitionError for an invalid file."""
    definition = load_definition(subject.cluster, base=(Path(subject.path).parent, Path.cwd()))
    if subject.kubernetes:
        definition = definition.with_version(subject.kubernetes)
    return definition.with_nodes(subject.nodes) if subject.nodes else definition


def refuse_unfit(subject: Subject, arms: Iterable[Variant]) -> None:
    """Raise UsageError for operators that a test's cluster cannot run, and for a cluster that may not be used.

    Operators of a revision do not exist yet and are not checked. Raises ClusterError for a missing context.
    """
    if handle.is_running(subject.cluster):
        return
    definition = cluster_definition(subject)
    backend(definition.backend).permitted(definition, allowed_contexts=subject.allowed_contexts)
    for arm in arms:
        if not arm.revision:
            refuse_where_none_run(load(arm.operator, values=arm.values), definition.backend)


def is_shared(subject: Subject) -> bool:
    """Return whether a test's cluster is one that is there: two runs cannot have one each."""
    return handle.is_running(subject.cluster) or backend(cluster_definition(subject).backend).foreign


def shared_cluster(bench: Bench) -> Cluster:
    """Return the cluster that all runs use one after the other: the running one that the test names, or a new one."""
    subject = bench.plan.subject
    if handle.is_running(subject.cluster):
        return handle.join(subject.cluster, progress=bench.screen.say)
    return new_cluster(bench, bench.store.folder.name)


def new_cluster(bench: Bench, name: str) -> Cluster:
    """Start a cluster as the test requests, under this name."""
    subject = bench.plan.subject
    return handle.acquire(
        cluster_definition(subject), name=name, allowed_contexts=subject.allowed_contexts, progress=bench.screen.say
    )


def own_cluster_arguments(subject: Subject) -> Sequence[str]:
    """Return the options by which a run starts its own cluster, as the test requests."""
    return cluster_options(
        subject.cluster,
        kubernetes=subject.kubernetes,
        nodes=subject.nodes,
        allowed_contexts=subject.allowed_contexts,
    )
