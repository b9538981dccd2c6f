"""Metrics of one run for comparisons of two runs, or of runs of several sizes.

A metric has a key: ``cpu:deploy``, ``milestone:deploy/pods-ready``, ``noop_cpu``. Less is better for all of them.
Metrics that a run did not measure, or measured in part, are left out; they are never zero.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

from ..errors import NotMeasuredError
from . import figures
from .idle_baseline import over_idle, reconciles_of, refuse_profiled
from .phase_result import Category, PhaseResult
from .result import OPERATOR, TestResult

Unit = Literal["s", "bytes", "requests", "writes", "reconciles", "series"]

COUNTS: frozenset[Unit] = frozenset({"requests", "writes", "reconciles", "series"})
"""Units of counts: the same work gives the same figure, often exactly."""

WINDOW = re.compile(r"noop-\d+(-repeat-\d+)?")
"""Names of a no-op comparison's windows, as `window_name` makes them."""

_UNITS: dict[str, Unit] = {
    "wall": "s",
    "milestone": "s",
    "cpu": "s",
    "api": "requests",
    "client_requests": "requests",
    "verb": "requests",
    "events": "requests",
    "writes": "writes",
    "reconciles": "reconciles",
    "rss": "bytes",
    "series": "series",
    "noop_cpu": "s",
    "noop_cpu_per_reconcile": "s",
    "noop_writes": "writes",
    "noop_requests": "requests",
    "noop_reconciles": "reconciles",
    "idle_cpu": "s",
    "idle_requests": "requests",
    "idle_reconciles": "reconciles",
}

_WORDS = {
    "wall": "wall time of {}",
    "milestone": "{}",
    "cpu": "CPU of the operator, {}",
    "api": "requests by the operator, {}",
    "client_requests": "requests by the operator's own count, {}",
    "verb": "requests by the operator, {}",
    "events": "Events by the operator, {}",
    "writes": "object writes by the operator, {}",
    "reconciles": "reconciles, {}",
    "rss": "peak memory of the operator, {}",
    "series": "metric series of the operator, {}",
    "noop_cpu": "CPU of the operator per no-op trigger, idle subtracted",
    "noop_cpu_per_reconcile": "CPU of the operator per no-op reconcile, idle subtracted",
    "noop_writes": "object writes by the operator per no-op trigger",
    "noop_requests": "requests by the operator per no-op trigger",
    "noop_reconciles": "reconciles per no-op trigger",
    "idle_cpu": "CPU of the operator a second while idle, at least 5 ms",
    "idle_requests": "requests by the operator while idle",
    "idle_reconciles": "reconciles while idle",
}

_VERBS = ("get", "list", "create", "update", "patch", "delete")
"""Verbs with a metric of their own. Deletions of collections are ``delete``; watches depend on time, not on work."""

_FEW = 20
"""Requests of a verb, or Events, below which they are not gated on: one more is a large share of few."""

_LITTLE_CPU = 0.5
"""Share of the CPU of the phase that takes most of it, below which a phase's own is a guard: it repeats less well. Of
the bundled operator, the ratio of a pair's deletions, which take a third of what the deployments do, had a standard
deviation of 9 %, that of its deployments one of 4 %."""

_IDLE_FLOOR_S = 0.005
"""CPU seconds a second below which an idle operator costs nothing that matters: less counts as that much."""

_FEW_OF_PHASE, _FEW_PER_TRIGGER = 5.0, 0.1
"""Counts of a phase, and per no-op trigger, that a comparison by counts takes for as many: one request more or fewer is
a large share of two."""

OF_NOOP = ("noop_", "idle_")
"""Beginnings of the keys that no-op windows measure: what a trigger costs, and their idle twins."""

GUARDS = ("reconciles", "verb", "events", "noop_reconciles", "idle_cpu", "idle_requests", "idle_reconciles")
"""Kinds of metrics that are gated on as guards by default: what falls together before an operator gets to it, and what
a nearly idle process uses, vary so much from run to run that they would rarely be known to be ok. So does the CPU of a
phase that has little of it (`_LITTLE_CPU`)."""


class Gates(NamedTuple):
    """The metrics that a verdict is about."""

    gated: tuple[str, ...]
    """All of them."""
    guards: tuple[str, ...]
    """Those of them that call a regression, but hold up no verdict unless they look worse."""


def units_of(key: str) -> Unit:
    """Return the unit of a metric. Raises KeyError for an unknown metric."""
    return _UNITS[key.partition(":")[0]]


