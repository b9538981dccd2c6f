"""Scripts and styles of a page, from the files beside this one.

``vendor/`` holds published builds of third-party libraries, unchanged; ``VENDORED.md`` there lists them.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

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
