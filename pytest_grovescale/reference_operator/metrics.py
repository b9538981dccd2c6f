"""/metrics: the families of a controller-runtime manager that this operator has values for, and two of its own.

The reconcilers count in plain integers; the families are built at scrape time. All predictable series exist from the
start, with 0: a rate over a series that appears late misses its first increase.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from .api_client import ERROR_TYPES, ApiClient
from .controller import RESULTS, Controller
from .defects import LAZY_SERIES, NO_DEFECTS, Defects

CONTENT_TYPE = CONTENT_TYPE_LATEST
TARGET_KINDS = ("PodCliqueSet", "PodClique", "PodCliqueScalingGroup")
"""Values of the label ``target_kind``."""

_CONTROLLER = ["controller"]
_QUEUE = ["name", "controller"]


class OperatorCollector(Collector):
    """Reads the controllers, their queues and the API client."""

    def __init__(self, controllers: Sequence[Controller], api: ApiClient, defects: Defects) -> None:
        self._controllers = controllers
        self._api = api
        # Defect lazy-series: a series appears with its first event.
        self._lazy = LAZY_SERIES in defects

    def collect(self) -> Iterable[Metric]:
        yield from self._controller_runtime()
        yield from self._work_queues()
        yield self._requests()
        yield from self._request_times()
        yield self._status_conflicts()
        yield self._reconcile_errors()

    def _controller_runtime(self) -> Iterator[Metric]:
        results = CounterMetricFamily(
            "controller_runtime_reconcile",
            "Reconciliations per controller, by result.",
            labels=["controller", "result"],
        )
        errors = CounterMetricFamily(
            "controller_runtime_reconcile_errors", "Reconciliations that failed, per controller.", labels=_CONTROLLER
        )
        terminal = CounterMetricFamily(
            "controller_runtime_terminal_reconcile_errors",
            "Reconciliations that failed and are not retried, per controller.",
            labels=_CONTROLLER,
        )
        times = HistogramMetricFamily(
            "controller_runtime_reconcile_time_seconds",
            "Length of a reconciliation, per controller.",
            labels=_CONTROLLER,
        )
        active = GaugeMetricFamily(
            "controller_runtime_active_workers", "Workers that are reconciling, per controller.", labels=_CONTROLLER
        )
        limit = GaugeMetricFamily(
            "controller_runtime_max_concurrent_reconciles", "Workers there are, per controller.", labels=_CONTROLLER
        )
        for controller in self._controllers:
            label = [controller.name]
            for result in RESULTS:
                results.add_metric([controller.name, result], controller.results[result])
            errors.add_metric(label, controller.errors)
            terminal.add_metric(label, controller.terminal_errors)
            times.add_metric(label, controller.times.cumulative(), controller.times.total)
            active.add_metric(label, controller.active)
            limit.add_metric(label, controller.concurrency)
        yield from (results, errors, terminal, times, active, limit)

    def _work_queues(self) -> Iterator[Metric]:
        depth = GaugeMetricFamily("workqueue_depth", "Keys that wait in the queue.", labels=[*_QUEUE, "priority"])
        adds = CounterMetricFamily("workqueue_adds", "Keys added to the queue.", labels=_QUEUE)
        retries = CounterMetricFamily("workqueue_retries", "Keys added with a delay.", labels=_QUEUE)
        waited = HistogramMetricFamily(
            "workqueue_queue_duration_seconds", "How long keys wait before they are worked on.", labels=_QUEUE
        )
        worked = HistogramMetricFamily(
            "workqueue_work_duration_seconds", "How long work on a key takes.", labels=_QUEUE
        )
        unfinished = GaugeMetricFamily(
            "workqueue_unfinished_work_seconds", "Seconds that work in progress has taken, summed.", labels=_QUEUE
        )
        longest = GaugeMetricFamily(
            "workqueue_longest_running_processor_seconds",
            "Seconds that the longest work in progress has taken.",
            labels=_QUEUE,
        )
        for controller in self._controllers:
            queue, label = controller.queue, [controller.name, controller.name]
            total, oldest = queue.unfinished()
            depth.add_metric([*label, "0"], len(queue))
            adds.add_metric(label, queue.adds)
            retries.add_metric(label, queue.retries)
            waited.add_metric(label, queue.queue_duration.cumulative(), queue.queue_duration.total)
            worked.add_metric(label, queue.work_duration.cumulative(), queue.work_duration.total)
            unfinished.add_metric(label, total)
            longest.add_metric(label, oldest)
        yield from (depth, adds, retries, waited, worked, unfinished, longest)

    def _requests(self) -> Metric:
        family = CounterMetricFamily(
            "rest_client_requests", "Requests to the API server.", labels=["code", "method", "host"]
        )
        for (code, method), count in sorted(self._api.requests.items()):
            family.add_metric([code, method, self._api.host], count)
        return family

    def _request_times(self) -> Iterator[Metric]:
        latency = HistogramMetricFamily(
            "rest_client_request_duration_seconds",
            "Length of requests to the API server, the client's rate limit included.",
            labels=["verb", "host"],
        )
        throttled = HistogramMetricFamily(
            "rest_client_rate_limiter_duration_seconds",
            "What of it was the wait for the client's rate limit.",
            labels=["verb", "host"],
        )
        for family, found in ((latency, self._api.latency), (throttled, self._api.throttled)):
            for verb, histogram in found.items():
                family.add_metric([verb, self._api.host], histogram.cumulative(), histogram.total)
            yield family

    def _status_conflicts(self) -> Metric:
        family = CounterMetricFamily(
            "grove_operator_status_update_conflict",
            "Status writes refused because the object had changed, by the kind written.",
            labels=["controller", "target_kind"],
        )
        for controller in self._controllers:
            for kind in TARGET_KINDS:
                if controller.status_conflicts[kind] or not self._lazy:
                    family.add_metric([controller.name, kind], controller.status_conflicts[kind])
        return family

    def _reconcile_errors(self) -> Metric:
        family = CounterMetricFamily(
            "grove_operator_reconcile_errors",
            "Reconciliations that failed, by what ended them.",
            labels=["controller", "error_type"],
        )
        for controller in self._controllers:
            for kind in ERROR_TYPES:
                if controller.error_types[kind] or not self._lazy:
                    family.add_metric([controller.name, kind], controller.error_types[kind])
        return family


def registry(controllers: Sequence[Controller], api: ApiClient, defects: Defects = NO_DEFECTS) -> CollectorRegistry:
    """Return a registry with the operator's families and process_*."""
    found = CollectorRegistry(auto_describe=False)
    found.register(OperatorCollector(controllers, api, defects))
    ProcessCollector(registry=found)
    return found


def render(found: CollectorRegistry) -> bytes:
    """Return the text exposition format."""
    return generate_latest(found)
