"""Templates of the pages, and what a page holds beside its text: scripts, styles, and data embedded in it.

``vendor/`` holds published builds of third-party libraries, unchanged; ``VENDORED.md`` there lists them.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import math
import sys
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.util import cache_from_source
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jinja2
import msgspec

from ...analysis.bottlenecks.attribution import ACROSS, AT_MOST
from ...analysis.phase_result import CpuResult, PhaseResult
from ...analysis.result import TestResult
from ...analysis.timeline import Timeline
from ...checks.check import headline
from .. import (
    bottleneck_table,
    checks_table,
    comparison_table,
    cycles_table,
    document,
    findings_table,
    format,
    idle_table,
    metric_table,
    summary,
    traffic_table,
)
from ..comparison_table import SINGLE
from ..run_report import how_far, interval
from . import tiles
from .profiles import link

if TYPE_CHECKING:
    from ...analysis.comparison import MetricComparison

_ESCAPES = {
    "<": "\\u003c",
    ">": "\\u003e",
    "&": "\\u0026",
    "\u2028": "\\u2028",
    "\u2029": "\\u2029",
}
"""Characters that occur only inside strings in JSON, where their escapes mean the same."""


def json_block(data: Any) -> str:
    """Return data as JSON for a ``<script type="application/json">`` element.

    A string that holds ``</script>`` or ``<!--`` ends or opens nothing: neither sign is left (HTML standard, 4.12.1.3).
    """
    text = msgspec.json.encode(data).decode()
    for sign, escape in _ESCAPES.items():
        text = text.replace(sign, escape)
    return text


def csp_hash(script: str) -> str:
    """Return the source expression by which a Content-Security-Policy allows this one inline script."""
    digest = hashlib.sha256(script.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


HERE = Path(__file__).parent
VENDOR = HERE / "vendor"
STATIC = HERE / "static"

D3 = (
    "d3-array",
    "d3-color",
    "d3-dispatch",
    "d3-ease",
    "d3-format",
    "d3-hierarchy",
    "d3-interpolate",
    "d3-selection",
    "d3-time",
    "d3-time-format",
    "d3-timer",
    "d3-scale",
    "d3-transition",
)
"""In dependency order: the modules that d3-flame-graph needs, and their dependencies."""

CHARTS = (VENDOR / "uplot" / "uPlot.iife.min.js",)
FLAMES = (
    *(VENDOR / name / f"{name}.min.js" for name in D3),
    VENDOR / "d3-flame-graph" / "d3-flamegraph.umd.min.js",
)
OWN = tuple(
    STATIC / f"{name}.js"
    for name in ("elements", "words", "theme", "tables", "charts", "scaling", "flames", "functions", "page")
)
"""This project's own script, in parts that share one scope."""

STYLES = (VENDOR / "uplot" / "uPlot.min.css", STATIC / "report.css", STATIC / "scaling.css")


@cache
def scripts(*, charts: bool, flames: bool) -> tuple[str, ...]:
    """Return the scripts of a page in the order in which they run; only those libraries that it uses."""
    libraries = (*(CHARTS if charts else ()), *(FLAMES if flames else ()))
    own = "\n".join(_script(path) for path in OWN)
    return (*(_script(path) for path in libraries), f'"use strict";\n{{\n{own}}}')


@cache
def styles() -> str:
    """Return all styles of a page."""
    return "\n".join(path.read_text(encoding="utf-8") for path in STYLES)


def _script(path: Path) -> str:
    text = path.read_text(encoding="utf-8")
    # The browser ends an inline script here, wherever it occurs; no file contains it, which a test checks.
    if "</script" in text.lower() or "<!--" in text:
        raise ValueError(f"{path} cannot stand inside a page")
    return text


COLOURS = 9
"""Distinct colours of lines on a page; further ones are dashed."""

_PROCESSES = ("operator", "kube-apiserver", "etcd", "kube-scheduler", "kwok", "kube-controller-manager", "harness")
"""Processes with the same colour on every page."""

MAX_LATE = 100
MAX_LINES = 200
"""Late objects and log lines on a page, of each kind; all of them are in the recording."""


class _Compiled(jinja2.FileSystemBytecodeCache):
    """Compiled templates, where Python keeps this module's bytecode: it takes longer to compile them than to analyse a
    small run. Where there can be none, as in a read-only installation, they are compiled each time."""

    def __init__(self) -> None:
        super().__init__(str(Path(cache_from_source(__file__)).parent), "%s.jinja")
        self._compiled_for = Path(__file__).read_text(encoding="utf-8")

    def get_source_checksum(self, source: str) -> str:
        # The settings below are part of the compiled code.
        return super().get_source_checksum(self._compiled_for + source)

    def dump_bytecode(self, bucket: jinja2.bccache.Bucket) -> None:
        if not sys.dont_write_bytecode:
            with contextlib.suppress(OSError):
                super().dump_bytecode(bucket)


