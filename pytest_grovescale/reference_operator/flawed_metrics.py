"""Metric families that a review would reject, each served by its own defect. Values are true, the design is wrong.

They are computed at scrape time from the caches, controllers and counts, except function times and clique lifetimes,
which are observed as they happen.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from . import defects as d
from .caches import Caches
from .controller import Controller
from .counts import Counts
from .defects import Defects
from .histograms import Histogram
from .leaked import Leaked
from .objects import Pod, PodClique
from .step_times import StepTimes

# The observations are seconds; these were chosen for milliseconds.
_COARSE_BUCKETS = (5.0, 50.0, 500.0, 5_000.0, 50_000.0)


class Sources(NamedTuple):
    """The data sources of the families."""

    controllers: Sequence[Controller]
    caches: Caches
    counts: Counts
    steps: StepTimes
    leaked: Leaked


def register(registry: CollectorRegistry, sources: Sources, defects: Defects) -> None:
    """Register the families of the enabled defects; none by default."""
    kinds: Mapping[str, Callable[[Sources], Collector]] = {
        **{name: _Plain.of(make) for name, make in _PLAIN.items()},
        d.COARSE_BUCKETS: CliqueLives,
        d.RESET_ON_SCRAPE: SinceLastScrape,
        d.PHASE_GAUGE: PodPhases,
        d.RESTART_GAUGE: PodsOfThisProcess,
    }
    for name, make in kinds.items():
        if name in defects:
            registry.register(make(sources))


def _sets_by_namespace(sources: Sources) -> Iterable[Metric]:
    family = GaugeMetricFamily(
        "grove_operator_podcliquesets", "PodCliqueSets that there are, by namespace.", labels=["namespace"]
    )
    for namespace, count in sorted(Counter(pcs.namespace for pcs in sources.caches.sets.store).items()):
        family.add_metric([namespace], count)
    yield family


def _ready_by_name(sources: Sources) -> Iterable[Metric]:
    family = GaugeMetricFamily(
        "grove_operator_podclique_ready_replicas", "Ready pods of each PodClique.", labels=["name"]
    )
    for clique in sources.caches.cliques.store:
        family.add_metric([clique.name], clique.status.ready_replicas)
    yield family


def _step_times(sources: Sources) -> Iterable[Metric]:
    family = HistogramMetricFamily(
        "grove_operator_step_duration_seconds", "Length of the steps of a reconciliation.", labels=["function"]
    )
    for function, times in sorted(sources.steps.items()):
        family.add_metric([function], times.cumulative(), times.total)
    yield family


def _set_labels(sources: Sources) -> Iterable[Metric]:
    for pcs in sources.caches.sets.store:
        names = {re.sub(r"\W", "_", f"label_{key}"): value for key, value in pcs.metadata.labels.items()}
        family = GaugeMetricFamily(
            "grove_operator_podcliqueset_labels", "Labels of each PodCliqueSet.", labels=["podcliqueset", *names]
        )
        family.add_metric([pcs.name, *names.values()], 1)
        yield family


def _counted_once_more(sources: Sources) -> Iterable[Metric]:
    done = CounterMetricFamily("grove_operator_reconciliations", "Reconciliations that ended.", labels=["controller"])
    again = CounterMetricFamily("grove_operator_requeues", "Reconciliations asked for again.", labels=["controller"])
    current = GaugeMetricFamily(
        "grove_operator_reconciliations_in_flight", "Reconciliations that have not ended.", labels=["controller"]
    )
    for controller in sources.controllers:
        results = controller.results
        done.add_metric([controller.name], sum(results.values()))
        again.add_metric([controller.name], results["requeue"] + results["requeue_after"])
        current.add_metric([controller.name], controller.active)
    yield from (done, again, current)


def _badly_named(sources: Sources) -> Iterable[Metric]:
    seconds = sum(controller.times.total for controller in sources.controllers)
    yield GaugeMetricFamily("grove_operator_reconcileTime_ms", "", value=seconds * 1000)
    yield GaugeMetricFamily("grove_operator_pods_gauge", "", value=len(sources.caches.pods.store))


def _versions_kept(sources: Sources) -> Iterable[Metric]:
    family = GaugeMetricFamily(
        "grove_operator_object_versions", "Versions seen of each object, since the start.", labels=["kind", "name"]
    )
    for key, versions in sources.leaked.versions().items():
        family.add_metric(key, versions)
    yield family


def _counted_up(sources: Sources) -> Iterable[Metric]:
    yield GaugeMetricFamily("grove_operator_managed_pods", "Pods that are managed.", value=sources.counts.pods_created)


def _still_to_come(sources: Sources) -> Iterable[Metric]:
    there, made = len(sources.caches.pods.store), sources.counts.pods_created
    yield GaugeMetricFamily("grove_operator_pending_pods", "Pods that are still to come.", value=there - made)


class PodsOfThisProcess(Collector):
    """Pods that this process has created, without those that went since: what was there before is not in it."""

    def __init__(self, sources: Sources) -> None:
        self._counts = sources.counts
        self._gone = 0
        sources.caches.pods.store.on_change(self._changed)

    def _changed(self, old: Pod | None, new: Pod | None) -> None:
        self._gone += new is None

    def collect(self) -> Iterable[Metric]:
        pods = max(0, self._counts.pods_created - self._gone)
        yield GaugeMetricFamily("grove_operator_tracked_pods", "Pods that are tracked.", value=pods)


class PodPhases(Collector):
    """Pods by phase: each is counted in a phase when it enters it, and leaves only the last one when it goes."""

    def __init__(self, sources: Sources) -> None:
        self._pods: Counter[str] = Counter()
        sources.caches.pods.store.on_change(self._changed)

    def _changed(self, old: Pod | None, new: Pod | None) -> None:
        if new is not None and (old is None or _phase(old) != _phase(new)):
            self._pods[_phase(new)] += 1
        elif new is None and old is not None:
            self._pods[_phase(old)] -= 1

    def collect(self) -> Iterable[Metric]:
        family = GaugeMetricFamily("grove_operator_pods", "Pods by phase.", labels=["phase"])
        for phase in ("pending", "scheduled", "ready"):
            family.add_metric([phase], self._pods[phase])
        yield family


def _phase(pod: Pod) -> str:
    return "ready" if pod.ready else "scheduled" if pod.scheduled else "pending"


_PLAIN: Mapping[str, Callable[[Sources], Iterable[Metric]]] = {
    d.NAMESPACE_LABEL: _sets_by_namespace,
    d.NAME_LABEL: _ready_by_name,
    d.FUNCTION_NAME_LABEL: _step_times,
    d.RUN_ID_METRIC: _set_labels,
    d.BUILTIN_DUPLICATE: _counted_once_more,
    d.BAD_NAMES: _badly_named,
    d.LEAK: _versions_kept,
    d.GAUGE_DRIFT: _counted_up,
    d.BELOW_ZERO: _still_to_come,
}


class _Plain(Collector):
    """Families computed from the current state."""

    def __init__(self, make: Callable[[Sources], Iterable[Metric]], sources: Sources) -> None:
        self._make = make
        self._sources = sources

    @classmethod
    def of(cls, make: Callable[[Sources], Iterable[Metric]]) -> Callable[[Sources], Collector]:
        return lambda sources: cls(make, sources)

    def collect(self) -> Iterable[Metric]:
        return self._make(self._sources)


class CliqueLives(Collector):
    """How long PodCliques took to become available, from when they were first seen."""

    def __init__(self, sources: Sources) -> None:
        self._times = Histogram(_COARSE_BUCKETS)
        self._first_seen: dict[str, float] = {}
        sources.caches.cliques.store.on_change(self._changed)

    def _changed(self, old: PodClique | None, new: PodClique | None) -> None:
        if new is None:
            if old is not None:
                self._first_seen.pop(old.uid, None)
        elif old is None:
            self._first_seen[new.uid] = time.perf_counter()
        elif new.available and new.uid in self._first_seen:
            self._times.observe(time.perf_counter() - self._first_seen.pop(new.uid))

    def collect(self) -> Iterable[Metric]:
        family = HistogramMetricFamily(
            "grove_operator_podclique_startup_time_seconds", "Time from a PodClique's creation until it is available."
        )
        family.add_metric([], self._times.cumulative(), self._times.total)
        yield family


class SinceLastScrape(Collector):
    """Pods created since the last scrape, as a counter: each scrape resets it for all other readers."""

    def __init__(self, sources: Sources) -> None:
        self._counts = sources.counts
        self._reported = 0

    def collect(self) -> Iterable[Metric]:
        total = self._counts.pods_created
        yield CounterMetricFamily("grove_operator_pods_created", "Pods created.", value=total - self._reported)
        self._reported = total