def describe(key: str) -> str:
    """Return a metric in words: ``CPU of the operator, deploy``. Raises KeyError for an unknown metric."""
    kind, _, what = key.partition(":")
    return _WORDS[kind].format(what.replace("/", ": "))


def floor_of(key: str) -> float:
    """Return the figure that fewer of a count are taken for in a comparison by counts; 0 for what is no count."""
    if units_of(key) not in COUNTS:
        return 0.0
    return _FEW_PER_TRIGGER if key.startswith("noop_") else _FEW_OF_PHASE


def phase_of(key: str) -> str:
    """Return the phase of a metric; empty for those of no-op triggers."""
    return key.partition(":")[2].partition("/")[0]


def is_wall_time(key: str) -> bool:
    """Return whether a metric is a wall time, which contention inflates."""
    return key.startswith(("wall:", "milestone:"))


def default_gates(largest: Mapping[str, float], *, by_counts: bool = False) -> Gates:
    """Return the metrics to gate on by default: CPU and counts, which do not depend on other users of the machine.

    ``by_counts``: counts only, and those of a phase with fewer than twenty requests are guards.

    CPU, requests and reconciles of the phases that have work to do, requests by verb and Events where there are enough
    of them, and what a no-op trigger and an idle operator cost. Where no audit log was read, requests are the
    operator's own count. ``largest``: key → largest figure, of runs that decide nothing themselves.
    """
    worked = sorted(phase_of(key) for key in largest if key.startswith("wall:"))
    gated = [f"{kind}:{phase}" for kind in ("cpu", "api", "client_requests", "reconciles") for phase in worked]
    many = [key for phase in worked for key in (*(f"verb:{phase}/{verb}" for verb in _VERBS), f"events:{phase}")]
    gated += [key for key in many if largest.get(key, 0.0) >= _FEW]
    of_noop = ("noop_cpu", "noop_writes", "noop_requests", "noop_reconciles")
    of_idle = ("idle_cpu", "idle_requests", "idle_reconciles")
    known = tuple(
        key for key in (*gated, *of_noop, *of_idle) if key in largest and (units_of(key) in COUNTS or not by_counts)
    )
    few = {key for key in known if by_counts and key.startswith(("api:", "client_requests:")) and largest[key] < _FEW}
    most = max((largest[key] for key in known if key.startswith("cpu:")), default=0.0)
    few |= {key for key in known if key.startswith("cpu:") and largest[key] < _LITTLE_CPU * most}
    return Gates(known, tuple(key for key in known if key in few or key.partition(":")[0] in GUARDS))