@cache
def environment() -> jinja2.Environment:
    """Return the templates' environment: everything is escaped, and an undefined name is an error."""
    found = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE / "templates"),
        bytecode_cache=_Compiled(),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown,
    )
    found.filters |= {
        "seconds": format.seconds,
        "bytes": format.bytes_,
        "percent": format.percent,
        "count": format.count,
        "ms": format.milliseconds,
        "three": format.three,
        "figure": format.figure,
        "suspect": bottleneck_table.NAMES.__getitem__,
        "incident": summary.INCIDENTS.__getitem__,
    }
    found.globals |= {
        "NONE": format.NONE,
        "COLOURS": COLOURS,
        "MAX_LATE": MAX_LATE,
        "MAX_LINES": MAX_LINES,
        "answer": tiles.answer,
        "tones": tiles.TONES,
        "tiles": tiles.tiles,
        "strip": tiles.strip,
        "against_of": tiles.against_of,
        "SINGLE": SINGLE.replace("`", ""),
        "headline": headline,
        "by_verdict": checks_table.by_verdict,
        "sums": checks_table.sums,
        "finding_sums": findings_table.sums,
        "not_looked_for": findings_table.not_looked_for,
        "ACROSS": ACROSS,
        "AT_MOST": AT_MOST,
        "how_far": how_far,
        "html": document.html,
        "all_workers": bottleneck_table.all_workers,
        "cycles": cycles_table.cycles,
        "endpoints": metric_table.endpoints,
        "families": metric_table.families,
        "faults": traffic_table.faults,
        "idle": idle_table.idle,
        "own_count": traffic_table.own_count,
        "per_object": traffic_table.per_object,
        "noop_lines": summary.noop_lines,
        "work_alone": comparison_table.work_alone,
        "interval": interval,
        "cpu_cell": summary.cpu_cell,
        "scraped_note": summary.scraped_note,
        "processes": processes,
        "cpu_of": cpu_of,
        "not_measured": not_measured,
        "fact": format.fact,
        "values": format.fact_values,
        "link": link,
        "change": comparison_table.ratio,
        "legend": comparison_table.legend,
        "span_of": span_of,
        "dominating": traffic_table.dominating,
        "evidence_heading": bottleneck_table.heading,
        "stack_lines": bottleneck_table.stack_lines,
    }
    return found


def _shown(value: Any) -> Any:
    """Return text without control characters: names, messages and log lines are foreign text."""
    return format.plain(value) if type(value) is str else value


def colours_of(tests: Iterable[tuple[TestResult, Timeline | None]]) -> dict[str, int]:
    """Return the colour of each process and identity on a page, by its name: one for all charts and tables."""
    names: dict[str, None] = dict.fromkeys(_PROCESSES)
    for test, timeline in tests:
        names |= dict.fromkeys(processes(test.phases))
        names |= dict.fromkeys(target.target for target in test.metrics)
        if timeline is not None:
            names |= dict.fromkeys(bins.name for bins in timeline.cores)
            names |= dict.fromkeys(row.identity for row in timeline.requests)
    return {name: number for number, name in enumerate(names)}


def processes(phases: Sequence[PhaseResult]) -> list[str]:
    """Return the processes of a test, the operator first, then by CPU."""
    total: dict[str, float] = {}
    for phase in phases:
        for row in phase.cpu:
            total[row.process] = total.get(row.process, 0.0) + row.seconds
    return sorted(total, key=lambda name: (name != "operator", -total[name], name))


def not_measured(phases: Sequence[PhaseResult]) -> list[tuple[str, list[str], str]]:
    """Return (figure, phases, why) of all figures that were not measured: once where several phases share a reason."""
    found: dict[tuple[str, str], list[str]] = {}
    for phase in phases:
        for what, why in phase.missing.items():
            found.setdefault((what, why), []).append(phase.name)
    return [(what, names, why) for (what, why), names in found.items()]


def cpu_of(phase: PhaseResult, process: str) -> CpuResult | None:
    """Return a process's row of a phase; None where it was not measured."""
    return next((row for row in phase.cpu if row.process == process), None)


class Span(msgspec.Struct, frozen=True):
    """Position of a ratio and its interval on a logarithmic axis, in percent of its width."""

    low: float
    width: float
    at: float


_REACHES = (1.25, 2.0, 4.0, 16.0)


def reach_of(metrics: Iterable[MetricComparison]) -> float | None:
    """Return the end of the ratio axis, which spans 1 / reach to reach; None when no metric has an interval."""
    intervals = [(metric.low, metric.high) for metric in metrics if metric.low and metric.high]
    if not intervals:
        return None
    largest = max(max(1 / low, high) for low, high in intervals)
    return next((reach for reach in _REACHES if largest <= reach), _REACHES[-1])


def span_of(metric: MetricComparison, reach: float | None) -> Span | None:
    """Return the position of a metric's interval; None where there is none, or an end of it is no ratio."""
    if reach is None or not (metric.low and metric.ratio and metric.high):
        return None
    low, at, high = (_place(ratio, reach) for ratio in (metric.low, metric.ratio, metric.high))
    return Span(low, max(round(high - low, 2), 0.5), at)


def _place(ratio: float, reach: float) -> float:
    return round(min(100.0, max(0.0, 50 + 50 * math.log(ratio) / math.log(reach))), 2)
