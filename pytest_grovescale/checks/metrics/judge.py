"""From a check of metrics, a result and the scrapes behind it to what it found."""

from __future__ import annotations

from ...analysis.metrics.history import MetricsHistory
from ...analysis.result import TestResult
from ..finding import Finding
from . import (
    blocked,
    buckets,
    cardinality,
    coexistence,
    duplicates,
    each_pod,
    errors,
    functions,
    growth,
    initialised,
    invariants,
    names,
    resets,
)
from .functions import Profiles
from .shape import (
    AnyMetricCheck,
    Coexistence,
    ConflictRate,
    CounterResets,
    ErrorRatio,
    FunctionNameLabels,
    HistogramBuckets,
    Initialised,
    Invariant,
    Labels,
    MetricNames,
    NoBlockedWorkers,
    NoBuiltinDuplicates,
    Series,
    SeriesGrowth,
)


def judge(check: AnyMetricCheck, test: TestResult, metrics: MetricsHistory, profiles: Profiles) -> Finding:
    """Return what a check found: of a target that is several pods, the worst. Raises NotMeasuredError."""
    if pods := each_pod.pods_of(check, metrics):
        return each_pod.judge(check, pods, lambda one: _judge(one, test, metrics, profiles))
    return _judge(check, test, metrics, profiles)


def _judge(check: AnyMetricCheck, test: TestResult, metrics: MetricsHistory, profiles: Profiles) -> Finding:
    match check:
        case Series():
            return cardinality.series(check, metrics)
        case SeriesGrowth():
            return growth.judge(check, test, metrics)
        case Labels():
            return cardinality.labels(check, metrics)
        case Initialised():
            return initialised.judge(check, metrics)
        case MetricNames():
            return names.judge(check, metrics)
        case HistogramBuckets():
            return buckets.judge(check, metrics)
        case FunctionNameLabels():
            return functions.judge(check, test.phases, metrics, profiles)
        case NoBuiltinDuplicates():
            return duplicates.judge(check, metrics)
        case Invariant():
            return invariants.judge(check, metrics)
        case CounterResets():
            return resets.judge(check, metrics)
        case Coexistence():
            return coexistence.judge(check, metrics)
        case ConflictRate():
            return errors.conflict_rate(check, test, metrics)
        case ErrorRatio():
            return errors.error_ratio(check, test, metrics)
        case NoBlockedWorkers():
            return blocked.judge(check, test, metrics)
