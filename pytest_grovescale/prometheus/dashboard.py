"""A run's dashboard: panels with their queries, as JSON in Grafana's import and export format.

Its model: https://grafana.com/docs/grafana/latest/dashboards/build-dashboards/view-dashboard-json-model/.
"""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from ..exposition.families import LIBRARIES
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


SCHEMA_VERSION = 39
"""Schema version of Grafana 10.4: later versions migrate it at import."""

_COLUMNS = 24
_WIDTH = 8
_HEIGHT = 8
_MARGIN_MS = 5_000
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}


def dashboard(
    rows: Sequence[Row], *, title: str, run: str, began: float, ended: float, interval_s: float
) -> dict[str, Any]:
    """Return the dashboard of one test of a run, with the time range ``began`` to ``ended`` (Unix time, s)."""
    return {
        "uid": hashlib.sha256(f"{run} {title}".encode()).hexdigest()[:24],
        "title": title,
        "description": f"Run {run} of pytest-grovescale.",
        "tags": ["grovescale"],
        "schemaVersion": SCHEMA_VERSION,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "timezone": "browser",
        "refresh": "",
        "time": {"from": _iso(began * 1000 - _MARGIN_MS), "to": _iso(ended * 1000 + _MARGIN_MS)},
        "templating": {"list": [_source_variable()]},
        "annotations": {"list": []},
        "links": [],
        "panels": list(_placed(rows, interval_s)),
    }


def _iso(milliseconds: float) -> str:
    at = datetime.datetime.fromtimestamp(milliseconds / 1000, datetime.UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _source_variable() -> dict[str, Any]:
    """Return the variable that selects the data source: its name differs between Grafana installations."""
    return {
        "name": "datasource",
        "label": "Prometheus",
        "type": "datasource",
        "query": "prometheus",
        "hide": 0,
        "includeAll": False,
        "multi": False,
        "refresh": 1,
        "regex": "",
    }


def _placed(rows: Iterable[Row], interval_s: float) -> Iterable[dict[str, Any]]:
    number, y = 0, 0
    for row in rows:
        number += 1
        place = {"h": 1, "w": _COLUMNS, "x": 0, "y": y}
        yield {"id": number, "type": "row", "title": row.title, "collapsed": False, "gridPos": place, "panels": []}
        y += 1
        for index, panel in enumerate(row.panels):
            number += 1
            line, column = divmod(index, _COLUMNS // _WIDTH)
            place = {"h": _HEIGHT, "w": _WIDTH, "x": column * _WIDTH, "y": y + line * _HEIGHT}
            yield _grafana_panel(panel, number, place, interval_s)
        y += -(-len(row.panels) // (_COLUMNS // _WIDTH)) * _HEIGHT


def _grafana_panel(panel: Panel, number: int, place: dict[str, int], interval_s: float) -> dict[str, Any]:
    return {
        "id": number,
        "type": "timeseries",
        "title": panel.title,
        "description": panel.description,
        "gridPos": place,
        "datasource": _SOURCE,
        "targets": [_target(query, "ABCDEFGH"[index], interval_s) for index, query in enumerate(panel.queries)],
        "fieldConfig": {
            "defaults": {"unit": panel.unit, "custom": {"drawStyle": "line", "showPoints": "auto"}},
            "overrides": [],
        },
        "options": {
            "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True, "calcs": []},
            "tooltip": {"mode": "multi", "sort": "desc"},
        },
    }


def _target(query: Query, name: str, interval_s: float) -> dict[str, Any]:
    return {
        "refId": name,
        "datasource": _SOURCE,
        "editorMode": "code",
        "expr": query.expr,
        "legendFormat": query.legend,
        # Grafana computes $__rate_interval from it.
        "interval": f"{round(interval_s * 1000)}ms",
        "range": True,
        "instant": False,
    }
