"""The counters by which operators count their reconciles: those that libraries serve, and one that a definition names.

controller-runtime
    ``controller_runtime_reconcile_total{controller,result}``, with all series from the start
    (https://book.kubebuilder.io/reference/metrics-reference).
Java Operator SDK
    with ``MicrometerMetricsV2`` ``reconciliations_started_total{controller_name}``; with the older
    ``MicrometerMetrics`` ``operator_sdk_reconciliations_started_total{kind,…}``. Both count retries, and have their
    results in other counters
    (https://javaoperatorsdk.io/docs/documentation/observability; names as Micrometer writes them for Prometheus).
kube-rs
    the library has none. That of its reference controller is ``doc_ctrl_reconcile_runs_total``, without labels
    (https://github.com/kube-rs/controller-rs, src/metrics.rs), and operators that follow it have their own name in
    front, which counts as the controller's.
client-go
    ``workqueue_work_duration_seconds_count{name}``: items that a worker has taken and given back, for operators that
    are built with work queues alone, as Kubernetes' own controllers.
kopf
    serves no metrics (https://github.com/zalando-incubator/kopf/issues/289; nothing in kopf 1.45): an operator has to
    count by itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ..exposition.families import parse
from ..recording.records import ReconcileCounter
from .controller_result import ReconcileSource

RECONCILES = "controller_runtime_reconcile_total"
WORK_ITEMS = "workqueue_work_duration_seconds_count"
_RUNS = "_reconcile_runs_total"

# Best first: an operator built with controller-runtime has work queues too, and only the first has results.
_WITH_LABELS: tuple[tuple[ReconcileSource, str, str, str], ...] = (
    ("controller-runtime", RECONCILES, "controller", "result"),
    ("java-operator-sdk", "reconciliations_started_total", "controller_name", ""),
    ("java-operator-sdk", "operator_sdk_reconciliations_started_total", "kind", ""),
)
_NAMES = {WORK_ITEMS, *(name for _, name, _, _ in _WITH_LABELS)}
_QUEUES = ReconcileCounter(counter=WORK_ITEMS, controller_label="name")

# Work queues of k8s.io/apiserver (pkg/server/dynamiccertificates, pkg/authentication/request/headerrequest), in every
# operator that serves with its help. They check certificates once a minute: that is no reconcile, and counting it would
# falsely prove that the operator handled a trigger.
LIBRARY_QUEUES = (
    "DynamicCABundle-",
    "DynamicConfigMapCABundle-",
    "DynamicServingCertificateController",
    "RequestHeaderAuthRequestController",
)


class Counted(NamedTuple):
    """What a series of a counter counts."""

    controller: str
    result: str
    """Empty where the counter does not have it."""
    source: ReconcileSource


def is_kept(name: str, declared: ReconcileCounter | None) -> bool:
    """Return whether a family may count reconciles."""
    return name in _NAMES or name.endswith(_RUNS) or (declared is not None and name == declared.counter)


def counted_by(served: Iterable[str], declared: ReconcileCounter | None = None) -> dict[str, Counted]:
    """Return the series that count reconciles, by the best counter that is served.

    ``declared``: the counter that the operator's definition names, which is then the only one.
    """
    by_family: dict[str, list[str]] = {}
    for series in served:
        name = series.partition("{")[0]
        if is_kept(name, declared):
            by_family.setdefault(name, []).append(series)
    if declared is not None:
        return _counted(by_family.get(declared.counter, ()), declared, "declared")
    for source, name, controller, result in _WITH_LABELS:
        counter = ReconcileCounter(counter=name, controller_label=controller, result_label=result)
        if found := _counted(by_family.get(name, ()), counter, source):
            return found
    runs: dict[str, Counted] = {}
    for name, family in by_family.items():
        if name.endswith(_RUNS):
            counter = ReconcileCounter(counter=name, controller=name.removesuffix(_RUNS))
            runs |= _counted(family, counter, "kube-rs")
    return runs or _counted(by_family.get(WORK_ITEMS, ()), _QUEUES, "work-queue")


def counters_of(served: Iterable[str], declared: ReconcileCounter | None = None) -> dict[str, str]:
    """Return series → controller, as `counted_by`."""
    return {series: counted.controller for series, counted in counted_by(served, declared).items()}


_OF_FAILURES = re.compile(r"\w*reconcil\w*_(errors?|failures?|failed)(_\w+)?_total")


def failures_of(served: Iterable[str], counted: Mapping[str, Counted]) -> dict[str, str]:
    """Return series → controller of counters of failed reconciles, for an operator whose counter has no results.

    One that is named after both, as ``shop_reconcile_errors_total``, and has the controller in a label, or in front.
    """
    controllers = {one.controller for one in counted.values()}
    if not controllers or any(one.result for one in counted.values()):
        return {}
    found = {}
    for series in served:
        name = series.partition("{")[0]
        if series in counted or not _OF_FAILURES.fullmatch(name):
            continue
        named = [value for value in parse(series).labels.values() if value in controllers]
        named += [one for one in controllers if name.startswith(f"{one}_")]
        if named:
            found[series] = named[0]
    return found


def controllers_of(served: Mapping[str, str], declared: ReconcileCounter | None = None) -> set[str]:
    """Return all controllers of an operator, by series → value that it serves; empty where more may come.

    controller-runtime serves all its series from the start. Of another counter a series at 0 shows that it does.
    """
    counted = counted_by(served, declared)
    complete = any(one.source == "controller-runtime" or float(served[series]) == 0 for series, one in counted.items())
    return {one.controller for one in counted.values()} if complete else set()


def _counted(family: Iterable[str], counter: ReconcileCounter, source: ReconcileSource) -> dict[str, Counted]:
    found = {}
    for series in family:
        labels = parse(series).labels
        controller = labels.get(counter.controller_label, "") if counter.controller_label else counter.controller
        if source != "work-queue" or not controller.startswith(LIBRARY_QUEUES):
            found[series] = Counted(controller, labels.get(counter.result_label, ""), source)
    return found
