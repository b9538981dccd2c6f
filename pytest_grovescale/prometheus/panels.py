"""Panels of a run's dashboard: one panel per question, each with its queries."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import msgspec

from ..exposition.libraries import LIBRARIES
from .api import Metadata

WINDOW = "$__rate_interval"
"""Grafana's own variable: at least four scrape intervals."""


class Query(msgspec.Struct, frozen=True):
    """One query of a panel."""

    expr: str
    legend: str = "__auto"
    """Label template, ``{{controller}}``; ``__auto``: Grafana chooses."""


class Panel(msgspec.Struct, frozen=True):
    """One panel. ``family``: the panel is omitted without data of this metric family."""

    title: str
    family: str
    unit: str
    queries: tuple[Query, ...]
    description: str = ""


class Row(msgspec.Struct, frozen=True):
    """Panels under one heading."""

    title: str
    panels: tuple[Panel, ...]


def _rate(family: str, by: str, legend: str) -> Query:
    return Query(f"sum by ({by}) (rate({family}[{WINDOW}]))", legend)


def _quantiles(family: str, by: str) -> tuple[Query, ...]:
    legend = " ".join(f"{{{{{label}}}}}" for label in by.split(", ") if label)
    inner = ", ".join(filter(None, ["le", by]))
    return tuple(
        Query(
            f"histogram_quantile({quantile}, sum by ({inner}) (rate({family}_bucket[{WINDOW}])))",
            f"p{round(quantile * 100)} {legend}".strip(),
        )
        for quantile in (0.5, 0.99)
    )


_RECONCILES = "controller_runtime_reconcile"
_BUILT_IN = (
    Row(
        "Reconciles",
        (
            Panel("Reconciles", f"{_RECONCILES}_total", "ops", (
                _rate(f"{_RECONCILES}_total", "controller, result", "{{controller}} {{result}}"),
            )),
            Panel("Reconcile errors", f"{_RECONCILES}_errors_total", "ops", (
                _rate(f"{_RECONCILES}_errors_total", "controller", "{{controller}}"),
            )),
            Panel("Time of a reconcile", f"{_RECONCILES}_time_seconds", "s",
                  _quantiles(f"{_RECONCILES}_time_seconds", "controller")),
            Panel("Busy workers", "controller_runtime_active_workers", "short", (
                Query("sum by (controller) (controller_runtime_active_workers)", "{{controller}}"),
                Query("sum by (controller) (controller_runtime_max_concurrent_reconciles)", "{{controller}} max"),
            ), "All of them busy while the queue does not get shorter: they wait for something."),
        ),
    ),
    Row(
        "Work queues",
        (
            Panel("Depth", "workqueue_depth", "short", (Query("sum by (name) (workqueue_depth)", "{{name}}"),)),
            Panel("Adds", "workqueue_adds_total", "ops", (_rate("workqueue_adds_total", "name", "{{name}}"),)),
            Panel("Wait in the queue", "workqueue_queue_duration_seconds", "s",
                  _quantiles("workqueue_queue_duration_seconds", "name")),
            Panel("Retries", "workqueue_retries_total", "ops", (
                _rate("workqueue_retries_total", "name", "{{name}}"),
            )),
            Panel("Unfinished work", "workqueue_unfinished_work_seconds", "s", (
                Query("sum by (name) (workqueue_unfinished_work_seconds)", "{{name}}"),
            ), "Seconds of work in progress, over all workers: it grows by 1 s a second for each that waits."),
        ),
    ),
    Row(
        "API requests",
        (
            Panel("Requests", "rest_client_requests_total", "reqps", (
                _rate("rest_client_requests_total", "job, method, code", "{{job}} {{method}} {{code}}"),
            )),
            Panel("Time of a request", "rest_client_request_duration_seconds", "s",
                  _quantiles("rest_client_request_duration_seconds", "job, verb")),
            Panel("Wait for the client's own limit", "rest_client_rate_limiter_duration_seconds", "s",
                  _quantiles("rest_client_rate_limiter_duration_seconds", "job")),
        ),
    ),
    Row(
        "Processes",
        (
            Panel("CPU", "process_cpu_seconds_total", "short", (
                _rate("process_cpu_seconds_total", "job", "{{job}}"),
            ), "Cores."),
            Panel("Resident memory", "process_resident_memory_bytes", "bytes", (
                Query("sum by (job) (process_resident_memory_bytes)", "{{job}}"),
            )),
            Panel("Goroutines", "go_goroutines", "short", (Query("sum by (job) (go_goroutines)", "{{job}}"),)),
        ),
    ),
)  # fmt: skip
_SCRAPES = Row(
    "Scrapes",
    (
        Panel("Up", "up", "short", (Query("min by (job) (up)", "{{job}}"),)),
        Panel("Series", "scrape_samples_scraped", "short", (
            Query("sum by (job) (scrape_samples_post_metric_relabeling)", "{{job}}"),
        )),
        Panel("Time of a scrape", "scrape_duration_seconds", "s", (
            Query("max by (job) (scrape_duration_seconds)", "{{job}}"),
        )),
    ),
)  # fmt: skip
_NOT_OWN = (*LIBRARIES, "scrape_")  # scrape_: added by Prometheus to each target
_UNITS = {"seconds": "s", "bytes": "bytes", "ratio": "percentunit"}


def rows(metadata: Mapping[str, Metadata], names: Collection[str], *, own: bool = True) -> list[Row]:
    """Return the panels that have data.

    ``names``: of the metrics with samples. ``own``: also a panel for each family that is not a library's; ``metadata``
    has their types.
    """
    found = []
    for row in (_SCRAPES, *_BUILT_IN):
        if panels := tuple(panel for panel in row.panels if _is_there(panel.family, names)):
            found.append(Row(row.title, panels))
    if own and (panels := tuple(_own(metadata, names))):
        found.insert(0, Row("The operator's own metrics", panels))
    return found


def _is_there(family: str, names: Collection[str]) -> bool:
    return family in names or f"{family}_bucket" in names


def _own(families: Mapping[str, Metadata], names: Collection[str]) -> Iterable[Panel]:
    for family, metadata in sorted(families.items()):
        # OpenMetrics names a counter's family without the suffix of its samples.
        name = f"{family}_total" if metadata.type == "counter" and not family.endswith("_total") else family
        if name.startswith(_NOT_OWN) or not _is_there(name, names):
            continue
        match metadata.type:
            case "counter":
                yield _panel(name, metadata, "ops", Query(f"sum without (instance) (rate({name}[{WINDOW}]))"))
            case "gauge" | "unknown" | "untyped":
                yield _panel(name, metadata, _unit(name), Query(f"sum without (instance) ({name})"))
            case "histogram":
                yield _panel(name, metadata, _unit(name), *_quantiles(name, ""))
            case _:
                # Summaries and infos have no single value for a panel.
                continue


def _panel(name: str, metadata: Metadata, unit: str, *queries: Query) -> Panel:
    return Panel(name, name, unit, queries, metadata.help)


def _unit(name: str) -> str:
    return _UNITS.get(name.rpartition("_")[2], "short")