def largest_of(runs: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Return key → largest figure of some runs."""
    found: dict[str, float] = {}
    for metrics in runs:
        for key, figure in metrics.items():
            found[key] = max(figure, found.get(key, figure))
    return found


def metrics_of(test: TestResult) -> dict[str, float]:
    """Return a run's metrics by key.

    Seconds, bytes and counts of each phase that passed; those of no-op triggers are over all windows together. Windows
    of a no-op comparison and idle twins have no metrics of their own: see `windows_of`. A run with profilers has no CPU
    times: they would include the profilers' cost.
    """
    twins = {phase.idle_twin for phase in test.phases}
    metrics: dict[str, float] = {}
    for phase in test.phases:
        if phase.outcome == "passed" and phase.name not in twins and not WINDOW.fullmatch(phase.name):
            metrics |= _of_phase(phase, profiled=test.profiled)
    triggered = [phase for phase in test.phases if phase.triggers and phase.outcome == "passed"]
    return metrics | _noop(test, triggered)


def window_name(number: int, repeat: int = 0) -> str:
    """Return the phase name of a no-op comparison's window.

    A repeat of a contended window has a name of its own, since both are in one recording.
    """
    return f"noop-{number}" + (f"-repeat-{repeat}" if repeat else "")


def windows_of(test: TestResult) -> list[dict[str, float]]:
    """Return the no-op metrics of each window of a no-op comparison, in their order.

    Windows are phases named by `window_name`, each with its idle twin. A failed one is an empty dict, so that the
    windows of two runs stay aligned.
    """
    windows = [phase for phase in test.phases if WINDOW.fullmatch(phase.name)]
    return [_noop(test, [phase] if phase.outcome == "passed" else []) for phase in windows]


def saturated_phases(test: TestResult) -> tuple[str, ...]:
    """Return the phases in which the machine was saturated: their wall times reflect the machine, not the operator."""
    return tuple(p.name for p in test.phases if p.saturation is not None and p.saturation.saturated)


def _of_phase(phase: PhaseResult, *, profiled: bool) -> dict[str, float]:
    # A phase without a milestone has a fixed length.
    metrics = {f"wall:{phase.name}": phase.seconds} if phase.milestones else {}
    for milestone in phase.milestones:
        if milestone.met and milestone.seconds is not None:
            metrics[f"milestone:{phase.name}/{milestone.name}"] = milestone.seconds
    sources: dict[str, Callable[[], float]] = {
        "cpu": lambda: figures.cpu(phase, OPERATOR).seconds,
        "rss": lambda: figures.cpu(phase, OPERATOR).peak_rss_bytes,
        "api": lambda: _requests(phase),
        "writes": lambda: _object_writes(phase),
        "reconciles": lambda: reconciles_of(phase),
    }
    for verb in _VERBS:
        sources[f"verb/{verb}"] = functools.partial(_of_verb, phase, verb)
    sources["events"] = lambda: _of_category(phase, "event")
    if phase.traffic_source == "metrics":
        sources["client_requests"] = lambda: figures.client_requests(phase).requests
    if profiled:
        # It includes the profiler's cost.
        del sources["cpu"]
    for name, source in sources.items():
        kind, _, what = name.partition("/")
        metrics |= _measured(f"{kind}:{phase.name}" + (f"/{what}" if what else ""), source)
    if phase.series is not None:
        metrics[f"series:{phase.name}"] = phase.series
    return metrics


def _measured(key: str, source: Callable[[], float]) -> dict[str, float]:
    try:
        return {key: float(source())}
    except NotMeasuredError:
        return {}


def _noop(test: TestResult, windows: Sequence[PhaseResult]) -> dict[str, float]:
    triggers = sum(phase.triggers for phase in windows)
    if not triggers:
        return {}
    sources: dict[str, Callable[[], float]] = {
        "noop_cpu": lambda: sum(over_idle(test, phase).difference_s for phase in windows) / triggers,
        "noop_writes": lambda: sum(_object_writes(phase) for phase in windows) / triggers,
        "noop_requests": lambda: sum(_requests(phase) for phase in windows) / triggers,
        "noop_reconciles": lambda: sum(reconciles_of(phase) for phase in windows) / triggers,
    }
    twins = [twin for twin in test.phases if twin.outcome == "passed" and twin.name in {of.idle_twin for of in windows}]
    if twins:
        sources |= {
            "idle_cpu": lambda: _idle_cpu(test, twins),
            "idle_requests": lambda: sum(_requests(twin) for twin in twins),
            "idle_reconciles": lambda: sum(reconciles_of(twin) for twin in twins),
        }
    metrics: dict[str, float] = {}
    for key, source in sources.items():
        metrics |= _measured(key, source)
    if "noop_cpu" in metrics and metrics.get("noop_reconciles"):
        metrics["noop_cpu_per_reconcile"] = metrics["noop_cpu"] / metrics["noop_reconciles"]
    return metrics


def _requests(phase: PhaseResult) -> int:
    """Return the operator's requests for objects and Events; Leases and reviews depend on time, not on work."""
    rows = figures.api(phase, OPERATOR).rows
    return sum(row.count for row in rows if row.category in ("object", "event"))


def _idle_cpu(test: TestResult, twins: Sequence[PhaseResult]) -> float:
    """Return CPU seconds a second of idle twins, at least `_IDLE_FLOOR_S`. Raises NotMeasuredError."""
    refuse_profiled(test)
    used = [figures.cpu(twin, OPERATOR) for twin in twins]
    return max(_IDLE_FLOOR_S, sum(one.seconds for one in used) / sum(one.result.window_s for one in used))


def _of_category(phase: PhaseResult, category: Category) -> int:
    return sum(row.count for row in figures.api(phase, OPERATOR).rows if row.category == category)


def _of_verb(phase: PhaseResult, verb: str) -> int:
    """Return the operator's requests for objects with a verb; deletions of collections with the single ones."""
    by_verb = figures.api(phase, OPERATOR).by_verb
    return by_verb.get(verb, 0) + (by_verb.get("deletecollection", 0) if verb == "delete" else 0)


def _object_writes(phase: PhaseResult) -> int:
    if phase.traffic_source == "metrics" and figures.wrote_nothing(phase):
        return 0
    return figures.api(phase, OPERATOR).object_writes
