"""A run's panels as a Grafana dashboard: JSON in Grafana's import and export format.

Its model: https://grafana.com/docs/grafana/latest/dashboards/build-dashboards/view-dashboard-json-model/.
"""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

from .panels import Panel, Query, Row

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
            yield _panel(panel, number, place, interval_s)
        y += -(-len(row.panels) // (_COLUMNS // _WIDTH)) * _HEIGHT


def _panel(panel: Panel, number: int, place: dict[str, int], interval_s: float) -> dict[str, Any]:
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
